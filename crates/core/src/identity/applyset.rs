//! ApplySets (KEP-3659, as kubectl ships it) and the labels and annotations of our objects.
//!
//! A release is an ApplySet whose parent is the custom resource. Members carry the ApplySet's id as a label, so any client
//! can list them. The parent's annotations name the kinds and namespaces to list.

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::identity::GroupKind;

/// On a member: the id of its set.
pub const PART_OF_LABEL: &str = "applyset.kubernetes.io/part-of";
/// On a custom resource: the id of the set that it is the parent of.
pub const ID_LABEL: &str = "applyset.kubernetes.io/id";
/// On a custom resource: which tool manages the set, `<name>/<version>`.
pub const TOOLING_ANNOTATION: &str = "applyset.kubernetes.io/tooling";
/// On a custom resource: the kinds among its members, `Kind.group`, sorted, with commas. Empty: no members.
pub const KINDS_ANNOTATION: &str = "applyset.kubernetes.io/contains-group-kinds";
/// On a custom resource: the namespaces of its members besides its own, sorted, with commas.
pub const NAMESPACES_ANNOTATION: &str = "applyset.kubernetes.io/additional-namespaces";
/// On a member: the id of the operator that manages it, so that operators don't watch each other's members.
pub const OPERATOR_LABEL: &str = "chartwright.dev/operator";
/// On a member: whose it is and which object it is ([`tracking_id`]), so that copied labels prove nothing.
pub const TRACKING_ANNOTATION: &str = "chartwright.dev/tracking-id";
/// On an object that its release left behind because of `helm.sh/resource-policy: keep`: the ApplySet id of the release. A release of the
/// same kind, namespace and name takes the object up again.
pub const KEPT_ANNOTATION: &str = "chartwright.dev/kept-from";
/// On a member: the digest of what was applied. Two operators of one name own the same fields; this shows whose content
/// it is, even within the second that `managedFields` can distinguish.
pub const DIGEST_ANNOTATION: &str = "chartwright.dev/applied-digest";
/// On a custom resource: keeps it until its members are gone.
pub const FINALIZER: &str = "chartwright.dev/release";

/// The base name in [`tooling`].
const TOOL: &str = "chartwright";

/// A tracking id, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// UID of the custom resource.
    pub owner_uid: String,
    pub group_kind: GroupKind,
    /// Empty for a cluster-scoped member.
    pub namespace: String,
    pub name: String,
}

/// The id of the set whose parent is this object; `namespace` is empty for a cluster-scoped parent. 55 characters.
///
/// `applyset-` + base64url(sha256(`<name>.<namespace>.<kind>.<group>`)) without padding + `-v1`, as in kubectl's
/// `ApplySet.ID`. The version of the kind is no part of it.
pub fn id(name: &str, namespace: &str, kind: &str, group: &str) -> String {
    let hash = Sha256::digest(format!("{name}.{namespace}.{kind}.{group}"));
    format!("applyset-{}-v1", data_encoding::BASE64URL_NOPAD.encode(&hash))
}

/// Takes off an object what makes it a member.
pub fn unmark(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for field in ["labels", "annotations"] {
        let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) else {
            continue;
        };
        map.retain(|key, _| !MARKS.contains(&key.as_str()));
        if map.is_empty() {
            metadata.remove(field);
        }
    }
}

/// The labels and annotations that make an object a member.
pub const MARKS: [&str; 4] = [PART_OF_LABEL, OPERATOR_LABEL, TRACKING_ANNOTATION, DIGEST_ANNOTATION];

/// The value of [`TOOLING_ANNOTATION`]: the name, a slash and `v` with the version of this program.
pub fn tooling() -> String {
    format!("{TOOL}/v{}", env!("CARGO_PKG_VERSION"))
}

/// Writes the list in [`KINDS_ANNOTATION`] or [`NAMESPACES_ANNOTATION`]: sorted, each item once.
pub fn format_list<T: AsRef<str>>(items: &[T]) -> String {
    let mut items: Vec<&str> = items
        .iter()
        .map(AsRef::as_ref)
        .filter(|item| !item.is_empty())
        .collect();
    items.sort_unstable();
    items.dedup();
    items.join(",")
}

/// Reads such a list; blanks around items and empty items don't count.
pub fn parse_list(text: &str) -> Vec<String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(str::to_owned)
        .collect()
}

/// `<owner uid>:<kind>.<group>:<namespace>/<name>` of a member; `<kind>` alone in the core group, and an empty namespace
/// for a cluster-scoped member.
pub fn tracking_id(owner_uid: &str, group_kind: &GroupKind, namespace: &str, name: &str) -> String {
    format!("{owner_uid}:{group_kind}:{namespace}/{name}")
}

/// Takes a tracking id apart; `None` if it isn't one.
pub fn parse_tracking_id(text: &str) -> Option<Tracking> {
    // Names may have colons (`system:reader`), the parts before them cannot.
    let mut parts = text.splitn(3, ':');
    let (owner_uid, group_kind, object) = (parts.next()?, parts.next()?, parts.next()?);
    let (namespace, name) = object.split_once('/')?;
    let group_kind = GroupKind::parse(group_kind);
    if owner_uid.is_empty() || group_kind.kind.is_empty() || name.is_empty() {
        return None;
    }
    Some(Tracking {
        owner_uid: owner_uid.to_owned(),
        group_kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn ids_are_kubectls() {
        type Row = (String, String, String, String, String);
        for (name, namespace, kind, group, expected) in table::<Row>("applyset", "ids") {
            assert_eq!(id(&name, &namespace, &kind, &group), expected);
        }
    }

    #[test]
    fn lists_are_sorted_and_read_back() {
        let text = format_list(&["Service", "Deployment.apps", "ConfigMap", "Service", ""]);
        assert_eq!(text, "ConfigMap,Deployment.apps,Service");
        assert_eq!(parse_list(&text), ["ConfigMap", "Deployment.apps", "Service"]);
        assert_eq!(format_list::<&str>(&[]), "");
        assert!(parse_list("").is_empty());
        assert_eq!(parse_list(" a, ,b,"), ["a", "b"]);
    }

    #[test]
    fn tracking_ids_name_owner_and_object() {
        for (kind, namespace, name, text) in table::<(String, String, String, String)>("applyset", "tracking_ids") {
            let group_kind = GroupKind::parse(&kind);
            assert_eq!(tracking_id("u-1", &group_kind, &namespace, &name), text);
            let expected = Tracking {
                owner_uid: "u-1".into(),
                group_kind,
                namespace,
                name,
            };
            assert_eq!(parse_tracking_id(&text), Some(expected));
        }
        for broken in table::<String>("applyset", "no_tracking_ids") {
            assert_eq!(parse_tracking_id(&broken), None, "{broken}");
        }
    }
}
