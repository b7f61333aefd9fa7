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
use crate::telemetry::metrics::WriteOperation;
use chartwright_core::digest::{self, KeyUse};
use chartwright_core::identity::reserved_names;
use chartwright_core::record::secret::{pack, unpack};

const CONTENT: &str = "content.json.gz";

const SIGNATURE: &str = "signature";

/// What a Secret of a release is for.
pub(crate) struct SecretPurpose {
    /// How the Secret's name begins: one of [`chartwright_core::identity::reserved_names`].
    pub prefix: &'static str,
    /// Its type. No other controller uses this type.
    pub kind: &'static str,
    /// What it holds, for messages.
    pub what: &'static str,
    /// True if the Secret has an owner reference to the decorated object, so that the garbage collector removes it even
    /// if no operator runs.
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

/// Holds the record of a release whose status cannot hold it.
pub(crate) const RECORD: SecretPurpose = SecretPurpose {
    prefix: reserved_names::RECORD,
    kind: "chartwright.dev/record",
    what: "the record of the release",
    is_owned: true,
};

/// The content of a Secret, as far as the operator wrote it.
#[derive(Default)]
pub(crate) struct SignedContent {
    /// The files that the operator wrote. `None` if the Secret is absent or another client changed it.
    pub files: Option<Files>,
    /// The version of the Secret, also of one that another client wrote.
    pub version: Option<String>,
    /// The key that signed the files.
    pub signer: Option<String>,
}

impl Context {
    /// The name of a Secret, in the namespace of the custom resource: the release's namespace may not exist yet.
    /// `suffix` distinguishes several Secrets of one purpose.
    pub(crate) fn secret_name(&self, resource: &CustomResource, purpose: &SecretPurpose, suffix: &str) -> SecretName {
        let namespace = match resource.key.namespace.as_str() {
            "" => &self.settings.own_namespace,
            own => own,
        };
        SecretName {
            namespace: namespace.to_owned(),
            name: format!("{}-{}{suffix}", purpose.prefix, resource.secret_id()),
        }
    }

    /// Reads a Secret and checks its mark and signature.
    pub(crate) async fn read_signed_files(
        &self,
        resource: &CustomResource,
        place: &SecretName,
    ) -> Result<SignedContent> {
        let Some(stored) = secrets::read(&self.client, place).await? else {
            return Ok(SignedContent::default());
        };
        let is_own = self.is_signed_by_operator(resource, place, &stored);
        if !is_own {
            tracing::warn!(resource = %resource.key, "{place} was not written by the operator or was changed since; its content is ignored");
        }
        let version = Some(stored.version);
        let mut files = stored.files;
        let signature = files.remove(SIGNATURE).filter(|_| is_own).unwrap_or_default();
        let signer = str::from_utf8(&signature).ok().and_then(digest::signer);
        Ok(SignedContent {
            signer: signer.map(str::to_owned),
            files: is_own.then_some(files),
            version,
        })
    }

    fn is_signed_by_operator(&self, resource: &CustomResource, place: &SecretName, stored: &StoredSecret) -> bool {
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

/// The signed bytes: the UID of the custom resource, the name of the Secret, and its files.
fn parts<'a>(resource: &'a CustomResource, place: &'a SecretName, files: &'a Files) -> Vec<&'a [u8]> {
    let head = ["Secret", &resource.uid, &place.namespace, &place.name].map(str::as_bytes);
    let files = files.iter().filter(|(name, _)| *name != SIGNATURE);
    let files = files.flat_map(|(name, bytes)| [name.as_bytes(), bytes]);
    head.into_iter().chain(files).collect()
}

/// Reads and writes the signed Secrets of a release.
pub(crate) struct SignedSecrets<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> SignedSecrets<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        SignedSecrets { scope }
    }
}

impl SignedSecrets<'_> {
    pub(crate) fn secret_name(&self, purpose: &SecretPurpose, suffix: &str) -> SecretName {
        self.scope.context.secret_name(&self.scope.written, purpose, suffix)
    }

    /// Replaces the files in this version of the Secret, or with `None` in any version. Returns the new version.
    pub(crate) async fn write_signed_files(
        &self,
        purpose: &SecretPurpose,
        suffix: &str,
        mut files: Files,
        version: Option<&str>,
    ) -> Result<String> {
        let place = self.secret_name(purpose, suffix);
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
        self.scope
            .context
            .metrics
            .objects
            .wrote("Secret", WriteOperation::Apply);
        Ok(version)
    }

    pub(crate) async fn read_signed_files(&self, purpose: &SecretPurpose, suffix: &str) -> Result<SignedContent> {
        let place = self.secret_name(purpose, suffix);
        self.scope.context.read_signed_files(&self.scope.written, &place).await
    }

    /// Writes `content` as one signed file.
    pub(crate) async fn write_signed(
        &self,
        purpose: &SecretPurpose,
        suffix: &str,
        content: &impl Serialize,
    ) -> Result<()> {
        // Our own types always serialize.
        let content = pack(&serde_json::to_vec(content).unwrap_or_default());
        let files = Files::from([(CONTENT.to_owned(), content)]);
        self.write_signed_files(purpose, suffix, files, None).await.map(drop)
    }

    /// Reads what [`SignedSecrets::write_signed`] wrote. `None` if the Secret is absent or another client changed it.
    pub(crate) async fn read_signed<T: DeserializeOwned>(
        &self,
        purpose: &SecretPurpose,
        suffix: &str,
    ) -> Result<Option<T>> {
        let found = self.read_signed_files(purpose, suffix).await?;
        Ok(found
            .files
            .and_then(|files| serde_json::from_slice(&unpack(files.get(CONTENT)?)?).ok()))
    }

    /// Signs the Secret again with the current key.
    pub(crate) async fn sign_again(&self, purpose: &SecretPurpose, suffix: &str) -> Result<()> {
        let found = self.read_signed_files(purpose, suffix).await?;
        if let Some(files) = found.files {
            self.write_signed_files(purpose, suffix, files, found.version.as_deref())
                .await?;
        }
        Ok(())
    }

    /// Removes the Secret if the operator wrote it.
    pub(crate) async fn remove_signed(&self, purpose: &SecretPurpose, suffix: &str) -> Result<()> {
        let place = self.secret_name(purpose, suffix);
        let is_own = |mark: &str| self.scope.context.is_marked(&self.scope.written, &place, mark);
        secrets::remove(&self.scope.context.client, &place, is_own).await?;
        Ok(())
    }
}

pub(crate) fn suffix(revision: i64) -> String {
    format!("-{revision}")
}
