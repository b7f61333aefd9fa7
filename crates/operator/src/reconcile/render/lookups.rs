//! What a render looks up: fetched in rounds, from memory where a watch shows that nothing changed since.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::objects::lookup::{self, LookupAnswers};
use crate::reconcile::flow::{Flow, OrStop};
use crate::reconcile::load::input_digest;
use crate::reconcile::render::job::{RenderJob, RenderRequest, RenderResult};
use crate::reconcile::render::pool::off_worker_if_large;
use crate::reconcile::render::secret_values::{self, ChartText};
use crate::reconcile::values::sources::{self, ValuesSource};
use chartwright_core::identity::ObjectId;
use chartwright_core::identity::reserved_names::{self, is_reserved};
use chartwright_core::index::dependencies;
use chartwright_core::members::desired::Desired;
use chartwright_core::status::{Phase, Reason};
use helm_template::render::{Kept, LookupKey, Randomness, Rendered, size_of_data};

/// A chart whose lookups depend on each other may need several rounds; one that never ends is an error.
const LOOKUP_ROUNDS: usize = 16;
/// One release looks up no more objects and lists than this.
const LOOKUPS: usize = 2000;

impl RenderJob<'_> {
    /// Renders until no lookup is missing.
    pub(crate) async fn rounds(
        &self,
        revision: i64,
        kept: &Kept,
        answers: &mut LookupAnswers,
    ) -> Flow<(Rendered, Desired)> {
        let mut kept = kept.clone();
        let mut first: Option<Randomness> = None;
        for _ in 0..LOOKUP_ROUNDS {
            let request = RenderRequest {
                revision,
                lookups: Arc::new(answers.clone()),
                kept: kept.clone(),
                probe: None,
            };
            let (mut rendered, desired) = match self.once(request).await? {
                RenderResult::Rendered(rendered, desired) => (*rendered, desired),
                RenderResult::Needs(missing) => {
                    self.answer(&missing, answers).await?;
                    continue;
                }
            };
            if let Some(first) = &first {
                // What an earlier round drew came back as kept; it is new all the same.
                rendered.randomness.include(first);
            }
            if rendered.missing_lookups.is_empty() {
                return Continue((rendered, desired));
            }
            self.answer(&rendered.missing_lookups, answers).await?;
            kept = rendered.randomness.kept.clone();
            first = Some(rendered.randomness);
        }
        Break(Phase::stalled(
            Reason::RenderFailed,
            format!("the chart still looks up new objects after {LOOKUP_ROUNDS} renders"),
        ))
    }

    /// What stands in the cluster, if the release may know.
    async fn answer(&self, missing: &[LookupKey], answers: &mut LookupAnswers) -> Flow {
        if answers.len() + missing.len() > LOOKUPS {
            let message = format!("the chart looks up more than {LOOKUPS} objects");
            return Break(Phase::stalled(Reason::RenderFailed, message));
        }
        for key in missing {
            input_digest::may_look_up(self.unit, self.resource, &self.identity.namespace, &self.snapshot, key)
                .or_stop(|refused| Phase::stalled(Reason::Refused, refused.to_string()))?;
        }
        for (key, answer) in self.fetch(missing, self.lookups.known).await? {
            let answer = match self.lookups.earlier {
                Some(earlier) => earlier.answer(&key, answer),
                None => answer,
            };
            secret_values::learn_object(&self.secrets, &self.chart_text(), &answer);
            answers.insert(key, answer);
        }
        Continue(())
    }

    /// Reads the Secrets and ConfigMaps of the values, the weakest first. The answers are recorded also if the values
    /// are wrong, so that a change of them triggers a retry.
    pub(crate) async fn read_sources(
        &mut self,
        known: &LookupAnswers,
        answers: &mut LookupAnswers,
    ) -> Flow<Vec<(ValuesSource, Value)>> {
        let sources = sources::sources(self.unit, self.resource).or_stop(Phase::from)?;
        let keys: Vec<LookupKey> = sources.iter().map(|source| source.key.clone()).collect();
        self.lookups.sources = self.fetch(&keys, Some(known)).await?.into_iter().collect();
        answers.clone_from(&self.lookups.sources);
        let mut room = sources::LARGEST;
        let found = sources.into_iter().map(|source| {
            let object = self.lookups.sources.get(&source.key).cloned().unwrap_or_default();
            secret_values::learn_source(&self.secrets, &self.chart_text(), &source, &object, &mut room);
            (source, object)
        });
        let size = self.lookups.sources.values().map(size_of_data).sum();
        Continue(off_worker_if_large(size, || found.collect()))
    }

    /// What stands in the cluster: from memory where a watch shows that it is still so.
    async fn fetch(&self, keys: &[LookupKey], last: Option<&LookupAnswers>) -> Flow<Vec<(LookupKey, Value)>> {
        let mut found: Vec<(LookupKey, Value)> = Vec::with_capacity(keys.len());
        let mut unknown: Vec<LookupKey> = Vec::new();
        for key in keys {
            match self.known(last, key) {
                Some(answer) => found.push((key.clone(), answer)),
                None => unknown.push(key.clone()),
            }
        }
        let context = self.context;
        if let Some(key) = keys
            .iter()
            .find(|key| is_operators_own(key, &context.settings.own_objects))
        {
            let message = format!(
                "lookup of {}: the operator keeps objects of this name for itself, and no release may read one",
                lookup::describe(key)
            );
            return Break(Phase::stalled(Reason::Refused, message));
        }
        let fetched = lookup::fetch_all(self.client, &self.snapshot, &unknown, &context.render.lookups).await;
        let fetched = fetched.or_stop(|(key, error)| {
            let message = format!("lookup of {}: {error}", lookup::describe(&key));
            if error.is_permanent() {
                Phase::stalled(Reason::LookupFailed, message)
            } else {
                Phase::failed(Reason::LookupFailed, message)
            }
        })?;
        found.extend(unknown.into_iter().zip(fetched).map(|(key, mut answer)| {
            remove_operators_own(&key, &mut answer, &context.settings.own_objects);
            (key, answer)
        }));
        Continue(found)
    }

    pub(crate) fn chart_text(&self) -> ChartText<'_> {
        ChartText::of(Some(self.renderer.chart()))
    }

    /// What the last attempt found, if its watch shows that it is still so.
    fn known(&self, last: Option<&LookupAnswers>, key: &LookupKey) -> Option<Value> {
        let known = last?.get(key)?;
        let target = lookup::dependency(&self.snapshot, key);
        let now = self.context.dependencies().version(&target)?;
        (now == dependencies::version(known)).then(|| known.clone())
    }
}

/// True if a lookup names an object that the operator keeps for itself: what it signs its records with, or such a record.
/// `own`: the objects of this operator.
fn is_operators_own(key: &LookupKey, own: &[ObjectId]) -> bool {
    let (kind, _) = lookup::group_kind(key);
    !reserved_names::prefixes(&kind).is_empty() && is_reserved(&ObjectId::new(kind, &*key.namespace, &*key.name), own)
}

/// Leaves the operator's own objects out of a list.
fn remove_operators_own(key: &LookupKey, answer: &mut Value, own: &[ObjectId]) {
    let (kind, _) = lookup::group_kind(key);
    if !key.name.is_empty() || reserved_names::prefixes(&kind).is_empty() {
        return;
    }
    let Some(items) = answer.get_mut("items").and_then(Value::as_array_mut) else {
        return;
    };
    items.retain(|item| {
        let text = |field: &str| item["metadata"][field].as_str().unwrap_or_default();
        !is_reserved(&ObjectId::new(kind.clone(), text("namespace"), text("name")), own)
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use chartwright_core::testing::id;

    #[test]
    fn a_list_has_none_of_the_operators_own_objects() {
        let own = [ObjectId {
            namespace: "system".into(),
            ..id("Secret", "op-hmac-key")
        }];
        let key = LookupKey {
            api_version: "v1".into(),
            kind: "Secret".into(),
            namespace: String::new(),
            name: String::new(),
        };
        let item = |namespace: &str, name: &str| json!({"metadata": {"namespace": namespace, "name": name}});
        let mut answer = json!({"items": [
            item("system", "op-hmac-key"), item("shop", "op-hmac-key"), item("shop", "chartwright-record-u"), item("shop", "creds"),
        ]});
        remove_operators_own(&key, &mut answer, &own);
        assert_eq!(
            answer["items"],
            json!([item("shop", "op-hmac-key"), item("shop", "creds")])
        );
    }
}
