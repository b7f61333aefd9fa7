//! What the author of a custom resource may create and read.
//!
//! The chart is trusted, because the person who runs the operator chose it. The values are not: `extraDeploy`, `tpl` and similar
//! features can make a chart render anything, with the operator's rights. So a namespaced custom resource gets kinds that
//! carry rights or reach only if the chart's default render contains them or the watch allows them.

mod beyond;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::identity::reserved_names::is_reserved;
use crate::identity::{GroupKind, ObjectId};
use crate::members::desired::{Member, RenderedObject};
use crate::status::conditions::list;
use chartwright_watches::AllowList;

pub use beyond::carries_rights;

/// Where an object lives, seen from the release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// In the namespace of the release.
    Own,
    /// In another namespace.
    Other(String),
    /// In no namespace.
    Cluster,
}

/// The chart's default render for this release, with only the operator's values: a name in it
/// is a function of the release's name, and a rule in it is the chart's.
///
/// Hooks of different events may have one name: then there are several objects of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline(BTreeMap<ObjectId, Vec<Value>>);

/// How much of an object the chart creates by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Own {
    #[default]
    Nothing,
    /// An object of the same name, with less in it.
    Place,
    /// All of it.
    Object,
}

/// An object that is stored to be created later, with what is needed to check it then without the chart.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredObject {
    #[serde(flatten)]
    pub rendered: RenderedObject,
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub own: Own,
    /// Digest of the chart and its default values that `own` is about; empty where that is nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub defaults: String,
}

/// A refusal, worded for the condition that reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "{0} is refused: it carries rights or reach, and {1}. To permit it, add {kind:?} to `allow.kinds` of the watch, or \
         {name:?} for this object alone", kind = .0.group_kind.to_string(), name = named(.0)
    )]
    Kind(Box<ObjectId>, Why),
    #[error(
        "{0} is refused: it lies outside the release's namespace, and {1}. To permit it, add {namespace:?} to \
         `allow.namespaces` of the watch", namespace = .0.namespace
    )]
    Namespace(Box<ObjectId>, Why),
    #[error(
        "{0} is refused: the operator keeps its own objects under such names (chartwright-record-…, chartwright-elect-… and \
         the like, its key and its Lease). Give it another name"
    )]
    Reserved(Box<ObjectId>),
    #[error(
        "targetNamespace {template:?} gives {namespace:?}, which is another namespace than the custom resource's: a user who \
         may create one chooses it. To permit it, add {namespace:?} to `allow.namespaces` of the watch"
    )]
    Target { template: String, namespace: String },
    #[error(
        "{maker} made this custom resource, {depth} deep in releases that make custom resources of this kind, and the watch \
         allows {limit}: a chart that renders its own kind may never come to an end. To permit it, set `allow.depth` of the \
         watch to {depth}"
    )]
    Depth { maker: String, depth: usize, limit: usize },
    #[error(
        "lookup of {0} is refused: values may not read it. To permit it, add {1:?} to `lookups.kinds` of the watch"
    )]
    LookupKind(String, String),
    #[error(
        "lookup of {0} is refused: it lies outside the release's namespace. To permit it, add {1:?} to `lookups.namespaces` of the watch"
    )]
    LookupNamespace(String, String),
}

/// How an object differs from what the chart makes by default.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("the chart does not create it by default")]
    NotThere,
    #[error("the chart does not render with its default values, so that nothing is known to be its own")]
    NoDefault,
    #[error("it differs from what the chart creates by default in `{0}`")]
    Beyond(String),
    #[error("the chart did not create it by default when it was stored")]
    Stored,
    #[error("the chart, its default values or the patches of the watch have changed since it was stored")]
    Changed,
}

/// How deep releases may make custom resources of their own kind, unless the watch says otherwise.
const DEPTH: usize = 3;

/// Cluster-scoped kinds that charts look up to find out where they run; they hold no secrets.
const LOOKUP_KINDS: [(&str, &str); 5] = [
    ("", "Node"),
    ("", "Namespace"),
    ("storage.k8s.io", "StorageClass"),
    ("networking.k8s.io", "IngressClass"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// The reach of an object, from the release's namespace.
pub fn reach(id: &ObjectId, release_namespace: &str) -> Reach {
    match id.namespace.as_str() {
        "" => Reach::Cluster,
        own if own == release_namespace => Reach::Own,
        other => Reach::Other(other.to_owned()),
    }
}

fn allows_kind(allow: &AllowList, group_kind: &GroupKind) -> bool {
    allow
        .kinds
        .iter()
        .any(|kind| kind == "*" || *kind == group_kind.to_string())
}

/// As [`allows_kind`], or by the name of the object.
fn allows_object(allow: &AllowList, id: &ObjectId) -> bool {
    allows_kind(allow, &id.group_kind) || allow.kinds.contains(&named(id))
}

/// An object as `allow.kinds` names it.
fn named(id: &ObjectId) -> String {
    format!("{}/{}", id.group_kind, id.name)
}

fn allows_namespace(allow: &AllowList, namespace: &str) -> bool {
    allow
        .namespaces
        .iter()
        .any(|allowed| allowed == "*" || allowed == namespace)
}
impl Baseline {
    /// Of these members and hooks of the default render.
    pub fn of(members: impl IntoIterator<Item = Member>) -> Self {
        let mut objects: BTreeMap<ObjectId, Vec<Value>> = BTreeMap::new();
        for member in members {
            objects.entry(member.id).or_default().push(member.object);
        }
        Baseline(objects)
    }

    /// How much of an object is in it.
    pub fn own(&self, id: &ObjectId, object: &Value, release_namespace: &str) -> Own {
        match self.lacks(id, object, &reach(id, release_namespace)) {
            None => Own::Object,
            Some(Why::Beyond(_)) => Own::Place,
            Some(_) => Own::Nothing,
        }
    }

    /// What an object has beyond it; `None` if there is nothing.
    fn lacks(&self, id: &ObjectId, object: &Value, reach: &Reach) -> Option<Why> {
        let Some(defaults) = self.0.get(id) else {
            return Some(Why::NotThere);
        };
        let mut parts = defaults
            .iter()
            .map(|default| beyond::beyond(&id.group_kind, reach, default, object));
        let first = parts.next()??;
        if parts.any(|part| part.is_none()) {
            None
        } else {
            Some(Why::Beyond(first))
        }
    }
}

fn is_nothing(own: &Own) -> bool {
    *own == Own::Nothing
}

/// Checks the name of an object of any release, regardless of `allow`. `own`: objects of the operator itself.
pub fn may_be_named(id: &ObjectId, own: &[ObjectId]) -> Result<(), Refused> {
    if is_reserved(id, own) {
        Err(Refused::Reserved(Box::new(id.clone())))
    } else {
        Ok(())
    }
}

/// Checks one object of a namespaced custom resource. `baseline`: `None` if the chart doesn't render by itself.
///
/// # Errors
/// What the watch has to allow for it.
pub fn may_create(
    id: &ObjectId,
    object: &Value,
    release_namespace: &str,
    baseline: Option<&Baseline>,
    allow: &AllowList,
) -> Result<(), Refused> {
    let reach = reach(id, release_namespace);
    check(id, object, &reach, allow, || match baseline {
        None => Some(Why::NoDefault),
        Some(baseline) => baseline.lacks(id, object, &reach),
    })
}

/// Checks an object that was stored when other rules may have held, without the chart. `defaults`: digest of the present
/// chart and its default values; `None` if there is no chart that could be read, which takes nothing back.
///
/// # Errors
/// What the watch has to allow for it.
pub fn may_use(
    id: &ObjectId,
    stored: &StoredObject,
    release_namespace: &str,
    defaults: Option<&str>,
    allow: &AllowList,
) -> Result<(), Refused> {
    let is_of_now = defaults.is_none_or(|now| now == stored.defaults);
    let reach = reach(id, release_namespace);
    check(id, &stored.rendered.object, &reach, allow, || match stored.own {
        Own::Nothing => Some(Why::Stored),
        _ if !is_of_now => Some(Why::Changed),
        Own::Place => Some(Why::Beyond("content".to_owned())),
        Own::Object => None,
    })
}

/// `lacks`: what the object has beyond what the chart creates by itself.
fn check(
    id: &ObjectId,
    object: &Value,
    reach: &Reach,
    allow: &AllowList,
    lacks: impl FnOnce() -> Option<Why>,
) -> Result<(), Refused> {
    let by_kind = *reach == Reach::Cluster || beyond::carries_rights(&id.group_kind, object);
    if *reach == Reach::Own && !by_kind {
        return Ok(());
    }
    let Some(why) = lacks() else { return Ok(()) };
    if by_kind && !allows_object(allow, id) {
        return Err(Refused::Kind(Box::new(id.clone()), why));
    }
    // What the kind allows to be different may be where the chart has it.
    let is_there = by_kind && matches!(why, Why::Beyond(_));
    match reach {
        Reach::Other(namespace) if !is_there && !allows_namespace(allow, namespace) => {
            Err(Refused::Namespace(Box::new(id.clone()), why))
        }
        _ => Ok(()),
    }
}

/// Words the refusals of a release's objects, each with its template. Several end with the one `allow` that permits them
/// all, by kind: names of objects contain that of the custom resource as a rule, and would permit this one only.
pub fn refusal(refused: &[(&str, Refused)]) -> Option<String> {
    let [_, _, ..] = refused else {
        return refused.first().map(|(source, refused)| format!("{source}: {refused}"));
    };
    let (mut kinds, mut namespaces) = (BTreeSet::new(), BTreeSet::new());
    let objects: Vec<String> = refused
        .iter()
        .map(|(source, refused)| match refused {
            Refused::Kind(id, why) => {
                kinds.insert(id.group_kind.to_string());
                format!("{source}: {id} carries rights or reach, and {why}")
            }
            Refused::Namespace(id, why) => {
                namespaces.insert(id.namespace.clone());
                format!("{source}: {id} lies outside the release's namespace, and {why}")
            }
            other => format!("{source}: {other}"),
        })
        .collect();
    let entry = |key: &str, names: BTreeSet<String>| {
        let names: Vec<String> = names.into_iter().collect();
        (!names.is_empty()).then(|| format!("{key}: [{}]", names.join(", ")))
    };
    let entries: Vec<String> = [entry("kinds", kinds), entry("namespaces", namespaces)]
        .into_iter()
        .flatten()
        .collect();
    Some(format!(
        "{} objects are refused. To permit them, set `allow: {{{}}}` in the watch. {}",
        refused.len(),
        entries.join(", "),
        list(SHOWN, objects)
    ))
}

/// Objects named in one refusal; the `allow` in it is for all of them.
const SHOWN: usize = 10;

/// Checks the namespace of the release of a custom resource in `own` (empty for a cluster-scoped one, whose author may
/// write anywhere). A fixed `targetNamespace` is the watch's word, one that a template makes is the author's.
pub fn may_settle(template: &str, namespace: &str, own: &str, allow: &AllowList) -> Result<(), Refused> {
    let chosen = !own.is_empty() && namespace != own && template.contains("{{");
    if chosen && !allows_namespace(allow, namespace) {
        Err(Refused::Target {
            template: template.to_owned(),
            namespace: namespace.to_owned(),
        })
    } else {
        Ok(())
    }
}

/// Checks a custom resource that a release made (`maker`), with so many of its own kind above it.
pub fn may_nest(depth: usize, maker: String, allow: &AllowList) -> Result<(), Refused> {
    let limit = allow.depth.unwrap_or(DEPTH);
    if depth > limit {
        Err(Refused::Depth { maker, depth, limit })
    } else {
        Ok(())
    }
}

/// Checks one lookup of a namespaced custom resource. `namespace` is `None` for a cluster-scoped kind; an empty one
/// means all namespaces.
pub fn may_look_up(
    group_kind: &GroupKind,
    namespace: Option<&str>,
    what: &str,
    release_namespace: &str,
    lookups: &AllowList,
) -> Result<(), Refused> {
    match namespace {
        None => {
            let usual = LOOKUP_KINDS.contains(&(group_kind.group.as_str(), group_kind.kind.as_str()));
            if usual || allows_kind(lookups, group_kind) {
                Ok(())
            } else {
                Err(Refused::LookupKind(what.to_owned(), group_kind.to_string()))
            }
        }
        Some(namespace) if namespace == release_namespace || allows_namespace(lookups, namespace) => Ok(()),
        Some("") => Err(Refused::LookupNamespace(what.to_owned(), "*".to_owned())),
        Some(namespace) => Err(Refused::LookupNamespace(what.to_owned(), namespace.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    /// `place`: namespace/name.
    fn id(kind: &str, place: &str) -> ObjectId {
        let (namespace, name) = place.split_once('/').unwrap();
        ObjectId::new(GroupKind::parse(kind), namespace, name)
    }

    #[test]
    fn several_refusals_end_with_one_allow_by_kind() {
        let refuse = |kind: &str, place: &str| {
            let found = may_create(
                &id(kind, place),
                &Value::Null,
                "shop",
                Some(&Baseline::default()),
                &AllowList::default(),
            );
            found.unwrap_err()
        };
        let role = ("a.yaml", refuse("ClusterRole.rbac.authorization.k8s.io", "/web-reader"));
        let binding = (
            "b.yaml",
            refuse("ClusterRoleBinding.rbac.authorization.k8s.io", "/web-reader"),
        );
        let secret = ("c.yaml", refuse("Secret", "other/web"));
        assert_eq!(refusal(&[]), None);
        assert_eq!(
            refusal(std::slice::from_ref(&role)).unwrap(),
            "a.yaml: ClusterRole.rbac.authorization.k8s.io web-reader is refused: it carries rights or reach, and the chart \
             does not create it by default. To permit it, add \"ClusterRole.rbac.authorization.k8s.io\" to `allow.kinds` of \
             the watch, or \"ClusterRole.rbac.authorization.k8s.io/web-reader\" for this object alone"
        );
        assert_eq!(
            refusal(&[role, binding, secret]).unwrap(),
            "3 objects are refused. To permit them, set `allow: {kinds: [ClusterRole.rbac.authorization.k8s.io, \
             ClusterRoleBinding.rbac.authorization.k8s.io], namespaces: [other]}` in the watch. a.yaml: \
             ClusterRole.rbac.authorization.k8s.io web-reader carries rights or reach, and the chart does not create it by \
             default; b.yaml: ClusterRoleBinding.rbac.authorization.k8s.io web-reader carries rights or reach, and the chart \
             does not create it by default; c.yaml: Secret other/web lies outside the release's namespace, and the chart \
             does not create it by default"
        );
        let many: Vec<_> = (0..12)
            .map(|number| ("a.yaml", refuse("Namespace", &format!("/n{number}"))))
            .collect();
        assert!(refusal(&many).unwrap().ends_with("; and 2 more"));
    }

    #[test]
    fn only_the_chart_and_the_watch_give_rights_and_reach() {
        let default = table::<(String, String, Value)>("grants", "default").into_iter();
        let baseline = Baseline(
            default
                .map(|(kind, place, object)| (id(&kind, &place), vec![object]))
                .collect(),
        );
        type Row = (String, String, Value, AllowList, Option<String>);
        for (kind, place, object, allow, refusal) in table::<Row>("grants", "may_create") {
            let found = may_create(&id(&kind, &place), &object, "shop", Some(&baseline), &allow);
            let message = found.err().map(|refused| refused.to_string());
            let fits = message
                .as_deref()
                .unwrap_or_default()
                .contains(refusal.as_deref().unwrap_or_default());
            assert!(
                message.is_some() == refusal.is_some() && fits,
                "{kind} {place} {allow:?}: {message:?}"
            );
        }
        let unknown = may_create(
            &id("Namespace", "/x"),
            &Value::Null,
            "shop",
            None,
            &AllowList::default(),
        );
        assert!(
            unknown
                .unwrap_err()
                .to_string()
                .contains("does not render with its default values")
        );
    }

    #[test]
    fn what_was_stored_is_checked_by_the_rules_of_now() {
        type Row = (String, String, Own, String, Option<String>, AllowList, Option<String>);
        for (kind, place, own, defaults, now, allow, refusal) in table::<Row>("grants", "may_use") {
            let stored = StoredObject {
                rendered: RenderedObject {
                    object: Value::Null,
                    source: String::new(),
                },
                own,
                defaults,
            };
            let found = may_use(&id(&kind, &place), &stored, "shop", now.as_deref(), &allow);
            let shown = found.err().map(|refused| refused.to_string());
            let fits = shown
                .as_deref()
                .unwrap_or_default()
                .contains(refusal.as_deref().unwrap_or_default());
            assert!(
                shown.is_some() == refusal.is_some() && fits,
                "{kind} {place} {own:?} {now:?} {allow:?}: {shown:?}"
            );
        }
    }

    #[test]
    fn hooks_of_one_name_are_each_the_charts_own() {
        let id = id("ClusterRoleBinding.rbac.authorization.k8s.io", "/x");
        let hook = |event: &str| serde_json::json!({"metadata": {"annotations": {"helm.sh/hook": event}}});
        let baseline = Baseline(BTreeMap::from([(
            id.clone(),
            vec![hook("pre-install"), hook("post-delete")],
        )]));
        let own = |event: &str| baseline.own(&id, &hook(event), "shop");
        assert_eq!(
            ["pre-install", "post-delete", "pre-delete"].map(own),
            [Own::Object, Own::Object, Own::Place]
        );
    }

    #[test]
    fn a_chart_makes_its_own_kind_only_so_deep() {
        let none = AllowList::default();
        assert_eq!(may_nest(3, "a".into(), &none), Ok(()));
        let refused = may_nest(4, "Shop b/a".into(), &none).unwrap_err().to_string();
        assert!(refused.starts_with("Shop b/a made this") && refused.contains("`allow.depth` of the watch to 4"));
        let depth = |depth| AllowList {
            depth: Some(depth),
            ..AllowList::default()
        };
        assert_eq!(may_nest(4, "a".into(), &depth(4)), Ok(()));
        assert!(may_nest(1, "a".into(), &depth(0)).is_err());
    }

    #[test]
    fn a_template_takes_a_release_only_to_namespaces_that_are_allowed() {
        type Row = (String, String, String, AllowList, bool);
        for (template, namespace, own, allow, permitted) in table::<Row>("grants", "may_settle") {
            let result = may_settle(&template, &namespace, &own, &allow).map_err(|refused| refused.to_string());
            assert_eq!(result.is_ok(), permitted, "{template} {namespace} {own} {allow:?}");
            let key = format!("add {namespace:?} to `allow.namespaces`");
            assert!(result.err().is_none_or(|refused| refused.contains(&key)), "{namespace}");
        }
    }

    #[test]
    fn lookups_stay_at_home() {
        for (kind, namespace, lookups, permitted) in
            table::<(String, Option<String>, AllowList, bool)>("grants", "may_look_up")
        {
            let found = may_look_up(&GroupKind::parse(&kind), namespace.as_deref(), "it", "shop", &lookups);
            assert_eq!(found.is_ok(), permitted, "{kind} {namespace:?} {lookups:?}");
        }
    }
}
