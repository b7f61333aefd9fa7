//! Sends one member: without the fields that other managers may keep and without what the API server refuses. If a
//! field is immutable and the policy allows it, the member is deleted and created again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use crate::cluster::discovery::Resource;
use crate::cluster::error::{Cause, Error};
use crate::cluster::objects::{self, ApplyTarget, DeleteOutcome, DryRunResult};
use crate::reconcile::release::Release;
use crate::reconcile::scope::ReleaseScope;
use crate::telemetry::metrics::WriteOperation;
use chartwright_core::apply::member_outcome::MemberOutcome;
use chartwright_core::apply::{ApplyReason, content, schema_errors, sign};
use chartwright_core::drift::rollback;
use chartwright_core::identity::ObjectId;
use chartwright_core::index::live::Live;
use chartwright_core::members::desired::Member;
use chartwright_core::members::foreign_fields;
use chartwright_core::members::immutable_fields::{self, KeptField, may_recreate};
use chartwright_core::status::Reason;
use chartwright_core::status::conditions::short_list;

/// The API server names all duplicates in one response, but duplicates inside of a removed item show up only
/// afterwards.
const ROUNDS: usize = 4;

/// How often a change of the managed fields is sent again, because the object had changed in between. Controllers write the status of a
/// workload several times right after an edit.
pub(crate) const TRIES: usize = 5;

/// Options of one apply.
#[derive(Clone, Copy)]
pub(crate) struct SendOptions<'a> {
    /// True to apply to the live object. False to create the object only.
    pub force: bool,
    pub why: ApplyReason,
    /// True if a `force-at` request permits to recreate members with immutable changes, once.
    pub recreate: bool,
    /// What is applied to a live object in place of the rendered one: without fields that are left to others.
    pub object: Option<&'a Value>,
}

/// What became of fields of other managers near refused fields.
enum ForeignFields {
    /// Our field manager owns them now: the next apply removes them.
    Taken,
    /// They stay, or there are none: the fields, each with its manager.
    Kept(Vec<String>),
}

/// Sends one member to the API server and handles refusals.
pub(crate) struct MemberSender<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> MemberSender<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        MemberSender { scope }
    }
}

impl MemberSender<'_> {
    /// Applies a member. `live`: the known live object. Returns an error only for a conflict: the live object has
    /// changed since, and nothing was written.
    pub(crate) async fn send(
        &self,
        release: &mut Release,
        resource: &Resource,
        member: &Member,
        live: Option<&Live>,
        order: SendOptions<'_>,
    ) -> Result<MemberOutcome, Error> {
        let live = live.filter(|_| order.force);
        let reduced = order.object.filter(|_| live.is_some()).map(|object| Member {
            object: object.clone(),
            ..member.clone()
        });
        let sent = reduced.as_ref().unwrap_or(member);
        let outcome = match (self.send_content(release, resource, sent, live).await, live) {
            (Ok(live), _) => MemberOutcome::Applied(Box::new(live), order.why),
            (Err(error @ Error::Unprocessable { .. }), Some(live)) => {
                self.overcome_refusal(release, resource, member, live, order, error)
                    .await?
            }
            (Err(error), _) => self.outcome_or_conflict(member, error)?,
        };
        if matches!(outcome, MemberOutcome::Applied(_, ApplyReason::Drifted)) {
            self.scope
                .context
                .metrics
                .objects
                .corrected_drift(&member.id.group_kind.kind);
        }
        Ok(outcome)
    }

    /// Applies a member whose merge with the live object is refused. If the API server accepts the rendered object alone, fields of
    /// other managers are the cause, which are removed, or immutable fields, for which the member is recreated.
    async fn overcome_refusal(
        &self,
        release: &mut Release,
        resource: &Resource,
        member: &Member,
        live: &Live,
        order: SendOptions<'_>,
        error: Error,
    ) -> Result<MemberOutcome, Error> {
        match objects::check_creation(&self.scope.client, resource, &member.id, &member.object).await {
            Ok(DryRunResult::Accepted) => {}
            Ok(DryRunResult::Refused(_)) => return Ok(self.failure(member, &error)),
            Err(error) => return Ok(self.failure(member, &error)),
        }
        let mut taken = self.take_foreign_fields(resource, member, live, &error).await;
        for _ in 1..TRIES {
            // A controller wrote the status in between.
            if !matches!(taken, Err(Error::Conflict(_))) {
                break;
            }
            taken = self.take_foreign_fields(resource, member, live, &error).await;
        }
        let foreign = match taken? {
            ForeignFields::Taken => match self.send_content(release, resource, member, Some(live)).await {
                Ok(live) => return Ok(MemberOutcome::Applied(Box::new(live), order.why)),
                Err(error) => return self.outcome_or_conflict(member, error),
            },
            ForeignFields::Kept(fields) => fields,
        };
        self.recreate(release, resource, member, live, order, (error, foreign))
            .await
    }

    /// Returns the outcome of a failed apply, or the error if it is a conflict.
    fn outcome_or_conflict(&self, member: &Member, error: Error) -> Result<MemberOutcome, Error> {
        match error {
            Error::Conflict(_) => Err(error),
            error => Ok(self.failure(member, &error)),
        }
    }

    /// Applies a member to its live object, or creates it. Of list items with equal keys only the last is sent, and
    /// nulls that the schema refuses are left out.
    async fn send_content(
        &self,
        release: &mut Release,
        resource: &Resource,
        member: &Member,
        live: Option<&Live>,
    ) -> Result<Live, Error> {
        let onto = live.map_or(ApplyTarget::Nothing, |live| ApplyTarget::Object(&live.uid));
        let mut object = content(member, live);
        for _ in 1..ROUNDS {
            let error = match self.write(resource, member, &mut object, onto).await {
                Err(error @ Error::Invalid(_)) => error,
                Err(Error::Unprocessable { message, causes }) => {
                    let Some(fixed) = schema_errors::without_nulls(&object, &pairs(&causes)) else {
                        return Err(Error::Unprocessable { message, causes });
                    };
                    object = fixed;
                    continue;
                }
                answer => return answer,
            };
            let Some((fixed, left_out)) = schema_errors::without_duplicates(&object, &error.to_string()) else {
                return Err(error);
            };
            let note = format!(
                "{} ({}): of items with the same key, the last one counts: {}",
                member.id,
                member.source,
                short_list(left_out)
            );
            self.scope.warn_once(release, "DuplicateKeys", note).await;
            object = fixed;
        }
        self.write(resource, member, &mut object, onto).await
    }

    /// Makes our field manager the owner of fields that keep the API server from accepting the render, so that the next apply removes
    /// them. A dry run shows which fields these are.
    async fn take_foreign_fields(
        &self,
        resource: &Resource,
        member: &Member,
        live: &Live,
        error: &Error,
    ) -> Result<ForeignFields, Error> {
        let (client, id) = (&self.scope.client, &member.id);
        let Error::Unprocessable { causes, .. } = error else {
            return Ok(ForeignFields::Kept(Vec::new()));
        };
        let refused: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
        let (seen, object) = match objects::read(client, resource, id).await {
            Ok(Some((seen, object))) if seen.uid == live.uid => (seen, object),
            Ok(_) => return Err(Error::Conflict(format!("{id} was replaced at the same time"))),
            Err(error) => {
                tracing::debug!(object = %id, %error, "the live object with the refused fields cannot be read");
                return Ok(ForeignFields::Kept(Vec::new()));
            }
        };
        let mut kept = Vec::new();
        for correction in foreign_fields::corrections(&object, objects::FIELD_MANAGER, &member.object, &refused) {
            match objects::check_change(client, resource, id, (&object, &correction.merged)).await {
                Ok(DryRunResult::Accepted) => {}
                Ok(DryRunResult::Refused(error)) => {
                    tracing::debug!(object = %id, fields = ?correction.fields, %error, "refused without these fields, too");
                    kept = correction.fields;
                    continue;
                }
                Err(error) => {
                    tracing::debug!(object = %id, %error, "a correction cannot be checked");
                    break;
                }
            }
            return match self
                .set_managed_fields(resource, id, &seen, &correction.managed_fields)
                .await
            {
                Ok(_) => {
                    tracing::info!(object = %id, fields = ?correction.fields, "fields that exclude rendered ones are removed");
                    Ok(ForeignFields::Taken)
                }
                Err(error @ Error::Conflict(_)) => Err(error),
                Err(error) => {
                    tracing::debug!(object = %id, %error, "the excluding fields cannot be taken over");
                    Ok(ForeignFields::Kept(correction.fields))
                }
            };
        }
        Ok(ForeignFields::Kept(kept))
    }

    /// Gives up the ignored fields of a live member that our field manager owns. Returns the member afterwards, or `None` if there are none.
    ///
    /// # Errors
    /// `Conflict` if the object was replaced, or changes too often.
    pub(crate) async fn give_up_ignored(
        &self,
        resource: &Resource,
        member: &Member,
        live: &Live,
    ) -> Result<Option<Live>, Error> {
        let Some(ignored) = &member.ignored else {
            return Ok(None);
        };
        let given_up =
            |managed: &[ManagedFieldsEntry]| ignored.released(managed, objects::FIELD_MANAGER, &member.object);
        self.change_managed_fields(resource, &member.id, live, given_up).await
    }

    /// Makes our field manager the owner of what `kubectl rollout undo` brought back, so that the next apply removes it.
    ///
    /// # Errors
    /// `Conflict` if the object was replaced, or changes too often.
    pub(crate) async fn take_undone_rollout(
        &self,
        resource: &Resource,
        id: &ObjectId,
        live: &Live,
    ) -> Result<(), Error> {
        let taken = |managed: &[ManagedFieldsEntry]| {
            let undone = rollback::undone_rollout(managed, objects::FIELD_MANAGER)?;
            Some(undone.managed_fields)
        };
        self.change_managed_fields(resource, id, live, taken).await.map(drop)
    }

    /// Changes who owns the fields of a live member, as `change` says of its managed fields. Returns the member afterwards, or `None` if
    /// nothing is to be changed.
    ///
    /// # Errors
    /// `Conflict` if the object was replaced, or changes too often.
    async fn change_managed_fields(
        &self,
        resource: &Resource,
        id: &ObjectId,
        live: &Live,
        change: impl Fn(&[ManagedFieldsEntry]) -> Option<Vec<ManagedFieldsEntry>>,
    ) -> Result<Option<Live>, Error> {
        let mut result = Ok(None);
        for _ in 0..TRIES {
            let found = objects::read_live_and_fields(&self.scope.client, resource, id).await?;
            let Some((seen, managed)) = found.filter(|(seen, _)| seen.uid == live.uid) else {
                return Err(Error::Conflict(format!("{id} was replaced at the same time")));
            };
            let Some(changed) = change(&managed) else {
                return Ok(None);
            };
            result = self.set_managed_fields(resource, id, &seen, &changed).await.map(Some);
            if !matches!(result, Err(Error::Conflict(_))) {
                break;
            }
        }
        result
    }

    /// Writes who owns the fields of a live member, and returns it afterwards.
    ///
    /// # Errors
    /// `Conflict` if it changed at the same time.
    async fn set_managed_fields(
        &self,
        resource: &Resource,
        id: &ObjectId,
        live: &Live,
        entries: &[ManagedFieldsEntry],
    ) -> Result<Live, Error> {
        self.scope.context.members().begin_request(id);
        let set = objects::set_managed_fields(&self.scope.client, resource, id, live, entries).await;
        self.scope.context.members().end_request(id, set.as_ref().ok());
        let live = set?;
        self.scope
            .context
            .metrics
            .objects
            .wrote(&id.group_kind.kind, WriteOperation::Apply);
        Ok(live)
    }

    /// Sends one apply. The index learns the response immediately. The watch event for it changes nothing.
    async fn write(
        &self,
        resource: &Resource,
        member: &Member,
        object: &mut Value,
        onto: ApplyTarget<'_>,
    ) -> Result<Live, Error> {
        sign(object, &member.digest);
        self.scope.context.members().begin_request(&member.id);
        let answer = objects::apply(&self.scope.client, resource, &member.id, object, onto).await;
        self.scope
            .context
            .members()
            .end_request(&member.id, answer.as_ref().ok());
        if answer.is_ok() {
            self.scope
                .context
                .metrics
                .objects
                .wrote(&member.id.group_kind.kind, WriteOperation::Apply);
        }
        answer
    }

    /// Recreates a member whose change the API server refuses, if an immutable field is the cause and the policy allows
    /// it. `foreign`: fields of other managers that may be the cause.
    async fn recreate(
        &self,
        release: &mut Release,
        resource: &Resource,
        member: &Member,
        live: &Live,
        order: SendOptions<'_>,
        (error, foreign): (Error, Vec<String>),
    ) -> Result<MemberOutcome, Error> {
        let mut fields = match &error {
            Error::Unprocessable { causes, .. } => fields(causes),
            _ => String::new(),
        };
        if fields == "spec"
            && let Ok(Some((_, object))) = objects::read(&self.scope.client, resource, &member.id).await
        {
            let leaves = immutable_fields::changed_leaves(&member.id.group_kind, &object, &member.object);
            if !leaves.is_empty() {
                fields = leaves.join(", ");
            }
        }
        match self
            .delete_for_recreation(resource, member, live, order, (&fields, &foreign))
            .await
        {
            Ok(None) => {}
            Ok(Some(outcome)) => return Ok(outcome),
            Err(error) => return Ok(self.failure(member, &error)),
        }
        match self.send_content(release, resource, member, None).await {
            Ok(live) => Ok(MemberOutcome::Recreated(Box::new(live), fields)),
            Err(error) => self.outcome_or_conflict(member, error),
        }
    }

    /// True if deleting the object would also delete data or objects of other owners.
    pub(crate) async fn takes_data(&self, resource: &Resource, id: &ObjectId) -> Result<bool, Error> {
        if id.group_kind.kind != "StatefulSet" {
            return Ok(immutable_fields::takes_data(id, &Value::Null));
        }
        let found = objects::read(&self.scope.client, resource, id).await?;
        Ok(found.is_some_and(|(_, object)| immutable_fields::takes_data(id, &object)))
    }

    /// Deletes the live object of a member if the policy allows the deletion.
    /// Returns the outcome of the member if it cannot be created yet.
    async fn delete_for_recreation(
        &self,
        resource: &Resource,
        member: &Member,
        live: &Live,
        order: SendOptions<'_>,
        (fields, foreign): (&str, &[String]),
    ) -> Result<Option<MemberOutcome>, Error> {
        let (client, id) = (&self.scope.client, &member.id);
        let immutable = |kept: KeptField| {
            Ok(Some(MemberOutcome::Failed(
                Reason::Immutable,
                kept.message(member, fields, foreign),
            )))
        };
        if !may_recreate(member, live, order.recreate) {
            return immutable(KeptField::NotAsked);
        }
        if self.takes_data(resource, id).await? && !live.marks.prune_allowed {
            return immutable(KeptField::TakesData);
        }
        // The delete request names the version, which a status write may have changed: read it again.
        let deleted = match objects::read_live(client, resource, id).await? {
            Some(seen) if seen.uid == live.uid => objects::delete(client, resource, id, &seen).await?,
            Some(_) => DeleteOutcome::Changed,
            None => DeleteOutcome::Absent,
        };
        match deleted {
            DeleteOutcome::Accepted => self
                .scope
                .context
                .metrics
                .objects
                .wrote(&id.group_kind.kind, WriteOperation::Delete),
            DeleteOutcome::Absent => {}
            DeleteOutcome::Changed => return Err(Error::Conflict(format!("{id} changed at the same time"))),
        }
        tracing::info!(object = %id, fields, "deleted to be recreated");
        // A finalizer may delay the deletion. The watch shows when the object is gone.
        let held = objects::read_live(client, resource, id).await?;
        Ok(held.map(|_| MemberOutcome::Awaited))
    }

    /// Converts the error of a request into the outcome of a member.
    pub(crate) fn failure(&self, member: &Member, error: &Error) -> MemberOutcome {
        let reason = match error {
            error if error.is_permanent() => Reason::ObjectInvalid,
            Error::Forbidden(_) | Error::Unauthorized(_) => Reason::Forbidden,
            Error::Denied(_) => Reason::Denied,
            _ => Reason::ApplyFailed,
        };
        let text = error.to_string();
        let fields = if reason == Reason::ObjectInvalid {
            schema_errors::undecodable_fields(&member.object, &text)
        } else {
            Vec::new()
        };
        let source = self.place(member, &text, &fields);
        let message = match fields[..] {
            [] => format!("{} ({source}): {text}", member.id),
            _ => format!("{} ({source}): {}: {text}", member.id, fields.join(", ")),
        };
        let message = if schema_errors::has_duplicates(&text) {
            format!("{message}; {}", schema_errors::DIFFERENT_DUPLICATES)
        } else {
            message
        };
        match error.retry_after() {
            Some(after) => MemberOutcome::Throttled(message, after),
            None => MemberOutcome::Failed(reason, message),
        }
    }

    /// Returns the template of a member, with a line number if the error names a field that is on exactly one line.
    fn place(&self, member: &Member, error: &str, fields: &[String]) -> String {
        let template = self.scope.unit.renderer.as_ref().ok().and_then(|renderer| {
            let file = renderer.chart().template(&member.source)?;
            std::str::from_utf8(file.data.as_bytes()).ok()
        });
        let line = template.and_then(|template| {
            let complaints = schema_errors::complaints(error);
            let named = fields
                .iter()
                .filter_map(|field| field.split_once(": "))
                .map(|(path, _)| path);
            let paths = complaints.iter().map(|complaint| complaint.path.as_str()).chain(named);
            paths
                .into_iter()
                .find_map(|path| schema_errors::line_of(path, template))
        });
        match line {
            Some(line) => format!("{}:{line}", member.source),
            None => member.source.clone(),
        }
    }
}

/// Returns the refused fields and their messages.
fn pairs(causes: &[Cause]) -> Vec<(&str, &str)> {
    let causes = causes.iter();
    causes
        .map(|cause| (cause.field.as_str(), cause.message.as_str()))
        .collect()
}

/// Lists the fields of an error, each once.
fn fields(causes: &[Cause]) -> String {
    let mut fields: Vec<String> = Vec::new();
    for cause in causes {
        if !fields.contains(&cause.field) {
            fields.push(cause.field.clone());
        }
    }
    fields.join(", ")
}
