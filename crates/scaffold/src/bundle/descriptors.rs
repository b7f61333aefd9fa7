//! Descriptors of a kind's fields for consoles, made from its schema: names, texts and input widgets.

use serde_json::{Map, Value, json};

/// What consoles know, with this before it.
const UI: &str = "urn:alm:descriptor:com.tectonic.ui:";
const KUBERNETES: &str = "urn:alm:descriptor:io.kubernetes";
/// Names of replicas in charts whose definition has no scale subresource.
const REPLICAS: [&str; 2] = ["replicas", "replicaCount"];
/// So many choices are still a list.
const MOST_CHOICES: usize = 12;

/// Those of `spec`: every field at the top, and what consoles know one level below. `version` is one of a
/// CustomResourceDefinition.
pub(super) fn of_spec(version: &Value) -> Vec<Value> {
    let scale = path_of(&version["subresources"]["scale"]["specReplicasPath"], ".spec.");
    let mut found = Vec::new();
    for (name, field) in fields(version, "spec") {
        found.push(descriptor(name, field, of_field(name, name, field, scale)));
        for (below, field) in field["properties"].as_object().into_iter().flatten() {
            let path = format!("{name}.{below}");
            // A dot in a name would be taken for a step.
            let known =
                Some(of_field(&path, below, field, scale)).filter(|known| !known.is_empty() && !below.contains('.'));
            found.extend(known.map(|known| descriptor(&path, field, known)));
        }
    }
    found
}

/// Those of `status`: what is of use to who looks at a resource.
pub(super) fn of_status(version: &Value) -> Vec<Value> {
    let scale = path_of(&version["subresources"]["scale"]["statusReplicasPath"], ".status.");
    let mut found = Vec::new();
    for (name, field) in fields(version, "status") {
        let is_shown = field["type"] == "string" || field["type"] == "integer" || name == "conditions";
        // The operator uses these fields to remember the annotations that it handled.
        if !is_shown || name.starts_with("lastHandled") {
            continue;
        }
        let known = match name.as_str() {
            "conditions" => vec![format!("{KUBERNETES}.conditions")],
            name if Some(name) == scale => vec![format!("{UI}podCount")],
            _ => Vec::new(),
        };
        found.push(descriptor(name, field, known));
    }
    found
}

fn fields<'v>(version: &'v Value, part: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    let schema = &version["schema"]["openAPIV3Schema"]["properties"][part];
    let fields = schema["properties"].as_object().map(Map::iter);
    // As above; and those of a chart's own.
    fields.into_iter().flatten().filter(|(name, _)| !name.contains('.'))
}

fn path_of<'v>(value: &'v Value, before: &str) -> Option<&'v str> {
    value.as_str()?.strip_prefix(before)
}

fn descriptor(path: &str, field: &Value, known: Vec<String>) -> Value {
    let names: Vec<String> = path.split('.').map(title).collect();
    let mut descriptor = json!({"path": path, "displayName": names.join(" ")});
    if let Some(text) = field["description"].as_str() {
        descriptor["description"] = text.into();
    }
    if !known.is_empty() {
        descriptor["x-descriptors"] = known.into();
    }
    descriptor
}

/// What a console shows or sets a field of `spec` with; none where it is a text like others.
fn of_field(path: &str, name: &str, field: &Value, scale: Option<&str>) -> Vec<String> {
    let is = |kind: &str| field["type"] == kind;
    let is_whole = is("integer") || field["x-kubernetes-int-or-string"] == true;
    let choices = field["enum"].as_array().map(Vec::as_slice).unwrap_or_default();
    let choices: Vec<&str> = choices.iter().filter_map(Value::as_str).collect();
    let ui = |name: &str| vec![format!("{UI}{name}")];
    match name {
        _ if scale == Some(path) => ui("podCount"),
        name if scale.is_none() && is_whole && REPLICAS.contains(&name) => ui("podCount"),
        "imagePullPolicy" | "pullPolicy" if !is("object") => ui("imagePullPolicy"),
        "resources" if is("object") => ui("resourceRequirements"),
        "existingSecret" if is("string") => vec![format!("{KUBERNETES}:Secret")],
        name if is("string") && name.to_lowercase().ends_with("password") => ui("password"),
        _ if is("boolean") => ui("booleanSwitch"),
        _ if is("integer") || is("number") => ui("number"),
        _ if is("string") && (1..=MOST_CHOICES).contains(&choices.len()) => {
            choices.iter().map(|choice| format!("{UI}select:{choice}")).collect()
        }
        _ => Vec::new(),
    }
}

/// A name as people write it: `podDisruptionBudget` is `Pod Disruption Budget`, `shop-operator` is `Shop Operator`.
pub(super) fn title(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut title = String::new();
    for (at, letter) in letters.iter().enumerate() {
        if !letter.is_alphanumeric() {
            title.push(' ');
            continue;
        }
        let before = at.checked_sub(1).map(|before| letters[before]);
        let is_start = before.is_none_or(|before| !before.is_alphanumeric());
        let is_lower = |at: usize| letters.get(at).is_some_and(|letter| letter.is_lowercase());
        // The plural of an abbreviation, as in IPs.
        let is_plural = letters.get(at + 1) == Some(&'s') && !is_lower(at + 2);
        let ends_capitals = before.is_some_and(char::is_uppercase) && is_lower(at + 1) && !is_plural;
        let ends_word = before.is_some_and(|before| before.is_lowercase() || before.is_numeric());
        if letter.is_uppercase() && (ends_word || ends_capitals) {
            title.push(' ');
        }
        if is_start {
            title.extend(letter.to_uppercase())
        } else {
            title.push(*letter)
        }
    }
    title.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_titles() {
        for (name, expected) in [
            ("podDisruptionBudget", "Pod Disruption Budget"),
            ("SampleDB", "Sample DB"),
            ("URLPath", "URL Path"),
            ("externalIPs", "External IPs"),
            ("shop-operator", "Shop Operator"),
            ("http2_port", "Http2 Port"),
            ("", ""),
        ] {
            assert_eq!(title(name), expected);
        }
    }

    #[test]
    fn fields_are_shown_with_what_they_are() {
        let version = json!({
            "subresources": {"scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.servers"}},
            "schema": {"openAPIV3Schema": {"properties": {
                "spec": {"properties": {
                    "size": {"type": "integer", "description": "Servers."},
                    "name": {"type": "string"},
                    "mode": {"type": "string", "enum": ["a", "b"]},
                    "rootPassword": {"type": "string"},
                    "resources": {"type": "object"},
                    "image": {"type": "object", "properties": {
                        "pullPolicy": {"type": "string"}, "tag": {"type": "string"}, "debug": {"type": "boolean"},
                    }},
                    "dotted.name": {"type": "boolean"},
                }},
                "status": {"properties": {
                    "conditions": {"type": "array"}, "servers": {"type": "integer"}, "notes": {"type": "string"},
                    "inventory": {"type": "array"}, "lastHandledForceAt": {"type": "string"},
                }},
            }}},
        });
        let described = |descriptors: Vec<Value>| -> Vec<String> {
            let mut described: Vec<String> = descriptors
                .iter()
                .map(|one| {
                    let known = one["x-descriptors"].as_array().into_iter().flatten();
                    let known: Vec<&str> = known
                        .filter_map(|text| text.as_str()?.rsplit_once([':', '.']))
                        .map(|(_, last)| last)
                        .collect();
                    format!("{} {}", one["path"].as_str().unwrap(), known.join(" "))
                        .trim_end()
                        .to_owned()
                })
                .collect();
            described.sort();
            described
        };
        assert_eq!(
            described(of_spec(&version)),
            [
                "image",
                "image.debug booleanSwitch",
                "image.pullPolicy imagePullPolicy",
                "mode a b",
                "name",
                "resources resourceRequirements",
                "rootPassword password",
                "size podCount",
            ]
        );
        assert_eq!(
            described(of_status(&version)),
            ["conditions conditions", "notes", "servers podCount"]
        );
        let by_name = json!({"schema": {"openAPIV3Schema": {"properties": {"spec": {"properties": {
            "replicaCount": {"x-kubernetes-int-or-string": true},
        }}}}}});
        assert_eq!(described(of_spec(&by_name)), ["replicaCount podCount"]);
    }
}
