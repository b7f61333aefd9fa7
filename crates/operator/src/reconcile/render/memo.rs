//! Remembers what repeated work on a release gave. A preview reconciles a release several times, and previews of one release follow each
//! other: a user waits for them.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use helm_template::render::{Engine, Error, Input, Rendered};
use sha2::{Digest as _, Sha256};

use crate::cluster::objects::lookup::LookupAnswers;
use crate::reconcile::release::author_permit::AuthorPermit;
use crate::sync::lock;

/// Renders that are kept: the release's own in two revisions, and that of the chart's defaults.
const MAX_RENDERS: usize = 3;

/// The size of a render that is kept, in bytes: the memory budget does not cover it.
const MAX_SIZE: u64 = 8 << 20;

/// Releases whose permits are kept.
const MAX_PERMITS: usize = 1000;

/// Identifies the inputs of a render.
type InputDigest = [u8; 32];

/// The last renders of one preview.
#[derive(Default)]
pub(crate) struct RenderMemo(Mutex<VecDeque<(InputDigest, Rendered)>>);

/// What the authors of custom resources were last permitted to create, by the id of their ApplySet.
#[derive(Default)]
pub(crate) struct PermitCache(Mutex<HashMap<String, AuthorPermit>>);

impl RenderMemo {
    /// Renders, or returns the former render of these inputs.
    ///
    /// # Errors
    /// As [`Engine::render_with`].
    pub(crate) fn render(
        &self,
        engine: &Engine,
        input: &Input<'_>,
        lookups: &LookupAnswers,
    ) -> Result<Rendered, Error> {
        let inputs = input_digest(input, lookups);
        if let Some(known) = self.get(&inputs) {
            return Ok(known);
        }
        let rendered = engine.render_with(input)?;
        if rendered.size <= MAX_SIZE {
            self.insert(inputs, rendered.clone());
        }
        Ok(rendered)
    }

    fn get(&self, inputs: &InputDigest) -> Option<Rendered> {
        let renders = lock(&self.0);
        let found = renders.iter().find(|(known, _)| known == inputs);
        found.map(|(_, rendered)| rendered.clone())
    }

    fn insert(&self, inputs: InputDigest, rendered: Rendered) {
        let mut renders = lock(&self.0);
        renders.truncate(MAX_RENDERS - 1);
        renders.push_front((inputs, rendered));
    }
}

impl PermitCache {
    /// The last permit of a release, if it is about the objects with this digest.
    pub(crate) fn get(&self, release: &str, digest: &str) -> Option<AuthorPermit> {
        let permits = lock(&self.0);
        permits.get(release).filter(|permit| permit.digest == digest).cloned()
    }

    pub(crate) fn insert(&self, release: &str, permit: &AuthorPermit) {
        let mut permits = lock(&self.0);
        if permits.len() >= MAX_PERMITS && !permits.contains_key(release) {
            permits.clear();
        }
        permits.insert(release.to_owned(), permit.clone());
    }
}

/// The digest of everything that differs between the renders of one preview. Chart, watch and limits are the same for all of them, and the
/// time may be.
fn input_digest(input: &Input<'_>, lookups: &LookupAnswers) -> InputDigest {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    let facts = &input.release;
    part(facts.name.as_bytes());
    part(facts.namespace.as_bytes());
    part(&facts.revision.to_be_bytes());
    part(&serde_json::to_vec(&input.values).unwrap_or_default());
    part(&serde_json::to_vec(&input.kept).unwrap_or_default());
    for (name, value) in &input.more {
        part(name.as_bytes());
        part(&serde_json::to_vec(value).unwrap_or_default());
    }
    for (key, answer) in lookups {
        part(format!("{key:?}").as_bytes());
        part(&serde_json::to_vec(answer).unwrap_or_default());
    }
    let capabilities = std::ptr::from_ref(input.capabilities) as usize;
    part(&capabilities.to_be_bytes());
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use helm_template::render::{Kept, LookupKey, ReleaseObject};
    use serde_json::json;

    use super::*;

    #[test]
    fn another_input_is_another_render() {
        let digest = |revision: i64, values: serde_json::Value, plan: &str, lookups: &LookupAnswers| {
            let mut release = ReleaseObject::install("a", "shop");
            release.revision = revision;
            let kept = Kept::default();
            let input = Input {
                kept: Some(&kept),
                more: vec![("Plan", json!(plan))],
                ..Input::new(release, values)
            };
            input_digest(&input, lookups)
        };
        let none = LookupAnswers::new();
        let first = digest(1, json!({"a": 1}), "", &none);
        let key = LookupKey {
            api_version: "v1".into(),
            kind: "Secret".into(),
            namespace: "shop".into(),
            name: "a".into(),
        };
        let some = LookupAnswers::from([(key, json!({}))]);
        for other in [
            digest(2, json!({"a": 1}), "", &none),
            digest(1, json!({"a": 2}), "", &none),
            digest(1, json!({"a": 1}), "backup", &none),
            digest(1, json!({"a": 1}), "", &some),
        ] {
            assert_ne!(other, first);
        }
        let memo = RenderMemo::default();
        memo.insert(first, Rendered::default());
        assert!(memo.get(&first).is_some());
        for number in 0..3 {
            memo.insert([number; 32], Rendered::default());
        }
        assert!(memo.get(&first).is_none());
    }

    #[test]
    fn a_permit_is_for_its_release_and_its_objects() {
        let permits = PermitCache::default();
        let permit = AuthorPermit {
            digest: "d".to_owned(),
            ..AuthorPermit::default()
        };
        permits.insert("a", &permit);
        assert!(permits.get("a", "d").is_some());
        assert!(permits.get("a", "e").is_none() && permits.get("b", "d").is_none());
    }
}
