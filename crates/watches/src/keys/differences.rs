//! The keys `drift` and `ignoreDifferences`: which drift is corrected.

use std::fmt;

use crate::names;
use crate::reader::{Findings, MapFields};

/// What happens to drift: fields of a member that another field manager changed or removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriftPolicy {
    /// It is corrected.
    #[default]
    Correct,
    /// It stays, and is reported.
    Warn,
    /// It stays.
    Ignore,
}

impl DriftPolicy {
    /// The values of the key and of the annotation.
    pub const NAMES: [(&str, Self); 3] = [
        ("correct", Self::Correct),
        ("warn", Self::Warn),
        ("ignore", Self::Ignore),
    ];
}

/// One entry of `ignoreDifferences`: fields that the operator leaves to others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoreRule {
    /// `None`: every group. Empty: the core group.
    pub group: Option<String>,
    /// `None`: every kind.
    pub kind: Option<String>,
    /// `None`: every name.
    pub name: Option<String>,
    /// `None`: every namespace, and objects without one.
    pub namespace: Option<String>,
    pub pointers: Vec<FieldPointer>,
    /// Field managers that keep what they own.
    pub managers: Vec<String>,
}

/// A field of an object: a JSON pointer (RFC 6901) in which an item of a list is an index or, as `name=app`, its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPointer {
    /// Without the escapes `~0` and `~1`.
    pub segments: Vec<String>,
}

impl fmt::Display for FieldPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.segments.iter().try_for_each(|segment| {
            let escaped = segment.replace('~', "~0").replace('/', "~1");
            write!(f, "/{escaped}")
        })
    }
}

/// Fields of the metadata that the operator needs in order to know its members.
const NEEDED_METADATA: [&str; 2] = ["name", "namespace"];
/// Prefixes of the operator's own labels and annotations.
const OWN_KEYS: [&str; 2] = ["applyset.kubernetes.io/", "chartwright.dev/"];

/// Why a field cannot be left to others. `None`: it can.
fn obstacle(segments: &[&str]) -> Option<&'static str> {
    match segments {
        ["apiVersion" | "kind" | "metadata"] | ["metadata", "ownerReferences", ..] => Some("identifies the object"),
        ["metadata", "labels" | "annotations"] => Some("holds the operator's own marks"),
        ["metadata", "labels" | "annotations", key, ..] if OWN_KEYS.iter().any(|own| key.starts_with(own)) => {
            Some("is the operator's own")
        }
        ["metadata", field] if NEEDED_METADATA.contains(field) => Some("identifies the object"),
        _ => None,
    }
}

impl FieldPointer {
    /// Parses a pointer.
    ///
    /// # Errors
    /// Why the text is no pointer, or why its field cannot be ignored.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/').filter(|rest| !rest.is_empty()) else {
            return Err(format!(
                "{text:?} is no JSON pointer: write a field like /spec/replicas"
            ));
        };
        let mut segments = Vec::new();
        for segment in rest.split('/') {
            let plain = segment.replace("~0", "").replace("~1", "");
            if plain.contains('~') {
                return Err(format!(
                    "{text:?} is no JSON pointer: write ~0 for a tilde and ~1 for a slash within a name"
                ));
            }
            if segment.is_empty() {
                return Err(format!("{text:?} has an empty name: remove the slash that is too many"));
            }
            // In this order, so that `~01` is `~1`.
            segments.push(segment.replace("~1", "/").replace("~0", "~"));
        }
        let names: Vec<&str> = segments.iter().map(String::as_str).collect();
        if let Some(why) = obstacle(&names) {
            return Err(format!("{text:?} {why} and cannot be ignored"));
        }
        Ok(FieldPointer { segments })
    }
}

impl IgnoreRule {
    /// True if the rule is for an object. `namespace`: empty for a cluster-scoped object.
    pub fn matches(&self, (group, kind): (&str, &str), namespace: &str, name: &str) -> bool {
        let fits = |rule: &Option<String>, text: &str| rule.as_ref().is_none_or(|rule| rule == text);
        fits(&self.group, group) && fits(&self.kind, kind) && fits(&self.namespace, namespace) && fits(&self.name, name)
    }
}

/// Reads the key `ignoreDifferences`.
pub(crate) fn read(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Vec<IgnoreRule> {
    const KNOWN: [&str; 6] = ["group", "kind", "name", "namespace", "jsonPointers", "managers"];
    let mut rules = Vec::new();
    for node in findings.read_list(fields, "ignoreDifferences") {
        let what = "an entry of `ignoreDifferences`";
        let Some(fields) = MapFields::open(node, what, &KNOWN, findings) else {
            continue;
        };
        // Argo CD has `*` for all groups or kinds.
        let is_any = |text: &String| text != "*";
        let is_group = |group: &str| group.is_empty() || group == "*" || names::is_dns_subdomain(group);
        let group = findings.read_checked(&fields, "group", is_group, |group| {
            format!("`group` must be a DNS name such as apps, not {group:?}")
        });
        let is_kind = |kind: &str| kind == "*" || names::is_kind(kind);
        let kind = findings.read_checked(&fields, "kind", is_kind, |kind| {
            format!("`kind` must be a kind such as Deployment, not {kind:?}")
        });
        let namespace = findings.read_checked(&fields, "namespace", names::is_dns_label, |namespace| {
            format!("`namespace` must be the name of a namespace, not {namespace:?}")
        });
        let name = findings.read_checked(&fields, "name", |_| true, str::to_owned);
        let pointers = findings.read_strings(&fields, "jsonPointers", |text| FieldPointer::parse(text).map(drop));
        let managers = findings.read_strings(&fields, "managers", check_manager);
        if fields.get("jsonPointers").is_none() && fields.get("managers").is_none() {
            findings.error(
                node,
                format!("{what} needs jsonPointers or managers: the fields to leave to others"),
            );
        }
        let pointers = pointers.iter().filter_map(|text| FieldPointer::parse(text).ok());
        rules.push(IgnoreRule {
            group: group.filter(is_any),
            kind: kind.filter(is_any),
            name,
            namespace,
            pointers: pointers.collect(),
            managers,
        });
    }
    rules
}

/// Checks the name of a field manager. The operator's own are no others.
fn check_manager(manager: &str) -> Result<(), String> {
    if manager.is_empty() {
        return Err("the name of a field manager is empty".to_owned());
    }
    if manager == "chartwright" || manager.starts_with("chartwright-") {
        return Err(format!(
            "{manager:?} is a field manager of the operator itself: name one that changes the object"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_parsed_and_printed() {
        for (text, segments) in [
            ("/spec/replicas", vec!["spec", "replicas"]),
            (
                "/spec/template/spec/containers/name=app/image",
                vec!["spec", "template", "spec", "containers", "name=app", "image"],
            ),
            ("/metadata/annotations/a.b~1c", vec!["metadata", "annotations", "a.b/c"]),
            ("/data/~01", vec!["data", "~1"]),
            ("/webhooks/0/clientConfig", vec!["webhooks", "0", "clientConfig"]),
        ] {
            let pointer = FieldPointer::parse(text).unwrap();
            assert_eq!(pointer.segments, segments, "{text}");
            assert_eq!(pointer.to_string(), text);
        }
        for text in [
            "",
            "/",
            "spec",
            "spec/replicas",
            "/spec//a",
            "/spec/",
            "/data/~2",
            "/data/a~",
            "/kind",
            "/metadata/name",
            "/metadata",
            "/metadata/labels",
            "/metadata/ownerReferences/0",
            "/metadata/annotations/chartwright.dev~1wave",
        ] {
            assert!(FieldPointer::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn absent_fields_of_a_rule_match_all() {
        let rule = IgnoreRule::default();
        assert!(rule.matches(("", "ConfigMap"), "shop", "a") && rule.matches(("apps", "Deployment"), "", "b"));
        let core = IgnoreRule {
            group: Some(String::new()),
            ..rule.clone()
        };
        assert!(core.matches(("", "ConfigMap"), "shop", "a") && !core.matches(("apps", "Deployment"), "shop", "a"));
        let named = IgnoreRule {
            kind: Some("Deployment".into()),
            name: Some("a".into()),
            namespace: Some("shop".into()),
            ..rule
        };
        assert!(named.matches(("apps", "Deployment"), "shop", "a"));
        for (kind, namespace, name) in [
            ("StatefulSet", "shop", "a"),
            ("Deployment", "x", "a"),
            ("Deployment", "shop", "b"),
        ] {
            assert!(
                !named.matches(("apps", kind), namespace, name),
                "{kind} {namespace} {name}"
            );
        }
    }
}
