//! The key `overrideValues`: values that win over those of the custom resource, with operator-sdk's meaning.

use go_yaml::{Data, Node};
use serde_json::Map;

use helm_template::chart::strvals::{self, Mode};

use super::env::{self, ExpandedText};
use crate::reader::{Findings, describe};

/// One entry of `overrideValues`. The operator executes `value` as a Go template with sprig's functions and without data, and sets
/// `key=<result>` as a string by Helm's `--set` grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverrideValue {
    /// A `--set` path such as `image.tag` or `list[0].name`. Variables are not expanded in it.
    pub key: String,
    /// The text with expanded environment variables. It may contain a secret: never log it.
    pub value: String,
    /// The line of the key, counted from 1.
    pub line: usize,
}

/// Reads the entries in the order of the file (operator-sdk: in random order), expands environment variables, and warns about
/// common mistakes.
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

/// Warns about common mistakes of operator-sdk users.
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
        let origin = if is_split_at_comma(raw) {
            ""
        } else {
            ", brought in by an environment variable"
        };
        findings.warn(
            value,
            format!("the value of `{name}` has a comma{origin}: Helm splits there; write `\\,` for a plain comma"),
        );
    }
}

/// Converts a scalar to a string as sigs.k8s.io/yaml does for a string field in Go. `None`: a list or a map.
fn scalar_text(data: &Data) -> Option<String> {
    match data {
        Data::Null => Some(String::new()),
        Data::Bool(value) => Some(value.to_string()),
        Data::Number(number) => go_yaml::text(&number.clone().into()),
        Data::String(text) => Some(text.clone()),
        Data::List(_) | Data::Map(_) => None,
    }
}

/// True if `--set` splits the text into several values. False for a template, whose result is unknown.
fn is_split_at_comma(text: &str) -> bool {
    let mut values = Map::new();
    let read = strvals::parse_into(&format!("value={text}"), &Mode::Strings, &mut values);
    !text.contains("{{") && read.is_ok() && values.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitting_commas_are_recognized() {
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
