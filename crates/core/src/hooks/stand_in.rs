//! What controllers and kubelets make of the object of a hook, where there are none: a Job or Pod succeeds, and its condition of
//! readiness holds.

use serde_json::{Value, json};

use crate::annotations::{HOOK_RUN, READY_WHEN};

/// True if a hook made the object.
pub fn is_of_hook(object: &Value) -> bool {
    object["metadata"]["annotations"][HOOK_RUN].is_string()
}

/// The object of a hook after its success. `None` if it is as it was.
pub fn completed(object: &Value) -> Option<Value> {
    let mut changed = object.clone();
    let is_new = changed["status"].is_null();
    match object["kind"].as_str() {
        Some("Job") if is_new && object["spec"]["suspend"] != true => {
            changed["status"] = json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]});
        }
        Some("Pod") if is_new => changed["status"] = json!({"phase": "Succeeded"}),
        _ => {}
    }
    if let Some(annotations) = changed["metadata"]["annotations"].as_object_mut() {
        annotations.remove(READY_WHEN);
    }
    (changed != *object).then_some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_pods_of_hooks_succeed() {
        let object = |kind: &str, annotations: Value, spec: Value| json!({"kind": kind, "metadata": {"annotations": annotations}, "spec": spec});
        let job = object("Job", json!({(HOOK_RUN): "a", (READY_WHEN): "b"}), json!({}));
        assert!(is_of_hook(&job));
        let done = completed(&job).unwrap();
        assert_eq!(
            (
                &done["status"]["succeeded"],
                done["metadata"]["annotations"].get(READY_WHEN)
            ),
            (&json!(1), None)
        );
        assert_eq!(completed(&done), None);
        assert_eq!(
            completed(&object("Pod", json!({}), json!({}))).unwrap()["status"]["phase"],
            "Succeeded"
        );
        for other in [
            object("Job", json!({}), json!({"suspend": true})),
            object("ConfigMap", json!({}), json!({})),
        ] {
            assert_eq!(completed(&other), None);
        }
    }
}
