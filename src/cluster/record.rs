//! The Secret of a release that holds its record, where its status can't.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;

use super::error::Result;
use super::secrets::{self, Files, Form, Place};
use crate::plan::record::secret::{Found, Packed};

/// The Secret's type.
pub const SECRET_TYPE: &str = "chartwright.dev/record";
const FILE: &str = "record.json.gz";

/// The record of one release: `chartwright-record-<uid>`.
pub struct RecordSecret<'a> {
    pub client: &'a Client,
    pub namespace: String,
    pub uid: &'a str,
    /// What its name ends with: the UID, unless there are several releases.
    pub id: String,
    /// What it goes with if nobody removes it.
    pub owner: Option<OwnerReference>,
    /// Names the release, for people who come across it.
    pub about: String,
}

impl RecordSecret<'_> {
    fn place(&self) -> Place {
        Place {
            namespace: self.namespace.clone(),
            name: format!("chartwright-record-{}", self.id),
        }
    }

    /// What is stored.
    ///
    /// # Errors
    /// If the Secret can't be read.
    pub async fn load(&self) -> Result<Found> {
        let stored = secrets::read(self.client, &self.place()).await?;
        let file = stored.and_then(|(mut files, _)| files.remove(FILE));
        Ok(file.map_or(Found::Nothing, |file| Found::read(&file, self.uid)))
    }

    /// Writes a record, whatever is there.
    ///
    /// # Errors
    /// Also if it is too long for a Secret, which has room for more than 10,000 members.
    pub async fn save(&self, packed: &Packed) -> Result<()> {
        let form = Form {
            kind: SECRET_TYPE,
            what: "the record of the release",
            about: &self.about,
            uid: Some(self.uid),
            owner: self.owner.clone(),
        };
        let files = Files::from([(FILE.to_owned(), packed.bytes())]);
        secrets::write(self.client, &self.place(), files, &form, None).await?;
        Ok(())
    }

    /// Removes it.
    ///
    /// # Errors
    /// If it can't be removed.
    pub async fn remove(&self) -> Result<()> {
        secrets::remove(self.client, &self.place()).await?;
        Ok(())
    }
}
