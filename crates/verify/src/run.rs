//! Carries out a case, step by step.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, anyhow, ensure};
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::case::{Case, CaseFile, Given, Step, World};
use super::subject::{Loaded, Surroundings};
use chartwright_core::identity::GroupKind;
use chartwright_core::status::Phase;
use chartwright_operator::cluster::discovery::{Resource, is_cluster_scoped};
use chartwright_operator::reconcile::rehearsal::{Performed, Rehearsal, Scene};
use chartwright_operator::reconcile::{CustomResource, Unit};
use chartwright_scaffold::crd::{rules, validate};
use chartwright_watches::Watch;
use helm_template::render::Capabilities;

/// The UID of each custom resource.
const UID: &str = "00000000-0000-4000-8000-000000000000";
/// What a custom resource is called, and where it lies, if the case doesn't say it.
const NAME: &str = "example";
const NAMESPACE: &str = "default";
/// Why nothing is done where the API server doesn't take the custom resource.
const REFUSED: &str = "CustomResourceInvalid";

/// A chart of a case, with what surrounds it.
#[derive(Clone)]
pub struct Chart {
    pub path: std::path::PathBuf,
    pub loaded: Arc<Loaded>,
    pub surroundings: Arc<Surroundings>,
}

/// Why a release stops, before anything is done or in the middle of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stopped {
    pub reason: String,
    pub message: String,
}

/// What a step came to.
pub type Done = Result<Performed, Stopped>;

/// A custom resource as it moves on from step to step, and what there is beside it.
struct State {
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
pub async fn run(file: &CaseFile, case: &Case, charts: &[Chart]) -> Result<Vec<Done>, (usize, anyhow::Error)> {
    let mut state = State::begin(file, case).map_err(|error| (case.line, error))?;
    let mut rehearsal = Rehearsal::default();
    let mut done = Vec::with_capacity(case.steps.len());
    for (number, (step, chart)) in case.steps.iter().zip(charts).enumerate() {
        let performed = match state.advance(step, number, chart) {
            Ok(prepared) => perform(&mut rehearsal, &state, prepared, chart).await,
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

async fn perform(rehearsal: &mut Rehearsal, state: &State, prepared: Prepared, chart: &Chart) -> Done {
    let Prepared {
        watch,
        group_kind,
        namespaced,
    } = prepared;
    let crd = chart.surroundings.crd(&group_kind);
    if let Some(schema) = crd.and_then(|crd| crd.schema(&watch.version)) {
        let spec = state.object.get("spec").cloned().unwrap_or_else(|| json!({}));
        let problems = validate::problems(&schema["properties"]["spec"], &spec);
        let mut problems: Vec<String> = problems.iter().map(|problem| problem.told(".spec")).collect();
        problems.extend(rules::broken(schema, state.stored.as_ref(), &state.object));
        if !problems.is_empty() {
            return Err(Stopped {
                reason: REFUSED.to_owned(),
                message: format!(
                    "the API server refuses the {}: {}",
                    group_kind.kind,
                    problems.join("; ")
                ),
            });
        }
    }
    let object: DynamicObject = serde_json::from_value(state.object.clone()).map_err(|error| Stopped {
        reason: REFUSED.to_owned(),
        message: format!("the custom resource can't be read: {error}"),
    })?;
    let resource = CustomResource::from(object).decorated_by(watch.decorator.clone());
    let kind = Resource::offline(&group_kind, &watch.version, namespaced);
    let loaded = &chart.loaded;
    let unit = Unit::alone(watch, group_kind, kind, loaded.engine.clone(), loaded.stamp.clone());
    let served = chart.surroundings.served(loaded.engine.chart());
    let others: Vec<Value> = state.companions.iter().chain(&state.lookups).cloned().collect();
    let scene = Scene {
        unit: &unit,
        resource: &resource,
        capabilities: &state.capabilities,
        served: &served,
        others: &others,
    };
    rehearsal.perform(&scene).await.map_err(Stopped::from)
}

// === impl Stopped ===

impl Stopped {
    /// True if the API server doesn't take the custom resource: it stays as it was.
    fn is_of_api_server(&self) -> bool {
        self.reason == REFUSED
    }
}

impl From<Phase> for Stopped {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Stalled { reason, message, .. }
            | Phase::Failed { reason, message }
            | Phase::Waiting { reason, message } => Stopped {
                reason: reason.as_str().to_owned(),
                message,
            },
            Phase::Suspended | Phase::Ready => Stopped {
                reason: "Suspended".to_owned(),
                message: "the custom resource is suspended: nothing of the release is changed".to_owned(),
            },
        }
    }
}

// === impl State ===

impl State {
    fn begin(file: &CaseFile, case: &Case) -> anyhow::Result<Self> {
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
        let mut state = State {
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
                    Given::Object(object) => self.lookups.push(object.clone()),
                    Given::File(path) => self.lookups.extend(read(path)?),
                }
            }
        }
        if let Some(capabilities) = &world.capabilities {
            self.capabilities = capabilities.clone();
        }
        Ok(())
    }

    /// Takes in what a step changes, and finds the watch that the custom resource is for.
    fn advance(&mut self, step: &Step, number: usize, chart: &Chart) -> anyhow::Result<Prepared> {
        self.take_in(&step.world)?;
        for (field, patch) in [("metadata", &step.metadata), ("spec", &step.spec)] {
            match patch {
                None => {}
                // What is written as a whole keeps its nulls, which take defaults of the chart away.
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
        self.complete(&group_kind, &version, namespaced, number);
        Ok(Prepared {
            watch: watch.clone(),
            group_kind,
            namespaced,
        })
    }

    /// Gives the custom resource what the API server would, and what the case doesn't say.
    fn complete(&mut self, group_kind: &GroupKind, version: &str, namespaced: bool, number: usize) {
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
        metadata["uid"] = UID.into();
        metadata["generation"] = (number + 1).into();
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
