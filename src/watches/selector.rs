//! Label selectors as in `metav1.LabelSelector`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Which objects a watch is for, by their labels. All requirements must hold; an empty selector matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    pub match_labels: BTreeMap<String, String>,
    pub match_expressions: Vec<Requirement>,
}

/// One entry of `matchExpressions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    /// Not empty for `In` and `NotIn`, empty for the others.
    pub values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label is there, with one of the values.
    In,
    /// The label is missing, or has another value.
    NotIn,
    Exists,
    DoesNotExist,
}

/// What a conjunction of requirements says of one key.
#[derive(Default)]
struct Constraint<'a> {
    required: bool,
    forbidden: bool,
    allowed: Option<BTreeSet<&'a str>>,
    excluded: BTreeSet<&'a str>,
}

/// Whether no object can match both selectors. Exact: `false` means that labels exist which both match.
pub fn disjoint(a: &LabelSelector, b: &LabelSelector) -> bool {
    let mut constraints: BTreeMap<&str, Constraint<'_>> = BTreeMap::new();
    for selector in [a, b] {
        for (key, value) in &selector.match_labels {
            constraints
                .entry(key)
                .or_default()
                .allow(BTreeSet::from([value.as_str()]));
        }
        for requirement in &selector.match_expressions {
            let constraint = constraints.entry(&requirement.key).or_default();
            let values = || requirement.values.iter().map(String::as_str);
            match requirement.operator {
                Operator::In => constraint.allow(values().collect()),
                Operator::NotIn => constraint.excluded.extend(values()),
                Operator::Exists => constraint.required = true,
                Operator::DoesNotExist => constraint.forbidden = true,
            }
        }
    }
    // Keys are independent of each other, so the whole is impossible only if one key is.
    constraints.values().any(Constraint::is_impossible)
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
            && self
                .match_expressions
                .iter()
                .all(|requirement| requirement.matches(labels))
    }

    /// Whether everything matches.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }
}

/// As kubectl prints selectors (`metav1.FormatLabelSelector`): requirements sorted by key, `<none>` if there are none.
/// The text is also what the API takes as `labelSelector=`, except `<none>`.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("<none>");
        }
        let mut parts: Vec<(&str, String)> = self
            .match_labels
            .iter()
            .map(|(key, value)| (key.as_str(), format!("{key}={value}")))
            .collect();
        parts.extend(
            self.match_expressions
                .iter()
                .map(|requirement| (requirement.key.as_str(), requirement.to_string())),
        );
        parts.sort_by_key(|(key, _)| *key);
        for (index, (_, part)) in parts.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            f.write_str(part)?;
        }
        Ok(())
    }
}

// === impl Requirement ===

impl Requirement {
    /// Whether an object with these labels meets the requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match self.operator {
            Operator::In => value.is_some_and(|value| self.values.contains(value)),
            Operator::NotIn => value.is_none_or(|value| !self.values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::In => "in",
            Operator::NotIn => "notin",
            Operator::Exists => return f.write_str(&self.key),
            Operator::DoesNotExist => return write!(f, "!{}", self.key),
        };
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        write!(f, "{} {operator} ({})", self.key, values.join(","))
    }
}

// === impl Operator ===

impl Operator {
    /// The names in `matchExpressions`, in the order of the Kubernetes documentation.
    pub const NAMES: [&'static str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

    /// Reads the exact name that the API uses.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "In" => Some(Operator::In),
            "NotIn" => Some(Operator::NotIn),
            "Exists" => Some(Operator::Exists),
            "DoesNotExist" => Some(Operator::DoesNotExist),
            _ => None,
        }
    }

    /// Whether the operator compares with values.
    pub fn takes_values(self) -> bool {
        matches!(self, Operator::In | Operator::NotIn)
    }
}

// === impl Constraint ===

impl<'a> Constraint<'a> {
    fn allow(&mut self, values: BTreeSet<&'a str>) {
        self.required = true;
        self.allowed = Some(match self.allowed.take() {
            Some(allowed) => allowed.intersection(&values).copied().collect(),
            None => values,
        });
    }

    fn is_impossible(&self) -> bool {
        let no_value_left = || {
            self.allowed
                .as_ref()
                .is_some_and(|allowed| allowed.is_subset(&self.excluded))
        };
        self.required && (self.forbidden || no_value_left())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small notation for tests: `a=1, b in (x y), c notin (z), d, !e`.
    fn selector(text: &str) -> LabelSelector {
        let mut selector = LabelSelector::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let set = |text: &str| {
                text.trim_matches(['(', ')'])
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect()
            };
            let (key, operator, values) = if let Some((key, value)) = part.split_once('=') {
                selector.match_labels.insert(key.into(), value.into());
                continue;
            } else if let Some((key, values)) = part.split_once(" notin ") {
                (key, Operator::NotIn, set(values))
            } else if let Some((key, values)) = part.split_once(" in ") {
                (key, Operator::In, set(values))
            } else if let Some(key) = part.strip_prefix('!') {
                (key, Operator::DoesNotExist, BTreeSet::new())
            } else {
                (part, Operator::Exists, BTreeSet::new())
            };
            selector.match_expressions.push(Requirement {
                key: key.into(),
                operator,
                values,
            });
        }
        selector
    }

    fn labels(text: &str) -> BTreeMap<String, String> {
        selector(text).match_labels
    }

    #[test]
    fn matches_as_the_api_server_does() {
        for (text, yes, no) in [
            ("", vec!["", "a=1"], vec![]),
            ("a=1", vec!["a=1", "a=1,b=2"], vec!["", "a=2", "b=1"]),
            ("a in (1 2)", vec!["a=1", "a=2"], vec!["", "a=3"]),
            ("a notin (1 2)", vec!["", "a=3"], vec!["a=1"]),
            ("a", vec!["a=1", "a="], vec!["", "b=1"]),
            ("!a", vec!["", "b=1"], vec!["a=1", "a="]),
            ("a=1,!b,c notin (x)", vec!["a=1", "a=1,c=y"], vec!["a=1,b=1", "a=1,c=x"]),
        ] {
            let selector = selector(text);
            for object in yes {
                assert!(selector.matches(&labels(object)), "{text} should match {object}");
            }
            for object in no {
                assert!(!selector.matches(&labels(object)), "{text} should not match {object}");
            }
        }
    }

    #[test]
    fn disjoint_is_exact() {
        for (a, b, expected) in [
            ("", "", false),
            ("", "a=1", false),
            ("a=1", "a=1", false),
            ("a=1", "a=2", true),
            ("a=1", "b=2", false),
            ("a=1,b=1", "a=1,b=2", true),
            ("a in (1 2)", "a in (3 4)", true),
            ("a in (1 2)", "a in (2 3)", false),
            ("a in (1 2)", "a=3", true),
            ("a in (1 2)", "a=2", false),
            ("a in (1 2)", "a notin (1 2 3)", true),
            ("a in (1 2)", "a notin (1)", false),
            ("a=1", "a notin (1)", true),
            ("a", "!a", true),
            ("a=1", "!a", true),
            ("a in (1)", "!a", true),
            ("a notin (1)", "!a", false),
            ("a notin (1)", "a notin (2)", false),
            ("a", "a notin (1)", false),
            ("a", "a", false),
            ("!a", "!a", false),
            // Two together leave nothing, though no single pair excludes.
            ("a in (1 2),a notin (1)", "a notin (2)", true),
            ("a in (1 2)", "a in (2 3),a in (3 1)", true),
            // A selector that matches nothing excludes everything.
            ("a,!a", "", true),
        ] {
            assert_eq!(disjoint(&selector(a), &selector(b)), expected, "{a} / {b}");
            assert_eq!(disjoint(&selector(b), &selector(a)), expected, "{b} / {a}");
        }
    }

    /// Brute force over every labelling of two keys with three values (or none): an object that both match is a
    /// proof against `disjoint`, and none at all is a proof for it, since the values cover all that the selectors name
    /// and one more.
    #[test]
    fn disjoint_agrees_with_enumeration() {
        let single = [
            "a=1",
            "a in (1 2)",
            "a notin (1)",
            "a notin (1 2)",
            "a",
            "!a",
            "b=1",
            "b notin (1)",
            "!b",
            "",
        ];
        let mut objects = Vec::new();
        for a in ["", "a=1", "a=2", "a=3"] {
            for b in ["", "b=1", "b=2"] {
                objects.push(labels(&format!("{a},{b}")));
            }
        }
        let texts: Vec<String> = single
            .iter()
            .flat_map(|a| single.iter().map(move |b| format!("{a},{b}")))
            .collect();
        for a in &texts {
            for b in &texts {
                // Later labels of the same key would overwrite earlier ones in the notation of this test.
                let (one, two) = (selector(a), selector(b));
                let both = objects.iter().any(|labels| one.matches(labels) && two.matches(labels));
                assert_eq!(disjoint(&one, &two), !both, "{a} / {b}");
            }
        }
    }

    #[test]
    fn prints_as_kubectl_does() {
        for (text, expected) in [
            ("", "<none>"),
            ("b=2,a=1", "a=1,b=2"),
            ("tier in (web db),app=x,!old,new", "app=x,new,!old,tier in (db,web)"),
            ("a notin (z)", "a notin (z)"),
        ] {
            assert_eq!(selector(text).to_string(), expected);
        }
    }
}
