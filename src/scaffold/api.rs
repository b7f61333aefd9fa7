//! A kind of a project, made from a chart: the chart, the watch, the CustomResourceDefinition, a sample, and roles.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::layout::{self, CHART};
use super::lint::crd::{self, Crd};
use super::names::{kind_of_chart, plural};
use super::project::{Api, Project, Resource};
use super::rights;
use super::survey::Survey;
use super::tree::Tree;
use crate::watches::{self, Outside, Watch, names};
use helm_template::chart::{self, Chart, File};

const WATCHES: &str = "watches.yaml";
/// Where kubebuilder's tools add to a watches.yaml.
const MARKER: &str = "# +kubebuilder:scaffold:watch";

/// What a kind is to be.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
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

/// The files of a chart, as they lie in its folder.
#[derive(Debug)]
pub struct ChartFiles {
    pub name: String,
    pub files: Vec<File>,
}

/// One kind, with all its names.
#[derive(Clone, Debug)]
pub struct Kind {
    pub resource: Resource,
    pub plural: String,
    /// The chart's folder within the project.
    pub chart: String,
}

// === impl ChartFiles ===

impl ChartFiles {
    /// A chart of a kind that has none yet.
    ///
    /// # Errors
    /// None that can be met.
    pub fn fresh(name: &str) -> anyhow::Result<Self> {
        let about = json!({
            "apiVersion": "v2", "name": name, "type": "application", "version": "0.1.0", "appVersion": "1.27",
            "description": format!("What a {name} is made of"),
        });
        let file = |name: &str, text: &str| File {
            name: name.to_owned(),
            data: text.into(),
        };
        let about = file("Chart.yaml", &serde_yaml::to_string(&about)?);
        let files = CHART.iter().map(|(name, text)| file(name, text));
        Ok(ChartFiles {
            name: name.to_owned(),
            files: [about].into_iter().chain(files).collect(),
        })
    }

    /// Its files, for tests of charts in folders.
    #[cfg(test)]
    pub fn write_into(&self, folder: &Path) {
        for file in &self.files {
            let path = folder.join(&file.name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file.data.as_bytes()).unwrap();
        }
    }

    /// The chart in a folder, or a `.tgz` archive.
    ///
    /// # Errors
    /// There is no chart, or it can't be read.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        if !path.is_dir() {
            let data = fs::read(path).with_context(|| shown.clone())?;
            return ChartFiles::of_archive(&shown, &data);
        }
        let name = Chart::load(path)?.metadata.name;
        let mut files = Vec::new();
        collect(path, path, &mut files)?;
        Ok(ChartFiles { name, files })
    }

    /// The chart in an archive, which errors call so.
    ///
    /// # Errors
    /// There is no chart in it.
    pub fn of_archive(shown: &str, data: &[u8]) -> anyhow::Result<Self> {
        let files = chart::unpack_files(Path::new(shown), data)?;
        let chart = Chart::of_files(files.clone()).with_context(|| shown.to_owned())?;
        let name = chart.metadata.name;
        Ok(ChartFiles { name, files })
    }

    /// The chart that these files make.
    ///
    /// # Errors
    /// They make none.
    pub fn load(&self) -> anyhow::Result<Chart> {
        Ok(Chart::of_files(self.files.clone())?)
    }
}

/// All files but those of a version control: what a .helmignore names may be of use to those who work on the chart.
fn collect(root: &Path, folder: &Path, files: &mut Vec<File>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            if path.ends_with(".git") {
                continue;
            }
            collect(root, &path, files)?;
            continue;
        }
        let data = fs::read(&path).with_context(|| path.display().to_string())?;
        files.push(File {
            name: path.strip_prefix(root)?.to_string_lossy().into_owned(),
            data: data.into(),
        });
    }
    Ok(())
}

// === impl Kind ===

impl Kind {
    /// The kind that is wanted of a chart.
    ///
    /// # Errors
    /// A name that can't be one.
    pub fn of(project: &Project, wanted: &Wanted, chart: &str) -> anyhow::Result<Self> {
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
            names::is_version(&version),
            "{version:?} is no API version, such as v1alpha1"
        );
        let resource = Resource {
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
        Ok(Kind {
            plural: or(&wanted.plural, &plural(&resource.kind)),
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
            resource: Resource {
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

    /// `config/crd/bases/<this>`
    pub fn crd_file(&self) -> String {
        format!("{}_{}.yaml", self.group(), self.plural)
    }

    fn sample_file(&self) -> String {
        let first = match self.resource.domain.is_empty() {
            true => self.group(),
            false => self.resource.group.clone(),
        };
        format!("{first}_{}_{}.yaml", self.resource.version, self.lower())
    }

    fn role_file(&self, role: &str) -> String {
        format!("{}_{role}_role.yaml", self.lower())
    }

    fn sample(&self, chart: &Chart) -> anyhow::Result<String> {
        let sample = json!({
            "apiVersion": format!("{}/{}", self.group(), self.resource.version),
            "kind": self.resource.kind,
            "metadata": {"name": format!("{}-sample", self.lower())},
        });
        let values = chart.values.to_json();
        let keys: Vec<&str> = values.keys().map(String::as_str).collect();
        Ok(format!(
            "{}# Every value of the chart may stand here; {}/values.yaml lists them:\n# {}\nspec: {{}}\n",
            serde_yaml::to_string(&sample)?,
            self.chart,
            keys.join(", ")
        ))
    }

    /// A first case file for a chart that brings none.
    fn first_case(&self) -> anyhow::Result<String> {
        let sample = format!("../../config/samples/{}", self.sample_file());
        let mut case = serde_yaml::Mapping::new();
        case.insert("name".into(), "the sample".into());
        case.insert("cr".into(), sample.into());
        let cases = BTreeMap::from([("cases", [case])]);
        let about = "# Tests of the chart, which need no cluster: chartwright verify.";
        Ok(format!("{about}\n{}", serde_yaml::to_string(&cases)?))
    }

    /// A role for people. What `aggregate` names, it adds to a role of the cluster's own.
    fn role(&self, role: &str) -> anyhow::Result<String> {
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
                "name": format!("{}-{role}-role", self.lower()),
                "labels": {format!("rbac.authorization.k8s.io/aggregate-to-{to}"): "true"},
            },
            "rules": [rule(self.plural.clone(), verbs), rule(format!("{}/status", self.plural), &["get"])],
        });
        Ok(serde_yaml::to_string(&object)?)
    }
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
    let outside = Outside {
        folder: &project.root,
        env: &|_| Some(String::new()),
    };
    let (watches, _) = watches::parse(WATCHES, &text, &outside)?;
    Ok(watches)
}

/// All files of a project without kinds.
///
/// # Errors
/// None that can be met.
pub fn init(project: &Project, base: &str) -> anyhow::Result<Tree> {
    let mut tree = layout::files(project, base)?;
    for (path, list) in [
        ("config/crd/kustomization.yaml", Vec::new()),
        ("config/samples/kustomization.yaml", Vec::new()),
        ("config/rbac/kustomization.yaml", layout::rbac(&[])),
    ] {
        if !project.root.join(path).exists() {
            tree.merge(path, layout::kustomization(&list)?);
        }
    }
    if !project.root.join(WATCHES).exists() {
        let text = format!("# Which kinds are made from which chart.\n{MARKER}\n");
        tree.merge(WATCHES, text);
        rights::add_role(&mut tree, &[])?;
    }
    Ok(tree)
}

/// Adds a kind to a project: all that is to be written.
///
/// # Errors
/// It is there already, or something of the project can't be read.
pub fn create(
    project: &mut Project,
    kind: &Kind,
    chart: &ChartFiles,
    crd: &Value,
    force: bool,
) -> anyhow::Result<Tree> {
    let watched = project_watches(project)?;
    let group = kind.group();
    if let Some(watch) = watched
        .iter()
        .find(|watch| watch.kind == kind.resource.kind && watch.group == group)
    {
        bail!(
            "{WATCHES}:{}: {} is watched already: `chartwright delete api` takes it out",
            watch.line,
            watch.group_kind()
        );
    }
    project.add(&kind.resource)?;
    let mut tree = Tree::default();
    let folder = PathBuf::from(&kind.chart);
    let is_in_place = project.root.join(&folder).join("Chart.yaml").exists();
    if !is_in_place || force {
        for file in &chart.files {
            tree.add(folder.join(&file.name), file.data.as_bytes());
        }
    }
    if !chart.files.iter().any(|file| file.name.starts_with("verify/")) {
        // Beside it: the chart may be somebody else's, and be fetched again.
        let path = format!("{}.verify/{}.yaml", kind.chart, chart.name);
        tree.add(path, kind.first_case()?);
    }
    tree.add(
        format!("config/crd/bases/{}", kind.crd_file()),
        serde_yaml::to_string(crd)?,
    );
    let loaded = chart.load()?;
    tree.add(format!("config/samples/{}", kind.sample_file()), kind.sample(&loaded)?);
    for role in ["admin", "editor", "viewer"] {
        tree.add(format!("config/rbac/{}", kind.role_file(role)), kind.role(role)?);
    }
    list(
        project,
        &mut tree,
        "config/crd/kustomization.yaml",
        &[format!("bases/{}", kind.crd_file())],
    )?;
    list(
        project,
        &mut tree,
        "config/samples/kustomization.yaml",
        &[kind.sample_file()],
    )?;
    let roles = ["admin", "editor", "viewer"].map(|role| kind.role_file(role));
    list(project, &mut tree, "config/rbac/kustomization.yaml", &roles)?;
    tree.merge(WATCHES, with_watch(&read(project, WATCHES)?, kind)?);
    let mut kinds = rights::surveys(&project.root, &watched)?;
    let survey = Survey::with_values(&loaded, Vec::new(), &crd::read(&project.root));
    kinds.push((kind.clone(), survey));
    rights::add_role(&mut tree, &kinds)?;
    Ok(tree)
}

/// The text of a file of the project; empty if there is none.
fn read(project: &Project, path: &str) -> anyhow::Result<String> {
    match fs::read_to_string(project.root.join(path)) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| path.to_owned()),
    }
}

fn list(project: &Project, tree: &mut Tree, path: &str, items: &[String]) -> anyhow::Result<()> {
    let text = read(project, path)?;
    let text = match text.is_empty() {
        true => layout::kustomization(items)?,
        false => items.iter().fold(text, |text, item| with_item(&text, item)),
    };
    tree.merge(path, text);
    Ok(())
}

/// A kustomization that lists a resource more, with all that somebody wrote into it.
fn with_item(text: &str, item: &str) -> String {
    let is_item = |line: &str| {
        line.trim_start()
            .strip_prefix("- ")
            .is_some_and(|rest| rest.trim() == item)
    };
    if text.lines().any(is_item) {
        return text.to_owned();
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let Some(start) = lines.iter().position(|line| line.starts_with("resources:")) else {
        return format!("{}\nresources:\n- {item}\n", text.trim_end());
    };
    // `[]`, if it was empty.
    lines[start] = "resources:".to_owned();
    let belongs = |line: &&String| line.trim_start().starts_with(['-', '#']);
    let count = lines[start + 1..].iter().take_while(belongs).count();
    let within = &lines[start + 1..start + 1 + count];
    let last = within.iter().rposition(|line| line.trim_start().starts_with("- "));
    let indent = last.map_or(0, |last| within[last].len() - within[last].trim_start().len());
    let place = start + 1 + last.map_or(0, |last| last + 1);
    lines.insert(place, format!("{}- {item}", " ".repeat(indent)));
    lines.join("\n") + "\n"
}

/// The text of a watches.yaml with one watch more.
fn with_watch(text: &str, kind: &Kind) -> anyhow::Result<String> {
    let Resource {
        version, kind: name, ..
    } = &kind.resource;
    let entry = json!([{"group": kind.group(), "version": version, "kind": name, "chart": kind.chart}]);
    let entry = serde_yaml::to_string(&entry)?;
    let text = match text.trim() {
        "" | "[]" => String::new(),
        _ => text.trim_end().to_owned() + "\n",
    };
    Ok(match text.split_once(MARKER) {
        Some((before, after)) => format!("{before}{entry}{MARKER}{after}"),
        None => text + &entry,
    })
}

/// Takes a kind out of a project: its watch and what is listed of it. Its chart and its files stay where they are used
/// otherwise; the caller removes those that are returned.
///
/// # Errors
/// There is no such kind.
pub fn delete(project: &mut Project, kind: &Kind) -> anyhow::Result<(Tree, Vec<PathBuf>)> {
    let group = kind.group();
    let watched = project_watches(project)?;
    let watch = watched
        .iter()
        .find(|watch| watch.kind == kind.resource.kind && watch.group == group);
    let Some(watch) = watch else {
        bail!("{WATCHES} has no kind {} in the group {group}", kind.resource.kind);
    };
    project.remove(&group, &kind.resource.kind);
    let mut tree = Tree::default();
    tree.merge(WATCHES, without_watch(&read(project, WATCHES)?, watch.line)?);
    let roles = ["admin", "editor", "viewer"].map(|role| kind.role_file(role));
    for (path, items) in [
        (
            "config/crd/kustomization.yaml",
            vec![format!("bases/{}", kind.crd_file())],
        ),
        ("config/samples/kustomization.yaml", vec![kind.sample_file()]),
        ("config/rbac/kustomization.yaml", roles.to_vec()),
    ] {
        let text = read(project, path)?;
        let is_other = |line: &&str| {
            !items
                .iter()
                .any(|item| line.trim_start().strip_prefix("- ") == Some(item))
        };
        let lines: Vec<&str> = text.lines().filter(is_other).collect();
        tree.merge(path, lines.join("\n") + "\n");
    }
    let others: Vec<Watch> = watched
        .iter()
        .filter(|other| other.line != watch.line)
        .cloned()
        .collect();
    rights::add_role(&mut tree, &rights::surveys(&project.root, &others)?)?;
    let files = [
        format!("config/crd/bases/{}", kind.crd_file()),
        format!("config/samples/{}", kind.sample_file()),
    ];
    let roles = roles.map(|role| format!("config/rbac/{role}"));
    Ok((tree, files.into_iter().chain(roles).map(PathBuf::from).collect()))
}

/// A watches.yaml without the entry that begins on a line.
fn without_watch(text: &str, line: usize) -> anyhow::Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    let start = line
        .checked_sub(1)
        .filter(|start| *start < lines.len())
        .context("an entry that isn't there")?;
    let begins = |line: &&str| line.starts_with("- ") || line.starts_with("-\t") || line.starts_with(MARKER);
    let length = 1 + lines[start + 1..].iter().take_while(|line| !begins(line)).count();
    let rest = lines[..start].iter().chain(&lines[start + length..]);
    Ok(rest.map(|line| format!("{line}\n")).collect())
}
