//! Checks a rendered release before its first write: permissions, collisions and duplicate objects.

use std::collections::BTreeMap;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::cluster::objects::lookup::LookupAnswers;
use crate::reconcile::claim::decorator::ClaimRules;
use crate::reconcile::flow::Flow;
use crate::reconcile::release::Release;
use crate::reconcile::release::author_permit::AuthorPermit;
use crate::reconcile::render::job::{JobLookups, RenderJob, TemplateData, no_plan};
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::values;
use chartwright_core::digest::{Key, KeyUse};
use chartwright_core::grants::{self, Baseline, Own};
use chartwright_core::identity::ObjectId;
use chartwright_core::members::desired::Member;
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Phase, Reason};

/// Refuses what the author of a custom resource may not create.
pub(crate) struct Checker<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> Checker<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        Checker { scope }
    }
}

impl Checker<'_> {
    pub(super) async fn check_release(
        &self,
        release: &mut Release,
        prepared: &PreparedRelease,
        answers: &mut LookupAnswers,
    ) -> Flow {
        let failures = &prepared.desired.patch_failures;
        if !failures.is_empty() {
            return Break(Phase::stalled(Reason::PatchFailed, short_list(failures)));
        }
        let problems = &prepared.desired.problems;
        if !problems.is_empty() {
            return Break(Phase::stalled(Reason::ManifestInvalid, short_list(problems.clone())));
        }
        let hooks = || prepared.desired.hooks.iter().map(|hook| &hook.member);
        let all = prepared.desired.members.iter().chain(hooks());
        let reserved = all.filter_map(|member| {
            let refused = grants::may_be_named(&member.id, &self.scope.context.settings.own_objects).err()?;
            Some(format!("{}: {refused}", member.source))
        });
        let reserved: Vec<String> = reserved.collect();
        if !reserved.is_empty() {
            return Break(Phase::stalled(Reason::Refused, short_list(reserved)));
        }
        // Only authors with rights in the whole cluster can create a cluster-scoped custom resource. With a ServiceAccount, the API
        // server decides.
        if self.scope.written.key.namespace.is_empty() || self.scope.account.is_some() {
            return Continue(());
        }
        let refused = |member: &Member, baseline: Option<&Baseline>| {
            let namespace = &prepared.identity.namespace;
            let allow = &self.scope.unit.watch.allow;
            grants::may_create(&member.id, &member.object, namespace, baseline, allow).err()
        };
        let suspicious: Vec<&Member> = (prepared.desired.members.iter().chain(hooks()))
            .filter(|member| refused(member, None).is_some())
            .collect();
        if suspicious.is_empty() {
            release.render.permit = AuthorPermit::default();
            return Continue(());
        }
        let digest = self.permit(&suspicious);
        if release.render.permit.digest == digest {
            return Continue(());
        }
        let permits = self.scope.context.render.permits.as_ref();
        if let Some(known) = permits.and_then(|permits| permits.get(&self.scope.owner.set, &digest)) {
            release.render.permit = known;
            return Continue(());
        }
        let key = release.key(&self.scope.context.keys);
        let baseline = self.baseline(key, prepared, answers).await?;
        let refused: Vec<_> = suspicious
            .iter()
            .filter_map(|member| Some((member.source.as_str(), refused(member, baseline.as_ref())?)))
            .collect();
        match grants::refusal(&refused) {
            None => {
                let mut own: BTreeMap<ObjectId, Own> = BTreeMap::new();
                for member in suspicious {
                    let (id, baseline) = (&member.id, baseline.as_ref());
                    let namespace = &prepared.identity.namespace;
                    let found = baseline.map(|baseline| baseline.own(id, &member.object, namespace));
                    let known = own.entry(id.clone()).or_insert(Own::Object);
                    *known = found.unwrap_or_default().min(*known);
                }
                release.render.permit = AuthorPermit { digest, own };
                if let Some(permits) = permits {
                    permits.insert(&self.scope.owner.set, &release.render.permit);
                }
                Continue(())
            }
            Some(message) => Break(Phase::stalled(Reason::Refused, message)),
        }
    }

    /// Remembers the permits, so that the same objects need no second default render, which costs as much as the
    /// release's own.
    fn permit(&self, members: &[&Member]) -> String {
        let chart = self
            .scope
            .unit
            .renderer
            .as_ref()
            .map(|renderer| renderer.chart().digest());
        let (chart, watch) = (chart.unwrap_or_default(), self.scope.unit.watch.digest());
        let objects = members
            .iter()
            .flat_map(|member| [member.source.as_bytes(), member.digest.as_bytes()]);
        let parts: Vec<&[u8]> = [chart.as_bytes(), watch.as_bytes()]
            .into_iter()
            .chain(objects)
            .collect();
        self.scope.context.keys.current().digest(KeyUse::Permit, &parts)
    }

    /// Renders the chart for this release with the operator's values only, with the release's name, namespace and
    /// random results. The watch's patches apply to it as well: they belong to the operator's owner. Returns `None` for a chart
    /// that needs values to render.
    async fn baseline(
        &self,
        key: &Key,
        prepared: &PreparedRelease,
        answers: &mut LookupAnswers,
    ) -> Flow<Option<Baseline>> {
        let nobodys = values::values(self.scope.unit, &[], Value::Object(Default::default()));
        let (Ok(renderer), Ok(values)) = (&self.scope.unit.renderer, nobodys) else {
            return Continue(None);
        };
        let lane = self.scope.context.render.pool.lane(&self.scope.owner.set);
        let share = self.scope.context.render.budget.another(lane).await;
        let work = RenderJob {
            context: self.scope.context,
            client: &self.scope.client,
            unit: self.scope.unit,
            resource: &self.scope.written,
            renderer,
            key,
            identity: prepared.identity.clone(),
            data: TemplateData {
                release_name: prepared.release_name.clone(),
                values,
                plan: no_plan(),
                object: ClaimRules::new(self.scope).undecorated(),
                clock: self.scope.written.created,
            },
            lookups: JobLookups::default(),
            snapshot: self.scope.context.discovery.snapshot(),
            secrets: Default::default(),
            share: Arc::new(Mutex::new(share)),
        };
        match work
            .rounds(prepared.revision, &prepared.generated_values.kept, answers)
            .await
        {
            Continue((_, desired)) => {
                let hooks = desired.hooks.into_iter().map(|hook| hook.member);
                Continue(Some(Baseline::of(desired.members.into_iter().chain(hooks))))
            }
            Break(failed @ Phase::Failed { .. }) => Break(failed),
            Break(_) => Continue(None),
        }
    }
}
