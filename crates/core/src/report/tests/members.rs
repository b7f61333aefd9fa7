//! Objects that are no releases.

use super::*;
use crate::identity::applyset::{PART_OF_LABEL, TRACKING_ANNOTATION};

/// A Deployment with the marks of a member of the release `obs/mon`.
fn marked() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "web", "namespace": "obs",
            "labels": {PART_OF_LABEL: "applyset-x-v1"},
            "annotations": {TRACKING_ANNOTATION: "u1:Deployment.apps:obs/web"},
            "ownerReferences": [{"apiVersion": "obs.example.com/v1", "kind": "Kps", "name": "mon", "uid": "u1"}],
        },
    })
}

fn report(object: &Value, named_release: Option<ObjectId>) -> ReleaseReport {
    let facts = ReportFacts {
        named_release,
        ..ReportFacts::new(GroupKind::new("apps", "Deployment"), object.clone())
    };
    ReleaseReport::of(&facts, now())
}

#[test]
fn a_member_names_its_release_and_the_command_for_it() {
    let release = member::named_owner(&marked());
    let report_of = |release| report(&marked(), release).causes.remove(0);
    let cause = report_of(release);
    assert_eq!(
        cause.message,
        "no operator handles it as a release; its labels name it as a member of the release Kps.obs.example.com obs/mon"
    );
    assert_eq!(cause.commands, ["chartwright explain kps.obs.example.com mon -n obs"]);
    let next = report(&marked(), None).next.message;
    assert_eq!(next, "the operator handles releases with all their members");

    let lost = report_of(None);
    assert!(
        lost.message.ends_with("as a member of a release that was not found"),
        "{lost:?}"
    );
    assert_eq!(lost.commands[0], "chartwright leftovers");
    let forged = ObjectId::new(GroupKind::new("obs.example.com", "Kps"), "obs", "$(reboot)");
    assert_eq!(report_of(Some(forged)).commands, Vec::<String>::new());
    let plain = report(&json!({"metadata": {"name": "web"}}), None).causes.remove(0);
    assert!(
        plain.message.starts_with("no operator has handled it: none runs"),
        "{plain:?}"
    );
}

#[test]
fn only_the_owner_of_the_annotation_is_named() {
    let with = |change: Value| {
        let mut object = marked();
        json_patch::merge(&mut object, &change);
        member::named_owner(&object).map(|id| id.to_string())
    };
    for (change, expected) in [
        (json!({}), Some("Kps.obs.example.com obs/mon")),
        (json!({"metadata": {"ownerReferences": null}}), None),
        (
            json!({"metadata": {"ownerReferences": [{"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "u2"}]}}),
            None,
        ),
        (json!({"metadata": {"annotations": null}}), None),
        (json!({"metadata": {"annotations": {TRACKING_ANNOTATION: "x"}}}), None),
    ] {
        assert_eq!(with(change.clone()).as_deref(), expected, "{change}");
    }
    let selector = |id: &str| member::release_selector(&json!({"metadata": {"labels": {PART_OF_LABEL: id}}}));
    assert_eq!(
        selector("applyset-x-v1").as_deref(),
        Some("applyset.kubernetes.io/id=applyset-x-v1")
    );
    assert_eq!(selector("a,b=c"), None);
    assert!(!member::is_marked(&json!({})));
}

#[test]
fn kinds_are_named_as_get_names_them() {
    let shown = serde_json::to_value(ReleaseReport::of(&facts(resource("", "", &[]), Vec::new()), now())).unwrap();
    assert_eq!(
        (&shown["group"], &shown["kind"]),
        (&json!("example.com"), &json!("Web"))
    );
}
