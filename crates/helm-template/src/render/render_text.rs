//! Renders a template outside of a chart: a release's name, a namespace or a value in `watches.yaml`.

use std::sync::Arc;

use crate::helm::{Context, Environment, Limit, Limits, table};
use crate::render::data_size;
use go_template::{Host as _, Set, Value};

/// The maximum nesting of template calls in such a text: it runs on the caller's stack.
const DEPTH: usize = 100;

/// Executes `text` with Helm's functions over `data`, within `limits`; `name` stands in error texts.
///
/// ```
/// use helm_template::render::{Limits, render_text};
///
/// let data = serde_json::json!({"metadata": {"name": "a"}});
/// let name = render_text("releaseName", "x-{{ .metadata.name | upper }}", &data, Limits::of_a_name());
/// assert_eq!(name.as_deref(), Ok("x-A"));
/// ```
///
/// # Errors
/// The text of Go's parse or execution error, or the limit that was exceeded.
pub fn render_text(name: &str, text: &str, data: &serde_json::Value, limits: Limits) -> Result<String, String> {
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let size = data_size::of(data);
    if size > limits.memory {
        return Err(format!("{name}: the data is over {}", Limit::Memory(limits.memory)));
    }
    let mut set = Set::new(name);
    set.parse(name, text, table()).map_err(|error| error.to_string())?;
    let environment = Environment {
        limits: Limits {
            depth: limits.depth.min(DEPTH),
            ..limits
        },
        ..Environment::default()
    };
    let mut context = Context::new(Arc::new(set), &environment);
    context.meter().spend(size)?;
    let output = context
        .render(name, &Value::from_json(data))
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&output).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::helm::Limits;

    fn render_text(text: &str, data: &serde_json::Value) -> Result<String, String> {
        crate::render::render_text::render_text("t", text, data, Limits::of_a_name())
    }

    #[test]
    fn names_are_templates_over_the_custom_resource() {
        let data = json!({"metadata": {"name": "web"}});
        assert_eq!(render_text("x-{{ .metadata.name }}", &data).as_deref(), Ok("x-web"));
        assert_eq!(render_text("plain", &data).as_deref(), Ok("plain"));
        assert_eq!(
            render_text(r#"{{ "a,b" | replace "," "\\," }}"#, &json!(null)).as_deref(),
            Ok(r"a\,b")
        );
        assert!(render_text("{{ .metadata.name", &data).is_err());
        assert!(
            render_text("{{ nope }}", &data)
                .unwrap_err()
                .contains("function \"nope\" not defined")
        );
        let whole = json!({"spec": {"text": "x".repeat(500_000)}});
        assert_eq!(
            render_text("{{ .spec | toJson | sha256sum | trunc 4 }}", &whole).map(|name| name.len()),
            Ok(4)
        );
    }

    #[test]
    fn a_name_is_made_within_small_limits() {
        let data = json!({"list": vec![0; 1000], "text": "x".repeat(1000)});
        for (template, limit) in [
            ("{{ range .list }}{{ range $.list }}{{ end }}{{ end }}", "steps"),
            ("{{ repeat 20000 .text }}", "memory"),
            ("{{ range .list }}{{ $.text }}{{ $.text }}{{ end }}", "output"),
            (
                "{{ define \"a\" }}{{ template \"a\" . }}{{ end }}{{ template \"a\" . }}",
                "template depth",
            ),
        ] {
            let error = render_text(template, &data).unwrap_err();
            assert!(error.contains(limit), "{template}: {error}");
        }
        let many = json!({"list": vec![json!([]); 800_000]});
        assert!(
            render_text("{{ len .list }}", &many)
                .unwrap_err()
                .contains("the data is over")
        );
        assert_eq!(render_text("plain", &many).as_deref(), Ok("plain"));
    }
}
