//! How templates use values, from the text of the templates: which values are tested and printed as one, so that an empty text
//! or false instead of a map turns them off, and which values may have several types.

use std::collections::BTreeSet;

use helm_template::chart::File;

/// Marks in templates of charts that accept texts instead of lists and maps.
const TEXT_FOR_ALL: [&str; 5] = [
    "tplvalues.render",
    "kindIs \"string\"",
    "typeIs \"string\"",
    "kindOf",
    "typeOf",
];

/// The use of values in the templates of one chart.
#[derive(Debug, Default)]
pub struct Usage {
    /// A text may stand where a list or a map is the default, as a template of one.
    pub text_for_all: bool,
    /// Dotted paths of values whose type isn't that of the default alone.
    whole: BTreeSet<String>,
}

impl Usage {
    pub fn of(templates: &[File]) -> Self {
        let mut usage = Usage::default();
        let (mut tested, mut printed) = (BTreeSet::new(), BTreeSet::new());
        for file in templates {
            let text = file.data.to_text();
            usage.text_for_all |= TEXT_FOR_ALL.iter().any(|marker| text.contains(marker));
            for (at, name) in text.match_indices(".Values.") {
                let rest = &text[at + name.len()..];
                let end = rest
                    .find(|c: char| !(c.is_alphanumeric() || "_.".contains(c)))
                    .unwrap_or(rest.len());
                let path = rest[..end].trim_end_matches('.').to_owned();
                let set = match words_before(&text[..at]) {
                    [_, "with" | "\"value\"" | "kindOf" | "typeOf"] | ["kindIs" | "typeIs", _] => &mut usage.whole,
                    [_, "if" | "and" | "or" | "not"] => &mut tested,
                    [_, "toYaml" | "toJson" | "tpl"] => &mut printed,
                    _ => continue,
                };
                set.insert(path);
            }
        }
        usage.whole.extend(tested.intersection(&printed).cloned());
        usage
    }

    /// Whether a map or a list at a path may be something else.
    pub fn may_be_other(&self, path: &str) -> bool {
        self.whole.contains(path)
    }
}

/// The two words before a value.
fn words_before(text: &str) -> [&str; 2] {
    let text = text.trim_end_matches('$');
    let mut words = text
        .rsplit(|c: char| c.is_whitespace() || "({-".contains(c))
        .filter(|word| !word.is_empty());
    let last = words.next().unwrap_or_default();
    [words.next().unwrap_or_default(), last]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_as_a_whole_is_seen() {
        let text = "
{{- if .Values.a.b }}x: {{- toYaml .Values.a.b | nindent 2 }}{{ end }}
{{with $.Values.c}}{{ toYaml . }}{{ end }}
{{ if and (not .Values.d) .Values.e.f }}{{ .Values.e.f }}{{ toYaml .Values.g }}{{ end }}
{{ if kindIs \"map\" .Values.h }}{{ end }}{{ include \"common.x\" (dict \"value\" .Values.i \"context\" $) }}
{{- range .Values.j }}{{ end }}{{ .Values.a.k }}";
        let file = File {
            name: "templates/a.yaml".into(),
            data: text.into(),
        };
        let usage = Usage::of(&[file]);
        for (path, expected) in [
            ("a.b", true),
            ("a", false),
            ("c", true),
            ("d", false),
            ("e.f", false),
            ("g", false),
        ] {
            assert_eq!(usage.may_be_other(path), expected, "{path}");
        }
        for (path, expected) in [("h", true), ("i", true), ("j", false), ("a.k", false)] {
            assert_eq!(usage.may_be_other(path), expected, "{path}");
        }
        assert!(!usage.text_for_all);
    }
}
