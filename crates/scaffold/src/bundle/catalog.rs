//! The template of a file-based catalogue (`olm.semver`): which images of bundles are in which channels. `opm` makes the catalogue
//! of it, with channels for each major version and the upgrades between them. Facts: operator-registry's `alpha/template/semver`.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_yaml::{Mapping, Value};

use crate::printable::to_yaml;

const SCHEMA: &str = "olm.semver";
/// What the template knows, from the first try to what is proven.
const STREAMS: [&str; 3] = ["candidate", "fast", "stable"];

/// The template with an image more. `None` if it lists it already. `shown`: the file, in errors.
///
/// # Errors
/// What stands there is no such template, or a channel is none that it knows.
pub fn with_bundle(
    shown: &Path,
    text: Option<&str>,
    image: &str,
    channels: &[String],
) -> anyhow::Result<Option<String>> {
    ensure!(
        super::check::is_image(image),
        "--bundle-image {image}: is no name of an image, such as registry.example.com/shop-operator-bundle:v0.1.0"
    );
    let mut template: Mapping = match text {
        Some(text) => serde_yaml::from_str(text).with_context(|| shown.display().to_string())?,
        None => [
            ("schema".into(), SCHEMA.into()),
            ("generateMajorChannels".into(), true.into()),
            ("generateMinorChannels".into(), false.into()),
        ]
        .into_iter()
        .collect(),
    };
    ensure!(
        found(&template, "schema").is_some_and(|(_, schema)| schema == SCHEMA),
        "{}: is no template with `schema: {SCHEMA}`",
        shown.display()
    );
    let mut is_changed = false;
    for channel in channels {
        let stream = STREAMS.iter().find(|stream| *stream == channel);
        let Some(stream) = stream else {
            bail!(
                "--channels {channel}: the template's channels are {}; `opm` adds the major version to them",
                STREAMS.join(", ")
            );
        };
        let wrong = || format!("{}: `{stream}` has no list of `bundles`", shown.display());
        let key = found(&template, stream).map_or_else(|| (*stream).into(), |(key, _)| key.clone());
        let entry = template.entry(key).or_insert_with(|| Mapping::new().into());
        let entry = entry.as_mapping_mut().with_context(wrong)?;
        let key = found(entry, "bundles").map_or_else(|| "bundles".into(), |(key, _)| key.clone());
        let bundles = entry.entry(key).or_insert_with(|| Value::Sequence(Vec::new()));
        let bundles = bundles.as_sequence_mut().with_context(wrong)?;
        let is_same = |bundle: &Value| {
            let bundle = bundle.as_mapping();
            bundle.is_some_and(|bundle| found(bundle, "image").is_some_and(|(_, known)| known == image))
        };
        if !bundles.iter().any(is_same) {
            let bundle: Mapping = [("image".into(), image.into())].into_iter().collect();
            bundles.push(bundle.into());
            is_changed = true;
        }
    }
    if is_changed {
        Ok(Some(to_yaml(&template)?))
    } else {
        Ok(None)
    }
}

/// `opm` reads keys without regard to case.
fn found<'m>(mapping: &'m Mapping, name: &str) -> Option<(&'m Value, &'m Value)> {
    let is_name = |key: &Value| key.as_str().is_some_and(|key| key.eq_ignore_ascii_case(name));
    mapping.iter().find(|(key, _)| is_name(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(text: Option<&str>, image: &str, channels: &[&str]) -> anyhow::Result<Option<String>> {
        let channels: Vec<String> = channels.iter().map(|&channel| channel.to_owned()).collect();
        with_bundle(Path::new("t.yaml"), text, image, &channels)
    }

    #[test]
    fn bundles_are_added_to_their_channels() {
        let first = add(None, "example.com/b:v0.1.0", &["candidate"]).unwrap().unwrap();
        let second = add(Some(&first), "example.com/b:v0.2.0", &["candidate", "stable"])
            .unwrap()
            .unwrap();
        assert_eq!(
            second,
            "schema: olm.semver\ngenerateMajorChannels: true\ngenerateMinorChannels: false\ncandidate:\n  bundles:\n  \
             - image: example.com/b:v0.1.0\n  - image: example.com/b:v0.2.0\nstable:\n  bundles:\n  - image: example.com/b:v0.2.0\n"
        );
        assert_eq!(
            add(Some(&second), "example.com/b:v0.1.0", &["candidate"]).unwrap(),
            None
        );
        let theirs = "Schema: olm.semver\nDefaultChannelTypePreference: minor\nFast:\n  Bundles:\n  - Image: a:1\n";
        assert_eq!(add(Some(theirs), "a:1", &["fast"]).unwrap(), None);
        let more = add(Some(theirs), "a:2", &["fast"]).unwrap().unwrap();
        assert_eq!(more, theirs.to_owned() + "  - image: a:2\n");
    }

    #[test]
    fn what_is_no_template_is_left_alone() {
        for (text, image, channel, expected) in [
            (None, "A:1", "stable", "is no name of an image"),
            (
                None,
                "a:1",
                "alpha",
                "--channels alpha: the template's channels are candidate, fast, stable",
            ),
            (
                Some("schema: olm.template.basic"),
                "a:1",
                "stable",
                "t.yaml: is no template",
            ),
            (Some("- a"), "a:1", "stable", "t.yaml"),
            (
                Some("schema: olm.semver\nstable: 1"),
                "a:1",
                "stable",
                "`stable` has no list of `bundles`",
            ),
        ] {
            let error = format!("{:#}", add(text, image, &[channel]).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
