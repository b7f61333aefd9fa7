//! A watch with its kind and its definition.

use std::path::Path;

use serde_json::Value;

use super::crd::Crd;
use crate::api::Kind;
use crate::lint::chart::examine::Examined;
use chartwright_watches::Watch;

/// A watch, and what was found for it.
pub(in crate::lint) struct Watched<'w> {
    pub(in crate::lint) watch: &'w Watch,
    pub(in crate::lint) kind: Kind,
    pub(in crate::lint) crd: Option<&'w Crd>,
}

impl<'w> Watched<'w> {
    pub(super) fn of(watch: &'w Watch, root: &Path, crds: &'w [Crd]) -> Self {
        Watched {
            watch,
            kind: Kind::of_watch(watch, root, crds),
            crd: crds.iter().find(|crd| crd.is_of(&watch.group, &watch.kind)),
        }
    }

    /// True if a chart was examined for this watch: its chart, with its patches.
    pub(in crate::lint) fn is_of(&self, examined: &Examined) -> bool {
        examined.folder == self.kind.chart && examined.patches == self.watch.patches
    }

    /// The schema of the version that is watched.
    pub(in crate::lint) fn schema(&self) -> Option<&Value> {
        self.crd?.schema(&self.watch.version)
    }
}
