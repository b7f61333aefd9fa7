//! Makes a case that shows a difference smaller, as long as it still shows one.

use serde_json::{Map, Value};

use crate::case::Case;

/// The most cases that one shrinking may try.
const TRIES: usize = 1500;

/// The smallest case found that `differs` still accepts.
pub fn shrink(mut case: Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut tries = 0;
    let mut progress = true;
    while progress && tries < TRIES {
        progress = false;
        for smaller in candidates(&case) {
            tries += 1;
            if tries > TRIES {
                break;
            }
            if smaller != case && differs(&smaller) {
                case = smaller;
                progress = true;
                break;
            }
        }
    }
    case
}

fn candidates(case: &Case) -> Box<dyn Iterator<Item = Case>> {
    match case.clone() {
        Case::Read(bytes) => Box::new(slices(bytes).map(Case::Read)),
        Case::Write(value) => Box::new(smaller_values(&value).into_iter().map(Case::Write)),
        Case::Pretty(value) => Box::new(smaller_values(&value).into_iter().map(Case::Pretty)),
        Case::Template { file, helpers, values } => {
            let (a, b) = ((helpers.clone(), values.clone()), (file.clone(), values.clone()));
            let files = texts(&file).map(move |file| Case::Template {
                file,
                helpers: a.0.clone(),
                values: a.1.clone(),
            });
            let helper_files = texts(&helpers).map(move |helpers| Case::Template {
                file: b.0.clone(),
                helpers,
                values: b.1.clone(),
            });
            let value_sets = smaller_values(&Value::Object(values))
                .into_iter()
                .filter_map(move |value| match value {
                    Value::Object(values) => Some(Case::Template {
                        file: file.clone(),
                        helpers: helpers.clone(),
                        values,
                    }),
                    _ => None,
                });
            Box::new(files.chain(helper_files).chain(value_sets))
        }
    }
}

/// `all` without one run of its items: half of them first, single ones last.
fn slices<T: Clone>(all: Vec<T>) -> impl Iterator<Item = Vec<T>> {
    let mut runs = Vec::new();
    let mut length = all.len();
    while length > 0 {
        runs.extend((0..all.len()).step_by(length).map(|start| (start, length)));
        if length == 1 {
            break;
        }
        length = length.div_ceil(2);
    }
    runs.into_iter().map(move |(start, length)| {
        let end = (start + length).min(all.len());
        [&all[..start], &all[end..]].concat()
    })
}

fn texts(text: &str) -> impl Iterator<Item = String> + use<> {
    slices(text.chars().collect()).map(|chars| chars.into_iter().collect())
}

fn smaller_values(value: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    match value {
        Value::Array(items) => {
            found.extend(items.iter().cloned());
            found.extend(slices(items.clone()).map(Value::Array));
            for (at, item) in items.iter().enumerate() {
                for smaller in smaller_values(item) {
                    let mut items = items.clone();
                    items[at] = smaller;
                    found.push(Value::Array(items));
                }
            }
        }
        Value::Object(map) => {
            found.extend(map.values().cloned());
            let entries: Vec<(String, Value)> = map.clone().into_iter().collect();
            found.extend(slices(entries).map(|entries| Value::Object(entries.into_iter().collect())));
            for (key, item) in map {
                let change = |key: String, item: Value, old: &str| {
                    let mut map: Map<String, Value> = map.clone();
                    map.remove(old);
                    map.insert(key, item);
                    Value::Object(map)
                };
                found.extend(
                    smaller_values(item)
                        .into_iter()
                        .map(|smaller| change(key.clone(), smaller, key)),
                );
                found.extend(texts(key).map(|shorter| change(shorter, item.clone(), key)));
            }
        }
        Value::String(text) => found.extend(texts(text).map(Value::String)),
        _ => {}
    }
    found
}
