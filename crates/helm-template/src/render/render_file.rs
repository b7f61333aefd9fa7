//! Renders a chart file that is not a Helm template, for hosts that give such a file a meaning of their own.

use std::sync::Arc;

use crate::chart::{dependencies, values};
use crate::helm::{CapabilityQueries, Context, table};
use crate::render::templates::syntax;
use crate::render::{Engine, Error, Input, contexts, go_text, on_large_stack, user_map};

impl Engine {
    /// Renders a file in the chart's folder, outside of `templates/`, with what the chart's templates see and with
    /// their named templates. Returns `None` if the chart has no such file. Random results are new in each call.
    ///
    /// # Errors
    /// An error in the values, the syntax or the execution, with its place.
    pub fn render_file(&self, input: &Input<'_>, name: &str) -> Result<Option<Vec<u8>>, Error> {
        on_large_stack(|| self.render_file_here(input, name))
    }

    fn render_file_here(&self, input: &Input<'_>, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(file) = self.chart.files.iter().find(|file| file.name == name) else {
            return Ok(None);
        };
        if file.data.iter().all(u8::is_ascii_whitespace) {
            return Ok(Some(Vec::new()));
        }
        let user = user_map(input)?;
        let mut warnings = Vec::new();
        let node = dependencies::process(&self.chart, &user, &mut warnings)?;
        let values = values::coalesce(&node, &user, &mut warnings)?;
        let path = format!("{}/{name}", node.path);
        let mut set = (*self.sets.parsed(&node)?.go).clone();
        set.parse(&path, file.data.clone(), table())
            .map_err(|error| syntax(&error))?;
        let data = contexts::of_root(&self.files, &node, &values, input, &path);
        let mut context = Context::new(Arc::new(set), &self.environment(input))
            .with_capability_queries(&CapabilityQueries::default());
        go_text(&mut context, &path, &data).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::chart::{Chart, File};
    use crate::render::{Engine, Input, ReleaseObject};

    fn render(text: &str) -> Result<Option<String>, String> {
        let file = |name: &str, text: &str| File {
            name: name.to_owned(),
            data: text.into(),
        };
        let mut chart = Chart::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/memcached")).unwrap();
        chart.templates = vec![file(
            "templates/_helpers.tpl",
            r#"{{ define "who" }}{{ .Release.Name }}{{ end }}"#,
        )];
        chart.files = vec![file("status.yaml", text)];
        let engine = Engine::new(chart).unwrap();
        let input = Input {
            more: vec![(
                "Members",
                json!({"Service": {"web": {"spec": {"clusterIP": "10.0.0.1"}}}}),
            )],
            ..Input::new(ReleaseObject::install("web", "shop"), json!({"size": 3}))
        };
        let rendered = engine
            .render_file(&input, "status.yaml")
            .map_err(|error| error.to_string())?;
        Ok(rendered.map(|text| String::from_utf8_lossy(&text).into_owned()))
    }

    #[test]
    fn a_file_sees_what_templates_see() {
        assert_eq!(
            render("size: {{ .Values.size }}\nip: {{ .Members.Service.web.spec.clusterIP }}{{ include \"who\" . }}"),
            Ok(Some("size: 3\nip: 10.0.0.1web".to_owned()))
        );
        assert_eq!(render("  \n"), Ok(Some(String::new())));
    }

    #[test]
    fn errors_have_their_place() {
        for (text, expected) in [
            ("a: b\nx: {{ .Values.size", "memcached/status.yaml:2"),
            ("a: b\nx: {{ .Values.size.more }}", "memcached/status.yaml:2:13"),
            ("a: {{ fail \"no\" }}", "no"),
        ] {
            let error = render(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_none() {
        let chart = Chart::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/memcached")).unwrap();
        let input = Input::new(ReleaseObject::install("web", "shop"), json!({}));
        assert_eq!(
            Engine::new(chart).unwrap().render_file(&input, "none.yaml").unwrap(),
            None
        );
    }
}
