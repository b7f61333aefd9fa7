//! The live objects and Events of the facts, by identity and owner.

use std::collections::HashMap;

use serde_json::Value;

use super::facts::{ReportFacts, Unread};
use crate::identity::{GroupKind, ObjectId};
use crate::status::conditions::cut;

/// The longest name of a live object, in bytes. Kubernetes allows 253.
const LONGEST_NAME: usize = 253;

/// The live objects of the facts.
pub(super) struct LiveObjects<'f> {
    by_id: HashMap<ObjectId, &'f Value>,
    /// By the UID of their owners.
    owned: HashMap<&'f str, Vec<&'f Value>>,
    /// Events by the UID of the object that they are about.
    events: HashMap<&'f str, Vec<&'f Value>>,
    unread: &'f [Unread],
}

impl<'f> LiveObjects<'f> {
    pub(super) fn of(facts: &'f ReportFacts) -> Self {
        let mut objects = LiveObjects {
            by_id: HashMap::new(),
            owned: HashMap::new(),
            events: HashMap::new(),
            unread: &facts.unread,
        };
        for object in &facts.objects {
            // Two lists can contain the same object.
            if objects.by_id.insert(id_of(object), object).is_some() {
                continue;
            }
            let uid = owner(object);
            if !uid.is_empty() {
                objects.owned.entry(uid).or_default().push(object);
            }
        }
        for event in &facts.events {
            let uid = text(event, "/involvedObject/uid");
            if !uid.is_empty() {
                objects.events.entry(uid).or_default().push(event);
            }
        }
        objects
    }

    pub(super) fn get(&self, id: &ObjectId) -> Option<&'f Value> {
        self.by_id.get(id).copied()
    }

    pub(super) fn owned_by(&self, object: &Value) -> &[&'f Value] {
        self.owned.get(text(object, "/metadata/uid")).map_or(&[], Vec::as_slice)
    }

    /// Events about an object, in any order.
    pub(super) fn events_of(&self, object: &Value) -> &[&'f Value] {
        self.events
            .get(text(object, "/metadata/uid"))
            .map_or(&[], Vec::as_slice)
    }

    /// Why the objects of a kind in a namespace are not known.
    pub(super) fn unread(&self, id: &ObjectId) -> Option<&'f str> {
        let is_of = |unread: &&Unread| unread.kind == id.group_kind && unread.namespace == id.namespace;
        self.unread.iter().find(is_of).map(|unread| unread.message.as_str())
    }
}

/// The UID of the controller of an object, else that of its first owner. One owner for each: what hostile owner references make of many
/// objects stays a tree.
fn owner(object: &Value) -> &str {
    let owners = || list(object, "/metadata/ownerReferences");
    let found = owners()
        .find(|owner| owner["controller"] == true)
        .or_else(|| owners().next());
    found.map_or("", |owner| text(owner, "/uid"))
}

/// The identity of a live object. Parts that are missing are empty.
pub fn id_of(object: &Value) -> ObjectId {
    let part = |pointer: &str| cut(text(object, pointer), LONGEST_NAME);
    let group = text(object, "/apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let kind = GroupKind::new(cut(group, LONGEST_NAME), part("/kind"));
    ObjectId::new(kind, part("/metadata/namespace"), part("/metadata/name"))
}

/// A text of an object; empty if there is none.
pub(super) fn text<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list of an object.
pub(super) fn list<'o>(object: &'o Value, pointer: &str) -> impl Iterator<Item = &'o Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}
