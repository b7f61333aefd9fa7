//! `overrideValues`: values that a watch fixes, with operator-sdk's meaning.

use go_yaml::{Data, Node};

use super::env;
use super::reader::{Report, describe};

/// One entry of `overrideValues`. What remains to be done with it: execute `value` as a Go template with sprig's
/// functions and without data, then set `key=<result>` as a string by Helm's `--set` grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideValue {
    /// A `--set` path such as `image.tag` or `list[0].name`; nothing is expanded in it.
    pub key: String,
    /// The text after the expansion of environment variables. It may hold a secret: never log it.
    pub value: String,
    /// The text as it stands in the file.
    pub raw: String,
    /// The line of the key, counted from 1.
    pub line: usize,
}

/// Reads the entries in the order of the file (operator-sdk: in random order), expands the environment, and warns of
/// what operator-sdk's users fall over.
pub(super) fn read(
    node: &Node,
    lookup: &dyn Fn(&str) -> Option<String>,
    report: &mut Report<'_>,
) -> Vec<OverrideValue> {
    let Data::Map(map) = &node.data else {
        report.mistyped(node, "overrideValues", "a map of strings");
        return Vec::new();
    };
    let mut out: Vec<OverrideValue> = Vec::new();
    for (key, value) in map {
        let Some(name) = scalar_text(&key.data).filter(|name| !name.is_empty()) else {
            report.error(
                key,
                format!(
                    "a key of `overrideValues` must be a path of values, not {}",
                    describe(&key.data)
                ),
            );
            continue;
        };
        if let Some(other) = out.iter().find(|other| other.key == name) {
            report.error(
                key,
                format!("`{name}` is there twice: first on line {}; remove one", other.line),
            );
            continue;
        }
        let Some(raw) = scalar_text(&value.data) else {
            report.error(
                value,
                format!(
                    "`overrideValues` takes strings, but `{name}` is {}: write one entry for each leaf, as in `a.b[0].c`",
                    describe(&value.data)
                ),
            );
            continue;
        };
        match &value.data {
            Data::Null => report.warn(key, format!("`{name}` has no value: it is set to the empty string")),
            Data::Number(number) if number.is_f64() => report.warn(
                value,
                format!("`{name}` is a number without quotes and becomes the string {raw:?}: write it in quotes"),
            ),
            _ => {}
        }
        let expanded = env::expand(&raw, lookup);
        for variable in &expanded.unset {
            report.warn(
                value,
                format!(
                    "`{name}` refers to the environment variable `{variable}`, which is not set: it becomes empty \
                     (there is no escape for `$`)"
                ),
            );
        }
        if splits_at_comma(&expanded.text) {
            let whence = if splits_at_comma(&raw) {
                ""
            } else {
                ", brought in by an environment variable"
            };
            report.warn(
                value,
                format!("the value of `{name}` has a comma{whence}: Helm splits there; write `\\,` for a plain comma"),
            );
        }
        out.push(OverrideValue {
            key: name,
            value: expanded.text,
            raw,
            line: key.line,
        });
    }
    out
}

/// A scalar as the string that sigs.k8s.io/yaml makes of it where Go wants a string; `None` for lists and maps.
fn scalar_text(data: &Data) -> Option<String> {
    match data {
        Data::Null => Some(String::new()),
        Data::Bool(value) => Some(value.to_string()),
        Data::Number(number) => Some(match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => format_float(float),
            None => number.to_string(),
        }),
        Data::String(text) => Some(text.clone()),
        Data::List(_) | Data::Map(_) => None,
    }
}

/// Go's `strconv.FormatFloat(f, 'g', -1, 32)`: the shortest digits that single precision needs, with an exponent where
/// that would be below -4 or above 5. Single precision is sigs.k8s.io/yaml's choice.
fn format_float(float: f64) -> String {
    let single = float as f32;
    if single.is_infinite() {
        return if single > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let scientific = format!("{single:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    single.to_string()
}

/// What a template's action may bring: anything.
const ACTION: char = '\u{fffc}';

/// Whether `--set` would take the text for more than one value: a comma that isn't escaped, isn't within a template's
/// action and isn't in a list `{a,b}`, and behind each of them an assignment. Without one, it is taken whole.
fn splits_at_comma(text: &str) -> bool {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, action)) = rest.split_once("{{") {
        plain.push_str(before);
        plain.push(ACTION);
        rest = action.split_once("}}").map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    let outside = match plain.strip_prefix('{').and_then(|list| list.split_once('}')) {
        Some((_, after)) => after,
        None => &plain,
    };
    let mut escaped = false;
    let mut parts = outside.split(|c| {
        let splits = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        splits
    });
    let mut later = parts.by_ref().skip(1).peekable();
    if later.peek().is_none() {
        return false;
    }
    while let Some(part) = later.next() {
        // Nothing behind the last comma is nothing.
        let is_nothing = part.is_empty() && later.peek().is_none();
        if !is_nothing && !part.contains(['=', ACTION]) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `strconv.FormatFloat(f, 'g', -1, 32)` of Go 1.26.
    #[test]
    fn floats_print_as_in_go() {
        for (float, expected) in [
            (1.5, "1.5"),
            (0.1, "0.1"),
            (1e6, "1e+06"),
            (1234567.8, "1.2345678e+06"),
            (123456.0, "123456"),
            (1e21, "1e+21"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (100000.5, "100000.5"),
            (3.0, "3"),
            (16777217.5, "1.6777218e+07"),
            (-2.5, "-2.5"),
            (2147483648.5, "2.1474836e+09"),
            (1e20, "1e+20"),
            (1e300, "+Inf"),
            (99999999.0, "1e+08"),
        ] {
            assert_eq!(format_float(float), expected, "{float}");
        }
    }

    #[test]
    fn commas_that_split_are_seen() {
        for (text, expected) in [
            ("a,b", false),
            ("10.0.0.0/8,localhost,.svc", false),
            ("a,b=c", true),
            ("a,b=c,d", false),
            ("a,", true),
            ("a,{{ x }}", true),
            (r"a\,b=c", false),
            (r"a\\,b=c", true),
            ("{a,b}", false),
            ("{a,b},c=d", true),
            (r#"{{ "a,b" | replace "," "\\," }}"#, false),
            ("{{ x }},y", false),
            ("{{ x }},y=z", true),
            ("plain", false),
            ("x{a,b}", false),
        ] {
            assert_eq!(splits_at_comma(text), expected, "{text}");
        }
    }
}
