use std::collections::HashMap;

use serde_json::{Value, json};

use super::sample::{Consumer, Sample};
use super::*;
use crate::identity::ObjectId;

fn release(kind: &str, name: &str) -> UsageRelease {
    UsageRelease {
        kind: format!("{kind}.a.test"),
        namespace: "shop".into(),
        name: name.into(),
    }
}

fn requests(cpu: u64, memory: u64, storage: u64) -> Requests {
    Amounts { cpu, memory, storage }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn line<'a>(counters: &'a Counters, release: &UsageRelease) -> Option<&'a Line> {
    counters
        .lines()
        .find(|(found, _)| found == release)
        .map(|(_, line)| line)
}

/// A pod or claim of the namespace `shop`, whose UID is its name, that requests so much; owners as `Kind.group/name`.
fn consumer(name: &str, owners: &[&str], amount: u64) -> Consumer {
    let metadata = json!({"namespace": "shop", "name": name, "uid": name, "ownerReferences": references(owners)});
    Consumer::new(serde_json::from_value(metadata).unwrap(), requests(amount, 0, 0))
}

fn references(owners: &[&str]) -> Value {
    let reference = |owner: &&str| {
        let (kind, name) = owner.split_once('/').unwrap();
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        let version = if group.is_empty() {
            "v1".to_owned()
        } else {
            format!("{group}/v1")
        };
        json!({"apiVersion": version, "kind": kind, "name": name, "uid": name})
    };
    owners.iter().map(reference).collect()
}

#[test]
fn pods_and_claims_belong_to_the_release_whose_member_made_them() {
    // Members, and their releases. The UID of each is its name.
    let members: HashMap<&str, &str> = HashMap::from([
        ("Deployment.apps shop/web", "a"),
        ("CronJob.batch shop/nightly", "a"),
        ("StatefulSet.apps shop/db", "b"),
        ("StatefulSet.apps shop/my-db", "c"),
        ("Pod shop/alone", "d"),
        ("PersistentVolumeClaim shop/own", "d"),
    ]);
    let find = |id: &ObjectId, uid: Option<&str>| {
        let is_it = uid.is_none_or(|uid| uid == id.name);
        members.get(id.to_string().as_str()).copied().filter(|_| is_it)
    };
    let between = |name: &str, owners| (name.to_owned(), serde_json::from_value(references(owners)).unwrap());
    let sample = |pods, claims| Sample {
        pods,
        claims,
        between: HashMap::from([
            between("web-1", &["Deployment.apps/web"]),
            between("nightly-1", &["CronJob.batch/nightly"]),
            between("theirs-1", &["Deployment.apps/theirs"]),
            between("round", &["ReplicaSet.apps/round"]),
        ]),
    };
    for (name, owners, expected) in [
        ("p", &["ReplicaSet.apps/web-1"][..], Some("a")),
        ("p", &["Job.batch/nightly-1"], Some("a")),
        ("p", &["StatefulSet.apps/db"], Some("b")),
        ("alone", &[], Some("d")),
        ("p", &["Other.x/y", "StatefulSet.apps/db"], Some("b")),
        ("p", &["ReplicaSet.apps/theirs-1"], None),
        ("p", &["ReplicaSet.apps/unknown"], None),
        ("p", &["ReplicaSet.apps/round"], None),
        ("p", &["StatefulSet.other/db"], None),
        ("db-0", &[], None),
    ] {
        let found = sample(vec![consumer(name, owners, 3)], vec![]).by_release(&find);
        assert_eq!(
            found,
            expected.map(|of| (of, requests(3, 0, 0))).into_iter().collect(),
            "{name} {owners:?}"
        );
    }
    let pods = || vec![consumer("pod", &["ReplicaSet.apps/web-1"], 0)];
    for (name, owners, expected) in [
        ("own", &[][..], Some("d")),
        ("data-db-0", &[], Some("b")),
        ("data-my-db-11", &[], Some("c")),
        ("x", &["StatefulSet.apps/db"], Some("b")),
        ("pod-scratch", &["Pod/pod"], Some("a")),
        ("data-db-x", &[], None),
        ("data-db-", &[], None),
        ("db-0", &[], None),
        ("data-theirs-0", &[], None),
    ] {
        let mut found = sample(pods(), vec![consumer(name, owners, 3)]).by_release(&find);
        found.retain(|_, found| *found != Requests::default());
        assert_eq!(
            found,
            expected.map(|of| (of, requests(3, 0, 0))).into_iter().collect(),
            "{name} {owners:?}"
        );
    }
    let both = vec![
        consumer("p", &["StatefulSet.apps/db"], 3),
        consumer("q", &["StatefulSet.apps/db"], 4),
    ];
    assert_eq!(sample(both, vec![]).by_release(&find)["b"], requests(7, 0, 0));
}

#[test]
fn what_a_sample_shows_counts_until_the_next() {
    let (web, minute) = (release("Shop", "web"), Some(Duration::from_secs(60)));
    let mut counters = Counters::new(at(0));
    let mut take = |second, elapsed, amounts: Requests| {
        counters.take(at(second), elapsed, BTreeMap::from([(web.clone(), amounts)]), |_| true);
        // As after a restart.
        counters = Counters::read(&counters.to_text(10_000).unwrap()).unwrap();
        let line = line(&counters, &web).unwrap().clone();
        (line.counted.into(), line.requested)
    };
    let (small, large) = (requests(500, 10, 0), requests(2000, 10, 7));
    assert_eq!(take(0, None, small), ([0.0; 3], small));
    assert_eq!(take(60, minute, large), ([30.0, 600.0, 0.0], large));
    assert_eq!(
        take(90, Some(Duration::from_millis(500)), large),
        ([31.0, 605.0, 4.0], large),
        "rounded"
    );
    // What was requested in a gap is unknown.
    assert_eq!(take(9000, None, small), ([31.0, 605.0, 4.0], small));
    assert_eq!(
        take(9060, minute, requests(0, 0, 0)),
        ([61.0, 1205.0, 4.0], requests(0, 0, 0))
    );
    assert_eq!(
        counters.of_kinds().collect::<Vec<_>>(),
        [("Shop.a.test", [61.0, 1205.0, 4.0].into())]
    );
}

#[test]
fn releases_that_are_gone_are_folded_after_a_while() {
    let (web, day) = (release("Shop", "web"), 24 * 3600);
    let mut counters = Counters::new(at(0));
    counters.take(
        at(0),
        None,
        BTreeMap::from([(web.clone(), requests(1000, 0, 0))]),
        |_| true,
    );
    counters.take(at(60), Some(Duration::from_secs(60)), BTreeMap::new(), |_| false);
    assert_eq!(line(&counters, &web).unwrap().gone, Some(at(60)));
    counters.take(at(20 * day), None, BTreeMap::new(), |_| true);
    assert_eq!(line(&counters, &web).unwrap().gone, None, "it is back");
    counters.take(at(30 * day), None, BTreeMap::new(), |_| false);
    counters.take(at(60 * day), None, BTreeMap::new(), |_| false);
    assert!(line(&counters, &web).is_some());
    counters.take(at(61 * day), None, BTreeMap::new(), |_| false);
    let lines: Vec<_> = counters
        .lines()
        .map(|(release, line)| (release, line.counted.cpu))
        .collect();
    assert_eq!(lines, [(release("Shop", ""), 60.0)]);
}

#[test]
fn what_has_no_room_is_counted_for_its_kind() {
    let all = || (1..=200).map(|n: u64| (release("Shop", &format!("release-{n}")), requests(n, n << 20, 0)));
    let mut counters = Counters::new(at(0));
    for sample in 0..4 {
        let is_there = |release: &UsageRelease| release.name != "release-200";
        counters.take(
            at(sample),
            Some(Duration::from_secs(sample as u64 * 1000)),
            all().collect(),
            is_there,
        );
        let text = counters.to_text(10_000).unwrap();
        assert!((8_000..=10_000).contains(&text.len()), "{}", text.len());
        counters = Counters::read(&text).unwrap();
    }
    let (_, counted) = counters.of_kinds().next().unwrap();
    // The sum of 1 to 200 is 20100, and all of it counts for six thousand seconds.
    assert_eq!(
        (counted.cpu, counted.memory),
        (120_600.0, 120_600_000.0 * f64::from(1 << 20))
    );
    let own: Vec<String> = counters.lines().map(|(release, _)| release.name).collect();
    let has = |name: &str| own.iter().any(|own| own == name);
    assert!(has("") && has("release-199") && !has("release-1"), "{own:?}");
    assert!(!has("release-200"), "those that are gone are folded first");
    // Even where there is room for nothing.
    assert!(counters.to_text(0).unwrap().len() < 300);
    assert_eq!(counters.of_kinds().next().unwrap().1, counted);
}

#[test]
fn what_is_stored_is_read_by_this_version_and_no_earlier_one() {
    let text = Counters::new(at(0)).to_text(1000).unwrap();
    assert!(Counters::read(&text).is_ok());
    let later = Counters::read(r#"{"version": 2}"#).unwrap_err();
    assert!(later.contains("later version"), "{later}");
    assert!(Counters::read("{}").is_err());
}
