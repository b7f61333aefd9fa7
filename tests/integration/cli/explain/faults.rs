//! Staged faults, each a file of tests/fixtures/integration/explain/faults: the first three lines of `explain` name the cause.
//!
//! Real controllers make a fault where they can. Where only a kubelet or another operator could, the file has the status that it writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::Kubectl;
use crate::world::fields::{is_ready, text};
use crate::world::{World, crd, member_rule};

/// The time limit for all faults together. The slowest are those of the autoscaler and of contested drift.
const LIMIT: Duration = Duration::from_secs(150);
/// Lines of the output that must name the cause.
const FIRST_LINES: usize = 3;

/// One staged fault. `NAME` and `NAMESPACE` in any text stand for those of the release.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fault {
    /// Labels of a namespace that it has for itself.
    namespace: Option<Value>,
    /// Objects of another client, there before the release.
    #[serde(default)]
    before: Vec<Value>,
    #[serde(default)]
    annotations: Value,
    spec: Value,
    /// A change of the spec once the release is ready.
    edit: Option<Value>,
    /// What a kubelet writes into the status of the pods.
    pod_status: Option<Value>,
    /// The Event of a kubelet about the pods.
    pod_event: Option<PodEvent>,
    /// What another controller writes into the status of an object.
    status: Option<ObjectStatus>,
    drift: Option<Drift>,
    /// What the first lines contain.
    expect: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PodEvent {
    reason: String,
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ObjectStatus {
    kind: String,
    name: String,
    status: Value,
}

/// Changes of another client that the operator corrects.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Drift {
    kind: String,
    name: String,
    patch: Value,
}

/// A fault on the API server.
struct Staged {
    name: String,
    fault: Fault,
    kubectl: Kubectl,
    namespace: String,
    is_staged: bool,
}

fn read_faults(world: &World) -> Result<BTreeMap<String, Fault>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/integration/explain/faults");
    let mut faults = BTreeMap::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_stem().context("a name")?.to_string_lossy().into_owned();
        let text = fs::read_to_string(&path)?;
        let is_alone = text.contains("\nnamespace:");
        let namespace = if is_alone {
            format!("{}-{name}", world.name)
        } else {
            world.name.clone()
        };
        let text = text.replace("NAMESPACE", &namespace).replace("NAME", &name);
        let fault = serde_yaml::from_str(&text).with_context(|| path.display().to_string())?;
        faults.insert(name, fault);
    }
    Ok(faults)
}

impl Staged {
    fn new(world: &World, name: String, fault: Fault) -> Result<Self> {
        let (kubectl, namespace) = match &fault.namespace {
            None => (world.kubectl.clone(), world.name.clone()),
            Some(labels) => {
                let namespace = format!("{}-{name}", world.name);
                let kubectl = world.control_plane.kubectl().create_namespace(&namespace)?;
                kubectl.patch("namespace", &namespace, &json!({"metadata": {"labels": labels}}))?;
                (kubectl, namespace)
            }
        };
        for object in &fault.before {
            kubectl.apply(&object.to_string())?;
        }
        let mut resource = world.widget(&name, fault.spec.clone());
        resource["metadata"]["namespace"] = namespace.as_str().into();
        resource["metadata"]["annotations"] = fault.annotations.clone();
        kubectl.apply(&resource.to_string())?;
        Ok(Staged {
            is_staged: false,
            name,
            fault,
            kubectl,
            namespace,
        })
    }

    /// Stages what depends on objects that the operator or a controller creates first. True when all of it is done.
    fn stage(&self, world: &World) -> Result<bool> {
        let fault = &self.fault;
        if fault.edit.is_some() || fault.drift.is_some() {
            let live = self.kubectl.get(&world.widgets(), &self.name)?;
            if !live.is_some_and(|live| is_ready(&live)) {
                return Ok(false);
            }
        }
        if let Some(edit) = &fault.edit {
            self.kubectl
                .patch(&world.widgets(), &self.name, &json!({"spec": edit}))?;
        }
        if let Some(Drift { kind, name, patch }) = &fault.drift {
            self.contest(kind, name, patch)?;
        }
        if let Some(ObjectStatus { kind, name, status }) = &fault.status {
            if self.kubectl.get(kind, name)?.is_none() {
                return Ok(false);
            }
            self.kubectl.patch_status(kind, name, &json!({"status": status}))?;
        }
        if fault.pod_status.is_some() || fault.pod_event.is_some() {
            return self.stage_pods();
        }
        Ok(true)
    }

    /// Writes what a kubelet writes, after the Stage of kwok did.
    fn stage_pods(&self) -> Result<bool> {
        let pods = self.kubectl.list("pods", &format!("app={}", self.name))?;
        let has_status = |pod: &Value| pod["status"]["containerStatuses"].is_array();
        if pods.is_empty() || !pods.iter().all(has_status) {
            return Ok(false);
        }
        for pod in &pods {
            let (name, uid) = (text(&pod["metadata"]["name"]), &pod["metadata"]["uid"]);
            if let Some(status) = &self.fault.pod_status {
                self.kubectl.patch_status("pod", name, &json!({"status": status}))?;
            }
            if let Some(PodEvent { reason, message }) = &self.fault.pod_event {
                let about =
                    json!({"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": self.namespace, "uid": uid});
                let event = json!({
                    "apiVersion": "v1", "kind": "Event", "metadata": {"name": format!("{name}.1")}, "type": "Warning",
                    "involvedObject": about, "reason": reason, "message": message, "count": 3,
                    "source": {"component": "kubelet"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00Z",
                });
                self.kubectl.apply(&event.to_string())?;
            }
        }
        Ok(true)
    }

    /// Changes an object until the operator takes it for a contest.
    fn contest(&self, kind: &str, name: &str, patch: &Value) -> Result<()> {
        for _ in 0..7 {
            self.kubectl.patch(kind, name, patch)?;
            std::thread::sleep(Duration::from_millis(700));
        }
        Ok(())
    }

    /// What `explain` prints first, and what it lacks.
    fn check(&self, world: &World) -> Result<(String, Vec<String>)> {
        let (status, output) = world.chartwright(&["explain", &world.widgets(), &self.name, "-n", &self.namespace])?;
        ensure!(status.success(), "{}: {output}", self.name);
        let first: Vec<&str> = output.lines().take(FIRST_LINES).collect();
        let first = first.join("\n");
        let missing = self.fault.expect.iter().filter(|words| !first.contains(words.as_str()));
        Ok((output.clone(), missing.cloned().collect()))
    }
}

#[test]
fn the_first_lines_name_the_cause() -> Result<()> {
    let world = World::of_chart("explain", "explain/chart")?;
    let mut certificates = crd("explain-certs.example.com", "Certificate");
    certificates["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    world.serve(&certificates)?;
    let rules = [
        ("", "persistentvolumeclaims"),
        ("", "services"),
        ("batch", "jobs"),
        ("networking.k8s.io", "ingresses"),
        ("autoscaling", "horizontalpodautoscalers"),
        ("explain-certs.example.com", "certificates"),
    ];
    world.grant("faults", &rules.map(|(group, resource)| member_rule(group, resource)))?;
    let _operator = world.start()?;
    let faults = read_faults(&world)?;
    ensure!(faults.len() >= 30, "{} faults", faults.len());
    let staged = faults.into_iter().map(|(name, fault)| Staged::new(&world, name, fault));
    let mut open: Vec<Staged> = staged.collect::<Result<_>>()?;
    let deadline = Instant::now() + LIMIT;
    let mut failures = Vec::new();
    while !open.is_empty() {
        failures.clear();
        let mut still_open = Vec::new();
        for mut fault in open {
            if !fault.is_staged {
                fault.is_staged = fault.stage(&world)?;
            }
            let (output, missing) = fault.check(&world)?;
            if !missing.is_empty() || !fault.is_staged {
                failures.push(format!(
                    "{}: no {missing:?} in the first lines of\n{output}",
                    fault.name
                ));
                still_open.push(fault);
            } else {
                let first: Vec<&str> = output.lines().take(FIRST_LINES).collect();
                println!("{}:\n{}\n", fault.name, first.join("\n"));
            }
        }
        open = still_open;
        if Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    ensure!(
        failures.is_empty(),
        "{} faults\n{}",
        failures.len(),
        failures.join("\n")
    );
    Ok(())
}
