//! The key `patches`: changes of rendered objects, as JSON Patch (RFC 6902) or JSON Merge Patch (RFC 7386).

use std::collections::BTreeMap;
use std::sync::Arc;

use go_yaml::{Data, Node};
use json_patch::jsonptr::PointerBuf;
use json_patch::{
    AddOperation, CopyOperation, MoveOperation, PatchOperation, RemoveOperation, ReplaceOperation, TestOperation,
};
use kube::core::{Selector, SelectorExt as _};
use serde_json::{Map, Value};

use super::sources::json;
use crate::entry::read_selector;
use crate::names;
use crate::reader::{Findings, MapFields, describe};

/// One entry of `patches`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectPatch {
    pub target: PatchTarget,
    pub change: PatchChange,
    /// First line of the entry in the file, counted from 1.
    pub line: usize,
}

/// Selects the rendered objects that a patch changes. A field that is `None` matches all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchTarget {
    /// Empty for the core group.
    pub group: Option<String>,
    pub version: Option<String>,
    pub kind: Option<String>,
    /// A pattern: `*` stands for any characters, `?` for one.
    pub name: Option<String>,
    /// Compared with the release's namespace if the manifest has none. Cluster-scoped objects do not match.
    pub namespace: Option<String>,
    pub labels: Selector,
    /// `false`: hooks do not match.
    pub hooks: bool,
}

/// The change that a patch makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchChange {
    /// RFC 6902, in order.
    Operations(Vec<PatchOperation>),
    /// RFC 7386. Always a map.
    Merge(Value),
}

/// The facts about an object that a target compares.
#[derive(Clone, Debug)]
pub struct PatchSubject<'o> {
    pub group: &'o str,
    pub version: &'o str,
    pub kind: &'o str,
    /// Empty if the manifest has none.
    pub name: &'o str,
    /// Empty for a cluster-scoped object.
    pub namespace: &'o str,
    /// `metadata.labels` of the manifest.
    pub labels: Option<&'o Map<String, Value>>,
    pub is_hook: bool,
}

/// The longest name that an object can have, in bytes. Values of a custom resource can make a longer one.
const LONGEST_NAME: usize = 253;

impl ObjectPatch {
    /// Returns target and change as a text for digests. Different patches have different texts.
    pub(crate) fn text(&self) -> String {
        let target = &self.target;
        let names = (
            &target.group,
            &target.version,
            &target.kind,
            &target.name,
            &target.namespace,
        );
        let change = match &self.change {
            // Data serialize without errors.
            PatchChange::Operations(operations) => serde_json::to_string(operations).unwrap_or_default(),
            PatchChange::Merge(patch) => patch.to_string(),
        };
        format!(
            "patch {names:?} {:?} {} {change}\n",
            target.labels.to_string(),
            target.hooks
        )
    }
}

impl PatchTarget {
    /// True if the patch changes this object.
    pub fn selects(&self, subject: &PatchSubject<'_>) -> bool {
        let name = subject.name;
        let is_named = |pattern: &String| name.len() <= LONGEST_NAME && matches_pattern(pattern, name);
        self.may_select(subject)
            && self.name.as_ref().is_none_or(is_named)
            && is_equal(self.namespace.as_ref(), subject.namespace)
            && (self.labels.selects_all() || self.labels.matches(&texts_of(subject.labels)))
    }

    /// True if the patch changes an object of this group, version and kind under some name, in some namespace, with some labels.
    pub fn may_select(&self, subject: &PatchSubject<'_>) -> bool {
        (self.hooks || !subject.is_hook)
            && is_equal(self.group.as_ref(), subject.group)
            && is_equal(self.version.as_ref(), subject.version)
            && is_equal(self.kind.as_ref(), subject.kind)
    }
}

/// Returns the labels whose values are strings.
fn texts_of(labels: Option<&Map<String, Value>>) -> BTreeMap<String, String> {
    let labels = labels.into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

fn is_equal(wanted: Option<&String>, found: &str) -> bool {
    wanted.is_none_or(|wanted| wanted == found)
}

impl PatchChange {
    /// True if a patched object may have another `apiVersion` or `kind`.
    pub fn may_change_kind(&self) -> bool {
        match self {
            PatchChange::Merge(patch) => ["apiVersion", "kind"].iter().any(|field| patch.get(field).is_some()),
            PatchChange::Operations(operations) => operations
                .iter()
                .any(|operation| ["", "/apiVersion", "/kind"].contains(&operation.path().as_str())),
        }
    }
}

/// True if a pattern matches the complete text. `*` stands for any characters, `?` for one.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut seen) = (0, 0);
    // The last `*`, and the place in the text up to which it stands for characters.
    let mut star: Option<(usize, usize)> = None;
    while let Some(next) = text.get(seen) {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, seen));
                at += 1;
            }
            Some(wanted) if *wanted == '?' || wanted == next => {
                at += 1;
                seen += 1;
            }
            _ => {
                let Some((place, end)) = star else { return false };
                star = Some((place, end + 1));
                at = place + 1;
                seen = end + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|rest| *rest == '*')
}

/// Reads the key `patches`.
pub(crate) fn read(fields: &MapFields<'_>, findings: &mut Findings<'_>) -> Arc<[ObjectPatch]> {
    let items = findings.read_list(fields, "patches");
    items.iter().filter_map(|item| read_entry(item, findings)).collect()
}

fn read_entry(node: &Node, findings: &mut Findings<'_>) -> Option<ObjectPatch> {
    let fields = MapFields::open(node, "an entry of `patches`", &["target", "patch"], findings)?;
    for name in ["target", "patch"] {
        if fields.get(name).is_none() {
            findings.error(
                node,
                format!("`{name}` is missing: an entry of `patches` needs target and patch"),
            );
        }
    }
    let target = fields.get("target").and_then(|node| read_target(node, findings));
    let change = fields.get("patch").and_then(|node| read_change(node, findings));
    Some(ObjectPatch {
        target: target?,
        change: change?,
        line: node.line,
    })
}

fn read_target(node: &Node, findings: &mut Findings<'_>) -> Option<PatchTarget> {
    const KNOWN: [&str; 7] = [
        "group",
        "version",
        "kind",
        "name",
        "namespace",
        "labelSelector",
        "hooks",
    ];
    let fields = MapFields::open(node, "`target`", &KNOWN, findings)?;
    let is_group = |group: &str| group.is_empty() || names::is_dns_subdomain(group);
    let group = findings.read_checked(&fields, "group", is_group, |group| {
        format!("`group` must be an API group such as apps, or \"\" for the core group, not {group:?}")
    });
    let version = findings.read_checked(&fields, "version", names::is_version, |version| {
        format!("`version` must be an API version such as v1, not {version:?}")
    });
    let kind = findings.read_checked(&fields, "kind", names::is_kind, |kind| {
        format!("`kind` must be a kind such as Deployment, not {kind:?}")
    });
    let name = findings.read_checked(&fields, "name", names::is_path_segment, |name| {
        format!("`name` must be the name of an object, or a pattern with * and ? such as *-web, not {name:?}")
    });
    let namespace = findings.read_checked(&fields, "namespace", names::is_dns_label, |namespace| {
        format!("`namespace` must be the name of a namespace, not {namespace:?}")
    });
    let selector = fields.get("labelSelector");
    let labels = selector
        .map(|node| read_selector(node, "`labelSelector`", findings))
        .unwrap_or_default();
    let is_given = |name: &&str| fields.get(name).is_some();
    if !KNOWN.iter().take(5).any(is_given) && selector.is_none_or(is_blank) {
        findings.error(
            node,
            "`target` selects by nothing: write `name: \"*\"` to patch every object, or one of group, version, kind, name, \
             namespace and labelSelector",
        );
    }
    Some(PatchTarget {
        group,
        version,
        kind,
        name,
        namespace,
        labels,
        hooks: findings.read_bool(&fields, "hooks", false),
    })
}

/// True for a map without content.
fn is_blank(node: &Node) -> bool {
    match &node.data {
        Data::Null => true,
        Data::Map(entries) => entries.iter().all(|(_, value)| is_blank(value)),
        Data::List(items) => items.is_empty(),
        _ => false,
    }
}

fn read_change(node: &Node, findings: &mut Findings<'_>) -> Option<PatchChange> {
    let has_key = |name: &str| member(node, name).is_some();
    match &node.data {
        Data::List(items) if !items.is_empty() => {
            let operations = items.iter().filter_map(|item| read_operation(item, findings));
            Some(PatchChange::Operations(operations.collect()))
        }
        Data::Map(_) if has_key("op") && has_key("path") => {
            findings.error(
                node,
                "`patch` is one operation: write it as a list, with `- ` before `op`",
            );
            None
        }
        Data::Map(entries) if !entries.is_empty() => Some(PatchChange::Merge(json(node, findings))),
        Data::List(_) | Data::Map(_) => {
            findings.error(node, "`patch` is empty, so it has no effect");
            None
        }
        _ => {
            findings.type_error(
                node,
                "patch",
                "a list of operations (RFC 6902) or a map (JSON merge patch)",
            );
            None
        }
    }
}

/// Returns a member of a map, also if its value is null.
fn member<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    let Data::Map(entries) = &node.data else { return None };
    let is_named = |key: &Node| matches!(&key.data, Data::String(text) if text == name);
    entries.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value)
}

fn read_operation(node: &Node, findings: &mut Findings<'_>) -> Option<PatchOperation> {
    const OPERATIONS: [&str; 6] = ["add", "remove", "replace", "move", "copy", "test"];
    let fields = MapFields::open(node, "an operation", &["op", "path", "from", "value"], findings)?;
    for name in ["op", "path"] {
        if fields.get(name).is_none() {
            findings.error(
                node,
                format!("`{name}` is missing: an operation of a patch needs op and path"),
            );
        }
    }
    let path = read_pointer(&fields, "path", findings);
    let operation = findings.read_choice(&fields, "op", OPERATIONS.map(|name| (name, name)));
    if operation.is_empty() {
        return None;
    }
    let (takes_from, takes_value) = match operation {
        "move" | "copy" => (true, false),
        "remove" => (false, false),
        _ => (false, true),
    };
    let value = member(node, "value");
    check_presence(node, operation, "value", (value, takes_value), findings);
    check_presence(node, operation, "from", (fields.get("from"), takes_from), findings);
    let from = if takes_from {
        read_pointer(&fields, "from", findings)
    } else {
        None
    };
    let value = value.filter(|_| takes_value).map(|node| json(node, findings));
    let path = path?;
    match operation {
        "remove" if path.is_root() => {
            findings.error(node, "`path` is empty: an operation cannot remove the complete object")
        }
        "move"
            if from
                .as_ref()
                .is_some_and(|from| from.is_root() || path.starts_with(from) && path != *from) =>
        {
            findings.error(node, "`path` lies within `from`: a value cannot be moved into itself");
        }
        _ => {}
    }
    Some(match operation {
        "add" => PatchOperation::Add(AddOperation { path, value: value? }),
        "replace" => PatchOperation::Replace(ReplaceOperation { path, value: value? }),
        "test" => PatchOperation::Test(TestOperation { path, value: value? }),
        "move" => PatchOperation::Move(MoveOperation { from: from?, path }),
        "copy" => PatchOperation::Copy(CopyOperation { from: from?, path }),
        _ => PatchOperation::Remove(RemoveOperation { path }),
    })
}

/// Checks that an operation has a member exactly if it takes it.
fn check_presence(
    node: &Node,
    operation: &str,
    name: &str,
    (found, is_used): (Option<&Node>, bool),
    findings: &mut Findings<'_>,
) {
    match found {
        None if is_used => findings.error(node, format!("`{name}` is missing: `{operation}` needs it")),
        Some(at) if !is_used => findings.error(at, format!("`{operation}` takes no `{name}`: remove it")),
        _ => {}
    }
}

/// Reads a JSON pointer (RFC 6901).
fn read_pointer(fields: &MapFields<'_>, name: &str, findings: &mut Findings<'_>) -> Option<PointerBuf> {
    let (text, at) = findings.read_string(fields, name)?;
    if !text.is_empty() && !text.starts_with('/') {
        findings.error(
            at,
            format!(
                "`{name}` must be a JSON pointer that begins with /, such as /spec/replicas, not {}",
                describe(&at.data)
            ),
        );
        return None;
    }
    let pointer = PointerBuf::parse(text);
    pointer
        .map_err(|_| {
            findings.error(
                at,
                format!(
                    "`{name}` is no JSON pointer: in {text:?}, `~` must be followed by 0 or 1; ~0 stands for ~, and ~1 for /"
                ),
            );
        })
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str) -> PatchTarget {
        let watch = format!(
            "- {{group: a.test, version: v1, kind: Shop, chart: x, patches: [{{target: {text}, patch: {{a: b}}}}]}}"
        );
        let context = crate::ReadContext {
            folder: std::path::Path::new("/"),
            env: &|_| None,
        };
        let (watches, _) = crate::parse("watches.yaml", watch.as_bytes(), &context).unwrap();
        watches[0].patches[0].target.clone()
    }

    #[test]
    fn patterns_match_complete_names() {
        for (pattern, text, expected) in [
            ("web", "web", true),
            ("web", "web-1", false),
            ("", "", true),
            ("*", "", true),
            ("*", "anything", true),
            ("web-*", "web-", true),
            ("web-*", "web", false),
            ("*-web", "a-web-web", true),
            ("*-web", "a-web-x", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("w?b", "web", true),
            ("w?b", "wb", false),
            ("?", "", false),
            ("*?", "a", true),
            ("**", "a", true),
            ("system:*", "system:node:x", true),
        ] {
            assert_eq!(matches_pattern(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_target_matches_by_each_of_its_fields() {
        let labels = Map::from_iter([("tier".to_owned(), "web".into()), ("number".to_owned(), 1.into())]);
        let subject = PatchSubject {
            group: "apps",
            version: "v1",
            kind: "Deployment",
            name: "a-web",
            namespace: "shop",
            labels: Some(&labels),
            is_hook: false,
        };
        let hook = PatchSubject {
            is_hook: true,
            ..subject.clone()
        };
        let cluster_scoped = PatchSubject {
            namespace: "",
            ..subject.clone()
        };
        for (text, expected) in [
            ("{group: apps}", true),
            ("{group: \"\"}", false),
            ("{version: v1}", true),
            ("{version: v2}", false),
            ("{kind: Deployment}", true),
            ("{kind: StatefulSet}", false),
            ("{name: \"*-web\"}", true),
            ("{name: web}", false),
            ("{namespace: shop}", true),
            ("{namespace: other}", false),
            ("{labelSelector: {matchLabels: {tier: web}}}", true),
            (
                "{labelSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [web]}]}}",
                false,
            ),
            ("{kind: Deployment, name: x}", false),
        ] {
            let target = target(text);
            assert_eq!(target.selects(&subject), expected, "{text}");
            assert!(!target.selects(&hook), "{text}");
            let of_hooks = PatchTarget { hooks: true, ..target };
            assert_eq!(of_hooks.selects(&hook), expected, "{text}");
            assert_eq!(of_hooks.selects(&subject), expected, "{text}");
        }
        assert!(
            !target("{namespace: shop}").selects(&cluster_scoped) && target("{name: a-*}").selects(&cluster_scoped)
        );
        let elsewhere =
            target("{kind: Deployment, name: x, namespace: other, labelSelector: {matchLabels: {tier: db}}}");
        assert!(!elsewhere.selects(&subject) && elsewhere.may_select(&subject));
    }
}
