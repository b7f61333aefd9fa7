//! Schema errors in the words and the order of santhosh-tekuri/jsonschema v6, which Helm uses.
//!
//! Our validator reports leaves with their path through the schema; that library reports a tree: `allOf`, references
//! and schemas with several errors are levels of it. The tree is built anew from the paths.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{ReferencingError, ValidationError};
use serde_json::Value;

use crate::template::go::value::Value as Template;
use crate::template::sprig::text::display;

/// The deepest schema path that is followed.
const MAX_DEPTH: usize = 200;

/// The report on one chart's values, a line each error, with a line break at the end.
pub(super) fn text(errors: &[ValidationError<'_>], schema: &Value) -> String {
    let leaves: Vec<Leaf<'_>> = errors.iter().map(|error| Leaf::new(error, 0)).collect();
    let mut out = String::new();
    for entry in Entry::of_schema(&leaves, "", schema, 0) {
        entry.write(0, &mut out);
    }
    out
}

/// The text for a schema that isn't one, or that refers to one that isn't in it. Helm would fetch that.
pub(super) fn broken(error: &ValidationError<'_>) -> String {
    if let Kind::Referencing(ReferencingError::Unretrievable { uri, .. }) = error.kind() {
        return format!(
            "failing loading {uri:?}: only schemas within values.schema.json are read \
             (--skip-schema-validation leaves the check out)"
        );
    }
    format!(
        "'file:///values.schema.json#' is not valid against metaschema: jsonschema validation failed with \
         'https://json-schema.org/draft/2020-12/schema#'\n- at {}: {}\n",
        quote(error.instance_path().as_str()),
        message(error)
    )
}

/// One error with what is left of its path.
struct Leaf<'e> {
    error: &'e ValidationError<'e>,
    path: Vec<String>,
}

impl<'e> Leaf<'e> {
    fn new(error: &'e ValidationError<'_>, skip: usize) -> Self {
        let path = error.evaluation_path().as_str().split('/').skip(1 + skip);
        Leaf {
            error,
            path: path.map(|part| part.replace("~1", "/").replace("~0", "~")).collect(),
        }
    }
}

/// One line of the report, and those below it.
struct Entry {
    location: String,
    message: String,
    causes: Vec<Entry>,
}

impl Entry {
    fn write(&self, indent: usize, out: &mut String) {
        out.push_str(&"  ".repeat(indent));
        out.push_str(&format!("- at {}: {}\n", quote(&self.location), self.message));
        self.causes.iter().for_each(|cause| cause.write(indent + 1, out));
    }

    /// The errors of one schema at one place of the values.
    fn of_schema(leaves: &[Leaf<'_>], location: &str, schema: &Value, depth: usize) -> Vec<Entry> {
        // Each of these ends the check of its schema.
        for keyword in ["type", "const", "enum", "format"] {
            if let Some(leaf) = leaves
                .iter()
                .find(|leaf| leaf.path.len() == 1 && leaf.path[0] == keyword)
            {
                return vec![Entry {
                    location: location.to_owned(),
                    message: message(leaf.error),
                    causes: Vec::new(),
                }];
            }
        }
        let mut groups: Vec<(Vec<String>, Vec<Leaf<'_>>)> = Vec::new();
        for leaf in leaves {
            let taken = step_length(&leaf.path).min(leaf.path.len());
            let (step, rest) = leaf.path.split_at(taken);
            let inner = Leaf {
                error: leaf.error,
                path: rest.to_vec(),
            };
            match groups.iter_mut().find(|(known, _)| known == step) {
                Some((_, list)) => list.push(inner),
                None => groups.push((step.to_vec(), vec![inner])),
            }
        }
        groups.sort_by_key(|(step, _)| rank(step.first().map_or("", String::as_str)));
        let mut entries = Vec::new();
        for (step, inner) in groups {
            if depth > MAX_DEPTH {
                break;
            }
            entries.append(&mut Entry::of_step(&step, inner, location, schema, depth + 1));
        }
        Entry::join_all_of(entries)
    }

    fn of_step(step: &[String], inner: Vec<Leaf<'_>>, location: &str, schema: &Value, depth: usize) -> Vec<Entry> {
        let (here, below): (Vec<_>, Vec<_>) = inner.into_iter().partition(|leaf| leaf.path.is_empty());
        let mut entries = Entry::leaves(&here, location, schema);
        if below.is_empty() {
            return entries;
        }
        // All errors below one step are about the same place, or about places below it.
        let keyword = step.first().map_or("", String::as_str);
        let same_place = matches!(
            keyword,
            "$ref" | "$dynamicRef" | "allOf" | "then" | "else" | "dependentSchemas" | "if"
        );
        let mut places: Vec<(String, Vec<Leaf<'_>>)> = Vec::new();
        for leaf in below {
            let place = if same_place {
                location.to_owned()
            } else {
                child_place(location, leaf.error)
            };
            match places.iter_mut().find(|(known, _)| *known == place) {
                Some((_, list)) => list.push(leaf),
                None => places.push((place, vec![leaf])),
            }
        }
        for (place, leaves) in places {
            let mut causes = Entry::of_schema(&leaves, &place, &Value::Null, depth);
            match keyword {
                "allOf" => {
                    let causes = Entry::grouped(&place, causes);
                    entries.push(Entry {
                        location: place,
                        message: "'allOf' failed".to_owned(),
                        causes,
                    });
                }
                // A reference with one cause isn't shown.
                _ if causes.len() == 1 => entries.append(&mut causes),
                _ => entries.push(Entry {
                    location: place,
                    message: "validation failed".to_owned(),
                    causes,
                }),
            }
        }
        entries
    }

    /// Several errors of one schema stand below a line of their own.
    fn grouped(location: &str, causes: Vec<Entry>) -> Vec<Entry> {
        if causes.len() < 2 {
            return causes;
        }
        vec![Entry {
            location: location.to_owned(),
            message: "validation failed".to_owned(),
            causes,
        }]
    }

    /// The branches of one `allOf` come as entries of their own; they are one line.
    fn join_all_of(entries: Vec<Entry>) -> Vec<Entry> {
        let mut joined: Vec<Entry> = Vec::new();
        for entry in entries {
            match joined.last_mut() {
                Some(last) if entry.message == "'allOf' failed" && last.message == entry.message => {
                    last.causes.extend(entry.causes);
                }
                _ => joined.push(entry),
            }
        }
        joined
    }

    /// Errors of the keyword itself. Missing properties are one line.
    fn leaves(leaves: &[Leaf<'_>], location: &str, _schema: &Value) -> Vec<Entry> {
        let mut entries = Vec::new();
        let missing: Vec<String> = leaves
            .iter()
            .filter_map(|leaf| match leaf.error.kind() {
                Kind::Required { property } => Some(quote(property.as_str().unwrap_or_default())),
                _ => None,
            })
            .collect();
        if !missing.is_empty() {
            let noun = if missing.len() == 1 { "property" } else { "properties" };
            let message = format!("missing {noun} {}", missing.join(", "));
            entries.push(Entry {
                location: location.to_owned(),
                message,
                causes: Vec::new(),
            });
        }
        for leaf in leaves {
            let branches = match leaf.error.kind() {
                Kind::Required { .. } => continue,
                Kind::AnyOf { context } | Kind::OneOfNotValid { context } => context.as_slice(),
                _ => &[],
            };
            let causes = branches.iter().flat_map(|branch| {
                // Paths within a branch go on from the keyword and the branch's number.
                let skip = leaf.error.evaluation_path().as_str().split('/').count();
                let leaves: Vec<Leaf<'_>> = branch.iter().map(|error| Leaf::new(error, skip)).collect();
                Entry::grouped(location, Entry::of_schema(&leaves, location, &Value::Null, 1))
            });
            let causes = causes.collect();
            entries.push(Entry {
                location: location.to_owned(),
                message: message(leaf.error),
                causes,
            });
        }
        entries
    }
}

/// How many parts of a path lead to the next schema: a keyword, and its key or index where it has one.
fn step_length(path: &[String]) -> usize {
    match path.first().map_or("", String::as_str) {
        "properties" | "patternProperties" | "dependentSchemas" | "dependencies" | "prefixItems" | "allOf" => 2,
        "items" if path.get(1).is_some_and(|next| next.bytes().all(|b| b.is_ascii_digit())) => 2,
        _ => 1,
    }
}

/// The order in which the library checks keywords.
fn rank(keyword: &str) -> usize {
    const ORDER: [&str; 28] = [
        "$ref",
        "minProperties",
        "maxProperties",
        "required",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "minItems",
        "maxItems",
        "uniqueItems",
        "prefixItems",
        "items",
        "additionalItems",
        "contains",
        "minLength",
        "maxLength",
        "pattern",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "not",
        "allOf",
    ];
    ORDER
        .iter()
        .position(|known| *known == keyword)
        .unwrap_or(match keyword {
            "anyOf" => 28,
            "oneOf" => 29,
            _ => 30,
        })
}

/// The place one step below `location` on the way to the error's own.
fn child_place(location: &str, error: &ValidationError<'_>) -> String {
    let full = error.instance_path().as_str();
    match full.strip_prefix(location).and_then(|rest| rest.strip_prefix('/')) {
        Some(rest) => format!("{location}/{}", rest.split('/').next().unwrap_or_default()),
        None => full.to_owned(),
    }
}

fn message(error: &ValidationError<'_>) -> String {
    let instance = error.instance();
    let size = || match instance.as_ref() {
        Value::Array(items) => items.len() as f64,
        Value::Object(map) => map.len() as f64,
        Value::String(text) => text.chars().count() as f64,
        _ => 0.0,
    };
    let counted = |name: &str, limit: u64| format!("{name}: got {}, want {}", number(size()), number(limit as f64));
    let bound = |name: &str, limit: &Value| {
        let got = instance.as_f64().unwrap_or_default();
        format!(
            "{name}: got {}, want {}",
            number(got),
            number(limit.as_f64().unwrap_or_default())
        )
    };
    match error.kind() {
        Kind::Type { kind } => format!("got {}, want {}", type_name(instance), wanted_types(kind)),
        Kind::Enum { options } => enumeration(options),
        Kind::Constant { expected_value } => match expected_value.as_ref() {
            Value::Array(_) | Value::Object(_) => "'const' failed".to_owned(),
            scalar => format!("value must be {}", shown(scalar)),
        },
        Kind::Required { property } => format!("missing property {}", quote(property.as_str().unwrap_or_default())),
        Kind::AdditionalProperties { unexpected } => {
            let names: Vec<String> = unexpected.iter().map(|name| quote(name)).collect();
            format!("additional properties {} not allowed", names.join(", "))
        }
        Kind::Minimum { limit } => bound("minimum", limit),
        Kind::Maximum { limit } => bound("maximum", limit),
        Kind::ExclusiveMinimum { limit } => bound("exclusiveMinimum", limit),
        Kind::ExclusiveMaximum { limit } => bound("exclusiveMaximum", limit),
        Kind::MultipleOf { multiple_of } => {
            format!(
                "multipleOf: got {}, want {}",
                number(instance.as_f64().unwrap_or_default()),
                number(*multiple_of)
            )
        }
        Kind::MinItems { limit } => counted("minItems", *limit),
        Kind::MaxItems { limit } => counted("maxItems", *limit),
        Kind::MinLength { limit } => counted("minLength", *limit),
        Kind::MaxLength { limit } => counted("maxLength", *limit),
        Kind::MinProperties { limit } => counted("minProperties", *limit),
        Kind::MaxProperties { limit } => counted("maxProperties", *limit),
        Kind::Pattern { pattern } => {
            format!(
                "{} does not match pattern {}",
                quote(instance.as_str().unwrap_or_default()),
                quote(pattern)
            )
        }
        Kind::Format { format } => format!("{} is not valid {format}", shown(instance)),
        Kind::AnyOf { .. } => "'anyOf' failed".to_owned(),
        Kind::OneOfNotValid { .. } => "'oneOf' failed, none matched".to_owned(),
        Kind::OneOfMultipleValid { context } => {
            let mut matched = context
                .iter()
                .enumerate()
                .filter(|(_, branch)| branch.is_empty())
                .map(|(at, _)| at);
            let (first, second) = (matched.next().unwrap_or(0), matched.next().unwrap_or(1));
            format!("'oneOf' failed, subschemas {first}, {second} matched")
        }
        Kind::Not { .. } => "'not' failed".to_owned(),
        Kind::FalseSchema => "false schema".to_owned(),
        Kind::Contains => "no items match contains schema".to_owned(),
        Kind::UniqueItems => duplicates(instance),
        Kind::AdditionalItems { limit } => {
            format!("last {} additionalItem(s) not allowed", number(size() - *limit as f64))
        }
        Kind::PropertyNames { error } => {
            format!(
                "invalid propertyName {}",
                quote(error.instance().as_str().unwrap_or_default())
            )
        }
        _ => error.to_string(),
    }
}

fn wanted_types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => one.to_string(),
        TypeKind::Multiple(many) => {
            let names: Vec<String> = many.iter().map(|one| one.to_string()).collect();
            // The library lists types in this order, whatever the schema's.
            let order = ["null", "boolean", "number", "integer", "string", "array", "object"];
            let sorted: Vec<&str> = order
                .into_iter()
                .filter(|name| names.iter().any(|known| known == name))
                .collect();
            sorted.join(" or ")
        }
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn enumeration(options: &Value) -> String {
    let options = options.as_array().map_or(&[][..], Vec::as_slice);
    if options.iter().any(|option| option.is_array() || option.is_object()) {
        return "'enum' failed".to_owned();
    }
    match options {
        [one] => format!("value must be {}", shown(one)),
        many => format!(
            "value must be one of {}",
            many.iter().map(shown).collect::<Vec<_>>().join(", ")
        ),
    }
}

fn duplicates(value: &Value) -> String {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    for (second, item) in items.iter().enumerate() {
        if let Some(first) = items.iter().take(second).position(|earlier| earlier == item) {
            return format!("items at {first} and {second} are equal");
        }
    }
    "items are equal".to_owned()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(_) | Value::Object(_) => "value".to_owned(),
        Value::Null => "<nil>".to_owned(),
        Value::Number(n) if n.is_f64() => go_number(n.as_f64().unwrap_or_default()),
        scalar => scalar.to_string(),
    }
}

fn quote(text: &str) -> String {
    let quoted = format!("{text:?}")
        .replace("\\\"", "\"")
        .replace("\\'", "'")
        .replace('\'', "\\'");
    let inner = quoted
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .unwrap_or(&quoted);
    format!("'{inner}'")
}

fn go_number(n: f64) -> String {
    String::from_utf8_lossy(&display(&Template::Float64(n))).into_owned()
}

/// A number as Go's `x/text` prints it in English: digits in groups of three, exponents as powers of ten.
fn number(n: f64) -> String {
    let plain = go_number(n);
    let (mantissa, exponent) = plain
        .split_once('e')
        .map_or((plain.as_str(), None), |(m, e)| (m, Some(e)));
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    if let Some(exponent) = exponent {
        out.push_str("×10");
        out.extend(exponent.chars().filter_map(|c| match c {
            '-' => Some('⁻'),
            '+' => None,
            digit => "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit.to_digit(10)? as usize),
        }));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(schema: &Value, values: &Value) -> String {
        let validator = jsonschema::validator_for(schema).unwrap();
        let errors: Vec<_> = validator.iter_errors(values).collect();
        text(&errors, schema)
    }

    #[test]
    fn numbers_print_as_in_english() {
        let table = [
            (-5.0, "-5"),
            (1000.0, "1,000"),
            (70000.0, "70,000"),
            (1234567.5, "1.2345675×10⁰⁶"),
            (0.123, "0.123"),
            (1e-7, "1×10⁻⁰⁷"),
        ];
        for (n, want) in table {
            assert_eq!(number(n), want);
        }
    }

    #[test]
    fn errors_are_worded_as_helm_words_them() {
        let table = [
            (
                json!({"properties": {"age": {"minimum": 0}}}),
                json!({"age": -5}),
                "- at '/age': minimum: got -5, want 0\n",
            ),
            (
                json!({"type": "object", "required": ["a"]}),
                json!({}),
                "- at '': missing property 'a'\n",
            ),
            (
                json!({"required": ["a", "b"]}),
                json!({}),
                "- at '': missing properties 'a', 'b'\n",
            ),
            (
                json!({"properties": {"a": {"type": "string"}}}),
                json!({"a": 1}),
                "- at '/a': got number, want string\n",
            ),
            (
                json!({"additionalProperties": false, "properties": {"a": {}}}),
                json!({"b": 1}),
                "- at '': additional properties 'b' not allowed\n",
            ),
            (
                json!({"properties": {"a": {"enum": ["x", "y", 1]}}}),
                json!({"a": "z"}),
                "- at '/a': value must be one of 'x', 'y', 1\n",
            ),
            (
                json!({"properties": {"a": {"required": ["x"], "minProperties": 2}}}),
                json!({"a": {}}),
                "- at '/a': validation failed\n  - at '/a': minProperties: got 0, want 2\n  - at '/a': missing property 'x'\n",
            ),
            (
                json!({"properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": {"type": "string"}}}),
                json!({"a": 1}),
                "- at '/a': got number, want string\n",
            ),
            (
                json!({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}),
                json!({"a": 1}),
                "- at '/a': 'anyOf' failed\n  - at '/a': got number, want string\n  - at '/a': got number, want null\n",
            ),
        ];
        for (schema, values, want) in table {
            assert_eq!(report(&schema, &values), want, "{schema}");
        }
    }

    #[test]
    fn a_schema_elsewhere_is_named() {
        let schema = serde_json::json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}});
        let error = jsonschema::validator_for(&schema).unwrap_err();
        let text = broken(&error);
        assert!(
            text.starts_with("failing loading \"https://example.com/a.json\": "),
            "{text}"
        );
    }
}
