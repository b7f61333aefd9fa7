//! OwnedMetadata the custom resource with all kinds and namespaces of its members before the first write to one of them.

pub(crate) mod decorator;
pub(crate) mod member_scopes;
