//! Parses label selectors, and compares those of two watches of one kind, which must exclude each other.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector};

use crate::names::{is_label_key, is_label_value};

/// Parses a label selector as kubectl's `--selector` has it: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
///
/// # Errors
/// The part that is no requirement.
pub fn parse(text: &str) -> Result<Selector, String> {
    let mut parts: Vec<String> = vec![String::new()];
    let mut depth = 0_usize;
    for one in text.chars() {
        match one {
            ',' if depth == 0 => parts.push(String::new()),
            _ => {
                depth = match one {
                    '(' => depth + 1,
                    ')' => depth.saturating_sub(1),
                    _ => depth,
                };
                parts.iter_mut().last().into_iter().for_each(|part| part.push(one));
            }
        }
    }
    let mut selector = Selector::default();
    for part in parts.iter().map(|part| part.trim()) {
        let requirement = requirement(part).ok_or_else(|| {
            format!(
                "{part:?} is no requirement of a label selector: write a=b, a!=b, a in (b,c), a notin (b,c), a or !a"
            )
        })?;
        selector.extend([requirement]);
    }
    Ok(selector)
}

/// One requirement. `None`: the text is none.
fn requirement(part: &str) -> Option<Expression> {
    let key = |text: &str| Some(text.trim()).filter(|key| is_label_key(key)).map(str::to_owned);
    let value = |text: &str| {
        Some(text.trim())
            .filter(|value| is_label_value(value))
            .map(str::to_owned)
    };
    if let Some(rest) = part.strip_prefix('!') {
        return Some(Expression::DoesNotExist(key(rest)?));
    }
    if let Some((name, values)) = part.strip_suffix(')').and_then(|part| part.split_once('(')) {
        let (name, operator) = name.trim().rsplit_once(char::is_whitespace)?;
        let values: Option<BTreeSet<String>> = values.split(',').map(value).collect();
        return match operator {
            "in" => Some(Expression::In(key(name)?, values?)),
            "notin" => Some(Expression::NotIn(key(name)?, values?)),
            _ => None,
        };
    }
    match part
        .split_once("!=")
        .or_else(|| part.split_once("=="))
        .or_else(|| part.split_once('='))
    {
        Some((name, text)) if part.contains("!=") => Some(Expression::NotEqual(key(name)?, value(text)?)),
        Some((name, text)) => Some(Expression::Equal(key(name)?, value(text)?)),
        None => Some(Expression::Exists(key(part)?)),
    }
}

/// The combined requirements for one key.
#[derive(Default)]
struct LabelConstraint {
    required: bool,
    forbidden: bool,
    /// Allowed values of the label. `None`: any.
    allowed: Option<BTreeSet<String>>,
    excluded: BTreeSet<String>,
}

/// True if no object can match both selectors. Exact: `false` means that some labels match both.
pub fn are_disjoint(a: &Selector, b: &Selector) -> bool {
    let mut constraints: BTreeMap<String, LabelConstraint> = BTreeMap::new();
    for expression in [a, b].into_iter().flat_map(|selector| selector.clone()) {
        let all = &mut constraints;
        match expression {
            Expression::Equal(key, value) => constraint_of(all, key).allow(BTreeSet::from([value])),
            Expression::In(key, values) => constraint_of(all, key).allow(values),
            Expression::NotEqual(key, value) => drop(constraint_of(all, key).excluded.insert(value)),
            Expression::NotIn(key, values) => constraint_of(all, key).excluded.extend(values),
            Expression::Exists(key) => constraint_of(all, key).required = true,
            Expression::DoesNotExist(key) => constraint_of(all, key).forbidden = true,
        }
    }
    // Keys are independent, so the selectors are disjoint only if the requirements of one key are impossible.
    constraints.values().any(LabelConstraint::is_impossible)
}

fn constraint_of(all: &mut BTreeMap<String, LabelConstraint>, key: String) -> &mut LabelConstraint {
    all.entry(key).or_default()
}

impl LabelConstraint {
    fn allow(&mut self, mut values: BTreeSet<String>) {
        self.required = true;
        if let Some(allowed) = &self.allowed {
            values.retain(|value| allowed.contains(value));
        }
        self.allowed = Some(values);
    }

    fn is_impossible(&self) -> bool {
        let allowed = self.allowed.as_ref();
        let has_no_value_left = allowed.is_some_and(|allowed| allowed.is_subset(&self.excluded));
        self.required && (self.forbidden || has_no_value_left)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::SelectorExt;

    use super::*;

    /// Parses a short notation for tests: `a=1, b in (x y), c notin (z), d, !e`.
    fn selector(text: &str) -> Selector {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let values_of = |text: &str| text.trim_matches(['(', ')']).split(' ').map(str::to_owned).collect();
        let expressions = parts.map(|part| {
            if let Some((key, value)) = part.split_once('=') {
                Expression::Equal(key.into(), value.into())
            } else if let Some((key, values)) = part.split_once(" notin ") {
                Expression::NotIn(key.into(), values_of(values))
            } else if let Some((key, values)) = part.split_once(" in ") {
                Expression::In(key.into(), values_of(values))
            } else if let Some(key) = part.strip_prefix('!') {
                Expression::DoesNotExist(key.into())
            } else {
                Expression::Exists(part.into())
            }
        });
        expressions.collect()
    }

    /// Compares with all labels of two keys. The values cover all values of the selectors and one more, so the enumeration is exact.
    #[test]
    fn selectors_of_the_command_line_are_parsed() {
        for (text, expected) in [
            ("shard=a", Some("shard=a")),
            ("a==b, c != d", Some("a=b,c!=d")),
            ("e in (f, g),h notin (i)", Some("e in (f,g),h notin (i)")),
            ("example.com/a,!b", Some("example.com/a,!b")),
            ("a=", Some("a=")),
            ("", None),
            ("a,", None),
            ("a in b", None),
            ("a in (b", None),
            ("a of (b)", None),
            ("a=b c", None),
            ("a b", None),
            ("/a=b", None),
        ] {
            let found = parse(text).map(|selector| selector.to_string());
            assert_eq!(found.as_deref().ok(), expected, "{text}: {found:?}");
        }
    }

    #[test]
    fn disjoint_agrees_with_enumeration() {
        let single = [
            "a=1",
            "a in (1 2)",
            "a in (2 3)",
            "a notin (1)",
            "a notin (1 2 3)",
            "a",
            "!a",
            "b=1",
            "b notin (1)",
            "!b",
            "",
        ];
        let mut objects: Vec<BTreeMap<String, String>> = Vec::new();
        for a in ["", "1", "2", "3", "4"] {
            for b in ["", "1", "2"] {
                let labels = [("a", a), ("b", b)].into_iter().filter(|(_, value)| !value.is_empty());
                objects.push(labels.map(|(key, value)| (key.into(), value.into())).collect());
            }
        }
        let pairs = single
            .iter()
            .flat_map(|a| single.iter().map(move |b| format!("{a},{b}")));
        let texts: Vec<String> = pairs.collect();
        for a in &texts {
            for b in &texts {
                let (one, two) = (selector(a), selector(b));
                let both = objects.iter().any(|labels| one.matches(labels) && two.matches(labels));
                assert_eq!(are_disjoint(&one, &two), !both, "{a} / {b}");
            }
        }
    }
}
