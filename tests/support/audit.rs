//! What was asked of the API server, from its audit log.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use jiff::Timestamp;
use serde_json::Value;

/// The audit log of an API server.
#[derive(Clone, Debug)]
pub struct Audit {
    path: PathBuf,
}

/// A place in the log: the requests answered so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditMark(u64);

/// One request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedRequest {
    /// Kubernetes' verb: get, list, watch, create, update, patch, delete, deletecollection; the HTTP method in lower
    /// case for paths that are no resources.
    pub verb: String,
    /// Empty for the core group.
    pub group: String,
    /// The resource, such as `deployments`; empty for paths that are no resources.
    pub resource: String,
    /// `status`, `scale`, ...; empty for the object itself.
    pub subresource: String,
    /// Empty for what is in no namespace, and for requests over all of them.
    pub namespace: String,
    /// Empty for lists, watches, and for creates that leave the name to the server.
    pub name: String,
    /// Who asked.
    pub user: String,
    /// Path and query.
    pub uri: String,
    /// The HTTP status; 0 if there is none yet.
    pub status: u16,
}

/// Requests in the order in which they were answered; the methods narrow them down.
#[derive(Clone, Debug, Default)]
pub struct AuditedRequests(Vec<AuditedRequest>);

impl Audit {
    /// The log in a file, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        Self { path: path.into() }
    }

    /// The end of the log as it is. The server writes a request down when it has answered it, so one whose answer came
    /// only just now may be missing; let a moment pass.
    pub fn mark(&self) -> anyhow::Result<AuditMark> {
        match std::fs::metadata(&self.path) {
            Ok(metadata) => Ok(AuditMark(metadata.len())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(AuditMark(0)),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", self.path.display())),
        }
    }

    /// All requests so far.
    pub fn requests(&self) -> anyhow::Result<AuditedRequests> {
        self.since(AuditMark::default())
    }

    /// The requests answered since a mark, and the watches that began.
    pub fn since(&self, mark: AuditMark) -> anyhow::Result<AuditedRequests> {
        parse(&self.text_since(mark)?).with_context(|| format!("{} is no audit log", self.path.display()))
    }

    /// The lines of the log after a mark.
    fn text_since(&self, mark: AuditMark) -> anyhow::Result<String> {
        let context = || format!("cannot read {}", self.path.display());
        let mut bytes = Vec::new();
        let mut file = File::open(&self.path).with_context(context)?;
        // The mark may have been taken in the middle of a line; that line belongs to what was before it.
        let before = SeekFrom::Start(mark.0.saturating_sub(1));
        file.seek(before).with_context(context)?;
        file.read_to_end(&mut bytes).with_context(context)?;
        let line_end = bytes.iter().position(|&byte| byte == b'\n');
        let start = match mark.0 {
            0 => 0,
            _ => line_end.map_or(bytes.len(), |end| end + 1),
        };
        Ok(String::from_utf8_lossy(bytes.get(start..).unwrap_or_default()).into_owned())
    }
}

/// Bytes at the end of a log that are searched for recent requests: more than the API server writes in a minute.
const RECENT: u64 = 16 << 20;

impl Audit {
    /// Whether a CustomResourceDefinition or APIService was written since a time, by any client. Operators then read
    /// discovery again.
    pub fn served_kinds_changed_since(&self, time: Timestamp) -> anyhow::Result<bool> {
        let end = self.mark()?;
        let recent = self.text_since(AuditMark(end.0.saturating_sub(RECENT)))?;
        Ok(recent.lines().any(|line| {
            let is_about_kinds = line.contains("customresourcedefinitions") || line.contains("apiservices");
            let event: Value = if is_about_kinds {
                serde_json::from_str(line).unwrap_or_default()
            } else {
                return false;
            };
            let at = event["stageTimestamp"].as_str().and_then(|text| text.parse().ok());
            AuditedRequest::from_event(&event).is_write() && at.is_some_and(|at: Timestamp| at >= time)
        }))
    }
}

/// A watch is in the log twice, when it begins and when it ends; it counts where it began.
fn parse(text: &str) -> anyhow::Result<AuditedRequests> {
    let mut requests: Vec<AuditedRequest> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for line in text.split_inclusive('\n') {
        // The server may be in the middle of the last line.
        let Some(line) = line.strip_suffix('\n') else { break };
        let event: Value = serde_json::from_str(line)?;
        let request = AuditedRequest::from_event(&event);
        let id = string(&event["auditID"]);
        match places.get(&id).and_then(|&place| requests.get_mut(place)) {
            Some(known) => *known = request,
            None => {
                places.insert(id, requests.len());
                requests.push(request);
            }
        }
    }
    Ok(AuditedRequests(requests))
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl AuditedRequest {
    fn from_event(event: &Value) -> Self {
        let status = event["responseStatus"]["code"].as_u64().unwrap_or_default();
        let about = &event["objectRef"];
        Self {
            verb: string(&event["verb"]),
            group: string(&about["apiGroup"]),
            resource: string(&about["resource"]),
            subresource: string(&about["subresource"]),
            namespace: string(&about["namespace"]),
            name: string(&about["name"]),
            user: string(&event["user"]["username"]),
            uri: string(&event["requestURI"]),
            status: u16::try_from(status).unwrap_or_default(),
        }
    }

    /// Whether it is of a kind that changes something, however it ended.
    pub fn is_write(&self) -> bool {
        !["get", "list", "watch", "head", "options"].contains(&self.verb.as_str())
    }
}

impl std::fmt::Display for AuditedRequest {
    /// One line, such as `patch apps/deployments/scale one/web 200 (operator)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (verb, resource, status, user) = (&self.verb, &self.resource, self.status, &self.user);
        if resource.is_empty() {
            return write!(f, "{verb} {} {status} ({user})", self.uri);
        }
        // Parts that may be empty, with their slash.
        let after = |part: &str| format!("{}{part}", if part.is_empty() { "" } else { "/" });
        let before = |part: &str| format!("{part}{}", if part.is_empty() { "" } else { "/" });
        let (group, subresource, name) = (before(&self.group), after(&self.subresource), after(&self.name));
        let name = format!("{}{name}", self.namespace);
        write!(f, "{verb} {group}{resource}{subresource} {name} {status} ({user})")
    }
}

impl AuditedRequests {
    /// Those that a test of one's own takes.
    #[must_use]
    pub fn filter(mut self, keep: impl FnMut(&AuditedRequest) -> bool) -> Self {
        self.0.retain(keep);
        self
    }

    /// Those of one user, by full name.
    #[must_use]
    pub fn by_user(self, user: &str) -> Self {
        self.filter(|request| request.user == user)
    }

    /// Those with one verb.
    #[must_use]
    pub fn verb(self, verb: &str) -> Self {
        self.filter(|request| request.verb == verb)
    }

    /// Those about one resource, such as `configmaps`, its subresources included.
    #[must_use]
    pub fn resource(self, resource: &str) -> Self {
        self.filter(|request| request.resource == resource)
    }

    /// Those about objects of one name.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.filter(|request| request.name == name)
    }

    /// Those that change something.
    #[must_use]
    pub fn writes(self) -> Self {
        self.filter(AuditedRequest::is_write)
    }

    /// Without what a client that does nothing does: its lease, and watches that restart.
    #[must_use]
    pub fn without_idling(self) -> Self {
        self.filter(|request| request.resource != "leases" && request.verb != "watch")
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fails if there are any.
    pub fn none(&self) -> anyhow::Result<()> {
        ensure!(self.is_empty(), "{self}");
        Ok(())
    }

    /// How many there are of each `verb resource/subresource`.
    pub fn kinds(&self) -> BTreeMap<String, usize> {
        let mut kinds = BTreeMap::new();
        for request in self.iter() {
            let kind = format!("{} {}/{}", request.verb, request.resource, request.subresource);
            *kinds.entry(kind.trim_end_matches(['/', ' ']).to_owned()).or_default() += 1;
        }
        kinds
    }

    /// Fails unless they are these, in any order, as `verb resource/subresource`, with a number before it where there are
    /// several of a kind.
    pub fn are(&self, expected: &str) -> anyhow::Result<()> {
        let kinds = self.kinds();
        let counts = kinds.iter().map(|(kind, count)| match count {
            1 => kind.clone(),
            count => format!("{count} {kind}"),
        });
        let counts = counts.collect::<Vec<_>>().join(", ");
        ensure!(counts == expected, "{counts}, not {expected}:\n{self}");
        Ok(())
    }

    /// One after the other.
    pub fn iter(&self) -> std::slice::Iter<'_, AuditedRequest> {
        self.0.iter()
    }
}

impl std::fmt::Display for AuditedRequests {
    /// One line each: what a failed assertion about their number should show.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|request| writeln!(f, "{request}"))
    }
}

impl IntoIterator for AuditedRequests {
    type Item = AuditedRequest;
    type IntoIter = std::vec::IntoIter<AuditedRequest>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
