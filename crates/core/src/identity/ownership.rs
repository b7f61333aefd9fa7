//! Decides who owns a live object. The operator asks this before every write and every deletion.

use std::fmt;

use crate::identity::ObjectId;
use crate::index::live::Live;

/// What the release says of itself; compared with what a live object says.
#[derive(Clone, Debug)]
pub struct Owner {
    /// UID of the custom resource.
    pub uid: String,
    /// The ApplySet id: the value of the member label `applyset.kubernetes.io/part-of`.
    pub set: String,
}

/// The relation of a live object to a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// Labelled and tracked by this very custom resource.
    Ours,
    /// helm-operator's, for this very custom resource: it is the controller in the object's owner references.
    Inherited,
    /// Of a custom resource of the same name whose UID is another: one that was deleted and restored from a backup.
    /// It is adopted when it is rendered, and never pruned.
    Predecessor,
    /// Of another release, with its ApplySet id or tracking id.
    OtherRelease(String),
    /// Carries our label, but the tracking annotation belongs to another object: a controller copied the labels.
    Copy,
    /// Left behind by a release of this kind, namespace and name, because it is to be kept. It is adopted when it is rendered.
    Kept,
    /// Carries nothing of ours: made by a person or by another tool.
    Foreign,
}

/// Relates a live object to a release. The label finds, the tracking annotation confirms: it names the member itself,
/// so that labels and annotations copied onto other objects (EndpointSlices, Pods) prove nothing.
pub fn ownership(id: &ObjectId, live: &Live, owner: &Owner) -> Ownership {
    let marks = &live.ownership;
    let tracked = marks.parse_tracking();
    let itself = tracked.as_ref().is_some_and(|tracking| {
        tracking.group_kind == id.group_kind && tracking.namespace == id.namespace && tracking.name == id.name
    });
    match (&tracked, marks.part_of.as_deref()) {
        (Some(tracking), _) if itself && tracking.owner_uid == owner.uid => Ownership::Ours,
        (Some(_), Some(set)) if itself && set == owner.set => Ownership::Predecessor,
        (_, Some(set)) if set != owner.set => Ownership::OtherRelease(set.to_owned()),
        (Some(tracking), _) if itself => Ownership::OtherRelease(tracking.owner_uid.clone()),
        (_, Some(_)) => Ownership::Copy,
        (_, None) if marks.controller.as_ref().is_some_and(|(_, uid)| *uid == owner.uid) => Ownership::Inherited,
        (None, None) if marks.controller.is_none() && marks.kept_from.as_deref() == Some(&owner.set) => Ownership::Kept,
        (_, None) => Ownership::Foreign,
    }
}

/// The release that a live object says it is a member of; `None` if its marks are copies, or not all there.
pub fn owner_of(id: &ObjectId, live: &Live) -> Option<Owner> {
    let owner = Owner {
        uid: live.ownership.parse_tracking()?.owner_uid,
        set: live.ownership.part_of.clone()?,
    };
    (ownership(id, live, &owner) == Ownership::Ours).then_some(owner)
}

impl fmt::Display for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ownership::Ours => f.write_str("it belongs to this release"),
            Ownership::Inherited => f.write_str("it was made by helm-operator for this custom resource"),
            Ownership::Predecessor => f.write_str("it belongs to an earlier custom resource of the same name"),
            Ownership::OtherRelease(other) => write!(f, "it belongs to another release ({other})"),
            Ownership::Kept => f.write_str("it was kept by an earlier release of the same name"),
            Ownership::Copy => f.write_str("it carries a copy of this release's labels"),
            Ownership::Foreign => f.write_str("it exists already and was not made by this operator"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::live::OwnershipMarks;
    use crate::testing::{id, owner, table};

    #[test]
    fn the_annotation_confirms_what_the_label_claims() {
        let id = id("Deployment.apps", "web");
        type Row = (Option<String>, Option<String>, Option<String>, String, Option<String>);
        for (part_of, tracking, controller, expected, owner_uid) in table::<Row>("ownership", "ownership") {
            let live = Live {
                ownership: OwnershipMarks {
                    part_of,
                    tracking: tracking.map(String::into_boxed_str),
                    controller: controller.map(|uid| ("Shop/a".into(), uid)),
                    ..OwnershipMarks::default()
                },
                ..Live::default()
            };
            assert_eq!(format!("{:?}", ownership(&id, &live, &owner())), expected, "{live:?}");
            assert_eq!(owner_of(&id, &live).map(|owner| owner.uid), owner_uid, "{live:?}");
        }
    }
}
