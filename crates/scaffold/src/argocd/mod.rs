//! The configuration of Argo CD for the kinds of a project: health checks, actions and ignored differences.
//!
//! Facts from Argo CD's `util/lua`: scripts see the object as `obj` and have only the base, table and `os` (`time`, `date`)
//! libraries. An action needs a definition of its name; the discovery script decides which of them are offered.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::{Map, Value, json};

use super::printable::to_yaml;
use super::survey::Survey;
use super::tree::FileTree;
use chartwright_core::annotations::{KEPT, TAKEOVER};
use chartwright_core::identity::{applyset, decorator};
use chartwright_watches::{OnFailure, Watch};

#[cfg(test)]
mod tests;

/// The ConfigMap that Argo CD reads.
pub const CONFIG_MAP: &str = "argocd-cm";
const PATCH_FILE: &str = "argocd-cm.yaml";
const HEALTH: &str = include_str!("health.lua");
const DISCOVERY: &str = include_str!("discovery.lua");
const ANNOTATE: &str = include_str!("annotate.lua");
const HEALTHY_REVISION: &str = include_str!("healthy_revision.lua");
const RUN_PLAN: &str = include_str!("run_plan.lua");
/// Actions that every kind has.
const ACTIONS: [(&str, &str); 4] = [
    ("suspend", include_str!("suspend.lua")),
    ("resume", include_str!("resume.lua")),
    ("reconcile", include_str!("reconcile.lua")),
    ("force", include_str!("force.lua")),
];
const ROLLBACK: &str = include_str!("rollback.lua");
/// The largest key of a ConfigMap, in bytes.
const MAX_KEY: usize = 253;

/// What the watches of one kind need in Argo CD.
#[derive(Debug, Default)]
struct KindNeeds {
    group: String,
    kind: String,
    /// The kind has releases of its own, so its status and its annotations are Chartwright's.
    is_owned: bool,
    /// Revisions are stored, so that a rollback is possible.
    has_rollback: bool,
    plans: BTreeSet<String>,
    decorators: BTreeSet<String>,
}

impl KindNeeds {
    fn add(&mut self, watch: &Watch, survey: &Survey) {
        match &watch.decorator {
            Some(name) => drop(self.decorators.insert(name.to_string())),
            None => {
                self.is_owned = true;
                self.has_rollback |= watch.on_failure == OnFailure::Rollback;
                self.plans.extend(survey.plans().cloned());
            }
        }
    }

    /// Argo CD's name of the kind: `<group>_<kind>`, and the kind alone in the core group.
    fn key(&self) -> String {
        match self.group.as_str() {
            "" => self.kind.clone(),
            group => format!("{group}_{}", self.kind),
        }
    }

    fn discovery(&self) -> String {
        let plans = self.plans.iter().map(|plan| format!("[{}] = true", lua_text(plan)));
        let plans = plans.collect::<Vec<_>>().join(", ");
        format!(
            "local rollback = {}\nlocal defined_plans = {{{plans}}}\n{HEALTHY_REVISION}{DISCOVERY}",
            self.has_rollback
        )
    }

    fn actions(&self) -> anyhow::Result<String> {
        let action = |name: &str, script: String| json!({"name": name, "action.lua": script});
        let mut definitions: Vec<Value> = Vec::new();
        for (name, script) in ACTIONS {
            definitions.push(action(name, format!("{ANNOTATE}{script}")));
        }
        if self.has_rollback {
            definitions.push(action("rollback", format!("{HEALTHY_REVISION}{ANNOTATE}{ROLLBACK}")));
        }
        // For plans that only other values of the chart have.
        let of_parameter = "local plan = actionParams ~= nil and actionParams[\"plan\"] or nil\n";
        definitions.push(action("run-plan", format!("{of_parameter}{ANNOTATE}{RUN_PLAN}")));
        for plan in &self.plans {
            let script = format!("local plan = {}\n{ANNOTATE}{RUN_PLAN}", lua_text(plan));
            definitions.push(action(&format!("run-plan-{plan}"), script));
        }
        Ok(to_yaml(
            &json!({"discovery.lua": self.discovery(), "definitions": definitions}),
        )?)
    }

    /// What the operator writes into the metadata and the status of the object.
    fn ignored(&self) -> anyhow::Result<String> {
        let mut pointers = Vec::new();
        let mut finalizers = Vec::new();
        if self.is_owned {
            pointers.push("/status".to_owned());
            pointers.push(pointer("labels", applyset::ID_LABEL));
            let annotations = [
                applyset::TOOLING_ANNOTATION,
                applyset::KINDS_ANNOTATION,
                applyset::NAMESPACES_ANNOTATION,
                KEPT,
                TAKEOVER,
            ];
            pointers.extend(annotations.map(|key| pointer("annotations", key)));
            finalizers.push(applyset::FINALIZER.to_owned());
        }
        if !self.decorators.is_empty() {
            pointers.push(pointer("labels", decorator::LABEL));
        }
        for name in &self.decorators {
            let annotations = [
                decorator::kinds(name),
                decorator::namespaces(name),
                decorator::kept(name),
            ];
            pointers.extend(annotations.map(|key| pointer("annotations", &key)));
            finalizers.push(decorator::finalizer(name));
        }
        let finalizers = finalizers
            .iter()
            .map(|name| format!(".metadata.finalizers[]? | select(. == {})", Value::from(name.as_str())));
        let finalizers: Vec<String> = finalizers.collect();
        Ok(to_yaml(
            &json!({"jsonPointers": pointers, "jqPathExpressions": finalizers}),
        )?)
    }
}

/// A JSON pointer to a key of the labels or annotations.
fn pointer(field: &str, key: &str) -> String {
    format!("/metadata/{field}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// A text as a literal of Lua: each byte that is no letter or digit is escaped.
fn lua_text(text: &str) -> String {
    let bytes = text.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("\\{byte:03}"),
    });
    format!("\"{}\"", bytes.collect::<String>())
}

/// The entries of the ConfigMap `argocd-cm` for these watches, each with the survey of its chart.
///
/// # Errors
/// The name of a kind is too long for a key of a ConfigMap.
pub fn entries(watches: &[(&Watch, &Survey)]) -> anyhow::Result<Map<String, Value>> {
    let mut kinds: Vec<KindNeeds> = Vec::new();
    for (watch, survey) in watches {
        let is_same = |needs: &KindNeeds| needs.group == watch.group && needs.kind == watch.kind;
        let at = kinds.iter().position(is_same).unwrap_or_else(|| {
            kinds.push(KindNeeds {
                group: watch.group.clone(),
                kind: watch.kind.clone(),
                ..KindNeeds::default()
            });
            kinds.len() - 1
        });
        kinds[at].add(watch, survey);
    }
    let mut entries = Map::new();
    for needs in &kinds {
        let mut add = |what: &str, text: String| {
            let key = format!("resource.customizations.{what}.{}", needs.key());
            ensure!(
                key.len() <= MAX_KEY,
                "Argo CD cannot be configured for {}: the key {key} of the ConfigMap {CONFIG_MAP} has more than {MAX_KEY} bytes; \
                 use a shorter API group",
                needs.kind
            );
            entries.insert(key, text.into());
            Ok(())
        };
        if needs.is_owned {
            add("health", HEALTH.to_owned())?;
            add("actions", needs.actions()?)?;
        }
        add("ignoreDifferences", needs.ignored()?)?;
    }
    Ok(entries)
}

/// The ConfigMap with these entries alone, for `kubectl apply --server-side`.
///
/// # Errors
/// The YAML library refuses the object.
pub fn config_map(entries: &Map<String, Value>) -> anyhow::Result<String> {
    // Argo CD reads only ConfigMaps with this label.
    let labels = json!({"app.kubernetes.io/name": CONFIG_MAP, "app.kubernetes.io/part-of": "argocd"});
    Ok(to_yaml(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "labels": labels}, "data": entries,
    }))?)
}

/// A kustomize component that adds these entries to the ConfigMap of a kustomization of Argo CD.
///
/// # Errors
/// The YAML library refuses the object.
pub fn component(entries: &Map<String, Value>) -> anyhow::Result<FileTree> {
    // With a target, the patch fits the ConfigMap of any namespace.
    let target = json!({"version": "v1", "kind": "ConfigMap", "name": CONFIG_MAP});
    let mut tree = FileTree::default();
    tree.add(
        "kustomization.yaml",
        to_yaml(&json!({
            "apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
            "patches": [{"path": PATCH_FILE, "target": target}],
        }))?,
    );
    tree.add(PATCH_FILE, config_map(entries)?);
    Ok(tree)
}
