//! What a bundle says of itself, in metadata/annotations.yaml and as labels of its image, and its scorecard tests.

use anyhow::ensure;
use handlebars::{Handlebars, no_escape};
use serde_json::{Value, json};

use super::{Asked, Present};

/// Within a bundle.
pub(super) const ANNOTATIONS: &str = "metadata/annotations.yaml";
pub(super) const SCORECARD: &str = "tests/scorecard/config.yaml";
/// Beside it.
pub(super) const DOCKERFILE: &str = "bundle.Dockerfile";

/// What the names of labels begin with.
const BUNDLE: &str = "operators.operatorframework.io.bundle";
const TEST: &str = "operators.operatorframework.io.test";

/// As long as nothing else is said: for those who try it.
const CHANNEL: &str = "candidate";

/// The tests of operator-sdk's `scorecard` that a bundle is tried with.
const TESTS: &str = include_str!("files/scorecard.yaml");
const TEMPLATE: &str = include_str!("files/bundle.Dockerfile.hbs");

/// Names and values, in their order.
pub(super) struct Labels(Vec<(String, String)>);

// === impl Labels ===

impl Labels {
    /// Those of a package. What isn't asked for stays as it is.
    pub fn of(package: &str, asked: &Asked, present: &Present) -> anyhow::Result<Self> {
        let known = |name: &str| present.label(&format!("{BUNDLE}.{name}.v1")).map(str::to_owned);
        let channels = match asked.channels.is_empty() {
            true => known("channels").unwrap_or_else(|| CHANNEL.to_owned()),
            false => asked.channels.join(","),
        };
        let is_channel = |name: &str| channels.split(',').any(|channel| channel == name);
        let default = asked.default_channel.clone();
        if let Some(default) = &default {
            ensure!(
                is_channel(default),
                "--default-channel {default}: the bundle's channels are {channels}"
            );
        }
        let default = default.or_else(|| known("channel.default").filter(|name| is_channel(name)));
        let mut labels = vec![
            (format!("{BUNDLE}.mediatype.v1"), "registry+v1".to_owned()),
            (format!("{BUNDLE}.manifests.v1"), "manifests/".to_owned()),
            (format!("{BUNDLE}.metadata.v1"), "metadata/".to_owned()),
            (format!("{BUNDLE}.package.v1"), package.to_owned()),
            (format!("{BUNDLE}.channels.v1"), channels),
        ];
        labels.extend(default.map(|default| (format!("{BUNDLE}.channel.default.v1"), default)));
        labels.extend([
            (format!("{TEST}.mediatype.v1"), "scorecard+v1".to_owned()),
            (format!("{TEST}.config.v1"), "tests/scorecard/".to_owned()),
        ]);
        Ok(Labels(labels))
    }

    /// The text of annotations.yaml.
    pub fn annotations(&self) -> anyhow::Result<String> {
        let labels = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let labels: serde_yaml::Mapping = labels.map(|(name, value)| (name.into(), value.into())).collect();
        let file: serde_yaml::Mapping = [("annotations".into(), labels.into())].into_iter().collect();
        Ok(serde_yaml::to_string(&file)?)
    }

    /// What the bundle's image is built with; `folder` is where the bundle lies beside it.
    pub fn dockerfile(&self, folder: &str) -> anyhow::Result<String> {
        let labels: Vec<Value> = self
            .0
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let mut engine = Handlebars::new();
        engine.set_strict_mode(true);
        engine.register_escape_fn(no_escape);
        Ok(engine.render_template(TEMPLATE, &json!({"labels": labels, "folder": folder}))?)
    }
}

/// The configuration of the scorecard: the project's own, or ours.
pub(super) fn scorecard(own: Option<&Value>) -> anyhow::Result<String> {
    match own {
        Some(own) => Ok(serde_yaml::to_string(own)?),
        None => Ok(TESTS.to_owned()),
    }
}
