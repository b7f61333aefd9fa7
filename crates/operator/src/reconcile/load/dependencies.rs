//! `dependsOn`: an installation or upgrade does not begin until other objects are ready. A running release goes on, and
//! its drift is corrected. While a release waits, its dependencies are watched like looked-up objects, so that no
//! request is made before one of them changes.

use std::collections::BTreeSet;
use std::ops::ControlFlow::{Break, Continue};

use crate::cluster::discovery::Snapshot;
use crate::cluster::objects::lookup;
use crate::reconcile::context::Context;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::load::input_digest;
use crate::reconcile::load::release_dependencies::{ReleaseDependency, as_dependency, needs};
use crate::reconcile::release::{DependencyVerdicts, Release};
use crate::reconcile::render::pool::off_worker;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::reconcile::render::secret_values::{self, ChartText};
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::unit::Unit;
use crate::reconcile::values::error::ValuesError;
use crate::reconcile::values::release_namespace::release_namespace;
use chartwright_core::health::depends_on;
use chartwright_core::identity::GroupKind;
use chartwright_core::index::dependencies::{self, ObjectDependency};
use chartwright_core::status::conditions::short_list;
use chartwright_core::status::{Phase, Reason};
use chartwright_watches::cel::Expression;
use helm_template::render::LookupKey;

/// True if a part of the release, or of its next revision, was applied. It then goes on regardless of its dependencies.
fn is_under_way(release: &Release) -> bool {
    let record = &release.record;
    record.upgrading || record.hooks.is_open() || record.revision == 0 && !record.entries.is_empty()
}

/// Holds an installation or upgrade until its dependencies are ready.
pub(crate) struct DependencyGate<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> DependencyGate<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        DependencyGate { scope }
    }
}

impl DependencyGate<'_> {
    /// Why a release that was never installed can't be yet.
    pub(crate) async fn await_to_install(&self, release: &mut Release) -> Flow {
        if release.record.revision > 0 || is_under_way(release) {
            Continue(())
        } else {
            self.await_dependencies(release).await
        }
    }

    /// The same of an upgrade, which is known by its render.
    pub(crate) async fn await_to_upgrade(&self, release: &mut Release, prepared: &PreparedRelease) -> Flow {
        let recorded = release.record.revision;
        let is_upgrade = recorded > 0 && prepared.revision > recorded && prepared.rollback.is_none();
        if is_upgrade && !is_under_way(release) {
            self.await_dependencies(release).await
        } else {
            Continue(())
        }
    }

    /// What can't be rendered may be so for want of what it depends on.
    pub(crate) async fn or_dependency_phase(&self, release: &mut Release, phase: Phase) -> Phase {
        match phase {
            Phase::Stalled { .. } if release.record.revision > 0 => {
                self.await_dependencies(release).await.break_value().unwrap_or(phase)
            }
            phase => phase,
        }
    }

    /// Adds problems of the dependencies to the phase of a running release. Stops following all other objects.
    pub(crate) fn with_dependency_warning(&self, phase: Phase) -> Phase {
        if !phase.is_well() {
            return phase;
        }
        match self.sound_needs() {
            Continue(_) => {
                self.follow(BTreeSet::new());
                phase
            }
            Break(flaw) => flaw,
        }
    }

    /// What the release depends on, unless something is wrong with that.
    fn sound_needs(&self) -> Flow<Vec<ReleaseDependency>> {
        let needs = needs(self.scope.unit, &self.scope.written).or_stop(Phase::from)?;
        if needs.is_empty() {
            return Continue(needs);
        }
        let snapshot = self.scope.context.discovery.snapshot();
        self.may_know(&needs, &snapshot)?;
        // What is decorated doesn't wait for what is attached to it.
        let is_waited_for = self.scope.written.decorator.is_none();
        if let Some(cycle) = self
            .scope
            .context
            .cycle(self.scope.unit, &self.scope.written)
            .filter(|_| is_waited_for)
        {
            let members = depends_on::describe_cycle(&cycle);
            // Whichever of them changes may end it.
            self.follow(cycle.into_iter().skip(1).collect());
            let message = format!("releases depend on each other in a cycle: {members}");
            return Break(Phase::stalled(Reason::DependencyCycle, message));
        }
        Continue(needs)
    }

    /// Stops if a dependency of the author has an invalid condition, or one that the author may not read: the
    /// condition's result would reveal the object bit by bit.
    fn may_know(&self, needs: &[ReleaseDependency], snapshot: &Snapshot) -> Flow {
        for need in needs.iter().filter(|need| need.is_own) {
            if need.group_kind == GroupKind::new("", "Secret") {
                let place = &need.place;
                let message = format!("{place}: Secrets can be named in `dependsOn` of the watch only");
                return Break(Phase::stalled(Reason::Refused, message));
            }
            if let Some(text) = &need.ready_when {
                let compile = || Expression::compile(text);
                let compiled = if Expression::is_compiled(text) {
                    compile()
                } else {
                    off_worker(compile)
                };
                compiled.or_stop(|error| ValuesError::Source(format!("{}: readyWhen: {error}", need.place)).into())?;
            }
            let Some(key) = need.key(snapshot) else { continue };
            let home = release_namespace(self.scope.unit, &self.scope.written).or_stop(Phase::from)?;
            input_digest::may_look_up(self.scope.unit, &self.scope.written, &home, snapshot, &key)
                .or_stop(|refused| Phase::stalled(Reason::Refused, format!("{}: {refused}", need.place)))?;
        }
        Continue(())
    }

    fn follow(&self, targets: BTreeSet<ObjectDependency>) {
        self.scope.context.follow_awaited(&self.scope.owner.set, targets);
    }

    /// The phase of a release while something that it depends on is not ready.
    async fn await_dependencies(&self, release: &mut Release) -> Flow {
        let needs = self.sound_needs()?;
        let snapshot = self.scope.context.discovery.snapshot();
        // Before they are looked at, so that no change is missed.
        self.follow(needs.iter().map(|need| need.target(&snapshot)).collect());
        let mut verdicts = DependencyVerdicts::new();
        let mut unready = Vec::new();
        for need in &needs {
            let Some(key) = need.key(&snapshot) else {
                let served = snapshot.has_answered(&need.group_kind.group);
                let why = served
                    .err()
                    .map(|error| format!("is of a kind that is not known: {error}"));
                unready.push(need.message(why.as_deref().unwrap_or("is of a kind that is not served (yet)")));
                continue;
            };
            let (version, why) = self.look_at(release, need, &key, &snapshot).await?;
            unready.extend(why.as_deref().map(|why| need.message(why)));
            verdicts.insert((key, need.ready_when.clone()), (version, why));
        }
        release.observed.dependencies = verdicts;
        if unready.is_empty() {
            Continue(())
        } else {
            Break(Phase::waiting(
                Reason::DependencyNotReady,
                format!("waiting for what it depends on: {}", short_list(unready)),
            ))
        }
    }

    /// The version of an object, and why it isn't ready: from memory where its watch shows that it is as it was.
    async fn look_at(
        &self,
        release: &Release,
        need: &ReleaseDependency,
        key: &LookupKey,
        snapshot: &Snapshot,
    ) -> Flow<(String, Option<String>)> {
        let context = self.scope.context;
        let now = context.dependencies().version(&lookup::dependency(snapshot, key));
        let known = release
            .observed
            .dependencies
            .get(&(key.clone(), need.ready_when.clone()));
        if let Some(known) = known.filter(|(version, _)| now.as_ref() == Some(version)) {
            return Continue(known.clone());
        }
        let keys = std::slice::from_ref(key);
        let found = lookup::fetch_all(&self.scope.client, snapshot, keys, &context.render.lookups).await;
        let found = found.or_stop(|(_, error)| {
            let message = format!("{}: {}: {error}", need.place, lookup::describe(key));
            if error.is_permanent() {
                Phase::stalled(Reason::LookupFailed, message)
            } else {
                Phase::failed(Reason::LookupFailed, message)
            }
        })?;
        let object = found.into_iter().next().unwrap_or_default();
        let chart = self.scope.unit.renderer.as_ref().ok().map(|renderer| renderer.chart());
        secret_values::learn_object(&release.secrets, &ChartText::of(chart), &object);
        let version = dependencies::version(&object);
        let condition = need.ready_when.clone();
        let judge = move |_| depends_on::unready(&object, condition.as_deref());
        match context.evaluate(&self.scope.owner.set, judge).await {
            Ok(why) => Continue((version, why)),
            Err(lost) => {
                let why = need.message(&format!("can't be judged: {lost}"));
                Break(Phase::failed(Reason::DependencyNotReady, why))
            }
        }
    }
}

impl Context {
    /// The circle of dependencies that a custom resource is in, as far as this process knows the others.
    fn cycle(&self, unit: &Unit, resource: &CustomResource) -> Option<Vec<ObjectDependency>> {
        let snapshot = self.discovery.snapshot();
        let start = as_dependency(unit, &resource.key);
        depends_on::cycle(&start, |at| self.needs_of(at, &snapshot))
    }
}
