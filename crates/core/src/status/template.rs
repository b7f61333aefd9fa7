//! Further status fields and conditions from a chart's status template. The template's result is parsed, checked and merged
//! into the status.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::redact::Secrets;
use crate::status::conditions::{self, Condition};
use crate::status::fields::FIELDS;
use crate::status::redaction;

/// Conditions that say what the contract says; a template has others.
const RESERVED: [&str; 12] = [
    "Ready",
    "Reconciling",
    "Stalled",
    "Drifted",
    "PruneHeld",
    "PlanFailed",
    "Suspended",
    INVALID,
    "Initialized",
    "Deployed",
    "ReleaseFailed",
    "Irreconcilable",
];
/// The condition that reports a status template that can't be used.
pub const INVALID: &str = "StatusInvalid";
/// The most that the fields of a template may take, in bytes of JSON: a status has to fit into its object.
const LARGEST: usize = 64 << 10;

/// What the template made of the release as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Computed {
    pub fields: Map<String, Value>,
    pub conditions: Vec<ComputedCondition>,
}

/// One condition of a template.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputedCondition {
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(deserialize_with = "tristate")]
    pub status: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
}

/// What the status keeps of it: which fields and conditions are the template's, and of what they were computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Templated {
    /// Fields that the status template computes.
    pub fields: Vec<String>,
    /// Conditions that the status template computes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<String>,
    /// Digest of what the status template read.
    pub seen: String,
}
impl Computed {
    /// Reads what a template printed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &[u8]) -> Result<Self, String> {
        let value = go_yaml::to_json(text).map_err(|error| match error.line() {
            Some(line) => format!("what it prints is no YAML: line {line}: {}", error.message()),
            None => format!("what it prints is no YAML: {}", error.message()),
        })?;
        let mut fields = match value {
            Value::Null => Map::new(),
            Value::Object(fields) => fields,
            _ => return Err("it must print a map: the fields of the status".to_owned()),
        };
        if let Some(field) = fields
            .keys()
            .find(|field| *field != "conditions" && FIELDS.contains(&field.as_str()))
        {
            return Err(format!("status.{field} is not the chart's to write"));
        }
        let conditions = match fields.remove("conditions") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) => read_conditions(items)?,
            Some(_) => return Err("`conditions` must be a list".to_owned()),
        };
        without_nulls(&mut fields);
        let size = Value::Object(fields.clone()).to_string().len();
        if size > LARGEST {
            return Err(format!("its fields take {size} bytes, and at most {LARGEST} have room"));
        }
        Ok(Computed { fields, conditions })
    }

    /// Redacts the secret values that the template reads.
    pub fn redact(&mut self, secrets: &Secrets) {
        let mut fields = Value::Object(std::mem::take(&mut self.fields));
        redaction::redact(&mut fields, secrets);
        if let Value::Object(fields) = fields {
            self.fields = fields;
        }
        for condition in &mut self.conditions {
            condition.message = secrets.redact(&condition.message).into_owned();
        }
    }

    /// Its conditions alone.
    pub fn without_fields(&self) -> Self {
        Computed {
            fields: Map::new(),
            conditions: self.conditions.clone(),
        }
    }

    /// What the status is to keep of it.
    pub fn templated(&self, seen: &str) -> Templated {
        Templated {
            fields: self.fields.keys().cloned().collect(),
            conditions: self.conditions.iter().map(|condition| condition.kind.clone()).collect(),
            seen: seen.to_owned(),
        }
    }

    /// Takes the conditions of an earlier template out, and puts these in.
    pub fn set_conditions(&self, list: &mut Vec<Condition>, earlier: &Templated, generation: i64, now: Timestamp) {
        let is_kept = |kind: &str| self.conditions.iter().any(|condition| condition.kind == kind);
        list.retain(|condition| !earlier.conditions.contains(&condition.kind) || is_kept(&condition.kind));
        for condition in &self.conditions {
            let reason = if condition.reason.is_empty() {
                "Computed"
            } else {
                &condition.reason
            };
            conditions::set_to(
                list,
                &condition.kind,
                &condition.status,
                reason,
                &condition.message,
                generation,
                now,
            );
        }
    }
}

/// What isn't there yet is left out, rather than refused for its type.
fn without_nulls(fields: &mut Map<String, Value>) {
    fields.retain(|_, value| !value.is_null());
    for value in fields.values_mut() {
        match value {
            Value::Object(fields) => without_nulls(fields),
            Value::Array(items) => items
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(without_nulls),
            _ => {}
        }
    }
}

fn read_conditions(items: Vec<Value>) -> Result<Vec<ComputedCondition>, String> {
    let mut found: BTreeMap<String, ComputedCondition> = BTreeMap::new();
    for (index, item) in items.into_iter().enumerate() {
        let condition =
            ComputedCondition::deserialize(item).map_err(|error| format!("conditions[{index}]: {error}"))?;
        let kind = condition.kind.clone();
        let is_name = kind.starts_with(|c: char| c.is_ascii_alphabetic())
            && kind.len() <= 316
            && kind.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if !is_name {
            return Err(format!(
                "conditions[{index}]: {kind:?} is no type of a condition, such as QuorumLost"
            ));
        }
        if RESERVED.contains(&kind.as_str()) {
            return Err(format!(
                "conditions[{index}]: the condition {kind} is not the chart's to write"
            ));
        }
        if found.insert(kind.clone(), condition).is_some() {
            return Err(format!("conditions[{index}]: {kind} is there twice"));
        }
    }
    Ok(found.into_values().collect())
}

/// `True`, `False` or `Unknown`; YAML makes bools of the first two where they aren't quoted.
fn tristate<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    use serde::de::Error;
    match Value::deserialize(deserializer)? {
        Value::Bool(true) => Ok("True".to_owned()),
        Value::Bool(false) => Ok("False".to_owned()),
        Value::String(text) if ["True", "False", "Unknown"].contains(&text.as_str()) => Ok(text),
        other => Err(D::Error::custom(format!(
            "status must be True, False or Unknown, not {other}"
        ))),
    }
}
impl Templated {
    /// What a status keeps of it.
    pub fn of(status: &Value) -> Self {
        let kept = status.get("templated");
        kept.and_then(|kept| Templated::deserialize(kept).ok())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_prints_fields_and_conditions() {
        let text =
            b"nodes: [a, b]\nsize: 2\nnothing: null\ndeep: {none: }\nconditions:\n- {type: QuorumLost, status: False, reason: Fine}\n";
        let computed = Computed::read(text).unwrap();
        assert_eq!(
            Value::Object(computed.fields.clone()),
            json!({"nodes": ["a", "b"], "size": 2, "deep": {}})
        );
        assert_eq!(computed.conditions[0].status, "False");
        let kept = computed.templated("d");
        assert_eq!(
            (kept.fields, kept.conditions),
            (
                vec!["deep".to_owned(), "nodes".to_owned(), "size".to_owned()],
                vec!["QuorumLost".to_owned()]
            )
        );
        assert_eq!(Computed::read(b"").unwrap(), Computed::default());
    }

    #[test]
    fn what_it_may_not_print_is_named() {
        for (text, expected) in [
            ("- a", "must print a map"),
            ("a: [", "is no YAML"),
            ("inventory: []", "status.inventory is not the chart's to write"),
            ("observedGeneration: 7", "status.observedGeneration is not"),
            ("conditions: {}", "must be a list"),
            (
                "conditions: [{type: Ready, status: 'True'}]",
                "conditions[0]: the condition Ready is not",
            ),
            (
                "conditions: [{type: A, status: 'True'}, {type: A, status: 'True'}]",
                "A is there twice",
            ),
            ("conditions: [{type: A}]", "missing field `status`"),
            (
                "conditions: [{type: A, status: maybe}]",
                "must be True, False or Unknown",
            ),
            (
                "conditions: [{type: A, status: 'True', mesage: x}]",
                "unknown field `mesage`",
            ),
            (
                "conditions: [{type: 'a b', status: 'True'}]",
                "is no type of a condition",
            ),
        ] {
            let error = Computed::read(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let large = format!("a: {}", "x".repeat(LARGEST));
        assert!(Computed::read(large.as_bytes()).unwrap_err().contains("have room"));
    }

    #[test]
    fn conditions_of_an_earlier_template_go() {
        let now = Timestamp::from_second(100).unwrap();
        let mut list = Vec::new();
        conditions::set(&mut list, "Ready", true, "Succeeded", "", 1, now);
        let first = Computed::read(b"conditions: [{type: A, status: 'Unknown'}, {type: B, status: true}]").unwrap();
        first.set_conditions(&mut list, &Templated::default(), 1, now);
        let second = Computed::read(b"conditions: [{type: B, status: false}]").unwrap();
        second.set_conditions(&mut list, &first.templated(""), 2, now);
        let found: Vec<(&str, &str)> = list.iter().map(|c| (c.kind.as_str(), c.status.as_str())).collect();
        assert_eq!(found, [("Ready", "True"), ("B", "False")]);
    }
}
