//! Recovers lost random results from the live objects.
//!
//! A password that is generated again while its database keeps the old one causes an outage. If a result is missing although
//! the release exists, two renders show which leaves of its objects are random. The live leaf shows the result ([`recover`]).
//! If it does not, the live leaf itself is kept ([`Pin`]).

use std::collections::BTreeSet;

use data_encoding::BASE64;
use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::{Key, KeyUse};
use crate::identity::ObjectId;
use crate::members::desired::Member;
use helm_template::render::{Kept, KeptKey};

/// One scalar of a member: its JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Leaf {
    #[serde(flatten)]
    pub id: ObjectId,
    pub pointer: String,
}

/// A leaf as it was rendered, and as it is live.
#[derive(Clone, Debug)]
pub struct FoundResult {
    pub leaf: Leaf,
    pub rendered: Value,
    pub live: Value,
}

/// A leaf whose live value stays, for as long as the template renders the same in its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pin {
    #[serde(flatten)]
    leaf: Leaf,
    /// Keyed digest of what is rendered.
    rendered: String,
    /// What is sent instead; it may be secret.
    pub value: Value,
}

/// The leaves that differ between two renders of the same release. Where chance decides on the shape of an object, there is
/// no leaf to compare.
pub fn random_leaves(rendered: &[Member], again: &[Member]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for member in rendered {
        let Some(other) = again.iter().find(|other| other.id == member.id) else {
            continue;
        };
        for change in json_patch::diff(&member.object, &other.object).0 {
            let PatchOperation::Replace(change) = change else {
                continue;
            };
            let before = change.path.resolve(&member.object);
            if is_leaf(&change.value) && before.is_ok_and(is_leaf) {
                leaves.push(Leaf {
                    id: member.id.clone(),
                    pointer: change.path.to_string(),
                });
            }
        }
    }
    leaves
}

fn is_leaf(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// The live scalar in the place of a rendered one. Items of a list that have a name are found by it, since others may
/// have put items of their own before them.
pub fn live_leaf<'a>(rendered: &Value, live: &'a Value, pointer: &str) -> Option<&'a Value> {
    let (mut rendered, mut live) = (rendered, live);
    for token in Pointer::parse(pointer).ok()?.tokens() {
        let token = token.decoded();
        match rendered {
            Value::Object(fields) => {
                rendered = fields.get(token.as_ref())?;
                live = live.get(token.as_ref())?;
            }
            Value::Array(items) => {
                let index: usize = token.parse().ok()?;
                rendered = items.get(index)?;
                let name = rendered.get("name").filter(|name| name.is_string());
                live = match name {
                    Some(name) => live.as_array()?.iter().find(|item| item.get("name") == Some(name))?,
                    None => live.get(index)?,
                };
            }
            _ => return None,
        }
    }
    (is_leaf(live) && !live.is_null()).then_some(live)
}

/// Restores those of the `missed` results that live leaves show, and returns them. `None` if none can be found.
pub fn recover(kept: &Kept, missed: &BTreeSet<KeptKey>, found: &[FoundResult]) -> Option<(Kept, BTreeSet<KeptKey>)> {
    let views: Vec<(String, String)> = found.iter().flat_map(views).collect();
    let mut table = kept.clone();
    let mut known = BTreeSet::new();
    for key in missed {
        let old = |text: &String| views.iter().find_map(|(rendered, live)| replaced(rendered, live, text));
        let former: Option<Vec<String>> = kept.texts(key).iter().map(old).collect();
        let Some(former) = former.filter(|former| !former.is_empty()) else {
            continue;
        };
        if let Some(restored) = table.restored(key, &former) {
            table = restored;
            known.insert(key.clone());
        }
    }
    (!known.is_empty()).then_some((table, known))
}

/// A leaf's text before and after, as it stands and, if it is base64, as it reads.
fn views(found: &FoundResult) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let (rendered, live) = (text(&found.rendered), text(&found.live));
    let decode = |text: &str| String::from_utf8(BASE64.decode(text.as_bytes()).ok()?).ok();
    let decoded = decode(&rendered).zip(decode(&live));
    [Some((rendered, live)), decoded].into_iter().flatten().collect()
}

/// What stands in `live` where `text` stands in `rendered`, if everything around it is the same.
fn replaced(rendered: &str, live: &str, text: &str) -> Option<String> {
    let (before, after) = rendered.split_once(text).filter(|_| !text.is_empty())?;
    if after.contains(text) {
        return None;
    }
    let former = live.strip_prefix(before)?.strip_suffix(after)?;
    Some(former.to_owned())
}
impl Pin {
    /// Keeps the live value of a leaf.
    pub fn new(found: &FoundResult, key: &Key) -> Self {
        Pin {
            leaf: found.leaf.clone(),
            rendered: digest(&found.rendered, key),
            value: found.live.clone(),
        }
    }
}

fn digest(value: &Value, key: &Key) -> String {
    key.digest(KeyUse::Pin, &[value.to_string().as_bytes()])
}

/// Puts pinned values in the place of what was rendered. Returns the pins that still hold: one whose leaf is gone, or
/// renders differently since (a user set the password in the values), is no longer wanted.
/// `of_pins`: the key that the pins are made with; `key`: that of the members' digests.
pub fn apply_pins(members: &mut [Member], pins: &[Pin], of_pins: &Key, key: &Key) -> Vec<Pin> {
    let mut held = Vec::new();
    for pin in pins {
        let Some(member) = members.iter_mut().find(|member| member.id == pin.leaf.id) else {
            continue;
        };
        let Some(leaf) = member.object.pointer_mut(&pin.leaf.pointer) else {
            continue;
        };
        if digest(leaf, of_pins) != pin.rendered {
            continue;
        }
        *leaf = pin.value.clone();
        member.seal(key);
        held.push(pin.clone());
    }
    held
}

/// The calls among which one may have taken another's result: where a call of the same function with the same arguments
/// was added or removed in a template, those after it count differently.
pub fn shifted(before: &Kept, after: &Kept, missed: &BTreeSet<KeptKey>) -> Vec<KeptKey> {
    let group = |key: &KeptKey| (key.template.clone(), key.function.clone(), key.arguments.clone());
    let known: BTreeSet<&KeptKey> = after.keys().collect();
    let unused = before.keys().filter(|key| !known.contains(key));
    let suspects: BTreeSet<_> = unused.chain(missed).map(group).collect();
    let reused = before.keys().filter(|key| known.contains(key));
    reused.filter(|key| suspects.contains(&group(key))).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{self, but};

    fn id(name: &str) -> ObjectId {
        testing::id("Secret", name)
    }

    fn member(name: &str, object: Value) -> Member {
        but(&testing::member(&id(name)), |member| {
            member.object = object;
            member.digest.clear();
        })
    }

    fn found(rendered: Value, live: Value) -> FoundResult {
        FoundResult {
            leaf: Leaf {
                id: id("a"),
                pointer: "/data/a".into(),
            },
            rendered,
            live,
        }
    }

    #[test]
    fn leaves_that_differ_are_named() {
        let one = json!({"data": {"a/b~c": "x", "same": 1}, "list": [{"v": 1}, {"v": 2}], "shape": [1]});
        let other = json!({"data": {"a/b~c": "y", "same": 1}, "list": [{"v": 1}, {"v": 3}], "shape": [1, 2]});
        let leaves = random_leaves(&[member("a", one), member("b", json!({}))], &[member("a", other)]);
        let pointers: Vec<_> = leaves.iter().map(|leaf| leaf.pointer.as_str()).collect();
        assert_eq!(pointers, ["/data/a~1b~0c", "/list/1/v"]);
    }

    #[test]
    fn live_leaves_are_found_by_name() {
        let rendered = json!({"c": [{"name": "web", "v": "new"}], "plain": ["new"], "data": {"a/b": "new"}});
        let live = json!({"c": [{"name": "mesh", "v": "no"}, {"name": "web", "v": "old"}], "plain": ["old"], "data": {"a/b": "old"}});
        for pointer in ["/c/0/v", "/plain/0", "/data/a~1b"] {
            assert_eq!(live_leaf(&rendered, &live, pointer), Some(&json!("old")), "{pointer}");
        }
        for (live, pointer) in [
            (json!({"c": [{"name": "other"}]}), "/c/0/v"),
            (json!({"data": null}), "/data/a~1b"),
            (json!({"data": {"a/b": {}}}), "/data/a~1b"),
        ] {
            assert_eq!(live_leaf(&rendered, &live, pointer), None, "{live}");
        }
    }

    #[test]
    fn a_result_is_told_from_what_surrounds_it() {
        for (rendered, live, text, former) in [
            ("new", "old", "new", Some("old")),
            ("redis://:new@host", "redis://:old@host", "new", Some("old")),
            ("redis://:new@host", "redis://:old@elsewhere", "new", None),
            ("new new", "old old", "new", None),
            ("else", "old", "new", None),
            ("x", "old", "", None),
        ] {
            assert_eq!(replaced(rendered, live, text).as_deref(), former, "{rendered} {live}");
        }
        let encoded = found(json!(BASE64.encode(b"user:new\n")), json!(BASE64.encode(b"user:old\n")));
        let all = views(&encoded);
        assert_eq!(all.len(), 2);
        assert_eq!(replaced(&all[1].0, &all[1].1, "new").as_deref(), Some("old"));
        assert_eq!(views(&found(json!(5), json!(7)))[0], ("5".into(), "7".into()));
    }

    #[test]
    fn a_pin_holds_while_the_template_renders_the_same() {
        let key = Key::new([1; 32]);
        let pin = Pin::new(&found(json!("new"), json!("old")), &key);
        let stored: Pin = serde_json::from_value(serde_json::to_value(&pin).unwrap()).unwrap();
        assert_eq!(stored, pin);
        for (object, value, held) in [
            (json!({"data": {"a": "new"}}), json!("old"), 1),
            (json!({"data": {"a": "set by a user"}}), json!("set by a user"), 0),
        ] {
            let mut members = [member("b", object.clone()), member("a", object)];
            let held_now = apply_pins(&mut members, std::slice::from_ref(&pin), &key, &key);
            assert_eq!((held_now.len(), &members[1].object["data"]["a"]), (held, &value));
            assert_eq!(
                members[1].digest.is_empty(),
                held == 0,
                "a changed object has another digest"
            );
            assert_ne!(members[0].object["data"]["a"], "old");
        }
        assert!(apply_pins(&mut [member("a", json!({}))], &[pin], &key, &key).is_empty());
    }
}
