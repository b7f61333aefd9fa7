//! Secrets of a release beside its custom resource: the record where the status cannot hold it, random results, hooks,
//! steps of plans, renders. A user with write access to these Secrets must not make the operator apply or delete other
//! objects. So each Secret carries a mark with its owner and a signature of its content, both made with the operator's
//! key. Secrets without them are neither believed nor deleted.
//!
//! A Secret of the operator's own type with another mark is overwritten: its name has the UID of the custom resource,
//! so it is forged, or made with a lost key, and would block the release.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::cluster::error::Result;
use crate::cluster::storage::secrets::{self, Files, SecretName, SecretSpec, StoredSecret};
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::scope::ReleaseScope;
use crate::telemetry::metrics::Operation;
use chartwright_core::digest::{self, KeyUse};
use chartwright_core::identity::reserved_names;
use chartwright_core::record::secret::{pack, unpack};

const CONTENT: &str = "content.json.gz";

const SIGNATURE: &str = "signature";

/// What is kept for what.
pub(crate) struct SecretPurpose {
    /// How the Secret's name begins: one of [`chartwright_core::identity::reserved_names`].
    pub prefix: &'static str,
    /// Its type: no other controller takes it for its own.
    pub kind: &'static str,
    /// What it holds, for messages.
    pub what: &'static str,
    /// It goes with what a decorator's release is attached to, where no operator may be there to remove it.
    pub is_owned: bool,
}

pub(crate) const RENDERS: SecretPurpose = SecretPurpose {
    prefix: reserved_names::RENDER,
    kind: "chartwright.dev/render",
    what: "the render of a revision",
    is_owned: false,
};

pub(crate) const PLAN_STEPS: SecretPurpose = SecretPurpose {
    prefix: reserved_names::PLAN,
    kind: "chartwright.dev/plan",
    what: "the steps of a plan",
    is_owned: false,
};

pub(crate) const DELETE_HOOKS: SecretPurpose = SecretPurpose {
    prefix: reserved_names::HOOKS,
    kind: "chartwright.dev/delete-hooks",
    what: "the hooks for the deletion",
    is_owned: false,
};

pub(crate) const GENERATED_VALUES: SecretPurpose = SecretPurpose {
    prefix: reserved_names::KEPT,
    kind: "chartwright.dev/kept-results",
    what: "the chart's random results",
    is_owned: true,
};

/// The Secret of a release that holds its record, where its status can't.
pub(crate) const RECORD: SecretPurpose = SecretPurpose {
    prefix: reserved_names::RECORD,
    kind: "chartwright.dev/record",
    what: "the record of the release",
    is_owned: true,
};

/// What was found in the place of a Secret.
#[derive(Default)]
pub(crate) struct SealedContent {
    /// As the operator wrote it; `None`: there is nothing that it wrote.
    pub files: Option<Files>,
    /// The version of the Secret, also of one that another client wrote.
    pub version: Option<String>,
    /// The key that signed the files.
    pub signer: Option<String>,
}

impl Context {
    /// Where something is kept: with the custom resource, so that it is there before the release's namespace is. `suffix`:
    /// which of several.
    pub(crate) fn sealed_place(&self, resource: &CustomResource, purpose: &SecretPurpose, suffix: &str) -> SecretName {
        let namespace = match resource.key.namespace.as_str() {
            "" => &self.settings.own_namespace,
            own => own,
        };
        SecretName {
            namespace: namespace.to_owned(),
            name: format!("{}-{}{suffix}", purpose.prefix, resource.secret_id()),
        }
    }

    /// Reads what is kept there.
    ///
    /// # Errors
    /// If the Secret can't be read.
    pub(crate) async fn load_sealed(&self, resource: &CustomResource, place: &SecretName) -> Result<SealedContent> {
        let Some(stored) = secrets::read(&self.client, place).await? else {
            return Ok(SealedContent::default());
        };
        let is_own = self.is_sealed(resource, place, &stored);
        if !is_own {
            tracing::warn!(resource = %resource.key, "{place} is not as the operator wrote it, and counts as lost");
        }
        let version = Some(stored.version);
        let mut files = stored.files;
        let signature = files.remove(SIGNATURE).filter(|_| is_own).unwrap_or_default();
        let signer = str::from_utf8(&signature).ok().and_then(digest::signer);
        Ok(SealedContent {
            signer: signer.map(str::to_owned),
            files: is_own.then_some(files),
            version,
        })
    }

    fn is_sealed(&self, resource: &CustomResource, place: &SecretName, stored: &StoredSecret) -> bool {
        let signature = stored.files.get(SIGNATURE).and_then(|bytes| str::from_utf8(bytes).ok());
        let content = parts(resource, place, &stored.files);
        self.is_marked(resource, place, stored.mark.as_deref().unwrap_or_default())
            && signature.is_some_and(|signature| self.keys.is_signed(KeyUse::Content, &content, signature))
    }

    fn is_marked(&self, resource: &CustomResource, place: &SecretName, mark: &str) -> bool {
        let parts = parts(resource, place, &NONE);
        self.keys.is_signed(KeyUse::Mark, &parts, mark)
    }
}

static NONE: Files = BTreeMap::new();

/// What is signed: whose it is, where it lies, and what it holds.
fn parts<'a>(resource: &'a CustomResource, place: &'a SecretName, files: &'a Files) -> Vec<&'a [u8]> {
    let head = ["Secret", &resource.uid, &place.namespace, &place.name].map(str::as_bytes);
    let files = files.iter().filter(|(name, _)| *name != SIGNATURE);
    let files = files.flat_map(|(name, bytes)| [name.as_bytes(), bytes]);
    head.into_iter().chain(files).collect()
}

/// Reads and writes the signed Secrets of a release.
pub(crate) struct SealedSecrets<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> SealedSecrets<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        SealedSecrets { scope }
    }
}

impl SealedSecrets<'_> {
    pub(crate) fn sealed_place(&self, purpose: &SecretPurpose, suffix: &str) -> SecretName {
        self.scope.context.sealed_place(&self.scope.written, purpose, suffix)
    }

    /// Replaces the files in this version of the Secret, or with `None` in any version. Returns the new version.
    ///
    /// # Errors
    /// As [`secrets::write`].
    pub(crate) async fn store_sealed(
        &self,
        purpose: &SecretPurpose,
        suffix: &str,
        mut files: Files,
        version: Option<&str>,
    ) -> Result<String> {
        let place = self.sealed_place(purpose, suffix);
        let (keys, resource) = (&self.scope.context.keys, &self.scope.written);
        let signature = keys.sign(KeyUse::Content, &parts(resource, &place, &files));
        files.insert(SIGNATURE.to_owned(), signature.into_bytes());
        let owner = resource.secrets_owner(&self.scope.unit.resource);
        let form = SecretSpec {
            kind: purpose.kind,
            what: purpose.what,
            about: &format!("{} {}", self.scope.unit.group_kind, resource.key),
            uid: &resource.uid,
            mark: keys.sign(KeyUse::Mark, &parts(resource, &place, &NONE)),
            owner: owner.filter(|_| purpose.is_owned),
        };
        let version = secrets::write(&self.scope.context.client, &place, files, &form, version).await?;
        self.scope.context.metrics.wrote("Secret", Operation::Apply);
        Ok(version)
    }

    pub(crate) async fn load_sealed(&self, purpose: &SecretPurpose, suffix: &str) -> Result<SealedContent> {
        let place = self.sealed_place(purpose, suffix);
        self.scope.context.load_sealed(&self.scope.written, &place).await
    }

    pub(crate) async fn seal(&self, purpose: &SecretPurpose, suffix: &str, content: &impl Serialize) -> Result<()> {
        // Our own types are all JSON.
        let content = pack(&serde_json::to_vec(content).unwrap_or_default());
        let files = Files::from([(CONTENT.to_owned(), content)]);
        self.store_sealed(purpose, suffix, files, None).await.map(drop)
    }

    /// What is kept; `None` if it is lost, or not as it was written.
    pub(crate) async fn unseal<T: DeserializeOwned>(&self, purpose: &SecretPurpose, suffix: &str) -> Result<Option<T>> {
        let found = self.load_sealed(purpose, suffix).await?;
        Ok(found
            .files
            .and_then(|files| serde_json::from_slice(&unpack(files.get(CONTENT)?)?).ok()))
    }

    /// Signs what is kept again, with the key that is in use now.
    ///
    /// # Errors
    /// If the Secret can't be read or written.
    pub(crate) async fn reseal(&self, purpose: &SecretPurpose, suffix: &str) -> Result<()> {
        let found = self.load_sealed(purpose, suffix).await?;
        if let Some(files) = found.files {
            self.store_sealed(purpose, suffix, files, found.version.as_deref())
                .await?;
        }
        Ok(())
    }

    /// Removes what is kept, if the operator wrote it.
    ///
    /// # Errors
    /// If it can't be removed.
    pub(crate) async fn remove_sealed(&self, purpose: &SecretPurpose, suffix: &str) -> Result<()> {
        let place = self.sealed_place(purpose, suffix);
        let is_own = |mark: &str| self.scope.context.is_marked(&self.scope.written, &place, mark);
        secrets::remove(&self.scope.context.client, &place, is_own).await?;
        Ok(())
    }
}

pub(crate) fn suffix(revision: i64) -> String {
    format!("-{revision}")
}
