//! A world on the model: operators in this process, people and controllers who do things, and a clock that runs as fast
//! as it can. `invariants.rs` says what must hold of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use chartwright_core::identity::applyset;
use chartwright_operator::controller::{self, ControllerOptions, WatchDefaults};
use chartwright_operator::telemetry::{metrics::Metrics, probes::ProcessHealth};
use chartwright_watches::{ReadContext, Watch};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::faults::call::{self, ApiCall};
use crate::faults::fault::{Fault, FaultPlan, Faults};
pub use crate::histories::place::NAMESPACE;
use crate::histories::place::ReleasePlace;
use crate::model::store::ObjectKey;
use crate::model::{Model, kinds, new_model};
use crate::world::fields::{OPERATOR, PART_OF, TRACKING, annotation, condition, text, uid};

/// A foreign finalizer.
pub const THEIRS: &str = "example.com/theirs";
/// Plurals of what the charts make.
pub const MEMBERS: [&str; 4] = ["configmaps", "secrets", "priorityclasses", "parts"];
pub const SECOND: Duration = Duration::from_secs(1);
/// A ConfigMap that a release may look up.
pub const SOURCE: &str = "source";

/// What both charts have of the integration tests' chart.
const FILES: &str = "Chart.yaml values.yaml templates/_helpers.tpl templates/configmap.yaml templates/secret.yaml \
    templates/cluster.yaml templates/extra.yaml templates/fail.yaml";

/// A template of `tests/fixtures/torture`, besides those of the integration tests' chart.
pub fn add_template(chart: &Path, name: &str) -> Result<()> {
    let file = Path::new("templates").join(name);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/torture");
    fs::copy(folder.join(&file), chart.join(file))?;
    Ok(())
}

/// Both charts, written once.
fn charts() -> &'static [PathBuf; 2] {
    static CHARTS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    CHARTS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        let charts = ["a", "b"].map(|name| folder.join(name));
        for chart in &charts {
            fs::create_dir_all(chart.join("templates")).unwrap();
            for file in FILES.split(' ') {
                fs::copy(crate::world::widget_chart().join(file), chart.join(file)).unwrap();
            }
            add_template(chart, "part.yaml").unwrap();
            add_template(chart, "hooks.yaml").unwrap();
            add_template(chart, "plan.yaml").unwrap();
        }
        add_template(&charts[1], "added.yaml").unwrap();
        charts
    })
}

/// Runs what happens in a history: tokio's clock advances when all tasks wait.
pub fn in_virtual_time<T>(what: impl Future<Output = Result<T>>) -> Result<T> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build()?;
    let outcome = runtime.block_on(what);
    runtime.shutdown_background();
    outcome
}

/// A call that changes a member.
pub fn writes_a_member(call: &ApiCall) -> bool {
    let target = call.target();
    call.is_write() && target.is_some_and(|target| MEMBERS.contains(&target.resource.as_str()))
}

/// What a release is meant to be.
#[derive(Default)]
pub struct WantedRelease {
    pub spec: Value,
    pub suspended: bool,
    /// The last run of its plan that a user requested.
    pub requested: String,
    /// How long each operator's log was when the suspension had certainly been seen.
    pub since: [usize; 2],
}

pub struct RunningOperator {
    pub stop: CancellationToken,
    pub task: JoinHandle<()>,
    pub faults: Arc<Faults>,
}

#[derive(Default)]
pub struct ModelHistory {
    pub model: Model,
    /// The operator, and perhaps another one of the same name.
    pub running: [Option<RunningOperator>; 2],
    /// Of the operator that was started last.
    pub metrics: Arc<Metrics>,
    charts: [PathBuf; 2],
    pub chart: usize,
    /// Further keys of the watch of Widgets, as YAML lines.
    watch_keys: &'static str,
    /// By place.
    pub wanted: BTreeMap<String, WantedRelease>,
    /// Objects of other owners, by place, with their versions.
    pub foreign: BTreeMap<String, String>,
    /// Members with a label of another client, by name and UID.
    pub labelled: BTreeSet<(String, String)>,
    /// Something that only a change may end went wrong, such as a 422.
    pub refused: bool,
    /// Two operators ran at the same time.
    pub had_second_operator: bool,
    /// UIDs of custom resources, and when they were deleted.
    deleted: Vec<(Instant, String)>,
}

impl ModelHistory {
    pub async fn begin() -> Result<Self> {
        Self::begin_on(new_model()).await
    }

    pub async fn begin_on(model: Model) -> Result<Self> {
        Self::begin_with(model, charts().clone()).await
    }

    /// With charts of one's own: the first, and what [`ModelHistory::other_chart`] changes it for.
    pub async fn begin_with(model: Model, charts: [PathBuf; 2]) -> Result<Self> {
        Self::set_up(model, charts, "").await
    }

    /// With further keys of the watch of Widgets, as YAML lines.
    pub async fn begin_with_keys(watch_keys: &'static str) -> Result<Self> {
        Self::begin_on_with_keys(new_model(), watch_keys).await
    }

    /// The same on a model of one's own.
    pub async fn begin_on_with_keys(model: Model, watch_keys: &'static str) -> Result<Self> {
        Self::set_up(model, charts().clone(), watch_keys).await
    }

    /// True if drift of Widgets stays.
    pub fn tolerates_drift(&self) -> bool {
        self.watch_keys.contains("drift:")
    }

    async fn set_up(model: Model, charts: [PathBuf; 2], watch_keys: &'static str) -> Result<Self> {
        let mut history = ModelHistory {
            model,
            charts,
            watch_keys,
            ..ModelHistory::default()
        };
        tokio::spawn(history.model.clone().collect_garbage());
        tokio::spawn(kinds::end_jobs(history.model.clone()));
        history.start(0)?;
        Ok(history)
    }

    /// The same, with a release that is as it is to be.
    pub async fn with(name: &str, spec: Value) -> Result<Self> {
        let mut history = Self::begin().await?;
        history.edit(name, spec).await?;
        tokio::time::sleep(60 * SECOND).await;
        history.is_as_wanted().context("before anything happens")?;
        Ok(history)
    }

    /// # Panics
    /// If no operator runs.
    pub fn faults(&self) -> Arc<Faults> {
        let running = self.running[0].as_ref().expect("an operator runs");
        running.faults.clone()
    }

    /// The watches of both kinds, with the present chart.
    pub fn watches(&self) -> Result<Vec<Watch>> {
        let chart = self.charts[self.chart].display();
        let watch = |kind: &str| {
            format!(
                "- group: torture.test\n  version: v1\n  kind: {kind}\n  chart: {chart}\n  \
                 allow: {{kinds: [PriorityClass.scheduling.k8s.io]}}\n"
            )
        };
        let text = watch("Widget") + self.watch_keys + &watch("Gadget");
        let folder = Path::new("/");
        let outside = ReadContext { folder, env: &|_| None };
        let parsed = chartwright_watches::parse("watches.yaml", text.as_bytes(), &outside);
        let (watches, _) = parsed.map_err(|errors| anyhow::anyhow!("{errors}"))?;
        Ok(watches)
    }

    fn start(&mut self, number: usize) -> Result<()> {
        let watches = self.watches()?;
        let faults = Faults::new(self.model.clone());
        let server = faults.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let server = server.clone();
            async move { server.answer(ApiCall::read(request).await?).await }
        });
        let client = kube::Client::new(service, NAMESPACE);
        let stop = CancellationToken::new();
        let token = stop.clone();
        let metrics = Arc::new(Metrics::new());
        self.metrics = metrics.clone();
        let task = tokio::spawn(async move {
            // As the kubelet does with a container that ends.
            while !token.is_cancelled() {
                let options = ControllerOptions {
                    watches_file: None,
                    watches: watches.clone(),
                    defaults: WatchDefaults {
                        reconcile_period: Duration::from_secs(36_000),
                        concurrency: 2,
                        service_account: None,
                        no_cross_namespace_refs: false,
                    },
                    watch_labels: None,
                    namespaces: None,
                    operator: "torture".into(),
                    own_namespace: NAMESPACE.into(),
                    lease: None,
                    memory: None,
                    usage_period: None,
                    admission: None,
                    shutdown_timeout: 5 * SECOND,
                };
                let metrics = metrics.clone();
                let _ = controller::run(
                    client.clone(),
                    options,
                    metrics,
                    ProcessHealth::default(),
                    token.clone(),
                )
                .await;
                tokio::time::sleep(SECOND).await;
            }
        });
        self.running[number] = Some(RunningOperator { stop, task, faults });
        for wanted in self.wanted.values_mut() {
            wanted.since[number] = 0;
        }
        Ok(())
    }

    async fn stop(&mut self, number: usize, killed: bool) -> Result<()> {
        let Some(running) = self.running[number].take() else {
            return Ok(());
        };
        self.careful(number, &running.faults)?;
        // An operator that waits for an answer does nothing about a release until then.
        let start = running.faults.waiting_since();
        if killed {
            running.faults.kill();
            running.task.abort();
        } else {
            running.stop.cancel()
        }
        let ended = tokio::time::timeout(60 * SECOND, running.task).await;
        ensure!(ended.is_ok(), "the operator does not stop");
        self.delete_leftovers(start);
        Ok(())
    }

    /// As an admin does with `chartwright leftovers --delete`: what is left of a custom resource that went in spite of its
    /// finalizer, in the moment in which the operator was stopped. No operator knows whether that one was suspended.
    fn delete_leftovers(&mut self, start: Instant) {
        let moment = start - 2 * SECOND;
        let mut store = self.model.store();
        let there: BTreeSet<String> = store.objects.values().map(|object| uid(object)).collect();
        let deleted = std::mem::take(&mut self.deleted).into_iter();
        let deleted = deleted.filter(|(when, uid)| *when > moment && !there.contains(uid));
        let gone: BTreeSet<String> = deleted.map(|(_, uid)| uid).collect();
        let is_left = |object: &Value| {
            let tracked = annotation(object, TRACKING).and_then(applyset::parse_tracking_id);
            tracked.is_some_and(|id| gone.contains(&id.owner_uid))
        };
        let objects = store.objects.iter().filter(|(_, object)| is_left(object));
        let left: Vec<_> = objects.map(|(key, _)| key.clone()).collect();
        left.into_iter().for_each(|key| store.remove(key));
    }

    /// Ends the operator, by kill or SIGTERM, and starts the next.
    pub async fn restart(&mut self, killed: bool) -> Result<()> {
        self.stop(0, killed).await?;
        self.start(0)
    }

    /// Kills the operator; [`ModelHistory::resume`] starts the next.
    pub async fn halt(&mut self) -> Result<()> {
        self.stop(0, true).await
    }

    /// Starts the next operator after [`ModelHistory::halt`].
    pub fn resume(&mut self) -> Result<()> {
        self.start(0)
    }

    /// Ends it all, as it is.
    pub async fn close(mut self) -> Result<()> {
        self.stop(1, true).await?;
        self.stop(0, true).await
    }

    /// Another operator of the same name comes, or goes.
    pub async fn set_second_operator(&mut self, runs: bool) -> Result<()> {
        match (runs, self.running[1].is_some()) {
            (true, false) => {
                self.had_second_operator = true;
                self.start(1)
            }
            (false, true) => self.stop(1, false).await,
            _ => Ok(()),
        }
    }

    /// All operators come with another chart.
    pub async fn other_chart(&mut self, killed: bool) -> Result<()> {
        self.set_second_operator(false).await?;
        self.chart = 1 - self.chart;
        self.restart(killed).await
    }

    /// Waits so many seconds for a check to pass; its last complaint is the error.
    pub async fn until(&self, seconds: u64, check: impl Fn(&Self) -> Result<()>) -> Result<()> {
        let mut last = check(self);
        for _ in 0..seconds {
            if last.is_ok() {
                break;
            }
            tokio::time::sleep(SECOND).await;
            last = check(self);
        }
        last
    }

    /// Sends a request to the model as a user.
    pub async fn ask(&self, verb: &str, path: &str, who: &str, body: Value) -> Result<(u16, Value)> {
        let mark = if path.contains('?') { '&' } else { '?' };
        let call = ApiCall::new(verb, &format!("{path}{mark}fieldManager={who}"), &body);
        call::ask(&self.model, call).await
    }

    /// The custom resource at a place.
    pub fn widget(&self, place: &str) -> Option<Value> {
        self.object(&ReleasePlace::of(place).key())
    }

    /// The object of a key.
    pub fn object(&self, key: &ObjectKey) -> Option<Value> {
        self.model.store().objects.get(key).map(|object| (**object).clone())
    }

    /// A condition of it; `null` if there is none.
    pub fn condition(&self, place: &str, kind: &str) -> Value {
        let widget = self.widget(place).unwrap_or_default();
        condition(&widget, kind)
    }

    /// Creates or changes a custom resource; one of the same name that still goes is waited for.
    pub async fn edit(&mut self, name: &str, spec: Value) -> Result<()> {
        if !self.wanted.contains_key(name) {
            let is_gone = |history: &Self| history.widget(name).is_none();
            let gone = |history: &Self| is_gone(history).then_some(()).context("it never goes");
            self.until(600, gone).await?;
        }
        let place = ReleasePlace::of(name);
        let widget = place.resource(json!({}), spec.clone());
        let path = format!("{}?force=true", place.path());
        let (status, answer) = self.ask("APPLY", &path, "user", widget).await?;
        ensure!(status < 300, "{answer}");
        self.wanted.entry(name.to_owned()).or_default().spec = spec;
        Ok(())
    }

    /// Requests the plan of a release, which ends like this, if it has one.
    pub async fn run_plan(&mut self, name: &str, outcome: &str) -> Result<()> {
        let Some(wanted) = self.wanted.get_mut(name) else {
            return Ok(());
        };
        // A time after the creation of the custom resource: an older request may come from a backup.
        wanted.requested = format!("2999-01-01T00:00:00.{:09}Z", self.model.store().version);
        let annotations = json!({
            "chartwright.dev/run-plan": format!("work@{}", wanted.requested),
            "chartwright.dev/plan-params": json!({"outcome": outcome}).to_string(),
        });
        let patch = json!({"metadata": {"annotations": annotations}});
        self.ask("MERGE", &ReleasePlace::of(name).path(), "user", patch)
            .await
            .map(drop)
    }

    /// Requests a reconcile of a release: refused requests are sent again.
    pub async fn request(&self, name: &str) -> Result<()> {
        self.annotate_with_version(name, "chartwright.dev/requested-at").await
    }

    /// Requests that drift which stays is corrected.
    pub async fn force(&self, name: &str) -> Result<()> {
        self.annotate_with_version(name, "chartwright.dev/force-at").await
    }

    async fn annotate_with_version(&self, name: &str, key: &str) -> Result<()> {
        let when = self.model.store().version.to_string();
        let patch = json!({"metadata": {"annotations": {(key): when}}});
        self.ask("MERGE", &ReleasePlace::of(name).path(), "user", patch)
            .await
            .map(drop)
    }

    /// Deletes a custom resource with its finalizer, and creates another of the same name, with a finalizer of
    /// his own.
    pub async fn supplant(&mut self, name: &str, spec: Value) -> Result<()> {
        let place = ReleasePlace::of(name);
        let path = place.path();
        let bare = json!({"metadata": {"finalizers": null}});
        self.ask("MERGE", &path, "user", bare).await?;
        self.ask("DELETE", &path, "user", json!({})).await?;
        ensure!(self.widget(name).is_none(), "{name} is still there");
        let widget = place.resource(json!({"finalizers": [THEIRS]}), spec.clone());
        let path = place.collection();
        let (status, answer) = self.ask("POST", &path, "other", widget).await?;
        ensure!(status == 201, "{answer}");
        self.wanted.insert(name.to_owned(), WantedRelease::default());
        self.edit(name, spec).await
    }

    /// Sets labels or annotations of a member. False if it is gone.
    pub async fn mark(&mut self, member: &str, metadata: Value) -> Result<bool> {
        let (path, patch) = (ReleasePlace::of(member).map_path(), json!({"metadata": metadata}));
        Ok(self.ask("MERGE", &path, "hand", patch).await?.0 == 200)
    }

    pub async fn delete(&mut self, name: &str) -> Result<()> {
        self.suspend(name, false).await?;
        if self.wanted.remove(name).is_some() {
            if let Some(widget) = self.widget(name) {
                self.deleted.push((Instant::now(), uid(&widget)));
            }
            let path = ReleasePlace::of(name).path();
            self.ask("DELETE", &path, "user", json!({})).await?;
        }
        Ok(())
    }

    /// Suspends or resumes. A suspension is waited for, so that from then on nothing may be written (P1).
    pub async fn suspend(&mut self, name: &str, suspended: bool) -> Result<()> {
        let wanted = self.wanted.get(name);
        if wanted.is_none_or(|wanted| wanted.suspended == suspended) {
            return Ok(());
        }
        if !suspended {
            self.all_careful()?;
        }
        let value = if suspended { json!("true") } else { Value::Null };
        let patch = json!({"metadata": {"annotations": {"chartwright.dev/suspend": value}}});
        let path = ReleasePlace::of(name).path();
        self.ask("MERGE", &path, "user", patch).await?;
        if suspended {
            tokio::time::sleep(150 * SECOND).await;
        }
        let length =
            |running: &Option<RunningOperator>| running.as_ref().map_or(0, |running| running.faults.log().len());
        let since = self.running.each_ref().map(length);
        if let Some(wanted) = self.wanted.get_mut(name) {
            (wanted.suspended, wanted.since) = (suspended, since);
        }
        Ok(())
    }

    /// The ConfigMap at a place.
    pub fn map(&self, place: &str) -> Option<Value> {
        self.object(&ReleasePlace::of(place).map_key())
    }

    /// Changes a member by hand: another value, none, a foreign label, our marks removed, or the complete object.
    pub async fn by_hand(&mut self, member: &str, what: usize) -> Result<()> {
        let Some(found) = self.map(member).filter(|_| !self.foreign.contains_key(member)) else {
            return Ok(());
        };
        let path = ReleasePlace::of(member).map_path();
        let patch = match what {
            0 => {
                let field = if member.ends_with("-main") { "color" } else { "extra" };
                json!({"data": {(field): "pink"}})
            }
            1 => json!({"data": null}),
            2 => {
                self.labelled.insert((member.to_owned(), uid(&found)));
                json!({"metadata": {"labels": {"mine": "1"}}, "data": {"mine": "1"}})
            }
            3 => json!({"metadata": {"labels": {(OPERATOR): null, (PART_OF): null}}}),
            _ => {
                self.ask("DELETE", &path, "hand", json!({})).await?;
                return Ok(());
            }
        };
        self.ask("MERGE", &path, "hand", patch).await?;
        Ok(())
    }

    /// Creates an object of this name, if there is none; with our labels copied from a member if there is one.
    pub async fn by_others(&mut self, name: &str, copied_from: Option<&str>) -> Result<()> {
        if self.map(name).is_some() {
            return Ok(());
        }
        let copied = copied_from.and_then(|member| self.map(member));
        let labels = copied.map(|member| member["metadata"]["labels"].clone());
        let place = ReleasePlace::of(name);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": place.name, "labels": labels},
            "data": {"of": "another owner"},
        });
        let path = place.maps();
        let (status, answer) = self.ask("POST", &path, "other", object).await?;
        ensure!(status == 201, "{answer}");
        let version = text(&answer["metadata"]["resourceVersion"]).to_owned();
        self.foreign.insert(name.to_owned(), version);
        Ok(())
    }

    /// Deletes the foreign object of this name.
    pub async fn by_others_no_more(&mut self, name: &str) -> Result<()> {
        if self.foreign.remove(name).is_some() {
            let path = ReleasePlace::of(name).map_path();
            self.ask("DELETE", &path, "other", json!({})).await?;
        }
        Ok(())
    }

    /// Writes or deletes an object that releases of a namespace may look up.
    pub async fn source(&mut self, namespace: &str, word: Option<&str>) -> Result<()> {
        let path = ReleasePlace::of(&format!("{namespace}/{SOURCE}")).map_path();
        let map = |word| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SOURCE}, "data": {"word": word}});
        match word {
            Some(word) => self.ask("APPLY", &path, "other", map(word)).await?,
            None => self.ask("DELETE", &path, "other", json!({})).await?,
        };
        Ok(())
    }

    /// The faults of this plan happen to the operator.
    pub fn set_plan(&mut self, plan: FaultPlan) {
        self.refused |= matches!(plan.fault, Fault::Status(400..=408 | 413..=422));
        self.faults().set_plan(plan);
    }
}
