//! The ClusterServiceVersion: what is written by hand, with what the manifests, the definitions and the samples say.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::check::{self, BundleFinding};
use super::descriptors::{self, title};
use super::install::{self, Split};
use super::{BundleOptions, BundleSource, base, kind_of, kustomize, served};
use crate::text_at;
use chartwright_core::identity::GroupKind;

/// Variables of the operator that name images of what it installs, as operator-sdk knows them.
const RELATED_IMAGE: &str = "RELATED_IMAGE_";
pub(super) const SKIP_RANGE: &str = "olm.skipRange";

/// Makes the ClusterServiceVersion, and the other manifests by the names of their files.
///
/// # Errors
/// The manifests or the options are wrong.
pub(super) fn make(
    source: &BundleSource,
    base: &Value,
    version: &str,
    asked: &BundleOptions,
    findings: &mut Vec<BundleFinding>,
) -> anyhow::Result<(Value, BTreeMap<String, Value>)> {
    let Split { mut install, rest } = install::split(&source.manifests)?;
    if let Some(image) = &asked.image {
        set_image(&mut install, image);
    }
    let mut csv = base.clone();
    csv["metadata"]["name"] = format!("{}.v{version}", source.package).into();
    if let Some(metadata) = csv["metadata"].as_object_mut() {
        // operator-sdk's bases have one; where a bundle lands isn't known here.
        metadata.remove("namespace");
    }
    let annotations = &mut csv["metadata"]["annotations"];
    annotations["alm-examples"] = format!("{:#}", Value::Array(examples(source))).into();
    let image = operator_image(&install);
    if let Some(image) = &image {
        annotations["containerImage"] = image.as_str().into();
    }
    if let Some(range) = &asked.skip_range {
        annotations[SKIP_RANGE] = range.as_str().into();
    }
    let spec = &mut csv["spec"];
    spec["version"] = version.into();
    if let Some(replaced) = &asked.replaces {
        spec["replaces"] = if check::is_version(replaced) {
            format!("{}.v{replaced}", source.package).into()
        } else {
            replaced.as_str().into()
        };
    }
    if spec["installModes"].is_null() {
        spec["installModes"] = base::install_modes();
    }
    let is_empty = |icon: &Value| icon["base64data"] == "";
    if let Some(spec) = spec.as_object_mut()
        && spec
            .get("icon")
            .and_then(Value::as_array)
            .is_some_and(|icons| icons.iter().all(is_empty))
    {
        // What operator-sdk writes where there is none.
        spec.remove("icon");
    }
    let required = spec["customresourcedefinitions"].get("required").cloned();
    spec["customresourcedefinitions"] = json!({"owned": owned(source, &spec["customresourcedefinitions"])});
    if let Some(required) = required {
        spec["customresourcedefinitions"]["required"] = required;
    }
    spec["relatedImages"] = related_images(source, &install, &spec["relatedImages"]).into();
    spec["install"] = install;
    let objects = files_of(rest, findings);
    Ok((csv, objects))
}

/// The containers of all Deployments.
fn containers(install: &Value) -> impl Iterator<Item = &Value> {
    let deployments = install["spec"]["deployments"].as_array().into_iter().flatten();
    deployments.flat_map(|deployment| {
        let pod = &deployment["spec"]["template"]["spec"];
        let all = ["containers", "initContainers"].into_iter();
        all.flat_map(|field| pod[field].as_array().into_iter().flatten())
    })
}

/// The operator's image: that of the first container, which is called manager where there are others.
pub(super) fn operator_image(install: &Value) -> Option<String> {
    let manager = containers(install).find(|container| container["name"] == "manager");
    let manager = manager.or_else(|| containers(install).next())?;
    manager["image"].as_str().map(str::to_owned)
}

fn set_image(install: &mut Value, image: &str) {
    let Some(old) = operator_image(install) else { return };
    let deployments = install["spec"]["deployments"].as_array_mut().into_iter().flatten();
    for deployment in deployments {
        for field in ["containers", "initContainers"] {
            let list = deployment["spec"]["template"]["spec"].get_mut(field);
            for container in list.and_then(Value::as_array_mut).into_iter().flatten() {
                if container["image"] == old.as_str() {
                    container["image"] = image.into();
                }
            }
        }
    }
}

/// One example of each version of each kind that has one.
fn examples(source: &BundleSource) -> Vec<Value> {
    let mut examples: Vec<Value> = Vec::new();
    for sample in &source.samples {
        let is_same = |other: &Value| other["apiVersion"] == sample["apiVersion"] && other["kind"] == sample["kind"];
        let Some((kind, version)) = GroupKind::of(sample) else {
            continue;
        };
        let is_of = |crd: &Value| kind_of(crd) == kind && served(crd).contains(&version.as_str());
        let is_owned = source.definitions().any(is_of);
        if is_owned && !examples.iter().any(is_same) {
            examples.push(sample.clone());
        }
    }
    examples
}

/// What is said of each definition. What is written by hand has the last word.
fn owned(source: &BundleSource, by_hand: &Value) -> Vec<Value> {
    let mut owned = Vec::new();
    for crd in source.definitions() {
        let kind = &crd["spec"]["names"]["kind"];
        let name = kind.as_str().unwrap_or_default();
        let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
        for version in versions.filter(|version| version["served"] == true) {
            let description = version["schema"]["openAPIV3Schema"]["description"].as_str();
            let description = description.map_or_else(|| format!("A {}.", title(name)), str::to_owned);
            let mut entry = json!({
                "name": crd["metadata"]["name"], "kind": kind, "version": version["name"],
                "displayName": title(name), "description": description,
                "specDescriptors": descriptors::of_spec(version),
                "statusDescriptors": descriptors::of_status(version),
            });
            let resources = resources(source, &crd["spec"]["group"], kind);
            if !resources.is_empty() {
                entry["resources"] = resources.into();
            }
            let key = |entry: &Value| ["name", "kind", "version"].map(|field| entry[field].clone());
            let is_same = |other: &&Value| key(other) == key(&entry);
            let known = by_hand["owned"].as_array().into_iter().flatten().find(is_same);
            let fields = known.and_then(Value::as_object).cloned();
            for (field, value) in fields.into_iter().flatten() {
                entry[field] = value;
            }
            owned.push(entry);
        }
    }
    owned
}

/// The kinds that a chart makes, which consoles list below a custom resource.
fn resources(source: &BundleSource, group: &Value, kind: &Value) -> Vec<Value> {
    let is_of = |known: &&super::BundleKind| {
        *group == known.group_kind.group.as_str() && *kind == known.group_kind.kind.as_str()
    };
    let Some(known) = source.kinds.iter().find(is_of) else {
        return Vec::new();
    };
    let kinds = known.survey.kinds().map(|(api_version, kind)| {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        json!({"kind": kind, "version": version, "name": ""})
    });
    kinds.collect()
}

/// All images that may be needed: for who has to copy them before.
fn related_images(source: &BundleSource, install: &Value, by_hand: &Value) -> Vec<Value> {
    let mut images: Vec<Value> = by_hand.as_array().cloned().unwrap_or_default();
    let mut add = |name: &str, image: &str| {
        if image.is_empty() || images.iter().any(|known| known["image"] == image) {
            return;
        }
        let is_used = |name: &str| images.iter().any(|known| known["name"] == name);
        let mut names = (2..).map(|number| format!("{name}-{number}"));
        let name = if is_used(name) {
            names.find(|name| !is_used(name)).unwrap_or_default()
        } else {
            name.to_owned()
        };
        images.push(json!({"name": name, "image": image}));
    };
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    for container in containers(install) {
        add(&text(&container["name"]), &text(&container["image"]));
        for variable in container["env"].as_array().into_iter().flatten() {
            if let Some(name) = text(&variable["name"]).strip_prefix(RELATED_IMAGE) {
                add(&name.to_lowercase().replace('_', "-"), &text(&variable["value"]));
            }
        }
    }
    for kind in &source.kinds {
        for image in kind.survey.images() {
            let (name, _) = kustomize::split_image(image);
            add(name.rsplit('/').next().unwrap_or(name), image);
        }
    }
    images
}

/// What the bundle has beside the ClusterServiceVersion, as OLM takes it.
fn files_of(rest: Vec<Value>, findings: &mut Vec<BundleFinding>) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for mut object in rest {
        let text = |pointer: &str| text_at(&object, pointer).to_owned();
        let (kind, name) = (text("/kind"), text("/metadata/name"));
        if !check::KINDS.contains(&kind.as_str()) {
            // The namespace is chosen when the operator is installed.
            if kind != "Namespace" {
                let message = format!("OLM takes no {kind} in a bundle: {name} is left out");
                findings.push(BundleFinding::warning("manifests", message));
            }
            continue;
        }
        let api_version = text("/apiVersion").replace('/', "_");
        let file = match kind.as_str() {
            "CustomResourceDefinition" => format!("{}_{}.yaml", text("/spec/group"), text("/spec/names/plural")),
            _ => format!("{name}_{api_version}_{}.yaml", kind.to_lowercase()),
        };
        // Names come from manifests, and some kinds may have any.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let file = file.replace(|c| !is_plain(c), "-");
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
            metadata.retain(|_, value| !value.is_null());
        }
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
        }
        objects.insert(file, object);
    }
    objects
}
