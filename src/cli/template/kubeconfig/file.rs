//! A kubeconfig file as client-go decodes it.
//!
//! Facts: `tools/clientcmd/loader.go` and `tools/clientcmd/api/v1/{types,conversion}.go` of client-go, the serializer and
//! `pkg/runtime/scheme.go` of apimachinery.

use std::collections::HashSet;
use std::path::Path;

use data_encoding::BASE64;
use kube::config::Kubeconfig;
use serde_json::{Map, Value};

use crate::chart::io_text;
use crate::chart::metadata::json_kind;
use crate::template::go::quote::quote_go;
use crate::yaml::{self, GoType};

/// The type of a field.
enum Kind {
    Text,
    /// A text that kube wants even where it is empty.
    Name,
    Bool,
    Bytes,
    /// Anything, which nobody looks at.
    Any,
    List(&'static Kind),
    Map(&'static Kind),
    Struct(&'static str, &'static [(&'static str, Kind)]),
}

const TEXTS: Kind = Kind::List(&Kind::Text);
const EXTENSIONS: Kind = Kind::List(&Kind::Struct(
    "NamedExtension",
    &[("name", Kind::Name), ("extension", Kind::Any)],
));

const CONFIG: Kind = Kind::Struct(
    "Config",
    &[
        ("kind", Kind::Text),
        ("apiVersion", Kind::Text),
        (
            "preferences",
            Kind::Struct("Preferences", &[("colors", Kind::Bool), ("extensions", EXTENSIONS)]),
        ),
        (
            "clusters",
            Kind::List(&Kind::Struct(
                "NamedCluster",
                &[("name", Kind::Name), ("cluster", CLUSTER)],
            )),
        ),
        (
            "users",
            Kind::List(&Kind::Struct("NamedAuthInfo", &[("name", Kind::Name), ("user", USER)])),
        ),
        (
            "contexts",
            Kind::List(&Kind::Struct(
                "NamedContext",
                &[("name", Kind::Name), ("context", CONTEXT)],
            )),
        ),
        ("current-context", Kind::Text),
        ("extensions", EXTENSIONS),
    ],
);

const CLUSTER: Kind = Kind::Struct(
    "Cluster",
    &[
        ("server", Kind::Text),
        ("tls-server-name", Kind::Text),
        ("insecure-skip-tls-verify", Kind::Bool),
        ("certificate-authority", Kind::Text),
        ("certificate-authority-data", Kind::Bytes),
        ("proxy-url", Kind::Text),
        ("disable-compression", Kind::Bool),
        ("extensions", EXTENSIONS),
    ],
);

const USER: Kind = Kind::Struct(
    "AuthInfo",
    &[
        ("client-certificate", Kind::Text),
        ("client-certificate-data", Kind::Bytes),
        ("client-key", Kind::Text),
        ("client-key-data", Kind::Bytes),
        ("token", Kind::Text),
        ("tokenFile", Kind::Text),
        ("as", Kind::Text),
        ("as-uid", Kind::Text),
        ("as-groups", TEXTS),
        ("as-user-extra", Kind::Map(&TEXTS)),
        ("username", Kind::Text),
        ("password", Kind::Text),
        (
            "auth-provider",
            Kind::Struct(
                "AuthProviderConfig",
                &[("name", Kind::Name), ("config", Kind::Map(&Kind::Text))],
            ),
        ),
        ("exec", EXEC),
        ("extensions", EXTENSIONS),
    ],
);

const EXEC: Kind = Kind::Struct(
    "ExecConfig",
    &[
        ("command", Kind::Text),
        ("args", TEXTS),
        (
            "env",
            Kind::List(&Kind::Struct(
                "ExecEnvVar",
                &[("name", Kind::Name), ("value", Kind::Name)],
            )),
        ),
        ("apiVersion", Kind::Text),
        ("installHint", Kind::Text),
        ("provideClusterInfo", Kind::Bool),
        ("interactiveMode", Kind::Text),
    ],
);

const CONTEXT: Kind = Kind::Struct(
    "Context",
    &[
        ("cluster", Kind::Name),
        ("user", Kind::Text),
        ("namespace", Kind::Text),
        ("extensions", EXTENSIONS),
    ],
);

const HEAD: [(&str, GoType); 2] = [("apiVersion", GoType::Text), ("kind", GoType::Text)];

/// Reads a file, which errors name as it is `shown`.
pub fn read(path: &Path, shown: &str) -> Result<Kubeconfig, String> {
    let text = std::fs::read(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::IsADirectory => format!("read {shown}: {}", io_text(&e)),
        _ => format!("open {shown}: {}", io_text(&e)),
    })?;
    let json = yaml::to_json(&text).map_err(|e| {
        let text = e.to_string();
        text.strip_prefix("error converting YAML to JSON: ")
            .unwrap_or(&text)
            .to_owned()
    })?;
    let config = decode(&json)?;
    let mut config: Kubeconfig = serde_json::from_value(config).map_err(|e| e.to_string())?;
    resolve(&mut config, path.parent().unwrap_or(path));
    Ok(config)
}

/// Checks the types of all fields, and gives those that there are and aren't empty.
fn decode(json: &Value) -> Result<Value, String> {
    check_kind(json)?;
    let top = Place {
        owner: "",
        path: String::new(),
    };
    let config = CONFIG.decode(json, &top)?.unwrap_or_else(|| Value::Object(Map::new()));
    for (list, go) in [("clusters", "Cluster"), ("users", "AuthInfo"), ("contexts", "Context")] {
        check_names(config.get(list), go)?;
    }
    Ok(config)
}

/// `SimpleMetaFactory.Interpret`, and whether the scheme knows the kind.
fn check_kind(json: &Value) -> Result<(), String> {
    let refuse =
        |problem: String| format!("couldn't get version/kind; json parse error: json: cannot unmarshal {problem}");
    let entries = match json {
        Value::Object(entries) => Some(entries),
        Value::Null => None,
        other => {
            return Err(refuse(format!(
                "{} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }}",
                json_kind(other)
            )));
        }
    };
    let (mut version, mut kind) = ("", "");
    for (key, value) in entries.into_iter().flatten() {
        let name = yaml::field(key, &HEAD);
        match (name, value) {
            ("", _) | (_, Value::Null) => {}
            ("kind", Value::String(text)) => kind = text,
            (_, Value::String(text)) => version = text,
            (name, other) => {
                let found = json_kind(other);
                return Err(refuse(format!("{found} into Go struct field .{name} of type string")));
            }
        }
    }
    if version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {version}"));
    }
    let kind = if kind.is_empty() { "Config" } else { kind };
    match version {
        "" | "/" | "v1" | "/v1" if kind == "Config" => Ok(()),
        version => {
            let version = if version.is_empty() { "v1" } else { version };
            Err(format!(
                "no kind {} is registered for version {} in scheme \"pkg/runtime/scheme.go:111\"",
                quote_go(kind),
                quote_go(version)
            ))
        }
    }
}

/// Refuses two entries of one name. The text shows the list as Go prints it, but for clusters and users, which have secrets.
fn check_names(list: Option<&Value>, go: &str) -> Result<(), String> {
    let items = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut seen = HashSet::new();
    for item in items {
        let name = text(item, "name");
        if !seen.insert(name) {
            let shown = items.iter().map(|item| {
                let context = &item["context"];
                let [cluster, user, namespace] = ["cluster", "user", "namespace"].map(|key| text(context, key));
                format!("{{{} {{{cluster} {user} {namespace} []}}}}", text(item, "name"))
            });
            let shown = match go {
                "Context" => format!(": [{}]", shown.collect::<Vec<_>>().join(" ")),
                _ => String::new(),
            };
            return Err(format!(
                "error converting *[]Named{go} into *map[string]*api.{go}: duplicate name \"{name}\" in list{shown}"
            ));
        }
    }
    Ok(())
}

/// The text of a key; empty if there is none.
fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// `ResolveLocalPaths`: paths are relative to the file's folder.
fn resolve(config: &mut Kubeconfig, dir: &Path) {
    let within = |path: &mut Option<String>| {
        if let Some(path) = path.as_mut().filter(|path| !path.is_empty()) {
            *path = dir.join(&*path).to_string_lossy().into_owned();
        }
    };
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        within(&mut cluster.certificate_authority);
    }
    for user in config
        .auth_infos
        .iter_mut()
        .filter_map(|named| named.auth_info.as_mut())
    {
        for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            within(path);
        }
        // A name without a slash is looked up in `PATH`.
        let command = user.exec.as_mut().map(|exec| &mut exec.command);
        if let Some(command) = command.filter(|command| command.as_ref().is_some_and(|name| name.contains('/'))) {
            within(command);
        }
    }
}

/// Where a value stands, for error texts.
struct Place<'a> {
    /// The struct that has the field.
    owner: &'a str,
    /// The names of the fields on the way to the value.
    path: String,
}

impl Kind {
    /// Go's name of the type.
    fn go(&self) -> String {
        match self {
            Kind::Text | Kind::Name => "string".to_owned(),
            Kind::Bool => "bool".to_owned(),
            Kind::Bytes => "[]uint8".to_owned(),
            Kind::Any => "runtime.RawExtension".to_owned(),
            Kind::List(item) => format!("[]{}", item.go()),
            Kind::Map(value) => format!("map[string]{}", value.go()),
            Kind::Struct(name, _) => format!("v1.{name}"),
        }
    }

    /// The value, without fields that are null or empty; `None` if nothing is left.
    fn decode(&self, value: &Value, at: &Place<'_>) -> Result<Option<Value>, String> {
        Ok(match (self, value) {
            (Kind::Any, _) => Some(value.clone()),
            (Kind::Struct(name, fields), Value::Null | Value::Object(_)) => Some(structure(name, fields, value, at)?),
            (_, Value::Null) => None,
            (Kind::Text, Value::String(text)) => Some(value.clone()).filter(|_| !text.is_empty()),
            (Kind::Name, Value::String(_)) | (Kind::Bool, Value::Bool(_)) => Some(value.clone()),
            (Kind::Bytes, Value::String(text)) => bytes(text)?,
            (Kind::List(kind), Value::Array(items)) => {
                let item = |item| Ok(kind.decode(item, at)?.unwrap_or_else(|| kind.empty()));
                Some(Value::Array(items.iter().map(item).collect::<Result<_, String>>()?))
            }
            (Kind::Map(kind), Value::Object(entries)) => {
                let entry = |(key, value): (&String, _)| {
                    let value = kind.decode(value, at)?.unwrap_or_else(|| kind.empty());
                    Ok((key.clone(), value))
                };
                Some(Value::Object(entries.iter().map(entry).collect::<Result<_, String>>()?))
            }
            (kind, other) => {
                return Err(format!(
                    "json: cannot unmarshal {} into Go struct field {}.{} of type {}",
                    json_kind(other),
                    at.owner,
                    at.path,
                    kind.go()
                ));
            }
        })
    }

    /// What a list or map has in place of null.
    fn empty(&self) -> Value {
        match self {
            Kind::List(_) => Value::Array(Vec::new()),
            Kind::Text | Kind::Name => Value::String(String::new()),
            _ => Value::Null,
        }
    }
}

/// The fields of a struct, which match exactly. A pointer that is null is one to an empty struct here.
fn structure(name: &str, fields: &[(&str, Kind)], value: &Value, at: &Place<'_>) -> Result<Value, String> {
    let mut decoded = Map::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        let Some((_, kind)) = fields.iter().find(|(field, _)| field == key) else {
            continue;
        };
        let path = match at.path.as_str() {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        let is_nothing = value.is_null() && matches!(kind, Kind::Struct(..));
        let place = Place { owner: name, path };
        if let Some(value) = kind.decode(value, &place)?.filter(|_| !is_nothing) {
            decoded.insert(key.clone(), value);
        }
    }
    for (key, _) in fields.iter().filter(|(_, kind)| matches!(kind, Kind::Name)) {
        decoded.entry(*key).or_insert_with(|| Kind::Name.empty());
    }
    Ok(Value::Object(decoded))
}

/// Base64 as Go's decoder takes it: across lines.
fn bytes(text: &str) -> Result<Option<Value>, String> {
    let line: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match BASE64.decode(line.as_bytes()) {
        Ok(data) if data.is_empty() => Ok(None),
        Ok(_) => Ok(Some(Value::String(line))),
        Err(e) => Err(format!("illegal base64 data at input byte {}", e.position)),
    }
}
