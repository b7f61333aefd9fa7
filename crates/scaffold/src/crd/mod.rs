//! A chart -> the CustomResourceDefinition of its releases. Values that the chart accepts are never refused and never dropped
//! by what is made here: what Kubernetes can't say, or the chart leaves in doubt, stays open.

mod comments;
pub mod definition;
mod infer;
pub mod overlay;
pub mod rules;
mod schema;
mod structural;
mod usage;
pub mod validate;
mod values;

#[cfg(test)]
mod tests;

use anyhow::{Result, anyhow, ensure};
use serde_json::Value;

use chartwright_watches::ValuesFromField;
use chartwright_watches::Watch;
use chartwright_watches::names::{DNS_LABEL, is_dns_label};
pub use definition::{Names, Scale};
pub use overlay::Overlay;
use schema::FieldSchema;
pub use values::{ChartValues, as_spec, own_as_spec};

/// What a definition is made of.
pub struct Generated {
    pub names: Names,
    /// Facts about the chart that could not be determined.
    pub warnings: Vec<String>,
    spec: FieldSchema,
    rules: Vec<Value>,
    /// The charts.
    about: String,
}

/// What else is known of the kind, from its watch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surroundings<'a> {
    /// The custom resource isn't the only one that brings values.
    pub has_sources: bool,
    /// The field below `spec` that lists sources of values.
    pub sources_field: Option<&'a [String]>,
}

impl<'a> Surroundings<'a> {
    pub fn of(watch: &'a Watch) -> Self {
        Surroundings {
            has_sources: !watch.values.is_empty()
                || !watch.values_from.is_empty()
                || watch.values_from_field.is_some()
                || !watch.override_values.is_empty(),
            sources_field: match &watch.values_from_field {
                Some(ValuesFromField::Spec(path)) => Some(path),
                _ => None,
            },
        }
    }
}

/// Makes the definition for a chart.
///
/// # Errors
/// What is wrong with the chart's values or with the overlay.
pub fn generate(
    source: &ChartValues,
    mut names: Names,
    overlay: &Overlay,
    surroundings: Surroundings<'_>,
) -> Result<Generated> {
    overlay.name(&mut names);
    // The name of a file is made of it.
    ensure!(
        is_dns_label(&names.plural()),
        "{:?} can't be a plural: {DNS_LABEL}, as in memcacheds",
        names.plural()
    );
    let values = source.values(!surroundings.has_sources)?;
    let mut spec = values.schema;
    let rules = overlay.apply(&mut spec).map_err(|error| anyhow!(error))?;
    let selectable = overlay.selectable_fields(&mut spec);
    names.selectable = selectable.map_err(|error| anyhow!(error))?;
    if let Some(scale) = &names.scale {
        overlay::scale_field(&mut spec, scale).map_err(|error| anyhow!("scale: {error}"))?;
    }
    if let Some(field) = surroundings.sources_field {
        add_sources_field(&mut spec, field);
    }
    let chart = &source.chart.metadata;
    Ok(Generated {
        names,
        warnings: values.warnings,
        spec,
        rules,
        about: format!("{} {}", chart.name, chart.version),
    })
}

/// The field that isn't the chart's.
fn add_sources_field(spec: &mut FieldSchema, path: &[String]) {
    let mut node = spec;
    for part in path {
        if !matches!(node.kind, schema::SchemaType::Object) {
            return;
        }
        let open = node.open;
        node = node.properties.entry(part.clone()).or_insert_with(|| FieldSchema {
            open,
            ..FieldSchema::of(schema::SchemaType::Object)
        });
    }
    *node = FieldSchema {
        description: "Secrets and ConfigMaps with further values.".into(),
        ..FieldSchema::of(schema::SchemaType::Array)
    };
}

impl Generated {
    /// The CustomResourceDefinition, with this version alone.
    pub fn definition(&self) -> Value {
        definition::definition(&self.names, &self.spec, &self.rules, &self.about)
    }

    /// One version for custom resources of either chart: what one of them accepts is accepted.
    #[must_use]
    pub fn or(mut self, other: Generated) -> Self {
        self.spec = self.spec.union(other.spec);
        self.rules.retain(|rule| other.rules.contains(rule));
        if self.about != other.about {
            self.about = format!("{} or {}", self.about, other.about);
        }
        self.warnings.extend(other.warnings);
        self
    }
}
