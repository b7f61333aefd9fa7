//! The rules for a ClusterServiceVersion.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::{BundleFinding, CATEGORIES, is_email, is_image, is_link, is_version};
use crate::text_at as text;
use chartwright_core::identity::GroupKind;
use chartwright_watches::names::{is_dns_subdomain, is_label_value};

/// How much an operator does for what it installs.
const CAPABILITIES: [&str; 5] = [
    "Basic Install",
    "Seamless Upgrades",
    "Full Lifecycle",
    "Deep Insights",
    "Auto Pilot",
];
const MODES: [&str; 4] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
const ICONS: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/svg+xml"];
const SKIP_RANGE: &str = "olm.skipRange";

/// Collects what is found in one file.
struct CsvReport<'f> {
    file: &'f str,
    found: &'f mut Vec<BundleFinding>,
}

impl CsvReport<'_> {
    fn error(&mut self, message: impl Into<String>) {
        self.found.push(BundleFinding::error(self.file, message));
    }

    fn warning(&mut self, message: impl Into<String>) {
        self.found.push(BundleFinding::warning(self.file, message));
    }

    /// An error unless it holds.
    fn holds(&mut self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.error(message());
        }
    }
}

pub(super) fn check(file: &str, csv: &Value, package: Option<&str>, found: &mut Vec<BundleFinding>) {
    let mut report = CsvReport { file, found };
    names(csv, package, &mut report);
    annotations(csv, &mut report);
    modes(csv, &mut report);
    about(csv, &mut report);
    examples(csv, &mut report);
    images(csv, &mut report);
    install(csv, &mut report);
}

fn items<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Why something can't be the name of a bundle: it becomes that of an object, and a label's value.
fn problem_of_name(name: &str) -> Option<String> {
    if name.len() > 63 {
        return Some(format!("{name:?} has {} characters, and 63 are the most", name.len()));
    }
    let is_name = is_dns_subdomain(name) && is_label_value(name);
    (!is_name).then(|| format!("{name:?} can't be the name of an object: small letters, digits, - and ."))
}

fn names(csv: &Value, package: Option<&str>, report: &mut CsvReport<'_>) {
    let is_kind = csv["apiVersion"] == "operators.coreos.com/v1alpha1";
    report.holds(is_kind, || {
        "`apiVersion` has to be operators.coreos.com/v1alpha1".to_owned()
    });
    let name = text(csv, "/metadata/name");
    if let Some(problem) = problem_of_name(name) {
        report.error(format!("metadata.name: {problem}"));
    }
    let version = text(csv, "/spec/version");
    report.holds(is_version(version) && version != "0.0.0", || {
        format!("spec.version: {version:?} is no version of a release, such as 0.1.0")
    });
    if let Some(package) = package
        && name != format!("{package}.v{version}")
    {
        report.warning(format!("metadata.name: usual is {package}.v{version}, and not {name}"));
    }
    let replaced = text(csv, "/spec/replaces");
    if let Some(problem) = problem_of_name(replaced).filter(|_| !replaced.is_empty()) {
        report.error(format!("spec.replaces: {problem}"));
    }
    report.holds(replaced.is_empty() || replaced != name, || {
        "spec.replaces: a bundle can't replace itself".to_owned()
    });
    let oldest = text(csv, "/spec/minKubeVersion");
    if oldest.is_empty() {
        report
            .warning("spec.minKubeVersion is missing: the oldest Kubernetes that the operator runs on, such as 1.25.0")
    } else {
        report.holds(is_version(oldest), || {
            format!("spec.minKubeVersion: {oldest:?} is no version with three numbers, such as 1.25.0")
        })
    }
}

fn annotations(csv: &Value, report: &mut CsvReport<'_>) {
    let annotations = csv["metadata"]["annotations"].as_object();
    for (key, value) in annotations.into_iter().flatten() {
        if key.eq_ignore_ascii_case(SKIP_RANGE) && key != SKIP_RANGE {
            report.error(format!("metadata.annotations: {key} has to be written {SKIP_RANGE}"));
        }
        report.holds(value.is_string(), || format!("metadata.annotations: {key} is no text"));
    }
    let text = |name: &str| annotations.and_then(|all| all.get(name)).and_then(Value::as_str);
    if let Some(level) = text("capabilities") {
        report.holds(CAPABILITIES.contains(&level), || {
            format!(
                "the annotation capabilities: {level:?} is none of {}",
                CAPABILITIES.join(", ")
            )
        });
    }
    for category in text("categories")
        .into_iter()
        .flat_map(|all| all.split(','))
        .map(str::trim)
    {
        report.holds(CATEGORIES.contains(&category), || {
            format!(
                "the annotation categories: {category:?} is none of {}",
                CATEGORIES.join(", ")
            )
        });
    }
    if let Some(range) = text(SKIP_RANGE) {
        report.holds(is_range(range), || {
            format!("the annotation {SKIP_RANGE}: {range:?} is no range of versions, such as \">=0.1.0 <0.3.0\"")
        });
    }
}

/// A range as github.com/blang/semver reads it.
fn is_range(text: &str) -> bool {
    static COMPARISON: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let version = r"[0-9]+(\.([0-9]+|x)){1,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?";
        let comparison = format!(r"(=|==|!|!=|>|>=|<|<=)?\s*{version}");
        Regex::new(&format!(r"^\s*{comparison}(\s+{comparison})*\s*$")).ok()
    });
    let is_part = |part: &str| COMPARISON.as_ref().is_some_and(|one| one.is_match(part));
    text.split("||").all(is_part)
}

fn modes(csv: &Value, report: &mut CsvReport<'_>) {
    let modes = items(csv, "/spec/installModes");
    report.holds(!modes.is_empty(), || "spec.installModes is missing".to_owned());
    let mut seen = BTreeSet::new();
    for mode in modes {
        let name = text(mode, "/type");
        report.holds(MODES.contains(&name), || {
            format!("spec.installModes: {name:?} is none of {}", MODES.join(", "))
        });
        report.holds(seen.insert(name), || {
            format!("spec.installModes: {name} is there twice")
        });
    }
    let is_supported = |name: &str| {
        modes
            .iter()
            .any(|mode| mode["type"] == name && mode["supported"] == true)
    };
    report.holds(modes.is_empty() || is_supported("AllNamespaces"), || {
        "spec.installModes: AllNamespaces has to be supported: OLM v1 knows no other mode by default".to_owned()
    });
    if !items(csv, "/spec/customresourcedefinitions/required").is_empty() {
        report.warning("spec.customresourcedefinitions.required: OLM v1 installs no bundle that depends on others");
    }
}

/// What people read.
fn about(csv: &Value, report: &mut CsvReport<'_>) {
    for field in ["displayName", "description"] {
        if text(csv, &format!("/spec/{field}")).trim().is_empty() {
            report.warning(format!("spec.{field} is missing"));
        }
    }
    report.holds(!text(csv, "/spec/provider/name").trim().is_empty(), || {
        "spec.provider.name is missing: who provides the operator".to_owned()
    });
    for one in items(csv, "/spec/maintainers") {
        let (name, email) = (text(one, "/name"), text(one, "/email"));
        report.holds(!name.is_empty() && is_email(email), || {
            format!("spec.maintainers: {name:?} needs a name and an e-mail address")
        });
    }
    for link in items(csv, "/spec/links") {
        let (name, url) = (text(link, "/name"), text(link, "/url"));
        report.holds(!name.is_empty() && is_link(url), || {
            format!("spec.links: {name:?} needs a name and a `url` with https://")
        });
    }
    match &csv["spec"]["icon"] {
        Value::Null => report.warning("spec.icon is missing: one picture, as base64data and mediatype"),
        icons => match icons.as_array().map(Vec::as_slice) {
            Some([icon]) => {
                let data = text(icon, "/base64data");
                let is_data = !data.is_empty() && data_encoding::BASE64.decode(data.as_bytes()).is_ok();
                report.holds(is_data, || {
                    "spec.icon: `base64data` is missing, or no base64".to_owned()
                });
                let media = text(icon, "/mediatype");
                report.holds(ICONS.contains(&media), || {
                    format!("spec.icon: the mediatype {media:?} is none of {}", ICONS.join(", "))
                });
            }
            _ => report.error("spec.icon: one picture, and no more"),
        },
    }
}

fn examples(csv: &Value, report: &mut CsvReport<'_>) {
    let examples: Option<Vec<Value>> = serde_json::from_str(text(csv, "/metadata/annotations/alm-examples")).ok();
    let Some(examples) = examples else {
        return report.error("the annotation alm-examples is missing, or no list in JSON");
    };
    let owned = items(csv, "/spec/customresourcedefinitions/owned");
    let owned = owned.iter().filter_map(|entry| {
        let (_, group) = text(entry, "/name").split_once('.')?;
        Some((
            GroupKind::new(group, text(entry, "/kind")),
            text(entry, "/version").to_owned(),
        ))
    });
    let owned: Vec<(GroupKind, String)> = owned.collect();
    let shown: Vec<(GroupKind, String)> = examples.iter().filter_map(GroupKind::of).collect();
    for (kind, version) in &shown {
        report.holds(owned.contains(&(kind.clone(), version.clone())), || {
            format!("the annotation alm-examples: {kind} in {version} is not owned")
        });
    }
    for (kind, version) in &owned {
        let is_shown = shown.contains(&(kind.clone(), version.clone()));
        match shown.iter().any(|(shown, _)| shown == kind) {
            true if is_shown => {}
            true => report.warning(format!(
                "the annotation alm-examples: {kind} has no example in {version}"
            )),
            false => report.error(format!("the annotation alm-examples: {kind} has no example")),
        }
    }
}

fn images(csv: &Value, report: &mut CsvReport<'_>) {
    for related in items(csv, "/spec/relatedImages") {
        let image = text(related, "/image");
        report.holds(is_image(image), || {
            format!("spec.relatedImages: {image:?} is no name of an image")
        });
    }
}

fn install(csv: &Value, report: &mut CsvReport<'_>) {
    let strategy = text(csv, "/spec/install/strategy");
    report.holds(strategy == "deployment", || {
        "spec.install.strategy has to be deployment".to_owned()
    });
    let deployments = items(csv, "/spec/install/spec/deployments");
    report.holds(!deployments.is_empty(), || "spec.install has no Deployment".to_owned());
    let mut seen = BTreeSet::new();
    for deployment in deployments {
        let name = text(deployment, "/name");
        report.holds(is_dns_subdomain(name), || {
            format!("spec.install: {name:?} can't be the name of a Deployment")
        });
        report.holds(seen.insert(name), || {
            format!("spec.install: two Deployments are called {name}")
        });
        for container in items(deployment, "/spec/template/spec/containers") {
            let requests = &container["resources"]["requests"];
            if requests["cpu"].is_null() || requests["memory"].is_null() {
                let name = text(container, "/name");
                report.warning(format!(
                    "spec.install: the container {name} has no requests of cpu and memory"
                ));
            }
        }
    }
    let rules = ["clusterPermissions", "permissions"].into_iter();
    let rules = rules.flat_map(|field| items(csv, &format!("/spec/install/spec/{field}")));
    let mut rules = rules.flat_map(|permission| items(permission, "/rules"));
    let has = |rule: &Value, field: &str, words: &[&str]| {
        let listed = items(rule, &format!("/{field}")).iter();
        listed.filter_map(Value::as_str).any(|word| words.contains(&word))
    };
    let makes_definitions = rules.any(|rule| {
        has(rule, "apiGroups", &["apiextensions.k8s.io"])
            && has(rule, "resources", &["customresourcedefinitions", "*"])
            && has(rule, "verbs", &["create", "patch", "*"])
    });
    if makes_definitions {
        report
            .warning("spec.install: the operator may make CustomResourceDefinitions, which OLM would rather do itself");
    }
}
