//! What a bundle says of itself, in metadata/annotations.yaml and as labels of its image, and its scorecard tests.

use anyhow::ensure;
use handlebars::{Handlebars, no_escape};
use serde_json::{Value, json};

use super::{BundleOptions, Present};
use crate::printable::to_yaml;
use chartwright_watches::names::is_label_value;

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
pub(super) struct BundleLabels(Vec<(String, String)>);

impl BundleLabels {
    /// The labels of a package. Options that are not given keep their present value.
    pub fn of(package: &str, asked: &BundleOptions, present: &Present) -> anyhow::Result<Self> {
        let known = |name: &str| present.label(&format!("{BUNDLE}.{name}.v1")).map(str::to_owned);
        let channels = if asked.channels.is_empty() {
            known("channels").unwrap_or_else(|| CHANNEL.to_owned())
        } else {
            asked.channels.join(",")
        };
        for channel in channels.split(',').filter(|channel| !channel.is_empty()) {
            ensure!(
                is_label_value(channel),
                "{channel:?} can't be a channel: letters, digits, `-`, `_` and `.`, as in stable-v1"
            );
        }
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
        Ok(BundleLabels(labels))
    }

    /// The text of annotations.yaml.
    pub fn annotations(&self) -> anyhow::Result<String> {
        let labels = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let labels: serde_yaml::Mapping = labels.map(|(name, value)| (name.into(), value.into())).collect();
        let file: serde_yaml::Mapping = [("annotations".into(), labels.into())].into_iter().collect();
        Ok(to_yaml(&file)?)
    }

    /// What the bundle's image is built with; `folder` is where the bundle lies beside it.
    pub fn dockerfile(&self, folder: &str) -> anyhow::Result<String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        ensure!(
            !folder.starts_with('-') && folder.chars().all(is_plain),
            "--output-dir: a Dockerfile can't name the folder {folder:?}: letters, digits, `-`, `_` and `.`, as in bundle"
        );
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
        Some(own) => Ok(to_yaml(own)?),
        None => Ok(TESTS.to_owned()),
    }
}
