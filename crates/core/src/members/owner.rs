//! Which members refer to their custom resource as an owner.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::index::live::Live;
use crate::members::desired::Member;

/// Gives members the reference to their custom resource, whose namespace is `namespace` (empty for a cluster-scoped
/// one): where Kubernetes allows it, and but for those that are to stay when it goes.
///
/// None gets it if their deletion has an order: by waves, or by hooks that run before or after it (`has_delete_hooks`).
/// When a custom resource is deleted in the foreground, the collector immediately deletes all objects with such a reference.
pub fn refer(members: &mut [Member], namespace: &str, reference: &Arc<OwnerReference>, has_delete_hooks: bool) {
    if has_delete_hooks || members.iter().any(|member| member.policy.wave != 0) {
        return;
    }
    for member in members {
        let reaches = namespace.is_empty() || member.id.namespace == namespace;
        member.owner = (reaches && !member.policy.keep).then(|| reference.clone());
    }
}

/// The reference that a member is sent with. Who annotated the live object to be kept wants it to outlive the custom
/// resource.
pub fn wanted<'m>(member: &'m Member, live: Option<&Live>) -> Option<&'m OwnerReference> {
    let keeps = live.is_some_and(|live| live.marks.keep);
    member.owner.as_deref().filter(|_| !keeps)
}

/// True if a live member has the reference that it should have, or none if it should have none.
pub fn has_wanted(member: &Member, live: &Live) -> bool {
    live.ownership.owner.as_deref() == wanted(member, Some(live)).map(|owner| owner.api_version.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::owner_references::reference;
    use crate::members::policy::Policy;
    use crate::testing::{self, but, id, table};

    fn member(namespace: &str, policy: Policy) -> Member {
        let id = but(&id("ConfigMap", "a"), |id| id.namespace = namespace.into());
        but(&testing::member(&id), |member| member.policy = policy)
    }

    #[test]
    fn members_refer_to_their_custom_resource_where_they_may() {
        let ours = reference("a.test/v1", "Shop", "web", "u1").into();
        type Row = (String, String, Policy, Policy, bool, bool);
        for (namespace, of_owner, policy, others, hooks, expected) in table::<Row>("references", "referring") {
            let mut members = [member(&namespace, policy), member("shop", others)];
            refer(&mut members, &of_owner, &ours, hooks);
            let case = format!("{namespace} {of_owner} {policy:?} {others:?} {hooks}");
            assert_eq!(members[0].owner.is_some(), expected, "{case}");
        }
    }
}
