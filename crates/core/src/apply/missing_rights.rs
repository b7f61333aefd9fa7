//! Decides what to do when the API server refuses a request because the operator lacks a right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::pattern;
use crate::status::{Phase, Reason};

/// What the operator does with members of a kind. One missing verb is reported with all of them: a role that lacks one lacks others.
const MEMBER: [&str; 6] = ["get", "list", "watch", "create", "patch", "delete"];
/// What it does with what it only reads.
const READ: [&str; 3] = ["get", "list", "watch"];

/// Adds to the message of a phase which rights are needed and how to get them, if it quotes the API server's refusal.
/// `account`: `namespace/name` of the ServiceAccount whose rights count; `None` for the operator. `namespaces`: those that the operator works
/// in; `None` for all.
pub fn add_remedy(phase: &mut Phase, account: Option<&str>, namespaces: Option<&BTreeSet<String>>) {
    let (Phase::Waiting { reason, message }
    | Phase::Failed { reason, message, .. }
    | Phase::Stalled { reason, message, .. }) = phase
    else {
        return;
    };
    // These quote templates and values, and refusals have nothing to do with them.
    let is_of_author = matches!(
        reason,
        Reason::ChartInvalid
            | Reason::ValuesInvalid
            | Reason::RenderFailed
            | Reason::ManifestInvalid
            | Reason::PatchFailed
            | Reason::Denied
    );
    if is_of_author || message.contains("the operator needs") {
        return;
    }
    let is_read = matches!(reason, Reason::LookupFailed | Reason::DependencyNotReady);
    if let Some(remedy) = remedy(message, is_read, account, namespaces) {
        message.push_str(&remedy);
    }
}

fn remedy(
    message: &str,
    is_read: bool,
    account: Option<&str>,
    namespaces: Option<&BTreeSet<String>>,
) -> Option<String> {
    /// Kubernetes' words, in `pkg/registry` and `staging/src/k8s.io/apiserver/pkg/endpoints/handlers/responsewriters`.
    static REFUSED: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"cannot ([a-z]+) resource "([a-z0-9./-]{1,200})" in API group "([a-z0-9.-]{0,253})"(?: in the namespace "([a-z0-9-]{1,63})")?"#,
        )
    });
    static GRANTS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"(roles|clusterroles|rolebindings|clusterrolebindings)\.rbac\.authorization\.k8s\.io "[^"]*" is forbidden: user [^\n]{0,500} is attempting to grant RBAC permissions"#,
        )
    });
    if !message.contains("cannot ") && !message.contains("attempting to grant") {
        return None;
    }
    let mut needed: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut namespace = None;
    for found in REFUSED.captures_iter(message) {
        let part = |at: usize| found.get(at).map_or("", |part| part.as_str());
        let (verb, resource, group) = (part(1), part(2), part(3));
        let name = match group {
            "" => resource.to_owned(),
            group => format!("{resource}.{group}"),
        };
        let verbs = needed.entry(name).or_default();
        let usual: &[&str] = if is_read { &READ } else { &MEMBER };
        // A part of an object, as its status, is only written or only read.
        let is_single = resource.contains('/') || verb == "impersonate";
        let all = if is_single { &[] } else { usual };
        for verb in all.iter().chain(&[verb]) {
            if !verbs.contains(verb) {
                verbs.push(verb);
            }
        }
        namespace = namespace.or(found.get(4).map(|name| name.as_str()));
    }
    for found in GRANTS.captures_iter(message) {
        let resource = found.get(1).map_or("", |part| part.as_str());
        let (verb, resource) = if resource.ends_with("bindings") {
            ("bind", "roles and clusterroles")
        } else {
            ("escalate", resource)
        };
        let verbs = needed
            .entry(format!("{resource} (rbac.authorization.k8s.io)"))
            .or_default();
        if !verbs.contains(&verb) {
            verbs.push(verb);
        }
    }
    if needed.is_empty() {
        return None;
    }
    let needed = needed
        .iter()
        .map(|(resource, verbs)| format!("{} on {resource}", verbs.join(", ")));
    let needed: Vec<String> = needed.collect();
    let is_refused =
        |account: &&str| message.contains(&format!("system:serviceaccount:{}\"", account.replace('/', ":")));
    if let Some(account) = account.filter(is_refused) {
        return Some(format!(
            "; the ServiceAccount {account} needs the rights {}: bind a role with them to it",
            needed.join("; ")
        ));
    }
    let command = match namespaces {
        None => "`chartwright generate rbac -o config/rbac/role.yaml`, run in the project, writes a role with all rights that its charts \
                 need, and `make deploy` applies it"
            .to_owned(),
        Some(namespaces) => {
            let namespace = namespace.filter(|name| namespaces.contains(*name)).unwrap_or("NAMESPACE");
            format!(
                "`chartwright generate rbac --namespaced | kubectl apply -n {namespace} -f -`, run in the project, applies a role with all \
                 rights that its charts need there"
            )
        }
    };
    Some(format!(
        "; the operator needs the rights {}: {command}",
        needed.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(reason: Reason, message: &str, namespaces: Option<&[&str]>) -> String {
        let namespaces = namespaces.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        let mut phase = Phase::failed(reason, message);
        add_remedy(&mut phase, None, namespaces.as_ref());
        let Phase::Failed { message: text, .. } = phase else {
            panic!("{phase:?}")
        };
        text.strip_prefix(message).unwrap().to_owned()
    }

    #[test]
    fn all_verbs_and_the_command_are_named() {
        let refused = "User \"system:serviceaccount:op:op\" cannot patch resource \"ingresses\" in API group \"networking.k8s.io\" in the \
                       namespace \"shop\"";
        let added_to = |reason, message: &str| added(reason, message, None);
        for (reason, message, expected) in [
            (
                Reason::Forbidden,
                refused,
                "; the operator needs the rights get, list, watch, create, patch, delete on ingresses.networking.k8s.io: `chartwright generate \
                 rbac -o config/rbac/role.yaml`",
            ),
            (
                Reason::LookupFailed,
                "User \"x\" cannot list resource \"nodes\" in API group \"\" at the cluster scope",
                "; the operator needs the rights get, list, watch on nodes: ",
            ),
            (
                Reason::HookFailed,
                "User \"x\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"shop\"",
                "; the operator needs the rights get on pods/log: ",
            ),
            (
                Reason::Forbidden,
                "clusterroles.rbac.authorization.k8s.io \"web\" is forbidden: user \"x\" (groups=[\"a\"]) is attempting to grant RBAC \
                 permissions not currently held:\n{}",
                "; the operator needs the rights escalate on clusterroles (rbac.authorization.k8s.io): ",
            ),
        ] {
            let text = added_to(reason, message);
            assert!(text.starts_with(expected), "{text}");
        }
        let text = added(Reason::Forbidden, refused, Some(&["shop"]));
        assert!(
            text.contains("`chartwright generate rbac --namespaced | kubectl apply -n shop -f -`"),
            "{text}"
        );
        let text = added(Reason::Forbidden, refused, Some(&["other"]));
        assert!(text.contains("-n NAMESPACE -f -"), "{text}");
        for (reason, message) in [
            (Reason::RenderFailed, refused),
            (Reason::Forbidden, "pods \"a\" is forbidden: exceeded quota"),
            (
                Reason::Claim,
                &format!("{refused}; the operator needs the rights to get and patch"),
            ),
        ] {
            assert_eq!(added_to(reason, message), "", "{message}");
        }
    }
}
