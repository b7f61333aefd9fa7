//! The values that a watch gives a release.

use serde_json::{Map, Value};

use chartwright_watches::Watch;
use helm_template::chart::strvals::{self, Mode};
use helm_template::chart::values::merge_maps;

/// What stands for a text that isn't known here.
pub(super) const UNKNOWN: &str = "value";

/// The values of a release with this spec; a text stands for what is in Secrets and ConfigMaps.
pub(in crate::lint) fn values(watch: &Watch, spec: &Value) -> Value {
    let mut values = watch.values.clone();
    let set = |values: &mut Map<String, Value>, path: &str, text: &str| {
        // The parser of watches.yaml has already reported wrong paths.
        let _ = strvals::parse_into(&format!("{path}={text}"), &Mode::Strings, values);
    };
    for path in watch
        .values_from
        .iter()
        .filter_map(|source| source.target_path.as_deref())
    {
        set(&mut values, path, UNKNOWN);
    }
    if let Value::Object(spec) = spec {
        merge_maps(&mut values, spec.clone());
    }
    for given in &watch.override_values {
        let text = if given.value.contains("{{") {
            UNKNOWN
        } else {
            given.value.as_str()
        };
        set(&mut values, &given.key, text);
    }
    Value::Object(values)
}
