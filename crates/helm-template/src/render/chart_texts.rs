//! Decides whether a text is the chart's own: one of its files, default values or template constants. A text of another
//! author counts only if it is identical to one of these. A text that is joined from several texts never counts,
//! because one part may come from another author.

use std::sync::Arc;

use serde_json::Value;

use crate::chart::Chart;
use crate::helm::IsChartText;

/// Returns a check whether a text is the chart's own. Each check searches the whole chart.
pub(crate) fn texts_of(chart: &Arc<Chart>) -> IsChartText {
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

    use serde_json::{Value, json};

    use crate::render::LookupKey;
    use crate::render::tests::render_with;

    /// Renders the template with these values, where a Secret `db` and a ConfigMap `db` exist.
    fn rendered(template: &str, values: &Value, guards: bool) -> Result<(), String> {
        let key = |kind: &str| LookupKey {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: "n".to_owned(),
            name: "db".to_owned(),
        };
        let object = json!({"data": {"password": "hunter2"}});
        let known = BTreeMap::from([(key("Secret"), object.clone()), (key("ConfigMap"), object)]);
        let result = render_with(template, |input| {
            input.values = values.clone();
            input.guards_secrets = guards;
            input.lookup = Arc::new(known);
        });
        result.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn text_of_values_looks_up_no_secrets() {
        // Each line: a template, its values, whether its lookup is allowed, and why.
        for line in include_str!("chart_texts.jsonl").lines() {
            let (template, values, is_fine, why): (String, Value, bool, String) = serde_json::from_str(line).unwrap();
            let guarded = rendered(&template, &values, true);
            assert_eq!(guarded.is_ok(), is_fine, "{why}: {guarded:?}");
            if let Err(text) = guarded {
                let want = "Secrets are not looked up for text that comes from values";
                assert!(text.contains(want), "{text}");
            }
            // As Helm does.
            assert!(rendered(&template, &values, false).is_ok(), "{why}");
        }
    }
}
