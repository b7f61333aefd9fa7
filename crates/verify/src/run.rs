//! Carries out a case, step by step.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use serde_json::{Map, Value, json};

use super::case::{CaseFile, CaseInput, CaseStep, VerifyCase, World};
use super::cluster::{FakeCluster, Scene};
use super::outcome::{DoneStep, Stopped};
use super::subject::{CaseSurroundings, Loaded};
use chartwright_core::identity::GroupKind;
use chartwright_core::identity::cluster_scoped::is_cluster_scoped;
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::reconcile::Unit;
use chartwright_scaffold::crd::{rules, validate};
use chartwright_watches::Watch;
use helm_template::render::Capabilities;

/// What a custom resource is called, and where it lies, if the case doesn't say it.
const NAME: &str = "example";
const NAMESPACE: &str = "default";

/// A chart of a case, with what surrounds it.
#[derive(Clone)]
pub struct StepChart {
    pub path: std::path::PathBuf,
    pub loaded: Arc<Loaded>,
    pub surroundings: Arc<CaseSurroundings>,
}

/// A custom resource as it moves on from step to step, and what there is beside it.
struct CaseState {
    object: Value,
    /// What lies in its file beside it.
    companions: Vec<Value>,
    watch: Map<String, Value>,
    lookups: Vec<Value>,
    capabilities: Capabilities,
    /// The custom resource as the API server took it last.
    stored: Option<Value>,
}

/// Carries out all steps. `charts`: that of each.
///
/// # Errors
/// What is wrong with the case itself, and the line: nothing of it can be carried out.
pub async fn run(
    file: &CaseFile,
    case: &VerifyCase,
    charts: &[StepChart],
) -> Result<Vec<DoneStep>, (usize, anyhow::Error)> {
    let mut state = CaseState::begin(file, case).map_err(|error| (case.line, error))?;
    let mut cluster = FakeCluster::new();
    let mut done = Vec::with_capacity(case.steps.len());
    for (step, chart) in case.steps.iter().zip(charts) {
        let performed = match state.advance(step, chart) {
            Ok(prepared) => perform(&mut cluster, &state, prepared, chart).await,
            Err(error) => return Err((step.line, error)),
        };
        let is_refused = performed.as_ref().is_err_and(Stopped::is_of_api_server);
        match &state.stored {
            Some(stored) if is_refused => state.object = stored.clone(),
            None if is_refused => {}
            _ => state.stored = Some(state.object.clone()),
        }
        done.push(performed);
    }
    Ok(done)
}

/// What a step reconciles.
struct Prepared {
    watch: Watch,
    group_kind: GroupKind,
    namespaced: bool,
}

async fn perform(cluster: &mut FakeCluster, state: &CaseState, prepared: Prepared, chart: &StepChart) -> DoneStep {
    let Prepared {
        mut watch,
        group_kind,
        namespaced,
    } = prepared;
    let crd = chart.surroundings.crd(&group_kind);
    if let Some(schema) = crd.and_then(|crd| crd.schema(&watch.version)) {
        let spec = state.object.get("spec").cloned().unwrap_or_else(|| json!({}));
        let problems = validate::problems(&schema["properties"]["spec"], &spec);
        let mut problems: Vec<String> = problems.iter().map(|problem| problem.describe(".spec")).collect();
        problems.extend(rules::broken(schema, state.stored.as_ref(), &state.object));
        if !problems.is_empty() {
            let problems = problems.join("; ");
            let message = format!("the API server refuses the {}: {problems}", group_kind.kind);
            return Err(Stopped::by_api_server(message));
        }
    }
    let loaded = &chart.loaded;
    for served in chart.surroundings.served(loaded.engine.chart()) {
        cluster.serve(&served);
    }
    let kind = cluster.serve(&Resource::offline(&group_kind, &watch.version, namespaced));
    // The chart on disk is compared with the stamp of this path.
    watch.chart.clone_from(&loaded.path);
    // Members are healthy and dependencies ready: no controller writes their status.
    watch.health.clear();
    watch.depends_on.clear();
    let unit = Unit::alone(watch, group_kind, kind, loaded.engine.clone(), loaded.stamp.clone());
    let others: Vec<Value> = state.companions.iter().chain(&state.lookups).cloned().collect();
    let scene = Scene {
        unit: &Arc::new(unit),
        object: &state.object,
        capabilities: &state.capabilities,
        others: &others,
    };
    cluster.perform(&scene).await
}

impl CaseState {
    fn begin(file: &CaseFile, case: &VerifyCase) -> anyhow::Result<Self> {
        let mut documents = match &case.cr {
            Some(path) => read(path)?,
            None => vec![json!({})],
        };
        // The last one, as people write them: Secrets before, and the custom resource that needs them.
        let object = documents.pop().context("the file of `cr` holds no object")?;
        ensure!(
            object.is_object(),
            "the file of `cr` holds something else than an object"
        );
        let mut state = CaseState {
            object,
            companions: documents,
            watch: Map::new(),
            lookups: Vec::new(),
            capabilities: Capabilities::default(),
            stored: None,
        };
        state.take_in(&file.world)?;
        Ok(state)
    }

    fn take_in(&mut self, world: &World) -> anyhow::Result<()> {
        if let Some(watch) = &world.watch {
            self.watch.extend(watch.clone());
        }
        if let Some(given) = &world.lookups {
            self.lookups = Vec::new();
            for given in given {
                match given {
                    CaseInput::Object(object) => self.lookups.push(object.clone()),
                    CaseInput::File(path) => self.lookups.extend(read(path)?),
                }
            }
        }
        if let Some(capabilities) = &world.capabilities {
            self.capabilities = capabilities.clone();
        }
        Ok(())
    }

    /// Takes in what a step changes, and finds the watch that the custom resource is for.
    fn advance(&mut self, step: &CaseStep, chart: &StepChart) -> anyhow::Result<Prepared> {
        self.take_in(&step.world)?;
        for (field, patch) in [("metadata", &step.metadata), ("spec", &step.spec)] {
            match patch {
                None => {}
                // A field that is written complete keeps its nulls, which remove defaults of the chart.
                Some(whole) if self.object[field].is_null() => self.object[field] = whole.clone(),
                Some(patch) => json_patch::merge(&mut self.object[field], patch),
            }
        }
        let own = chart.loaded.engine.chart();
        let watches = chart.surroundings.watches(&chart.path, own, &self.watch)?;
        let labels: BTreeMap<String, String> =
            serde_json::from_value(self.object["metadata"]["labels"].clone()).unwrap_or_default();
        let known = GroupKind::of(&self.object);
        let first = watches.first().context("there is no watch for the chart")?;
        let (group_kind, version) = known.unwrap_or_else(|| {
            let group_kind = GroupKind::new(first.group.as_str(), first.kind.as_str());
            (group_kind, first.version.clone())
        });
        let kind = (group_kind.group.as_str(), version.as_str(), group_kind.kind.as_str());
        let watch =
            chartwright_watches::find_watch(&watches, None, &kind, &labels).map_err(|error| anyhow!("{error}"))?;
        let crd = chart.surroundings.crd(&group_kind);
        let has_namespace = !self.object["metadata"]["namespace"].is_null();
        let namespaced = match crd {
            Some(crd) => crd.is_namespaced(),
            None => (watch.target_namespace.is_none() || has_namespace) && !is_cluster_scoped(&group_kind),
        };
        self.complete(&group_kind, &version, namespaced);
        Ok(Prepared {
            watch: watch.clone(),
            group_kind,
            namespaced,
        })
    }

    /// Gives the custom resource what the API server would, and what the case doesn't say.
    fn complete(&mut self, group_kind: &GroupKind, version: &str, namespaced: bool) {
        let api_version = match group_kind.group.as_str() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let object = &mut self.object;
        object["apiVersion"] = api_version.into();
        object["kind"] = group_kind.kind.as_str().into();
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        let metadata = &mut object["metadata"];
        if metadata["name"].is_null() {
            metadata["name"] = NAME.into();
        }
        match namespaced {
            true if metadata["namespace"].is_null() => metadata["namespace"] = NAMESPACE.into(),
            true => {}
            false => drop(metadata.as_object_mut().map(|metadata| metadata.remove("namespace"))),
        }
    }
}

/// The objects in a file.
fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| shown.clone())?;
    let mut objects = Vec::new();
    for document in go_yaml::documents(&text).with_context(|| shown.clone())? {
        let object = go_yaml::to_json(document.as_bytes()).with_context(|| shown.clone())?;
        objects.extend(Some(object).filter(|object| !object.is_null()));
    }
    Ok(objects)
}
