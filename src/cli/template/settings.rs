//! Files and variables that Helm reads whatever the chart is: registries' logins, where releases are kept, repositories.
//!
//! Facts: Helm's `pkg/cmd/root.go`, `pkg/cli/environment.go`, `pkg/helmpath`, `pkg/repo/v1/repo.go`; oras-go's
//! `registry/remote/credentials/internal/config`.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Process;
use crate::chart::metadata::{check_time, json_kind};
use crate::chart::{io_text, json};
use crate::cli::pflag::Parsed;
use crate::template::go::quote::quote_go;
use crate::yaml::{self, GoType};

const RAW_MAP: &str = "map[string]json.RawMessage";

/// `repo.File` and `repo.Entry`
const FILE: [(&str, GoType); 3] = [
    ("apiVersion", GoType::Text),
    ("generated", GoType::Any),
    ("repositories", GoType::List(&GoType::Struct(&ENTRY))),
];
const ENTRY: [(&str, GoType); 9] = [
    ("name", GoType::Text),
    ("url", GoType::Text),
    ("username", GoType::Text),
    ("password", GoType::Text),
    ("certFile", GoType::Text),
    ("keyFile", GoType::Text),
    ("caFile", GoType::Text),
    // Booleans.
    ("insecure_skip_tls_verify", GoType::Any),
    ("pass_credentials_all", GoType::Any),
];

/// The file of logins, which must be one of Docker's. `flags` are those that all commands have.
///
/// # Errors
/// oras-go's text.
pub fn check_logins(flags: &Parsed, process: &Process<'_>) -> Result<(), String> {
    let path = config(
        flags,
        process,
        "registry-config",
        "HELM_REGISTRY_CONFIG",
        "registry/config.json",
    );
    let shown = path.display();
    let text = match read(process.dir, &path) {
        Ok(text) => text,
        Err((_, e)) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(("open", e)) => {
            return Err(format!(
                "failed to open config file at {shown}: open {shown}: {}",
                io_text(&e)
            ));
        }
        Err((op, e)) => {
            return Err(format!(
                "failed to decode config file {shown}: {}",
                invalid(&format!("{op} {shown}: {}", io_text(&e)))
            ));
        }
    };
    if text.trim_ascii().is_empty() {
        return Ok(());
    }
    let content = json::kinds(&text).and_then(|content| typed(&content, RAW_MAP).map(|()| content));
    let content = content.map_err(|e| {
        // What a decoder of a stream says of one that ends too early.
        let e = e.replace("unexpected end of JSON input", "unexpected EOF");
        format!("failed to decode config file {shown}: {}", invalid(&e))
    })?;
    for (key, name, wanted) in [
        ("credsStore", "creds store", "string"),
        ("credHelpers", "cred helpers", "map[string]string"),
        ("auths", "auths", RAW_MAP),
    ] {
        typed(content.get(key).unwrap_or(&Value::Null), wanted)
            .map_err(|e| format!("failed to unmarshal {name} field: {}", invalid(&e)))?;
    }
    Ok(())
}

/// What keeps Helm's releases, of which it must know the kind.
///
/// # Errors
/// Helm's text.
pub fn check_driver(process: &Process<'_>) -> Result<(), String> {
    let env = |name: &str| (process.env)(name).unwrap_or_default();
    match env("HELM_DRIVER").as_str() {
        "" | "secret" | "secrets" | "configmap" | "configmaps" | "sql" => Ok(()),
        "memory" => {
            let paths = env("HELM_MEMORY_DRIVER_DATA");
            paths
                .split(':')
                .try_for_each(|path| match read(process.dir, Path::new(path)) {
                    Ok(_) => Ok(()),
                    Err((op, e)) => Err(format!("Unable to read memory driver data{op} {path}: {}", io_text(&e))),
                })
        }
        other => Err(format!("unknown driver {}", quote_go(other))),
    }
}

/// The names of the repositories that Helm was told of.
///
/// # Errors
/// Helm's text for a file of them that can't be read.
pub fn repositories(flags: &Parsed, process: &Process<'_>) -> Result<Vec<String>, String> {
    let path = config(
        flags,
        process,
        "repository-config",
        "HELM_REPOSITORY_CONFIG",
        "repositories.yaml",
    );
    let shown = path.display();
    let text = match read(process.dir, &path) {
        Ok(text) => text,
        Err((_, e)) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err((op, e)) => {
            return Err(format!(
                "couldn't load repositories file ({shown}): {op} {shown}: {}",
                io_text(&e)
            ));
        }
    };
    let file = yaml::to_json_of(&text, &GoType::Struct(&FILE)).map_err(|e| e.to_string())?;
    names(&file)
}

/// The names in a file of repositories.
fn names(file: &Value) -> Result<Vec<String>, String> {
    typed(file, "repo.File").map_err(|e| undecoded(&e))?;
    let mut names = Vec::new();
    for (key, value) in file.as_object().into_iter().flatten() {
        match (yaml::field(key, &FILE), value) {
            ("generated", value) => check_time(value).map_err(|e| e.to_string())?,
            ("repositories", Value::Array(entries)) => {
                names = entries.iter().map(name).collect::<Result<_, _>>()?;
            }
            ("", _) | (_, Value::Null) | ("apiVersion", Value::String(_)) => {}
            ("apiVersion", other) => return Err(mismatch(other, "File.apiVersion", "string")),
            (field, other) => return Err(mismatch(other, &format!("File.{field}"), "[]*repo.Entry")),
        }
    }
    Ok(names)
}

/// The name of a repository; empty if it has none.
fn name(entry: &Value) -> Result<String, String> {
    let mut name = String::new();
    let fields = match entry {
        Value::Object(fields) => Some(fields),
        Value::Null => None,
        other => return Err(mismatch(other, "File.repositories", "repo.Entry")),
    };
    for (key, value) in fields.into_iter().flatten() {
        let field = yaml::field(key, &ENTRY);
        let wanted = match field {
            "insecure_skip_tls_verify" | "pass_credentials_all" => "bool",
            _ => "string",
        };
        match (field, value) {
            ("name", Value::String(text)) => name.clone_from(text),
            ("", _) | (_, Value::Null) => {}
            (_, Value::String(_)) if wanted == "string" => {}
            (_, Value::Bool(_)) if wanted == "bool" => {}
            (field, other) => return Err(mismatch(other, &format!("Entry.repositories.{field}"), wanted)),
        }
    }
    Ok(name)
}

fn mismatch(value: &Value, field: &str, wanted: &str) -> String {
    undecoded(&format!(
        "json: cannot unmarshal {} into Go struct field {field} of type {wanted}",
        json_kind(value)
    ))
}

/// What sigs.k8s.io/yaml says of what doesn't fit a type.
fn undecoded(problem: &str) -> String {
    format!("error unmarshaling JSON: while decoding JSON: {problem}")
}

/// The path of a file of Helm's configuration (`cli.New`, `helmpath.ConfigPath`).
fn config(flags: &Parsed, process: &Process<'_>, flag: &str, variable: &str, name: &str) -> PathBuf {
    let given = flags.text(flag).map(str::to_owned).or_else(|| (process.env)(variable));
    if let Some(path) = given {
        return PathBuf::from(path);
    }
    let folder = |name: &str| (process.env)(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let home = || folder("HOME").unwrap_or_default().join(".config");
    let folder =
        folder("HELM_CONFIG_HOME").unwrap_or_else(|| folder("XDG_CONFIG_HOME").unwrap_or_else(home).join("helm"));
    folder.join(name)
}

/// Reads a file; an error comes with the name of what failed.
fn read(dir: &Path, path: &Path) -> Result<Vec<u8>, (&'static str, std::io::Error)> {
    if path.as_os_str().is_empty() {
        return Err(("open", std::io::ErrorKind::NotFound.into()));
    }
    let mut text = Vec::new();
    let mut file = std::fs::File::open(dir.join(path)).map_err(|e| ("open", e))?;
    std::io::Read::read_to_end(&mut file, &mut text).map_err(|e| ("read", e))?;
    Ok(text)
}

/// Whether Go's decoder takes a value for one of a type: `string`, `map[string]string`, or any object.
fn typed(value: &Value, wanted: &str) -> Result<(), String> {
    match (value, wanted) {
        (Value::Null, _) | (Value::String(_), "string") => Ok(()),
        (Value::Object(map), "map[string]string") => map.values().try_for_each(|value| typed(value, "string")),
        (Value::Object(_), wanted) if wanted != "string" => Ok(()),
        (other, wanted) => Err(format!(
            "json: cannot unmarshal {} into Go value of type {wanted}",
            json_kind(other)
        )),
    }
}

fn invalid(problem: &str) -> String {
    format!("invalid config format: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(kind: &str) -> Result<(), String> {
        let env = |name: &str| (name == "HELM_DRIVER").then(|| kind.to_owned());
        check_driver(&Process {
            stdin: &mut std::io::empty(),
            dir: Path::new(""),
            env: &env,
        })
    }

    #[test]
    fn keys_of_repositories_match_without_case() {
        let file = serde_json::json!({"REPOSITORIES": [{"Name": "foo"}, null, {"url": "x"}]});
        assert_eq!(names(&file).unwrap(), ["foo", "", ""]);
    }

    #[test]
    fn releases_are_kept_by_what_helm_knows() {
        assert_eq!(driver("configmaps"), Ok(()));
        assert_eq!(driver("Secret"), Err("unknown driver \"Secret\"".to_owned()));
        let unread = "Unable to read memory driver dataopen : no such file or directory";
        assert_eq!(driver("memory"), Err(unread.to_owned()));
    }
}
