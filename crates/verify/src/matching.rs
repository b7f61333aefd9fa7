//! What a field is expected to be.

use regex::Regex;
use serde_json::Value;

use chartwright_watches::suggestion;

/// What is expected of a field.
#[derive(Clone, Debug)]
pub enum Expected {
    /// It isn't there, or is null.
    Absent,
    Value(Value),
    /// A text that this pattern matches.
    Matches(Regex),
    /// A text with this part, or a list with this item.
    Contains(Value),
    /// A text, a list or a mapping of this length.
    Length(u64),
    /// Base64 of what is expected, as in Secrets.
    Decoded(Box<Expected>),
}

/// The operators, as they are written: a mapping with one of them is no value.
const OPERATORS: [&str; 4] = ["$matches", "$contains", "$length", "$decoded"];

impl Expected {
    /// # Errors
    /// What is wrong with an operator.
    pub fn of(value: Value) -> Result<Self, String> {
        let Value::Object(map) = &value else {
            return Ok(match value {
                Value::Null => Expected::Absent,
                value => Expected::Value(value),
            });
        };
        let mut entries = map.iter();
        let Some((name, operand)) = entries.next().filter(|(name, _)| name.starts_with('$')) else {
            return Ok(Expected::Value(value));
        };
        if entries.next().is_some() {
            return Err(format!("`{name}` stands alone"));
        }
        match (name.as_str(), operand) {
            ("$matches", Value::String(pattern)) => Regex::new(pattern)
                .map(Expected::Matches)
                .map_err(|error| format!("`$matches`: {error}")),
            ("$matches", _) => Err("`$matches` takes a regular expression".to_owned()),
            ("$contains", operand) => Ok(Expected::Contains(operand.clone())),
            ("$length", operand) => operand
                .as_u64()
                .map(Expected::Length)
                .ok_or_else(|| "`$length` takes a whole number".to_owned()),
            ("$decoded", operand) => Ok(Expected::Decoded(Box::new(Expected::of(operand.clone())?))),
            (name, _) => {
                let hint = match suggestion(name, OPERATORS) {
                    Some(best) => format!("did you mean `{best}`?"),
                    None => format!("there are {}", OPERATORS.join(", ")),
                };
                Err(format!("unknown operator `{name}`: {hint}"))
            }
        }
    }

    /// What is wrong with what is there; `None` if it is as expected.
    pub fn complaint(&self, found: Option<&Value>) -> Option<String> {
        let found = found.filter(|found| !found.is_null());
        let Some(found) = found else {
            return match self {
                Expected::Absent => None,
                expected => Some(format!("isn't there, expected {}", expected.describe())),
            };
        };
        let holds = match self {
            Expected::Absent => false,
            Expected::Value(value) => is_equal(value, found),
            Expected::Matches(pattern) => found.as_str().is_some_and(|text| pattern.is_match(text)),
            Expected::Contains(part) => match (part, found) {
                (Value::String(part), Value::String(text)) => text.contains(part.as_str()),
                (part, Value::Array(items)) => items.iter().any(|item| is_equal(part, item)),
                _ => false,
            },
            Expected::Length(length) => {
                let own = match found {
                    Value::String(text) => Some(text.chars().count()),
                    Value::Array(items) => Some(items.len()),
                    Value::Object(map) => Some(map.len()),
                    _ => None,
                };
                own.is_some_and(|own| own as u64 == *length)
            }
            Expected::Decoded(expected) => {
                let text = found.as_str().and_then(|text| {
                    let bytes = data_encoding::BASE64.decode(text.as_bytes()).ok()?;
                    String::from_utf8(bytes).ok()
                });
                let Some(text) = text else {
                    return Some(format!("is {found}, expected base64 of a text"));
                };
                return expected.complaint(Some(&Value::String(text)));
            }
        };
        (!holds).then(|| format!("is {found}, expected {}", self.describe()))
    }

    fn describe(&self) -> String {
        match self {
            Expected::Absent => "nothing there".to_owned(),
            Expected::Value(value) => value.to_string(),
            Expected::Matches(pattern) => format!("a match of {}", pattern.as_str()),
            Expected::Contains(part) => format!("{part} in it"),
            Expected::Length(length) => format!("a length of {length}"),
            Expected::Decoded(expected) => format!("base64 of {}", expected.describe()),
        }
    }
}

/// As YAML has it: `1` and `1.0` are one number.
fn is_equal(expected: &Value, found: &Value) -> bool {
    match (expected, found) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let holds = |(key, value): (&String, &Value)| other.get(key).is_some_and(|other| is_equal(value, other));
            one.len() == other.len() && one.iter().all(holds)
        }
        _ => expected == found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_held_against_what_is_expected() {
        for (expected, found, complaint) in [
            (json!(3), json!(3), ""),
            (json!(3), json!(3.0), ""),
            (json!("3"), json!(3), "is 3, expected \"3\""),
            (json!(null), json!(null), ""),
            (json!(null), json!(1), "is 1, expected nothing there"),
            (json!(3), json!(null), "isn't there, expected 3"),
            (json!({"a": [1]}), json!({"a": [1]}), ""),
            (
                json!({"a": 1}),
                json!({"a": 1, "b": 2}),
                "is {\"a\":1,\"b\":2}, expected {\"a\":1}",
            ),
            (json!({"$matches": "^a+$"}), json!("aa"), ""),
            (
                json!({"$matches": "^a+$"}),
                json!("b"),
                "is \"b\", expected a match of ^a+$",
            ),
            (json!({"$contains": "b"}), json!("abc"), ""),
            (json!({"$contains": {"x": 1}}), json!([{"x": 1}, 2]), ""),
            (json!({"$contains": 3}), json!([1]), "is [1], expected 3 in it"),
            (json!({"$length": 2}), json!("ab"), ""),
            (json!({"$length": 2}), json!([1]), "is [1], expected a length of 2"),
            (json!({"$decoded": "hello"}), json!("aGVsbG8="), ""),
            (json!({"$decoded": {"$length": 5}}), json!("aGVsbG8="), ""),
            (
                json!({"$decoded": "x"}),
                json!("aGVsbG8="),
                "is \"hello\", expected \"x\"",
            ),
            (
                json!({"$decoded": "x"}),
                json!("?"),
                "is \"?\", expected base64 of a text",
            ),
        ] {
            let found = Expected::of(expected.clone()).unwrap().complaint(Some(&found));
            assert_eq!(found.unwrap_or_default(), complaint, "{expected}");
        }
        assert_eq!(Expected::Absent.complaint(None), None);
    }

    #[test]
    fn wrong_operators_are_errors() {
        for (value, expected) in [
            (
                json!({"$match": "a"}),
                "unknown operator `$match`: did you mean `$matches`?",
            ),
            (json!({"$matches": "("}), "`$matches`: "),
            (json!({"$matches": 1}), "`$matches` takes a regular expression"),
            (json!({"$length": "x"}), "`$length` takes a whole number"),
            (json!({"$length": 1, "x": 1}), "`$length` stands alone"),
        ] {
            let error = Expected::of(value.clone()).unwrap_err();
            assert!(error.starts_with(expected), "{value}: {error}");
        }
    }
}
