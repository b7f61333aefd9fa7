//! Any request goes wrong in any way, and the operator makes it good: scenario by fault by position. While it does, it
//! prunes nothing before everything is applied (P3), leaves unchanged members alone (P2) and takes nobody's object (P9).

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::fault::{Entry, Fault, Plan};
use crate::flavour::Flavour;
use crate::lane::{HEALED, Lane, in_real_time};
use crate::look::condition;
use crate::release::{members_of, status_is_no_lie};
use crate::report::{Report, everything};
use crate::sample::{Random, seed};
use crate::scenario::Scenario;

const SECOND: Duration = Duration::from_secs(1);

const SCENARIOS: [Scenario; 5] = [
    Scenario::Install,
    Scenario::Upgrade,
    Scenario::PruneKinds,
    Scenario::Delete,
    Scenario::Drift,
];

/// Each with how many calls in a row it hits.
const FAULTS: [(Fault, usize); 15] = [
    (Fault::Status(409), 1),
    (Fault::Status(410), 1),
    (Fault::Status(429), 2),
    (Fault::Status(500), 1),
    (Fault::Status(500), 4),
    (Fault::Status(503), 1),
    (Fault::Status(503), 5),
    (Fault::Late, 1),
    (Fault::CutBefore, 2),
    (Fault::CutAfter, 1),
    (Fault::Slow, 1),
    (Fault::WatchesGone, 1),
    (Fault::WatchesCut, 1),
    (Fault::WatchesSilent(SECOND), 1),
    (Fault::WatchesLate(SECOND), 1),
];

/// Calls about a release that any scenario makes.
const POSITIONS: usize = 20;

#[derive(Clone, Copy, Debug)]
struct Case {
    scenario: Scenario,
    fault: Fault,
    times: usize,
    position: usize,
}

fn all_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for scenario in SCENARIOS {
        for (fault, times) in FAULTS {
            cases.extend((1..=POSITIONS).map(|position| Case {
                scenario,
                fault,
                times,
                position,
            }));
        }
    }
    // Each of these takes as long as a request may take.
    if everything() {
        for scenario in [Scenario::Upgrade, Scenario::Delete] {
            cases.extend((1..=8).map(|position| Case {
                scenario,
                fault: Fault::Hang,
                times: 1,
                position,
            }));
        }
    }
    cases
}

/// Some for releases that have more than members, and for those that were somebody else's.
fn cases_of(flavour: Flavour, scenarios: &[Scenario]) -> (Flavour, Vec<Case>) {
    let mut cases = Vec::new();
    for (index, (fault, times)) in FAULTS.into_iter().enumerate() {
        for scenario in scenarios {
            // Others for each fault, so that all are hit by some.
            let positions = (1 + index % 4..=2 * POSITIONS).step_by(4);
            cases.extend(positions.map(|position| Case {
                scenario: *scenario,
                fault,
                times,
                position,
            }));
        }
    }
    (flavour, cases)
}

/// Positions that were not reached, by scenario and fault: those beyond are not either.
#[derive(Default)]
struct Unreached(Mutex<HashMap<(Scenario, Fault, usize), usize>>);

impl Unreached {
    fn contains(&self, case: &Case) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&(case.scenario, case.fault, case.times))
            .is_some_and(|position| *position <= case.position)
    }

    fn insert(&self, case: &Case) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let position = known
            .entry((case.scenario, case.fault, case.times))
            .or_insert(case.position);
        *position = case.position.min(*position);
    }
}

/// Runs one case; true if the position was reached.
async fn run(lane: &mut Lane, case: Case, release: &str) -> Result<bool> {
    let Case { scenario, .. } = case;
    let before = scenario.prepare(lane, release).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let plan = Plan {
        fault: case.fault,
        position: case.position,
        times: case.times,
        counts: Box::new(|_| true),
    };
    lane.faults.arm(lane.about(release, plan));
    scenario.act(lane, release).await?;
    let done = lane.until("it converges", HEALED, async || {
        if scenario != Scenario::Delete && scenario != Scenario::Drift {
            let lie = status_is_no_lie(lane, release, &scenario.spec()).await;
            if let Err(lie) = lie {
                bail!("LIE: {lie:#}");
            }
        }
        scenario.is_done(lane, release, false).await
    });
    done.await?;
    let log = lane.faults.log();
    let hit = lane.faults.heal();
    let careful = scenario.was_careful(lane, release, &before).await;
    careful
        .and(order_was_kept(lane, case, release, &log))
        .with_context(|| {
            let calls: Vec<String> = log
                .iter()
                .map(|entry| format!("{} {:?} {:?}", entry.call, entry.done, entry.told))
                .collect();
            format!("hit {hit:?}; all calls:\n{}", calls.join("\n"))
        })?;
    lane.clear(release).await?;
    Ok(!hit.is_empty())
}

/// Nothing that is still rendered is deleted, and nothing at all before everything that is rendered was applied.
fn order_was_kept(lane: &Lane, case: Case, release: &str, log: &[Entry]) -> Result<()> {
    if case.scenario == Scenario::Delete {
        return Ok(());
    }
    let rendered = members_of(lane, release, &case.scenario.spec());
    let rendered: BTreeSet<&str> = rendered.keys().map(|(_, name)| name.as_str()).collect();
    let mut uncertain: BTreeSet<String> = BTreeSet::new();
    for entry in log {
        let Some(target) = entry.call.target() else { continue };
        let fine = entry.told.is_some_and(|code| code < 300);
        match entry.call.verb() {
            "delete" => {
                ensure!(!rendered.contains(target.name.as_str()), "{} was deleted", target.name);
                ensure!(
                    uncertain.is_empty(),
                    "{} was deleted before {uncertain:?} were applied",
                    target.name
                );
            }
            "patch" | "get" if rendered.contains(target.name.as_str()) => match fine {
                true => drop(uncertain.remove(&target.name)),
                false => drop(uncertain.insert(target.name)),
            },
            _ => {}
        }
    }
    Ok(())
}

/// Cases one after the other in a lane of their own.
async fn lane_of(name: &str, flavour: Flavour, cases: &[Case], unreached: &Unreached) -> Result<()> {
    let mut report = Report::new(name);
    let mut lane = Lane::of(name, flavour).await?;
    let mut reached = 0;
    let mut slowest = (Duration::ZERO, String::new());
    let mut failures = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        if unreached.contains(case) {
            continue;
        }
        let begun = Instant::now();
        let outcome = run(&mut lane, *case, &format!("f{number}")).await;
        lane.faults.heal();
        match outcome {
            Ok(true) => reached += 1,
            Ok(false) => unreached.insert(case),
            Err(error) => {
                eprintln!("{name}: {case:?}: {error:#}");
                failures.push(format!("{case:?}: {error:#}"));
            }
        }
        report.case();
        if begun.elapsed() > slowest.0 {
            slowest = (begun.elapsed(), format!("{case:?}"));
        }
    }
    report.end_but_for(
        &failures,
        &format!("{reached} hit, slowest {:.1} s: {}", slowest.0.as_secs_f64(), slowest.1),
    )
}

/// Shares of cases by lane, each with what is known not to be reached.
fn in_lanes(prefix: &str, flavour: Flavour, cases: &[Case], lanes: usize) -> Result<()> {
    eprintln!("{prefix}: {} cases of seed {} in {lanes} lanes", cases.len(), seed());
    let unreached = Unreached::default();
    let unreached = &unreached;
    let share = cases.len().div_ceil(lanes);
    in_real_time(async {
        let lanes = cases.chunks(share).enumerate().map(|(number, cases)| async move {
            let name = format!("{prefix}-{number}");
            lane_of(&name, flavour, cases, unreached).await.with_context(|| name)
        });
        let outcomes = futures::future::join_all(lanes).await;
        outcomes.into_iter().collect::<Result<Vec<()>>>().map(drop)
    })
}

#[test]
fn any_request_may_go_wrong() -> Result<()> {
    let mut cases = all_cases();
    Random::new(seed()).shuffle(&mut cases);
    if !everything() {
        cases.truncate(24);
    }
    in_lanes("faults", Flavour::Plain, &cases, if everything() { 6 } else { 3 })
}

/// Of releases that keep more than their members, and of those that are taken over: a sample of each, in turn.
#[test]
fn any_request_about_what_is_kept_may_go_wrong() -> Result<()> {
    let usual = [Scenario::Install, Scenario::Upgrade, Scenario::Delete];
    let mut outcome = Ok(());
    for (name, (flavour, mut cases)) in [
        ("faults-random", cases_of(Flavour::Random, &usual)),
        ("faults-lossy", cases_of(Flavour::Lossy, &usual)),
        ("faults-takeover", cases_of(Flavour::Plain, &[Scenario::Takeover])),
    ] {
        Random::new(seed()).shuffle(&mut cases);
        if !everything() {
            cases.truncate(3);
        }
        let ended = in_lanes(name, flavour, &cases, if everything() { 2 } else { 1 });
        outcome = outcome.and(ended);
    }
    outcome
}

/// Another owner's object stays as it is, whatever goes wrong at any call (P9).
async fn collision(lane: &Lane, fault: Fault, position: usize) -> Result<bool> {
    let release = format!("c{position}-{fault:?}").to_lowercase().replace(['(', ')'], "");
    let name = format!("{release}-two");
    let theirs = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"of": "somebody else"},
    }))?;
    let maps = lane.of_kind("ConfigMap");
    let created = maps.create(&PostParams::default(), &theirs).await?;
    let plan = Plan {
        fault,
        position,
        times: 1,
        counts: Box::new(|_| true),
    };
    lane.faults.arm(lane.about(&release, plan));
    let spec = Scenario::Install.spec();
    lane.put(&release, &spec).await?;
    lane.until("the collision is told", HEALED, async || {
        let widget: Value = lane.widget(&release).await?.context("gone")?;
        let stalled = condition(&widget, "Stalled").with_context(|| widget["status"].to_string())?;
        ensure!(stalled["reason"] == "Collision", "{stalled}");
        Ok(())
    })
    .await?;
    let hit = lane.faults.heal();
    let found = maps.get(&name).await?;
    ensure!(
        found.metadata.resource_version == created.metadata.resource_version,
        "somebody else's object was written: {found:?}"
    );
    maps.delete(&name, &Default::default()).await?;
    lane.until("it is installed when the other object is gone", HEALED, async || {
        Scenario::Install.is_done(lane, &release, false).await
    })
    .await?;
    lane.clear(&release).await?;
    Ok(!hit.is_empty())
}

#[test]
fn nobody_elses_object_is_taken_whatever_goes_wrong() -> Result<()> {
    let faults: &[Fault] = match everything() {
        true => &[Fault::Status(500), Fault::Status(409), Fault::CutAfter, Fault::Late],
        false => &[Fault::Status(409)],
    };
    let positions = if everything() { 14 } else { 7 };
    in_real_time(async {
        let mut report = Report::new("faults-collision");
        let lane = Lane::new("faults-collision").await?;
        for fault in faults {
            // The first calls of an installation: the claim, an apply for each member, and a look at what is in the way.
            for position in (1..=positions).step_by(if everything() { 1 } else { 2 }) {
                collision(&lane, *fault, position)
                    .await
                    .with_context(|| format!("{fault:?} at call {position}"))?;
                report.case();
            }
        }
        report.end("");
        Ok(())
    })
}
