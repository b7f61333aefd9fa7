//! Values and names of a release: what the custom resource says, with the watch's word above it.

pub mod effective;
pub(crate) mod error;
pub(crate) mod name_templates;
pub(crate) mod read_values;
pub(crate) mod release_name;
pub(crate) mod release_namespace;
pub(crate) mod service_account;
pub(crate) mod sources;
pub(crate) mod unread_values;

use serde_json::{Map, Value};

use crate::reconcile::unit::Unit;
use crate::reconcile::values::error::ValuesError;
use crate::reconcile::values::sources::ValuesSource;
use chartwright_watches::OverrideValue;
use helm_template::chart::strvals::{self, Mode};
use helm_template::chart::values::merge_maps;
use helm_template::render::{Limits, render_text};

/// The user's values, each over those before: the watch's, those of its sources, `.spec`, then `overrideValues` as strings
/// at their `--set` paths (operator-sdk's meaning).
///
/// # Errors
/// If the spec is no mapping or an override does not parse.
pub(super) fn values(unit: &Unit, found: &[(ValuesSource, Value)], mut spec: Value) -> Result<Value, ValuesError> {
    sources::without_list(unit, &mut spec);
    let Value::Object(spec) = spec else {
        return Err(ValuesError::SpecIsNoMapping);
    };
    let mut values = unit.watch.values.clone();
    sources::add_all(found, &mut values)?;
    merge_maps(&mut values, spec);
    for override_value in &unit.watch.override_values {
        apply_override(override_value, &mut values)?;
    }
    Ok(Value::Object(values))
}

/// Sets one of `overrideValues`.
fn apply_override(override_value: &OverrideValue, values: &mut Map<String, Value>) -> Result<(), ValuesError> {
    let error = |message: String| ValuesError::Override {
        key: override_value.key.clone(),
        message,
    };
    // operator-sdk executes each value as a template with sprig's functions and no data, once the environment is in.
    let value = render_text(
        "overrideValues",
        &override_value.value,
        &Value::Null,
        Limits::of_a_name(),
    )
    .map_err(error)?;
    set(&override_value.key, &value, values).map_err(error)
}

/// Sets `key=value` as `--set-string` does. Where Helm only finds a key without a value behind a comma, as in
/// `10.0.0.0/8,localhost`, it was no list of assignments: then the text is taken whole.
fn set(key: &str, value: &str, values: &mut Map<String, Value>) -> Result<(), String> {
    let text = format!("{key}={value}");
    let is_whole = value.contains(',')
        && strvals::parse_into(&text, &Mode::Strings, &mut Map::new())
            .is_err_and(|message| message.contains("has no value"));
    if is_whole {
        strvals::parse_into(&format!("{key}={}", plain(value)), &Mode::Strings, values)
    } else {
        strvals::parse_into(&text, &Mode::Strings, values)
    }
}

/// A text in which no comma separates and no brace begins a list; what is escaped stays so.
fn plain(value: &str) -> String {
    let mut text = String::with_capacity(value.len() + 8);
    let mut escaped = false;
    for c in value.chars() {
        if !escaped && (c == ',' || c == '{' && text.is_empty()) {
            text.push('\\');
        }
        text.push(c);
        escaped = c == '\\' && !escaped;
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::set;

    #[test]
    fn a_text_with_commas_that_assigns_nothing_is_taken_whole() {
        let of = |value: &str| {
            let mut values = Map::new();
            set("a.b", value, &mut values).map(|()| Value::Object(values))
        };
        let whole = |value: &'static str| (value, json!({"a": {"b": value}}));
        for (value, expected) in [
            whole("10.0.0.0/8,localhost,.svc"),
            whole("one,,two"),
            whole("x=1,two"),
            whole("{one},two"),
            // An escape means what it means elsewhere.
            (r"one\,two,three", json!({"a": {"b": "one,two,three"}})),
            (r"c:\\x,two", json!({"a": {"b": r"c:\x,two"}})),
            // What Helm can read is as Helm reads it.
            ("one,c=two", json!({"a": {"b": "one"}, "c": "two"})),
            ("{one,two}", json!({"a": {"b": ["one", "two"]}})),
            ("one,", json!({"a": {"b": "one"}})),
            (r"one\,two", json!({"a": {"b": "one,two"}})),
        ] {
            assert_eq!(of(value), Ok(expected), "{value}");
        }
        // What is wrong for another reason still is, and nothing is set by halves.
        assert!(of("{one,two").is_err());
        let mut values = Map::new();
        assert_eq!(
            set("a.", "one,two", &mut values),
            Err("key map \"a\" has no value".into())
        );
        set("a", "x,b.c=1,d", &mut values).unwrap();
        assert_eq!(Value::Object(values), json!({"a": "x,b.c=1,d"}));
    }
}
