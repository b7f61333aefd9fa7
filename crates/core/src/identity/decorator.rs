//! Labels, field managers and Secret names of decorators: releases that are attached to an object of another owner.
//! Several decorators may be attached to one object, so each one's names contain the decorator's name.

/// On an object that is decorated: by which such are found. All decorators of an object share it.
pub const LABEL: &str = "chartwright.dev/decorated";
/// What the annotations of decorators on their object begin with. That of [`kinds`] says that there is a release.
const PREFIX: &str = "decorator.chartwright.dev/";
const FINALIZER: &str = "chartwright.dev/decorator-";

/// The annotation with the kinds among its members.
pub fn kinds(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The one with the namespaces of its members besides that of the object, where there are any.
pub fn namespaces(name: &str) -> String {
    format!("{PREFIX}{name}.namespaces")
}

/// The one that says where its random results are, if there are any.
pub fn kept(name: &str) -> String {
    format!("{PREFIX}{name}.kept-results")
}

/// The finalizer, where a deletion has work.
pub fn finalizer(name: &str) -> String {
    format!("{FINALIZER}{name}")
}

/// The decorator whose finalizer this is.
pub fn of_finalizer(finalizer: &str) -> Option<&str> {
    finalizer.strip_prefix(FINALIZER)
}

/// True for what decorators write: an annotation, a label or a finalizer.
pub fn is_mark(key: &str) -> bool {
    key == LABEL || key.starts_with(PREFIX) || key.starts_with(FINALIZER)
}

/// The owner's part of a tracking id, for the members of a decorator.
pub fn owner_uid(uid: &str, name: &str) -> String {
    format!("{uid}/{name}")
}

/// The UID of the object in the owner's part of a tracking id.
pub fn object_uid(owner_uid: &str) -> &str {
    owner_uid.split_once('/').map_or(owner_uid, |(uid, _)| uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::GroupKind;
    use crate::identity::applyset::{parse_tracking_id, tracking_id};
    use crate::identity::ownership::{Owner, Ownership, ownership};
    use crate::testing::{id, live};

    #[test]
    fn marks_are_known_and_read_back() {
        for mark in [kinds("a"), namespaces("a"), kept("a"), finalizer("a"), LABEL.to_owned()] {
            assert!(is_mark(&mark), "{mark}");
            // Kubernetes' bound for the part behind the slash.
            assert!(mark.rsplit('/').next().unwrap().len() + 39 <= 63, "{mark}");
        }
        assert!(!is_mark("chartwright.dev/release") && !is_mark("chartwright.dev/suspend"));
        assert_eq!(of_finalizer(&finalizer("a")), Some("a"));
        assert_eq!(of_finalizer("chartwright.dev/release"), None);
        assert_eq!(object_uid(&owner_uid("u", "a")), "u");
        assert_eq!(object_uid("u"), "u");
        let text = tracking_id(&owner_uid("u", "a"), &GroupKind::new("", "Secret"), "n", "s");
        assert_eq!(parse_tracking_id(&text).unwrap().owner_uid, "u/a");
    }

    #[test]
    fn what_another_decorator_of_the_object_made_is_anothers() {
        let id = id("ConfigMap", "a");
        let owner = |name: &str| Owner {
            uid: owner_uid("u1", name),
            set: format!("set-{name}"),
        };
        for label in [true, false] {
            let mut live = live(&id);
            live.ownership.part_of = label.then(|| owner("one").set);
            let tracking = tracking_id(&owner("one").uid, &id.group_kind, &id.namespace, &id.name);
            live.ownership.tracking = Some(tracking.into());
            assert_eq!(ownership(&id, &live, &owner("one")), Ownership::Ours);
            let other = ownership(&id, &live, &owner("two"));
            assert!(matches!(other, Ownership::OtherRelease(_)), "{other:?}");
        }
        // Nor is what the object itself controls.
        let mut live = live(&id);
        (live.ownership.part_of, live.ownership.tracking) = (None, None);
        live.ownership.controller = Some(("Deployment/a".into(), "u1".into()));
        assert_eq!(ownership(&id, &live, &owner("one")), Ownership::Foreign);
    }
}
