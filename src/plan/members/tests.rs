use super::*;
use crate::plan::health::Status;

fn id(name: &str) -> ObjectId {
    ObjectId::new(GroupKind::new("", "ConfigMap"), "shop", name)
}

fn live(version: &str, set: Option<&str>, fingerprint: u64) -> Live {
    Live {
        uid: "u".into(),
        resource_version: version.into(),
        part_of: set.map(str::to_owned),
        fingerprint: Some(fingerprint),
        ..Live::default()
    }
}

#[test]
fn only_news_that_matters_reaches_a_release() {
    let mut members = Members::default();
    assert_eq!(
        members.observe(&id("a"), live("5", Some("s"), 1)),
        ["s"],
        "a new object"
    );
    assert!(
        members.observe(&id("a"), live("6", Some("s"), 1)).is_empty(),
        "only the version moved"
    );
    assert!(
        members.observe(&id("a"), live("4", Some("s"), 9)).is_empty(),
        "older than what our write answered"
    );
    assert_eq!(
        members.observe(&id("a"), live("10", Some("s"), 2)),
        ["s"],
        "10 is newer than 6; a field was taken"
    );
    assert_eq!(
        members.observe(&id("a"), live("11", Some("t"), 2)),
        ["s", "t"],
        "moved to another set"
    );
    assert_eq!(members.of_set("s"), []);
    assert_eq!(members.remove(&id("a")), ["t"]);
    assert!(members.remove(&id("a")).is_empty());
}

#[test]
fn an_answer_does_not_bring_back_what_its_watch_has_seen_go() {
    let answer = live("5", Some("s"), 1);
    let later = live("7", Some("s"), 1);
    for (name, seen, answered, stays) in [
        ("nothing else happened", vec![], &answer, true),
        ("it came and went", vec![Some("5"), None], &answer, false),
        (
            "it came, was changed and went",
            vec![Some("5"), Some("6"), None],
            &answer,
            false,
        ),
        (
            "its former state went: its labels were taken off",
            vec![Some("6"), None],
            &later,
            true,
        ),
        (
            "it came, went and was labelled again",
            vec![Some("5"), None, Some("6")],
            &answer,
            true,
        ),
    ] {
        let mut members = Members::default();
        members.begin_request(&id("a"));
        for version in seen {
            match version {
                Some(version) => drop(members.observe(&id("a"), live(version, Some("s"), 1))),
                None => drop(members.remove(&id("a"))),
            }
        }
        members.end_request(&id("a"), Some(answered));
        assert_eq!(members.get(&id("a")).is_some(), stays, "{name}");
        assert!(members.asked.is_empty());
    }
    let mut members = Members::default();
    members.observe(&id("a"), answer.clone());
    members.begin_request(&id("a"));
    members.remove(&id("a"));
    members.end_request(&id("a"), None);
    assert!(members.get(&id("a")).is_none(), "a request that failed tells nothing");
    let another = Live {
        uid: "other".into(),
        ..answer
    };
    members.begin_request(&id("a"));
    members.end_request(&id("a"), Some(&another));
    assert_eq!(members.get(&id("a")), Some(&another));
}

#[test]
fn another_request_does_not_hide_what_went_during_the_first() {
    let mut members = Members::default();
    members.observe(&id("a"), live("5", Some("s"), 1));
    members.begin_request(&id("a"));
    members.begin_request(&id("a"));
    members.remove(&id("a"));
    members.begin_request(&id("a"));
    for answer in [None, Some(live("5", Some("s"), 1)), Some(live("4", Some("s"), 1))] {
        members.end_request(&id("a"), answer.as_ref());
        assert!(members.get(&id("a")).is_none(), "{answer:?}");
    }
    assert!(members.asked.is_empty());
}

#[test]
fn a_look_at_the_metadata_forgets_nothing_of_the_same_object() {
    let state = |status, message: &str| Live {
        health: Some(Health {
            status,
            message: message.into(),
        }),
        pods: Some("app=web".into()),
        finished: true,
        ..live("1", None, 1)
    };
    let known = state(Status::InProgress, "0 of 1");
    let ask = |known: &Live, told: Option<Live>, answer: Live| {
        let mut members = Members::default();
        members.observe(&id("a"), known.clone());
        members.begin_request(&id("a"));
        if let Some(live) = told {
            members.observe(&id("a"), live);
        }
        members.end_request(&id("a"), Some(&answer));
        members.get(&id("a")).cloned()
    };
    let expected = Live {
        part_of: Some("s".into()),
        resource_version: "2".into(),
        fingerprint: Some(9),
        ..known.clone()
    };
    assert_eq!(ask(&known, None, live("2", Some("s"), 9)), Some(expected));
    let well = Live {
        resource_version: "2".into(),
        ..state(Status::Current, "")
    };
    assert_eq!(
        ask(&known, Some(well.clone()), live("2", None, 1)),
        Some(well.clone()),
        "the watch told more of it meanwhile"
    );
    assert_eq!(ask(&known, None, well.clone()), Some(well), "the whole object was read");
    let another = Live {
        uid: "other".into(),
        ..live("2", None, 1)
    };
    assert_eq!(ask(&known, None, another.clone()), Some(another));
}

#[test]
fn a_recreated_object_is_news_whatever_its_version() {
    let mut members = Members::default();
    members.observe(&id("a"), live("50", Some("s"), 1));
    let recreated = Live {
        uid: "other".into(),
        ..live("7", Some("s"), 1)
    };
    assert_eq!(members.observe(&id("a"), recreated), ["s"]);
}

#[test]
fn a_finished_job_is_remembered_after_it_went() {
    let mut members = Members::default();
    let job = Live {
        finished: true,
        ..live("1", Some("s"), 1)
    };
    members.observe(&id("job"), job);
    assert!(members.is_finished(&id("job"), "u") && !members.is_finished(&id("job"), "other"));
    members.remove(&id("job"));
    assert!(!members.is_finished(&id("job"), "u"));
    assert!(members.take_finished("other").is_empty());
    assert_eq!(members.take_finished("s"), HashMap::from([(id("job"), "u".to_owned())]));
    assert!(members.take_finished("s").is_empty(), "it is noted");
    let job = Live {
        finished: true,
        ..live("1", Some("s"), 1)
    };
    members.observe(&id("job"), job);
    members.remove(&id("job"));
    members.observe(&id("job"), live("2", Some("s"), 1));
    assert!(members.take_finished("s").is_empty(), "another Job of its name");
}

#[test]
fn jobs_that_never_have_the_same_name_leave_nothing() {
    let mut members = Members::default();
    for round in 0..5000 {
        let name = format!("job-{round}");
        let job = Live {
            finished: true,
            ..live("1", Some("s"), 1)
        };
        members.begin_request(&id(&name));
        members.end_request(&id(&name), Some(&job));
        members.observe(&id(&name), job);
        members.remove(&id(&name));
        assert_eq!(members.take_finished("s").len(), 1);
    }
    assert!(members.objects.is_empty() && members.sets.is_empty() && members.asked.is_empty());
    assert!(members.finished.is_empty());
}

#[test]
fn sync_is_per_scope_and_lost_with_the_watch() {
    let mut members = Members::default();
    let kind = GroupKind::new("", "ConfigMap");
    let shop = Scope {
        group_kind: kind.clone(),
        namespace: Some("shop".into()),
    };
    let all = Scope {
        group_kind: kind.clone(),
        namespace: None,
    };
    assert!(members.want(shop.clone()) && !members.want(shop.clone()));
    members.set_synced(&shop);
    assert!(members.is_synced(&kind, "shop") && !members.is_synced(&kind, "other") && !members.is_synced(&kind, ""));
    members.observe(&id("a"), live("1", Some("s"), 1));
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    members.set_failing(&shop, "forbidden".into(), at(7));
    assert!(!members.is_synced(&kind, "shop"));
    assert_eq!(members.unsynced(), [(shop.clone(), Some("forbidden".to_owned()))]);
    assert_eq!(members.unseen(&id("a")), None, "it may pass");
    assert_eq!(
        (members.tell_failing(&shop), members.tell_failing(&shop)),
        (vec!["s".to_owned()], vec![])
    );
    members.set_failing(&shop, "gone".into(), at(9));
    let unseen = members.unseen(&id("a")).unwrap();
    assert_eq!((unseen.since, unseen.error.as_str()), (at(7), "gone"));
    assert_eq!(members.count_failing("ConfigMap"), 1);
    assert_eq!(members.set_synced(&shop), ["s"]);
    assert!(members.unseen(&id("a")).is_none() && members.set_synced(&shop).is_empty());
    members.set_failing(&shop, "forbidden".into(), at(9));
    assert!(members.want(all.clone()));
    members.set_synced(&all);
    assert!(members.is_synced(&kind, "anywhere") && members.is_synced(&kind, ""));
    assert!(!members.want(shop), "the wider watch covers it");
}

#[test]
fn what_we_deleted_is_going_before_its_watch_says_so() {
    let mut members = Members::default();
    members.observe(&id("a"), live("5", Some("s"), 1));
    members.is_going(&id("a"), "another");
    assert!(!members.get(&id("a")).unwrap().deleting);
    members.is_going(&id("a"), "u");
    let told = Live {
        deleting: true,
        ..live("6", Some("s"), 1)
    };
    assert!(members.get(&id("a")).unwrap().deleting);
    assert!(members.observe(&id("a"), told).is_empty(), "no news");
    assert_eq!(members.remove(&id("a")), ["s"]);
}

#[test]
fn members_of_sets_that_nobody_knows_are_left_over() {
    let mut members = Members::default();
    let tracked = |name: &str| Live {
        tracking: Some(format!("u1:ConfigMap:shop/{name}")),
        ..live("1", Some("s"), 1)
    };
    members.observe(&id("b"), tracked("b"));
    members.observe(&id("a"), tracked("a"));
    members.observe(&id("copy"), tracked("a"));
    let going = Live {
        deleting: true,
        ..tracked("going")
    };
    members.observe(&id("going"), going);
    assert_eq!(members.leftovers(|_| false), [id("a"), id("b")]);
    assert!(members.leftovers(|set| set == "s").is_empty());
}

#[test]
fn a_list_of_what_was_restored_is_believed() {
    let mut members = Members::default();
    let scope = Scope {
        group_kind: GroupKind::new("", "ConfigMap"),
        namespace: None,
    };
    members.observe(&id("a"), live("50", Some("s"), 2));
    members.list_starts(&scope);
    assert_eq!(members.listed(&scope, &id("a"), live("30", Some("s"), 1)), ["s"]);
    members.retain(&scope, &HashSet::from([id("a")]));
    assert_eq!(members.get(&id("a")).unwrap().resource_version, "30");
    assert_eq!(members.observe(&id("a"), live("31", Some("s"), 3)), ["s"]);

    // A write while the list is read is newer than the list.
    members.list_starts(&scope);
    members.begin_request(&id("a"));
    members.end_request(&id("a"), Some(&live("33", Some("s"), 4)));
    assert!(members.listed(&scope, &id("a"), live("32", Some("s"), 3)).is_empty());
    members.retain(&scope, &HashSet::from([id("a")]));
    assert_eq!(members.get(&id("a")).unwrap().fingerprint, Some(4));
    assert!(members.lists.is_empty());
}

#[test]
fn a_list_shows_what_is_gone() {
    let mut members = Members::default();
    members.observe(&id("a"), live("1", Some("s"), 1));
    members.observe(&id("b"), live("1", Some("s"), 1));
    let scope = Scope {
        group_kind: GroupKind::new("", "ConfigMap"),
        namespace: None,
    };
    assert_eq!(members.missing_from(&scope, &HashSet::from([id("a")])), [id("b")]);
    assert_eq!(members.forget(&scope).len(), 2);
    assert!(members.get(&id("a")).is_none());
}
