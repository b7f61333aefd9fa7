//! The rules that are documented for bundles of the format registry+v1, over the files of one. Facts: `ValidateBundleFormat` and
//! `ValidateBundleContent` of operator-registry, the validators of operator-framework/api (bundle, CSV, operatorhub/v2, capabilities,
//! categories, objects, good practices), and those of OLM v1 (operator-controller's `rukpak`).

mod csv;

use std::collections::BTreeSet;
use std::fmt;
use std::io::Write as _;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use regex::Regex;
use serde_json::Value;

use super::{BundleFiles, kustomize, metadata};

/// What a bundle may have (`pkg/lib/bundle/supported_resources.go`).
pub(super) const KINDS: [&str; 22] = [
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Secret",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "ServiceAccount",
    "Service",
    "Role",
    "RoleBinding",
    "PrometheusRule",
    "ServiceMonitor",
    "PodDisruptionBudget",
    "PriorityClass",
    "VerticalPodAutoscaler",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
    "NetworkPolicy",
    "PodMonitor",
];

/// What operatorhub.io sorts operators by.
pub(super) const CATEGORIES: [&str; 16] = [
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
];

/// OLM stores an unpacked bundle in one ConfigMap.
const LARGEST: usize = 1 << 20;
/// Larger bundles get a warning.
const LARGE: usize = LARGEST / 100 * 85;

const LABELS: &str = "operators.operatorframework.io.bundle";

/// A bundle breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleFinding {
    /// False for a warning.
    pub is_error: bool,
    /// The path within the bundle.
    pub file: String,
    /// One sentence.
    pub message: String,
}

impl BundleFinding {
    pub(super) fn error(file: &str, message: impl Into<String>) -> Self {
        BundleFinding {
            is_error: true,
            file: file.to_owned(),
            message: message.into(),
        }
    }

    pub(super) fn warning(file: &str, message: impl Into<String>) -> Self {
        BundleFinding {
            is_error: false,
            ..BundleFinding::error(file, message)
        }
    }
}

impl fmt::Display for BundleFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.message)
    }
}

/// The objects of a bundle, with the names of their files.
type Objects<'f> = Vec<(&'f str, Value)>;

/// Checks a bundle.
pub fn check(files: &BundleFiles) -> Vec<BundleFinding> {
    let mut found = Vec::new();
    let objects = objects(files, &mut found);
    let csvs: Vec<&(&str, Value)> = of_kind(&objects, "ClusterServiceVersion").collect();
    let package = annotations(files, &mut found);
    match csvs[..] {
        [(file, csv)] => {
            csv::check(file, csv, package.as_deref(), &mut found);
            definitions(file, csv, &objects, &mut found);
            accounts(csv, &objects, &mut found);
        }
        ref csvs => {
            let message = format!("a bundle has one ClusterServiceVersion, and this has {}", csvs.len());
            found.push(BundleFinding::error("manifests", message));
        }
    }
    size(files, &mut found);
    found
}

/// Reads the objects in `manifests` and reports files with several objects and kinds that OLM refuses.
fn objects<'f>(files: &'f BundleFiles, found: &mut Vec<BundleFinding>) -> Objects<'f> {
    let mut objects = Vec::new();
    for (file, text) in files {
        let Some(name) = file.strip_prefix("manifests/") else {
            continue;
        };
        let mut report_error = |message: String| found.push(BundleFinding::error(file, message));
        if name.contains('/') || name.starts_with('.') {
            report_error("folders and hidden files aren't allowed in manifests".to_owned());
            continue;
        }
        let mut read = match kustomize::parse(text) {
            Ok(read) => read,
            Err(error) => {
                report_error(format!("{error:#}"));
                continue;
            }
        };
        let object = match (read.pop(), read.len()) {
            (Some(object), 0) => object,
            _ => {
                report_error("one object a file: OLM's tools read no more than the first".to_owned());
                continue;
            }
        };
        let kind = object["kind"].as_str().unwrap_or_default();
        if !KINDS.contains(&kind) {
            report_error(format!("OLM takes no {kind} in a bundle"));
        }
        if !object["metadata"]["namespace"].is_null() {
            report_error(
                "`metadata.namespace` has no place in a bundle: the namespace is chosen when the operator is installed"
                    .to_owned(),
            );
        }
        limits(file, &object, found);
        objects.push((file.as_str(), object));
    }
    objects
}

/// What concerns the whole cluster.
fn limits(file: &str, object: &Value, found: &mut Vec<BundleFinding>) {
    let spec = &object["spec"];
    let is = |value: &Value, forbidden: &[Value]| forbidden.contains(value);
    let message = match object["kind"].as_str().unwrap_or_default() {
        "PodDisruptionBudget" if is(&spec["maxUnavailable"], &[0.into(), "0%".into()]) => {
            "`maxUnavailable` of nothing lets no node be drained"
        }
        "PodDisruptionBudget" if spec["minAvailable"] == "100%" => "`minAvailable: 100%` lets no node be drained",
        "PriorityClass" if object["globalDefault"] == true => "`globalDefault: true` is for every pod of the cluster",
        _ => return,
    };
    found.push(BundleFinding::error(file, message));
}

fn of_kind<'o, 'f>(objects: &'o Objects<'f>, kind: &'static str) -> impl Iterator<Item = &'o (&'f str, Value)> {
    objects.iter().filter(move |(_, object)| object["kind"] == kind)
}

/// What is owned is defined, and what is defined is owned.
fn definitions(csv_file: &str, csv: &Value, objects: &Objects<'_>, found: &mut Vec<BundleFinding>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut defined = BTreeSet::new();
    let mut names = BTreeSet::new();
    for (file, crd) in of_kind(objects, "CustomResourceDefinition") {
        let name = text(&crd["metadata"]["name"]);
        if !names.insert(name.clone()) {
            found.push(BundleFinding::error(file, format!("{name} is defined twice")));
        }
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            defined.insert((
                name.clone(),
                text(&crd["spec"]["names"]["kind"]),
                text(&version["name"]),
            ));
        }
    }
    let mut owned = BTreeSet::new();
    for entry in csv["spec"]["customresourcedefinitions"]["owned"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let key = (text(&entry["name"]), text(&entry["kind"]), text(&entry["version"]));
        if !defined.contains(&key) {
            let (name, kind, version) = &key;
            let message =
                format!("the bundle has no CustomResourceDefinition {name} of {kind} in {version}, which is owned");
            found.push(BundleFinding::error(csv_file, message));
        }
        if entry["description"].as_str().is_none_or(str::is_empty) {
            found.push(BundleFinding::warning(
                csv_file,
                format!("{} is owned and has no `description`", key.0),
            ));
        }
        owned.insert(key.0);
    }
    for (file, crd) in of_kind(objects, "CustomResourceDefinition") {
        let name = text(&crd["metadata"]["name"]);
        if !owned.contains(&name) {
            found.push(BundleFinding::error(
                file,
                format!("the ClusterServiceVersion doesn't own {name}"),
            ));
        }
    }
}

/// OLM makes the accounts of Deployments itself.
fn accounts(csv: &Value, objects: &Objects<'_>, found: &mut Vec<BundleFinding>) {
    let deployments = csv["spec"]["install"]["spec"]["deployments"].as_array();
    let accounts: Vec<&Value> = deployments
        .into_iter()
        .flatten()
        .map(|deployment| &deployment["spec"]["template"]["spec"]["serviceAccountName"])
        .collect();
    for (file, account) in of_kind(objects, "ServiceAccount") {
        let name = &account["metadata"]["name"];
        if accounts.contains(&name) {
            found.push(BundleFinding::error(
                file,
                format!("OLM makes the ServiceAccount {name} of the Deployment itself: leave it out"),
            ));
        }
    }
}

/// Checks annotations.yaml and returns the package name.
fn annotations(files: &BundleFiles, found: &mut Vec<BundleFinding>) -> Option<String> {
    let file = metadata::ANNOTATIONS;
    let read = files.get(file).and_then(|text| go_yaml::to_json(text.as_bytes()).ok());
    let labels = read.as_ref().and_then(|file| file["annotations"].as_object());
    let Some(labels) = labels else {
        found.push(BundleFinding::error(file, "it is missing, or has no `annotations`"));
        return None;
    };
    let mut report_error = |message: String| found.push(BundleFinding::error(file, message));
    let text = |name: &str| {
        labels
            .get(&format!("{LABELS}.{name}.v1"))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    for (name, expected) in [
        ("mediatype", "registry+v1"),
        ("manifests", "manifests/"),
        ("metadata", "metadata/"),
    ] {
        if text(name) != expected {
            report_error(format!("`{LABELS}.{name}.v1` has to be {expected}"));
        }
    }
    let package = text("package");
    if !chartwright_watches::names::is_dns_subdomain(package) {
        report_error(format!(
            "{package:?} can't be the name of a package: small letters, digits and -, as in shop-operator"
        ));
    }
    let channels: Vec<&str> = text("channels").split(',').collect();
    if channels.contains(&"") {
        report_error(format!(
            "`{LABELS}.channels.v1` has to name channels, such as candidate,stable"
        ));
    }
    let default = text("channel.default");
    if !default.is_empty() && !channels.contains(&default) {
        report_error(format!("the default channel {default} is none of the channels"));
    }
    for channel in channels {
        let is_usual = ["candidate", "fast", "stable"]
            .iter()
            .any(|usual| channel.starts_with(usual));
        if !channel.is_empty() && !is_usual {
            let message = format!("the channel {channel}: names of channels begin with candidate, fast or stable");
            found.push(BundleFinding::warning(file, message));
        }
    }
    (!package.is_empty()).then(|| package.to_owned())
}

fn size(files: &BundleFiles, found: &mut Vec<BundleFinding>) {
    let size: usize = files.values().map(|text| packed(text)).sum();
    let message = format!(
        "the bundle takes {} KiB packed; {} are the most",
        size >> 10,
        LARGEST >> 10
    );
    if size > LARGEST {
        found.push(BundleFinding::error("manifests", message));
    } else if size > LARGE {
        found.push(BundleFinding::warning("manifests", message));
    }
}

/// What a file takes gzipped, and that in base64.
fn packed(text: &str) -> usize {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    let packed = packer.write_all(text.as_bytes()).and_then(|()| packer.finish());
    packed.map_or(0, |packed| packed.len().div_ceil(3) * 4)
}

/// A semantic version with all its numbers, and without a `v`.
pub(super) fn is_version(text: &str) -> bool {
    static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let number = "(0|[1-9][0-9]*)";
        let identifiers = r"[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*";
        Regex::new(&format!(
            r"^{number}\.{number}\.{number}(-{identifiers})?(\+{identifiers})?$"
        ))
        .ok()
    });
    VERSION.as_ref().is_some_and(|version| version.is_match(text))
}

/// The name of an image as registries know it, with a tag or a digest or neither.
pub fn is_image(text: &str) -> bool {
    static IMAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let host = r"([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]+)?/)?";
        let part = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*";
        let end = r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[a-z0-9]+:[0-9a-f]{32,})?";
        Regex::new(&format!("^{host}{part}(/{part})*{end}$")).ok()
    });
    IMAGE.as_ref().is_some_and(|image| image.is_match(text))
}

/// An address that can be written to.
pub(super) fn is_email(text: &str) -> bool {
    let parts = text.split_once('@');
    let is_part = |part: &str| !part.is_empty() && !part.contains([' ', '@', '<', '>', ',']);
    parts.is_some_and(|(name, host)| is_part(name) && is_part(host))
}

/// An address on the web.
pub(super) fn is_link(text: &str) -> bool {
    url::Url::parse(text).is_ok_and(|url| ["http", "https"].contains(&url.scheme()) && url.has_host())
}
