//! Any request goes wrong in any way, and the operator makes it good: scenario by fault by position. While it does, it
//! prunes nothing before everything is applied (P3) and leaves unchanged members alone (P2).

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use proptest::strategy::{Just, Strategy, ValueTree};
use proptest::test_runner::Config;

use crate::faults::fault::{Fault, FaultPlan, LoggedCall};
use crate::faults::watches::WatchEnd;
use crate::histories::history::SECOND;
use crate::real_server::process::{TortureLane, in_real_time};
use crate::real_server::release::{members_of, status_is_truthful};
use crate::real_server::scenario::Scenario::{self, *};
use crate::real_server::variant::ReleaseVariant;
use crate::report::{TortureReport, everything, runner, seed};

const SCENARIOS: [Scenario; 5] = [Install, Upgrade, PruneKinds, Delete, Drift];

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
    (Fault::Watches(WatchEnd::Gone), 1),
    (Fault::Watches(WatchEnd::Cut), 1),
    (Fault::Watches(WatchEnd::Silent(SECOND)), 1),
    (Fault::WatchesLate(SECOND), 1),
];

/// Calls about a release that any scenario makes.
const POSITIONS: usize = 20;

/// What goes wrong, how many calls in a row, and the first of them.
type FaultCase = (Scenario, Fault, usize, usize);

fn all_cases() -> Vec<FaultCase> {
    let mut cases = Vec::new();
    for scenario in SCENARIOS {
        for (fault, times) in FAULTS {
            cases.extend((1..=POSITIONS).map(|position| (scenario, fault, times, position)));
        }
    }
    // Each of these takes as long as a request may take.
    if everything() {
        for scenario in [Upgrade, Delete] {
            cases.extend((1..=8).map(|position| (scenario, Fault::Hang, 1, position)));
        }
    }
    cases
}

/// Some for releases that have more than members, and for those of another former owner.
fn cases_of(scenarios: &[Scenario]) -> Vec<FaultCase> {
    let mut cases = Vec::new();
    for (index, (fault, times)) in FAULTS.into_iter().enumerate() {
        for scenario in scenarios {
            // Others for each fault, so that all are hit by some.
            let positions = (1 + index % 4..=2 * POSITIONS).step_by(4);
            cases.extend(positions.map(|position| (*scenario, fault, times, position)));
        }
    }
    cases
}

/// The first position that was not reached, by scenario, fault and how often.
type Unreached = Mutex<HashMap<(Scenario, Fault, usize), usize>>;

/// Runs one case; true if the position was reached.
async fn run(lane: &mut TortureLane, case: FaultCase, release: &str) -> Result<bool> {
    let (scenario, fault, times, position) = case;
    let before = scenario.prepare(lane, release).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    lane.arm(release, FaultPlan::new(fault, position, times, |_| true));
    scenario.act(lane, release).await?;
    let done = lane.until("it converges", async || {
        if scenario != Scenario::Delete && scenario != Scenario::Drift {
            let lie = status_is_truthful(lane, release, &scenario.spec()).await;
            lie.context("LIE")?;
        }
        scenario.is_done(lane, release, false).await
    });
    done.await?;
    let log = lane.faults.log();
    let hit = lane.faults.disarm();
    let careful = scenario.was_careful(lane, release, &before).await;
    let careful = careful.and(order_was_kept(lane, scenario, release, &log));
    careful.with_context(|| {
        let call = |entry: &LoggedCall| format!("{} {:?} {:?}", entry.call, entry.done, entry.answered);
        let calls: Vec<String> = log.iter().map(call).collect();
        format!("hit {hit:?}; all calls:\n{}", calls.join("\n"))
    })?;
    lane.clear(release).await?;
    Ok(!hit.is_empty())
}

/// Nothing that is still rendered is deleted, and nothing at all before everything that is rendered was applied.
fn order_was_kept(lane: &TortureLane, scenario: Scenario, release: &str, log: &[LoggedCall]) -> Result<()> {
    if scenario == Scenario::Delete {
        return Ok(());
    }
    let rendered = members_of(lane, release, &scenario.spec());
    let rendered: BTreeSet<&str> = rendered.keys().map(|(_, name)| name.as_str()).collect();
    let mut uncertain: BTreeSet<String> = BTreeSet::new();
    for entry in log {
        let Some(target) = entry.call.target() else { continue };
        let fine = entry.answered.is_some_and(|code| code < 300);
        match entry.call.verb() {
            "delete" => {
                let name = &target.name;
                ensure!(!rendered.contains(name.as_str()), "{name} was deleted");
                ensure!(uncertain.is_empty(), "{name} went before {uncertain:?}");
            }
            "patch" | "get" if rendered.contains(target.name.as_str()) => {
                if fine {
                    uncertain.remove(&target.name);
                } else {
                    uncertain.insert(target.name);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Cases one after the other in a lane of their own.
async fn lane_of(name: &str, variant: ReleaseVariant, cases: &[FaultCase], unreached: &Unreached) -> Result<()> {
    let mut report = TortureReport::new(name);
    let mut lane = TortureLane::new(name, variant, &[]).await?;
    let mut reached = 0;
    for (number, case) in cases.iter().enumerate() {
        let (scenario, fault, times, position) = *case;
        let end = unreached.lock().unwrap().get(&(scenario, fault, times)).copied();
        if end.is_some_and(|end| end <= position) {
            continue;
        }
        let outcome = run(&mut lane, *case, &format!("f{number}")).await;
        lane.faults.disarm();
        match report.case(case, outcome) {
            Some(true) => reached += 1,
            Some(false) => drop(unreached.lock().unwrap().insert((scenario, fault, times), position)),
            None => {}
        }
    }
    report.end(&format!("{reached} hit"))
}

/// Shares of cases by lane, each with what is known not to be reached.
fn in_lanes(prefix: &str, variant: ReleaseVariant, cases: &[FaultCase], lanes: usize) -> Result<()> {
    eprintln!("{prefix}: {} cases of seed {} in {lanes} lanes", cases.len(), seed());
    let unreached = Unreached::default();
    let unreached = &unreached;
    let share = cases.len().div_ceil(lanes);
    in_real_time(async {
        let lanes = cases.chunks(share).enumerate().map(|(number, cases)| async move {
            let name = format!("{prefix}-{number}");
            lane_of(&name, variant, cases, unreached).await.with_context(|| name)
        });
        let outcomes = futures::future::join_all(lanes).await;
        outcomes.into_iter().collect::<Result<Vec<()>>>().map(drop)
    })
}

/// Some of the cases, in the order that the seed makes; all of them with `make torture`.
fn drawn(cases: Vec<FaultCase>, few: usize) -> Result<Vec<FaultCase>> {
    let tree = Just(cases).prop_shuffle().new_tree(&mut runner(Config::default()));
    let mut cases = tree.map_err(|reason| anyhow::anyhow!("{reason}"))?.current();
    if !everything() {
        cases.truncate(few);
    }
    Ok(cases)
}

#[test]
fn the_operator_recovers_from_any_fault_at_any_request() -> Result<()> {
    let lanes = if everything() { 6 } else { 3 };
    in_lanes("faults", ReleaseVariant::Plain, &drawn(all_cases(), 24)?, lanes)
}

/// Of releases that keep more than their members, and of those that are taken over: a sample of each, in turn.
#[test]
fn the_operator_recovers_from_any_fault_with_stored_state() -> Result<()> {
    let usual = &[Install, Upgrade, Delete][..];
    let lanes = if everything() { 2 } else { 1 };
    let mut outcome = Ok(());
    for (name, variant, scenarios) in [
        ("faults-random", ReleaseVariant::Random, usual),
        ("faults-lossy", ReleaseVariant::Lossy, usual),
        ("faults-takeover", ReleaseVariant::Plain, &[Takeover]),
    ] {
        let ended = in_lanes(name, variant, &drawn(cases_of(scenarios), 3)?, lanes);
        outcome = outcome.and(ended);
    }
    outcome
}
