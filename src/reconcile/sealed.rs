//! Objects of a release that are kept in Secrets for later: packed, and signed with the operator's key. Whoever may write
//! Secrets beside a custom resource must not have the operator apply what he may not make himself.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Run;
use super::kept;
use crate::cluster::error::Result;
use crate::cluster::secrets::{self, Files, Form, Place};
use crate::plan::record::secret::{pack, unpack};
use crate::telemetry::metrics::Operation;

const CONTENT: &str = "content.json.gz";
const SIGNATURE: &str = "signature";

/// What is kept for what.
pub(super) struct Purpose {
    /// How the Secret's name begins.
    pub prefix: &'static str,
    /// Its type.
    pub kind: &'static str,
    /// What it holds, for messages.
    pub what: &'static str,
}

impl Run<'_> {
    /// Where it is kept. `suffix`: which of several.
    pub(super) fn sealed_place(&self, purpose: &Purpose, suffix: &str) -> Place {
        Place {
            name: format!("{}-{}{suffix}", purpose.prefix, self.written.secret_id()),
            ..kept::place(self.context, &self.written)
        }
    }

    fn signature(&self, place: &Place, content: &[u8]) -> Vec<u8> {
        let parts = [self.written.uid.as_bytes(), place.name.as_bytes(), content];
        self.context.key.digest(&parts).into_bytes()
    }

    pub(super) async fn seal(&self, purpose: &Purpose, suffix: &str, content: &impl Serialize) -> Result<()> {
        let place = self.sealed_place(purpose, suffix);
        // Our own types are all JSON.
        let content = pack(&serde_json::to_vec(content).unwrap_or_default());
        let signature = self.signature(&place, &content);
        let files = Files::from([(CONTENT.to_owned(), content), (SIGNATURE.to_owned(), signature)]);
        let form = Form {
            kind: purpose.kind,
            what: purpose.what,
            about: &format!("{} {}", self.unit.group_kind, self.written.key),
            uid: Some(&self.written.uid),
            owner: None,
        };
        secrets::write(&self.context.client, &place, files, &form, None).await?;
        self.context.metrics.wrote("Secret", Operation::Apply);
        Ok(())
    }

    /// What is kept; `None` if it is lost, or not as it was written.
    pub(super) async fn unseal<T: DeserializeOwned>(&self, purpose: &Purpose, suffix: &str) -> Result<Option<T>> {
        let place = self.sealed_place(purpose, suffix);
        let found = secrets::read(&self.context.client, &place).await?;
        Ok(found.and_then(|(files, _)| {
            let content = files.get(CONTENT)?;
            let is_ours = files.get(SIGNATURE) == Some(&self.signature(&place, content));
            serde_json::from_slice(&unpack(content).filter(|_| is_ours)?).ok()
        }))
    }

    pub(super) async fn remove_sealed(&self, purpose: &Purpose, suffix: &str) -> Result<()> {
        secrets::remove(&self.context.client, &self.sealed_place(purpose, suffix)).await?;
        Ok(())
    }
}
