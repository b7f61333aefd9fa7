//! What the watches have in the `crds/` folders of their charts, and the problems with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::sync::lock;
use chartwright_core::crds::chart::{CrdClaim, CrdProvider, provider};
use chartwright_watches::Watch;

/// The definitions of all charts whose watch has `crds: CreateReplace`.
#[derive(Default)]
pub struct ChartCrdIndex {
    claims: Mutex<Arc<ChartCrdClaims>>,
    /// By group and kind of a watch, and its id.
    problems: Mutex<HashMap<(String, String), Vec<String>>>,
}

/// The claims of the watches.
#[derive(Default)]
pub struct ChartCrdClaims {
    /// In the order of the file.
    pub watches: Vec<WatchClaims>,
    /// Group, kind and version of all watches.
    pub watched: Vec<(String, String, String)>,
}

/// The claims of one watch.
pub struct WatchClaims {
    /// The id of the watch.
    pub id: String,
    pub claims: Vec<CrdClaim>,
    /// Files that could not be read.
    pub problems: Vec<String>,
}

impl ChartCrdClaims {
    /// The claims of a watch.
    pub fn of(&self, id: &str) -> Option<&WatchClaims> {
        self.watches.iter().find(|watch| watch.id == id)
    }

    /// Which watch provides a definition, from the view of one watch.
    pub fn provider(&self, name: &str, id: &str) -> CrdProvider {
        let claims = self.watches.iter().filter_map(|watch| {
            let claim = watch.claims.iter().find(|claim| claim.name == name)?;
            Some((watch.id.as_str(), claim))
        });
        provider(&claims.collect::<Vec<_>>(), id)
    }
}

impl ChartCrdIndex {
    /// Replaces the claims.
    pub fn set_claims(&self, claims: ChartCrdClaims) {
        *lock(&self.claims) = Arc::new(claims);
    }

    pub fn claims(&self) -> Arc<ChartCrdClaims> {
        lock(&self.claims).clone()
    }

    /// Replaces the problems of a watch. Returns how many there are with its group and kind.
    pub fn set_problems(&self, watch: &Watch, problems: Vec<String>) -> usize {
        let mut all = lock(&self.problems);
        all.insert((watch.group_kind(), watch.id()), problems);
        let of_kind = all.iter().filter(|((kind, _), _)| *kind == watch.group_kind());
        of_kind.map(|(_, problems)| problems.len()).sum()
    }

    /// The problems of a watch.
    pub fn problems(&self, watch: &Watch) -> Vec<String> {
        let all = lock(&self.problems);
        all.get(&(watch.group_kind(), watch.id())).cloned().unwrap_or_default()
    }
}
