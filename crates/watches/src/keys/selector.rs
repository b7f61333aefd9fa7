//! Compares the label selectors of two watches of one kind, which must exclude each other.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector};

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
