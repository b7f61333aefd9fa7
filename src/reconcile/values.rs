//! Values and names of a release: what the custom resource says, with the watch's word above it.

use serde_json::{Map, Value};

use super::context::Unit;
use super::custom_resource::CustomResource;
use crate::chart::strvals::{self, Mode};
use crate::render::render_text;
use crate::watches::names::is_dns_label;

/// Why a release has no values or no name.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(".spec must be a mapping: it is the values of the chart")]
    SpecIsNoMapping,
    #[error("overrideValues: {key}: {message}")]
    Override { key: String, message: String },
    #[error("targetNamespace {template:?}: {message}")]
    TargetNamespace { template: String, message: String },
    #[error(
        "a cluster-scoped custom resource has no namespace of its own: give the watch a `targetNamespace`, \
         for example targetNamespace: \"x-{{{{ .metadata.name }}}}\""
    )]
    NoNamespace,
}

/// The user's values: `.spec`, then `overrideValues` as strings at their `--set` paths (operator-sdk's meaning).
///
/// # Errors
/// If the spec is no mapping or an override does not parse.
pub fn values(unit: &Unit, spec: Value) -> Result<Value, Error> {
    let Value::Object(mut values) = spec else {
        return Err(Error::SpecIsNoMapping);
    };
    apply_overrides(unit, &mut values)?;
    Ok(Value::Object(values))
}

fn apply_overrides(unit: &Unit, values: &mut Map<String, Value>) -> Result<(), Error> {
    for override_value in &unit.watch.override_values {
        let error = |message: String| Error::Override {
            key: override_value.key.clone(),
            message,
        };
        // operator-sdk executes each value as a template with sprig's functions and no data, once the environment is in.
        let value = render_text("overrideValues", &override_value.value, &Value::Null).map_err(error)?;
        strvals::parse_into(&format!("{}={value}", override_value.key), &Mode::Strings, values).map_err(error)?;
    }
    Ok(())
}

/// `.Release.Namespace`: the watch's `targetNamespace`, or the custom resource's own.
///
/// # Errors
/// If there is none, or the template fails or makes no valid name.
pub fn release_namespace(unit: &Unit, resource: &CustomResource) -> Result<String, Error> {
    let Some(template) = &unit.watch.target_namespace else {
        return match resource.key.namespace.is_empty() {
            true => Err(Error::NoNamespace),
            false => Ok(resource.key.namespace.clone()),
        };
    };
    let error = |message: String| Error::TargetNamespace {
        template: template.clone(),
        message,
    };
    let name = render_text("targetNamespace", template, &resource.as_data(&unit.resource)).map_err(error)?;
    let name = name.trim();
    match is_dns_label(name) {
        true => Ok(name.to_owned()),
        false => Err(error(format!(
            "{name:?} is not a namespace name: at most 63 of a-z, 0-9 and -, beginning and ending with a letter or digit"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::is_dns_label;

    #[test]
    fn namespace_names_are_rfc_1123_labels() {
        for good in ["a", "shop-1", "0"] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "<no value>", &"a".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
    }
}
