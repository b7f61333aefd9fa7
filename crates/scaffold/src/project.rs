//! The file PROJECT: what a folder is a project of. operator-sdk and kubebuilder write the same, and their projects are
//! recognised; what is not ours in it stays.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_yaml::{Mapping, Value};

use super::printable::to_yaml;
use super::tree::WrittenDigests;

/// The file's name.
pub const FILE: &str = "PROJECT";
/// What a project of ours says of itself.
const LAYOUT: &str = "helm.chartwright.dev/v1";

/// A project: its folder, and what its file says.
#[derive(Clone, Debug)]
pub struct Project {
    pub root: PathBuf,
    /// The comments that the file begins with.
    head: String,
    file: Mapping,
}

/// A kind of the project, as PROJECT lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectResource {
    #[serde(default)]
    pub api: Api,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub domain: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub kind: String,
    pub version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Api {
    #[serde(default)]
    pub crd_version: String,
    #[serde(default)]
    pub namespaced: bool,
}

#[derive(Default, Serialize, Deserialize)]
struct Plugin {
    #[serde(default)]
    files: WrittenDigests,
}

impl Project {
    /// A new one.
    pub fn new(root: &Path, name: &str, domain: &str) -> Self {
        let mut file = Mapping::new();
        file.insert("domain".into(), domain.into());
        file.insert("layout".into(), vec![Value::from(LAYOUT)].into());
        file.insert("projectName".into(), name.into());
        file.insert("version".into(), "3".into());
        Project {
            root: root.to_owned(),
            head: String::new(),
            file,
        }
    }

    /// Reads the project in a folder; `None` if there is none.
    ///
    /// # Errors
    /// A file that can't be read, or is no PROJECT.
    pub fn find(root: &Path) -> anyhow::Result<Option<Self>> {
        let path = root.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let file: Mapping =
            serde_yaml::from_str(&text).with_context(|| format!("{} is no PROJECT file", path.display()))?;
        check_words(&file).with_context(|| path.display().to_string())?;
        let head = text.split_inclusive('\n').take_while(|line| line.starts_with('#'));
        Ok(Some(Project {
            root: root.to_owned(),
            head: head.collect(),
            file,
        }))
    }

    /// The same where there has to be one.
    ///
    /// # Errors
    /// Also if there is none.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        let found = Project::find(root)?;
        let shown = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        found.with_context(|| {
            format!(
                "there is no project in {}: `chartwright init` makes one",
                shown.display()
            )
        })
    }

    fn text(&self, key: &str) -> &str {
        self.file.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Its name: what the operator is called in the cluster.
    pub fn name(&self) -> &str {
        self.text("projectName")
    }

    /// What the groups of its kinds end with.
    pub fn domain(&self) -> &str {
        self.text("domain")
    }

    /// Its kinds.
    pub fn resources(&self) -> Vec<ProjectResource> {
        let list = self.file.get("resources").and_then(Value::as_sequence);
        let items = list.into_iter().flatten().cloned();
        items.filter_map(|item| serde_yaml::from_value(item).ok()).collect()
    }

    /// Takes note of a kind.
    ///
    /// # Errors
    /// There is one of that group and kind.
    pub fn add(&mut self, resource: &ProjectResource) -> anyhow::Result<()> {
        let is_same = |other: &ProjectResource| {
            other.kind == resource.kind && other.group == resource.group && other.domain == resource.domain
        };
        if let Some(other) = self.resources().iter().find(|other| is_same(other)) {
            bail!(
                "the project has a kind {} in the group {} already",
                other.kind,
                other.full_group()
            );
        }
        let item = serde_yaml::to_value(resource)?;
        let list = self
            .file
            .entry("resources".into())
            .or_insert_with(|| Value::Sequence(Vec::new()));
        let list = list.as_sequence_mut().context("PROJECT: `resources` is no list")?;
        list.push(item);
        Ok(())
    }

    /// Removes a kind, or, if another version of it is left, only this version.
    ///
    /// # Errors
    /// As with [`Project::add`].
    pub fn remove(&mut self, gone: &ProjectResource, left: Option<&ProjectResource>) -> anyhow::Result<()> {
        let is_kind =
            |resource: &ProjectResource| resource.kind == gone.kind && resource.full_group() == gone.full_group();
        let is_gone =
            |resource: &ProjectResource| is_kind(resource) && (left.is_none() || resource.version == gone.version);
        if let Some(list) = self.file.get_mut("resources").and_then(Value::as_sequence_mut) {
            list.retain(|item| {
                !serde_yaml::from_value::<ProjectResource>(item.clone()).is_ok_and(|resource| is_gone(&resource))
            });
        }
        match left {
            Some(left) if !self.resources().iter().any(is_kind) => self.add(left),
            _ => Ok(()),
        }
    }

    /// What was written into the project, and how it was.
    pub fn written(&self) -> WrittenDigests {
        let plugin = self
            .file
            .get("plugins")
            .and_then(|plugins| plugins.get(LAYOUT))
            .cloned();
        let plugin: Option<Plugin> = plugin.and_then(|plugin| serde_yaml::from_value(plugin).ok());
        plugin.unwrap_or_default().files
    }

    /// The file's text, with what was written.
    ///
    /// # Errors
    /// `plugins` is no map.
    pub fn to_text(&self, written: &WrittenDigests) -> anyhow::Result<String> {
        let mut file = self.file.clone();
        let plugins = file.entry("plugins".into()).or_insert_with(|| Mapping::new().into());
        let plugins = plugins.as_mapping_mut().context("PROJECT: `plugins` is no map")?;
        let plugin = Plugin { files: written.clone() };
        plugins.insert(LAYOUT.into(), serde_yaml::to_value(plugin)?);
        Ok(self.head.clone() + &to_yaml(&file)?)
    }

    /// The folder with its charts: operator-sdk calls it helm-charts.
    pub fn charts(&self) -> &'static str {
        if self.root.join("helm-charts").is_dir() && !self.root.join("charts").is_dir() {
            "helm-charts"
        } else {
            "charts"
        }
    }
}

impl ProjectResource {
    /// The group as the API server has it.
    pub fn full_group(&self) -> String {
        let parts = [self.group.as_str(), self.domain.as_str()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(".")
    }
}

/// Checks what of a PROJECT file goes into paths, commands and manifests: it may be another program's, or come with a clone.
fn check_words(file: &Mapping) -> anyhow::Result<()> {
    use chartwright_watches::names::{DNS_LABEL, is_dns_label, is_dns_subdomain};
    let text = |key: &str| {
        file.get(key)
            .map_or(Ok(""), |value| value.as_str().context("it is no text"))
    };
    let name = text("projectName").context("projectName")?;
    let domain = text("domain").context("domain")?;
    ensure!(
        name.is_empty() || is_dns_label(name),
        "projectName {name:?} can't be the name of a project: {DNS_LABEL}"
    );
    ensure!(
        domain.is_empty() || is_dns_subdomain(domain),
        "domain {domain:?} is no domain, such as example.com"
    );
    Ok(())
}

/// Checks what a project is called: names in the cluster begin with it.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> anyhow::Result<()> {
    let is_name = chartwright_watches::names::is_dns_label(name) && name.len() <= 40;
    ensure!(
        is_name,
        "{name:?} can't be the name of a project: at most 40 lower-case letters, digits and -, as in shop-operator"
    );
    Ok(())
}

/// Checks a domain.
///
/// # Errors
/// What is wrong with it.
pub fn check_domain(domain: &str) -> anyhow::Result<()> {
    ensure!(
        domain.contains('.') && chartwright_watches::names::is_dns_subdomain(domain),
        "{domain:?} is no domain, such as example.com: groups of kinds end with it"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(group: &str, kind: &str) -> ProjectResource {
        ProjectResource {
            api: Api {
                crd_version: "v1".into(),
                namespaced: true,
            },
            domain: "example.com".into(),
            group: group.into(),
            kind: kind.into(),
            version: "v1alpha1".into(),
        }
    }

    #[test]
    fn a_project_of_somebody_else_keeps_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let theirs = "# Code generated by tool.\ndomain: example.com\nlayout:\n- helm.sdk.operatorframework.io/v1\nplugins:\n  manifests.sdk.operatorframework.io/v2: {}\n\
            projectName: memcached-operator\nresources:\n- api:\n    crdVersion: v1\n    namespaced: true\n  domain: example.com\n  group: cache\n  kind: Memcached\n  version: v1alpha1\nversion: \"3\"\n";
        fs::write(folder.path().join(FILE), theirs).unwrap();
        fs::create_dir(folder.path().join("helm-charts")).unwrap();
        let mut project = Project::open(folder.path()).unwrap();
        assert_eq!(
            (project.name(), project.domain(), project.charts()),
            ("memcached-operator", "example.com", "helm-charts")
        );
        assert_eq!(project.resources(), [resource("cache", "Memcached")]);
        assert!(project.add(&resource("cache", "Memcached")).is_err());
        project.add(&resource("db", "Sample")).unwrap();
        let text = project
            .to_text(&WrittenDigests::from([("Makefile".to_owned(), "ab".to_owned())]))
            .unwrap();
        assert!(text.starts_with("# Code generated by tool.\ndomain: "), "{text}");
        assert!(
            text.contains("manifests.sdk.operatorframework.io/v2: {}") && text.contains("Makefile: ab"),
            "{text}"
        );
        fs::write(folder.path().join(FILE), text).unwrap();
        let mut again = Project::open(folder.path()).unwrap();
        assert_eq!(again.written().len(), 1);
        let other = ProjectResource {
            version: "v1".into(),
            ..resource("db", "Sample")
        };
        again.remove(&resource("db", "Sample"), Some(&other)).unwrap();
        assert_eq!(again.resources()[1], other);
        again.remove(&other, None).unwrap();
        assert_eq!(again.resources(), [resource("cache", "Memcached")]);
    }

    #[test]
    fn names_are_checked() {
        assert!(check_name("shop-operator").is_ok() && check_domain("example.com").is_ok());
        for name in ["", "Shop", "shop_operator", &"x".repeat(41)] {
            assert!(check_name(name).is_err(), "{name}");
        }
        for domain in ["", "example", "Example.com", "a..b"] {
            assert!(check_domain(domain).is_err(), "{domain}");
        }
        let missing = Project::open(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(missing.contains("chartwright init"), "{missing}");
    }
}
