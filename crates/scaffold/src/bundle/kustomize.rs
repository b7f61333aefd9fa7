//! Reads the objects of a kustomization, as `kubectl kustomize` builds it, and objects in YAML files.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// Builds the kustomization in a folder with `kubectl kustomize`; the environment variable `KUBECTL` names another program.
/// `folder` is relative to the root.
///
/// # Errors
/// kubectl is missing, or its own error.
pub(super) fn build(root: &Path, folder: &Path) -> anyhow::Result<Vec<Value>> {
    let kubectl = env::var_os("KUBECTL").unwrap_or_else(|| OsString::from("kubectl"));
    let shown = kubectl.to_string_lossy();
    let mut command = Command::new(&kubectl);
    command
        .arg("kustomize")
        .arg(folder)
        .current_dir(root)
        .stdin(Stdio::null());
    let output = match command.output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
            "{shown} was not found, and builds {}: install kubectl, or set KUBECTL to its path",
            folder.display()
        ),
        output => output.with_context(|| shown.to_string())?,
    };
    let failure = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{shown} kustomize {}: {}",
        folder.display(),
        failure.trim().trim_start_matches("error: ")
    );
    let text = String::from_utf8(output.stdout).context("kubectl's output is not UTF-8")?;
    parse(&text).with_context(|| folder.display().to_string())
}

/// Reads the objects in a file.
///
/// # Errors
/// The file cannot be read or is not YAML.
pub(super) fn read(root: &Path, file: &Path) -> anyhow::Result<Vec<Value>> {
    let shown = || file.display().to_string();
    let text = fs::read_to_string(root.join(file)).with_context(shown)?;
    parse(&text).with_context(shown)
}

/// Parses the objects in a text. A `List` stands for its items.
///
/// # Errors
/// The text is not YAML, or a document is not an object.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<Value>> {
    let mut objects = Vec::new();
    for document in go_yaml::documents(text)? {
        let object = go_yaml::to_json(document.as_bytes())?;
        if object.is_null() {
            continue;
        }
        let items = object["items"].as_array();
        match items.filter(|_| object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))) {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(object),
        }
    }
    for object in &objects {
        let has = |field: &str| object[field].as_str().is_some_and(|text| !text.is_empty());
        ensure!(
            has("apiVersion") && has("kind"),
            "an object without `apiVersion` or `kind`"
        );
    }
    Ok(objects)
}

/// Splits an image into its name and its tag or digest. The second part starts with `:` or `@`; it may be empty.
pub(super) fn split_image(image: &str) -> (&str, &str) {
    let end = image.find('@').unwrap_or(image.len());
    let start = image[..end].rfind('/').map_or(0, |slash| slash + 1);
    let end = image[start..end].find(':').map_or(end, |colon| start + colon);
    image.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_split() {
        for (image, expected) in [
            ("a", ("a", "")),
            ("a:1", ("a", ":1")),
            ("example.com:5000/a", ("example.com:5000/a", "")),
            ("example.com:5000/a:1@sha256:ab", ("example.com:5000/a", ":1@sha256:ab")),
            ("a@sha256:ab", ("a", "@sha256:ab")),
        ] {
            assert_eq!(split_image(image), expected);
        }
    }
}
