//! Go's values as the JSON that Handlebars templates see.

use serde_json::{Map as Object, Number, Value as Json};

use crate::helm::Context;
use crate::helm::functions::convert::to_json_value;
use go_template::{Map, Value};

/// Above this, a `float64` cannot distinguish adjacent integers, and stays a float.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// The objects of a template, from the `.` that a Go template would have.
///
/// # Errors
/// Values that are no JSON: infinities, maps that contain themselves.
pub(super) fn of_template(context: &Context, dot: &Value, with_files: bool) -> Result<Json, String> {
    let Value::Map(dot) = dot else {
        return of_value(context, dot);
    };
    let mut objects = Object::new();
    for name in ["Values", "Release", "Chart", "Capabilities", "Template"] {
        if let Some(value) = dot.get(name.as_bytes()) {
            objects.insert(name.to_owned(), of_value(context, &value)?);
        }
    }
    if with_files && let Some(Value::Map(files)) = dot.get(b"Files") {
        objects.insert("Files".to_owned(), of_files(&files));
    }
    Ok(Json::Object(objects))
}

/// The files by name, as text.
fn of_files(files: &Map) -> Json {
    let files = files.snapshot().into_iter().filter_map(|(name, value)| match value {
        Value::String(data) => Some((name.to_text().into_owned(), Json::String(data.to_text().into_owned()))),
        _ => None,
    });
    Json::Object(files.collect())
}

/// A value as JSON. Whole floats become integers: Helm reads every number of a values file as a float, and `3` is not
/// to be written as `3.0`.
///
/// # Errors
/// As [`of_template`].
pub(super) fn of_value(context: &Context, value: &Value) -> Result<Json, String> {
    let mut json = to_json_value(context, value)?;
    whole(&mut json);
    Ok(json)
}

fn whole(json: &mut Json) {
    match json {
        Json::Number(number) if number.is_f64() => {
            if let Some(n) = number.as_f64()
                && n.fract() == 0.0
                && n.abs() < MAX_EXACT
            {
                *number = Number::from(n as i64);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(whole),
        Json::Object(entries) => entries.values_mut().for_each(whole),
        _ => {}
    }
}
