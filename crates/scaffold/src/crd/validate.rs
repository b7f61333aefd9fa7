//! Whether objects fit a definition: what it refuses, and what it would drop. Formats are left to the API server, rules in CEL to
//! [`super::rules`].

use std::fmt::Write as _;

use go_template::Meter;
use helm_template::gostd::regexp;
use serde_json::Value;

use chartwright_core::crds::compare::{is_open, kind, list};

/// What a schema has against a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueProblem {
    /// From the value on that was checked.
    pub path: Vec<ValueStep>,
    pub what: String,
    pub of: Of,
}

/// A step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueStep {
    Key(String),
    Index(usize),
}

/// What a problem is about, at the end of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    Value,
    /// It shouldn't be there.
    Key,
    /// It isn't there.
    Absent,
}

/// Lists the problems that a schema finds in a value.
pub fn problems(schema: &Value, value: &Value) -> Vec<ValueProblem> {
    let mut checker = ValueChecker::default();
    checker.check(schema, value);
    checker.found
}

impl ValueProblem {
    /// A sentence for users. `root` is the name of the checked value.
    pub fn describe(&self, root: &str) -> String {
        let mut text = root.to_owned();
        for step in &self.path {
            // Writing to a string does not fail.
            let _ = match step {
                ValueStep::Key(key) if text.is_empty() => write!(text, "{key}"),
                ValueStep::Key(key) => write!(text, ".{key}"),
                ValueStep::Index(index) => write!(text, "[{index}]"),
            };
        }
        format!("{text} {}", self.what)
    }
}

#[derive(Default)]
struct ValueChecker {
    path: Vec<ValueStep>,
    found: Vec<ValueProblem>,
}

impl ValueChecker {
    fn report(&mut self, of: Of, what: impl Into<String>) {
        self.found.push(ValueProblem {
            path: self.path.clone(),
            what: what.into(),
            of,
        });
    }

    fn within(&mut self, step: ValueStep, work: impl FnOnce(&mut Self)) {
        self.path.push(step);
        work(self);
        self.path.pop();
    }

    fn check(&mut self, schema: &Value, value: &Value) {
        let kind = kind(schema);
        if value.is_null() {
            // A default takes its place.
            if schema["nullable"] != true && kind != "any" && schema.get("default").is_none() {
                self.report(Of::Value, "must not be null");
            }
            return;
        }
        let (fits, wanted) = match kind {
            "boolean" => (value.is_boolean(), "true or false"),
            "integer" => (is_whole(value), "a whole number"),
            "number" => (value.is_number(), "a number"),
            "string" => (value.is_string(), "a string"),
            "int-or-string" => (value.is_string() || is_whole(value), "a whole number or a string"),
            "array" => (value.is_array(), "a list"),
            "object" => (value.is_object(), "a map"),
            _ => (true, ""),
        };
        if !fits {
            return self.report(Of::Value, format!("must be {wanted}"));
        }
        self.validations(schema, value);
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    let inner = schema["properties"].get(key);
                    let inner = inner.or_else(|| schema.get("additionalProperties").filter(|inner| inner.is_object()));
                    let is_open = is_open(schema) || schema["additionalProperties"] == true || kind == "any";
                    self.within(ValueStep::Key(key.clone()), |checker| match inner {
                        Some(schema) => checker.check(schema, member),
                        None if is_open => {}
                        None => checker.report(Of::Key, "is unknown to the CRD, and would be dropped"),
                    });
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.within(ValueStep::Index(index), |checker| checker.check(&schema["items"], item));
                }
            }
            _ => {}
        }
    }

    /// Checks the keywords that combinators may contain as well: all but the structure.
    fn validations(&mut self, schema: &Value, value: &Value) {
        if let Some(values) = schema["enum"].as_array()
            && !values.iter().any(|choice| is_equal(choice, value))
        {
            let values: Vec<String> = values.iter().map(Value::to_string).collect();
            self.report(Of::Value, format!("must be one of {}", values.join(", ")));
        }
        self.limits(schema, value);
        if value.is_object() {
            for key in list(&schema["required"]).iter().filter_map(Value::as_str) {
                let has_default = schema["properties"][key].get("default").is_some();
                if value.get(key).is_none() && !has_default {
                    self.within(ValueStep::Key(key.to_owned()), |checker| {
                        checker.report(Of::Absent, "is missing")
                    });
                }
            }
        }
        for part in list(&schema["allOf"]) {
            self.validations(part, value);
        }
        let holds = |branch: &&Value| {
            let mut checker = ValueChecker::default();
            checker.validations(branch, value);
            checker.found.is_empty()
        };
        let any_of = &schema["anyOf"];
        if any_of.is_array() && !list(any_of).iter().any(|branch| holds(&branch)) {
            self.report(Of::Value, format!("fits none of {any_of}"));
        }
        let one_of = &schema["oneOf"];
        if one_of.is_array() && list(one_of).iter().filter(holds).count() != 1 {
            self.report(Of::Value, format!("doesn't fit exactly one of {one_of}"));
        }
        if let Some(not) = schema.get("not").filter(holds) {
            self.report(Of::Value, format!("must not be {not}"));
        }
    }

    fn limits(&mut self, schema: &Value, value: &Value) {
        let size = match value {
            Value::String(text) => Some((text.chars().count(), "Length", " characters")),
            Value::Array(items) => Some((items.len(), "Items", " items")),
            Value::Object(members) => Some((members.len(), "Properties", " fields")),
            _ => None,
        };
        let (amount, of, unit) = match (size, value.as_f64()) {
            (Some((size, of, unit)), _) => (size as f64, of, unit),
            (None, Some(number)) => (number, "imum", ""),
            _ => return,
        };
        let verb = if unit.is_empty() { "be" } else { "have" };
        for (name, sign, words) in [("min", 1.0, "at least"), ("max", -1.0, "at most")] {
            let name = format!("{name}{of}");
            let Some(limit) = schema[&name].as_f64() else {
                continue;
            };
            let exclusive = schema[format!("exclusive{}{}", name[..1].to_uppercase(), &name[1..])] == true;
            let distance = (amount - limit) * sign;
            if distance < 0.0 || (exclusive && distance == 0.0) {
                let words = match (exclusive, sign > 0.0) {
                    (true, true) => "more than",
                    (true, false) => "less than",
                    (false, _) => words,
                };
                self.report(Of::Value, format!("must {verb} {words} {}{unit}", schema[&name]));
            }
        }
        if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
            && regexp::compile(&Meter::default(), pattern.as_bytes())
                .is_ok_and(|pattern| !pattern.is_match(text.as_bytes()))
        {
            self.report(Of::Value, format!("must match {pattern}"));
        }
    }
}

fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|float| float.fract() == 0.0)
}

fn is_equal(choice: &Value, value: &Value) -> bool {
    choice == value || choice.as_f64().is_some() && choice.as_f64() == value.as_f64()
}
