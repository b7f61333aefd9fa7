//! What people write about an operator by hand, in config/manifests/bases as operator-sdk has it, and what it begins with: what the
//! charts say of themselves.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::BundleSource;
use super::check::{CATEGORIES, is_email, is_link};
use super::descriptors::title;
use helm_template::chart::{Chart, Metadata};
use helm_template::sprig::semver::Version;

/// A version that says that there is none yet.
pub(super) const NO_VERSION: &str = "0.0.0";

/// Since then server-side apply, and CEL in definitions are on by default.
const MIN_KUBE_VERSION: (u64, u64, u64) = (1, 25, 0);

/// Categories of Artifact Hub, with OLM's.
const OF_ARTIFACT_HUB: [(&str, &str); 7] = [
    ("ai-machine-learning", "AI/Machine Learning"),
    ("database", "Database"),
    ("integration-delivery", "Integration & Delivery"),
    ("monitoring-logging", "Monitoring"),
    ("networking", "Networking"),
    ("security", "Security"),
    ("storage", "Storage"),
];

/// The base of a project that has none.
pub(super) fn default(source: &BundleSource) -> Value {
    let charts: Vec<&Chart> = source.kinds.iter().map(|kind| &kind.chart).collect();
    let about: Vec<&Metadata> = charts.iter().map(|chart| &chart.metadata).collect();
    let mut annotations = json!({"capabilities": "Basic Install"});
    let categories: BTreeSet<&str> = about.iter().filter_map(|about| category(about)).collect();
    if !categories.is_empty() {
        let categories: Vec<&str> = categories.into_iter().collect();
        annotations["categories"] = categories.join(", ").into();
    }
    let mut maintainers: Vec<Value> = Vec::new();
    let mut links: Vec<Value> = Vec::new();
    let mut keywords = vec![source.package.clone()];
    for about in &about {
        let known = about.maintainers.iter();
        for one in known.filter(|one| !one.name.is_empty() && is_email(&one.email)) {
            push(&mut maintainers, json!({"name": one.name, "email": one.email}));
        }
        if is_link(&about.home) {
            push(&mut links, json!({"name": title(&about.name), "url": about.home}));
        }
        let source = format!("Source of {}", title(&about.name));
        if let Some(url) = about.sources.iter().find(|url| is_link(url)) {
            push(&mut links, json!({"name": source, "url": url}));
        }
        about.keywords.iter().for_each(|word| push(&mut keywords, word.clone()));
    }
    let names = about.iter().flat_map(|about| &about.maintainers);
    let mut names = names.map(|one| &one.name).chain([&source.domain, &source.package]);
    let provider = names.find(|name| !name.is_empty());
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{}.v{NO_VERSION}", source.package),
            "namespace": "placeholder",
            "annotations": annotations,
        },
        "spec": {
            "displayName": title(&source.package),
            "description": description(source),
            "version": NO_VERSION,
            "maturity": "alpha",
            "minKubeVersion": min_kube_version(&about),
            "keywords": keywords,
            "links": links,
            "maintainers": maintainers,
            "provider": {"name": provider},
            "installModes": install_modes(),
        },
    })
}

/// For the whole cluster: the roles of a project are for that, and OLM v1 knows no other mode by default.
pub(super) fn install_modes() -> Value {
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    let modes = modes.map(|mode| json!({"type": mode, "supported": mode == "AllNamespaces"}));
    modes.to_vec().into()
}

fn push<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// In Markdown, as consoles show it.
fn description(source: &BundleSource) -> String {
    let sentence = |text: &str| match text.trim() {
        "" => String::new(),
        text => format!("{}.", text.trim_end_matches('.')),
    };
    let lines = source.kinds.iter().map(|kind| {
        let about = &kind.chart.metadata;
        let version = match about.app_version.as_str() {
            "" => &about.version,
            version => version,
        };
        let line = format!("- **{}** ({} {version})", kind.group_kind.kind, about.name);
        match sentence(&about.description) {
            text if text.is_empty() => line,
            text => format!("{line}: {text}"),
        }
    });
    let lines: Vec<String> = lines.collect();
    format!(
        "Installs these from custom resources, and keeps them as they say:\n\n{}\n",
        lines.join("\n")
    )
}

/// The category that a chart says it has, in the words of OLM or of Artifact Hub.
fn category(about: &Metadata) -> Option<&'static str> {
    let annotations = about.annotations.as_ref()?;
    let said = annotations
        .get("artifacthub.io/category")
        .or_else(|| annotations.get("category"))?;
    let known = OF_ARTIFACT_HUB.iter().find(|(name, _)| name == said);
    let same = || CATEGORIES.iter().find(|name| name.eq_ignore_ascii_case(said));
    known.map(|(_, category)| *category).or_else(|| same().copied())
}

/// The oldest Kubernetes that all charts say they run on.
fn min_kube_version(about: &[&Metadata]) -> String {
    let least = about.iter().flat_map(|about| lower_bounds(&about.kube_version));
    let (major, minor, patch) = least.chain([MIN_KUBE_VERSION]).max().unwrap_or(MIN_KUBE_VERSION);
    format!("{major}.{minor}.{patch}")
}

/// The bounds of a constraint without alternatives, such as `>=1.25.0-0 <2`.
fn lower_bounds(constraint: &str) -> Vec<(u64, u64, u64)> {
    if constraint.contains("||") {
        return Vec::new();
    }
    let parts = constraint.replace(">= ", ">=").replace("^ ", "^").replace("~ ", "~");
    let parts = parts.split([' ', ',']).filter_map(|part| {
        let version = part.strip_prefix(">=").or_else(|| part.strip_prefix(['^', '~']))?;
        let Version {
            major, minor, patch, ..
        } = Version::parse(version).ok()?;
        Some((major, minor, patch))
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_kubernetes_is_that_of_the_youngest_chart() {
        let of = |constraints: &[&str]| {
            let charts: Vec<Metadata> = constraints
                .iter()
                .map(|constraint| Metadata {
                    kube_version: (*constraint).to_owned(),
                    ..Metadata::default()
                })
                .collect();
            min_kube_version(&charts.iter().collect::<Vec<_>>())
        };
        for (constraints, expected) in [
            (&[""][..], "1.25.0"),
            (&[">=1.27.0-0", ">= 1.26"], "1.27.0"),
            (&["^1.28.3, <2"], "1.28.3"),
            (&["1.19 - 1.33"], "1.25.0"),
            (&[">=1.30 || >=1.29"], "1.25.0"),
        ] {
            assert_eq!(of(constraints), expected, "{constraints:?}");
        }
    }

    #[test]
    fn categories_are_those_of_olm() {
        let of = |key: &str, value: &str| {
            category(&Metadata {
                annotations: Some([(key.to_owned(), value.to_owned())].into()),
                ..Metadata::default()
            })
        };
        assert_eq!(
            of("artifacthub.io/category", "integration-delivery"),
            Some("Integration & Delivery")
        );
        assert_eq!(of("category", "DATABASE"), Some("Database"));
        assert_eq!(of("category", "Infrastructure"), None);
        assert!(OF_ARTIFACT_HUB.iter().all(|(_, name)| CATEGORIES.contains(name)));
    }
}
