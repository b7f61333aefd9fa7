//! Which of two watches of a kind a custom resource belongs to: their label selectors must exclude each other.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector};

/// What a conjunction of requirements says of one key.
#[derive(Default)]
struct LabelConstraint {
    required: bool,
    forbidden: bool,
    /// The values that the label may have; `None`: any.
    allowed: Option<BTreeSet<String>>,
    excluded: BTreeSet<String>,
}

/// Whether no object can match both selectors. Exact: `false` means that labels exist which both match.
pub fn are_disjoint(a: &Selector, b: &Selector) -> bool {
    let mut constraints: BTreeMap<String, LabelConstraint> = BTreeMap::new();
    for expression in [a, b].into_iter().flat_map(|selector| selector.clone()) {
        let all = &mut constraints;
        match expression {
            Expression::Equal(key, value) => of(all, key).allow(BTreeSet::from([value])),
            Expression::In(key, values) => of(all, key).allow(values),
            Expression::NotEqual(key, value) => drop(of(all, key).excluded.insert(value)),
            Expression::NotIn(key, values) => of(all, key).excluded.extend(values),
            Expression::Exists(key) => of(all, key).required = true,
            Expression::DoesNotExist(key) => of(all, key).forbidden = true,
        }
    }
    // Keys are independent of each other, so the whole is impossible only if one key is.
    constraints.values().any(LabelConstraint::is_impossible)
}

fn of(all: &mut BTreeMap<String, LabelConstraint>, key: String) -> &mut LabelConstraint {
    all.entry(key).or_default()
}

// === impl LabelConstraint ===

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

    /// A small notation for tests: `a=1, b in (x y), c notin (z), d, !e`.
    fn selector(text: &str) -> Selector {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let set = |text: &str| text.trim_matches(['(', ')']).split(' ').map(str::to_owned).collect();
        let expressions = parts.map(|part| {
            if let Some((key, value)) = part.split_once('=') {
                Expression::Equal(key.into(), value.into())
            } else if let Some((key, values)) = part.split_once(" notin ") {
                Expression::NotIn(key.into(), set(values))
            } else if let Some((key, values)) = part.split_once(" in ") {
                Expression::In(key.into(), set(values))
            } else if let Some(key) = part.strip_prefix('!') {
                Expression::DoesNotExist(key.into())
            } else {
                Expression::Exists(part.into())
            }
        });
        expressions.collect()
    }

    /// Every labelling of two keys with three values (or none): an object that both match is a proof against `disjoint`,
    /// and none at all is a proof for it, since the values cover all that the selectors name and one more.
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
