//! Objects of a world: apply, change, read and delete them.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::charts::fixture;
use super::fields::{describe, text};
use super::{SOON, World};

impl World {
    /// Installs a CRD of this world's group with a status subresource and any fields in spec and status.
    pub fn install_crd(&self, kind: &str) -> Result<()> {
        self.install_crd_with(kind, Some(any_fields()))
    }

    /// Like `install_crd`, with this schema of the status. `None`: no status subresource.
    pub fn install_crd_with(&self, kind: &str, status: Option<Value>) -> Result<()> {
        let mut crd = crd(&self.group(), kind);
        if self.cluster_scoped {
            crd["spec"]["scope"] = "Cluster".into();
        }
        let version = &mut crd["spec"]["versions"][0];
        if status.is_some() {
            version["subresources"] = json!({"status": {}});
        }
        let status = status.unwrap_or_else(|| json!({"type": "object"}));
        version["schema"]["openAPIV3Schema"]["properties"]["status"] = status;
        self.serve(&crd)
    }

    /// Applies a CustomResourceDefinition and waits until its kind is served.
    pub fn serve(&self, crd: &Value) -> Result<()> {
        self.apply(crd)?;
        self.kubectl
            .wait("Established", "crd", text(&crd["metadata"]["name"]), SOON)?;
        Ok(())
    }

    /// A custom resource of kind `Widget`.
    pub fn widget(&self, name: &str, spec: Value) -> Value {
        self.custom("Widget", name, spec)
    }

    /// A custom resource of one of this world's kinds.
    pub fn custom(&self, kind: &str, name: &str, spec: Value) -> Value {
        let mut metadata = json!({"name": name});
        if !self.cluster_scoped {
            metadata["namespace"] = self.name.as_str().into();
        }
        json!({"apiVersion": format!("{}/v1", self.group()), "kind": kind, "metadata": metadata, "spec": spec})
    }

    pub fn apply(&self, object: &Value) -> Result<()> {
        self.kubectl.apply(&object.to_string())
    }

    pub fn apply_widget(&self, name: &str, spec: Value) -> Result<()> {
        self.apply(&self.widget(name, spec))
    }

    /// Applies a widget and waits until it is ready.
    pub fn install(&self, name: &str, spec: Value) -> Result<Value> {
        self.apply_widget(name, spec)?;
        self.await_ready(name)
    }

    /// Applies widgets, each with its spec, and waits until all are ready.
    pub fn install_all<N: AsRef<str>>(&self, names: &[N], spec: impl Fn(&str) -> Value) -> Result<()> {
        let items: Vec<Value> = names
            .iter()
            .map(|name| self.widget(name.as_ref(), spec(name.as_ref())))
            .collect();
        self.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}))?;
        names
            .iter()
            .try_for_each(|name| self.await_ready(name.as_ref()).map(drop))
    }

    /// Changes the spec of a widget by a merge patch.
    pub fn edit(&self, name: &str, spec: Value) -> Result<()> {
        self.patch_widget(name, &json!({"spec": spec}))
    }

    /// Like `edit`, and waits until the widget is ready again.
    pub fn update(&self, name: &str, spec: Value) -> Result<Value> {
        self.edit(name, spec)?;
        self.await_ready(name)
    }

    /// Deletes a widget and waits until it is gone.
    pub fn delete(&self, name: &str) -> Result<()> {
        let deleted = self.kubectl.delete(&self.widgets(), name);
        deleted.with_context(|| self.describe_failure(name))
    }

    /// Deletes an existing widget without waiting.
    pub fn begin_delete(&self, name: &str) -> Result<()> {
        self.kubectl.begin_delete(&self.widgets(), name)
    }

    /// The full resource name of `Widget` for kubectl.
    pub fn widgets(&self) -> String {
        self.resource("Widget")
    }

    pub fn resource(&self, kind: &str) -> String {
        format!("{}s.{}", kind.to_lowercase(), self.group())
    }

    pub fn get(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        self.kubectl.get(kind, name)
    }

    /// Lists objects of some kinds in the world's namespace by label selector; `""` selects all.
    pub fn list(&self, kinds: &str, selector: &str) -> Result<Vec<Value>> {
        self.kubectl.list(kinds, selector)
    }

    /// Changes an object by a merge patch.
    pub fn patch(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        self.kubectl.patch(kind, name, patch)
    }

    /// Sets annotations of a widget; `null` removes one.
    pub fn annotate(&self, name: &str, annotations: Value) -> Result<()> {
        self.patch_widget(name, &json!({"metadata": {"annotations": annotations}}))
    }

    /// Changes an object by a `json` or `strategic` patch.
    pub fn patch_by(&self, patch_type: &str, kind: &str, name: &str, patch: &Value) -> Result<()> {
        let (by, patch) = (format!("--type={patch_type}"), patch.to_string());
        self.run(["patch", kind, name, &by, "-p", &patch]).map(drop)
    }

    /// Changes a widget by a merge patch.
    pub fn patch_widget(&self, name: &str, patch: &Value) -> Result<()> {
        self.patch(&self.widgets(), name, patch)
    }

    /// Changes the status of a widget by a merge patch.
    pub fn patch_status(&self, name: &str, patch: &Value) -> Result<()> {
        self.kubectl.patch_status(&self.widgets(), name, patch)
    }

    /// Requests a forced apply of a widget and waits until it is handled.
    pub fn force(&self, name: &str, token: &str) -> Result<()> {
        self.annotate(name, json!({"chartwright.dev/force-at": token}))?;
        self.await_field(&self.widgets(), name, "/status/lastHandledForceAt", token)
            .map(drop)
    }

    /// Changes the color in a ConfigMap, as drift.
    pub fn paint(&self, name: &str, color: &str) -> Result<()> {
        self.patch("configmap", name, &json!({"data": {"color": color}}))
    }

    /// Runs kubectl. Returns its output.
    pub fn run<const N: usize>(&self, arguments: [&str; N]) -> Result<String> {
        self.kubectl.run(arguments)
    }

    /// Reads an object that must exist.
    pub fn expect(&self, kind: &str, name: &str) -> Result<Value> {
        let found = self.get(kind, name)?;
        found.with_context(|| format!("there is no {kind} {name}"))
    }

    /// Reads a widget that must exist.
    pub fn live(&self, name: &str) -> Result<Value> {
        self.expect(&self.widgets(), name)
    }

    /// Checks that objects do not exist.
    pub fn absent<const N: usize>(&self, kind: &str, names: [&str; N]) -> Result<()> {
        for name in names {
            let object = self.get(kind, name)?;
            ensure!(object.is_none(), "{kind} {name} is {}", describe(object.as_ref()));
        }
        Ok(())
    }

    /// Adds a finalizer, so that a deleted object stays.
    pub fn hold(&self, kind: &str, name: &str) -> Result<()> {
        self.set_finalizers(kind, name, json!(["test.example/hold"]))
    }

    /// Removes all finalizers of an object.
    pub fn remove_finalizers(&self, kind: &str, name: &str) -> Result<()> {
        self.set_finalizers(kind, name, Value::Null)
    }

    fn set_finalizers(&self, kind: &str, name: &str, finalizers: Value) -> Result<()> {
        self.patch(kind, name, &json!({"metadata": {"finalizers": finalizers}}))
    }

    /// Sets the phase of the pods of a Job, like a kubelet.
    pub fn end_pods_of(&self, job: &str, phase: &str) -> Result<()> {
        let pods = self.list("pods", &format!("batch.kubernetes.io/job-name={job}"))?;
        ensure!(!pods.is_empty(), "{job} has no pod");
        let ended = json!({"status": {"phase": phase}});
        pods.iter()
            .try_for_each(|pod| self.kubectl.patch_status("pod", text(&pod["metadata"]["name"]), &ended))
    }

    /// Suspends a widget and waits for `Suspended`.
    pub fn suspend(&self, name: &str) -> Result<()> {
        self.annotate(name, json!({"chartwright.dev/suspend": "true"}))?;
        self.await_condition(name, "Suspended", "True").map(drop)
    }

    /// Lists objects with this operator's label in the world's namespace.
    pub fn labelled(&self, kinds: &str) -> Result<Vec<Value>> {
        self.list(kinds, &format!("chartwright.dev/operator={}", self.name))
    }
}

/// Reads a list of objects or cases from tests/fixtures/integration/objects.
pub fn objects(name: &str) -> Result<Vec<Value>> {
    let path = fixture("objects").join(format!("{name}.yaml"));
    Ok(serde_yaml::from_str(&fs::read_to_string(path)?)?)
}

/// A ConfigMap.
pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// A ConfigMap with an annotation.
pub fn annotated_map(name: &str, key: &str, value: &str) -> Value {
    let metadata = json!({"name": name, "annotations": {key: value}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// The schema of an object with any fields.
pub fn any_fields() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A CustomResourceDefinition of namespaced objects with any fields in spec and status.
pub fn crd(group: &str, kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    let properties = json!({"spec": any_fields(), "status": any_fields()});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    })
}
