//! The deletion: record and label discovery, reverse order, finalizer off. No chart, no values, no template is touched,
//! so nothing that is wrong with those can keep a custom resource from going.

pub(crate) mod deleted_resource;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use crate::cluster::connection::throttle::requested_wait;
use crate::cluster::custom_resource::remove_finalizer;
use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Error;
use crate::cluster::objects;
use crate::reconcile::RECHECK;
use crate::reconcile::Reconcile;
use crate::reconcile::ReconcileOutcome;
use crate::reconcile::check::list;
use crate::reconcile::claim::member_scopes::{self, MemberScopes};
use crate::reconcile::prune::removal::{RemovalCandidate, RemovalResult};
use crate::reconcile::release::Release;
use crate::reconcile::status::refusal;
use crate::telemetry::metrics::{Operation, ReconcileResult};
use chartwright_core::annotations;
use chartwright_core::apply::sequence::{self, Turn};
use chartwright_core::hooks;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::prune::Purpose;
use chartwright_core::prune::deletion::policy;
use chartwright_core::status::{Phase, Reason};
use chartwright_core::takeover;
use chartwright_watches::DeletionPolicy;

/// While members go that must be gone first; their watches usually tell sooner.
pub(super) const POLL: Duration = Duration::from_secs(5);

pub(super) enum UninstallProgress {
    /// Nothing is left to do; what became of the members.
    All(&'static str),
    /// These have to be gone first.
    Going(Vec<ObjectId>),
}

impl Reconcile<'_> {
    pub(super) async fn delete(&mut self, release: &mut Release) -> ReconcileOutcome {
        let is_held = match self.written.decorator {
            None => self.written.has_finalizer() || takeover::is_held(&self.written.finalizers),
            // What needs no finalizer is for the garbage collector.
            Some(_) => self.written.has_finalizer() || !self.written.deleting && self.written.is_marked(),
        };
        if !is_held {
            return finished();
        }
        match self.uninstall(release, false).await {
            Ok(UninstallProgress::All(note)) => self.remove_release_finalizer(release, note).await,
            Ok(UninstallProgress::Going(going)) => {
                member_scopes::want(
                    self.context,
                    &self.owner.set,
                    &MemberScopes::from_record(&release.record),
                );
                let message = format!("waiting until all members are gone: {}", list(going));
                let waiting = Phase::waiting(Reason::Uninstalling, message);
                ReconcileOutcome {
                    again: Some(POLL),
                    ..self.report(release, waiting).await
                }
            }
            Err(phase) => self.report(release, phase).await,
        }
    }

    /// Everything that a release has besides its custom resource goes, or stays without it. With `listed`, what there is
    /// of it is asked for, and not taken from the watches.
    pub(super) async fn uninstall(&mut self, release: &mut Release, listed: bool) -> Result<UninstallProgress, Phase> {
        let suspended = annotations::is_suspended(&self.written.annotations);
        let policy = policy(
            self.unit.watch.deletion_policy,
            &self.written.annotations,
            self.written.cascade,
        );
        let has_hooks = !listed && !suspended && policy != DeletionPolicy::Orphan;
        let has_hooks = has_hooks && !release.record.hooks.stored.is_empty();
        if has_hooks {
            self.run_delete_hooks(release, hooks::Operation::Delete.before())
                .await?;
        }
        match suspended {
            true => self.detach_former_members(release).await?,
            false => self.mark_orphans(release, &HashSet::new()).await?,
        }
        let removed = match suspended {
            true => self.disown_members(release, listed).await,
            false => self.delete_members(release, policy, listed, has_hooks).await,
        };
        if let Some(going) = settled(removed)? {
            return Ok(UninstallProgress::Going(going));
        }
        if has_hooks {
            self.run_delete_hooks(release, hooks::Operation::Delete.after()).await?;
            self.end_delete_hooks(release).await?;
            if let Some(going) = settled(self.delete_members(release, policy, listed, false).await)? {
                return Ok(UninstallProgress::Going(going));
            }
        }
        self.forget_delete_hooks(release).await?;
        self.forget_stored().await?;
        self.forget_kept().await?;
        self.forget_renders(release).await?;
        self.forget_steps(release).await?;
        self.forget_record(release).await?;
        Ok(UninstallProgress::All(match (suspended, policy) {
            (true, _) => "suspended: its objects are left as they are",
            (_, DeletionPolicy::Orphan) => "its objects stay, without the marks of a release",
            _ => "its objects are deleted",
        }))
    }

    /// Takes the finalizer off: the last write of a release.
    async fn remove_release_finalizer(&mut self, release: &mut Release, note: &str) -> ReconcileOutcome {
        let target = self.written.target(&self.unit.resource);
        let finalizer = self.written.finalizer();
        let removed = match self.written.deleting {
            true => remove_finalizer(&self.context.client, &target, &self.written.finalizers, &finalizer).await,
            false => self.undecorate().await,
        };
        if let Err(error) = removed {
            if let Some(remedy) = refusal(&error) {
                let message = format!("{note}, but the finalizer {finalizer} can't be taken off: {error}{remedy}");
                return self.report(release, Phase::failed(Reason::DeleteFailed, message)).await;
            }
            tracing::info!(resource = %self.written.key, %error, "the finalizer could not be removed yet");
            let wait = self.back_off(release).min(RECHECK);
            let wait = wait.max(requested_wait().unwrap_or_default());
            return ReconcileOutcome {
                put_off: requested_wait().is_some(),
                ..ReconcileOutcome::again(wait, ReconcileResult::Error)
            };
        }
        self.context.metrics.wrote("CustomResource", Operation::Metadata);
        self.inform("UninstallSuccessful", note).await;
        // Its members' watches may tell of their end before its own watch tells that it is gone.
        self.written.finalizers.retain(|other| *other != finalizer);
        ReconcileOutcome {
            written: Some(self.written.clone()),
            ..finished()
        }
    }

    /// Everything that may be a member: what carries the label of the set, and what the record lists, though somebody
    /// took the label off. The watches have told where they are synced (our own writes reach their index at once);
    /// what they don't cover is listed, and all of it with `listed`.
    ///
    /// # Errors
    /// If something that may hold members does not answer: then nothing is known to be gone.
    pub(super) async fn find_members(
        &self,
        release: &Release,
        listed: bool,
    ) -> Result<Vec<(ObjectId, RemovalCandidate)>, Error> {
        let discovery = &self.context.discovery;
        let recorded = MemberScopes::from_record(&release.record);
        let superset = MemberScopes::from_resource(&self.written).union(recorded);
        let unserved = |snapshot: &Snapshot| superset.kinds.iter().any(|kind| snapshot.preferred(kind).is_none());
        if unserved(&discovery.snapshot()) {
            // A kind may have come since; one that is still unknown has no objects, unless its group does not answer.
            discovery.refresh().await?;
        }
        let snapshot = discovery.snapshot();
        let mut found: BTreeMap<ObjectId, RemovalCandidate> = BTreeMap::new();
        for kind in &superset.kinds {
            snapshot.served(kind)?;
        }
        let unwatched: Vec<(&GroupKind, &str)> = {
            let members = self.context.members();
            let recorded = release.record.entries.iter().map(|entry| entry.id.clone());
            let known = members.known(members.of_set(&self.owner.set).into_iter().chain(recorded));
            found.extend(
                known
                    .into_iter()
                    .map(|(id, live)| (id, RemovalCandidate::Watched(live))),
            );
            let places = superset.places(&snapshot);
            places
                .filter(|(kind, namespace)| listed || !members.is_synced(kind, namespace))
                .collect()
        };
        for (kind, namespace) in unwatched {
            let namespace = (!namespace.is_empty()).then_some(namespace);
            let Some(resource) = snapshot.preferred(kind) else {
                continue;
            };
            for (namespace, name, live) in
                objects::list_applyset(&self.context.client, resource, namespace, &self.owner.set).await?
            {
                found.insert(
                    ObjectId::new(kind.clone(), namespace, name),
                    RemovalCandidate::Read(live),
                );
            }
        }
        for entry in &release.record.entries {
            found.entry(entry.id.clone()).or_insert(RemovalCandidate::Unknown);
        }
        Ok(found.into_iter().collect())
    }

    /// One round of deletes. What is settled leaves the record. With `spares_hooks`, what hooks made stays for now.
    async fn delete_members(
        &self,
        release: &mut Release,
        policy: DeletionPolicy,
        listed: bool,
        spares_hooks: bool,
    ) -> Result<RemovalResult, Error> {
        let purpose = match policy {
            DeletionPolicy::Orphan => Purpose::Orphan,
            DeletionPolicy::Delete | DeletionPolicy::WaitForTermination => Purpose::Delete,
        };
        let mut found = self.find_members(release, listed).await?;
        found.retain(|(_, candidate)| !(spares_hooks && candidate.is_of_hook()));
        let wave = |(_, candidate): &(ObjectId, RemovalCandidate)| candidate.wave();
        let turns = sequence::removal(found, |(id, _)| id, wave, &release.record, policy);
        let removed = self.remove(turns, purpose).await;
        let settled: HashSet<&ObjectId> = removed.left.iter().chain(&removed.held).collect();
        release.record.entries.retain(|entry| !settled.contains(&entry.id));
        Ok(removed)
    }

    /// Cuts the members off the custom resource: they stay as they are, and the garbage collector must not take them.
    async fn disown_members(&self, release: &Release, listed: bool) -> Result<RemovalResult, Error> {
        let found = self.find_members(release, listed).await?;
        Ok(self.remove(vec![Turn::Members(found)], Purpose::Suspended).await)
    }
}

/// What has to be gone before a removal goes on, if there is anything.
///
/// # Errors
/// The phase of a release of which something could not be deleted.
fn settled(removed: Result<RemovalResult, Error>) -> Result<Option<Vec<ObjectId>>, Phase> {
    let removed = removed.unwrap_or_else(|error| RemovalResult {
        failures: vec![error.to_string()],
        ..RemovalResult::default()
    });
    match removed.failures.is_empty() {
        true => Ok(removed.awaited.map(|_| removed.open)),
        false => Err(Phase::failed(Reason::DeleteFailed, list(removed.failures))),
    }
}

pub(super) fn finished() -> ReconcileOutcome {
    ReconcileOutcome {
        finished: true,
        ..ReconcileOutcome::of(ReconcileResult::Success)
    }
}
