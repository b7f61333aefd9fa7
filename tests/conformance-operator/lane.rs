//! Where charts are tried, one after the other: a control plane of its own, so that what a chart brings for the whole
//! cluster (CRDs, webhooks, APIServices) concerns no other.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::objects::{ObjectDifference, TrialObjects};
use crate::support::{AuditMark, ControlPlane, Kubectl};

pub const GROUP: &str = "conformance.test";
pub const KIND: &str = "Release";
/// The kind as kubectl takes it.
pub const RELEASES: &str = "releases.conformance.test";
/// Namespace of the operator. What lies there belongs to no release.
pub const OPERATOR_NAMESPACE: &str = "chartwright-system";
pub const OPERATOR: &str = "system:serviceaccount:chartwright-system:operator";

/// Charts ask for several nodes that pods keep apart on.
const NODES: usize = 5;

pub struct TrialLane {
    pub control_plane: ControlPlane,
    /// Credentials of the operator, who has all rights: each chart needs others.
    pub operator: PathBuf,
    /// The API server's version, as Helm takes it.
    pub kubernetes: String,
    /// Before anything was done for the chart that is tried, cleaning up after the last one included.
    pub begin: AuditMark,
    number: usize,
    /// What was there before the chart that is tried.
    before: TrialObjects,
}

impl TrialLane {
    pub fn start() -> Result<TrialLane> {
        let control_plane = ControlPlane::builder().pods(true).start()?;
        let kubectl = control_plane.kubectl();
        for number in 2..=NODES {
            let name = format!("node-{number}");
            let labels = json!({
                "kubernetes.io/arch": "amd64", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
            });
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}});
            kubectl.apply(&node.to_string())?;
        }
        kubectl.create_namespace(OPERATOR_NAMESPACE)?;
        kubectl.apply(&crd().to_string())?;
        kubectl.wait("Established", "crd", RELEASES, std::time::Duration::from_secs(30))?;
        let version: Value = serde_json::from_str(&kubectl.run(["get", "--raw", "/version"])?)?;
        Ok(TrialLane {
            operator: control_plane.kubeconfig_for(OPERATOR, &["system:masters"])?,
            kubernetes: version["gitVersion"].as_str().context("no gitVersion")?.to_owned(),
            begin: AuditMark::default(),
            number: 0,
            before: TrialObjects::default(),
            control_plane,
        })
    }

    /// A new namespace for the next chart, and kubectl in it. Remembers what else there is.
    pub fn next(&mut self) -> Result<(Kubectl, String)> {
        self.number += 1;
        let namespace = format!("c{}", self.number);
        let kubectl = self.control_plane.kubectl().create_namespace(&namespace)?;
        crate::support::until("a namespace is filled", std::time::Duration::from_secs(30), || {
            let account = kubectl.get("serviceaccount", "default")?;
            Ok(account.is_some() && kubectl.get("configmap", "kube-root-ca.crt")?.is_some())
        })?;
        self.before = TrialObjects::list(&kubectl)?;
        Ok((kubectl, namespace))
    }

    /// What came and what went since then.
    pub fn difference(&self) -> Result<ObjectDifference> {
        Ok(self
            .before
            .difference(TrialObjects::list(self.control_plane.kubectl())?))
    }

    /// Removes what the last chart left.
    pub fn clean(&mut self) -> Result<()> {
        self.begin = self.control_plane.audit().mark()?;
        if self.number == 0 {
            return Ok(());
        }
        let kubectl = self.control_plane.kubectl();
        let releases = kubectl.run(["get", RELEASES, "-A", "-o", "name"])?;
        ensure!(releases.trim().is_empty(), "left: {releases}");
        for (id, object) in self.difference()?.new {
            // What comes by itself goes by itself.
            if object.kind != "PersistentVolume" && object.kind != "APIService" {
                let namespace = format!("--namespace={}", object.namespace);
                let what = [object.resource(), object.name.clone()];
                let delete = [
                    "delete",
                    "--ignore-not-found",
                    "--timeout=30s",
                    &namespace,
                    &what[0],
                    &what[1],
                ];
                kubectl.run(delete).with_context(|| id.clone())?;
            }
        }
        kubectl.delete("namespace", &format!("c{}", self.number))
    }
}

fn crd() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": RELEASES},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"kind": KIND, "plural": "releases", "singular": "release", "listKind": "ReleaseList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": any},
            }],
        },
    })
}
