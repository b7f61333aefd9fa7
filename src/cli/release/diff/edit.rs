//! Edits of custom resources: from a file, and from `--set` and `--values`.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::ensure_named;
use chartwright_core::identity::GroupKind;
use helm_template::chart::values::merge_maps;
use helm_template::chart::values::options::ValueOptions;

/// Nesting of values in files.
const DEPTH: usize = 1000;

/// A custom resource of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FileObject {
    pub object: Value,
    /// `cr.yaml:12`.
    pub place: String,
}

/// Reads the custom resources of a file. A List is replaced by its items.
///
/// # Errors
/// The file cannot be read, or an object in it has no kind or name: the message names the file and the line.
pub(super) fn read_file(path: &Path) -> anyhow::Result<Vec<FileObject>> {
    let shown = match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => path.display().to_string(),
    };
    let mut text = String::new();
    match path.to_str() {
        Some("-") => std::io::stdin().read_to_string(&mut text),
        _ => std::fs::File::open(path).and_then(|mut file| file.read_to_string(&mut text)),
    }
    .with_context(|| shown.clone())?;
    parse(&shown, &text)
}

fn parse(shown: &str, text: &str) -> anyhow::Result<Vec<FileObject>> {
    let mut objects = Vec::new();
    for document in go_yaml::documents(text).with_context(|| shown.to_owned())? {
        let before = (document.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
        let before = before
            .and_then(|end| text.get(..end))
            .unwrap_or_default()
            .lines()
            .count();
        let blank = document
            .lines()
            .take_while(|line| line.trim().is_empty() || line.starts_with('#') || line.starts_with("---"));
        let place = format!("{shown}:{}", before + blank.count() + 1);
        // The lines of an error count from the beginning of its document.
        let padded = "\n".repeat(before) + document;
        match go_yaml::to_json(padded.as_bytes()).with_context(|| shown.to_owned())? {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                let Some(Value::Array(items)) = list.remove("items") else {
                    bail!("{place}: a List needs `items`");
                };
                objects.extend(items.into_iter().map(|object| (object, place.clone())));
            }
            object => objects.push((object, place)),
        }
    }
    ensure!(!objects.is_empty(), "{shown}: it holds no object");
    for (object, place) in &objects {
        ensure!(
            object.is_object(),
            "{place}: this is no object with apiVersion, kind and metadata"
        );
        ensure!(
            GroupKind::of(object).is_some(),
            "{place}: apiVersion or kind is missing"
        );
        ensure_named(object).with_context(|| place.clone())?;
    }
    let objects = objects.into_iter();
    Ok(objects.map(|(object, place)| FileObject { object, place }).collect())
}

/// Merges `--values` and `--set` into the spec.
pub(super) fn set_values(object: &mut Value, values: &[String], set: &[String]) -> anyhow::Result<()> {
    if values.is_empty() && set.is_empty() {
        return Ok(());
    }
    let options = ValueOptions {
        files: values.to_vec(),
        set: set.to_vec(),
        ..ValueOptions::default()
    };
    let (given, _) = options
        .merge(&mut std::io::stdin(), DEPTH)
        .map_err(|error| explain_values(&error.to_string(), values))?;
    if !object["spec"].is_object() {
        object["spec"] = json!({});
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        merge_maps(spec, given);
    }
    // Files have floats, as in Helm; the API server wants whole numbers whole.
    whole_numbers(&mut object["spec"]);
    Ok(())
}

/// Names the flag of a file that cannot be opened. Errors of `--set` and of a file's content name their place themselves.
fn explain_values(error: &str, files: &[String]) -> anyhow::Error {
    let of_file = files
        .iter()
        .find_map(|file| Some((file, error.strip_prefix(&format!("open {file}: "))?)));
    match of_file {
        Some((file, cause)) => anyhow::anyhow!("--values {file}: {cause}"),
        None => anyhow::anyhow!("{error}"),
    }
}

fn whole_numbers(value: &mut Value) {
    /// Larger floats are not exact.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < EXACT {
                #[allow(clippy::cast_possible_truncation)]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_file_have_their_lines() {
        let text = "# first\napiVersion: a.test/v1\nkind: Web\nmetadata: {name: a}\n---\n---\n\napiVersion: v1\nkind: List\nitems:\n- \
                    {apiVersion: a.test/v1, kind: Web, metadata: {name: b}}\n";
        let found = parse("cr.yaml", text).unwrap();
        let places: Vec<(&str, &Value)> = found
            .iter()
            .map(|file| (file.place.as_str(), &file.object["metadata"]["name"]))
            .collect();
        assert_eq!(places, [("cr.yaml:2", &json!("a")), ("cr.yaml:8", &json!("b"))]);
    }

    #[test]
    fn a_wrong_file_is_reported_with_its_line() {
        let object = "apiVersion: a.test/v1\nkind: Web\nmetadata: {name: a}\n";
        for (text, expected) in [
            ("", "cr.yaml: it holds no object"),
            ("3\n", "cr.yaml:1: this is no object with apiVersion, kind and metadata"),
            ("a: 1\n", "cr.yaml:1: apiVersion or kind is missing"),
            ("apiVersion: v1\nkind: Web\n", "cr.yaml:1: metadata.name is missing"),
            (
                &format!("{object}---\nkind: Web\n"),
                "cr.yaml:5: apiVersion or kind is missing",
            ),
            ("kind: List\n", "cr.yaml:1: a List needs `items`"),
        ] {
            assert_eq!(format!("{:#}", parse("cr.yaml", text).unwrap_err()), expected);
        }
        let wrong = format!("{object}---\na: [\n");
        let error = format!("{:#}", parse("cr.yaml", &wrong).unwrap_err());
        assert!(error.starts_with("cr.yaml: ") && error.contains("line 5"), "{error}");
    }

    #[test]
    fn values_are_merged_into_the_spec() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("values.yaml");
        std::fs::write(&file, "size: 3\nimage: {tag: b}\n").unwrap();
        let mut object = json!({"spec": {"image": {"tag": "a", "pull": true}, "size": 1}});
        set_values(&mut object, &[file.display().to_string()], &["image.tag=c".to_owned()]).unwrap();
        assert_eq!(
            object["spec"].to_string(),
            r#"{"image":{"pull":true,"tag":"c"},"size":3}"#
        );
        let mut bare = json!({});
        set_values(&mut bare, &[], &["a=1".to_owned()]).unwrap();
        assert_eq!(bare, json!({"spec": {"a": 1}}));
        assert!(set_values(&mut bare, &[], &["a".to_owned()]).is_err());
        let absent = set_values(&mut bare, &["nofile".to_owned()], &[]).unwrap_err();
        assert_eq!(absent.to_string(), "--values nofile: no such file or directory");
    }
}
