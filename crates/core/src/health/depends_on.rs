//! `dependsOn`: whether another object is ready, and whether releases depend on each other in a cycle.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use crate::health::cel_view;
use crate::identity::GroupKind;
use crate::index::dependencies::ObjectDependency;
use crate::status::conditions::{self, cut};
use chartwright_watches::cel::{CelData, Expression};

/// What is quoted of another object's words.
const SHOWN: usize = 300;
/// Objects that are looked at to find a circle.
const LONGEST: usize = 1000;

/// Why an object is not ready; `None` if it is. `object`: as the API server shows it, an empty mapping for none;
/// `ready_when`: in CEL.
pub fn unready(object: &Value, ready_when: Option<&str>) -> Option<String> {
    let Some(metadata) = object.get("metadata") else {
        return Some("is not there".to_owned());
    };
    if metadata.get("deletionTimestamp").is_some() {
        return Some("is being deleted".to_owned());
    }
    let Some(text) = ready_when else {
        return without_condition(object);
    };
    let secret = GroupKind::of(object).filter(|(kind, _)| *kind == GroupKind::new("", "Secret"));
    let shown = secret.as_ref().map(|(kind, _)| {
        let mut shown = object.clone();
        cel_view::hide_values(kind, &mut shown);
        shown
    });
    let data = CelData::from_json(shown.as_ref().unwrap_or(object));
    let held = Expression::compile(text).and_then(|expression| expression.evaluate(&[("self", &data)]));
    // An error may quote what it looked at.
    let is_secret = secret.is_some();
    match held {
        Ok(true) => None,
        Ok(false) => Some(format!("is not ready: {:?} is false", cut(text.trim(), SHOWN))),
        Err(_) if is_secret => Some("is not ready: its condition can't be evaluated".to_owned()),
        Err(error) => Some(format!("is not ready: {error}")),
    }
}

/// The same by its condition `Ready`, which must be of the current generation if it names one.
fn without_condition(object: &Value) -> Option<String> {
    let status = object.get("status").unwrap_or(&Value::Null);
    let all = conditions::of(status);
    let Some(ready) = conditions::get(&all, "Ready") else {
        return Some("is not ready: it has no condition Ready".to_owned());
    };
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let observed = status.get("observedGeneration").and_then(Value::as_i64);
    let observed = ready.observed_generation.or(observed);
    if let (Some(generation), Some(observed)) = (generation, observed)
        && observed < generation
    {
        return Some("is not ready: its status is of an earlier generation".to_owned());
    }
    if ready.status == "True" {
        return None;
    }
    let said = [&ready.reason, &ready.message].map(String::as_str);
    let said: Vec<&str> = said.into_iter().filter(|text| !text.is_empty()).collect();
    let said = said.join(": ");
    Some(format!(
        "is not ready: {}",
        cut(if said.is_empty() { "Ready is not True" } else { &said }, SHOWN)
    ))
}

/// The shortest circle of dependencies from an object back to it, with the object at both ends; `None` if there is none.
/// `of`: what an object depends on.
pub fn cycle(
    start: &ObjectDependency,
    of: impl Fn(&ObjectDependency) -> Vec<ObjectDependency>,
) -> Option<Vec<ObjectDependency>> {
    let mut came_from: HashMap<ObjectDependency, ObjectDependency> = HashMap::new();
    let mut next = VecDeque::from([start.clone()]);
    let mut looked_at = 0;
    while let Some(at) = next.pop_front() {
        looked_at += 1;
        if looked_at > LONGEST {
            return None;
        }
        for needed in of(&at) {
            if needed == *start {
                let mut line = vec![needed, at];
                while let Some(before) = line.last().and_then(|last| came_from.get(last)) {
                    line.push(before.clone());
                }
                line.reverse();
                return Some(line);
            }
            if !came_from.contains_key(&needed) {
                came_from.insert(needed.clone(), at.clone());
                next.push_back(needed);
            }
        }
    }
    None
}

/// A cycle as messages show it: `Shop/a -> Database/b -> Shop/a`, with namespaces if there are several.
pub fn describe_cycle(cycle: &[ObjectDependency]) -> String {
    let mut namespaces = cycle
        .iter()
        .map(|at| &at.namespace)
        .filter(|namespace| !namespace.is_empty());
    let first = namespaces.next();
    let are_several = namespaces.any(|other| Some(other) != first);
    let name = |at: &ObjectDependency| {
        if are_several && !at.namespace.is_empty() {
            format!("{}/{}/{}", at.group_kind.kind, at.namespace, at.name)
        } else {
            format!("{}/{}", at.group_kind.kind, at.name)
        }
    };
    cycle.iter().map(name).collect::<Vec<_>>().join(" -> ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn an_object_is_ready_by_its_condition_or_what_is_asked_of_it() {
        for (object, ready_when, expected) in table::<(Value, Option<String>, Option<String>)>("depends", "unready") {
            let found = unready(&object, ready_when.as_deref());
            let fits = found
                .as_deref()
                .unwrap_or_default()
                .contains(expected.as_deref().unwrap_or_default());
            assert!(
                found.is_some() == expected.is_some() && fits,
                "{object} {ready_when:?}: {found:?}"
            );
        }
    }

    #[test]
    fn circles_are_found_and_named_in_full() {
        let at = |text: &str| {
            let mut parts = text.split('/');
            let mut part = || parts.next().unwrap_or_default().to_owned();
            ObjectDependency {
                group_kind: GroupKind::parse(&part()),
                namespace: part(),
                name: part(),
            }
        };
        for (edges, expected) in table::<(Vec<(String, String)>, Option<String>)>("depends", "cycles") {
            let edges: Vec<(ObjectDependency, ObjectDependency)> =
                edges.iter().map(|(from, to)| (at(from), at(to))).collect();
            let of = |from: &ObjectDependency| {
                let own = edges.iter().filter(|(edge, _)| edge == from);
                own.map(|(_, to)| to.clone()).collect()
            };
            let found = cycle(&edges[0].0, of).map(|cycle| describe_cycle(&cycle));
            assert_eq!(found, expected, "{edges:?}");
        }
    }

    #[test]
    fn the_search_ends() {
        let of = |at: &ObjectDependency| {
            let next: usize = at.name.parse::<usize>().unwrap_or_default() + 1;
            vec![ObjectDependency {
                name: next.to_string(),
                ..at.clone()
            }]
        };
        let start = ObjectDependency {
            group_kind: GroupKind::new("", "A"),
            namespace: String::new(),
            name: "0".into(),
        };
        assert_eq!(cycle(&start, of), None);
    }
}
