//! The digest of everything that a render depends on: equal digests, equal renders.

use crate::cluster::discovery::{Snapshot, group_of};
use crate::cluster::objects::lookup;
use crate::reconcile::claim::decorator::ClaimRules;
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::release::Release;
use crate::reconcile::release::last_render::split;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::unit::Unit;
use crate::reconcile::values::sources;
use crate::telemetry::redact::MARK;
use chartwright_core::apply::is_as_recorded;
use chartwright_core::digest::{Key, KeyUse};
use chartwright_core::grants;
use chartwright_core::prune::intent;
use chartwright_core::record::Record;
use chartwright_core::record::requests::Request;
use helm_template::render::{LookupKey, is_about_all};

/// Changes when this program renders differently from its last version.
const ENGINE: &str = env!("CARGO_PKG_VERSION");

/// The digest of all inputs of a custom resource except looked-up objects, whose changes the watches show. `asked`: the
/// queries of `.Capabilities`.
pub fn digest(key: &Key, unit: &Unit, resource: &CustomResource, snapshot: &Snapshot, asked: &[String]) -> String {
    let chart = unit
        .renderer
        .as_ref()
        .map(|renderer| renderer.chart().digest())
        .unwrap_or_default();
    let answers = asked.iter().flat_map(|question| {
        let answer = snapshot.capabilities.answer(question, &snapshot.versions);
        [question.as_bytes(), answer.as_bytes()]
    });
    let capabilities = key.digest(KeyUse::Capabilities, &answers.collect::<Vec<_>>());
    // The names of its namespace and of what holds its values may depend on anything in the custom resource.
    let data = if unit.watch.needs_resource() {
        resource.as_data(&unit.resource).to_string()
    } else {
        String::new()
    };
    let (name, watch) = (resource.key.to_string(), unit.watch.digest());
    let given: [&[u8]; 5] = [
        ENGINE.as_bytes(),
        chart.as_bytes(),
        watch.as_bytes(),
        capabilities.as_bytes(),
        name.as_bytes(),
    ];
    let asked = [resource.spec_bytes(), data.as_bytes()];
    intent::inputs(
        &key.digest(KeyUse::Given, &given),
        &key.digest(KeyUse::Requested, &asked),
    )
}

/// Before the first reconcile: watches for what the record says was looked up, as far as the release may look there;
/// a status is not proof of that.
pub(crate) fn follow_recorded(context: &Context, unit: &Unit, resource: &CustomResource, record: &Record) {
    let Ok(namespace) = crate::reconcile::values::release_namespace::release_namespace(unit, resource) else {
        return;
    };
    let snapshot = context.discovery.snapshot();
    let lookups = record.lookups.iter();
    let mut keys: Vec<LookupKey> = lookups.filter_map(|text| lookup::parse(split(text).0)).collect();
    keys.retain(|key| may_look_up(unit, resource, &namespace, &snapshot, key).is_ok());
    let sources = sources::sources(unit, resource).unwrap_or_default();
    keys.extend(sources.into_iter().map(|source| source.key));
    context.follow_lookups(&resource.applyset_id(&unit.group_kind), keys.iter());
}

/// Whether a release, of this namespace, may know what is there.
pub(crate) fn may_look_up(
    unit: &Unit,
    resource: &CustomResource,
    namespace: &str,
    snapshot: &Snapshot,
    key: &LookupKey,
) -> Result<(), grants::Refused> {
    if resource.key.namespace.is_empty() {
        return Ok(());
    }
    let (group_kind, version) = lookup::group_kind(key);
    let namespaced = snapshot.namespaced(&group_kind, &version).unwrap_or(true);
    let there = namespaced.then_some(key.namespace.as_str());
    let (text, lookups) = (lookup::describe(key), &unit.watch.lookups);
    grants::may_look_up(&group_kind, there, &text, namespace, lookups)
}

/// Decides whether nothing is left to do for a release.
pub(crate) struct ConvergenceCheck<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> ConvergenceCheck<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        ConvergenceCheck { scope }
    }
}

impl ConvergenceCheck<'_> {
    /// The inputs of the next render. `None`: the release is neither complete nor part of a rollout, so nothing depends on them.
    pub(crate) fn inputs(&self, release: &Release) -> Option<String> {
        let record = &release.record;
        (record.done_for.is_some() || record.rollout.is_some()).then(|| {
            digest(
                release.key(&self.scope.context.keys),
                self.scope.unit,
                &self.scope.written,
                &self.scope.context.discovery.snapshot(),
                &record.capabilities,
            )
        })
    }

    /// True if nothing is to be done: the custom resource is held, the record is of these very inputs, and every member is
    /// live as it was left. Answered from memory, without a request and without a render.
    pub(crate) fn is_converged(&self, release: &Release, inputs: &str) -> bool {
        let record = &release.record;
        if record.done_for.as_deref() != Some(inputs)
            || !ClaimRules::new(self.scope).is_held(release)
            || !self.has_current_lookups(release)
        {
            return false;
        }
        let asked = [Request::Reconcile, Request::Force, Request::Regenerate];
        if asked
            .iter()
            .any(|request| self.scope.requested(release, *request).is_some())
        {
            return false;
        }
        if record.renewal.is_some_and(|due| due <= jiff::Timestamp::now()) {
            return false;
        }
        let snapshot = self.scope.context.discovery.snapshot();
        let asked = &record.capabilities;
        for failed in &snapshot.failed {
            let group = group_of(failed);
            if asked
                .iter()
                .any(|question| is_about_all(question) || group_of(question) == group)
            {
                // What it would answer is not known before it answers at all.
                let _ = snapshot.has_answered(group);
            }
        }
        let members = self.scope.context.members();
        record
            .entries
            .iter()
            .all(|entry| is_as_recorded(entry, members.get(&entry.id), &self.scope.owner))
    }

    /// True if everything that the release looked up is as it was. What is not watched (yet) may have changed.
    fn has_current_lookups(&self, release: &Release) -> bool {
        let snapshot = self.scope.context.discovery.snapshot();
        let index = self.scope.context.dependencies();
        release.render.last.lookups.iter().all(|lookup| {
            let (text, version) = split(lookup);
            // The status must not name an object whose name contains a secret.
            if text.contains(MARK) {
                return false;
            }
            lookup::parse(text).is_some_and(|key| {
                let target = lookup::dependency(&snapshot, &key);
                match snapshot.preferred(&target.group_kind) {
                    Some(_) => index.version(&target).is_some_and(|now| now == version),
                    None => version.is_empty() && snapshot.is_gone(&target.group_kind),
                }
            })
        })
    }
}
