//! Words that the operator's own messages are made of. A Secret that holds one of them can't be told from them.

#[rustfmt::skip]
const OWN: [&str; 210] = [
    "absent", "accepted", "action", "against", "allowed", "annotate", "annotation", "annotations", "another",
    "answer", "applied", "archive", "autoscaler", "autoscalers", "backoff", "because", "before", "between",
    "bounded", "cannot", "change", "changed", "changes", "character", "characters", "charts", "chartwright",
    "cluster", "condition", "conditions", "config", "conflict", "container", "contains", "content", "controller",
    "correct", "corrected", "created", "custom", "default", "defaults", "delete", "deleted", "deletes",
    "dependencies", "dependency", "directory", "disabled", "discovery", "document", "element", "enabled", "events",
    "exceeded", "exists", "expected", "failed", "failing", "failure", "fields", "finalizer", "finalizers",
    "finished", "follow", "forbidden", "format", "function", "generation", "health", "healthy", "helper", "import",
    "include", "install", "installed", "integer", "internal", "invalid", "keyword", "kubectl", "labels", "length",
    "letter", "letters", "lookup", "lookups", "manager", "manifest", "manifests", "mapping", "members", "memory",
    "merging", "message", "metadata", "missing", "namespace", "namespaces", "needed", "nested", "network", "nothing",
    "number", "numbers", "object", "objects", "operator", "option", "orphan", "others", "output", "password",
    "passwords", "patched", "patches", "pattern", "period", "pointer", "policy", "properties", "property", "pruned",
    "random", "reader", "reason", "reconcile", "record", "recreated", "redacted", "refused", "release", "released",
    "releases", "removed", "render", "rendered", "rendering", "replaced", "replicas", "request", "requests",
    "required", "resource", "resources", "restored", "result", "results", "retries", "returned", "revision",
    "rights", "running", "scheduled", "schema", "schemas", "second", "seconds", "secret", "secrets", "selector",
    "server", "service", "services", "source", "sources", "stalled", "started", "starting", "status", "stopped",
    "string", "strings", "subresource", "suspended", "system", "target", "template", "templates", "terminating",
    "timeout", "tracking", "unable", "unchanged", "unexpected", "unhealthy", "uninstalled", "unknown", "update",
    "updated", "upgrade", "upgraded", "validation", "values", "version", "versions", "volume", "volumes", "waiting",
    "warning", "watched", "watches", "webhook", "webhooks", "without", "worker", "workload", "workloads", "writes",
    "written",
];

/// True for such a word.
pub(super) fn is_own(value: &str) -> bool {
    OWN.binary_search(&value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_in_order() {
        assert!(OWN.is_sorted());
        assert!(is_own("template") && !is_own("elastic"));
    }
}
