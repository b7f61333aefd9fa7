//! The status of a custom resource and the Secrets beside it are untrusted input: their writer must not make the
//! operator write, or even ask for, anything outside the release.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use chartwright_core::digest::{Key, Keyring};
use chartwright_core::identity::GroupKind;
use chartwright_core::record::signature::RecordSeal;
use serde_json::{Value, json};

use crate::support::Kubectl;
use crate::world::fields::{text, uid};
use crate::world::operator::Operator;
use crate::world::{RequestsStart, SOON, World};

/// Another namespace, in which no custom resource is.
struct Victim {
    kubectl: Kubectl,
    name: String,
    config: Value,
    job: Value,
    pod: Value,
}

const LEASE: &str = "chartwright-elect-statefulset-db";

fn world(name: &str) -> Result<World> {
    // The operator might do all of it.
    let kinds = [("", "configmaps"), ("", "pods"), ("coordination.k8s.io", "leases")];
    let world = World::staged(name, &[], &kinds)?;
    world.grant("elect", &world.project_rules("rbac/elect_role.yaml")?)?;
    Ok(world)
}

impl Victim {
    fn new(world: &World) -> Result<Self> {
        let name = format!("{}-victim", world.name);
        let kubectl = world.kubectl.create_namespace(&name)?;
        let pod = json!({"labels": {"app": "victim"}});
        let containers = json!([{"name": "main", "image": "example/main"}]);
        for object in [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}}),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migration"}, "spec": {
                "template": {"metadata": pod, "spec": {"restartPolicy": "Never", "containers": containers}}}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "api-0", "labels": {"role": "primary"}},
                "spec": {"containers": containers}}),
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE},
                "spec": {"holderIdentity": "api-0/x"}}),
        ] {
            kubectl.apply(&object.to_string())?;
        }
        kubectl.wait("Complete", "job", "migration", SOON)?;
        let get = |kind: &str, name: &str| kubectl.get(kind, name)?.context("it was just made");
        Ok(Victim {
            config: get("configmap", "settings")?,
            job: get("job", "migration")?,
            pod: get("pod", "api-0")?,
            name,
            kubectl,
        })
    }

    /// Everything is as it was.
    fn is_unharmed(&self) -> Result<()> {
        for (kind, name) in [("configmap", "settings"), ("secret", "token"), ("lease", LEASE)] {
            let object = self.kubectl.get(kind, name)?;
            ensure!(object.is_some(), "{kind} {name} is gone");
        }
        let job = self.kubectl.get("job", "migration")?.context("the Job is gone")?;
        ensure!(
            uid(&job) == uid(&self.job) && job["spec"]["ttlSecondsAfterFinished"].is_null(),
            "{job}"
        );
        let pod = self.kubectl.get("pod", "api-0")?.context("the pod is gone")?;
        ensure!(
            pod["metadata"]["labels"] == self.pod["metadata"]["labels"]
                && pod["metadata"]["annotations"] == self.pod["metadata"]["annotations"],
            "{pod}"
        );
        Ok(())
    }

    fn object(&self, group: &str, kind: &str, object: &Value) -> Value {
        json!({"group": group, "kind": kind, "namespace": self.name, "name": object["metadata"]["name"], "uid": uid(object)})
    }

    /// Runs of an event that are said to have made what is here, in every phase.
    fn runs(&self, event: &str) -> Value {
        let objects = [
            self.object("batch", "Job", &self.job),
            self.object("", "ConfigMap", &self.config),
            self.object("", "Pod", &self.pod),
        ];
        let run = |object: &Value, phase: &str, at: usize| {
            let mut run = object.clone();
            let more = json!({
                "event": event, "run": format!("{event}.1.{at}.d"), "phase": phase, "ttl": 0,
                "started": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:00:01Z",
            });
            run.as_object_mut()
                .expect("an object")
                .extend(more.as_object().expect("an object").clone());
            run
        };
        let phases = ["Succeeded", "Running", "Failed", "GivenUp"];
        let runs = objects
            .iter()
            .flat_map(|object| phases.iter().zip(0..).map(move |(phase, at)| run(object, phase, at)));
        runs.collect()
    }

    /// Each field of a status that the operator reads back, with what it must not act on.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        let rows = [
            self.object("", "ConfigMap", &self.config),
            self.object("batch", "Job", &self.job),
            self.object("", "Pod", &self.pod),
            json!({"kind": "Secret", "namespace": self.name, "name": "token"}),
            json!({"group": "coordination.k8s.io", "kind": "Lease", "namespace": self.name, "name": LEASE}),
        ];
        let rows = rows.iter().map(|row| {
            let mut row = row.clone();
            for (field, value) in [("version", "v1"), ("digest", "d"), ("fingerprint", "00000000000000ab")] {
                row[field] = value.into();
            }
            row
        });
        let secrets = format!("v1/Secret/{}/token@", self.name);
        let attempt = json!({"revision": 2, "inputs": "i", "values": "v", "began": "2026-01-01T00:00:00Z"});
        let elected = |kind: &str, name: &str| {
            json!({"kind": kind, "namespace": self.name, "name": name, "label": "role", "value": "primary",
                "pod": "api-0", "uid": uid(&self.pod), "transitions": 1})
        };
        let run = json!({"plan": "backup", "by": "request", "started": "2026-01-01T00:00:00Z"});
        vec![
            ("inventory", rows.collect()),
            (
                "hooks",
                json!({"operation": {"kind": "install", "revision": 1, "attempt": 1, "digest": "d", "phase": "PreHooks"}, "stored": "s",
                "takenOver": true, "runs": self.runs("pre-install")}),
            ),
            (
                "plans",
                json!([{"name": "backup", "schedule": "* * * * *", "count": 7, "phase": "Running"}]),
            ),
            (
                "planRun",
                json!({"running": run, "queue": [run],
                "steps": {"operation": {"kind": "plan", "revision": 1, "attempt": 1, "digest": "d", "phase": "PreHooks"}, "runs": self.runs("plan-backup")}}),
            ),
            (
                "history",
                json!([{"revision": 1, "healthy": true, "kept": true}, {"revision": 7, "kept": true}]),
            ),
            ("remediation", json!([{"name": "restart", "count": 5}])),
            (
                "elected",
                json!([
                    elected("StatefulSet", "db"),
                    elected("Deployment", "db"),
                    elected("Job", "migration")
                ]),
            ),
            (
                "release",
                json!({"revision": 7, "inputs": "i", "settled": "s", "lookups": [secrets], "upgrading": true,
                "attempt": attempt, "fallback": {"generation": 1, "to": 7, "revision": 8, "failed": attempt, "why": "w"}}),
            ),
            ("lastHandledRollbackTo", "7".into()),
            ("lastHandledRunPlan", "backup".into()),
            ("lastHandledRegenerateAt", "x".into()),
            ("lastHandledForceAt", "x".into()),
            ("lastHandledReconcileAt", "x".into()),
            ("lastHandledResetAt", "x".into()),
        ]
    }
}

/// The keys of the operator of a world.
pub fn keys(world: &World) -> Result<Keyring> {
    let secret = world.expect("secret", &format!("{}-hmac-key", world.name))?;
    let key = data_encoding::BASE64.decode(text(&secret["data"]["key"]).as_bytes())?;
    let key = <[u8; 32]>::try_from(key).ok().context("32 bytes")?;
    Ok(Keyring::new(Key::new(key), Vec::new()))
}

/// As the operator signs the status of a widget.
pub fn sign(world: &World, keys: &Keyring, widget: &Value, status: &mut Value) {
    let seal = RecordSeal {
        keys,
        key: keys.current(),
        group_kind: &GroupKind::new(world.group(), "Widget"),
        namespace: &world.name,
        name: text(&widget["metadata"]["name"]),
        uid: &uid(widget),
    };
    seal.sign(status);
}

fn hooks() -> Value {
    json!({"hooks": [{"name": "before", "at": "pre-install", "ttl": 3600}, {"name": "step", "at": "plan-backup"}]})
}

/// One widget for each field, and one for all of them.
fn names(victim: &Victim) -> Vec<String> {
    (0..=victim.fields().len()).map(|at| format!("w{at}")).collect()
}

/// Replaces a field of each status, or all of them.
fn forge(world: &World, victim: &Victim, keys: Option<&Keyring>) -> Result<()> {
    let fields = victim.fields();
    for (at, name) in names(victim).iter().enumerate() {
        let widget = world.live(name)?;
        let mut status = widget["status"].clone();
        let chosen = fields
            .iter()
            .enumerate()
            .filter(|(field, _)| at == *field || at == fields.len());
        for (_, (field, hostile)) in chosen {
            // What a release has besides stays.
            match (status[*field].as_object_mut(), hostile.as_object()) {
                (Some(known), Some(hostile)) => known.extend(hostile.clone()),
                _ => status[*field] = hostile.clone(),
            }
        }
        if let Some(keys) = keys {
            sign(world, keys, &widget, &mut status);
        }
        world.patch_status(name, &json!({"status": status}))?;
    }
    Ok(())
}

/// Edits and deletes the widgets. Returns the requests of that time.
fn live_on(
    world: &World,
    victim: &Victim,
    operator: &Operator,
    start: RequestsStart,
) -> Result<crate::support::AuditedRequests> {
    let names = names(victim);
    world.await_quiet(operator)?;
    for name in &names {
        let mut spec = hooks();
        spec["color"] = "red".into();
        world.edit(name, spec)?;
    }
    world.await_quiet(operator)?;
    for name in &names {
        world.annotate(name, json!({"chartwright.dev/skip-plans": "true"}))?;
        world.begin_delete(name)?;
    }
    for name in &names {
        world.await_deleted(name)?;
    }
    world.all_requests(operator, start)
}

#[test]
fn no_field_of_a_forged_status_leads_outside_the_release() -> Result<()> {
    let world = world("untrusted-status")?;
    let victim = Victim::new(&world)?;
    let operator = world.start()?;
    world.install_all(&names(&victim), |_| hooks())?;
    world.await_quiet(&operator)?;
    operator.kill()?;
    forge(&world, &victim, None)?;
    let start = world.mark()?;
    let operator = world.start()?;
    let requests = live_on(&world, &victim, &operator, start)?;
    let outside = requests.filter(|request| request.namespace == victim.name || request.uri.contains(&victim.name));
    outside.none()?;
    victim.is_unharmed()
}

/// With the operator's own signature: what it signed once may be put back later, when it is no longer true.
#[test]
fn no_field_of_a_signed_status_is_proof_that_an_object_is_the_releases() -> Result<()> {
    let world = world("untrusted-signed")?;
    let victim = Victim::new(&world)?;
    let operator = world.start()?;
    world.install_all(&names(&victim), |_| hooks())?;
    world.await_quiet(&operator)?;
    operator.kill()?;
    forge(&world, &victim, Some(&keys(&world)?))?;
    let start = world.mark()?;
    let operator = world.start()?;
    let requests = live_on(&world, &victim, &operator, start)?;
    let own = [world.name.as_str(), ""];
    requests
        .writes()
        .filter(|write| !own.contains(&write.namespace.as_str()))
        .none()?;
    victim.is_unharmed()
}

fn packed(json: &Value) -> Result<String> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(json.to_string().as_bytes())?;
    Ok(data_encoding::BASE64.encode(&packed.finish()?))
}

#[test]
fn a_record_secret_made_by_hand_is_not_believed() -> Result<()> {
    let world = world("untrusted-secret")?;
    let victim = Victim::new(&world)?;
    let operator = world.start()?;
    let widget = world.install("a", hooks())?;
    world.await_quiet(&operator)?;
    operator.kill()?;
    let mut record: BTreeMap<&str, Value> = victim.fields().into_iter().collect();
    record.insert("revision", 1.into());
    record.insert("entries", record["inventory"].clone());
    let form = json!({"version": 1, "owner": uid(&widget), "generation": widget["metadata"]["generation"], "record": {
        "revision": 1, "done_for": "x", "settled": "x", "entries": record["inventory"], "hooks": record["hooks"],
        "plans": {"plans": record["plans"], "work": record["planRun"]}, "elected": record["elected"],
    }});
    let secret = |mark: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "chartwright.dev/record",
            "metadata": {"name": format!("chartwright-record-{}", uid(&widget)), "annotations": {"chartwright.dev/mark": mark}},
            "data": {"record.json.gz": packed(&form).unwrap_or_default(), "signature": ""},
        })
    };
    world.apply(&secret("00000000.00000000000000000000000000000000"))?;
    // As for a kind without a status.
    world.patch_status("a", &json!({"status": null}))?;
    let start = world.mark()?;
    let operator = world.start()?;
    world.await_ready("a")?;
    world.await_quiet(&operator)?;
    world.update("a", json!({"color": "red"}))?;
    world.await_quiet(&operator)?;
    victim.is_unharmed()?;
    world.delete("a")?;
    let requests = world.all_requests(&operator, start)?;
    requests.filter(|request| request.namespace == victim.name).none()?;
    // It is not the operator's, and stays.
    world
        .expect("secret", &format!("chartwright-record-{}", uid(&widget)))
        .map(drop)
}

fn encode(bytes: &[u8]) -> String {
    data_encoding::BASE64.encode(bytes)
}

#[test]
fn a_new_key_signs_existing_records_again_and_changes_nothing() -> Result<()> {
    let world = world("untrusted-rotated")?;
    let operator = world.start()?;
    let hooks = json!({"hooks": [
        {"name": "before", "at": "pre-install,pre-upgrade"}, {"name": "gone", "at": "pre-delete"}, {"name": "step", "at": "plan-backup"},
    ]});
    world.install("a", hooks)?;
    world.annotate("a", json!({"chartwright.dev/run-plan": "backup"}))?;
    crate::support::until("the plan has run", SOON, || {
        Ok(world.live("a")?["status"]["plans"][0]["phase"] == "Succeeded")
    })?;
    world.await_quiet(&operator)?;
    operator.terminate()?;
    let name = format!("{}-hmac-key", world.name);
    let old = text(&world.expect("secret", &name)?["data"]["key"]).to_owned();
    let id = |widget: &Value| text(&widget["status"]["release"]["signature"])[..8].to_owned();
    let before = world.live("a")?;
    world.patch(
        "secret",
        &name,
        &json!({"data": {"key": encode(&[7; 32]), "previous": old}}),
    )?;
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    crate::support::until("it is signed again", SOON, || Ok(id(&world.live("a")?) != id(&before)))?;
    world.await_quiet(&operator)?;
    let after = world.live("a")?;
    let written = world.requests(&operator, start)?.writes();
    // Two Secrets, those with the hooks for the deletion and with the steps, and the status.
    written.are("2 patch secrets, patch widgets/status")?;
    for field in ["inventory", "hooks", "plans", "history", "planRun"] {
        ensure!(before["status"][field] == after["status"][field], "{after}");
    }
    ensure!(
        before["status"]["release"]["key"] == after["status"]["release"]["key"],
        "{after}"
    );
    operator.terminate()?;

    // Nothing needs the old one any more but digests.
    world.patch("secret", &name, &json!({"data": {"previous": null}}))?;
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    crate::support::until("its digests are made again", SOON, || {
        Ok(world.live("a")?["status"]["release"]["key"] == id(&after).as_str())
    })?;
    world.await_ready("a")?;
    world.await_quiet(&operator)?;
    let written = world.requests(&operator, start)?.writes();
    written.clone().resource("jobs").none()?;
    ensure!(world.live("a")?["status"]["release"]["revision"] == 1);
    let start = world.mark()?;
    world.delete("a")?;
    let written = world.requests(&operator, start)?.writes();
    ensure!(
        !written.resource("jobs").name("a-gone").is_empty(),
        "the hook for the deletion was lost"
    );
    let left = world.list("secrets", "chartwright.dev/release-uid")?;
    ensure!(left.is_empty(), "{left:?}");
    Ok(())
}

#[test]
fn a_release_cannot_create_objects_with_the_operators_names() -> Result<()> {
    let world = World::new("untrusted-names")?.watch_key("allow: {kinds: ['*'], namespaces: ['*']}");
    world.write_template(
        "named.yaml",
        "{{ with .Values.named }}\napiVersion: {{ .apiVersion }}\nkind: {{ .kind }}\nmetadata: {{ toJson .metadata }}\n{{ end }}",
    )?;
    let operator = world.start_and_settle()?;
    let lease = "coordination.k8s.io/v1";
    let key = format!("{}-hmac-key", world.name);
    let before = world.expect("secret", &key)?;
    let hook = json!({"helm.sh/hook": "pre-install"});
    for (at, (api_version, kind, name, annotations)) in [
        ("v1", "Secret", "chartwright-record-x", json!({})),
        ("v1", "Secret", "chartwright-kept-x", hook),
        ("v1", "Secret", key.as_str(), json!({})),
        (lease, "Lease", LEASE, json!({})),
        (lease, "Lease", world.name.as_str(), json!({})),
    ]
    .into_iter()
    .enumerate()
    {
        let named =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "annotations": annotations}});
        let widget = format!("w{at}");
        world.apply_widget(&widget, json!({"named": named}))?;
        world.await_stalled(&widget, "Refused", &["named.yaml", name, "Give it another name"])?;
        world.absent("configmap", [&*format!("{widget}-main")])?;
    }
    ensure!(world.expect("secret", &key)? == before);
    drop(operator);
    Ok(())
}
