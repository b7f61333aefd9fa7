//! The comparison helpers: numbers compare as numbers whatever their kind, strings bytewise.

use std::cmp::Ordering;

use serde_json::{Number, Value as Json};

/// Applies a comparison by its name.
///
/// # Errors
/// An order of values that have none, or not of the same sort.
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

/// What a value is, in words.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_compare_whatever_their_kind() {
        let table = [
            ("eq", json!(1), json!(1.0), Ok(true)),
            ("eq", json!([1, {"a": 2}]), json!([1.0, {"a": 2.0}]), Ok(true)),
            ("eq", json!("1"), json!(1), Ok(false)),
            ("ne", json!(null), json!(false), Ok(true)),
            ("lt", json!(9), json!(10), Ok(true)),
            ("lt", json!("9"), json!("10"), Ok(false)),
            ("ge", json!(-1), json!(u64::MAX), Ok(false)),
            (
                "gt",
                json!(9_007_199_254_740_993_i64),
                json!(9_007_199_254_740_992_i64),
                Ok(true),
            ),
            ("le", json!(1.5), json!(1.5), Ok(true)),
            ("lte", json!(2), json!(1.5), Ok(false)),
            ("gte", json!(2), json!(2), Ok(true)),
            (
                "lt",
                json!("a"),
                json!(1),
                Err("lt compares two numbers or two strings, not a string and a number".to_owned()),
            ),
        ];
        for (name, a, b, want) in table {
            assert_eq!(compare(name, &a, &b), want, "{name} {a} {b}");
        }
    }
}
