//! Reads `watches.yaml`, the file that binds kinds to charts, into typed [`Watch`]es.
//!
//! The reader is strict: an unknown key, a wrong type or an invalid name is an error with file, line and column, and all errors of a
//! file are reported together. Every file that operator-sdk's helm-operator reads completely has the same meaning here. Where that
//! meaning is a common mistake, the reader adds a warning.
//!
//! ```
//! use std::path::Path;
//!
//! use chartwright_watches::{ReadContext, parse};
//!
//! let context = ReadContext { folder: Path::new("/project"), env: &|_| None };
//! let text = b"- {group: cache.example.com, version: v1, kind: Memcached, chart: charts/memcached}";
//! let (watches, warnings) = parse("watches.yaml", text, &context).unwrap();
//! assert_eq!(watches[0].id(), "Memcached.cache.example.com");
//! // The folder of this example has no chart.
//! assert!(warnings[0].message.starts_with("there is no chart at /project/charts/memcached"));
//!
//! let errors = parse("watches.yaml", b"- {version: v1, knd: Memcached, chart: a}", &context).unwrap_err();
//! assert!(errors.to_string().contains("watches.yaml:1:17: unknown key `knd`: did you mean `kind`?"));
//! ```
//!
//! - [`load`] reads a file, [`parse`] reads a text, [`find_watch`] finds the watch of an object.
//! - [`cel`] compiles and evaluates CEL conditions with a bound on their cost.
//! - [`names`] checks names by the rules of Kubernetes, [`duration`] parses Go's durations, [`text`] shortens texts.
//! - [`Findings`] and [`MapFields`] read other YAML files with the same errors.

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
pub use keys::differences::{DriftPolicy, FieldPointer, IgnoreRule};
pub use keys::elect::ElectRule;
pub use keys::health::HealthRule;
pub use keys::overrides::OverrideValue;
pub use keys::patches::{ObjectPatch, PatchChange, PatchSubject, PatchTarget};
pub use keys::policies::{Collisions, CrdPolicy, DeletionFallback, DeletionPolicy, OnFailure};
pub use keys::remediation::{RemediationAction, RemediationRule};
pub use keys::rollout::RolloutLimits;
pub use keys::selector::parse as parse_selector;
pub use keys::sources::{SourceKind, ValuesFrom, ValuesFromField, json as node_to_json};
pub use reader::{Findings, MapFields, describe as describe_node, suggestion};

use keys::selector;
use reader::describe;

/// Default file of the status template, in the chart.
pub const STATUS_TEMPLATE: &str = "status.yaml";

/// One entry of `watches.yaml`. It binds a kind to a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// API group; empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// A folder with a Chart.yaml, or a .tgz archive. Relative paths are joined to [`ReadContext::folder`].
    pub chart: PathBuf,
    /// Values of the watch. Those of the custom resource win.
    pub values: Map<String, Value>,
    /// Sources of further values. Later sources win; the custom resource wins over all.
    pub values_from: Vec<ValuesFrom>,
    /// The field in which a custom resource names its own sources. They win over `values_from`.
    pub values_from_field: Option<ValuesFromField>,
    /// In the order of the file.
    pub override_values: Vec<OverrideValue>,
    /// Name of the decorator, if the releases are attached to objects of other owners. Unique among decorators of one kind.
    pub decorator: Option<Arc<str>>,
    /// Objects that must be ready before a release is installed or upgraded.
    pub depends_on: Vec<DependsOn>,
    /// Selects the custom resources of this watch. Empty: all.
    pub selector: Selector,
    /// `None`: the period of the flag. Never zero: operator-sdk treats zero as unset.
    pub reconcile_period: Option<Duration>,
    /// `false`: members are not watched.
    pub watch_dependent_resources: bool,
    /// At least 1. `None`: the limit of the flag.
    pub max_concurrent_reconciles: Option<usize>,
    /// Limit for each hook, and for an upgrade to become healthy. `None`: 5 minutes, as in Helm.
    pub timeout: Option<Duration>,
    /// What happens to a failed upgrade after its retries.
    pub on_failure: OnFailure,
    /// Number of retries of a failed upgrade.
    pub retries: usize,
    /// `post-install` and `post-upgrade` hooks wait until all members are healthy.
    pub wait: bool,
    /// A namespace, or a Go template over the custom resource that renders one.
    pub target_namespace: Option<String>,
    /// The ServiceAccount with whose rights releases read and write: a name, or a Go template over the custom resource. `None`: the
    /// operator's own rights.
    pub service_account_name: Option<String>,
    /// What happens to a deletion for which the ServiceAccount lacks rights.
    pub deletion_fallback: DeletionFallback,
    /// A Go template over the custom resource that renders the name of its release. `None`: the name of the custom resource.
    pub release_name: Option<String>,
    /// What happens to the members of a release when its custom resource is deleted.
    pub deletion_policy: DeletionPolicy,
    /// Members carry an owner reference to their custom resource, where possible and where deletion has no order.
    pub owner_references: bool,
    /// Which existing objects a release may take over.
    pub collisions: Collisions,
    /// What happens to the CustomResourceDefinitions of the chart's `crds/` folder.
    pub crds: CrdPolicy,
    /// What custom resources may create besides the objects of the default render.
    pub allow: AllowList,
    /// What templates may look up outside of the release's namespace.
    pub lookups: AllowList,
    /// Changes of rendered objects, in the order in which they apply.
    pub patches: Arc<[ObjectPatch]>,
    /// Health conditions for members of a kind.
    pub health: Vec<HealthRule>,
    /// Actions that the operator takes for an unhealthy release.
    pub remediation: Vec<RemediationRule>,
    /// The file of the chart with the template of further status fields.
    pub status_template: String,
    /// Workloads for which the operator elects one pod as leader.
    pub elect: Vec<ElectRule>,
    /// What happens to drift of members that do not say it themselves.
    pub drift: DriftPolicy,
    /// Fields of members that are left to others.
    pub ignore_differences: Vec<IgnoreRule>,
    /// How a new chart reaches the releases.
    pub rollout: RolloutLimits,
    /// First line of the entry in the file, counted from 1.
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
    /// In `allow:`, how deep releases may nest custom resources of their own kind. `None`: the default.
    pub depth: Option<usize>,
}

/// The folder and environment in which a file is read.
pub struct ReadContext<'a> {
    /// Start of relative chart paths.
    pub folder: &'a Path,
    /// Returns the value of an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
}

/// Reads a `watches.yaml` with the working directory and environment of this process.
///
/// # Errors
/// All errors of the file with their places, or the reason why it cannot be read.
pub fn load(path: &Path) -> Result<(Vec<Watch>, Vec<FileFinding>), FileErrors> {
    let folder = std::env::current_dir().unwrap_or_default();
    let file = path.display().to_string();
    let file_error = |message| {
        FileErrors(vec![FileFinding {
            file: file.clone(),
            line: 0,
            column: 0,
            message,
        }])
    };
    let text = std::fs::read(path).map_err(|error| {
        let absolute: PathBuf = folder.join(path).components().collect();
        file_error(match error.kind() {
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

/// Reads the text of a `watches.yaml`. `file` is its name in messages. An empty file and an empty list are valid. A missing chart is
/// a warning: its releases can still be deleted, and other watches do not depend on it.
///
/// # Errors
/// All errors, in the order of the lines.
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
            "a second YAML document begins here and would be ignored: put all watches into one list",
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

/// Finds the watch of an object by its group, version, kind and labels. `decorator`: only the decorator of this name.
///
/// # Errors
/// No watch matches. The message lists the kinds of the watches.
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

/// Returns the line of a second, non-empty document. operator-sdk reads the first document only.
fn second_document(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    let says = |document: &&str| !yaml::parse(document.as_bytes()).is_ok_and(|root| matches!(root.data, Data::Null));
    let second = yaml::documents(text).ok()?.into_iter().filter(says).nth(1)?;
    let before = (second.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(text.get(..before)?.lines().count() + 1)
}

impl Watch {
    /// `Kind.group`, or the bare kind in the core group.
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// Returns the identity of the watch, independent of its place in the file: its kind, and its decorator and selector if set. Two
    /// watches of one kind have selectors that exclude each other.
    pub fn id(&self) -> String {
        let decorator = self.decorator.as_ref().map(|name| format!(" decorated by {name}"));
        let kind = self.group_kind() + &decorator.unwrap_or_default();
        if self.selector.selects_all() {
            kind
        } else {
            format!("{kind} ({})", self.selector)
        }
    }

    /// True if a release depends on more of its custom resource than name, namespace and spec.
    pub fn needs_resource(&self) -> bool {
        let mut names = self.values_from.iter().map(|source| &source.name);
        self.decorator.is_some()
            || self.target_namespace.is_some()
            || self.release_name.is_some()
            || self
                .service_account_name
                .as_ref()
                .is_some_and(|name| name.contains("{{"))
            || self.values_from_field.is_some()
            || names.any(|name| name.contains("{{"))
    }

    /// True if values come from Secrets or ConfigMaps.
    pub fn has_sources(&self) -> bool {
        !self.values_from.is_empty() || self.values_from_field.is_some()
    }

    /// True if members carry owner references. False for `deletionPolicy: Orphan`: on a foreground deletion the garbage collector
    /// would delete the members before the operator orphans them.
    pub fn has_owner_references(&self) -> bool {
        self.owner_references && self.deletion_policy != DeletionPolicy::Orphan
    }

    /// True if a custom resource could match both watches.
    fn has_overlap_with(&self, other: &Watch) -> bool {
        let are_of_a_kind = self.group == other.group && self.kind == other.kind;
        are_of_a_kind && self.decorator == other.decorator && !selector::are_disjoint(&self.selector, &other.selector)
    }

    /// Returns a digest of all keys that change the render or the allowed objects: 64 hex digits, stable across restarts and
    /// independent of the place in the file. It covers expanded `overrideValues`, which may be short secrets: do not show it.
    pub fn digest(&self) -> String {
        let mut text = String::new();
        let overrides: Vec<_> = self.override_values.iter().map(|o| (&o.key, &o.value)).collect();
        // `Debug` quotes and escapes strings, so different entries have different texts.
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
        // It decides what is stored of a release.
        if self.on_failure == OnFailure::Rollback {
            text.push_str("rollback");
        }
        if let Some(name) = &self.service_account_name {
            let _ = write!(text, "serviceAccountName {name:?}");
        }
        if let Some(template) = &self.release_name {
            let _ = write!(text, "releaseName {template:?}");
        }
        // They decide what is left of a member, so a change of theirs looks at all of them.
        if self.drift != DriftPolicy::default() {
            let _ = write!(text, "drift {:?}", self.drift);
        }
        if !self.ignore_differences.is_empty() {
            let _ = write!(text, "ignoreDifferences {:?}", self.ignore_differences);
        }
        if let Some(name) = &self.decorator {
            let _ = write!(text, "decorator {name:?}");
        }
        text.push_str(&self.patch_text());
        data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
    }

    /// Returns a digest of the keys that change the chart's default render.
    pub fn defaults_digest(&self) -> String {
        let overrides: Vec<_> = self.override_values.iter().map(|o| (&o.key, &o.value)).collect();
        let mut text = format!("{:?}", (&self.values, overrides, &self.target_namespace));
        text.push_str(&self.patch_text());
        data_encoding::HEXLOWER.encode(&Sha256::digest(text.as_bytes()))
    }

    /// Returns what the digests cover of `patches`, independent of their lines. Empty without patches: such a watch keeps the digest
    /// that earlier versions computed.
    fn patch_text(&self) -> String {
        let texts = self.patches.iter().map(ObjectPatch::text);
        texts.collect()
    }
}

fn lists(allow: &AllowList) -> (&[String], &[String]) {
    (&allow.kinds, &allow.namespaces)
}

#[cfg(test)]
mod tests;
