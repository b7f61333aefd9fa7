//! Random results that no `lookup` keeps: found by rendering an upgrade that sees what the installation made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use go_template::commands::{self, Word};
use serde_json::{Value, json};

use super::examine::{Examined, NAMESPACE};
use crate::lint::report::{LintReport, join};
use crate::lint::rules;
use crate::survey::manifests;
use chartwright_core::members::desired::fold_string_data;
use helm_template::handlebars::is_handlebars;
use helm_template::render::{Capabilities, Engine, Input, Kept, KeptKey, LookupKey, ReleaseObject, Rendered, StandIns};

/// Functions whose results are different each time.
const RANDOM: [&str; 18] = [
    "randAlphaNum",
    "randAlpha",
    "randAscii",
    "randNumeric",
    "randBytes",
    "randInt",
    "shuffle",
    "uuidv4",
    "bcrypt",
    "htpasswd",
    "encryptAES",
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
];

/// At most this many random results of a chart are drawn again, each with a render.
const MOST: usize = 100;

/// The random results of a chart's renders, and which of them an upgrade would replace.
pub(in crate::lint) struct RandomResults {
    stand_ins: Arc<StandIns>,
    /// Others than `stand_ins`.
    others: Arc<StandIns>,
    examined: BTreeSet<KeptKey>,
    /// Template and function of those that an upgrade replaces.
    replaced: BTreeSet<(String, String)>,
}

impl Default for RandomResults {
    fn default() -> Self {
        RandomResults {
            stand_ins: Arc::new(StandIns::new(0)),
            others: Arc::new(StandIns::new(1)),
            examined: BTreeSet::new(),
            replaced: BTreeSet::new(),
        }
    }
}

impl RandomResults {
    /// Learns which random results of one render change objects when the release is upgraded.
    pub(in crate::lint) fn add(&mut self, engine: &Engine, values: &Value, rendered: &Rendered) {
        let random = |key: &&KeptKey| RANDOM.contains(&key.function.as_str());
        let keys = rendered.randomness.kept.keys().filter(random);
        let new: Vec<KeptKey> = keys.filter(|key| !self.examined.contains(key)).cloned().collect();
        if new.is_empty() || self.examined.len() > MOST {
            return;
        }
        self.examined.extend(new);
        let upgrade = Upgrade::of(engine, values, rendered);
        // An upgrade that fails replaces nothing.
        let Some(upgraded) = upgrade.render(&rendered.randomness.kept, &self.stand_ins) else {
            return;
        };
        let kept = &upgraded.randomness.kept;
        let drawn: BTreeSet<KeptKey> = kept.keys().filter(random).cloned().collect();
        if drawn.is_empty() {
            return;
        }
        let differs = |other: &Rendered| !objects(other).eq(objects(&upgraded));
        let others = Arc::clone(&self.others);
        let Some(other) = upgrade.render(&kept.without(&drawn), &others).filter(differs) else {
            return;
        };
        let changes = |key: &KeptKey| {
            let kept = kept.with_result_of(key, &other.randomness.kept);
            upgrade.render(&kept, &others).is_some_and(|other| differs(&other))
        };
        for key in drawn.into_iter().take(MOST) {
            let place = (key.template.clone(), key.function.clone());
            if !self.replaced.contains(&place) && changes(&key) {
                self.replaced.insert(place);
            }
        }
    }

    /// Whether an upgrade replaces what a call gives. One in a definition is meant by results of templates that don't call the
    /// function themselves.
    fn replaces(&self, call: &RandomCall, all: &[RandomCall]) -> bool {
        let is_own = |template: &str| {
            let calls = all.iter().filter(|other| !other.is_defined);
            calls
                .into_iter()
                .any(|other| other.template == template && other.function == call.function)
        };
        let is_it = |(template, function): &(String, String)| {
            *function == call.function
                && if call.is_defined {
                    !is_own(template)
                } else {
                    *template == call.template
                }
        };
        self.replaced.iter().any(is_it)
    }
}

/// A call of a random function in the text of a template.
struct RandomCall {
    /// As renders name it.
    template: String,
    file: String,
    function: String,
    /// It stands in a definition, which any template may use.
    is_defined: bool,
    at: (usize, usize),
}

/// Calls of random functions whose results an upgrade replaces.
pub(in crate::lint) fn check(examined: &Examined, report: &mut LintReport) {
    let calls = calls(examined);
    for call in calls.iter().filter(|call| examined.random.replaces(call, &calls)) {
        let message = format!(
            "`{}` gives another result in every release and with every Helm upgrade",
            call.function
        );
        report.add(rules::RANDOM_VALUE, call.file.as_str(), call.at, message);
    }
}

fn calls(examined: &Examined) -> Vec<RandomCall> {
    let mut calls = Vec::new();
    for file in examined
        .chart
        .templates
        .iter()
        .filter(|file| !is_handlebars(&file.name))
    {
        for command in commands::commands(&file.name, &file.data).unwrap_or_default() {
            let Some(Word::Function(name)) = command.words.first() else {
                continue;
            };
            if RANDOM.contains(&name.as_str()) {
                calls.push(RandomCall {
                    template: format!("{}/{}", examined.chart.name(), file.name),
                    file: join(&examined.folder, &file.name),
                    function: name.clone(),
                    is_defined: command.is_defined,
                    at: (command.line, command.column + 1),
                });
            }
        }
    }
    calls
}

/// An upgrade of a release with the same values, whose lookups find what it has made.
struct Upgrade<'a> {
    engine: &'a Engine,
    values: &'a Value,
    capabilities: Capabilities,
    found: Arc<BTreeMap<LookupKey, Value>>,
}

impl<'a> Upgrade<'a> {
    fn of(engine: &'a Engine, values: &'a Value, installed: &Rendered) -> Self {
        let live: Vec<Value> = objects(installed).map(as_stored).collect();
        let answers = installed.used_lookups.iter();
        let found = answers.map(|key| (key.clone(), answer(key, &live))).collect();
        let mut capabilities = Capabilities::default();
        let apis = installed.capability_queries.iter().filter(|query| query.contains('/'));
        let served = Arc::make_mut(&mut capabilities.api_versions);
        served.extend(apis.cloned());
        served.sort_unstable();
        served.dedup();
        Upgrade {
            engine,
            values,
            capabilities,
            found: Arc::new(found),
        }
    }

    fn render(&self, kept: &Kept, random: &Arc<StandIns>) -> Option<Rendered> {
        let release = ReleaseObject {
            revision: 2,
            is_install: false,
            is_upgrade: true,
            ..ReleaseObject::install("release-name", NAMESPACE)
        };
        let input = Input {
            kept: Some(kept),
            random: Some(Arc::clone(random) as _),
            capabilities: &self.capabilities,
            lookup: Arc::clone(&self.found) as _,
            read_objects: true,
            skip_schema: true,
            ..Input::new(release, self.values.clone())
        };
        self.engine.render_with(&input).ok()
    }
}

/// All objects of a render, those of hooks included.
fn objects(rendered: &Rendered) -> impl Iterator<Item = &Value> {
    manifests(rendered).flat_map(|(manifest, _)| manifest.objects())
}

/// An object as the API server returns it: `stringData` of a Secret becomes `data`, and the namespace is there.
fn as_stored(object: &Value) -> Value {
    let mut object = object.clone();
    if object["metadata"]["namespace"].is_null() && object["metadata"].is_object() {
        object["metadata"]["namespace"] = json!(NAMESPACE);
    }
    fold_string_data(&mut object);
    object
}

fn answer(key: &LookupKey, live: &[Value]) -> Value {
    let is_meant = |object: &&Value| {
        let metadata = &object["metadata"];
        object["apiVersion"] == key.api_version.as_str()
            && object["kind"] == key.kind.as_str()
            && (key.namespace.is_empty() || metadata["namespace"] == key.namespace.as_str())
            && (key.name.is_empty() || metadata["name"] == key.name.as_str())
    };
    let mut found = live.iter().filter(is_meant);
    match key.name.as_str() {
        "" => {
            json!({"apiVersion": key.api_version, "kind": format!("{}List", key.kind), "items": found.collect::<Vec<_>>()})
        }
        _ => found.next().cloned().unwrap_or_else(|| json!({})),
    }
}
