//! Commands that show more of a problem, or help. None of them deletes data.

use crate::identity::ObjectId;

/// Commands for a reason of `Ready`, or for a condition. `words`: kind, name and namespace as commands take them.
pub(super) fn commands_of_reason(reason: &str, words: &str) -> Vec<String> {
    let texts: &[&str] = match reason {
        "Suspended" => &["chartwright resume WORDS"],
        "ChartInvalid" | "ManifestInvalid" | "PatchFailed" => &["chartwright lint"],
        "ValuesInvalid" | "RenderFailed" => &["kubectl edit WORDS", "chartwright values WORDS"],
        "Refused" | "DependencyCycle" => &["kubectl edit WORDS"],
        "Forbidden" | "WatchFailed" => &[
            "chartwright generate rbac -o config/rbac/role.yaml",
            "kubectl describe WORDS",
        ],
        "Collision" | "Immutable" | "ObjectInvalid" | "KindUnknown" => &[
            "kubectl get WORDS -o yaml | chartwright render -f -",
            "kubectl edit WORDS",
        ],
        "ApplyFailed" | "Denied" | "LookupFailed" | "HookFailed" => {
            &["chartwright reconcile WORDS", "kubectl describe WORDS"]
        }
        "RolledBack" | "RollingBack" | "UpgradeFailed" | "InstallFailed" => {
            &["chartwright history WORDS", "chartwright force WORDS"]
        }
        "NotHandled" | "NewGeneration" => &[
            "chartwright get -A",
            "kubectl get pods -A -l app.kubernetes.io/component=controller-manager",
        ],
        _ => &["kubectl describe WORDS"],
    };
    texts.iter().map(|text| text.replace("WORDS", words)).collect()
}

/// True if a name needs no quotes in a shell. Names in a status can be forged.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

/// Commands for an object that is not healthy.
pub(super) fn commands_of_object(id: &ObjectId, message: &str) -> Vec<String> {
    let kind = id.group_kind.to_string().to_lowercase();
    let names = [kind.as_str(), id.name.as_str(), id.namespace.as_str()];
    if !names.into_iter().all(|name| name.is_empty() || is_plain(name)) {
        return Vec::new();
    }
    let place = in_namespace(&id.namespace);
    let describe = format!("kubectl describe {kind} {}{place}", id.name);
    let has_log = ["exit code", "CrashLoopBackOff", " runs but "]
        .iter()
        .any(|text| message.contains(text));
    if kind != "pod" || !has_log {
        return vec![describe];
    }
    let previous = if message.contains("CrashLoopBackOff") {
        " --previous"
    } else {
        ""
    };
    let logs = format!("kubectl logs {}{place} --all-containers{previous}", id.name);
    vec![logs, describe]
}

/// The flag of a namespace; empty for cluster-scoped objects.
pub(super) fn in_namespace(namespace: &str) -> String {
    match namespace {
        "" => String::new(),
        namespace => format!(" -n {namespace}"),
    }
}
