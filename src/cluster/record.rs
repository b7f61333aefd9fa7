//! The Secrets of a release that hold its record, where its status can't.

use super::discovery::Discovery;
use super::error::{Error, Result};
use super::secrets::{self, Files, Form, Place};
use crate::plan::parts::Store;

/// The Secrets' type.
pub const SECRET_TYPE: &str = "chartwright.dev/record";
const FILE: &str = "record.json";

/// The record of one custom resource: `chartwright-record-<uid>-<part>` in one namespace.
pub struct Secrets<'a> {
    pub discovery: &'a Discovery,
    pub namespace: &'a str,
    pub uid: &'a str,
    /// Names the release, for people who come across it.
    pub about: &'a str,
}

impl Secrets<'_> {
    pub fn place(&self, part: usize) -> Place {
        Place {
            namespace: self.namespace.to_owned(),
            name: format!("chartwright-record-{}-{part}", self.uid),
        }
    }
}

impl Store for Secrets<'_> {
    type Error = Error;

    async fn read(&self, part: usize) -> Result<Option<Vec<u8>>> {
        let found = secrets::read(self.discovery, &self.place(part)).await?;
        // One that holds something else is a part that nobody can read.
        Ok(found.map(|(mut files, _)| files.remove(FILE).unwrap_or_default()))
    }

    async fn write(&self, part: usize, bytes: Vec<u8>) -> Result<()> {
        let form = Form {
            kind: SECRET_TYPE,
            what: "the record of the release",
            about: self.about,
            uid: Some(self.uid),
        };
        let files = Files::from([(FILE.to_owned(), bytes)]);
        secrets::write(self.discovery, &self.place(part), files, &form, None).await?;
        Ok(())
    }

    async fn remove(&self, part: usize) -> Result<bool> {
        secrets::remove(self.discovery, &self.place(part)).await
    }
}
