//! Families of metrics whose labels come from custom resources, with a bound on their series.
//!
//! A series costs memory in this process and in every Prometheus that scrapes it, for as long as it is there. So no author of a
//! custom resource may make series without end, nor take from others the ones that there may be.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::labels::{LabelPairs, ReleaseLabels, value};
use crate::sync::lock;

/// Series of a family, by kinds or by plans. What has no series of its own is counted under [`OTHER`].
pub(super) const MAX_SERIES: usize = 1000;

/// Series of a family with one for each custom resource. What is beyond has none.
pub(super) const MAX_RELEASES: usize = 20_000;

/// Plans of one release that have series of their own.
pub(super) const MAX_PLANS: usize = 20;

/// Names what has no series of its own.
pub(super) const OTHER: &str = "other";

/// Label sets whose family has a bound.
pub(super) trait Bounded: Clone + Hash + Eq {
    /// What is counted once there are so many series; `None`: nothing.
    fn overflow(&self) -> Option<Self>;
    /// So many series there may be.
    const MAX: usize;
}

/// A family with a bound.
#[derive(Debug)]
pub(super) struct BoundedFamily<S, M> {
    family: Family<S, M>,
    /// Series that there are, but those of what overflowed.
    count: Mutex<usize>,
}

/// Runs of plans. A series is there as long as a release is that had such a run.
#[derive(Debug)]
pub(super) struct PlanRuns {
    runs: Family<LabelPairs<4>, Counter>,
    owners: Mutex<PlanOwners>,
}

#[derive(Debug, Default)]
struct PlanOwners {
    /// Plans, but [`OTHER`], that releases had runs of.
    plans: HashMap<PlanLabels, usize>,
    of_release: HashMap<ReleaseLabels, BTreeSet<Arc<str>>>,
    /// Releases that have runs under [`OTHER`], by their group and kind.
    others: HashMap<(Arc<str>, Arc<str>), usize>,
}

/// Group and kind of the custom resource, and the plan's name.
type PlanLabels = (Arc<str>, Arc<str>, Arc<str>);

/// How runs end.
const RESULTS: [&str; 2] = ["success", "error"];

impl<const N: usize> Bounded for LabelPairs<N> {
    const MAX: usize = MAX_SERIES;

    fn overflow(&self) -> Option<Self> {
        let mut labels = self.clone();
        for (name, value) in &mut labels {
            if ["group", "kind"].contains(name) {
                *value = OTHER.to_owned();
            }
        }
        Some(labels)
    }
}

impl Bounded for ReleaseLabels {
    const MAX: usize = MAX_RELEASES;

    fn overflow(&self) -> Option<Self> {
        None
    }
}

impl<S: Bounded, M: Default> BoundedFamily<S, M> {
    /// Bounds a family without series.
    pub(super) fn new(family: Family<S, M>) -> Self {
        BoundedFamily {
            family,
            count: Mutex::default(),
        }
    }

    /// Does something to the metric of these labels, or to the one that stands for all beyond the bound.
    pub(super) fn with(&self, labels: &S, act: impl FnOnce(&M)) {
        if let Some(metric) = self.family.get(labels) {
            return act(&metric);
        }
        let mut count = lock(&self.count);
        // Another thread may have been faster.
        if let Some(metric) = self.family.get(labels) {
            return act(&metric);
        }
        if *count < S::MAX {
            *count += 1;
            act(&self.family.get_or_create(labels));
        } else if let Some(other) = labels.overflow() {
            act(&self.family.get_or_create(&other));
        }
    }

    pub(super) fn remove(&self, labels: &S) {
        let mut count = lock(&self.count);
        if self.family.remove(labels) {
            *count = count.saturating_sub(1);
        }
    }
}

impl PlanRuns {
    /// Bounds a family without series.
    pub(super) fn new(runs: Family<LabelPairs<4>, Counter>) -> Self {
        PlanRuns {
            runs,
            owners: Mutex::default(),
        }
    }

    /// Counts a run of a plan of a release.
    pub(super) fn count(&self, release: &ReleaseLabels, plan: &str, succeeded: bool) {
        let mut owners = lock(&self.owners);
        let plan = owners.own(release, &value(plan));
        let [success, error] = RESULTS;
        let result = if succeeded { success } else { error };
        self.runs
            .get_or_create(&labels(&release.group, &release.kind, &plan, result))
            .inc();
    }

    /// Removes the series that no other release has had runs of.
    pub(super) fn forget(&self, release: &ReleaseLabels) {
        let mut owners = lock(&self.owners);
        for (group, kind, plan) in owners.disown(release) {
            for result in RESULTS {
                self.runs.remove(&labels(&group, &kind, &plan, result));
            }
        }
    }
}

impl PlanOwners {
    /// The name under which a run of this plan is counted.
    fn own(&mut self, release: &ReleaseLabels, plan: &str) -> Arc<str> {
        let of_release = self.of_release.entry(release.clone()).or_default();
        if let Some(known) = of_release.get(plan) {
            return known.clone();
        }
        let (group, kind) = (release.group.clone(), release.kind.clone());
        let key = (group.clone(), kind.clone(), Arc::from(plan));
        let is_known = self.plans.contains_key(&key);
        let has_room = of_release.len() < MAX_PLANS && (is_known || self.plans.len() < MAX_SERIES / RESULTS.len());
        if plan != OTHER && has_room {
            let name = key.2.clone();
            of_release.insert(name.clone());
            *self.plans.entry(key).or_default() += 1;
            return name;
        }
        let other: Arc<str> = OTHER.into();
        if of_release.insert(other.clone()) {
            *self.others.entry((group, kind)).or_default() += 1;
        }
        other
    }

    /// The plans that no release is left of.
    fn disown(&mut self, release: &ReleaseLabels) -> Vec<PlanLabels> {
        let plans = self.of_release.remove(release).unwrap_or_default();
        let (group, kind) = (&release.group, &release.kind);
        let is_last = |plan: &Arc<str>| match &**plan {
            OTHER => is_last_one(&mut self.others, &(group.clone(), kind.clone())),
            _ => is_last_one(&mut self.plans, &(group.clone(), kind.clone(), plan.clone())),
        };
        let gone: Vec<_> = plans.into_iter().filter(is_last).collect();
        gone.into_iter()
            .map(|plan| (group.clone(), kind.clone(), plan))
            .collect()
    }
}

/// Takes one away. True if none is left.
fn is_last_one<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) -> bool {
    let Some(count) = counts.get_mut(key) else {
        return true;
    };
    *count -= 1;
    let is_last = *count == 0;
    if is_last {
        counts.remove(key);
    }
    is_last
}

fn labels(group: &str, kind: &str, plan: &str, result: &str) -> LabelPairs<4> {
    [
        ("group", group.to_owned()),
        ("kind", kind.to_owned()),
        ("plan", plan.to_owned()),
        ("result", result.to_owned()),
    ]
}
