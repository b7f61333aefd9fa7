//! The project's own charts, with their CRDs, watches and rights, as they are shipped. Only their API groups are the
//! world's own, so that tests don't see each other's custom resources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{AuditedRequests, eventually};
use crate::world::fields::{condition, ensure_contains, text};
use crate::world::operator::Operator;
use crate::world::{RequestsStart, SOON, World, WorldSetup};

mod automations;
mod databases;
mod etcd;
mod memcached;
mod tickets;

const MEMCACHED: &str = "Memcached";
const TICKET: &str = "FlightTicket";
const DATABASE: &str = "SampleDB";
const CLUSTER: &str = "EtcdCluster";

/// A kind and the file with its CRD.
const CRDS: [(&str, &str); 4] = [
    (MEMCACHED, "cache.example.com_memcacheds"),
    (TICKET, "flights.com_flighttickets"),
    (DATABASE, "sample.example.com_sampledbs"),
    (CLUSTER, "etcd.example.com_etcdclusters"),
];

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A world with one of the project's kinds, and an operator that looks after it.
struct System {
    world: World,
    kind: &'static str,
    operator: Operator,
}

impl System {
    fn new(name: &str, kind: &'static str) -> Result<Self> {
        Self::with_keys(name, kind, &[])
    }

    /// The same with keys of the watch in the place of the project's.
    fn with_keys(name: &str, kind: &'static str, keys: &[(&str, &str)]) -> Result<Self> {
        let file = CRDS.iter().find(|(of, _)| *of == kind).context("a CRD")?.1;
        let crd = fs::read_to_string(project("config/crd/bases").join(format!("{file}.yaml")))?;
        Self::with(name, kind, serde_yaml::from_str(&crd)?, keys)
    }

    fn with(name: &str, kind: &'static str, crd: Value, keys: &[(&str, &str)]) -> Result<Self> {
        let world = World::with(name, WorldSetup::NO_CRD)?;
        world.serve(&own_groups(&world, &crd)?)?;
        for role in ["role", "charts_role"] {
            let text = fs::read_to_string(project("config/rbac").join(format!("{role}.yaml")))?;
            let role_object: Value = serde_yaml::from_str(&text)?;
            let rules = own_groups(&world, &role_object)?["rules"].take();
            world.grant(&role.replace('_', "-"), rules.as_array().context("rules")?)?;
        }
        let watches: Value = serde_yaml::from_str(&fs::read_to_string(project("watches.yaml"))?)?;
        let mut watches = own_groups(&world, &watches)?;
        let watches = watches.as_array_mut().context("watches")?;
        watches.retain(|watch| watch["kind"] == kind);
        for watch in watches.iter_mut() {
            watch["chart"] = json!(project(text(&watch["chart"])));
            for (key, value) in keys {
                watch[*key] = json!(value);
            }
        }
        fs::write(world.watches_file(), json!(watches).to_string())?;
        let operator = world.start()?;
        Ok(System { world, kind, operator })
    }

    fn resource(&self) -> String {
        self.world.resource(self.kind)
    }

    fn custom(&self, name: &str, spec: Value) -> Value {
        let mut object = self.world.custom(self.kind, name, spec);
        if self.kind == MEMCACHED {
            object["apiVersion"] = format!("{}/v1alpha1", self.world.group()).into();
        }
        object
    }

    fn apply(&self, name: &str, spec: Value) -> Result<()> {
        self.world.apply(&self.custom(name, spec))
    }

    fn install(&self, name: &str, spec: Value) -> Result<Value> {
        self.apply(name, spec)?;
        self.await_ready(name)
    }

    fn edit(&self, name: &str, spec: Value) -> Result<()> {
        self.world.patch(&self.resource(), name, &json!({"spec": spec}))
    }

    fn update(&self, name: &str, spec: Value) -> Result<Value> {
        self.edit(name, spec)?;
        self.await_ready(name)
    }

    fn live(&self, name: &str) -> Result<Value> {
        self.world.expect(&self.resource(), name)
    }

    fn await_ready(&self, name: &str) -> Result<Value> {
        let resource = self.resource();
        let waited = self.world.await_condition_of(&resource, name, "Ready", "True");
        waited.with_context(|| self.operator.log())?;
        self.live(name)
    }

    /// Waits until `Ready` is false for a reason at the current generation, and its message says all of this.
    fn await_unready(&self, name: &str, reason: &str, parts: &[&str]) -> Result<Value> {
        let waited = eventually(&format!("{name} is {reason} {parts:?}"), SOON, || {
            let object = self.live(name)?;
            let ready = condition(&object, "Ready");
            ensure!(
                ready["observedGeneration"] == object["metadata"]["generation"],
                "{ready}"
            );
            ensure!(ready["status"] == "False" && ready["reason"] == reason, "{ready}");
            ensure_contains(text(&ready["message"]), parts)?;
            Ok(Some(object))
        });
        waited.with_context(|| self.operator.log())
    }

    /// Waits until fields of the status, by their JSON pointers, have values; gives the custom resource.
    fn await_status(&self, name: &str, fields: &[(&str, Value)]) -> Result<Value> {
        let waited = eventually(&format!("{name} says {fields:?}"), SOON, || {
            let object = self.live(name)?;
            for (field, value) in fields {
                let found = object["status"].pointer(field).unwrap_or(&Value::Null);
                ensure!(found == value, "{field} is {found} in {}", object["status"]);
            }
            Ok(Some(object))
        });
        waited.with_context(|| self.operator.log())
    }

    /// Runs `chartwright plan run`, waits for its end, and gives what it says.
    fn run_plan(&self, name: &str, plan: &str, parameters: &[&str]) -> Result<(bool, String)> {
        let resource = self.resource();
        let mut words = vec!["plan", "run", &resource, name, plan, "-n", &self.world.name, "--wait"];
        words.extend(parameters.iter().flat_map(|parameter| ["--set", parameter]));
        let (status, said) = self.world.chartwright(&words)?;
        Ok((status.success(), said))
    }

    fn delete(&self, name: &str) -> Result<()> {
        let deleted = self.world.kubectl.delete(&self.resource(), name);
        deleted.with_context(|| self.operator.log())
    }

    /// What the API server says of a custom resource that it doesn't take.
    fn refused(&self, name: &str, spec: Value) -> Result<String> {
        match self.apply(name, spec) {
            Ok(()) => anyhow::bail!("{name} is accepted"),
            Err(error) => Ok(format!("{error:#}")),
        }
    }

    /// Reasons and messages of the Events about a custom resource.
    fn await_event(&self, name: &str, reason: &str, parts: &[&str]) -> Result<String> {
        eventually(&format!("{name} has an Event {reason} {parts:?}"), SOON, || {
            let events = self.world.list("events", "")?;
            let about = |event: &&Value| event["involvedObject"]["name"] == name && event["reason"] == reason;
            let mut messages = events.iter().filter(about).map(|event| text(&event["message"]));
            let found = messages.find(|message| ensure_contains(message, parts).is_ok());
            Ok(Some(found.with_context(|| format!("{events:?}"))?.to_owned()))
        })
    }

    /// What the operator wrote on objects of a kind and name.
    fn writes(&self, since: RequestsStart, resource: &str, name: &str) -> Result<AuditedRequests> {
        let all = self.world.all_requests(&self.operator, since)?;
        Ok(all.writes().resource(resource).name(name))
    }

    /// Ends the operator, which was refused nothing that the project's roles should give.
    fn end(self) -> Result<()> {
        let log = self.operator.log();
        ensure!(!log.contains("forbidden"), "{log}");
        ensure!(self.operator.terminate()?.success());
        Ok(())
    }
}

/// What a file of the project says, with the world's group in the place of the project's.
fn own_groups(world: &World, object: &Value) -> Result<Value> {
    let mut text = object.to_string();
    for (_, file) in CRDS {
        let (group, _) = file.split_once('_').context("<group>_<plural>")?;
        text = text.replace(group, &world.group());
    }
    Ok(serde_json::from_str(&text)?)
}

/// What `chartwright template` makes of a chart, by `Kind name`.
fn template(chart: &str, arguments: &[&str]) -> Result<Vec<Value>> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    command
        .arg("template")
        .arg("a")
        .arg(project("charts").join(chart))
        .args(arguments);
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let documents = serde_yaml::Deserializer::from_slice(&output.stdout);
    let documents = documents.map(<Value as serde::Deserialize>::deserialize);
    let documents = documents.collect::<Result<Vec<_>, _>>()?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn kinds(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| text(&object["kind"])).collect()
}

/// Every container of these charts satisfies the Pod Security Standard "restricted", has resources and a tagged image.
#[test]
fn pods_are_restricted_and_have_limits() -> Result<()> {
    let cases: [(&str, &[&str]); 4] = [
        ("memcached", &["--set", "metrics.enabled=true"]),
        ("flightticket", &["--set", "from=Mumbai,to=London"]),
        ("sampledb", &["--set", "auth.password=a,auth.adminPassword=b"]),
        ("etcd", &[]),
    ];
    for (chart, arguments) in cases {
        let mut pods = 0;
        for object in template(chart, arguments)? {
            let pod = &object["spec"]["template"]["spec"];
            if pod.is_null() {
                continue;
            }
            pods += 1;
            let security = &pod["securityContext"];
            let is_restricted =
                security["runAsNonRoot"] == true && security["seccompProfile"]["type"] == "RuntimeDefault";
            ensure!(
                is_restricted && pod["automountServiceAccountToken"] == false,
                "{chart}: {pod}"
            );
            for containers in ["containers", "initContainers"] {
                for container in pod[containers].as_array().into_iter().flatten() {
                    let security = &container["securityContext"];
                    let is_restricted = security["allowPrivilegeEscalation"] == false
                        && security["readOnlyRootFilesystem"] == true
                        && security["capabilities"]["drop"] == json!(["ALL"]);
                    ensure!(is_restricted, "{chart}: {container}");
                    ensure!(
                        container["resources"]["limits"]["memory"].is_string(),
                        "{chart}: {container}"
                    );
                    ensure!(text(&container["image"]).contains(':'), "{chart}: {container}");
                    let needs_probe = containers == "containers" && object["kind"] == "StatefulSet";
                    ensure!(
                        !needs_probe || container["readinessProbe"].is_object(),
                        "{chart}: {container}"
                    );
                }
            }
        }
        ensure!(pods > 0, "{chart}");
    }
    Ok(())
}

/// The rights of the charts are those that their objects need, in the cluster and in one namespace.
#[test]
fn the_roles_of_the_charts_are_the_same_in_one_namespace() -> Result<()> {
    let rules = |path: &str| {
        let role: Value = serde_yaml::from_str(&fs::read_to_string(project(path))?)?;
        Ok::<_, anyhow::Error>(role["rules"].clone())
    };
    let whole = rules("config/rbac/charts_role.yaml")?;
    ensure!(whole.is_array() && whole == rules("config/namespaced/charts_role.yaml")?);
    Ok(())
}

/// How long a moment is in which nothing may happen.
const MOMENT: Duration = Duration::from_secs(2);

/// The lines that docs/explanation/capability-levels.md quotes stand in the files that it names.
#[test]
fn the_lines_of_the_capability_levels_are_there() -> Result<()> {
    let table = fs::read_to_string(project("docs/explanation/capability-levels.md"))?;
    let mut lines = 0;
    for row in table.lines().filter(|row| row.starts_with("| ")) {
        let Some((_, cell)) = row.rsplit_once(" | [") else {
            continue;
        };
        let (_, cell) = cell.split_once("](").context("a link")?;
        let (path, cell) = cell.split_once(") `").context("a line")?;
        let line = cell.trim_end_matches("` |").replace("\\|", "|");
        let text = fs::read_to_string(project("docs/explanation").join(path))?;
        ensure!(text.contains(&line), "{path} has no {line}");
        lines += 1;
    }
    ensure!(lines > 25, "{lines}");
    Ok(())
}
