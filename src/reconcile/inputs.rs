//! The digest of everything that a render depends on: equal digests, equal renders.

use super::Run;
use super::context::Unit;
use super::custom_resource::CustomResource;
use super::release::Release;
use crate::cluster::discovery::Snapshot;
use crate::plan::apply::is_as_recorded;
use crate::plan::digest::Key;

/// Changes when this program renders differently from its last version.
const ENGINE: &str = env!("CARGO_PKG_VERSION");

/// The digest for a custom resource, as far as it can be told without rendering. `looked_up` is what a render found in
/// the cluster.
pub fn digest(key: &Key, unit: &Unit, resource: &CustomResource, snapshot: &Snapshot, looked_up: &[u8]) -> String {
    let chart = unit
        .renderer
        .as_ref()
        .map(|renderer| renderer.chart().digest())
        .unwrap_or_default();
    let capabilities = match unit.reads_capabilities(resource) {
        true => snapshot.digest.as_str(),
        false => "",
    };
    let data = match &unit.watch.target_namespace {
        // The name of the namespace may depend on anything in the custom resource.
        Some(_) => resource.as_data(&unit.resource).to_string(),
        None => String::new(),
    };
    key.digest(&[
        ENGINE.as_bytes(),
        chart.as_bytes(),
        unit.watch.digest().as_bytes(),
        capabilities.as_bytes(),
        resource.key.to_string().as_bytes(),
        resource.spec_bytes(),
        data.as_bytes(),
        looked_up,
    ])
}

impl Run<'_> {
    /// True if nothing is to be done: the record is of these very inputs, and every member is live as it was left.
    /// Answered from memory, without a request and without a render.
    pub(super) fn is_converged(&self, release: &Release) -> bool {
        let record = &release.record;
        // What was looked up may have changed; only a render can tell.
        if record.inputs.is_empty() || !record.lookups.is_empty() {
            return false;
        }
        if self.must_regenerate(release) || record.renewal.is_some_and(|due| due <= jiff::Timestamp::now()) {
            return false;
        }
        let snapshot = self.context.discovery.snapshot();
        if record.inputs != digest(&self.context.key, self.unit, &self.written, &snapshot, &[]) {
            return false;
        }
        let owner = self.written.owner(&self.unit.group_kind);
        let members = self.context.members();
        record
            .entries
            .iter()
            .all(|entry| is_as_recorded(entry, members.get(&entry.id), &owner))
    }
}
