//! Answers of lookups at the last render. Without an edit of the custom resource, chart or watch, lookups of the
//! release's own members answer as before: what the release itself created or changed since is no change. (With Helm,
//! such changes take effect at the next upgrade.)

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::cluster::objects::lookup::{self, LookupAnswers};
use crate::reconcile::release::Release;
use crate::reconcile::release::last_render::split;
use crate::reconcile::render::prepared::PreparedRelease;
use crate::sync::lock;
use chartwright_core::identity::ObjectId;
use chartwright_core::index::dependencies;
use helm_template::render::LookupKey;

/// What the last render that was carried out looked up.
pub(crate) struct PreviousLookups {
    /// By the lookup's text: the version that this render found, and the one that was seen last.
    rendered: HashMap<String, String>,
    seen: HashMap<String, String>,
    /// UIDs of the members.
    own: HashSet<String>,
    /// Versions of what is there by now, where it was answered as then.
    changed: Mutex<BTreeMap<LookupKey, String>>,
}

impl PreviousLookups {
    /// `None` if the release is to be rendered from these inputs for the first time.
    pub(crate) fn of(release: &Release, inputs: &str) -> Option<Self> {
        if release.record.revision == 0
            || release.stored.partial
            || release.stored.under_takeover
            || release.render.last.inputs != inputs
        {
            return None;
        }
        let versions = |lookups: &[String]| {
            let pairs = lookups.iter().map(|lookup| split(lookup));
            pairs
                .map(|(text, version)| (text.to_owned(), version.to_owned()))
                .collect()
        };
        let uids = release.record.entries.iter().map(|entry| entry.uid.clone());
        Some(PreviousLookups {
            rendered: versions(&release.record.lookups),
            seen: versions(&release.render.last.lookups),
            own: uids.filter(|uid| !uid.is_empty()).collect(),
            changed: Mutex::default(),
        })
    }

    fn is_own(&self, object: &Value) -> bool {
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        uid.is_some_and(|uid| self.own.contains(uid))
    }

    /// The answer without what the release has made since, if nothing else is new in it.
    pub(crate) fn answer(&self, key: &LookupKey, answer: Value) -> Value {
        let version = dependencies::version(&answer);
        let Some(then) = self
            .rendered
            .get(&lookup::describe(key))
            .filter(|then| **then != version)
        else {
            return answer;
        };
        let mut others = answer.clone();
        match others.get_mut("items").and_then(Value::as_array_mut) {
            Some(items) => items.retain(|item| !self.is_own(item)),
            None if self.is_own(&answer) => others = json!({}),
            None => {}
        }
        if dependencies::version(&others) != *then {
            return answer;
        }
        lock(&self.changed).insert(key.clone(), version);
        others
    }

    /// True if something was answered as then.
    pub(crate) fn has_answered(&self) -> bool {
        !lock(&self.changed).is_empty()
    }

    /// What a lookup finds by now, where it was answered as then.
    pub(crate) fn version_now(&self, key: &LookupKey) -> Option<String> {
        lock(&self.changed).get(key).cloned()
    }

    /// True if only looked-up members of the release changed since the last render. They alone then explain another
    /// render.
    pub(crate) fn is_own_doing(&self, answers: &LookupAnswers) -> bool {
        let mut own = false;
        for (key, answer) in answers {
            let (text, version) = (lookup::describe(key), dependencies::version(answer));
            if self.rendered.get(&text) == Some(&version) {
                continue;
            }
            let is_own = match answer.get("items").and_then(Value::as_array) {
                // The former owner of the last item of an empty list is unknown.
                Some(items) => !items.is_empty() && items.iter().all(|item| self.is_own(item)),
                None => self.is_own(answer),
            };
            if !is_own && self.seen.get(&text) != Some(&version) {
                return false;
            }
            own |= is_own;
        }
        own
    }
}

impl PreparedRelease {
    /// What the release is to have: what is rendered, and what stays without.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.desired.members.iter().map(|member| &member.id).chain(&self.stay)
    }

    /// What its hooks make.
    pub(crate) fn hook_ids(&self) -> impl Iterator<Item = &ObjectId> {
        self.desired.hooks.iter().map(|hook| &hook.member.id)
    }

    /// Members that this render has otherwise, lacks or adds stay as they are applied.
    pub(crate) fn stay_as_applied(&mut self, release: &Release) {
        let record = &release.record;
        let is_applied = |id: &ObjectId, digest: &str| record.entry(id).is_some_and(|entry| entry.digest == digest);
        let (stay, differ) = std::mem::take(&mut self.desired.members)
            .into_iter()
            .partition(|member| is_applied(&member.id, &member.digest));
        self.desired.members = stay;
        let rendered: HashSet<&ObjectId> = self.desired.members.iter().map(|member| &member.id).collect();
        let ids = record.entries.iter().map(|entry| &entry.id);
        self.stay = ids.filter(|id| !rendered.contains(id)).cloned().collect();
        self.held = differ.into_iter().map(|member| member.id.to_string()).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chartwright_core::testing;

    fn key(name: &str) -> LookupKey {
        LookupKey {
            api_version: "v1".into(),
            kind: "Secret".into(),
            namespace: "shop".into(),
            name: name.into(),
        }
    }

    fn object(name: &str, uid: &str, version: &str) -> Value {
        json!({"metadata": {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": version}})
    }

    fn earlier(found: &[(&str, &Value)]) -> PreviousLookups {
        let mut release = Release::default();
        release.render.last.inputs = "i".into();
        release.record.revision = 1;
        let own = testing::entry(&testing::id("Secret", "own"));
        release.record.entries = vec![testing::but(&own, |entry| entry.uid = "own".into())];
        let text = |(name, found): &(&str, &Value)| {
            format!("{}@{}", lookup::describe(&key(name)), dependencies::version(found))
        };
        release.record.lookups = found.iter().map(text).collect();
        release.render.last.lookups = release.record.lookups.clone();
        assert!(PreviousLookups::of(&release, "other").is_none(), "an edit");
        PreviousLookups::of(&release, "i").unwrap()
    }

    #[test]
    fn what_a_release_made_itself_is_answered_as_before_it_was_there() {
        let (none, list) = (json!({}), |items: &[Value]| json!({"metadata": {}, "items": items}));
        let (own, theirs) = (object("own", "own", "5"), object("other", "other", "6"));
        let before = list(std::slice::from_ref(&theirs));
        let then = earlier(&[("own", &none), ("other", &none), ("", &before)]);
        assert_eq!(then.answer(&key("own"), own.clone()), none);
        assert_eq!(then.answer(&key("other"), theirs.clone()), theirs, "not its own");
        assert_eq!(
            then.answer(&key("new"), own.clone()),
            own,
            "the last render did not look it up"
        );
        assert_eq!(then.answer(&key(""), list(&[own.clone(), theirs.clone()])), before);
        let more = list(&[own.clone(), theirs, object("third", "third", "7")]);
        assert_eq!(then.answer(&key(""), more.clone()), more);
        assert_eq!(then.version_now(&key("own")), Some(dependencies::version(&own)));
        assert!(then.has_answered() && then.version_now(&key("other")).is_none());
        let then = earlier(&[("own", &own)]);
        let changed = object("own", "own", "8");
        assert_eq!(then.answer(&key("own"), changed.clone()), changed, "it was there then");
        assert!(!then.has_answered());
    }

    #[test]
    fn only_what_the_release_changed_is_its_own_doing() {
        let (own, changed) = (object("own", "own", "5"), object("own", "own", "8"));
        let theirs = object("other", "other", "6");
        let then = earlier(&[("own", &own), ("other", &theirs)]);
        let answers = |own: &Value, other: &Value| {
            LookupAnswers::from([(key("own"), own.clone()), (key("other"), other.clone())])
        };
        assert!(then.is_own_doing(&answers(&changed, &theirs)));
        assert!(!then.is_own_doing(&answers(&own, &theirs)), "nothing changed");
        assert!(!then.is_own_doing(&answers(&changed, &object("other", "other", "9"))));
        assert!(!then.is_own_doing(&answers(&own, &json!({}))));
        let list = |items: &[&Value]| LookupAnswers::from([(key(""), json!({"metadata": {}, "items": items}))]);
        let (_, both) = list(&[&own, &theirs]).pop_first().expect("one");
        let then = earlier(&[("", &both)]);
        assert!(then.is_own_doing(&list(&[&changed])));
        assert!(!then.is_own_doing(&list(&[])), "the last of others is gone");
    }
}
