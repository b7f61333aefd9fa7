//! A template outside of a chart: a name or a value in `watches.yaml`.

use std::sync::Arc;

use super::{Limits, Lookups};
use crate::template::go::{Set, Value};
use crate::template::helm::{Context, Environment, table};

/// Executes `text` with Helm's functions over `data`.
///
/// # Errors
/// The text of Go's parse or execution error.
pub fn render_over(text: &str, data: &serde_json::Value) -> Result<String, String> {
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let mut set = Set::new(NAME);
    set.parse(NAME, text.as_bytes(), table())
        .map_err(|error| error.to_string())?;
    let environment = Environment {
        lookups: Lookups::none(),
        clock: jiff::Timestamp::now(),
        seed: None,
        limits: Limits::default(),
    };
    let mut context = Context::new(Arc::new(set), &environment);
    let output = context
        .render(NAME, &Value::from_json(data))
        .map_err(|error| error.to_string())?;
    String::from_utf8(output).map_err(|_| "the result is not UTF-8".to_owned())
}

/// Stands in error texts where a chart's template has its path.
const NAME: &str = "template";

#[cfg(test)]
mod tests {
    use super::render_over;
    use serde_json::json;

    #[test]
    fn names_are_templates_over_the_custom_resource() {
        let data = json!({"metadata": {"name": "web"}});
        assert_eq!(render_over("x-{{ .metadata.name }}", &data).as_deref(), Ok("x-web"));
        assert_eq!(render_over("plain", &data).as_deref(), Ok("plain"));
        assert_eq!(
            render_over(r#"{{ "a,b" | replace "," "\\," }}"#, &json!(null)).as_deref(),
            Ok(r"a\,b")
        );
        assert!(render_over("{{ .metadata.name", &data).is_err());
        assert!(
            render_over("{{ nope }}", &data)
                .unwrap_err()
                .contains("function \"nope\" not defined")
        );
    }
}
