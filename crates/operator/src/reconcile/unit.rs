//! One watch of `watches.yaml` at work.

use std::sync::Arc;

use kube::core::{Selector, SelectorExt as _};

use crate::cluster::discovery::Resource;
use crate::reconcile::custom_resource::{CustomResource, ResourceKey};
use crate::reconcile::rollout::gate::RolloutGate;
use crate::reconcile::status::lossy_status::LossyStatus;
use crate::reconcile::values::read_values::ReadValues;
use crate::telemetry::metrics::ReleaseLabels;
use chartwright_core::identity::GroupKind;
use chartwright_watches::Watch;
use helm_template::chart::Chart;
use helm_template::chart::stamp::Stamp;
use helm_template::render::Engine;

/// One watch of `watches.yaml` at work.
pub struct Unit {
    pub watch: Watch,
    pub group_kind: GroupKind,
    /// Group and kind as metric labels, shared by the series of all releases.
    pub labels: (Arc<str>, Arc<str>),
    pub resource: Resource,
    /// The chart, ready to render; or why it can't be read. Deletions work without.
    pub renderer: Result<Arc<Engine>, String>,
    /// Of the chart's files, as they were when they were read.
    pub stamp: Stamp,
    /// Whether the chart's text mentions release facts, see [`reads_release_facts`].
    pub reads_release_facts: bool,
    /// Selectors of other watches of the same kind.
    pub siblings: Vec<Selector>,
    /// Where its releases stand while a new chart is rolled out.
    pub rollout: RolloutGate,
    /// What the status of its custom resources does not keep.
    pub lossy: LossyStatus,
    /// Which values its chart reads.
    pub read_values: ReadValues,
}

/// True if a text mentions what an upgrade changes. `tpl` makes code of values, so that they are searched as well.
pub(crate) fn mentions_release_facts(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let mut facts = ["IsInstall", "IsUpgrade", "Revision"].into_iter();
    facts.any(|fact| text.contains(fact))
}

/// True if a chart or one of its dependencies mentions `.Release.Revision`, `.IsInstall` or `.IsUpgrade`: an upgrade may
/// render differently from what it is compared with. Found as text: it may be too much, and is never too little.
pub fn reads_release_facts(chart: &Chart) -> bool {
    // Values and files can reach `tpl`, too.
    let mut files = chart.templates.iter().chain(&chart.files);
    let values = serde_json::to_vec(&chart.values.to_json()).unwrap_or_default();
    mentions_release_facts(&values)
        || files.any(|file| mentions_release_facts(file.data.as_bytes()))
        || chart.dependencies.iter().any(reads_release_facts)
}

impl Unit {
    /// One for which nothing is known of other watches, nor of custom resources that exist.
    pub fn alone(watch: Watch, group_kind: GroupKind, resource: Resource, renderer: Arc<Engine>, stamp: Stamp) -> Self {
        Unit {
            labels: (
                Arc::from(group_kind.group.as_str()),
                Arc::from(group_kind.kind.as_str()),
            ),
            rollout: RolloutGate::new(watch.rollout),
            watch,
            group_kind,
            resource,
            reads_release_facts: reads_release_facts(renderer.chart()),
            renderer: Ok(renderer),
            stamp,
            siblings: Vec::new(),
            lossy: Default::default(),
            read_values: Default::default(),
        }
    }

    /// True if the chart on disk is still the one that was read. Looks at the metadata of its files.
    pub async fn is_chart_unchanged(&self) -> bool {
        let path = self.watch.chart.clone();
        let now = tokio::task::spawn_blocking(move || Stamp::of(&path)).await;
        now.is_ok_and(|now| now == self.stamp)
    }

    pub fn metric_labels(&self, key: &ResourceKey) -> ReleaseLabels {
        ReleaseLabels {
            group: self.labels.0.clone(),
            kind: self.labels.1.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }

    /// An object of its kind, as it is for this unit.
    pub fn take_in(&self, object: impl Into<CustomResource>) -> CustomResource {
        object.into().decorated_by(self.watch.decorator.clone())
    }

    /// True if a custom resource is this unit's business: it matches the selector, or it did (it has our marks)
    /// and no other watch of the kind has taken it over.
    pub fn is_ours(&self, labels: &std::collections::BTreeMap<String, String>, is_marked: bool) -> bool {
        self.watch.selector.matches(labels)
            || (is_marked && !self.siblings.iter().any(|sibling| sibling.matches(labels)))
    }
}
