//! Object names that the operator reserves. A release that rendered one of them could forge the operator's state or delete
//! objects that the operator needs.

use crate::identity::{GroupKind, ObjectId};

/// How the names of the operator's Secrets begin, before the UID of the custom resource: records, hooks for a deletion, steps
/// of plans, renders for a rollback, and random results.
pub const RECORD: &str = "chartwright-record";
pub const HOOKS: &str = "chartwright-hooks";
pub const PLAN: &str = "chartwright-plan";
pub const RENDER: &str = "chartwright-render";
pub const KEPT: &str = "chartwright-kept";
/// The same of the Leases of elections, before the workload.
pub const ELECTION: &str = "chartwright-elect";

/// How the names begin that are reserved among the objects of a kind; none for a kind that the operator keeps none of.
pub fn prefixes(group_kind: &GroupKind) -> &'static [&'static str] {
    match (group_kind.group.as_str(), group_kind.kind.as_str()) {
        ("", "Secret") => &[RECORD, HOOKS, PLAN, RENDER, KEPT],
        ("coordination.k8s.io", "Lease") => &[ELECTION],
        _ => &[],
    }
}

/// True if a release may not have an object: its name is one that the operator uses, or it is one of the operator's `own`.
pub fn is_reserved(id: &ObjectId, own: &[ObjectId]) -> bool {
    let prefixes = prefixes(&id.group_kind);
    let is_used = |prefix: &&str| id.name.strip_prefix(*prefix).is_some_and(|rest| rest.starts_with('-'));
    prefixes.iter().any(is_used) || own.contains(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::id;

    #[test]
    fn names_of_the_operators_own_objects_are_reserved() {
        let own = [id("Secret", "op-hmac-key"), id("Lease.coordination.k8s.io", "op")];
        let elsewhere = ObjectId {
            namespace: "elsewhere".into(),
            ..own[0].clone()
        };
        assert!(!is_reserved(&elsewhere, &own));
        for (kind, name, reserved) in [
            ("Secret", "chartwright-record-u", true),
            ("Secret", "chartwright-hooks-u", true),
            ("Secret", "chartwright-plan-u", true),
            ("Secret", "chartwright-render-u-1", true),
            ("Secret", "chartwright-kept-u", true),
            ("Secret", "chartwright-kept", false),
            ("Secret", "chartwright-keptsake", false),
            ("Secret", "chartwright-elect-u", false),
            ("Secret", "op-hmac-key", true),
            ("Secret", "other-hmac-key", false),
            ("ConfigMap", "chartwright-record-u", false),
            ("Secret.a.test", "chartwright-record-u", false),
            ("Lease.coordination.k8s.io", "chartwright-elect-statefulset-db", true),
            ("Lease.coordination.k8s.io", "op", true),
            ("Lease.coordination.k8s.io", "db", false),
        ] {
            assert_eq!(is_reserved(&id(kind, name), &own), reserved, "{kind} {name}");
        }
    }
}
