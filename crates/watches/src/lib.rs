//! `watches.yaml` -> [`Watch`]: strict, with line numbers, and all errors at once.
//!
//! Every file that operator-sdk's helm-operator reads without ignoring a part of it means the same here; where that
//! meaning is a known trap, a warning says so.

#![forbid(unsafe_code)]

pub mod cel;
pub mod duration;
mod entry;
mod finding;
mod keys;
pub mod names;
mod reader;
pub mod text;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::core::{Selector, SelectorExt as _};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use go_yaml::{self as yaml, Data};

pub use finding::{FileErrors, FileFinding};
pub use keys::depends::DependsOn;
pub use keys::elect::ElectRule;
pub use keys::health::HealthRule;
pub use keys::overrides::OverrideValue;
pub use keys::policies::{Collisions, DeletionPolicy, OnFailure};
pub use keys::remediation::{RemediationAction, RemediationRule};
pub use keys::sources::{SourceKind, ValuesFrom, ValuesFromField, json as node_to_json};
pub use reader::{Findings, MapFields, describe as describe_node, suggestion};

use keys::selector;
use reader::describe;

/// The file of a chart that is its status template if the watch names no other.
pub const STATUS_TEMPLATE: &str = "status.yaml";

/// One entry of `watches.yaml`: a kind, and the chart that its custom resources become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// A folder with a Chart.yaml, or a .tgz. Relative paths are joined to the working directory.
    pub chart: PathBuf,
    /// Values that the custom resource's win over.
    pub values: Map<String, Value>,
    /// Where more of them come from: the later ones win, and the custom resource over all.
    pub values_from: Vec<ValuesFrom>,
    /// Where a custom resource may name sources of its own, which win over those.
    pub values_from_field: Option<ValuesFromField>,
    /// In the order of the file.
    pub override_values: Vec<OverrideValue>,
    /// Set if its releases are attached to objects of others: what tells it from others that decorate the same objects.
    pub decorator: Option<Arc<str>>,
    /// What has to be ready before a release is begun or upgraded.
    pub depends_on: Vec<DependsOn>,
    /// The custom resources that this watch is for; empty for all.
    pub selector: Selector,
    /// `None`: the period of the flag. Never zero, which operator-sdk takes for unset.
    pub reconcile_period: Option<Duration>,
    /// `false`: members are not watched.
    pub watch_dependent_resources: bool,
    /// At least 1. `None`: the limit of the flag.
    pub max_concurrent_reconciles: Option<usize>,
    /// How long each hook may take, and an upgrade until it is healthy. `None`: 5 minutes, as with Helm.
    pub timeout: Option<Duration>,
    /// What becomes of an upgrade that failed, after so many retries.
    pub on_failure: OnFailure,
    pub retries: usize,
    /// Hooks that follow an installation or an upgrade wait until all members are healthy.
    pub wait: bool,
    /// A namespace, or a Go template over the custom resource that makes one.
    pub target_namespace: Option<String>,
    /// What becomes of a release's members when its custom resource is deleted.
    pub deletion_policy: DeletionPolicy,
    /// Members carry an owner reference to their custom resource, where that is possible and nothing has an order.
    pub owner_references: bool,
    /// What a release may take that it did not make.
    pub collisions: Collisions,
    /// What custom resources may create beyond what the chart asks for by itself.
    pub allow: AllowList,
    /// What templates may look up beyond the release's namespace.
    pub lookups: AllowList,
    /// When members of a kind are well.
    pub health: Vec<HealthRule>,
    /// What is done by itself about a release that isn't well.
    pub remediation: Vec<RemediationRule>,
    /// The file of the chart that computes further fields of the status.
    pub status_template: String,
    /// The workloads of which one pod is made leader.
    pub elect: Vec<ElectRule>,
    /// Where the entry begins in the file, counted from 1.
    pub line: usize,
}

/// The shape of `allow:` and `lookups:`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default)]
pub struct AllowList {
    /// `Kind.group`, the bare kind in the core group, or `*`; in `allow:` also one object of a kind, `Kind.group/name`.
    pub kinds: Vec<String>,
    /// Names, or `*`.
    pub namespaces: Vec<String>,
    /// In `allow:`, how deep releases may make custom resources of their own kind. `None`: the default.
    pub depth: Option<usize>,
}

/// What reading a file needs of the world around it.
pub struct ReadContext<'a> {
    /// The folder that relative chart paths start from.
    pub folder: &'a Path,
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// Reads a `watches.yaml` in this process's working directory and environment.
///
/// # FileErrors
/// Everything that is wrong with the file, with places; or that it can't be read.
pub fn load(path: &Path) -> Result<(Vec<Watch>, Vec<FileFinding>), FileErrors> {
    let folder = std::env::current_dir().unwrap_or_default();
    let file = path.display().to_string();
    let whole = |message| {
        FileErrors(vec![FileFinding {
            file: file.clone(),
            line: 0,
            column: 0,
            message,
        }])
    };
    let text = std::fs::read(path).map_err(|error| {
        let absolute: PathBuf = folder.join(path).components().collect();
        whole(match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!(
                    "there is no such file (looked at {}): name it with --watches-file",
                    absolute.display()
                )
            }
            _ => format!("cannot be read: {error}"),
        })
    })?;
    let env = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    parse(
        &file,
        &text,
        &ReadContext {
            folder: &folder,
            env: &env,
        },
    )
}

/// Reads the text of a `watches.yaml`; `file` is its name in messages. An empty file and an empty list are valid. A chart
/// that isn't there is a warning: its releases can be deleted all the same, and the other watches have nothing to do with it.
///
/// # FileErrors
/// Everything that is wrong, in the order of the lines.
pub fn parse(file: &str, text: &[u8], context: &ReadContext<'_>) -> Result<(Vec<Watch>, Vec<FileFinding>), FileErrors> {
    let mut findings = Findings::new(file);
    let root = match yaml::parse(text) {
        Ok(root) => root,
        Err(error) => {
            findings.error_at(error.line().unwrap_or(0), 0, error.message());
            return findings.finish(Vec::new());
        }
    };
    if let Some(line) = second_document(text) {
        findings.error_at(
            line,
            0,
            "a second YAML document begins here, which nobody would read: bring all watches into one list",
        );
    }
    let mut watches: Vec<Watch> = Vec::new();
    match &root.data {
        Data::Null => findings.warn_at(0, 0, "no watches: the operator has nothing to do"),
        Data::List(items) if items.is_empty() => findings.warn_at(0, 0, "no watches: the operator has nothing to do"),
        Data::List(items) => {
            for item in items {
                let Some(watch) = entry::read(item, context, &mut findings) else {
                    continue;
                };
                for other in &watches {
                    if watch.has_overlap_with(other) {
                        let remedy = match &watch.decorator {
                            None => "give both a selector, so that they exclude each other",
                            Some(_) => "give each decorator a `name` of its own",
                        };
                        let (kind, line) = (watch.group_kind(), other.line);
                        findings.error(item, format!("{kind} is watched on line {line} already: {remedy}"));
                    }
                }
                watches.push(watch);
            }
        }
        Data::Map(_) => findings.error(&root, "the file must be a list of watches: begin each with `- `"),
        other => findings.error(
            &root,
            format!("the file must be a list of watches, not {}", describe(other)),
        ),
    }
    findings.finish(watches)
}

/// The watch that is for an object of this group, version and kind with these labels. `decorator`: only one of that name.
///
/// # FileErrors
/// There is none; what the watches are for.
pub fn find_watch<'w>(
    watches: &'w [Watch],
    decorator: Option<&str>,
    &(group, version, kind): &(&str, &str, &str),
    labels: &BTreeMap<String, String>,
) -> Result<&'w Watch, String> {
    let same_kind: Vec<&Watch> = watches
        .iter()
        .filter(|watch| watch.group == group && watch.kind == kind && watch.version == version)
        .filter(|watch| decorator.is_none() || watch.decorator.as_deref() == decorator)
        .collect();
    let group_kind = || match group {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    };
    match same_kind.iter().find(|watch| watch.selector.matches(labels)) {
        Some(watch) => Ok(watch),
        None if same_kind.is_empty() => {
            let known = watches
                .iter()
                .map(|watch| format!("{}/{} {}", watch.group, watch.version, watch.kind));
            let known = known.collect::<Vec<_>>().join(", ");
            let group_kind = group_kind();
            Err(format!(
                "no watch is for {group_kind} in version {version}; the watches are for: {known}"
            ))
        }
        None => Err(format!(
            "the labels of this {} match the selector of no watch",
            group_kind()
        )),
    }
}

/// The line on which a second document begins that says something. operator-sdk reads the first one only.
fn second_document(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    let says = |document: &&str| !yaml::parse(document.as_bytes()).is_ok_and(|root| matches!(root.data, Data::Null));
    let second = yaml::documents(text).ok()?.into_iter().filter(says).nth(1)?;
    let before = (second.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(text.get(..before)?.lines().count() + 1)
}

// === impl Watch ===

impl Watch {
    /// `Kind.group`, or the bare kind in the core group.
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// What tells it from the others of the file, wherever it stands in it: its kind, and its selector if it has one. Two of
    /// a kind have selectors that exclude each other.
    pub fn id(&self) -> String {
        let decorator = self.decorator.as_ref().map(|name| format!(" decorated by {name}"));
        let kind = self.group_kind() + &decorator.unwrap_or_default();
        match self.selector.selects_all() {
            true => kind,
            false => format!("{kind} ({})", self.selector),
        }
    }

    /// Whether something of a release depends on more of its custom resource than name, namespace and spec.
    pub fn needs_resource(&self) -> bool {
        let mut names = self.values_from.iter().map(|source| &source.name);
        self.decorator.is_some()
            || self.target_namespace.is_some()
            || self.values_from_field.is_some()
            || names.any(|name| name.contains("{{"))
    }

    /// Whether values come from Secrets or ConfigMaps.
    pub fn has_sources(&self) -> bool {
        !self.values_from.is_empty() || self.values_from_field.is_some()
    }

    /// Whether members carry owner references. Not where they are to stay: the garbage collector would be faster than the
    /// operator when a custom resource is deleted in the foreground.
    pub fn has_owner_references(&self) -> bool {
        self.owner_references && self.deletion_policy != DeletionPolicy::Orphan
    }

    /// Whether a custom resource could belong to both.
    fn has_overlap_with(&self, other: &Watch) -> bool {
        let are_of_a_kind = self.group == other.group && self.kind == other.kind;
        are_of_a_kind && self.decorator == other.decorator && !selector::are_disjoint(&self.selector, &other.selector)
    }

    /// A digest of everything in the entry that has an effect on what is rendered or may be created: 64 hex digits,
    /// stable across restarts and independent of the place in the file. It covers expanded `overrideValues`, which may
    /// be secret and short: don't show it.
    pub fn digest(&self) -> String {
        let mut text = String::new();
        let overrides: Vec<_> = self.override_values.iter().map(|o| (&o.key, &o.value)).collect();
        // Debug of strings quotes and escapes, so that no two entries write the same text.
        let _ = write!(
            text,
            "{:?}",
            (
                &self.group,
                &self.version,
                &self.kind,
                (&self.values, &self.values_from, &self.values_from_field),
                overrides,
                &self.target_namespace,
                self.has_owner_references(),
                lists(&self.allow),
                lists(&self.lookups)
            )
        );
        // What is kept of a release depends on it.
        if self.on_failure == OnFailure::Rollback {
            text.push_str("rollback");
        }
        if let Some(name) = &self.decorator {
            let _ = write!(text, "decorator {name:?}");
        }
        data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
    }

    /// The same of what the entry adds to the chart's default values.
    pub fn defaults_digest(&self) -> String {
        let overrides: Vec<_> = self.override_values.iter().map(|o| (&o.key, &o.value)).collect();
        let text = format!("{:?}", (&self.values, overrides, &self.target_namespace));
        data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
    }
}

fn lists(allow: &AllowList) -> (&[String], &[String]) {
    (&allow.kinds, &allow.namespaces)
}

#[cfg(test)]
mod tests;
