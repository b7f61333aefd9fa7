//! The labels of metrics, and their values.

use std::borrow::Cow;
use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use sha2::{Digest, Sha256};

/// A label's value, in bytes; a name of Kubernetes has at most 253.
pub(super) const MAX_VALUE: usize = 253;

pub(super) type LabelPairs<const N: usize> = [(&'static str, String); N];

/// Identifies a release's gauge. Group and kind are shared: there may be ten thousand of these.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReleaseLabels {
    /// API group of the CR
    pub group: Arc<str>,
    /// kind of the CR
    pub kind: Arc<str>,
    /// namespace of the CR; empty for a cluster-scoped one
    pub namespace: String,
    /// name of the CR
    pub name: String,
}

/// A value of a label: one that is too long is cut, and ends with a digest of all of it.
pub(super) fn value(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_VALUE {
        return Cow::Borrowed(text);
    }
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(text)[..8]);
    let kept = text.floor_char_boundary(MAX_VALUE - digest.len() - 1);
    Cow::Owned(format!("{}-{digest}", &text[..kept]))
}

pub(super) fn kind_alone(kind: &str) -> LabelPairs<1> {
    [("kind", value(kind).into_owned())]
}

pub(super) fn group_and_kind(group: &str, kind: &str) -> LabelPairs<2> {
    [("group", group.to_owned()), ("kind", kind.to_owned())]
}

pub(in crate::telemetry) fn lower_case(label: impl std::fmt::Debug) -> String {
    format!("{label:?}").to_lowercase()
}
