//! Reports boon's findings in the format of santhosh-tekuri/jsonschema v6, the library that Helm uses.
//!
//! Both are by the same author, and so are their trees of findings, with these differences: boon leaves `allOf`, `anyOf` and
//! `oneOf` out around a single finding, and their own finding where a reference leads to nothing else; it goes on after a wrong `format`; it divides floats for `multipleOf`; and it doesn't
//! say in which object a name is wrong.

use boon::{ErrorKind, InstanceToken, ValidationError};
use serde_json::{Number, Value};

use super::budget;
use super::compile::Patterns;
use go_template::format;
use go_template::quote::quote_go;
use go_template::value::Value as Template;

/// The lines of a report.
pub(super) fn lines(error: &ValidationError<'_, '_>, patterns: &Patterns) -> Vec<String> {
    let visit = Visit {
        schema: error.schema_url,
        place: String::new(),
        depth: 0,
    };
    let mut lines = Vec::new();
    let findings = SchemaReport { patterns }.all(&error.causes, &visit);
    findings.iter().for_each(|finding| finding.lines(0, &mut lines));
    lines
}

/// One finding, and those that led to it.
struct Finding {
    /// A JSON pointer into the values.
    place: String,
    text: String,
    causes: Vec<Finding>,
}

impl Finding {
    /// `- at '/a': …`, causes below it and two blanks further in.
    fn lines(&self, depth: usize, lines: &mut Vec<String>) {
        let line = format!("{}- at {}: {}", "  ".repeat(depth), quote(&self.place), self.text);
        budget::write(&line);
        lines.push(line);
        self.causes.iter().for_each(|cause| cause.lines(depth + 1, lines));
    }
}

/// A value that a schema looked at.
struct Visit<'u> {
    /// The schema's URL.
    schema: &'u str,
    place: String,
    /// The number of keys and indexes that lead to the value.
    depth: usize,
}

struct SchemaReport<'p> {
    patterns: &'p Patterns,
}

impl SchemaReport<'_> {
    /// The findings of one visit, sorted by place: boon's order is random for `unevaluatedProperties`.
    fn all(&self, errors: &[ValidationError<'_, '_>], visit: &Visit<'_>) -> Vec<Finding> {
        if let Some(finding) = self.alternative(errors, visit) {
            return vec![finding];
        }
        let is_only = |error: &&ValidationError<'_, '_>| {
            let is_same = |other: &ValidationError<'_, '_>| {
                is_below(other.schema_url, error.schema_url) && place(other) == place(error)
            };
            matches!(error.kind, ErrorKind::Format { .. }) && errors.iter().all(is_same)
        };
        let mut findings: Vec<Finding> = match errors.iter().find(is_only) {
            Some(error) => self.one(error, visit, false).into_iter().collect(),
            None => errors
                .iter()
                .filter_map(|error| self.one(error, visit, false))
                .collect(),
        };
        findings.sort_by(|a, b| a.place.cmp(&b.place));
        findings
    }

    /// The finding that all these belong to, if they are of one alternative for one value: a reference has them as its own.
    fn alternative(&self, errors: &[ValidationError<'_, '_>], visit: &Visit<'_>) -> Option<Finding> {
        let (first, others) = errors.split_first().filter(|(_, others)| !others.is_empty())?;
        let tokens = &first.instance_location.tokens;
        let left_out = Way::new(first.schema_url, visit, false).left_out;
        let holds_all = |left: &LeftOut| {
            let schema = first.schema_url.get(..left.end).unwrap_or_default();
            let value = tokens.get(..left.depth).map(pointer);
            others.iter().all(|other| {
                let tokens = &other.instance_location.tokens;
                is_below(other.schema_url, schema) && tokens.get(..left.depth).map(pointer) == value
            })
        };
        let left_out = left_out.get(..=left_out.iter().rposition(holds_all)?)?;
        let last = left_out.last()?;
        let own = Visit {
            schema: first.schema_url.get(..last.end)?,
            place: pointer(tokens.get(..last.depth)?),
            depth: last.depth,
        };
        // The schema below it that they all belong to, and its value.
        let common = others
            .iter()
            .fold(first.schema_url, |url, other| shared(url, other.schema_url));
        let depth = others.iter().fold(Way::new(common, &own, false).depth, |depth, other| {
            let tokens = tokens.iter().zip(&other.instance_location.tokens).take(depth);
            tokens.take_while(|(a, b)| part(a) == part(b)).count()
        });
        let group = pointer(tokens.get(..depth)?);
        wrapped(grouped_at(group, self.all(errors, &own))?, left_out, tokens)
    }

    /// A finding of a visit; `None` if there is nothing wrong. `is_alternative`: it belongs to the visit's own `allOf`,
    /// `anyOf` or `oneOf`.
    fn one(&self, error: &ValidationError<'_, '_>, visit: &Visit<'_>, is_alternative: bool) -> Option<Finding> {
        let tokens = &error.instance_location.tokens;
        let way = Way::new(error.schema_url, visit, is_alternative);
        let own = Visit {
            schema: error.schema_url,
            place: match error.kind {
                ErrorKind::PropertyName { .. } => way.place,
                _ => pointer(tokens),
            },
            depth: tokens.len(),
        };
        let alternatives = || -> Vec<Option<Finding>> {
            let causes = error.causes.iter();
            causes.map(|cause| self.one(cause, &own, true)).collect()
        };
        let mut causes = Vec::new();
        match &error.kind {
            ErrorKind::MultipleOf { got, want } if is_multiple(got, want) => return None,
            ErrorKind::Group => {
                let causes = self.all(&error.causes, &own);
                return wrapped(grouped_at(own.place, causes)?, &way.left_out, tokens);
            }
            ErrorKind::Reference { url, .. } => {
                let causes = self.all(&error.causes, &Visit { schema: url, ..own });
                return wrapped(grouped_at(pointer(tokens), causes)?, &way.left_out, tokens);
            }
            ErrorKind::AllOf => {
                causes = alternatives().into_iter().flatten().collect();
                if causes.is_empty() {
                    return None;
                }
            }
            ErrorKind::AnyOf | ErrorKind::OneOf(None) => {
                causes = alternatives().into_iter().collect::<Option<_>>()?;
            }
            ErrorKind::PropertyName { .. } => {
                let names = format!("{}/propertyNames", error.schema_url);
                let place = String::new();
                let schema = names.as_str();
                causes = self.all(
                    &error.causes,
                    &Visit {
                        schema,
                        place,
                        depth: 0,
                    },
                );
            }
            _ => causes.extend(error.causes.iter().filter_map(|cause| self.one(cause, &own, false))),
        }
        let text = self.text(&error.kind);
        let place = own.place;
        budget::write(&place);
        budget::write(&text);
        wrapped(Finding { place, text, causes }, &way.left_out, tokens)
    }

    fn text(&self, kind: &ErrorKind<'_, '_>) -> String {
        let size =
            |name: &str, got: &usize, want: &usize| format!("{name}: got {}, want {}", count(*got), count(*want));
        let limit =
            |name: &str, got: &Number, want: &Number| format!("{name}: got {}, want {}", english(got), english(want));
        match kind {
            ErrorKind::Type { got, want } => {
                let want: Vec<String> = want.iter().map(|kind| kind.to_string()).collect();
                format!("got {got}, want {}", want.join(" or "))
            }
            ErrorKind::Enum { want } if want.iter().any(is_compound) => "'enum' failed".to_owned(),
            ErrorKind::Enum { want } => match want.as_slice() {
                [one] => format!("value must be {}", shown(one)),
                many => format!(
                    "value must be one of {}",
                    many.iter().map(shown).collect::<Vec<_>>().join(", ")
                ),
            },
            ErrorKind::Const { want } if is_compound(want) => "'const' failed".to_owned(),
            ErrorKind::Const { want } => format!("value must be {}", shown(want)),
            ErrorKind::Format { got, want, err } => format!("{} is not valid {want}: {err}", shown(got)),
            ErrorKind::MinProperties { got, want } => size("minProperties", got, want),
            ErrorKind::MaxProperties { got, want } => size("maxProperties", got, want),
            ErrorKind::MinItems { got, want } => size("minItems", got, want),
            ErrorKind::MaxItems { got, want } => size("maxItems", got, want),
            ErrorKind::MinLength { got, want } => size("minLength", got, want),
            ErrorKind::MaxLength { got, want } => size("maxLength", got, want),
            ErrorKind::Minimum { got, want } => limit("minimum", got, want),
            ErrorKind::Maximum { got, want } => limit("maximum", got, want),
            ErrorKind::ExclusiveMinimum { got, want } => limit("exclusiveMinimum", got, want),
            ErrorKind::ExclusiveMaximum { got, want } => limit("exclusiveMaximum", got, want),
            ErrorKind::MultipleOf { got, want } => limit("multipleOf", got, want),
            ErrorKind::AdditionalProperties { got } => format!("additional properties {} not allowed", quote_all(got)),
            ErrorKind::AdditionalItems { got } => format!("last {} additionalItem(s) not allowed", count(*got)),
            ErrorKind::Required { want } => match want.as_slice() {
                [one] => format!("missing property {}", quote(one)),
                many => format!("missing properties {}", quote_all(many)),
            },
            ErrorKind::Dependency { prop, missing } | ErrorKind::DependentRequired { prop, missing } => {
                format!("properties {} required, if {} exists", quote_all(missing), quote(prop))
            }
            ErrorKind::UniqueItems { got: [first, second] } => {
                format!("items at {} and {} are equal", count(*first), count(*second))
            }
            ErrorKind::Pattern { got, want } => {
                let want = self.patterns.get(*want).map_or(*want, String::as_str);
                format!("{} does not match pattern {}", quote(got), quote(want))
            }
            ErrorKind::PropertyName { prop } => format!("invalid propertyName {}", quote(prop)),
            ErrorKind::Not => "'not' failed".to_owned(),
            ErrorKind::AllOf => left_out("allOf"),
            ErrorKind::AnyOf => left_out("anyOf"),
            ErrorKind::OneOf(None) => left_out("oneOf"),
            ErrorKind::OneOf(Some((first, second))) => {
                format!(
                    "'oneOf' failed, subschemas {}, {} matched",
                    count(*first),
                    count(*second)
                )
            }
            other => other.to_string(),
        }
    }
}

/// The path from a schema to one below it.
struct Way {
    /// The `allOf`, `anyOf` and `oneOf` on it that boon leaves out.
    left_out: Vec<LeftOut>,
    /// The value where it ends, as far as the schema names it.
    place: String,
    /// The number of keys and indexes that lead to it.
    depth: usize,
}

struct LeftOut {
    keyword: &'static str,
    /// The number of keys and indexes that lead to the value.
    depth: usize,
    /// The length of the URL part that leads to the schema below it.
    end: usize,
}

impl Way {
    fn new(to: &str, from: &Visit<'_>, is_alternative: bool) -> Self {
        let mut way = Way {
            left_out: Vec::new(),
            place: from.place.clone(),
            depth: from.depth,
        };
        let below = to.strip_prefix(from.schema).unwrap_or_default();
        let with_end = |end: &mut usize, part: &str| {
            *end += 1 + part.len();
            Some(*end)
        };
        let ends = below.split('/').skip(1).scan(from.schema.len(), with_end);
        let mut parts = below.split('/').skip(1).zip(ends).peekable();
        let mut is_own = is_alternative;
        while let Some((keyword, _)) = parts.next() {
            let skipped = std::mem::take(&mut is_own);
            match keyword {
                "allOf" | "anyOf" | "oneOf" => {
                    let known = ["allOf", "anyOf", "oneOf"].into_iter().find(|known| *known == keyword);
                    let left = known.filter(|_| !skipped).zip(parts.next());
                    way.left_out.extend(left.map(|(keyword, (_, end))| LeftOut {
                        keyword,
                        depth: way.depth,
                        end,
                    }));
                }
                "properties" | "prefixItems" => {
                    way.depth += 1;
                    way.place.push('/');
                    way.place.push_str(parts.next().map_or("", |(name, _)| name));
                }
                "patternProperties" => {
                    way.depth += 1;
                    parts.next();
                }
                "items" => {
                    way.depth += 1;
                    parts.next_if(|(part, _)| part.bytes().all(|b| b.is_ascii_digit()));
                }
                "dependencies" | "dependentSchemas" => drop(parts.next()),
                "additionalProperties"
                | "additionalItems"
                | "contains"
                | "unevaluatedItems"
                | "unevaluatedProperties" => {
                    way.depth += 1;
                }
                _ => {}
            }
        }
        way
    }
}

/// Restores the levels that boon omits around a finding.
fn wrapped(finding: Finding, left: &[LeftOut], tokens: &[InstanceToken<'_>]) -> Option<Finding> {
    Some(left.iter().rev().fold(finding, |cause, left| Finding {
        place: pointer(tokens.get(..left.depth).unwrap_or(tokens)),
        text: left_out(left.keyword),
        causes: vec![cause],
    }))
}

/// Returns a single finding unchanged, and groups several under a new one.
fn grouped_at(place: String, mut causes: Vec<Finding>) -> Option<Finding> {
    if causes.len() < 2 {
        return causes.pop();
    }
    let text = "validation failed".to_owned();
    Some(Finding { place, text, causes })
}

fn left_out(keyword: &str) -> String {
    match keyword {
        "oneOf" => "'oneOf' failed, none matched".to_owned(),
        keyword => format!("'{keyword}' failed"),
    }
}

fn place(error: &ValidationError<'_, '_>) -> String {
    pointer(&error.instance_location.tokens)
}

fn pointer(tokens: &[InstanceToken<'_>]) -> String {
    tokens.iter().map(part).collect()
}

fn part(token: &InstanceToken<'_>) -> String {
    match token {
        InstanceToken::Prop(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        InstanceToken::Item(at) => format!("/{at}"),
    }
}

/// Whether a schema's URL is another's, or that of a schema in it.
fn is_below(url: &str, other: &str) -> bool {
    let rest = url.strip_prefix(other);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The common prefix of two URLs, in whole segments.
fn shared<'u>(url: &'u str, other: &str) -> &'u str {
    let same = url.split('/').zip(other.split('/')).take_while(|(a, b)| a == b);
    let length: usize = same.map(|(part, _)| part.len() + 1).sum();
    url.get(..length.saturating_sub(1)).unwrap_or(url)
}

/// A text in single quotes, escaped as Go escapes it.
fn quote(text: &str) -> String {
    let quoted = quote_go(text).replace("\\\"", "\"").replace('\'', "\\'");
    let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    format!("'{}'", inner.unwrap_or(&quoted))
}

fn quote_all<T: AsRef<str>>(texts: &[T]) -> String {
    let all: Vec<String> = texts.iter().map(|text| quote(text.as_ref())).collect();
    all.join(", ")
}

fn is_compound(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// The name of a value in messages.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(_) | Value::Object(_) => "value".to_owned(),
        Value::Null => "<nil>".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Whether a number is a whole multiple of another, both being decimal fractions, as to Go.
fn is_multiple(got: &Number, want: &Number) -> bool {
    /// The digits, and the exponent of ten.
    fn decimal(number: &Number) -> Option<(i128, i32)> {
        let text = number.to_string();
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let shift = i32::try_from(fraction.len()).ok()?;
        let exponent = exponent.parse::<i32>().ok()?.checked_sub(shift)?;
        Some((format!("{whole}{fraction}").parse().ok()?, exponent))
    }
    let remainder = || {
        let ((got, a), (want, b)) = (decimal(got)?, decimal(want)?);
        let scale = |digits: i128, by: i32| digits.checked_mul(10_i128.checked_pow(u32::try_from(by).ok()?)?);
        let least = a.min(b);
        scale(got, a - least)?.checked_rem(scale(want, b - least)?)
    };
    remainder() == Some(0)
}

fn count(n: usize) -> String {
    grouped(&n.to_string())
}

/// Digits in groups of three.
fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number as Go's `x/text` prints it in English: digits in groups of three, exponents as powers of ten.
fn english(number: &Number) -> String {
    let n = number.as_f64().unwrap_or_default();
    // A rational number has no negative zero.
    let n = if n == 0.0 { 0.0 } else { n };
    let plain = format::text(&Template::Float64(n));
    let (mantissa, exponent) = plain
        .split_once('e')
        .map_or((plain.as_str(), None), |(m, e)| (m, Some(e)));
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut out = format!("{sign}{}", grouped(whole));
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
