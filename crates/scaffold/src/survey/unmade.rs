//! Kinds in the text of templates that no render made, and values that may make them.

use std::collections::BTreeSet;

use go_template::commands::{self, GuardKind, Piece, TemplateCommand, Word};
use serde_json::{Value, json};

use super::put;
use helm_template::chart::Chart;
use helm_template::handlebars::is_handlebars;

/// At most so many sets of values are tried for kinds that no render made.
const MOST: usize = 60;

/// Values of the schema's enumerations that are tried for one kind.
const ENUM_VALUES: usize = 30;

/// The `kind:` of an object in a template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unmade {
    pub(crate) kind: String,
    /// The template within the chart's folder.
    pub(crate) file: String,
    /// Counted from 1.
    pub(crate) line: usize,
    wanted: Vec<ValueCondition>,
    /// Something else than values decides about it, too.
    is_open: bool,
}

/// What a value has to be, so that an object is made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ValueCondition {
    path: Vec<String>,
    what: RequiredValue,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequiredValue {
    /// Anything but false, null, 0 and empty.
    Something,
    Nothing,
    Text(String),
}

/// Each kind in the text of a chart's templates, the subcharts' included, that isn't among those that were made: once, at its
/// first place.
pub(crate) fn unmade(chart: &Chart, made: &BTreeSet<&str>) -> Vec<Unmade> {
    let mut found = Vec::new();
    find(chart, &[], "", &mut found);
    let mut seen = BTreeSet::new();
    // No version of Kubernetes that is supported has pod security policies.
    let is_gone = |kind: &str| kind.ends_with("List") || kind == "PodSecurityPolicy" || made.contains(kind);
    found.retain(|unmade: &Unmade| !is_gone(&unmade.kind) && seen.insert((unmade.kind.clone(), unmade.wanted.clone())));
    found
}

/// Those that weren't made by later renders either, each kind once.
pub(crate) fn still_unmade(mut unmade: Vec<Unmade>, made: &BTreeSet<&str>) -> Vec<Unmade> {
    let mut seen = BTreeSet::new();
    unmade.retain(|one| !made.contains(one.kind.as_str()) && seen.insert(one.kind.clone()));
    unmade
}

/// Values that may make these kinds.
pub(crate) fn values(chart: &Chart, unmade: &[Unmade]) -> Vec<Value> {
    let defaults = Value::Object(chart.values.to_json());
    let schema = chart
        .schema
        .as_ref()
        .and_then(|schema| go_yaml::to_json(schema.text()).ok());
    let mut of_schema = Vec::new();
    enums(&schema.unwrap_or_default(), &mut Vec::new(), &mut of_schema);
    let mut all: Vec<Value> = Vec::new();
    for one in unmade {
        let choices: Vec<(&[String], Vec<Value>)> = one
            .wanted
            .iter()
            .map(|wanted| (wanted.path.as_slice(), choices(wanted, &defaults, &of_schema)))
            .collect();
        let most = choices
            .iter()
            .map(|(_, choices)| choices.len())
            .max()
            .unwrap_or_default();
        for number in 0..most {
            let mut values = json!({});
            for (path, choices) in &choices {
                if let Some(value) = choices.get(number % choices.len().max(1)) {
                    put(&mut values, path, value.clone());
                }
            }
            all.push(values);
        }
    }
    if unmade.iter().any(|one| one.is_open) {
        let is_other = |(path, value): &(Vec<String>, Value)| at(&defaults, path) != Some(value);
        all.extend(
            of_schema
                .into_iter()
                .filter(is_other)
                .take(ENUM_VALUES)
                .map(|(path, value)| {
                    let mut values = json!({});
                    put(&mut values, &path, value);
                    values
                }),
        );
    }
    let mut distinct = Vec::new();
    for values in all {
        if values != json!({}) && !distinct.contains(&values) {
            distinct.push(values);
        }
    }
    distinct.truncate(MOST);
    distinct
}

/// What lies in `folder`, with the values at `prefix`.
fn find(chart: &Chart, prefix: &[String], folder: &str, found: &mut Vec<Unmade>) {
    for file in chart.templates.iter().filter(|file| !is_handlebars(&file.name)) {
        for piece in commands::pieces(&file.name, &file.data).unwrap_or_default() {
            for (line, kind) in kinds_in(&piece) {
                let (wanted, is_open) = wanted(&piece, prefix);
                found.push(Unmade {
                    kind: kind.to_owned(),
                    file: format!("{folder}{}", file.name),
                    line,
                    wanted,
                    is_open,
                });
            }
        }
    }
    for child in &chart.dependencies {
        let prefix = [prefix, &[child.name().to_owned()]].concat();
        find(child, &prefix, &format!("{folder}charts/{}/", child.name()), found);
    }
}

/// The lines with `kind: X` that stand at the margin: what is indented refers to other objects.
fn kinds_in(piece: &Piece) -> impl Iterator<Item = (usize, &str)> {
    let is_whole = |at: usize| at > 0 || piece.is_at_start;
    let lines = piece.text.lines().enumerate();
    lines.filter(move |(at, _)| is_whole(*at)).filter_map(|(at, line)| {
        let kind = line.strip_prefix("kind:")?.trim();
        let is_kind =
            kind.starts_with(|c: char| c.is_ascii_uppercase()) && kind.chars().all(|c| c.is_ascii_alphanumeric());
        is_kind.then_some((piece.line + at, kind))
    })
}

/// What the conditions around a text want of values, and whether there are others that can't be read.
fn wanted(piece: &Piece, prefix: &[String]) -> (Vec<ValueCondition>, bool) {
    let (mut all, mut is_open) = (Vec::new(), false);
    // Where the dot is, as a path of values; empty at the root.
    let mut dot: Option<Vec<String>> = None;
    for guard in &piece.guards {
        let mut of_guard = Vec::new();
        for command in &guard.commands {
            of_guard.extend(wanted_by(command, dot.as_deref(), prefix));
        }
        is_open |= of_guard.is_empty();
        if guard.kind != GuardKind::If && !guard.is_else {
            let first = of_guard.first().filter(|_| guard.kind == GuardKind::With);
            dot = first.map(|wanted: &ValueCondition| wanted.path.clone());
        }
        if guard.is_else {
            // Only a plain value is turned into nothing: of several, it isn't known which.
            all.extend(of_guard.into_iter().filter_map(|wanted| {
                let what = match wanted.what {
                    RequiredValue::Something => RequiredValue::Nothing,
                    RequiredValue::Nothing => RequiredValue::Something,
                    RequiredValue::Text(_) => return None,
                };
                Some(ValueCondition { what, ..wanted })
            }))
        } else {
            all.extend(of_guard)
        }
    }
    // What lies around comes first.
    all.sort_by_key(|wanted| wanted.path.len());
    (all, is_open)
}

fn wanted_by(command: &TemplateCommand, dot: Option<&[String]>, prefix: &[String]) -> Vec<ValueCondition> {
    let path_of = |word: &Word| match word {
        Word::Path(names) => match names.iter().position(|name| name == "Values") {
            Some(start) => {
                let path = names.get(start + 1..).unwrap_or_default();
                let is_global = path.first().is_some_and(|first| first == "global");
                let prefix = if is_global { &[] } else { prefix };
                (!path.is_empty()).then(|| [prefix, path].concat())
            }
            None => {
                let is_relative = names.first().is_some_and(|name| !name.starts_with('$'));
                dot.filter(|_| is_relative).map(|dot| [dot, names].concat())
            }
        },
        _ => None,
    };
    let mut paths = command.words.iter().filter_map(path_of);
    let texts = command.words.iter().find_map(|word| match word {
        Word::Text(text) => Some(text.clone()),
        _ => None,
    });
    let function = match command.words.first() {
        Some(Word::Function(name)) => name.as_str(),
        _ => "",
    };
    let what = match (function, texts) {
        ("eq", Some(text)) => RequiredValue::Text(text),
        ("not" | "empty", _) => RequiredValue::Nothing,
        // It may be any other text.
        ("ne", _) => return Vec::new(),
        _ => RequiredValue::Something,
    };
    match what {
        RequiredValue::Text(_) => paths
            .next()
            .map(|path| ValueCondition { path, what })
            .into_iter()
            .collect(),
        what => paths
            .map(|path| ValueCondition {
                path,
                what: what.clone(),
            })
            .collect(),
    }
}

/// Values that are what is wanted. None where the chart's own value is.
fn choices(wanted: &ValueCondition, defaults: &Value, of_schema: &[(Vec<String>, Value)]) -> Vec<Value> {
    let own = at(defaults, &wanted.path);
    match &wanted.what {
        RequiredValue::Text(text) => return vec![json!(text)],
        RequiredValue::Nothing => return vec![Value::Null],
        RequiredValue::Something => {}
    }
    let of_enum: Vec<Value> = of_schema
        .iter()
        .filter(|(path, value)| *path == wanted.path && own != Some(value) && *value != json!("") && !value.is_null())
        .map(|(_, value)| value.clone())
        .collect();
    if !of_enum.is_empty() {
        return of_enum;
    }
    match own {
        Some(Value::Bool(_)) => vec![json!(true)],
        Some(Value::Number(_)) => vec![json!(1)],
        Some(Value::String(text)) if text.is_empty() => vec![json!("value")],
        Some(Value::Array(items)) if items.is_empty() => vec![json!(["value"]), json!([{"name": "value"}])],
        Some(Value::Object(fields)) if fields.is_empty() => {
            vec![
                json!({"key": "value"}),
                json!({"key": {"key": "value"}}),
                json!({"enabled": true}),
            ]
        }
        None | Some(Value::Null) => vec![json!(true), json!("value"), json!({"key": "value"}), json!(["value"])],
        Some(_) => Vec::new(),
    }
}

/// Paths with the single values that a schema's enumerations give them.
fn enums(schema: &Value, path: &mut Vec<String>, found: &mut Vec<(Vec<String>, Value)>) {
    let values = schema["enum"].as_array().into_iter().flatten();
    if !path.is_empty() {
        found.extend(values.map(|value| (path.clone(), value.clone())));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        enums(field, path, found);
        path.pop();
    }
}

fn at<'v>(values: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(values, |value, key| value.get(key))
}
