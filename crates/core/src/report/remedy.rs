//! Commands that show more of a problem, or help. None of them deletes data, apart from `emptyDir` volumes of a pod that is stuck.

use crate::annotations::FORCE_AT;
use crate::hooks::HookRun;
use crate::identity::ObjectId;

/// Commands for a reason of `Ready`, or for a condition. `message`: that of the condition. `words`: kind, name and namespace as commands
/// take them.
pub(super) fn commands_of_reason(reason: &str, message: &str, words: &str) -> Vec<String> {
    let texts: &[&str] = match reason {
        "Suspended" => &["chartwright resume WORDS"],
        "ChartInvalid" | "ManifestInvalid" | "PatchFailed" => &["chartwright lint"],
        "ValuesInvalid" | "RenderFailed" => &["kubectl edit WORDS", "chartwright values WORDS"],
        "Refused" | "DependencyCycle" => &["kubectl edit WORDS"],
        "Forbidden" | "WatchFailed" => &[
            "chartwright generate rbac -o config/rbac/role.yaml",
            "kubectl describe WORDS",
        ],
        "Immutable" => return commands_of_immutable(message, words),
        "Collision" | "ObjectInvalid" | "KindUnknown" => &[
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

/// Commands for a member with a changed immutable field: what its message recommends, then an edit. `chartwright force` recreates such
/// members unless they hold data.
fn commands_of_immutable(message: &str, words: &str) -> Vec<String> {
    let recommended = if let Some(command) = orphan_delete(message) {
        Some(command)
    } else {
        message.contains(FORCE_AT).then(|| format!("chartwright force {words}"))
    };
    let edit = format!("kubectl edit {words}");
    recommended.into_iter().chain([edit]).collect()
}

/// The command of a message that deletes a StatefulSet and keeps its pods. Messages can be forged: any other command is left out.
fn orphan_delete(message: &str) -> Option<String> {
    let quoted = message.split('`').skip(1).step_by(2);
    let mut commands = quoted.filter(|command| {
        let words: Vec<&str> = command.split(' ').collect();
        matches!(words[..], ["kubectl", "delete", "statefulset", name, "-n", namespace, "--cascade=orphan"]
            if is_plain(name) && is_plain(namespace))
    });
    commands.next().map(str::to_owned)
}

/// Commands for a hook that runs or failed. Empty if its name needs quotes.
pub(super) fn commands_of_hook(run: &HookRun) -> Vec<String> {
    let id = &run.object;
    let describe = commands_of_object(id, "", false);
    if describe.is_empty() {
        return describe;
    }
    let place = in_namespace(&id.namespace);
    let logs = match (id.group_kind.group.as_str(), id.group_kind.kind.as_str()) {
        ("batch", "Job") => Some(format!("kubectl logs{place} job/{}", id.name)),
        ("", "Pod") => Some(format!("kubectl logs{place} {}", id.name)),
        _ => None,
    };
    logs.into_iter().chain(describe).collect()
}

/// Commands for an object whose labels name a release.
pub(super) fn commands_of_member(release: Option<&ObjectId>) -> Vec<String> {
    match release {
        Some(release) => {
            let kind = release.group_kind.to_string().to_lowercase();
            let place = in_namespace(&release.namespace);
            let are_plain = [&kind, &release.name, &release.namespace]
                .into_iter()
                .all(|name| name.is_empty() || is_plain(name));
            let command = format!("chartwright explain {kind} {}{place}", release.name);
            are_plain.then_some(command).into_iter().collect()
        }
        None => vec!["chartwright leftovers".to_owned(), "chartwright get -A".to_owned()],
    }
}

/// True if a name needs no quotes in a shell. Names in a status can be forged.
fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
}

/// Commands for an object that is not healthy. `is_stuck`: only a deletion of this pod helps.
pub(super) fn commands_of_object(id: &ObjectId, message: &str, is_stuck: bool) -> Vec<String> {
    let kind = id.group_kind.to_string().to_lowercase();
    let names = [kind.as_str(), id.name.as_str(), id.namespace.as_str()];
    if !names.into_iter().all(|name| name.is_empty() || is_plain(name)) {
        return Vec::new();
    }
    let place = in_namespace(&id.namespace);
    let describe = format!("kubectl describe {kind} {}{place}", id.name);
    if is_stuck {
        return vec![format!("kubectl delete {kind} {}{place}", id.name), describe];
    }
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
