//! `overrideValues`: values that a watch fixes, with operator-sdk's meaning.

use go_yaml::{Data, Node};
use serde_json::Map;

use helm_template::chart::strvals::{self, Mode};

use super::env::{self, ExpandedText};
use crate::reader::{Findings, describe};

/// One entry of `overrideValues`. What remains to be done with it: execute `value` as a Go template with sprig's
/// functions and without data, then set `key=<result>` as a string by Helm's `--set` grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideValue {
    /// A `--set` path such as `image.tag` or `list[0].name`; nothing is expanded in it.
    pub key: String,
    /// The text after the expansion of environment variables. It may hold a secret: never log it.
    pub value: String,
    /// The line of the key, counted from 1.
    pub line: usize,
}

/// Reads the entries in the order of the file (operator-sdk: in random order), expands the environment, and warns of
/// what operator-sdk's users fall over.
pub(crate) fn read(
    node: &Node,
    lookup: &dyn Fn(&str) -> Option<String>,
    findings: &mut Findings<'_>,
) -> Vec<OverrideValue> {
    let Data::Map(map) = &node.data else {
        findings.type_error(node, "overrideValues", "a map of strings");
        return Vec::new();
    };
    let mut out: Vec<OverrideValue> = Vec::new();
    for (key, value) in map {
        let Some(name) = scalar_text(&key.data).filter(|name| !name.is_empty()) else {
            findings.error(
                key,
                format!(
                    "a key of `overrideValues` must be a path of values, not {}",
                    describe(&key.data)
                ),
            );
            continue;
        };
        if let Some(other) = out.iter().find(|other| other.key == name) {
            findings.error(
                key,
                format!("`{name}` is there twice: first on line {}; remove one", other.line),
            );
            continue;
        }
        let Some(raw) = scalar_text(&value.data) else {
            findings.error(
                value,
                format!(
                    "`overrideValues` takes strings, but `{name}` is {}: write one entry for each leaf, as in `a.b[0].c`",
                    describe(&value.data)
                ),
            );
            continue;
        };
        let expanded = env::expand(&raw, lookup);
        warn_about_pitfalls((key, value), &name, &raw, &expanded, findings);
        out.push(OverrideValue {
            key: name,
            value: expanded.text,
            line: key.line,
        });
    }
    out
}

/// What operator-sdk's users fall over.
fn warn_about_pitfalls(
    (key, value): (&Node, &Node),
    name: &str,
    raw: &str,
    expanded: &ExpandedText,
    findings: &mut Findings<'_>,
) {
    match &value.data {
        Data::Null => findings.warn(key, format!("`{name}` has no value: it is set to the empty string")),
        Data::Number(number) if number.is_f64() => findings.warn(
            value,
            format!("`{name}` is a number without quotes and becomes the string {raw:?}: write it in quotes"),
        ),
        _ => {}
    }
    for variable in &expanded.unset {
        findings.warn(
            value,
            format!(
                "`{name}` refers to the environment variable `{variable}`, which is not set: it becomes empty \
                 (there is no escape for `$`)"
            ),
        );
    }
    if is_split_at_comma(&expanded.text) {
        let whence = if is_split_at_comma(raw) {
            ""
        } else {
            ", brought in by an environment variable"
        };
        findings.warn(
            value,
            format!("the value of `{name}` has a comma{whence}: Helm splits there; write `\\,` for a plain comma"),
        );
    }
}

/// A scalar as the string that sigs.k8s.io/yaml makes of it where Go wants a string; `None` for lists and maps.
fn scalar_text(data: &Data) -> Option<String> {
    match data {
        Data::Null => Some(String::new()),
        Data::Bool(value) => Some(value.to_string()),
        Data::Number(number) => go_yaml::text(&number.clone().into()),
        Data::String(text) => Some(text.clone()),
        Data::List(_) | Data::Map(_) => None,
    }
}

/// Whether `--set` takes the text for more than one value. What the actions of a template bring isn't known.
fn is_split_at_comma(text: &str) -> bool {
    let mut values = Map::new();
    let read = strvals::parse_into(&format!("value={text}"), &Mode::Strings, &mut values);
    !text.contains("{{") && read.is_ok() && values.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_that_split_are_seen() {
        for (text, expected) in [
            ("a,b", false),
            ("10.0.0.0/8,localhost,.svc", false),
            ("a,b=c", true),
            (r"a\,b=c", false),
            (r"a\\,b=c", true),
            ("{a,b}", false),
            ("{a,b},c=d", true),
            (r#"{{ "a,b" | replace "," "\\," }}"#, false),
            ("plain", false),
        ] {
            assert_eq!(is_split_at_comma(text), expected, "{text}");
        }
    }
}
