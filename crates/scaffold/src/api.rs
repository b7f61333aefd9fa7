//! A kind of a project, made from a chart: the chart, the watch, the CustomResourceDefinition, a sample, and roles.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::chart::Placed;
use super::crd::definition;
use super::layout;
use super::lint::project::crd::{self, Crd};
use super::lists::{self, MARKER};
use super::names::{kind_of_chart, plural};
use super::printable::{is_yaml_word, one_line, to_yaml};
use super::project::{Api, Project, ProjectResource};
use super::rights;
use super::survey::Survey;
use super::tree::FileTree;
use chartwright_watches::{ReadContext, Watch, names};
use helm_template::chart::Chart;

const WATCHES: &str = "watches.yaml";
const RBAC_LIST: &str = "config/rbac/kustomization.yaml";
const ROLES: [&str; 3] = ["admin", "editor", "viewer"];

/// What a kind is to be.
#[derive(Clone, Debug, Default)]
pub struct ApiRequest {
    /// Without the project's domain; empty: `charts`.
    pub group: String,
    /// Empty: `v1alpha1`.
    pub version: String,
    /// Empty: after the chart.
    pub kind: String,
    /// Empty: after the kind.
    pub plural: String,
    pub cluster_scoped: bool,
}

/// One kind, with all its names.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: ProjectResource,
    pub plural: String,
    /// The chart's folder within the project.
    pub chart: String,
}

impl Kind {
    /// The kind that is wanted of a chart.
    ///
    /// # Errors
    /// A name that can't be one.
    pub fn of(project: &Project, wanted: &ApiRequest, chart: &str) -> anyhow::Result<Self> {
        let or = |text: &str, usual: &str| match text {
            "" => usual.to_owned(),
            text => text.to_owned(),
        };
        let kind = or(&wanted.kind, &kind_of_chart(chart));
        let version = or(&wanted.version, "v1alpha1");
        let group = or(&wanted.group, "charts");
        let starts_well = kind.starts_with(|c: char| c.is_ascii_uppercase());
        ensure!(
            starts_well && names::is_kind(&kind),
            "{kind:?} can't be a kind: letters and digits, the first a capital, as in Memcached"
        );
        ensure!(
            !is_yaml_word(&kind),
            "{kind:?} can't be a kind: YAML takes it for a boolean or for nothing"
        );
        ensure!(
            names::is_version(&version),
            "{version:?} is no API version, such as v1alpha1"
        );
        let resource = ProjectResource {
            api: Api {
                crd_version: "v1".to_owned(),
                namespaced: !wanted.cluster_scoped,
            },
            domain: project.domain().to_owned(),
            group,
            kind,
            version,
        };
        let full = resource.full_group();
        ensure!(
            names::is_dns_subdomain(&full) && !names::is_built_in(&full),
            "{full:?} can't be the group of a kind of yours: --group and the project's domain make it, as in cache.example.com"
        );
        let plural = or(&wanted.plural, &plural(&resource.kind));
        ensure!(
            names::is_dns_label(&plural),
            "{plural:?} can't be a plural: {}, as in memcacheds",
            names::DNS_LABEL
        );
        Ok(Kind {
            plural,
            chart: format!("{}/{chart}", project.charts()),
            resource,
        })
    }

    /// The kinds of a project, from its watches.
    ///
    /// # Errors
    /// What is wrong with watches.yaml.
    pub fn all(project: &Project) -> anyhow::Result<Vec<Self>> {
        let crds = crd::read(&project.root);
        let kinds = project_watches(project)?.into_iter().map(|watch| {
            let known = project.resources();
            let known = known
                .into_iter()
                .find(|known| known.kind == watch.kind && known.full_group() == watch.group);
            let kind = Kind::of_watch(&watch, &project.root, &crds);
            // PROJECT may list one version of several.
            let known = known.map(|known| ProjectResource {
                version: watch.version.clone(),
                ..known
            });
            Kind {
                resource: known.unwrap_or(kind.resource.clone()),
                ..kind
            }
        });
        Ok(kinds.collect())
    }

    /// The kind of a watch of a project with these definitions.
    pub(super) fn of_watch(watch: &Watch, root: &Path, crds: &[Crd]) -> Self {
        let chart = watch.chart.strip_prefix(root).unwrap_or(&watch.chart);
        let chart: PathBuf = chart.components().filter(|part| part.as_os_str() != ".").collect();
        let is_cluster_scoped = |crd: &Crd| crd.is_of(&watch.group, &watch.kind) && !crd.is_namespaced();
        Kind {
            plural: crd::plural(crds, &watch.group, &watch.kind),
            chart: chart.display().to_string(),
            resource: ProjectResource {
                api: Api {
                    crd_version: "v1".to_owned(),
                    namespaced: !crds.iter().any(is_cluster_scoped),
                },
                domain: String::new(),
                group: watch.group.clone(),
                kind: watch.kind.clone(),
                version: watch.version.clone(),
            },
        }
    }

    fn group(&self) -> String {
        self.resource.full_group()
    }

    fn lower(&self) -> String {
        self.resource.kind.to_lowercase()
    }

    /// Whether another one is of the same kind, perhaps in another version.
    fn is_kind_of(&self, other: &Kind) -> bool {
        self.resource.kind == other.resource.kind && self.group() == other.group()
    }

    /// `config/crd/bases/<this>`
    fn crd_file(&self, project: &Project) -> String {
        let found = definition::find(&project.root, &self.group(), &self.resource.kind);
        found.map_or_else(|| format!("{}_{}.yaml", self.group(), self.plural), |found| found.name)
    }

    /// The group as names of files have it.
    fn short_group(&self) -> String {
        if self.resource.domain.is_empty() {
            self.group()
        } else {
            self.resource.group.clone()
        }
    }

    fn sample_file(&self) -> String {
        format!("{}_{}_{}.yaml", self.short_group(), self.resource.version, self.lower())
    }

    /// Within the project.
    pub fn sample_path(&self) -> String {
        format!("config/samples/{}", self.sample_file())
    }

    /// What its roles are called: after the kind, and where another group has roles of a kind of that name, after both.
    fn role_prefix(&self, project: &Project) -> String {
        let kind = self.lower();
        let with_group = format!("{}-{kind}", self.short_group().replace('.', "-"));
        let path = |prefix: &str| {
            let file = role_file(prefix, "viewer");
            project.root.join("config/rbac").join(file)
        };
        let is_others = || {
            let role = go_yaml::to_json(&fs::read(path(&kind)).ok()?).ok()?;
            let groups = role["rules"][0]["apiGroups"].as_array()?;
            Some(!groups.iter().any(|group| *group == self.group().as_str()))
        };
        if path(&with_group).exists() || is_others().unwrap_or_default() {
            with_group
        } else {
            kind
        }
    }

    fn sample(&self, chart: &Chart, required: &[String]) -> anyhow::Result<String> {
        let sample = json!({
            "apiVersion": format!("{}/{}", self.group(), self.resource.version),
            "kind": self.resource.kind,
            "metadata": {"name": format!("{}-sample", self.lower())},
        });
        let values = chart.values.to_json();
        // A key is any text, and a line break would end the comment.
        let keys: Vec<_> = values.keys().map(|key| one_line(key)).collect();
        let mut about = String::from("# Every value of the chart may stand here");
        about += &if keys.is_empty() {
            ".\n".to_owned()
        } else {
            format!("; {}/values.yaml lists them:\n# {}\n", self.chart, keys.join(", "))
        };
        if !required.is_empty() {
            about += &format!("# These have to: {}\n", one_line(&required.join(", ")));
        }
        Ok(format!("{}{about}spec: {{}}\n", to_yaml(&sample)?))
    }

    /// A first case file for a chart that brings none.
    fn first_case(&self) -> anyhow::Result<String> {
        let sample = format!("../../config/samples/{}", self.sample_file());
        let mut case = serde_yaml::Mapping::new();
        case.insert("name".into(), "the sample".into());
        case.insert("cr".into(), sample.into());
        let cases = BTreeMap::from([("cases", [case])]);
        let about = "# Tests of the chart, which need no cluster: chartwright verify.";
        Ok(format!("{about}\n{}", to_yaml(&cases)?))
    }

    /// A role for people. What `aggregate` names, it adds to a role of the cluster's own.
    fn role(&self, prefix: &str, role: &str) -> anyhow::Result<String> {
        let verbs: &[&str] = match role {
            "admin" => &["*"],
            "editor" => &["create", "delete", "get", "list", "patch", "update", "watch"],
            _ => &["get", "list", "watch"],
        };
        let rule = |resource: String, verbs: &[&str]| json!({"apiGroups": [self.group()], "resources": [resource], "verbs": verbs});
        // The cluster's own roles admin, edit and view have these rights, too.
        let to = match role {
            "admin" => "admin",
            "editor" => "edit",
            _ => "view",
        };
        let object = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {
                "name": format!("{prefix}-{role}-role"),
                "labels": {format!("rbac.authorization.k8s.io/aggregate-to-{to}"): "true"},
            },
            "rules": [rule(self.plural.clone(), verbs), rule(format!("{}/status", self.plural), &["get"])],
        });
        Ok(to_yaml(&object)?)
    }
}

/// `config/rbac/<this>`
fn role_file(prefix: &str, role: &str) -> String {
    format!("{}_{role}_role.yaml", prefix.replace('-', "_"))
}

/// The watches of a project; none if there is no file yet.
///
/// # Errors
/// What is wrong with the file.
pub fn project_watches(project: &Project) -> anyhow::Result<Vec<Watch>> {
    let path = project.root.join(WATCHES);
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let outside = ReadContext {
        folder: &project.root,
        env: &|_| Some(String::new()),
    };
    let (watches, _) = chartwright_watches::parse(WATCHES, &text, &outside)?;
    Ok(watches)
}

/// All files of a project without kinds.
///
/// # Errors
/// None that can be met.
pub fn init(project: &Project, base: &str) -> anyhow::Result<FileTree> {
    let mut tree = layout::files(project, base)?;
    for (path, list) in [
        ("config/crd/kustomization.yaml", Vec::new()),
        ("config/samples/kustomization.yaml", Vec::new()),
        (RBAC_LIST, layout::rbac(&[])),
    ] {
        if !project.root.join(path).exists() {
            tree.merge(path, layout::kustomization(&list)?);
        }
    }
    if project.root.join(RBAC_LIST).exists() && layout::lacks_metrics_auth(project) {
        let roles = layout::METRICS_AUTH.map(str::to_owned);
        tree.merge(
            RBAC_LIST,
            lists::with_resources(RBAC_LIST, &read(project, RBAC_LIST)?, &roles)?,
        );
    }
    if !project.root.join(WATCHES).exists() {
        let text = format!("# Which kinds are made from which chart.\n{MARKER}\n");
        tree.merge(WATCHES, text);
        rights::add_role(&mut tree, &[])?;
    }
    Ok(tree)
}

/// The watch that makes a kind; `None` if there is none yet.
///
/// # Errors
/// The kind is watched otherwise than would be written here.
pub fn watch_of(project: &Project, kind: &Kind) -> anyhow::Result<Option<Watch>> {
    let is_meant =
        |watch: &Watch| watch.kind == kind.resource.kind && watch.group == kind.group() && watch.decorator.is_none();
    let mut watches = project_watches(project)?;
    watches.retain(is_meant);
    let Some(first) = watches.first() else { return Ok(None) };
    let (line, version, shown) = (first.line, first.version.clone(), first.group_kind());
    watches.retain(|watch| watch.version == kind.resource.version);
    ensure!(
        watches.len() < 2,
        "{WATCHES}:{line}: {shown} has several watches: change them by hand; `chartwright generate` updates what belongs to them"
    );
    let Some(watch) = watches.pop() else {
        bail!(
            "{WATCHES}:{line}: {shown} is watched already, in version {version}: `chartwright delete api` takes it out, and another \
             watch beside it, by hand, takes a selector in both"
        );
    };
    let chart = watch.chart.strip_prefix(&project.root).unwrap_or(&watch.chart);
    ensure!(
        watch.chart == project.root.join(&kind.chart),
        "{WATCHES}:{line}: {shown} is watched already, and made from {}: change `chart` there, or take it out with `chartwright \
         delete api`",
        chart.display()
    );
    Ok(Some(watch))
}

/// Adds a kind to a project, or updates what belongs to it: all that is to be written.
///
/// # Errors
/// Something of the project stands in the way, or can't be read.
pub fn create(project: &mut Project, kind: &Kind, placed: &Placed, crd: &Value) -> anyhow::Result<FileTree> {
    let is_watched = watch_of(project, kind)?.is_some();
    let mut resources = project.resources().into_iter();
    let is_listed = if is_watched {
        resources.any(|known| known.kind == kind.resource.kind && known.full_group() == kind.group())
    } else {
        resources.any(|known| known == kind.resource)
    };
    if !is_listed {
        project.add(&kind.resource)?;
    }
    let mut tree = FileTree::default();
    for file in &placed.written {
        tree.add(placed.folder.join(&file.name), file.data.as_bytes());
    }
    if let Some(digest) = &placed.digest {
        tree.seal(&placed.folder, digest.clone());
    }
    let chart = &placed.chart;
    // Beside the chart: a fetch may replace the chart's folder. Another kind of the chart may have the case already.
    let case = format!("{}.verify/{}.yaml", kind.chart, chart.name);
    let has_case = chart.files.iter().any(|file| file.name.starts_with("verify/"));
    if !has_case && !project.root.join(&case).exists() {
        tree.add(case, kind.first_case()?);
    }
    let crd_file = kind.crd_file(project);
    tree.add(format!("config/crd/bases/{crd_file}"), to_yaml(crd)?);
    let loaded = chart.load()?;
    let required = definition::required(crd, &kind.resource.version);
    tree.add(kind.sample_path(), kind.sample(&loaded, &required)?);
    let prefix = kind.role_prefix(project);
    for role in ROLES {
        tree.add(
            format!("config/rbac/{}", role_file(&prefix, role)),
            kind.role(&prefix, role)?,
        );
    }
    for (path, items) in listed(kind, &crd_file, &prefix) {
        let text = read(project, path)?;
        let text = if text.is_empty() {
            layout::kustomization(&items)?
        } else {
            lists::with_resources(path, &text, &items)?
        };
        tree.merge(path, text);
    }
    if !is_watched {
        let ProjectResource {
            version, kind: name, ..
        } = &kind.resource;
        let entry = json!({"group": kind.group(), "version": version, "kind": name, "chart": kind.chart});
        tree.merge(WATCHES, lists::with_watch(WATCHES, &read(project, WATCHES)?, entry)?);
    }
    let placed = (project.root.join(&kind.chart), loaded);
    let mut kinds = rights::surveys(&project.root, &project_watches(project)?, Some(&placed))?;
    if !is_watched {
        let survey = Survey::with_values(&placed.1, Vec::new(), &crd::read(&project.root), &[]);
        kinds.push((kind.clone(), survey));
    }
    rights::add_role(&mut tree, &kinds)?;
    Ok(tree)
}

/// What kustomizations list of a kind.
fn listed(kind: &Kind, crd_file: &str, prefix: &str) -> [(&'static str, Vec<String>); 3] {
    let roles = ROLES.iter().map(|role| role_file(prefix, role));
    [
        ("config/crd/kustomization.yaml", vec![format!("bases/{crd_file}")]),
        ("config/samples/kustomization.yaml", vec![kind.sample_file()]),
        (RBAC_LIST, roles.collect()),
    ]
}

/// The text of a file of the project; empty if there is none.
fn read(project: &Project, path: &str) -> anyhow::Result<String> {
    match fs::read_to_string(project.root.join(path)) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| path.to_owned()),
    }
}

/// What another watch of the same kind makes.
pub fn another_watch(kinds: &[Kind], at: usize) -> Option<&Kind> {
    let (before, rest) = kinds.split_at_checked(at)?;
    let (kind, after) = rest.split_first()?;
    before.iter().chain(after).find(|other| other.is_kind_of(kind))
}

/// Takes one of a project's kinds out: its watch and what is listed of it. Its chart and its files stay where they are used
/// otherwise; the caller removes those that are returned. What belongs to all watches of a kind stays as long as there is one.
///
/// # Errors
/// A list can't be edited.
pub fn delete(project: &mut Project, kinds: &[Kind], at: usize) -> anyhow::Result<(FileTree, Vec<PathBuf>)> {
    let kind = kinds.get(at).context("a kind that isn't there")?;
    let left = another_watch(kinds, at);
    let mut tree = FileTree::default();
    tree.merge(WATCHES, lists::without_watch(WATCHES, &read(project, WATCHES)?, at)?);
    let (crd_file, prefix) = (kind.crd_file(project), kind.role_prefix(project));
    let mut removed = Vec::new();
    for (path, items) in listed(kind, &crd_file, &prefix) {
        if left.is_some() && !path.starts_with("config/samples/") {
            continue;
        }
        let text = read(project, path)?;
        if !text.is_empty() {
            tree.merge(path, lists::without_resources(path, &text, &items)?);
        }
        let folder = Path::new(path).parent().unwrap_or(Path::new(""));
        removed.extend(items.iter().map(|item| folder.join(item)));
    }
    project.remove(&kind.resource, left.map(|left| &left.resource))?;
    let mut watched = project_watches(project)?;
    watched.remove(at);
    rights::add_role(&mut tree, &rights::surveys(&project.root, &watched, None)?)?;
    Ok((tree, removed))
}
