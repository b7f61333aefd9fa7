//! The effective values of a custom resource and where each one comes from, for people. Uses the merge of a reconcile.

use kube::Client;
use serde_json::{Map, Value};

use crate::cluster::discovery::Snapshot;
use crate::cluster::objects::lookup;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::render::secret_values::{self, ChartText};
use crate::reconcile::unit::Unit;
use crate::reconcile::values::sources::{self, ValuesSource};
use crate::reconcile::values::{apply_override, values};
use crate::telemetry::redact::Secrets;
use chartwright_core::values::origins::{ValueOrigin, ValuesLayer, value_origins};

/// Returns the effective values of a custom resource with their origins. Reads the Secrets and ConfigMaps of the values with the
/// rights of `client`, and masks what comes from a Secret. `is_public`: whether the text of an override may be shown.
///
/// # Errors
/// What a reconcile would report, or the chart or a source that cannot be read. No message quotes a Secret.
pub async fn explain_values(
    client: &Client,
    snapshot: &Snapshot,
    unit: &Unit,
    resource: &CustomResource,
    is_public: impl Fn(&str) -> bool,
) -> anyhow::Result<Vec<ValueOrigin>> {
    let engine = unit.renderer.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
    let (secrets, chart) = (Secrets::default(), ChartText::of(Some(engine.chart())));
    let mut found = Vec::new();
    for source in sources::sources(unit, resource)? {
        let read = lookup::fetch(client, snapshot, &source.key).await;
        let read = read.map_err(|error| anyhow::anyhow!("{}: {error}", source.describe()))?;
        let mut room = sources::LARGEST;
        secret_values::learn_source(&secrets, &chart, &source, &read, &mut room);
        found.push((source, read));
    }
    let explain = || -> anyhow::Result<Vec<ValueOrigin>> {
        let layers = layers(unit, &found, resource.spec()?, is_public)?;
        let user = layers.last().map_or(Value::Null, |layer| layer.merged.clone());
        let defaults = engine.effective_values(Value::Object(Map::new()))?;
        let effective = engine.effective_values(user)?;
        Ok(value_origins(&defaults, &layers, &effective))
    };
    // Helm's messages quote values.
    explain().map_err(|error| anyhow::anyhow!("{}", secrets.redact(&format!("{error:#}"))))
}

/// The layers of the user's values, the weakest first.
fn layers(
    unit: &Unit,
    found: &[(ValuesSource, Value)],
    mut spec: Value,
    is_public: impl Fn(&str) -> bool,
) -> anyhow::Result<Vec<ValuesLayer>> {
    // The merge of a reconcile checks everything.
    let complete = values(unit, found, spec.clone())?;
    let mut layers = Vec::new();
    let mut merged = unit.watch.values.clone();
    let layer = |origin: String, is_secret: bool, own: Map<String, Value>, merged: &Map<String, Value>| ValuesLayer {
        origin,
        is_secret,
        own: Value::Object(own),
        merged: Value::Object(merged.clone()),
    };
    layers.push(layer("watch values".to_owned(), false, merged.clone(), &merged));
    // The merge of a reconcile has checked the limit.
    let mut room = usize::MAX;
    for (source, object) in found {
        let mut own = Map::new();
        source.add(object, &mut own, &mut room)?;
        source.add(object, &mut merged, &mut room)?;
        layers.push(layer(source.describe(), source.is_secret(), own, &merged));
    }
    sources::without_list(unit, &mut spec);
    if let Value::Object(spec) = spec {
        helm_template::chart::values::merge_maps(&mut merged, spec.clone());
        layers.push(layer("CR".to_owned(), false, spec, &merged));
    }
    for override_value in &unit.watch.override_values {
        let mut own = Map::new();
        apply_override(override_value, &mut own)?;
        apply_override(override_value, &mut merged)?;
        let is_secret = !is_public(&override_value.value);
        layers.push(layer("overrideValues".to_owned(), is_secret, own, &merged));
    }
    // No assert_eq: it would print Secrets.
    debug_assert!(layers.last().is_some_and(|layer| layer.merged == complete));
    Ok(layers)
}
