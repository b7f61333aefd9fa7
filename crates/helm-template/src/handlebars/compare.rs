//! The comparison helpers: numbers of any kind compare as numbers, strings bytewise.

use std::cmp::Ordering;

use serde_json::{Number, Value as Json};

/// Applies a comparison by its name.
///
/// # Errors
/// Values without an order, or of different kinds.
pub(super) fn compare(name: &str, a: &Json, b: &Json) -> Result<bool, String> {
    match name {
        "eq" => return Ok(equal(a, b)),
        "ne" => return Ok(!equal(a, b)),
        _ => {}
    }
    let order = match (a, b) {
        (Json::Number(a), Json::Number(b)) => numbers(a, b),
        (Json::String(a), Json::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let Some(order) = order else {
        return Err(format!(
            "{name} compares two numbers or two strings, not {} and {}",
            sort(a),
            sort(b)
        ));
    };
    Ok(match name {
        "lt" => order.is_lt(),
        "le" | "lte" => order.is_le(),
        "gt" => order.is_gt(),
        _ => order.is_ge(),
    })
}

fn equal(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => numbers(a, b) == Some(Ordering::Equal),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn numbers(a: &Number, b: &Number) -> Option<Ordering> {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn whole(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

/// The kind of a value, in words.
pub(super) fn sort(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a bool",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    }
}
