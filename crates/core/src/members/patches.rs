//! Applies the patches of a watch to rendered objects, before the objects become members and hooks. So identity, annotations and checks
//! are those of the patched object.

use std::slice;

use chartwright_watches::text::cut;
use chartwright_watches::{ObjectPatch, PatchChange, PatchSubject, PatchTarget};
use go_yaml::MAX_DEPTH;
use helm_template::render::{by_install_order, size_of_data};
use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

use crate::identity::{GroupKind, ObjectId};
use crate::members::desired::{IsNamespaced, RenderedObject};

/// Bytes of an identity in a message. It is not checked yet, and values can make it as long as they like.
const LONGEST_ID: usize = 512;

/// Annotation of a hook.
const HOOK: &str = "/metadata/annotations/helm.sh~1hook";

/// Applies the patches of a watch to the objects of one render.
pub struct Patcher<'a> {
    patches: &'a [ObjectPatch],
    release_namespace: &'a str,
    namespaced: &'a IsNamespaced<'a>,
    /// How many bytes of memory the patches may add. The content that an operation copies is the chart's and the custom resource's.
    room: u64,
    added: u64,
    has_matched: Vec<bool>,
    failures: Vec<PatchFailure>,
}

/// Why an object cannot be patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchFailure {
    /// The index of the patch in the watch.
    pub patch: usize,
    /// Names template, object, patch and operation.
    pub message: String,
}

/// The patches need more memory than a render may have.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// Template of the object that was patched.
    pub source: String,
}

/// What a patch did with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patched {
    /// Its target does not select the object.
    Skipped,
    Changed,
    /// The object is incomplete. The failures name the reason.
    Failed,
}

/// Why a patch cannot be applied.
enum PatchProblem {
    NoRoom,
    /// The index and the text of the operation, if the patch has operations, and the reason.
    Failed(Option<(usize, String)>, String),
}

impl<'a> Patcher<'a> {
    /// Returns a patcher for one render. `room`: the bytes of memory that the patches may add.
    pub fn new(
        patches: &'a [ObjectPatch],
        release_namespace: &'a str,
        namespaced: &'a IsNamespaced<'a>,
        room: u64,
    ) -> Self {
        Patcher {
            patches,
            release_namespace,
            namespaced,
            room,
            added: 0,
            has_matched: vec![false; patches.len()],
            failures: Vec::new(),
        }
    }

    /// Patches objects of a render: members, or hooks. Leaves out objects whose patch fails. If a kind changes, restores the install
    /// order.
    ///
    /// # Errors
    /// The patches need more memory than there is.
    pub fn apply_to_all(&mut self, objects: Vec<RenderedObject>, is_hook: bool) -> Result<Vec<RenderedObject>, NoRoom> {
        if self.patches.is_empty() {
            return Ok(objects);
        }
        let mut patched = Vec::with_capacity(objects.len());
        let mut changes_order = false;
        for RenderedObject { mut object, source } in objects {
            let kind = text_of(&object, "/kind").to_owned();
            if self.apply_all(&mut object, &source, is_hook)? {
                changes_order |= text_of(&object, "/kind") != kind;
                patched.push(RenderedObject { object, source });
            }
        }
        if changes_order {
            let kind = |rendered: &RenderedObject| text_of(&rendered.object, "/kind").to_owned();
            patched.sort_by(|a, b| by_install_order(&kind(a), &kind(b)));
        }
        Ok(patched)
    }

    /// Applies all patches to one object, each to the result of those before it. Returns false if one fails.
    ///
    /// # Errors
    /// As [`Patcher::apply_to_all`].
    pub fn apply_all(&mut self, object: &mut Value, source: &str, is_hook: bool) -> Result<bool, NoRoom> {
        for index in 0..self.patches.len() {
            if self.apply(index, object, source, is_hook, PatchTarget::selects)? == Patched::Failed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Applies one patch to an object. `selects` decides with the patch's target whether it does.
    ///
    /// # Errors
    /// As [`Patcher::apply_to_all`].
    pub fn apply(
        &mut self,
        index: usize,
        object: &mut Value,
        source: &str,
        is_hook: bool,
        selects: impl Fn(&PatchTarget, &PatchSubject<'_>) -> bool,
    ) -> Result<Patched, NoRoom> {
        let Some(patch) = self.patches.get(index) else {
            return Ok(Patched::Skipped);
        };
        let Some(id) = self.selected(object, is_hook, |subject| selects(&patch.target, subject)) else {
            return Ok(Patched::Skipped);
        };
        if let Some(has_matched) = self.has_matched.get_mut(index) {
            *has_matched = true;
        }
        let changed = self
            .change(object, &patch.change)
            .and_then(|()| check_hook(object, is_hook).map_err(|why| PatchProblem::Failed(None, why.to_owned())));
        match changed {
            Ok(()) => Ok(Patched::Changed),
            Err(PatchProblem::NoRoom) => Err(NoRoom {
                source: source.to_owned(),
            }),
            Err(PatchProblem::Failed(operation, why)) => {
                let operation = operation.map(|(number, text)| format!(".patch[{number}] ({text})"));
                let operation = operation.unwrap_or_default();
                let id = cut(&id.to_string(), LONGEST_ID);
                self.failures.push(PatchFailure {
                    patch: index,
                    message: format!("{source}: {id}: patches[{index}]{operation}: {why}"),
                });
                Ok(Patched::Failed)
            }
        }
    }

    /// Returns why objects cannot be patched.
    pub fn failures(&self) -> &[PatchFailure] {
        &self.failures
    }

    /// Returns a sentence about each patch that selected no object so far.
    pub fn unmatched(&self) -> Vec<String> {
        let patches = self.has_matched.iter().enumerate();
        patches
            .filter(|(_, has_matched)| !**has_matched)
            .map(|(index, _)| {
                format!(
                    "patches[{index}] of the watch has no effect: its target selects no object that the chart renders"
                )
            })
            .collect()
    }

    /// Returns how many bytes of memory the patches added.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Returns the identity of an object if `selects` accepts its facts.
    fn selected(&self, object: &Value, is_hook: bool, selects: impl Fn(&PatchSubject<'_>) -> bool) -> Option<ObjectId> {
        let (group_kind, version) = GroupKind::of(object)?;
        let namespace = match (self.namespaced)(&group_kind, &version) {
            Some(false) => "",
            // A kind whose definition is not installed yet counts as namespaced.
            _ => match text_of(object, "/metadata/namespace") {
                "" => self.release_namespace,
                own => own,
            },
        };
        let subject = PatchSubject {
            group: &group_kind.group,
            version: &version,
            kind: &group_kind.kind,
            name: text_of(object, "/metadata/name"),
            namespace,
            labels: object.pointer("/metadata/labels").and_then(Value::as_object),
            is_hook,
        };
        if !selects(&subject) {
            return None;
        }
        let name = subject.name.to_owned();
        Some(ObjectId::new(group_kind.clone(), namespace, name))
    }

    fn change(&mut self, object: &mut Value, change: &PatchChange) -> Result<(), PatchProblem> {
        match change {
            PatchChange::Merge(patch) => {
                self.reserve(size_of_data(patch))?;
                json_patch::merge(object, patch);
                check_depth(object).map_err(|why| PatchProblem::Failed(None, why))
            }
            PatchChange::Operations(operations) => {
                for (number, operation) in operations.iter().enumerate() {
                    self.operate(object, operation).map_err(|problem| match problem {
                        PatchProblem::Failed(None, why) => {
                            PatchProblem::Failed(Some((number, describe(operation))), why)
                        }
                        other => other,
                    })?;
                }
                Ok(())
            }
        }
    }

    fn operate(&mut self, object: &mut Value, operation: &PatchOperation) -> Result<(), PatchProblem> {
        match operation {
            PatchOperation::Add(add) => self.reserve(size_of_data(&add.value))?,
            PatchOperation::Replace(replace) => self.reserve(size_of_data(&replace.value))?,
            PatchOperation::Copy(copy) => {
                self.reserve(object.pointer(copy.from.as_str()).map_or(0, size_of_data))?;
            }
            PatchOperation::Remove(_) | PatchOperation::Move(_) | PatchOperation::Test(_) => {}
        }
        // A failed object is not used, so nothing has to be undone.
        json_patch::patch_unsafe(object, slice::from_ref(operation))
            .map_err(|error| PatchProblem::Failed(None, explain(operation, &error.kind)))?;
        if may_nest(operation) {
            check_depth(object).map_err(|why| PatchProblem::Failed(None, why))?;
        }
        Ok(())
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), PatchProblem> {
        self.added = self.added.saturating_add(bytes);
        if self.added > self.room {
            return Err(PatchProblem::NoRoom);
        }
        Ok(())
    }
}

fn text_of<'o>(object: &'o Value, pointer: &str) -> &'o str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Checks that a member is no hook now, and that a hook still is one: the render has sorted them already.
fn check_hook(object: &Value, is_hook: bool) -> Result<(), &'static str> {
    let has_hook = object.pointer(HOOK).is_some_and(|events| !events.is_null());
    match (is_hook, has_hook) {
        (true, false) => Err("it takes the annotation helm.sh/hook from a hook: a patch cannot make it a member"),
        (false, true) => Err("it gives the annotation helm.sh/hook to a member: a patch cannot make it a hook"),
        _ => Ok(()),
    }
}

/// True if an object may nest deeper after the operation.
fn may_nest(operation: &PatchOperation) -> bool {
    let is_container = |value: &Value| value.is_object() || value.is_array();
    match operation {
        PatchOperation::Add(add) => is_container(&add.value),
        PatchOperation::Replace(replace) => is_container(&replace.value),
        PatchOperation::Move(_) | PatchOperation::Copy(_) => true,
        PatchOperation::Remove(_) | PatchOperation::Test(_) => false,
    }
}

fn check_depth(object: &Value) -> Result<(), String> {
    if is_within(object, MAX_DEPTH) {
        Ok(())
    } else {
        Err(format!("the object would nest more than {MAX_DEPTH} levels"))
    }
}

/// True if a value nests at most this number of levels.
fn is_within(value: &Value, levels: usize) -> bool {
    let below = |value: &Value| levels > 0 && is_within(value, levels - 1);
    match value {
        Value::Array(items) => items.iter().all(below),
        Value::Object(fields) => fields.values().all(below),
        _ => true,
    }
}

/// Describes an operation for a message, without its value.
fn describe(operation: &PatchOperation) -> String {
    let name = match operation {
        PatchOperation::Add(_) => "add",
        PatchOperation::Remove(_) => "remove",
        PatchOperation::Replace(_) => "replace",
        PatchOperation::Move(_) => "move",
        PatchOperation::Copy(_) => "copy",
        PatchOperation::Test(_) => "test",
    };
    format!("{name} {}", operation.path())
}

/// Explains why an operation failed. Does not quote values, which may be secret.
fn explain(operation: &PatchOperation, kind: &PatchErrorKind) -> String {
    let source = match operation {
        PatchOperation::Move(change) => Some(&change.from),
        PatchOperation::Copy(change) => Some(&change.from),
        _ => None,
    };
    match (kind, source) {
        (PatchErrorKind::TestFailed, _) => "the object has another value there".to_owned(),
        (PatchErrorKind::InvalidFromPointer, Some(from)) => format!("the object has nothing at {from}"),
        (PatchErrorKind::CannotMoveInsideItself, _) => "a value cannot be moved into itself".to_owned(),
        _ => match operation {
            PatchOperation::Add(_) | PatchOperation::Move(_) | PatchOperation::Copy(_) => {
                "the object has no map above it that takes the value, and no list with this index".to_owned()
            }
            PatchOperation::Remove(_) | PatchOperation::Replace(_) | PatchOperation::Test(_) => {
                "the object has nothing there".to_owned()
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::testing::table;

    const ROOM: u64 = 1 << 20;

    /// Reads the list as the key `patches` of a watch.
    fn patches(list: &Value) -> Vec<ObjectPatch> {
        let text = json!([{"version": "v1", "kind": "Shop", "group": "a.test", "chart": "x", "patches": list}]);
        let outside = chartwright_watches::ReadContext {
            folder: std::path::Path::new("/"),
            env: &|_| None,
        };
        let (watches, _) = chartwright_watches::parse("w.yaml", text.to_string().as_bytes(), &outside).unwrap();
        watches[0].patches.to_vec()
    }

    fn namespaced(group_kind: &GroupKind, _: &str) -> Option<bool> {
        (group_kind.kind != "Widget").then(|| !["Namespace", "ClusterRole"].contains(&group_kind.kind.as_str()))
    }

    fn rendered(objects: Vec<Value>) -> Vec<RenderedObject> {
        let rendered = objects.into_iter().enumerate().map(|(number, object)| RenderedObject {
            object,
            source: format!("t{number}.yaml"),
        });
        rendered.collect()
    }

    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct PatchRow {
        name: String,
        patches: Value,
        hooks: bool,
        objects: Vec<Value>,
        expected: Vec<Value>,
        failures: Vec<String>,
        unmatched: Vec<String>,
    }

    #[test]
    fn objects_are_patched() {
        for row in table::<PatchRow>("patches", "patches") {
            let patches = patches(&row.patches);
            let mut patcher = Patcher::new(&patches, "shop", &namespaced, ROOM);
            let patched = patcher.apply_to_all(rendered(row.objects), row.hooks).unwrap();
            let objects: Vec<Value> = patched.into_iter().map(|rendered| rendered.object).collect();
            assert_eq!(objects, row.expected, "{}", row.name);
            let failures: Vec<&String> = patcher.failures().iter().map(|failure| &failure.message).collect();
            assert_eq!(failures, row.failures.iter().collect::<Vec<_>>(), "{}", row.name);
            let unmatched: Vec<String> = patcher
                .unmatched()
                .iter()
                .map(|text| text.split(' ').next().unwrap().to_owned())
                .collect();
            assert_eq!(unmatched, row.unmatched, "{}", row.name);
        }
    }

    #[test]
    fn memory_and_nesting_are_bounded() {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "x".repeat(100)}});
        let double = |number: u32| json!({"op": "copy", "from": "/data", "path": format!("/data/k{number}")});
        let often: Vec<Value> = (0..40).map(double).collect();
        let all = patches(&json!([{"target": {"name": "*"}, "patch": often}]));
        let mut patcher = Patcher::new(&all, "shop", &namespaced, ROOM);
        let no_room = patcher.apply_to_all(rendered(vec![map.clone()]), false).unwrap_err();
        assert_eq!(no_room.source, "t0.yaml");

        // A chain without other content takes little memory.
        let mut chain = json!({});
        for _ in 0..600 {
            chain = json!({ "b": chain });
        }
        let deep = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"c": chain}});
        let into = format!("/data/c{}/x", "/b".repeat(600));
        let all =
            patches(&json!([{"target": {"name": "*"}, "patch": [{"op": "copy", "from": "/data", "path": into}]}]));
        let mut patcher = Patcher::new(&all, "shop", &namespaced, ROOM);
        assert!(patcher.apply_to_all(rendered(vec![deep]), false).unwrap().is_empty());
        assert!(
            patcher.failures()[0]
                .message
                .ends_with("would nest more than 1000 levels")
        );

        let one = patches(&json!([{"target": {"name": "*"}, "patch": [double(1)]}]));
        let mut patcher = Patcher::new(&one, "shop", &namespaced, ROOM);
        assert_eq!(patcher.apply_to_all(rendered(vec![map]), false).unwrap().len(), 1);
        assert!(patcher.added() > 100);
    }
}
