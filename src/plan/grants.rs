//! What the author of a custom resource may do.
//!
//! The chart is trusted: whoever runs the operator chose it. The values are not: through `extraDeploy`, `tpl` and the
//! like they can make a chart render anything, with the operator's rights. So a namespaced custom resource gets the
//! kinds that carry rights or reach only where the chart asks for them of its own accord, or the watch allows them.

mod beyond;

use std::collections::BTreeMap;

use serde_json::Value;

use super::desired::Member;
use super::identity::{GroupKind, ObjectId};
use crate::watches::Allow;

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

/// What the chart renders by itself for this very release, with nobody's values but the operator's: a name that is there
/// is a function of the release's name, and a rule that is there is the chart's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline(BTreeMap<ObjectId, Value>);

/// A refusal, worded for the condition that reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "{id} is refused: it carries rights or reach, and {why}. To permit it, add {allow:?} to `allow.kinds` of the watch"
    )]
    Kind { id: Box<ObjectId>, why: Why, allow: String },
    #[error(
        "{id} is refused: it lies outside the release's namespace, and {why}. To permit it, add {allow:?} to \
         `allow.namespaces` of the watch"
    )]
    Namespace { id: Box<ObjectId>, why: Why, allow: String },
    #[error(
        "targetNamespace {template:?} gives {namespace:?}, which is another namespace than the custom resource's: whoever \
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
    #[error("what the chart creates by default has no such `{0}`")]
    Beyond(String),
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

fn allows_kind(allow: &Allow, group_kind: &GroupKind) -> bool {
    allow
        .kinds
        .iter()
        .any(|kind| kind == "*" || *kind == group_kind.to_string())
}

/// As [`allows_kind`], or by the name of the object.
fn allows_object(allow: &Allow, id: &ObjectId) -> bool {
    allows_kind(allow, &id.group_kind) || allow.kinds.contains(&named(id))
}

/// An object as `allow.kinds` names it.
fn named(id: &ObjectId) -> String {
    format!("{}/{}", id.group_kind, id.name)
}

fn allows_namespace(allow: &Allow, namespace: &str) -> bool {
    allow
        .namespaces
        .iter()
        .any(|allowed| allowed == "*" || allowed == namespace)
}

// === impl Baseline ===

impl Baseline {
    /// Of these members of the default render.
    pub fn of(members: Vec<Member>) -> Self {
        Baseline(members.into_iter().map(|member| (member.id, member.object)).collect())
    }
}

/// Checks one object of a namespaced custom resource. `baseline`: `None` if the chart doesn't render by itself.
pub fn may_create(
    id: &ObjectId,
    object: &Value,
    release_namespace: &str,
    baseline: Option<&Baseline>,
    allow: &Allow,
) -> Result<(), Refused> {
    let reach = reach(id, release_namespace);
    let by_kind = reach == Reach::Cluster || beyond::carries_rights(&id.group_kind, object);
    if reach == Reach::Own && !by_kind {
        return Ok(());
    }
    let default = baseline.map(|Baseline(objects)| objects.get(id));
    let why = match default {
        None => Why::NoDefault,
        Some(None) => Why::NotThere,
        Some(Some(default)) => match beyond::beyond(id, default, object) {
            None => return Ok(()),
            Some(part) => Why::Beyond(part),
        },
    };
    if by_kind && !allows_object(allow, id) {
        return Err(Refused::Kind {
            id: Box::new(id.clone()),
            why,
            allow: named(id),
        });
    }
    // What the kind allows to be different may be where the chart has it.
    let is_there = by_kind && matches!(why, Why::Beyond(_));
    match reach {
        Reach::Other(namespace) if !is_there && !allows_namespace(allow, &namespace) => Err(Refused::Namespace {
            id: Box::new(id.clone()),
            why,
            allow: namespace,
        }),
        _ => Ok(()),
    }
}

/// Checks the namespace of the release of a custom resource in `own` (empty for a cluster-scoped one, whose author may
/// write anywhere). A fixed `targetNamespace` is the watch's word, one that a template makes is the author's.
pub fn may_settle(template: &str, namespace: &str, own: &str, allow: &Allow) -> Result<(), Refused> {
    let chosen = !own.is_empty() && namespace != own && template.contains("{{");
    match chosen && !allows_namespace(allow, namespace) {
        true => Err(Refused::Target {
            template: template.to_owned(),
            namespace: namespace.to_owned(),
        }),
        false => Ok(()),
    }
}

/// Checks a custom resource that a release made (`maker`), with so many of its own kind above it.
pub fn may_nest(depth: usize, maker: String, allow: &Allow) -> Result<(), Refused> {
    let limit = allow.depth.unwrap_or(DEPTH);
    match depth > limit {
        true => Err(Refused::Depth { maker, depth, limit }),
        false => Ok(()),
    }
}

/// Checks one lookup of a namespaced custom resource. `namespace` is `None` for a cluster-scoped kind; an empty one
/// means all namespaces.
pub fn may_look_up(
    group_kind: &GroupKind,
    namespace: Option<&str>,
    what: &str,
    release_namespace: &str,
    lookups: &Allow,
) -> Result<(), Refused> {
    match namespace {
        None => {
            let usual = LOOKUP_KINDS.contains(&(group_kind.group.as_str(), group_kind.kind.as_str()));
            match usual || allows_kind(lookups, group_kind) {
                true => Ok(()),
                false => Err(Refused::LookupKind(what.to_owned(), group_kind.to_string())),
            }
        }
        Some(namespace) if namespace == release_namespace => Ok(()),
        Some(namespace) => {
            let allowed = match namespace {
                "" => lookups.namespaces.iter().any(|allowed| allowed == "*"),
                namespace => allows_namespace(lookups, namespace),
            };
            let name = if namespace.is_empty() { "*" } else { namespace };
            match allowed {
                true => Ok(()),
                false => Err(Refused::LookupNamespace(what.to_owned(), name.to_owned())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use serde_json::json;

    fn id(kind: &str, namespace: &str) -> ObjectId {
        ObjectId::new(GroupKind::parse(kind), namespace, "x")
    }

    fn allow(kinds: &[&str], namespaces: &[&str]) -> Allow {
        let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        Allow {
            kinds: owned(kinds),
            namespaces: owned(namespaces),
            depth: None,
        }
    }

    const BINDING: &str = "ClusterRoleBinding.rbac.authorization.k8s.io";
    const ROLE: &str = "Role.rbac.authorization.k8s.io";

    #[test]
    fn values_cannot_smuggle_in_rights_or_reach() {
        let none = Allow::default();
        let baseline = Baseline::default();
        let check = |kind: &str, namespace: &str, object: Value| {
            may_create(&id(kind, namespace), &object, "shop", Some(&baseline), &none)
        };
        let token = json!({"type": "kubernetes.io/service-account-token"});
        for (kind, namespace) in [
            ("Deployment.apps", "shop"),
            ("Secret", "shop"),
            ("ServiceAccount", "shop"),
        ] {
            assert_eq!(check(kind, namespace, json!({})), Ok(()), "{kind}");
        }
        for (kind, namespace, object) in [
            (BINDING, "", json!({})),
            (ROLE, "shop", json!({})),
            ("Namespace", "", json!({})),
            ("PersistentVolume", "", json!({})),
            ("Secret", "shop", token),
        ] {
            assert!(
                matches!(check(kind, namespace, object), Err(Refused::Kind { .. })),
                "{kind}"
            );
        }
        assert!(matches!(
            check("Secret", "kube-system", json!({})),
            Err(Refused::Namespace { .. })
        ));
        assert!(matches!(
            check(ROLE, "kube-system", json!({})),
            Err(Refused::Kind { .. })
        ));
        let message = check(BINDING, "", json!({})).unwrap_err().to_string();
        assert!(
            message.contains("the chart does not create it by default")
                && message.contains("add \"ClusterRoleBinding.rbac.authorization.k8s.io/x\" to `allow.kinds`"),
            "{message}"
        );
        let unknown = may_create(&id(BINDING, ""), &json!({}), "shop", None, &none).unwrap_err();
        assert!(unknown.to_string().contains("does not render with its default values"));
    }

    #[test]
    fn the_very_objects_of_the_charts_own_render_are_permitted() {
        let binding = |subject: &str| json!({"roleRef": {"name": "r"}, "subjects": [{"kind": "ServiceAccount", "name": subject}]});
        let map = |color: &str| json!({"data": {"color": color}});
        let baseline = Baseline(BTreeMap::from([
            (id(BINDING, ""), binding("app")),
            (id(ROLE, "other"), json!({"rules": []})),
            (id("ConfigMap", "other"), map("blue")),
        ]));
        let check =
            |id: &ObjectId, object: &Value, allow: &Allow| may_create(id, object, "shop", Some(&baseline), allow);
        let none = Allow::default();
        assert_eq!(check(&id(BINDING, ""), &binding("app"), &none), Ok(()));
        assert_eq!(check(&id("ConfigMap", "other"), &map("blue"), &none), Ok(()));
        let named = |name: &str| ObjectId::new(GroupKind::parse(BINDING), "", name);
        assert!(check(&named("y"), &binding("app"), &none).is_err(), "another name");
        let message = check(&id(BINDING, ""), &binding("default"), &none)
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("no such `subjects[0]`") && message.contains(&format!("\"{BINDING}/x\"")),
            "{message}"
        );
        assert!(
            check(&id(ROLE, "shop"), &json!({}), &none).is_err(),
            "another namespace"
        );
        let message = check(&id("ConfigMap", "other"), &map("red"), &none)
            .unwrap_err()
            .to_string();
        assert!(message.contains("add \"other\" to `allow.namespaces`"), "{message}");
        // An object in another namespace that the chart has there needs leave for what it says, not for where it is.
        let rule = json!({"rules": [{"verbs": ["*"]}]});
        assert_eq!(check(&id(ROLE, "other"), &rule, &allow(&[ROLE], &[])), Ok(()));
    }

    #[test]
    fn the_watch_permits_by_kind_and_by_name() {
        let nothing = Baseline::default();
        let check = |id: &ObjectId, allow: &Allow| may_create(id, &json!({}), "shop", Some(&nothing), allow);
        let by_name = format!("{BINDING}/x");
        for kinds in [[BINDING], [by_name.as_str()], ["*"]] {
            assert_eq!(check(&id(BINDING, ""), &allow(&kinds, &[])), Ok(()), "{kinds:?}");
        }
        assert!(
            check(
                &ObjectId::new(GroupKind::parse(BINDING), "", "y"),
                &allow(&[&by_name], &[])
            )
            .is_err()
        );
        assert!(check(&id(ROLE, "other"), &allow(&[ROLE], &[])).is_err());
        assert!(check(&id(ROLE, "other"), &allow(&[], &["other"])).is_err());
        assert_eq!(check(&id(ROLE, "other"), &allow(&[ROLE], &["other"])), Ok(()));
        assert_eq!(check(&id(ROLE, "other"), &allow(&["*"], &["*"])), Ok(()));
    }

    #[test]
    fn a_chart_makes_its_own_kind_only_so_deep() {
        let none = Allow::default();
        assert_eq!(may_nest(3, "a".into(), &none), Ok(()));
        let refused = may_nest(4, "Shop b/a".into(), &none).unwrap_err().to_string();
        assert!(refused.starts_with("Shop b/a made this") && refused.contains("`allow.depth` of the watch to 4"));
        let depth = |depth| Allow {
            depth: Some(depth),
            ..Allow::default()
        };
        assert_eq!(may_nest(4, "a".into(), &depth(4)), Ok(()));
        assert!(may_nest(1, "a".into(), &depth(0)).is_err());
    }

    #[test]
    fn a_template_takes_a_release_only_to_namespaces_that_are_allowed() {
        let none = allow(&[], &[]);
        let template = "{{ .metadata.name }}";
        assert_eq!(may_settle(template, "shop", "shop", &none), Ok(()));
        assert_eq!(may_settle(template, "kube-system", "", &none), Ok(()), "cluster-scoped");
        assert_eq!(may_settle("infra", "infra", "shop", &none), Ok(()), "fixed");
        let refused = may_settle(template, "kube-system", "shop", &none)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("add \"kube-system\" to `allow.namespaces`"),
            "{refused}"
        );
        assert_eq!(
            may_settle(template, "kube-system", "shop", &allow(&[], &["kube-system"])),
            Ok(())
        );
        assert_eq!(may_settle(template, "kube-system", "shop", &allow(&[], &["*"])), Ok(()));
        assert!(may_settle(template, "kube-system", "shop", &allow(&["*"], &["x"])).is_err());
    }

    #[test]
    fn lookups_stay_at_home() {
        let none = Allow::default();
        let check = |kind: &str, namespace: Option<&str>, lookups: &Allow| {
            may_look_up(&GroupKind::parse(kind), namespace, "it", "shop", lookups)
        };
        assert_eq!(check("Secret", Some("shop"), &none), Ok(()));
        assert_eq!(check("Node", None, &none), Ok(()));
        assert!(check("Secret", Some("kube-system"), &none).is_err());
        assert!(check("Secret", Some(""), &none).is_err(), "all namespaces");
        assert!(check("PersistentVolume", None, &none).is_err());
        let some = allow(&["PersistentVolume"], &["infra"]);
        assert_eq!(check("PersistentVolume", None, &some), Ok(()));
        assert_eq!(check("Secret", Some("infra"), &some), Ok(()));
        assert!(check("Secret", Some(""), &some).is_err());
    }
}
