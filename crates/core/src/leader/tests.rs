use super::*;

const LABEL: Label<'static> = Label {
    key: "lead",
    value: "true",
};

/// A pod from a word: its name, `r` if it is ready, `l` if it carries the label, `x` if another client set one, `m` if it is
/// marked. The later in the alphabet, the younger.
fn pod(word: &str) -> Pod {
    let (name, marks) = word.split_at(1);
    let has = |mark: char| marks.contains(mark);
    let value = if has('x') { "replica" } else { "true" };
    let labels = (has('l') || has('x')).then(|| ("lead".to_owned(), value.to_owned()));
    Pod {
        name: name.to_owned(),
        uid: format!("u{name}"),
        created: Timestamp::from_second(name.bytes().map(i64::from).sum()).unwrap(),
        ready: has('r'),
        labels: labels.into_iter().collect(),
        mark: if has('m') { "e1".into() } else { String::new() },
        ..Pod::default()
    }
}

fn holder(name: &str) -> Option<Holder> {
    (name != "-").then(|| Holder {
        name: name.to_owned(),
        uid: format!("u{name}"),
    })
}

fn describe(step: LeaderStep) -> String {
    match step {
        LeaderStep::Nothing => "nothing".to_owned(),
        LeaderStep::Read => "read".to_owned(),
        LeaderStep::Look(holder) => format!("look {}", holder.name),
        LeaderStep::TakeOff(pod) => format!("off {}", pod.name),
        LeaderStep::Claim(pod) => format!("claim {}", pod.name),
        LeaderStep::Put(pod) => format!("put {}", pod.name),
    }
}

fn round(pods: &str) -> Round<'static> {
    Round::new(LABEL, pods.split_whitespace().map(pod).collect())
}

#[test]
fn one_step_after_the_other() {
    for (pods, held, former, expected) in [
        // No pod was chosen yet: the oldest that is ready, unless one has the label.
        ("b c", "-", "-", "nothing"),
        ("a br cr", "-", "-", "claim b"),
        ("ar brl crl", "-", "-", "claim b"),
        ("arx br", "-", "-", "claim b"),
        ("al b", "-", "-", "off a"),
        ("arx", "-", "-", "nothing"),
        // The chosen one.
        ("ar br", "b", "-", "put b"),
        ("ar brl", "b", "-", "nothing"),
        ("arl brl", "b", "-", "off a"),
        ("al b", "b", "-", "off a"),
        ("arl br", "b", "-", "off a"),
        ("arx br", "a", "-", "claim b"),
        // It isn't fit any more.
        ("ar bl cr", "b", "-", "claim a"),
        ("ar cr", "b", "-", "claim a"),
        ("a bl c", "b", "-", "off b"),
        ("a b", "b", "-", "nothing"),
        // The one before is marked first, whether it has the label or not, or is gone.
        ("ar br", "b", "a", "off a"),
        ("arl br", "b", "a", "off a"),
        ("arlm br", "b", "a", "off a"),
        ("arm br", "b", "a", "put b"),
        ("br cr", "b", "a", "look a"),
        ("ar brl", "b", "a", "off a"),
        ("ar b", "b", "a", "off a"),
        ("arm b", "b", "a", "claim a"),
    ] {
        let mut round = round(pods);
        assert_eq!(describe(round.next()), "read");
        round.read(Held {
            holder: holder(held),
            former: holder(former),
            epoch: "e1".into(),
        });
        assert_eq!(
            describe(round.next()),
            expected,
            "{pods}, held by {held} after {former}"
        );
    }
}

#[test]
fn a_round_follows_its_answers() {
    let mut round = round("ar br");
    let held = Held {
        holder: holder("b"),
        former: holder("c"),
        epoch: "e1".into(),
    };
    round.read(held);
    assert_eq!(describe(round.next()), "look c");
    round.gone("uc");
    assert_eq!(describe(round.next()), "put b");
    round.learn(pod("brl"));
    assert_eq!(
        (describe(round.next()), round.leader().unwrap().name.as_str()),
        ("nothing".into(), "b")
    );
    round.doubt();
    assert_eq!((describe(round.next()), round.leader()), ("read".into(), None));
}

#[test]
fn the_status_says_enough_to_ask_nothing() {
    let elected = Elected {
        pod: Some("b".into()),
        uid: "ub".into(),
        ..Elected::default()
    };
    for (pods, expected) in [
        ("ar brl", "nothing"),
        ("ar b", "claim a"),
        ("a bl", "off b"),
        ("arl br", "off a"),
    ] {
        let mut round = round(pods);
        round.read(elected.held());
        assert_eq!(describe(round.next()), expected, "{pods}");
    }
    assert_eq!(Holder::parse("web-0/u-1").unwrap().identity(), "web-0/u-1");
    assert_eq!(Elected::default().held(), Held::default());
}

/// Pods and a Lease as a server has them, with versions.
#[derive(Clone, Default)]
struct Server {
    version: u64,
    pods: Vec<Pod>,
    held: Held,
    lease: u64,
}

impl Server {
    fn touch(&mut self, name: &str, change: impl FnOnce(&mut Pod)) {
        self.version += 1;
        if let Some(pod) = self.pods.iter_mut().find(|pod| pod.name == name) {
            pod.resource_version = self.version.to_string();
            change(pod);
        }
    }

    fn is_current(&self, pod: &Pod) -> bool {
        let is_it = |known: &&Pod| known.uid == pod.uid;
        self.pods
            .iter()
            .find(is_it)
            .is_some_and(|known| known.resource_version == pod.resource_version)
    }
}

/// An operator that may be late with everything: each call is one request of its, decided on what it knew before.
struct Operator {
    round: Option<Round<'static>>,
    lease: u64,
    epoch: String,
}

impl Operator {
    fn act(&mut self, server: &mut Server, stale: &[Pod]) {
        let round = self.round.get_or_insert_with(|| Round::new(LABEL, stale.to_vec()));
        let step = round.next();
        let target = match &step {
            LeaderStep::Look(holder) => holder.clone(),
            LeaderStep::TakeOff(pod) | LeaderStep::Claim(pod) | LeaderStep::Put(pod) => Holder::of(pod),
            LeaderStep::Nothing | LeaderStep::Read => Holder::default(),
        };
        match step {
            LeaderStep::Nothing => return self.round = None,
            LeaderStep::Read => {
                (self.lease, self.epoch) = (server.lease, server.held.epoch.clone());
                return round.read(server.held.clone());
            }
            LeaderStep::Claim(_) if self.lease != server.lease => return round.doubt(),
            LeaderStep::Claim(_) => {
                server.lease += 1;
                let former = server.held.holder.replace(target);
                server.held = Held {
                    former,
                    epoch: format!("e{}", server.lease),
                    ..server.held.clone()
                };
                (self.lease, self.epoch) = (server.lease, server.held.epoch.clone());
                return round.read(server.held.clone());
            }
            LeaderStep::Look(_) => {}
            LeaderStep::TakeOff(pod) | LeaderStep::Put(pod) if !server.is_current(&pod) => round.doubt(),
            LeaderStep::TakeOff(pod) => server.touch(&pod.name, |pod| {
                pod.labels.clear();
                pod.mark.clone_from(&self.epoch);
            }),
            LeaderStep::Put(pod) => {
                server.touch(&pod.name, |pod| drop(pod.labels.insert("lead".into(), "true".into())))
            }
        }
        match server.pods.iter().find(|pod| pod.uid == target.uid) {
            Some(pod) => round.learn(pod.clone()),
            None => round.gone(&target.uid),
        }
    }
}

/// Three operators that see outdated pods, are killed between any two requests, and a cluster whose pods come
/// and go: never two leaders, and one in the end.
#[test]
fn never_two_lead_whoever_is_late() {
    let mut seed: u64 = 7;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut elections = 0;
    for _ in 0..400 {
        let mut server = Server {
            pods: ["a", "b", "c"].map(pod).into(),
            ..Server::default()
        };
        let mut past = vec![server.pods.clone()];
        let new = || Operator {
            round: None,
            lease: 0,
            epoch: String::new(),
        };
        let mut operators = [new(), new(), new()];
        for moment in 0..160 {
            let name = ["a", "b", "c"][random(3)];
            match random(12) {
                0 | 1 => server.touch(name, |pod| pod.ready = !pod.ready),
                2 => server.touch(name, |pod| {
                    let version = pod.resource_version.clone();
                    *pod = Pod {
                        uid: format!("u{name}{moment}"),
                        resource_version: version,
                        ..self::pod(name)
                    };
                }),
                3 => operators[random(3)] = new(),
                _ => {
                    let seen = past[past.len() - 1 - random(past.len().min(12))].clone();
                    operators[random(3)].act(&mut server, &seen);
                }
            }
            past.push(server.pods.clone());
            let labelled = server.pods.iter().filter(|pod| LABEL.is_on(pod)).count();
            assert!(labelled < 2, "at {moment}: {:?}", server.pods);
        }
        elections += server.lease;
        server.touch("b", |pod| pod.ready = true);
        let mut last = new();
        for _ in 0..40 {
            let seen = server.pods.clone();
            last.act(&mut server, &seen);
        }
        assert!(server.pods.iter().any(|pod| LABEL.leads(pod)), "{:?}", server.pods);
    }
    assert!(elections > 1000, "{elections}: too little happens");
}
