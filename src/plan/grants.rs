//! What the author of a custom resource may do.
//!
//! The chart is trusted: whoever runs the operator chose it. The values are not: through `extraDeploy`, `tpl` and the
//! like they can make a chart render anything, with the operator's rights. So a namespaced custom resource gets the
//! kinds that carry rights or reach only where the chart asks for them of its own accord, or the watch allows them.

use std::collections::BTreeSet;

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

/// What the chart renders by itself, with nobody's values but the operator's: each kind with its reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline(pub BTreeSet<(GroupKind, Reach)>);

/// A refusal, worded for the condition that reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "{0} is refused: its kind carries rights or reach, and the chart does not create it by default. \
         To permit it, add {1:?} to `allow.kinds` of the watch"
    )]
    Kind(ObjectId, String),
    #[error(
        "{0} is refused: it lies outside the release's namespace. To permit it, add {1:?} to `allow.namespaces` of the watch"
    )]
    Namespace(ObjectId, String),
    #[error(
        "lookup of {0} is refused: values may not read it. To permit it, add {1:?} to `lookups.kinds` of the watch"
    )]
    LookupKind(String, String),
    #[error(
        "lookup of {0} is refused: it lies outside the release's namespace. To permit it, add {1:?} to `lookups.namespaces` of the watch"
    )]
    LookupNamespace(String, String),
}

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

/// Namespaced kinds that hand out rights.
fn carries_rights(group_kind: &GroupKind) -> bool {
    group_kind.group == "rbac.authorization.k8s.io"
}

fn allows_kind(allow: &Allow, group_kind: &GroupKind) -> bool {
    allow
        .kinds
        .iter()
        .any(|kind| kind == "*" || *kind == group_kind.to_string())
}

fn allows_namespace(allow: &Allow, namespace: &str) -> bool {
    allow
        .namespaces
        .iter()
        .any(|allowed| allowed == "*" || allowed == namespace)
}

/// Checks one object of a namespaced custom resource.
pub fn may_create(id: &ObjectId, release_namespace: &str, baseline: &Baseline, allow: &Allow) -> Result<(), Refused> {
    let reach = reach(id, release_namespace);
    if baseline.0.contains(&(id.group_kind.clone(), reach.clone())) {
        return Ok(());
    }
    if (reach == Reach::Cluster || carries_rights(&id.group_kind)) && !allows_kind(allow, &id.group_kind) {
        return Err(Refused::Kind(id.clone(), id.group_kind.to_string()));
    }
    match reach {
        Reach::Other(namespace) if !allows_namespace(allow, &namespace) => {
            Err(Refused::Namespace(id.clone(), namespace))
        }
        _ => Ok(()),
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

    fn id(kind: &str, namespace: &str) -> ObjectId {
        ObjectId::new(GroupKind::parse(kind), namespace, "x")
    }

    const BINDING: &str = "ClusterRoleBinding.rbac.authorization.k8s.io";
    const ROLE: &str = "Role.rbac.authorization.k8s.io";

    #[test]
    fn values_cannot_smuggle_in_rights_or_reach() {
        let none = Allow::default();
        let baseline = Baseline::default();
        let check = |kind: &str, namespace: &str| may_create(&id(kind, namespace), "shop", &baseline, &none);
        for (kind, namespace) in [
            ("Deployment.apps", "shop"),
            ("Secret", "shop"),
            ("ServiceAccount", "shop"),
        ] {
            assert_eq!(check(kind, namespace), Ok(()), "{kind}");
        }
        for (kind, namespace) in [
            (BINDING, ""),
            (ROLE, "shop"),
            ("Namespace", ""),
            ("PersistentVolume", ""),
        ] {
            assert!(matches!(check(kind, namespace), Err(Refused::Kind(..))), "{kind}");
        }
        assert!(matches!(check("Secret", "kube-system"), Err(Refused::Namespace(..))));
        assert!(matches!(check(ROLE, "kube-system"), Err(Refused::Kind(..))));
        let message = check(BINDING, "").unwrap_err().to_string();
        assert!(
            message.contains("add \"ClusterRoleBinding.rbac.authorization.k8s.io\" to `allow.kinds`"),
            "{message}"
        );
    }

    #[test]
    fn the_charts_own_render_and_the_watch_permit() {
        let baseline = Baseline(BTreeSet::from([(GroupKind::parse(ROLE), Reach::Own)]));
        let none = Allow::default();
        assert_eq!(may_create(&id(ROLE, "shop"), "shop", &baseline, &none), Ok(()));
        assert!(
            may_create(&id(ROLE, "other"), "shop", &baseline, &none).is_err(),
            "same kind, wider reach"
        );
        let kinds = Allow {
            kinds: vec![BINDING.into(), ROLE.into()],
            namespaces: vec![],
        };
        assert_eq!(may_create(&id(BINDING, ""), "shop", &baseline, &kinds), Ok(()));
        assert!(may_create(&id(ROLE, "other"), "shop", &baseline, &kinds).is_err());
        let all = Allow {
            kinds: vec!["*".into()],
            namespaces: vec!["*".into()],
        };
        assert_eq!(may_create(&id(ROLE, "other"), "shop", &baseline, &all), Ok(()));
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
        let some = Allow {
            kinds: vec!["PersistentVolume".into()],
            namespaces: vec!["infra".into()],
        };
        assert_eq!(check("PersistentVolume", None, &some), Ok(()));
        assert_eq!(check("Secret", Some("infra"), &some), Ok(()));
        assert!(check("Secret", Some(""), &some).is_err());
    }
}
