//! The objects of a kustomization, as `kubectl kustomize` makes them: as much of kustomize as the projects need that `init` and
//! operator-sdk lay out. What else a kustomization asks for is an error, never left out.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value};

use crate::tree::normal;

/// Names that a kustomization may have, as kustomize looks for them.
const FILES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// What is understood of one, and what has no effect here: OLM decides on namespaces.
const KEYS: [&str; 9] = [
    "apiVersion",
    "kind",
    "metadata",
    "resources",
    "namespace",
    "namePrefix",
    "nameSuffix",
    "labels",
    "images",
];

/// Kinds that kustomize gives no prefix.
const UNPREFIXED: [&str; 3] = ["CustomResourceDefinition", "APIService", "Namespace"];

/// The objects of the kustomization in a folder; `folder` is relative to the root and stands in errors.
///
/// # Errors
/// A file that is missing or wrong, or a kustomization that needs the real kustomize.
pub(super) fn build(root: &Path, folder: &Path) -> anyhow::Result<Vec<Value>> {
    build_within(root, folder, &mut Vec::new())
}

/// `parents`: the kustomizations that this one is part of.
fn build_within(root: &Path, folder: &Path, parents: &mut Vec<PathBuf>) -> anyhow::Result<Vec<Value>> {
    let known = FILES.iter().map(|name| folder.join(name));
    let mut known = known.filter(|file| root.join(file).is_file());
    let file = known
        .next()
        .with_context(|| format!("{}: there is no kustomization.yaml", folder.display()))?;
    ensure!(
        !parents.contains(&file),
        "{}: the kustomization is part of itself",
        file.display()
    );
    let text = fs::read_to_string(root.join(&file)).with_context(|| file.display().to_string())?;
    let kustomization = go_yaml::to_json(text.as_bytes()).with_context(|| file.display().to_string())?;
    let place = |key: &str| {
        let line = text.lines().position(|line| line.starts_with(&format!("{key}:")));
        format!("{}:{}", file.display(), line.map_or(1, |line| line + 1))
    };
    for key in kustomization.as_object().into_iter().flat_map(Map::keys) {
        ensure!(
            KEYS.contains(&key.as_str()) || key == "patches",
            "{}: `{key}` needs the real kustomize: {}",
            place(key),
            remedy(folder)
        );
    }
    parents.push(file.clone());
    let mut objects = Vec::new();
    for resource in kustomization["resources"].as_array().into_iter().flatten() {
        let name = resource.as_str().unwrap_or_default();
        ensure!(
            !name.contains("://") && !name.is_empty(),
            "{}: {name:?} is no file or folder here: {}",
            place("resources"),
            remedy(folder)
        );
        let path = normal(&folder.join(name));
        if root.join(&path).is_dir() {
            objects.extend(build_within(root, &path, parents)?);
        } else {
            let listed = || format!("{} lists {name}", place("resources"));
            objects.extend(read(root, &path).with_context(listed)?);
        }
    }
    parents.pop();
    for patch in kustomization["patches"].as_array().into_iter().flatten() {
        let told = || format!("{}: {}", place("patches"), remedy(folder));
        apply_patch(root, folder, patch, &mut objects).with_context(told)?;
    }
    for image in kustomization["images"].as_array().into_iter().flatten() {
        objects.iter_mut().for_each(|object| rename_image(object, image));
    }
    let text = |key: &str| kustomization[key].as_str().unwrap_or_default();
    rename(&mut objects, text("namePrefix"), text("nameSuffix"));
    for label in kustomization["labels"].as_array().into_iter().flatten() {
        ensure!(
            label["includeSelectors"] != true && label["includeTemplates"] != true,
            "{}: labels of selectors and templates need the real kustomize: {}",
            place("labels"),
            remedy(folder)
        );
        for object in &mut objects {
            for (name, value) in label["pairs"].as_object().into_iter().flatten() {
                object["metadata"]["labels"][name] = value.clone();
            }
        }
    }
    Ok(objects)
}

fn remedy(folder: &Path) -> String {
    format!(
        "`kubectl kustomize {} | chartwright generate bundle --input-dir -`",
        folder.display()
    )
}

/// The objects in a file.
///
/// # Errors
/// It can't be read, or is no YAML.
pub(super) fn read(root: &Path, file: &Path) -> anyhow::Result<Vec<Value>> {
    let shown = || file.display().to_string();
    let text = fs::read_to_string(root.join(file)).with_context(shown)?;
    parse(&text).with_context(shown)
}

/// The objects in a text. A `List` is what it holds.
///
/// # Errors
/// It is no YAML, or has something else than objects.
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

/// Applies a patch as operator-sdk's projects have them: a list of operations, for all objects that its target names.
fn apply_patch(root: &Path, folder: &Path, patch: &Value, objects: &mut [Value]) -> anyhow::Result<()> {
    let text = match (patch["patch"].as_str(), patch["path"].as_str()) {
        (Some(text), _) => text.to_owned(),
        (None, Some(path)) => {
            let file = normal(&folder.join(path));
            fs::read_to_string(root.join(&file)).with_context(|| file.display().to_string())?
        }
        (None, None) => bail!("a patch without `path` and `patch`"),
    };
    let operations = go_yaml::to_json(text.as_bytes())?;
    let target = &patch["target"];
    let is_whole = |key: &String| ["group", "version", "kind", "name"].contains(&key.as_str());
    let is_known = target.as_object().is_some_and(|target| target.keys().all(is_whole));
    ensure!(
        operations.is_array() && is_known,
        "only patches of JSON operations whose target has group, version, kind or name are understood here"
    );
    let operations: json_patch::Patch = serde_json::from_value(operations)?;
    for object in objects {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let is = |key: &str, text: Option<&str>| target[key].as_str().is_none_or(|wanted| Some(wanted) == text);
        let is_target = is("group", Some(group))
            && is("version", Some(version))
            && is("kind", object["kind"].as_str())
            && is("name", object["metadata"]["name"].as_str());
        if is_target {
            json_patch::patch(object, &operations)?;
        }
    }
    Ok(())
}

/// What an entry of `images` says of one that is called so.
fn rename_image(value: &mut Value, entry: &Value) {
    match value {
        Value::Object(fields) => {
            for field in ["containers", "initContainers"] {
                for container in fields
                    .get_mut(field)
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .flatten()
                {
                    let Some(image) = container["image"].as_str() else {
                        continue;
                    };
                    let (name, tag) = split_image(image);
                    if entry["name"] != name {
                        continue;
                    }
                    let text = |key: &str| entry.get(key).and_then(go_yaml::text);
                    let name = text("newName").unwrap_or_else(|| name.to_owned());
                    let tag = match (text("digest"), text("newTag")) {
                        (Some(digest), _) => format!("@{digest}"),
                        (None, Some(tag)) => format!(":{tag}"),
                        (None, None) => tag.to_owned(),
                    };
                    container["image"] = format!("{name}{tag}").into();
                }
            }
            fields.values_mut().for_each(|field| rename_image(field, entry));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_image(item, entry)),
        _ => {}
    }
}

/// An image's name, and its tag or digest with the sign before it.
pub(super) fn split_image(image: &str) -> (&str, &str) {
    let end = image.find('@').unwrap_or(image.len());
    let start = image[..end].rfind('/').map_or(0, |slash| slash + 1);
    let end = image[start..end].find(':').map_or(end, |colon| start + colon);
    image.split_at(end)
}

/// Gives all objects other names, also where others of them name them.
fn rename(objects: &mut [Value], prefix: &str, suffix: &str) {
    if prefix.is_empty() && suffix.is_empty() {
        return;
    }
    let mut renamed = Vec::new();
    for object in objects.iter_mut() {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if UNPREFIXED.contains(&kind.as_str()) {
            continue;
        }
        let old = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        object["metadata"]["name"] = format!("{prefix}{old}{suffix}").into();
        renamed.push((kind, old));
    }
    let give = |kind: &str, name: &mut Value| {
        let is_one = renamed
            .iter()
            .any(|(known, old)| known == kind && *name == old.as_str());
        if let Some(old) = name.as_str().filter(|_| is_one) {
            *name = format!("{prefix}{old}{suffix}").into();
        }
    };
    for object in objects {
        let role = object["roleRef"]["kind"].as_str().unwrap_or_default().to_owned();
        if let Some(name) = object.pointer_mut("/roleRef/name") {
            give(&role, name);
        }
        for subject in object
            .get_mut("subjects")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            let kind = subject["kind"].as_str().unwrap_or_default().to_owned();
            give(&kind, &mut subject["name"]);
        }
        if let Some(pod) = object.pointer_mut("/spec/template/spec") {
            rename_in_pod(pod, &give);
        }
    }
}

/// What a pod names: its account, ConfigMaps and Secrets.
fn rename_in_pod(value: &mut Value, give: &dyn Fn(&str, &mut Value)) {
    const NAMED: [(&str, &str, &str); 6] = [
        ("configMap", "name", "ConfigMap"),
        ("configMapRef", "name", "ConfigMap"),
        ("configMapKeyRef", "name", "ConfigMap"),
        ("secret", "secretName", "Secret"),
        ("secretRef", "name", "Secret"),
        ("secretKeyRef", "name", "Secret"),
    ];
    match value {
        Value::Object(fields) => {
            if let Some(name) = fields.get_mut("serviceAccountName") {
                give("ServiceAccount", name);
            }
            for (field, name, kind) in NAMED {
                if let Some(name) = fields.get_mut(field).and_then(|field| field.get_mut(name)) {
                    give(kind, name);
                }
            }
            fields.values_mut().for_each(|field| rename_in_pod(field, give));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_in_pod(item, give)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: manager}\nspec:\n  template:\n    spec:\n      \
        serviceAccountName: manager\n      containers:\n      - name: a\n        image: controller:latest\n        args: [run]\n        \
        envFrom: [{configMapRef: {name: settings}}, {secretRef: {name: elsewhere}}]\n";
    const BINDING: &str = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b}\nroleRef: {kind: Role, name: r}\n\
        subjects: [{kind: ServiceAccount, name: manager}]\n---\nkind: Role\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {name: r}\n";
    const OTHERS: &str = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: manager}}\n---\n{apiVersion: v1, kind: ConfigMap, \
        metadata: {name: settings}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: system}}\n";

    #[test]
    fn a_tree_is_what_kustomize_makes_of_it() {
        let folder = tree(&[
            (
                "config/default/kustomization.yaml",
                "namespace: x\nnamePrefix: shop-\nlabels:\n- pairs: {part-of: shop}\nresources: [../a, others.yaml]\n\
                 patches:\n- path: args.yaml\n  target: {kind: Deployment}\n",
            ),
            (
                "config/default/args.yaml",
                "- {op: add, path: /spec/template/spec/containers/0/args/0, value: --first}\n",
            ),
            ("config/default/others.yaml", OTHERS),
            (
                "config/a/kustomization.yml",
                "resources: [deployment.yaml, binding.yaml]\nimages: [{name: controller, newName: example.com:5000/shop, newTag: 1.0.0}]\n",
            ),
            ("config/a/deployment.yaml", DEPLOYMENT),
            ("config/a/binding.yaml", BINDING),
        ]);
        let objects = build(folder.path(), Path::new("config/default")).unwrap();
        let names: Vec<_> = objects
            .iter()
            .map(|object| object["metadata"]["name"].clone())
            .collect();
        assert_eq!(
            names,
            [
                "shop-manager",
                "shop-b",
                "shop-r",
                "shop-manager",
                "shop-settings",
                "system"
            ]
        );
        assert!(
            objects
                .iter()
                .all(|object| object["metadata"]["labels"]["part-of"] == "shop")
        );
        let pod = &objects[0]["spec"]["template"]["spec"];
        assert_eq!(pod["serviceAccountName"], "shop-manager");
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "example.com:5000/shop:1.0.0");
        assert_eq!(container["args"], serde_json::json!(["--first", "run"]));
        assert_eq!(container["envFrom"][0]["configMapRef"]["name"], "shop-settings");
        assert_eq!(container["envFrom"][1]["secretRef"]["name"], "elsewhere");
        assert_eq!(objects[1]["roleRef"]["name"], "shop-r");
        assert_eq!(objects[1]["subjects"][0]["name"], "shop-manager");
    }

    #[test]
    fn what_is_not_understood_is_told_with_its_line() {
        for (kustomization, expected) in [
            (
                "resources: []\nconfigMapGenerator: []\n",
                "k/kustomization.yaml:2: `configMapGenerator` needs the real kustomize",
            ),
            ("resources: [https://example.com/x]\n", "is no file or folder here"),
            ("resources:\n- none.yaml\n", "k/kustomization.yaml:1 lists none.yaml"),
            ("resources: [../k]\n", "is part of itself"),
            ("resources: [../none]\n", "none"),
            (
                "patches:\n- patch: '{spec: 1}'\n  target: {kind: Deployment}\n",
                "only patches of JSON operations",
            ),
            (
                "labels:\n- includeSelectors: true\n",
                "k/kustomization.yaml:1: labels of selectors",
            ),
            ("resources: [a.yaml]\n", "without `apiVersion`"),
            ("resources: [\n", "k/kustomization.yaml"),
        ] {
            let folder = tree(&[("k/kustomization.yaml", kustomization), ("k/a.yaml", "a: b\n")]);
            let error = format!("{:#}", build(folder.path(), Path::new("k")).unwrap_err());
            assert!(error.contains(expected), "{kustomization}: {error}");
        }
    }

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
