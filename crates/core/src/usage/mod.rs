//! Counts over time what the pods and claims of releases request.
//!
//! [`requests`] reads the requests of one pod or claim, [`sample`] finds the release it belongs to, and [`Counters`] adds them
//! up: a sample counts until the next one.

pub mod requests;
pub mod sample;

use std::collections::BTreeMap;
use std::mem;
use std::ops::Add;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the stored form. A later one is not read.
const VERSION: u64 = 1;
/// So long the counters of a release that is gone stand under its own name.
const GONE: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Bytes.
pub const GIB: f64 = 1_073_741_824.0;
/// What a line of the counters takes beside the release's name, in bytes, about.
const LINE: usize = 80;

/// CPU, memory and storage: of [`Requests`] or [`Counted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "[T; 3]", into = "[T; 3]")]
pub struct Amounts<T: Clone> {
    pub cpu: T,
    pub memory: T,
    pub storage: T,
}

/// What is requested at a moment: thousandths of a core, and bytes.
pub type Requests = Amounts<u64>;
/// Requests over time: core-seconds, and byte-seconds.
pub type Counted = Amounts<f64>;

/// Whose requests they are. Without a name: those of releases of this namespace, or (without one, too) of this kind, that
/// have no line of their own any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageRelease {
    /// As `Kind.group`.
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

/// The counters of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    pub counted: Counted,
    /// What the last sample showed.
    #[serde(skip_serializing_if = "Requests::is_nothing")]
    pub requested: Requests,
    /// When its custom resource was first seen to be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<Timestamp>,
}

/// All counters of an operator, as they are stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    version: u64,
    /// When they were begun.
    pub since: Timestamp,
    /// When the last sample was taken.
    pub sampled: Timestamp,
    /// Seconds between two samples.
    pub period: u64,
    /// By kind, namespace and name.
    kinds: BTreeMap<String, BTreeMap<String, BTreeMap<String, Line>>>,
}
impl<T: Clone> From<[T; 3]> for Amounts<T> {
    fn from([cpu, memory, storage]: [T; 3]) -> Self {
        Amounts { cpu, memory, storage }
    }
}

impl<T: Clone> From<Amounts<T>> for [T; 3] {
    fn from(amounts: Amounts<T>) -> Self {
        [amounts.cpu, amounts.memory, amounts.storage]
    }
}

impl<T: Clone> Amounts<T> {
    fn each(self, other: Self, combine: impl Fn(T, T) -> T) -> Self {
        Amounts {
            cpu: combine(self.cpu, other.cpu),
            memory: combine(self.memory, other.memory),
            storage: combine(self.storage, other.storage),
        }
    }
}

impl Add for Requests {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }
}

impl Add for Counted {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, Add::add)
    }
}

impl Requests {
    fn is_nothing(&self) -> bool {
        *self == Requests::default()
    }
}

impl Counted {
    /// Orders releases by what they use: a core, 4 GiB of memory and 64 GiB of storage weigh alike.
    fn weight(&self) -> f64 {
        self.cpu + self.memory / (4.0 * GIB) + self.storage / (64.0 * GIB)
    }

    /// Adds what requests come to in some time.
    fn count(&mut self, requests: Requests, time: Duration) {
        let seconds = time.as_secs_f64();
        self.cpu += requests.cpu as f64 * seconds / 1000.0;
        self.memory += requests.memory as f64 * seconds;
        self.storage += requests.storage as f64 * seconds;
    }

    /// Without digits that say nothing.
    fn round(&mut self) {
        self.cpu = (self.cpu * 1000.0).round() / 1000.0;
        self.memory = self.memory.round();
        self.storage = self.storage.round();
    }
}

impl Add for Line {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Line {
            counted: self.counted + other.counted,
            requested: self.requested + other.requested,
            gone: None,
        }
    }
}
impl Counters {
    /// At the beginning.
    pub fn new(now: Timestamp) -> Self {
        Counters {
            version: VERSION,
            since: now,
            sampled: now,
            period: 0,
            kinds: BTreeMap::new(),
        }
    }

    /// Reads what was stored.
    ///
    /// # Errors
    /// It is something else, or a later version of this program wrote it.
    pub fn read(text: &str) -> Result<Self, String> {
        let stored: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        // Before the rest, which may look otherwise by then.
        match stored["version"].as_u64() {
            Some(version) if version > VERSION => Err(format!("it has the form {version}, of a later version")),
            _ => serde_json::from_value(stored).map_err(|error| error.to_string()),
        }
    }

    /// Takes in a sample. `elapsed` is the time since the one before; `None`: nothing counts until now, since
    /// the requests in between are unknown. `is_there`: the custom resource of a release exists.
    pub fn take(
        &mut self,
        now: Timestamp,
        elapsed: Option<Duration>,
        requested: BTreeMap<UsageRelease, Requests>,
        is_there: impl Fn(&UsageRelease) -> bool,
    ) {
        for line in self.lines_mut() {
            let requested = mem::take(&mut line.requested);
            line.counted.count(requested, elapsed.unwrap_or_default());
        }
        for (release, requests) in requested.into_iter().filter(|(_, requests)| !requests.is_nothing()) {
            self.line(release).requested = requests;
        }
        self.sampled = now;
        let mut old = Vec::new();
        for release in self.lines().map(|(release, _)| release).collect::<Vec<_>>() {
            let is_there = release.name.is_empty() || is_there(&release);
            let line = self.line(release.clone());
            line.gone = (!is_there).then(|| line.gone.unwrap_or(now));
            if line.gone.is_some_and(|gone| now.duration_since(gone) > GONE) {
                old.push(release);
            }
        }
        for release in old {
            let namespace = release.namespace.clone();
            self.fold(release, namespace);
        }
    }

    /// What is to be stored. Where it would be longer than `limit` bytes, the smallest releases, those that are gone
    /// first, are counted for their kind from now on.
    pub fn to_text(&mut self, limit: usize) -> serde_json::Result<String> {
        self.lines_mut().for_each(|line| line.counted.round());
        loop {
            let text = serde_json::to_string(self)?;
            let excess = text.len().saturating_sub(limit);
            let is_own =
                |(release, _): &(UsageRelease, &Line)| !(release.name.is_empty() && release.namespace.is_empty());
            let mut smallest: Vec<_> = self.lines().filter(is_own).collect();
            if excess == 0 || smallest.is_empty() {
                return Ok(text);
            }
            smallest.sort_by(|(_, a), (_, b)| {
                let is_there = a.gone.is_none().cmp(&b.gone.is_none());
                is_there.then(a.counted.weight().total_cmp(&b.counted.weight()))
            });
            let mut freed = 0;
            let enough = smallest.into_iter().map(|(release, _)| release).take_while(|release| {
                let goes_on = freed < excess;
                freed += release.name.len() + LINE;
                goes_on
            });
            for release in enough.collect::<Vec<_>>() {
                self.fold(release, String::new());
            }
        }
    }

    /// Every release, in order.
    pub fn lines(&self) -> impl Iterator<Item = (UsageRelease, &Line)> {
        self.kinds.iter().flat_map(|(kind, namespaces)| {
            namespaces.iter().flat_map(move |(namespace, lines)| {
                lines.iter().map(move |(name, line)| {
                    let (kind, namespace, name) = (kind.clone(), namespace.clone(), name.clone());
                    (UsageRelease { kind, namespace, name }, line)
                })
            })
        })
    }

    /// What was counted for each kind since the beginning.
    pub fn of_kinds(&self) -> impl Iterator<Item = (&str, Counted)> {
        self.kinds.iter().map(|(kind, namespaces)| {
            let lines = namespaces.values().flat_map(BTreeMap::values);
            (
                kind.as_str(),
                lines.map(|line| line.counted).fold(Counted::default(), Add::add),
            )
        })
    }

    fn lines_mut(&mut self) -> impl Iterator<Item = &mut Line> {
        let lines = self.kinds.values_mut().flat_map(BTreeMap::values_mut);
        lines.flat_map(BTreeMap::values_mut)
    }

    fn line(&mut self, release: UsageRelease) -> &mut Line {
        let namespaces = self.kinds.entry(release.kind).or_default();
        let lines = namespaces.entry(release.namespace).or_default();
        lines.entry(release.name).or_default()
    }

    /// Counts a release among those of a namespace, or (empty) of its kind, that have no line of their own.
    fn fold(&mut self, release: UsageRelease, namespace: String) {
        let Some(namespaces) = self.kinds.get_mut(&release.kind) else {
            return;
        };
        let lines = namespaces.entry(release.namespace.clone()).or_default();
        let line = lines.remove(&release.name).unwrap_or_default();
        if lines.is_empty() {
            namespaces.remove(&release.namespace);
        }
        let rest = self.line(UsageRelease {
            kind: release.kind,
            namespace,
            name: String::new(),
        });
        // What it requests now counts until the next sample.
        *rest = rest.clone() + line;
    }
}

#[cfg(test)]
mod tests;
