//! The record of one member.

use serde::{Deserialize, Serialize};

use crate::drift::tolerated::ToleratedDrift;
use crate::identity::ObjectId;
use crate::members::desired::Member;
use crate::serde_helpers::hex;

/// One member, as last applied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entry {
    #[serde(flatten)]
    pub id: ObjectId,
    /// API version with which it was applied.
    pub version: String,
    /// UID of the member.
    #[serde(default)]
    pub uid: String,
    /// [Wave](annotations.md#waves) in which it was applied.
    #[serde(default)]
    pub wave: i32,
    /// Digest of the applied content. Empty after a failed apply.
    #[serde(default)]
    pub digest: String,
    /// Hash of the operator's `managedFields` entry, 16 hex digits. See [drift](../explanation/drift.md).
    #[serde(default, with = "hex", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub fingerprint: Option<u64>,
    /// A complete Job that its TTL removes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub finished: bool,
    /// The object existed before, and [`collisions: AdoptUnowned`](watches.md#collisions) let the release take it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// Drift that [stays](watches.md#drift).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Box<ToleratedDrift>>,
}

impl Entry {
    /// Of a member that is not applied yet.
    pub fn of(member: &Member) -> Self {
        Entry {
            id: member.id.clone(),
            version: member.version.clone(),
            uid: String::new(),
            wave: member.policy.wave,
            digest: String::new(),
            fingerprint: None,
            finished: false,
            adopted: false,
            drift: None,
        }
    }
}
