//! The rows of all releases. The source writes them, the routes read them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::watch;

use crate::sync::lock;
use chartwright_core::dashboard::{ListPage, ListQuery, ReleaseIndex, ReleaseKey, ReleaseRow, list};

/// The most problems that are shown.
const MOST_PROBLEMS: usize = 20;

/// The rows of all releases, and what is known of their reading.
pub struct Board {
    /// Where the releases are: an operator or a cluster, for people.
    heading: String,
    state: Mutex<BoardState>,
    /// Counts the changes.
    version: watch::Sender<u64>,
    used: Mutex<Instant>,
}

#[derive(Default)]
struct BoardState {
    index: ReleaseIndex,
    /// Why a watch or the cluster cannot be read, by its name.
    problems: BTreeMap<String, String>,
    /// Why kinds are not watched at all.
    unwatched: Vec<String>,
    is_listed: bool,
}

/// A page of the list, as the browser gets it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listing {
    heading: String,
    /// The first lists are not complete yet.
    loading: bool,
    problems: Vec<String>,
    #[serde(flatten)]
    page: ListPage,
}

impl Board {
    pub fn new(heading: String) -> Self {
        Board {
            heading,
            state: Mutex::default(),
            version: watch::Sender::default(),
            used: Mutex::new(Instant::now()),
        }
    }

    /// Changes the rows. `change` returns true if that changes what is shown.
    pub fn change(&self, change: impl FnOnce(&mut ReleaseIndex) -> bool) {
        self.update(|state| change(&mut state.index));
    }

    /// Sets why something could not be read. `None`: it can.
    pub fn set_problem(&self, about: &str, problem: Option<String>) {
        self.update(|state| match problem {
            Some(problem) => state.problems.insert(about.to_owned(), problem.clone()) != Some(problem),
            None => state.problems.remove(about).is_some(),
        });
    }

    /// Removes the problems of watches that no longer run.
    pub fn retain_problems(&self, is_kept: impl Fn(&str) -> bool) {
        lock(&self.state).problems.retain(|about, _| is_kept(about));
    }

    /// Sets which kinds are not watched, each with the reason.
    pub fn set_unwatched(&self, unwatched: Vec<String>) {
        self.update(|state| std::mem::replace(&mut state.unwatched, unwatched) != state.unwatched);
    }

    /// Says whether all kinds were listed.
    pub fn set_listed(&self, is_listed: bool) {
        self.update(|state| std::mem::replace(&mut state.is_listed, is_listed) != is_listed);
    }

    /// Removes everything.
    pub fn clear(&self) {
        self.update(|state| {
            *state = BoardState::default();
            true
        });
    }

    /// Wakes those who follow if `update` returns true.
    fn update(&self, update: impl FnOnce(&mut BoardState) -> bool) {
        if update(&mut lock(&self.state)) {
            self.version.send_modify(|version| *version += 1);
        }
    }

    /// Time since the last request or change of an open stream.
    pub fn unused_for(&self) -> Duration {
        lock(&self.used).elapsed()
    }

    /// Notes that a person looks at the rows.
    pub fn note_use(&self) {
        *lock(&self.used) = Instant::now();
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(super) fn row(&self, key: &ReleaseKey) -> Option<ReleaseRow> {
        lock(&self.state).index.get(key).cloned()
    }

    pub(super) fn is_listed(&self) -> bool {
        lock(&self.state).is_listed
    }

    pub(super) fn listing(&self, query: &ListQuery) -> Listing {
        let state = lock(&self.state);
        let problems = state
            .problems
            .iter()
            .map(|(about, problem)| format!("{about}: {problem}"));
        let problems = problems.chain(state.unwatched.iter().cloned());
        Listing {
            heading: self.heading.clone(),
            loading: !state.is_listed,
            problems: problems.take(MOST_PROBLEMS).collect(),
            page: list(&state.index, query),
        }
    }
}
