//! A world on the model: an operator in this process, people and controllers who do things, and a clock that runs as
//! fast as it can.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use chartwright::controller::{self, Options};
use chartwright::telemetry::{metrics::Metrics, probes::Health};
use chartwright::watches::{self, Outside};
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, Server};
use crate::fault::Faults;
use crate::look::{OPERATOR, PART_OF, condition, is_marked, uid};
use crate::model::Model;
use crate::release::{content, members};

pub const NAMESPACE: &str = "shop";
/// A finalizer of somebody else's.
pub const THEIRS: &str = "example.com/theirs";
const SECOND: Duration = Duration::from_secs(1);

/// Both charts, written once.
fn charts() -> &'static [PathBuf; 2] {
    static CHARTS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    CHARTS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        let fixture = crate::world::widget_chart();
        let copy = |to: &Path| {
            fs::create_dir_all(to.join("templates")).unwrap();
            for file in ["Chart.yaml", "values.yaml"] {
                fs::copy(fixture.join(file), to.join(file)).unwrap();
            }
            for file in [
                "_helpers.tpl",
                "configmap.yaml",
                "secret.yaml",
                "cluster.yaml",
                "fail.yaml",
            ] {
                fs::copy(fixture.join("templates").join(file), to.join("templates").join(file)).unwrap();
            }
        };
        let both = [folder.join("a"), folder.join("b")];
        both.iter().for_each(|to| copy(to));
        let added =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Release.Name }}-added'}\ndata: {chart: b}\n";
        fs::write(both[1].join("templates/added.yaml"), added).unwrap();
        both
    })
}

/// Runs what happens in a history: tokio's clock goes on when everybody waits.
pub fn in_virtual_time<T>(what: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()?;
    let outcome = runtime.block_on(what);
    runtime.shutdown_background();
    outcome
}

/// A call that changes a member.
pub fn writes_a_member(call: &Call) -> bool {
    let members = ["configmaps", "secrets", "priorityclasses"];
    let target = call.target();
    call.is_write() && target.is_some_and(|target| members.contains(&target.resource.as_str()))
}

/// What a release is meant to be.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub spec: Value,
    pub suspended: bool,
    /// How long the log was when the suspension had certainly been seen.
    since: usize,
}

struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    faults: Arc<Faults>,
}

pub struct History {
    pub model: Model,
    running: Option<Running>,
    chart: usize,
    pub wanted: BTreeMap<String, Wanted>,
    /// Objects that are somebody else's, with their versions.
    foreign: BTreeMap<String, String>,
    /// Members with a label of somebody else's, by UID.
    labelled: BTreeSet<(String, String)>,
}

impl History {
    pub async fn begin() -> Result<Self> {
        let mut history = History {
            model: Model::new(),
            running: None,
            chart: 0,
            wanted: BTreeMap::new(),
            foreign: BTreeMap::new(),
            labelled: BTreeSet::new(),
        };
        history.start()?;
        Ok(history)
    }

    pub fn faults(&self) -> Option<Arc<Faults>> {
        self.running.as_ref().map(|running| running.faults.clone())
    }

    fn start(&mut self) -> Result<()> {
        let chart = charts()[self.chart].display();
        let text = format!(
            "- group: torture.test\n  version: v1\n  kind: Widget\n  chart: {chart}\n  \
             allow: {{kinds: [PriorityClass.scheduling.k8s.io]}}\n"
        );
        let env = |_: &str| None;
        let outside = Outside {
            charts_may_be_absent: false,
            folder: Path::new("/"),
            env: &env,
        };
        let parsed = watches::parse("watches.yaml", text.as_bytes(), &outside);
        let (watches, _) = parsed.map_err(|errors| anyhow::anyhow!("{errors}"))?;
        let faults = Faults::new(self.model.clone());
        let server = faults.clone();
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let server = server.clone();
            async move { server.answer(Call::read(request).await?).await }
        });
        let client = kube::Client::new(service, NAMESPACE);
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move {
            // As the kubelet does with a container that ends.
            while !token.is_cancelled() {
                let options = Options {
                    watches: watches.clone(),
                    namespaces: None,
                    operator: "torture".into(),
                    own_namespace: NAMESPACE.into(),
                    lease: None,
                    reconcile_period: Duration::from_secs(36_000),
                    concurrency: 2,
                    shutdown_timeout: 5 * SECOND,
                };
                let metrics = Arc::new(Metrics::new());
                let _ = controller::run(client.clone(), options, metrics, Health::new(), token.clone()).await;
                tokio::time::sleep(SECOND).await;
            }
        });
        self.running = Some(Running { stop, task, faults });
        Ok(())
    }

    /// Ends the operator, at once or in order, and starts the next.
    pub async fn restart(&mut self, killed: bool) -> Result<()> {
        if let Some(running) = self.running.take() {
            self.careful(&running.faults)?;
            match killed {
                true => {
                    running.faults.kill();
                    running.task.abort();
                }
                false => running.stop.cancel(),
            }
            let mut task = running.task;
            if tokio::time::timeout(60 * SECOND, &mut task).await.is_err() {
                bail!("the operator does not stop");
            }
        }
        for wanted in self.wanted.values_mut() {
            wanted.since = 0;
        }
        self.start()
    }

    pub async fn other_chart(&mut self, killed: bool) -> Result<()> {
        self.chart = 1 - self.chart;
        self.restart(killed).await
    }

    /// Asks the model as somebody.
    pub async fn ask(&self, method: Method, path: &str, who: &str, content: &str, body: Value) -> Result<(u16, Value)> {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::CONTENT_TYPE, content.parse()?);
        let (bare, query) = path.split_once('?').unwrap_or((path, ""));
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut query: Vec<_> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        query.push(("fieldManager".into(), who.to_owned()));
        let call = Call {
            method,
            path: bare.to_owned(),
            query,
            headers,
            body: Bytes::from(body.to_string()),
            uri: path.to_owned(),
        };
        let response = self.model.answer(call).await.map_err(anyhow::Error::from_boxed)?;
        let status = response.status().as_u16();
        let bytes = response
            .into_body()
            .collect()
            .await
            .map_err(anyhow::Error::from_boxed)?
            .to_bytes();
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    pub fn widget(&self, name: &str) -> Option<Value> {
        let key = ("widgets", NAMESPACE.to_owned(), name.to_owned());
        self.model.store().objects.get(&key).map(|object| (**object).clone())
    }

    fn widget_path(name: &str) -> String {
        format!("/apis/torture.test/v1/namespaces/{NAMESPACE}/widgets/{name}")
    }

    /// Creates or changes a custom resource; one of the same name that still goes is waited for.
    pub async fn edit(&mut self, name: &str, spec: Value) -> Result<()> {
        if !self.wanted.contains_key(name) {
            for _ in 0..600 {
                if self.widget(name).is_none() {
                    break;
                }
                tokio::time::sleep(SECOND).await;
            }
            ensure!(self.widget(name).is_none(), "{name} never goes");
        }
        let widget = json!({
            "apiVersion": "torture.test/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec,
        });
        let path = format!("{}?force=true", Self::widget_path(name));
        let (status, answer) = self
            .ask(Method::PATCH, &path, "user", "application/apply-patch+yaml", widget)
            .await?;
        ensure!(status < 300, "{answer}");
        let known = self.wanted.get(name);
        let (suspended, since) = known.map_or((false, 0), |wanted| (wanted.suspended, wanted.since));
        let wanted = Wanted { spec, suspended, since };
        self.wanted.insert(name.to_owned(), wanted);
        Ok(())
    }

    /// Somebody takes a custom resource away, finalizer and all, and makes another of the same name, with a finalizer of
    /// his own.
    pub async fn supplant(&mut self, name: &str, spec: Value) -> Result<()> {
        let path = Self::widget_path(name);
        let bare = json!({"metadata": {"finalizers": null}});
        self.ask(Method::PATCH, &path, "user", "application/merge-patch+json", bare)
            .await?;
        self.ask(Method::DELETE, &path, "user", "application/json", json!({}))
            .await?;
        ensure!(self.widget(name).is_none(), "{name} is still there");
        let widget = json!({
            "apiVersion": "torture.test/v1", "kind": "Widget", "spec": spec,
            "metadata": {"name": name, "finalizers": [THEIRS]},
        });
        let path = format!("/apis/torture.test/v1/namespaces/{NAMESPACE}/widgets");
        let (status, answer) = self
            .ask(Method::POST, &path, "other", "application/json", widget)
            .await?;
        ensure!(status == 201, "{answer}");
        let wanted = Wanted {
            spec: spec.clone(),
            suspended: false,
            since: 0,
        };
        self.wanted.insert(name.to_owned(), wanted);
        self.edit(name, spec).await
    }

    /// Somebody sets labels or annotations of a member. False if it is gone.
    pub async fn mark(&mut self, member: &str, metadata: Value) -> Result<bool> {
        let patch = json!({"metadata": metadata});
        let path = Self::map_path(member);
        let asked = self.ask(Method::PATCH, &path, "hand", "application/merge-patch+json", patch);
        Ok(asked.await?.0 == 200)
    }

    pub async fn delete(&mut self, name: &str) -> Result<()> {
        self.suspend(name, false).await?;
        if self.wanted.remove(name).is_some() {
            let path = Self::widget_path(name);
            self.ask(Method::DELETE, &path, "user", "application/json", json!({}))
                .await?;
        }
        Ok(())
    }

    /// Suspends or resumes. A suspension is waited for, so that from then on nothing may be written (P1).
    pub async fn suspend(&mut self, name: &str, suspended: bool) -> Result<()> {
        let Some(wanted) = self.wanted.get(name).cloned() else {
            return Ok(());
        };
        if wanted.suspended == suspended {
            return Ok(());
        }
        if let (false, Some(running)) = (suspended, &self.running) {
            self.careful(&running.faults)?;
        }
        let value = if suspended { json!("true") } else { Value::Null };
        let patch = json!({"metadata": {"annotations": {"chartwright.dev/suspend": value}}});
        let path = Self::widget_path(name);
        self.ask(Method::PATCH, &path, "user", "application/merge-patch+json", patch)
            .await?;
        if suspended {
            tokio::time::sleep(150 * SECOND).await;
        }
        let since = self.faults().map_or(0, |faults| faults.log().len());
        if let Some(wanted) = self.wanted.get_mut(name) {
            *wanted = Wanted {
                suspended,
                since,
                ..wanted.clone()
            };
        }
        Ok(())
    }

    fn map_path(name: &str) -> String {
        format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{name}")
    }

    pub fn map(&self, name: &str) -> Option<Value> {
        let key = ("configmaps", NAMESPACE.to_owned(), name.to_owned());
        self.model.store().objects.get(&key).map(|object| (**object).clone())
    }

    /// Somebody changes a member by hand: another value, none, a label of his own, our marks taken off, or all of it.
    pub async fn by_hand(&mut self, member: &str, what: usize) -> Result<()> {
        let Some(found) = self.map(member).filter(|_| !self.foreign.contains_key(member)) else {
            return Ok(());
        };
        let path = Self::map_path(member);
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
                self.ask(Method::DELETE, &path, "hand", "application/json", json!({}))
                    .await?;
                return Ok(());
            }
        };
        self.ask(Method::PATCH, &path, "hand", "application/merge-patch+json", patch)
            .await?;
        Ok(())
    }

    /// Somebody makes an object of this name, if there is none; with our labels copied from a member if there is one.
    pub async fn by_others(&mut self, name: &str, copied_from: Option<&str>) -> Result<()> {
        if self.map(name).is_some() {
            return Ok(());
        }
        let labels = copied_from
            .and_then(|member| self.map(member))
            .map(|member| member["metadata"]["labels"].clone());
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
            "data": {"of": "somebody else"},
        });
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
        let (status, answer) = self
            .ask(Method::POST, &path, "other", "application/json", object)
            .await?;
        ensure!(status == 201, "{answer}");
        let version = answer["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        self.foreign.insert(name.to_owned(), version.to_owned());
        Ok(())
    }

    /// What must hold of everything that this operator asked so far.
    fn careful(&self, faults: &Faults) -> Result<()> {
        for (place, entry) in faults.log().iter().enumerate() {
            let Some(target) = entry.call.target() else { continue };
            let is_member = matches!(target.resource.as_str(), "configmaps" | "secrets" | "priorityclasses");
            if entry.call.verb() == "delete" && is_member {
                let options: Value = serde_json::from_slice(&entry.call.body).unwrap_or_default();
                ensure!(
                    options["preconditions"]["uid"].is_string(),
                    "deleted whatever has the name: {}",
                    entry.call
                );
            }
            for (name, wanted) in self.wanted.iter().filter(|(_, wanted)| wanted.suspended) {
                let of_it =
                    target.name.starts_with(&format!("{name}-")) || target.name == format!("{NAMESPACE}-{name}");
                ensure!(
                    !(is_member && of_it && entry.call.is_write() && place >= wanted.since),
                    "written while {name} is suspended: {}",
                    entry.call
                );
            }
        }
        for (name, version) in &self.foreign {
            let found = self
                .map(name)
                .with_context(|| format!("somebody else's {name} is gone"))?;
            ensure!(
                found["metadata"]["resourceVersion"] == version.as_str(),
                "somebody else's {name} was written: {found}"
            );
        }
        Ok(())
    }

    /// Nothing goes wrong any more, nobody is in the way: the cluster becomes what the custom resources say, and then
    /// nothing is written any more.
    pub async fn end(mut self) -> Result<()> {
        let faults = self.faults().context("no operator")?;
        self.careful(&faults)?;
        faults.heal();
        let names: Vec<String> = self.wanted.keys().cloned().collect();
        for name in names {
            self.suspend(&name, false).await?;
            let mut spec = self.wanted[&name].spec.clone();
            spec["fail"] = "".into();
            self.edit(&name, spec).await?;
        }
        for name in std::mem::take(&mut self.foreign).into_keys() {
            let path = Self::map_path(&name);
            self.ask(Method::DELETE, &path, "other", "application/json", json!({}))
                .await?;
        }
        let mut last = Ok(());
        // A retry may wait six minutes, and whoever removed what was in the way tells nobody.
        for _ in 0..200 {
            tokio::time::sleep(5 * SECOND).await;
            last = self.is_as_wanted();
            if last.is_ok() {
                break;
            }
        }
        last?;
        tokio::time::sleep(60 * SECOND).await;
        let version = self.model.store().version();
        faults.clear_log();
        tokio::time::sleep(600 * SECOND).await;
        self.is_as_wanted().context("it does not stay so")?;
        let now = self.model.store().version();
        let asked: Vec<String> = faults
            .log()
            .iter()
            .filter(|entry| !entry.call.is_watch())
            .map(|entry| entry.call.to_string())
            .collect();
        ensure!(version == now && asked.is_empty(), "it never comes to rest: {asked:?}");
        if let Some(running) = self.running.take() {
            running.stop.cancel();
            let _ = tokio::time::timeout(60 * SECOND, running.task).await;
        }
        Ok(())
    }

    /// What a release is to consist of, by the chart that is there.
    fn members_of(&self, name: &str, spec: &Value) -> BTreeMap<(String, String), Value> {
        let mut all = members(NAMESPACE, name, spec);
        if self.chart == 1 {
            all.insert(("ConfigMap".into(), format!("{name}-added")), json!({"chart": "b"}));
        }
        all
    }

    /// A status that claims to be ready for the current generation is right about every member (P8). Not to be asked
    /// while somebody changes members.
    pub fn is_no_lie(&self) -> Result<()> {
        for (name, wanted) in &self.wanted {
            let widget = self.widget(name).unwrap_or_default();
            let ready = condition(&widget, "Ready").unwrap_or_default();
            if ready["status"] != "True" || ready["observedGeneration"] != widget["metadata"]["generation"] {
                continue;
            }
            let live = self.live();
            for (id, content_wanted) in self.members_of(name, &wanted.spec) {
                let found = live.get(&id).map(content);
                ensure!(
                    found.as_ref() == Some(&content_wanted),
                    "{name} says that it is ready while {id:?} is {found:?} instead of {content_wanted}"
                );
            }
        }
        Ok(())
    }

    /// No status ever said of its generation that it is ready while a member was not what that spec asks for (P8): each
    /// is held against what there was when it was written. Not to be asked where somebody changed members by hand.
    pub fn never_lied(&self) -> Result<()> {
        let store = self.model.store();
        let mut there: BTreeMap<_, Arc<Value>> = BTreeMap::new();
        for change in &store.changes {
            match &change.after {
                Some(object) => drop(there.insert(change.key.clone(), object.clone())),
                None => drop(there.remove(&change.key)),
            }
            let Some(widget) = change.after.as_deref().filter(|_| change.key.0 == "widgets") else {
                continue;
            };
            let before = change.before.as_deref().map(|before| &before["status"]);
            let ready = condition(widget, "Ready").unwrap_or_default();
            if before == Some(&widget["status"])
                || ready["status"] != "True"
                || ready["observedGeneration"] != widget["metadata"]["generation"]
            {
                continue;
            }
            for ((kind, name), wanted) in members(NAMESPACE, &change.key.2, &widget["spec"]) {
                let is_it =
                    |object: &&Arc<Value>| object["kind"] == kind.as_str() && object["metadata"]["name"] == name;
                let found = there.values().find(is_it).map(|object| content(object));
                ensure!(
                    found.as_ref() == Some(&wanted),
                    "{} was told to be ready while {kind} {name} was {found:?} instead of {wanted}",
                    change.key.2
                );
            }
        }
        Ok(())
    }

    /// Objects with our marks.
    fn live(&self) -> BTreeMap<(String, String), Value> {
        let mut live = self.of("configmaps");
        live.extend(self.of("secrets"));
        live.extend(self.of("priorityclasses"));
        live.retain(|_, object| is_marked(object));
        live
    }

    pub fn is_as_wanted(&self) -> Result<()> {
        let mut expected = BTreeMap::new();
        for (name, wanted) in &self.wanted {
            let widget = self.widget(name).with_context(|| format!("{name} is gone"))?;
            let ready = condition(&widget, "Ready").with_context(|| format!("{name} says nothing"))?;
            ensure!(
                ready["status"] == "True" && ready["observedGeneration"] == widget["metadata"]["generation"],
                "{name}: {ready}, generation {}",
                widget["metadata"]["generation"]
            );
            let all = self.members_of(name, &wanted.spec);
            let rows = widget["status"]["inventory"].as_array().map_or(0, Vec::len);
            ensure!(rows == all.len(), "{name} lists {rows} members of {}", all.len());
            expected.extend(all);
        }
        let widgets: Vec<String> = self.of("widgets").into_keys().map(|(_, name)| name).collect();
        ensure!(widgets.iter().eq(self.wanted.keys()), "custom resources: {widgets:?}");
        let live = self.live();
        ensure!(
            live.keys().eq(expected.keys()),
            "live are {:?}, not {:?}",
            live.keys(),
            expected.keys()
        );
        for (id, object) in &live {
            let mut found = content(object);
            if let Some(data) = found.as_object_mut() {
                data.remove("mine");
            }
            ensure!(found == expected[id], "{id:?} is {found}, not {}", expected[id]);
            let owns = self.labelled.contains(&(id.1.clone(), uid(object)));
            ensure!(
                !owns || object["metadata"]["labels"]["mine"] == "1",
                "{id:?} lost a label of somebody else's"
            );
        }
        Ok(())
    }

    fn of(&self, plural: &str) -> BTreeMap<(String, String), Value> {
        let store = self.model.store();
        let found = store.objects.iter().filter(|(key, _)| key.0 == plural);
        let id = |object: &Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&object["kind"]), text(&object["metadata"]["name"]))
        };
        found.map(|(_, object)| (id(object), (**object).clone())).collect()
    }
}
