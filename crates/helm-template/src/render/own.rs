//! Which texts are a chart's own: its files, its default values, and the constants of its templates. What somebody else
//! writes is none of these, unless it is the very same text; what is put together of several texts is none either, since a
//! part of it may be anybody's.

use std::sync::Arc;

use serde_json::Value;

use crate::chart::Chart;
use crate::helm::Own;

/// Tells whether a text is the chart's own. It takes a search through the chart.
pub(super) fn texts_of(chart: &Arc<Chart>) -> Own {
    let chart = Arc::clone(chart);
    Arc::new(move |text| is_own(&chart, text))
}

fn is_own(chart: &Chart, text: &[u8]) -> bool {
    let mut files = chart.templates.iter().chain(&chart.files);
    files.any(|file| file.data.as_bytes() == text)
        || chart
            .templates
            .iter()
            .any(|file| is_constant(file.data.as_bytes(), text))
        || std::str::from_utf8(text).is_ok_and(|text| holds(&Value::Object(chart.values.to_json()), text))
        || chart.dependencies.iter().any(|chart| is_own(chart, text))
}

/// Whether a template has the text in quotes.
fn is_constant(template: &[u8], text: &[u8]) -> bool {
    let quotes: &[u8] = if text.iter().any(|byte| b"\"\\\n".contains(byte)) {
        b"`"
    } else {
        b"`\""
    };
    quotes
        .iter()
        .any(|quote| memchr::memmem::find(template, &[&[*quote], text, &[*quote]].concat()).is_some())
}

fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(map) => map.values().any(|item| holds(item, text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;

    use super::super::LookupKey;
    use super::super::tests::render_with;

    const LOOK: &str = "{{ (lookup `v1` `Secret` `n` `db`).data.password }}";

    /// What the template makes of these values, where there is a Secret `db` and a ConfigMap `db`.
    fn rendered(template: &str, values: serde_json::Value, guards: bool) -> Result<String, String> {
        let key = |kind: &str| LookupKey {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: "n".to_owned(),
            name: "db".to_owned(),
        };
        let object = json!({"data": {"password": "hunter2"}});
        let known = BTreeMap::from([(key("Secret"), object.clone()), (key("ConfigMap"), object)]);
        let result = render_with(template, |input| {
            input.values = values;
            input.guards_secrets = guards;
            input.lookup = Arc::new(known);
        });
        let text =
            |rendered: super::super::Rendered| rendered.objects.first().map(|it| it.text.clone()).unwrap_or_default();
        result.map(text).map_err(|error| error.to_string())
    }

    #[test]
    fn text_of_values_looks_up_no_secrets() {
        let define = format!("{{{{ define \"look\" }}}}{LOOK}{{{{ end }}}}");
        let include = "{{ include \"look\" . }}";
        let of_map = LOOK.replace("Secret", "ConfigMap");
        let table = [
            // The chart's own template, and its own text.
            (format!("a: {LOOK}"), json!({}), true),
            (
                format!("{define}a: {{{{ tpl \"{{{{ include `look` . }}}}\" . }}}}"),
                json!({}),
                true,
            ),
            ("a: {{ tpl .Values.t . }}".to_owned(), json!({"t": LOOK}), false),
            // By way of a template of the chart's, also of one that was included before.
            (
                format!("{define}a: {{{{ tpl .Values.t . }}}}"),
                json!({"t": include}),
                false,
            ),
            (
                format!("{define}a: {include}{{{{ tpl .Values.t . }}}}"),
                json!({"t": include}),
                false,
            ),
            // Within a text of the chart's, and with one of the chart's within it.
            (
                "a: {{ tpl \"{{ tpl .Values.t . }}\" . }}".to_owned(),
                json!({"t": LOOK}),
                false,
            ),
            // In parts.
            (
                "a: {{ tpl (printf \"%s%s\" .Values.t .Values.u) . }}".to_owned(),
                json!({"t": &LOOK[..20], "u": &LOOK[20..]}),
                false,
            ),
            (
                "# {{ tpl (toYaml .Values.t) . }}\na: b".to_owned(),
                json!({"t": {"x": LOOK}}),
                false,
            ),
            // Other kinds, and other texts.
            ("a: {{ tpl .Values.t . }}".to_owned(), json!({"t": of_map}), true),
            (
                "a: {{ tpl .Values.t . }}".to_owned(),
                json!({"t": "{{ .Release.Name }}"}),
                true,
            ),
        ];
        for (template, values, is_fine) in table {
            let guarded = rendered(&template, values.clone(), true);
            assert_eq!(guarded.is_ok(), is_fine, "{template} {values}: {guarded:?}");
            if let Err(text) = guarded {
                assert!(
                    text.contains("Secrets are not looked up for text that comes from values"),
                    "{text}"
                );
            }
            // As Helm does.
            assert!(rendered(&template, values, false).is_ok(), "{template}");
        }
    }
}
