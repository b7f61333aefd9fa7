//! SIGKILL between every two writes: enumerated, not sampled. The operator dies at its n-th write about a release, either
//! before the API server hears of it or before the operator hears the answer; the next one has to finish the work.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::real_server::process::{TortureLane, in_real_time};
use crate::real_server::release::status_is_truthful;
use crate::real_server::scenario::Scenario::{self, *};
use crate::real_server::variant::{self, ReleaseVariant};
use crate::report::{TortureReport, everything};
use crate::world::fields::{text, uid};

/// More writes than any scenario has.
const MANY: usize = 60;

/// The writes at which the operator is killed: from the first, each so many.
type Positions = (usize, usize);

const EACH: Positions = (1, 1);

/// Kills at the write `position`. False if there are fewer.
async fn case(lane: &mut TortureLane, scenario: Scenario, fault: Fault, position: usize) -> Result<bool> {
    let release = format!("{}{position}", format!("{scenario:?}").to_lowercase());
    let before = scenario.prepare(lane, &release).await?;
    // What follows the last status write, such as an event of the preparation, is no write of this scenario.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let long = lane.variant == ReleaseVariant::Long;
    // Between the many members of a long release nothing else happens.
    let counts = move |call: &ApiCall| call.is_write() && !(long && call.is_of("configmaps"));
    lane.arm(&release, FaultPlan::new(fault, position, 1, counts));
    scenario.act(lane, &release).await?;
    let done = lane.until("it is done", async || scenario.is_done(lane, &release, false).await);
    let killed = tokio::select! {
        () = lane.faults.killed.notified() => true,
        done = done => {
            done?;
            // An event may follow the last change of an object.
            tokio::time::timeout(Duration::from_millis(400), lane.faults.killed.notified()).await.is_ok()
        }
    };
    let mut drawn = None;
    if killed {
        lane.stop()?;
        if scenario != Delete {
            status_is_truthful(lane, &release, &scenario.spec()).await?;
        }
        if scenario.is_takeover() {
            variant::former_owner_could_go_on(lane, &release).await?;
        }
        drawn = variant::password(lane, &release).await?;
        scenario.interrupt(lane, &release).await?;
    }
    let hit = lane.faults.disarm();
    if killed {
        lane.start()?;
    }
    let converged = lane.until("it converges", async || scenario.is_done(lane, &release, killed).await);
    converged.await.with_context(|| format!("killed at {hit:?}"))?;
    let careful = scenario.was_careful(lane, &release, &before).await;
    careful.with_context(|| format!("killed at {hit:?}"))?;
    if lane.variant == ReleaseVariant::Hooked {
        let jobs = if scenario == Delete {
            ["snapshot", "bye"]
        } else {
            ["before", "after"]
        };
        let once = variant::ran_once(lane, &release, jobs);
        once.with_context(|| format!("killed at {hit:?}"))?;
    }
    let now = variant::password(lane, &release).await?;
    let stays = drawn.is_none() || now.is_none() || drawn == now;
    ensure!(
        stays,
        "killed at {hit:?}: a random result that was live was regenerated"
    );
    lane.clear(&release).await?;
    Ok(killed)
}

/// Each position until there is none. A failure doesn't keep the others from being tried.
async fn enumerate(lane: &mut TortureLane, scenario: Scenario, fault: Fault, (first, step): Positions) -> Result<()> {
    let mut report = TortureReport::new(&format!("{}-{scenario:?}", lane.world.name).to_lowercase());
    for position in (first..=MANY).step_by(step) {
        let outcome = case(lane, scenario, fault, position).await;
        match report.case((scenario, fault, position), outcome) {
            Some(true) => {}
            Some(false) => {
                // Those on the many members of a long release don't count.
                let least = if lane.variant == ReleaseVariant::Long { 2 } else { 4 };
                ensure!(position > least, "only {} writes were seen", position - 1);
                return report.end(&format!("fewer than {position} writes, each {step}."));
            }
            None => {
                lane.faults.disarm();
                lane.start()?;
                report.go_on_below(8)?;
            }
        }
    }
    bail!("{scenario:?} never ends: more than {MANY} writes")
}

/// One lane goes through scenarios of a variant with the same cut.
async fn lane_of(scenarios: &[Scenario], variant: ReleaseVariant, fault: Fault, positions: Positions) -> Result<()> {
    let name = match variant {
        ReleaseVariant::Plain => format!("kill-{:?}-{fault:?}", scenarios[0]),
        variant => format!("kill-{variant:?}-{fault:?}"),
    };
    let mut lane = TortureLane::new(&name.to_lowercase(), variant, scenarios[0].watch_keys()).await?;
    let mut outcome = Ok(());
    for (place, scenario) in scenarios.iter().enumerate() {
        if place == 1 && variant == ReleaseVariant::Lossy {
            lane.settle_resident().await?;
        }
        let ended = enumerate(&mut lane, *scenario, fault, positions).await;
        outcome = outcome.and(ended);
    }
    outcome
}

/// Both cuts, side by side.
fn cut(scenarios: &[Scenario], variant: ReleaseVariant, [before, after]: [Positions; 2]) -> Result<()> {
    in_real_time(async {
        let (before, after) = tokio::join!(
            lane_of(scenarios, variant, Fault::KillBefore, before),
            lane_of(scenarios, variant, Fault::KillAfter, after)
        );
        before.and(after)
    })
}

fn both(scenario: Scenario) -> Result<()> {
    cut(&[scenario], ReleaseVariant::Plain, [EACH, EACH])
}

/// All of it with `make torture`, else each `step`-th write, another one for each cut.
fn sampled(scenarios: &[Scenario], variant: ReleaseVariant, step: usize) -> Result<()> {
    let positions = |first| if everything() { EACH } else { (first, step) };
    cut(scenarios, variant, [positions(2), positions(1 + step / 2)])
}

#[test]
fn the_next_operator_finishes_an_install_killed_at_any_write() -> Result<()> {
    both(Install)
}

#[test]
fn the_next_operator_finishes_an_upgrade_killed_at_any_write() -> Result<()> {
    both(Upgrade)
}

#[test]
fn the_next_operator_finishes_a_prune_killed_at_any_write() -> Result<()> {
    both(PruneKinds)
}

#[test]
fn the_next_operator_finishes_a_deletion_killed_at_any_write() -> Result<()> {
    both(Delete)
}

#[test]
fn a_deletion_after_a_killed_install_leaves_nothing() -> Result<()> {
    both(Abandoned)
}

#[test]
fn reverting_the_spec_after_a_killed_upgrade_prunes_its_additions() -> Result<()> {
    both(Reverted)
}

#[test]
fn a_plan_runs_once_after_a_kill_at_any_write() -> Result<()> {
    if everything() {
        both(Scenario::Plan)
    } else {
        sampled(&[Scenario::Plan], ReleaseVariant::Plain, 2)
    }
}

#[test]
fn the_next_operator_finishes_a_rollback_killed_at_any_write() -> Result<()> {
    if everything() {
        both(RollsBack)
    } else {
        sampled(&[RollsBack], ReleaseVariant::Plain, 3)
    }
}

#[test]
fn hooks_and_a_final_snapshot_run_once_after_a_kill_at_any_write() -> Result<()> {
    // With a migration before each upgrade.
    if everything() {
        sampled(&[Install, Upgrade, Delete], ReleaseVariant::Hooked, 1)
    } else {
        sampled(&[Upgrade, Delete], ReleaseVariant::Hooked, 8)
    }
}

#[test]
fn random_results_are_drawn_once_and_deleted_with_their_release_after_a_kill_at_any_write() -> Result<()> {
    if everything() {
        sampled(&[Install, Upgrade, Delete, Abandoned], ReleaseVariant::Random, 1)
    } else {
        sampled(&[Install, Abandoned], ReleaseVariant::Random, 4)
    }
}

#[test]
fn a_record_in_secrets_is_complete_after_a_kill() -> Result<()> {
    // The first without another release: each operator has to find out that the schema keeps no record.
    let scenarios = [Abandoned, Install, Upgrade, PruneKinds, Delete, Reverted];
    if everything() {
        sampled(&scenarios, ReleaseVariant::Lossy, 1)
    } else {
        sampled(&[Upgrade, Delete], ReleaseVariant::Lossy, 3)
    }
}

#[test]
fn a_record_that_moves_to_secrets_and_back_is_complete_after_a_kill() -> Result<()> {
    if everything() {
        sampled(&[Install, Upgrade, PruneKinds, Delete], ReleaseVariant::Long, 1)
    } else {
        Ok(())
    }
}

#[test]
fn a_takeover_that_is_killed_at_any_write_is_finished_or_deleted() -> Result<()> {
    if everything() {
        sampled(&[Takeover, TakeoverAbandoned], ReleaseVariant::Plain, 1)
    } else {
        sampled(&[Takeover], ReleaseVariant::Plain, 6)
    }
}

const LEADER: &str = "chartwright.dev/leader=true";

/// The pods that lead: never more than one.
fn leader(lane: &TortureLane) -> Result<Option<Value>> {
    let pods = tokio::task::block_in_place(|| lane.world.list("pods", LEADER))?;
    ensure!(pods.len() < 2, "two lead: {pods:?}");
    Ok(pods.into_iter().next())
}

/// There is another leader than this, and the status shows it.
fn is_led(lane: &TortureLane, release: &str, former: &str) -> Result<String> {
    let leader = leader(lane)?.context("no pod leads")?;
    let widget = tokio::task::block_in_place(|| lane.world.live(release))?;
    let (uid, elected) = (uid(&leader), &widget["status"]["elected"][0]);
    ensure!(uid != former && elected["uid"] == uid.as_str(), "{uid} {elected}");
    Ok(text(&leader["metadata"]["name"]).to_owned())
}

fn set_ready(lane: &TortureLane, pod: &str, ready: bool) -> Result<()> {
    let status = if ready { "True" } else { "False" };
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    tokio::task::block_in_place(|| lane.world.kubectl.patch_status("pod", pod, &patch))
}

/// The leader isn't ready any more; the operator is killed at the write `position` of what follows. False if there are fewer.
async fn moves(lane: &mut TortureLane, release: &str, fault: Fault, position: usize) -> Result<bool> {
    let name = lane.until("one leads", async || is_led(lane, release, "")).await?;
    let former = uid(&leader(lane)?.context("no pod leads")?);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let counts = |call: &ApiCall| call.is_write() && !call.is_of("events");
    lane.faults.arm(FaultPlan::new(fault, position, 1, counts));
    set_ready(lane, &name, false)?;
    let killed = tokio::select! {
        () = lane.faults.killed.notified() => true,
        led = lane.until("another leads", async || is_led(lane, release, &former)) => {
            led?;
            // The last write may have been the one.
            tokio::time::timeout(Duration::from_millis(400), lane.faults.killed.notified()).await.is_ok()
        }
    };
    if killed {
        lane.stop()?;
        leader(lane)?;
    }
    lane.faults.disarm();
    if killed {
        lane.start()?;
    }
    lane.until("another leads", async || is_led(lane, release, &former))
        .await?;
    set_ready(lane, &name, true)?;
    Ok(killed)
}

#[test]
fn a_workload_has_one_leader_after_a_kill_at_any_write() -> Result<()> {
    let lane_of = async |fault: Fault| {
        let name = format!("kill-elect-{fault:?}").to_lowercase();
        let elect = "elect: [{kind: Deployment, name: '{{ .metadata.name }}'}]";
        let mut lane = TortureLane::new(&name, ReleaseVariant::Plain, &[elect]).await?;
        tokio::task::block_in_place(|| {
            let rules = lane.world.project_rules("rbac/elect_role.yaml")?;
            lane.world.grant("elect", &rules)
        })?;
        lane.put("a", &json!({"deployment": {"enabled": true, "replicas": 3}}))
            .await?;
        let mut position = 1;
        while moves(&mut lane, "a", fault, position).await? {
            position += 1;
        }
        // The Lease, both pods, the status.
        ensure!(position > 4, "only {} writes were seen", position - 1);
        Ok(())
    };
    in_real_time(async {
        let (before, after) = tokio::join!(lane_of(Fault::KillBefore), lane_of(Fault::KillAfter));
        before.and(after)
    })
}
