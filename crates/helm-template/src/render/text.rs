//! A template outside of a chart: a release's name, a namespace or a value in `watches.yaml`.

use std::sync::Arc;

use crate::helm::{Context, Environment, table};
use go_template::{Set, Value};

/// How deep templates in such a text may call each other: it runs on the caller's stack.
const DEPTH: usize = 100;

/// Executes `text` with Helm's functions over `data`; `name` stands in error texts.
///
/// # Errors
/// The text of Go's parse or execution error.
pub fn render_text(name: &str, text: &str, data: &serde_json::Value) -> Result<String, String> {
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let mut set = Set::new(name);
    set.parse(name, text, table()).map_err(|error| error.to_string())?;
    let mut environment = Environment::default();
    environment.limits.depth = DEPTH;
    let output = Context::new(Arc::new(set), &environment)
        .render(name, &Value::from_json(data))
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests {
    use super::render_text;
    use serde_json::json;

    #[test]
    fn names_are_templates_over_the_custom_resource() {
        let data = json!({"metadata": {"name": "web"}});
        assert_eq!(
            render_text("t", "x-{{ .metadata.name }}", &data).as_deref(),
            Ok("x-web")
        );
        assert_eq!(render_text("t", "plain", &data).as_deref(), Ok("plain"));
        assert_eq!(
            render_text("t", r#"{{ "a,b" | replace "," "\\," }}"#, &json!(null)).as_deref(),
            Ok(r"a\,b")
        );
        assert!(render_text("t", "{{ .metadata.name", &data).is_err());
        assert!(
            render_text("t", "{{ nope }}", &data)
                .unwrap_err()
                .contains("function \"nope\" not defined")
        );
    }
}
