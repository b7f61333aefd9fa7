use serde_json::{Value, json};

use super::*;
use crate::index::live::{FieldManagers, OwnershipMarks};
use crate::testing::{id as object, table, with};

fn id(name: &str) -> ObjectId {
    object("ConfigMap", name)
}

fn live() -> Live {
    Live {
        uid: "u".into(),
        resource_version: "1".into(),
        ownership: OwnershipMarks {
            part_of: Some("s".into()),
            ..OwnershipMarks::default()
        },
        managers: FieldManagers {
            fingerprint: Some(1),
            ..FieldManagers::default()
        },
        ..Live::default()
    }
}

/// What comes of one step of a story; null where nothing does.
fn step_result(members: &mut Members, step: &str, name: &str, event: &Value, expected: &Value) -> Value {
    let id = id(name);
    let everywhere = Scope::everywhere(&id.group_kind);
    let uid = event.as_str().unwrap_or_default();
    let live = || with(&live(), event);
    match step {
        "ask" => members.begin_request(&id),
        "answer" => members.end_request(&id, (!event.is_null()).then(live).as_ref()),
        "list starts" => members.list_starts(&everywhere),
        "is going" => members.is_going(&id, uid),
        "observe" => return json!(members.observe(&id, live())),
        "remove" => return json!(members.remove(&id)),
        "listed" => return json!(members.listed(&everywhere, &id, live())),
        "retain" => return json!(members.retain(&everywhere, &HashSet::from([id]))),
        "forget" => return json!(members.forget(&everywhere)),
        "is finished" => return json!(members.is_finished(&id, uid)),
        "take finished" => {
            let finished = members.take_finished(name).into_iter();
            return finished.map(|(id, uid)| (id.name, Value::from(uid))).collect();
        }
        "set" => return members.of_set(name).into_iter().map(|id| id.name).collect(),
        "known" => {
            if let Some(known) = members.get(&id).map(|live| json!(live)) {
                let fields = expected.as_object().into_iter().flatten();
                return fields.map(|(field, _)| (field.clone(), known[field].clone())).collect();
            }
        }
        unknown => panic!("{unknown}"),
    }
    Value::Null
}

#[test]
fn the_index_knows_its_events() {
    type Story = (String, Vec<(String, String, Value, Value)>);
    for (story, steps) in table::<Story>("members", "stories") {
        let mut members = Members::default();
        for (step, name, event, expected) in steps {
            let found = step_result(&mut members, &step, &name, &event, &expected);
            assert_eq!(found, expected, "{story}: {step} {name} {event}");
        }
        assert!(members.pending.is_empty() && members.lists.is_empty(), "{story}");
    }
}

#[test]
fn jobs_that_never_have_the_same_name_leave_nothing() {
    let mut members = Members::default();
    for round in 0..5000 {
        let id = id(&format!("job-{round}"));
        let job = with(&live(), &json!({"finished": true}));
        members.begin_request(&id);
        members.end_request(&id, Some(&job));
        members.observe(&id, job);
        members.remove(&id);
        assert_eq!(members.take_finished("s").len(), 1);
    }
    assert!(members.objects.is_empty() && members.sets.is_empty() && members.pending.is_empty());
    assert!(members.finished.is_empty());
}

#[test]
fn sync_is_per_scope_and_lost_with_the_watch() {
    let mut members = Members::default();
    let kind = GroupKind::new("", "ConfigMap");
    let (shop, all) = (Scope::of(&kind, "shop"), Scope::everywhere(&kind));
    assert!(members.need("s", [shop.clone()]) && !members.need("s", [shop.clone()]));
    members.set_synced(&shop);
    assert!(members.is_synced(&kind, "shop") && !members.is_synced(&kind, "other") && !members.is_synced(&kind, ""));
    members.observe(&id("a"), live());
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    members.set_failing(&shop, "forbidden".into(), at(7));
    assert!(!members.is_synced(&kind, "shop"));
    assert_eq!(members.unsynced(), [(shop.clone(), Some("forbidden".to_owned()))]);
    assert_eq!(members.unseen(&id("a")), None, "it may pass");
    assert_eq!(
        (members.report_failing(&shop), members.report_failing(&shop)),
        (vec!["s".to_owned()], vec![])
    );
    members.set_failing(&shop, "gone".into(), at(9));
    let unseen = members.unseen(&id("a")).unwrap();
    assert_eq!((unseen.since, unseen.error.as_str()), (at(7), "gone"));
    assert_eq!(members.count_failing("ConfigMap"), 1);
    assert_eq!(members.set_synced(&shop), ["s"]);
    assert!(members.unseen(&id("a")).is_none() && members.set_synced(&shop).is_empty());
    members.set_failing(&shop, "forbidden".into(), at(9));
    assert!(members.need("s", [all.clone()]));
    members.set_synced(&all);
    assert!(members.is_synced(&kind, "anywhere") && members.is_synced(&kind, ""));
    assert!(!members.need("s", [shop]), "the wider watch covers it");
}

#[test]
fn members_of_sets_that_nobody_knows_are_left_over() {
    let mut members = Members::default();
    for (name, tracked, deleting) in [
        ("b", "b", false),
        ("a", "a", false),
        ("copy", "a", false),
        ("going", "going", true),
    ] {
        let fields = json!({"tracking": format!("u1:ConfigMap:shop/{tracked}"), "deleting": deleting});
        members.observe(&id(name), with(&live(), &fields));
    }
    assert_eq!(members.leftovers(|_| false), [id("a"), id("b")]);
    assert!(members.leftovers(|set| set == "s").is_empty());
}
