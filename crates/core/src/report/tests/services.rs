//! Services without endpoints.

use super::*;

/// A Service for the pods with the label `app: web`, and its EndpointSlice with this endpoint.
fn front(endpoint: Option<Value>) -> Vec<Value> {
    let selector = json!({"spec": {"selector": {"app": "web"}}});
    let endpoints: Vec<Value> = endpoint.into_iter().collect();
    vec![
        object("v1", "Service", "front", None, &selector),
        object(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "front-x",
            Some("front"),
            &json!({"endpoints": endpoints}),
        ),
    ]
}

#[test]
fn a_service_of_a_ready_release_is_named_only_if_something_is_known() {
    let unready = || Some(json!({"conditions": {"ready": false}, "targetRef": {"kind": "Pod", "name": "other-1"}}));
    let template = |app: &str| {
        let labels = json!({"spec": {"template": {"metadata": {"labels": {"app": app}}}}});
        Some(object("apps/v1", "Deployment", "web", None, &labels))
    };
    let pod = Some(object(
        "v1",
        "Pod",
        "web-1",
        None,
        &json!({"metadata": {"labels": {"app": "web"}}}),
    ));
    let of_others = "its selector app=web matches pods of others";
    for (ready, endpoint, other, expected) in [
        ("", None, None, ""),
        ("", None, template("other"), ""),
        (
            "",
            None,
            template("web"),
            "the workload with the labels app=web of its selector has no pods",
        ),
        ("", unready(), None, of_others),
        ("", unready(), pod, "none of 1 pods with the labels app=web is ready"),
        ("", Some(json!({"targetRef": {"kind": "Pod"}})), None, ""),
        (
            "MemberFailed",
            None,
            None,
            "no pod of the release has the labels app=web",
        ),
        ("MemberFailed", unready(), None, of_others),
    ] {
        let objects = front(endpoint).into_iter().chain(other).collect();
        let facts = facts(resource(ready, "", &[("", "Service", "front")]), objects);
        let report = ReleaseReport::of(&facts, now());
        let messages: Vec<&str> = report.causes.iter().map(|cause| cause.message.as_str()).collect();
        let is_named = messages
            .iter()
            .any(|message| !expected.is_empty() && message.contains(expected));
        assert_eq!(is_named, !expected.is_empty(), "{expected}: {messages:?}");
        assert!(!expected.is_empty() || messages.is_empty(), "{messages:?}");
    }
}
