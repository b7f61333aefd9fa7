//! The Secret of a release that holds its record, where its status can't.

use kube::Client;

use super::error::Result;
use super::secrets::{self, Files, Form, Place};
use crate::plan::record::secret::{Found, Packed};

/// The Secret's type.
pub const SECRET_TYPE: &str = "chartwright.dev/record";
const FILE: &str = "record.json.gz";
/// What an earlier version wrote.
const UNPACKED_FILE: &str = "record.json";

/// More than an earlier version ever wrote: a number that somebody forged must not keep us busy for ever.
const MAX_SECRETS: usize = 64;

/// The record of one custom resource: `chartwright-record-<uid>-0`.
pub struct RecordSecret<'a> {
    pub client: &'a Client,
    pub namespace: String,
    pub uid: &'a str,
    /// Names the release, for people who come across it.
    pub about: String,
}

impl RecordSecret<'_> {
    fn place(&self, number: usize) -> Place {
        Place {
            namespace: self.namespace.clone(),
            name: format!("chartwright-record-{}-{number}", self.uid),
        }
    }

    /// What is stored.
    ///
    /// # Errors
    /// If the Secret can't be read.
    pub async fn load(&self) -> Result<Found> {
        let Some((mut files, _)) = secrets::read(self.client, &self.place(0)).await? else {
            return Ok(Found::Nothing);
        };
        let file = files.remove(FILE).or_else(|| files.remove(UNPACKED_FILE));
        Ok(Found::read(&file.unwrap_or_default(), self.uid))
    }

    /// Writes a record, whatever is there. `known`: how many Secrets there are, if an earlier version wrote several.
    ///
    /// # Errors
    /// Also if it is too long for a Secret, which has room for more than 10,000 members.
    pub async fn save(&self, packed: &Packed, known: usize) -> Result<()> {
        let form = Form {
            kind: SECRET_TYPE,
            what: "the record of the release",
            about: &self.about,
            uid: Some(self.uid),
        };
        let files = Files::from([(FILE.to_owned(), packed.bytes())]);
        secrets::write(self.client, &self.place(0), files, &form, None).await?;
        self.remove_from(1, known).await
    }

    /// Removes it, of as many Secrets as are known.
    ///
    /// # Errors
    /// If one of them can't be removed.
    pub async fn remove(&self, known: usize) -> Result<()> {
        self.remove_from(0, known).await
    }

    /// The first one last, which tells that there are others.
    async fn remove_from(&self, first: usize, known: usize) -> Result<()> {
        for number in (first..known.min(MAX_SECRETS)).rev() {
            secrets::remove(self.client, &self.place(number)).await?;
        }
        Ok(())
    }
}
