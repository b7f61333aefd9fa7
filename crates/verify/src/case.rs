//! What stands in a case file.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::matching::Expected;
use super::refer::{Reference, ReferencePath};
use helm_template::render::Capabilities;

/// A file, and what holds for all its cases.
#[derive(Debug, Default)]
pub struct CaseFile {
    /// Where the chart is, if the folder of the file does not show it.
    pub chart: Option<PathBuf>,
    pub world: World,
    pub cases: Vec<VerifyCase>,
}

/// What there is beside the custom resource; `None`: what there was before.
#[derive(Clone, Debug, Default)]
pub struct World {
    /// Further keys of the watch.
    pub watch: Option<Map<String, Value>>,
    /// Objects that exist.
    pub lookups: Option<Vec<CaseInput>>,
    pub capabilities: Option<Capabilities>,
}

/// Objects that exist.
#[derive(Clone, Debug)]
pub enum CaseInput {
    Object(Value),
    /// Those in a file.
    File(PathBuf),
}

/// One release, and what becomes of it.
#[derive(Debug)]
pub struct VerifyCase {
    pub name: String,
    pub line: usize,
    /// The file with the custom resource.
    pub cr: Option<PathBuf>,
    /// The installation, and what follows.
    pub steps: Vec<CaseStep>,
}

/// One reconcile.
#[derive(Debug, Default)]
pub struct CaseStep {
    pub line: usize,
    /// Another chart from here on.
    pub chart: Option<PathBuf>,
    /// Merge patches of what the custom resource was before.
    pub metadata: Option<Value>,
    pub spec: Option<Value>,
    pub world: World,
    pub expect: Vec<Expectation>,
}

/// What is expected, and the line that says so.
#[derive(Debug)]
pub struct Expectation {
    pub line: usize,
    pub check: Check,
}

#[derive(Debug)]
pub enum Check {
    /// These objects, and no others.
    Objects(Vec<Reference>),
    /// These, among others.
    Contains(Vec<Reference>),
    /// None of these.
    Lacks(Vec<Reference>),
    Field(Reference, ReferencePath, Expected),
    /// A part of the notes, or of a warning.
    Notes(String),
    Warning(String),
    /// All that run, by their events.
    Hooks(Vec<(String, Vec<Reference>)>),
    /// The release stops: the reason, and a part of the message.
    Stops(Option<String>, Option<String>),
    /// To these members, and to no others, that happens.
    Members(What, Vec<Reference>),
    /// These are changed and no others.
    Changed(Vec<ExpectedChange>),
    /// Everything is as in the golden file.
    Snapshot,
}

/// A member that is changed; the fields, if that is said.
pub type ExpectedChange = (Reference, Option<Vec<ReferencePath>>);

/// What becomes of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Created,
    Recreated,
    Pruned,
    Kept,
    Restarts,
    /// Among others.
    Unchanged,
}
