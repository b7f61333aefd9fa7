//! SIGKILL between every two writes: enumerated, not sampled. The operator dies at its n-th write about a release, either
//! before the API server hears of it or before the operator hears the answer; the next one has to finish the work.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::fault::{Fault, Plan};
use crate::lane::{HEALED, Lane};
use crate::release::status_is_no_lie;
use crate::report::Report;
use crate::scenario::Scenario;

/// More writes than any scenario has.
const MANY: usize = 40;

/// Kills at the write `position`. False if there are fewer.
async fn case(lane: &mut Lane, scenario: Scenario, fault: Fault, position: usize) -> Result<bool> {
    let release = format!("r{position}");
    let before = scenario.prepare(lane, &release).await?;
    // What follows the last status write, such as an event of the preparation, is no write of this scenario.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let plan = Plan {
        fault,
        position,
        times: 1,
        counts: Box::new(|call| call.is_write()),
    };
    lane.faults.arm(lane.about(&release, plan));
    scenario.act(lane, &release).await?;
    let done = lane.until("it is done", HEALED, async || {
        scenario.is_done(lane, &release, false).await
    });
    let killed = tokio::select! {
        () = lane.faults.killed.notified() => true,
        done = done => {
            done?;
            // An event may follow the last change of an object.
            tokio::time::timeout(Duration::from_millis(400), lane.faults.killed.notified()).await.is_ok()
        }
    };
    if killed {
        lane.stop()?;
        if scenario != Scenario::Delete {
            status_is_no_lie(lane, &release, &scenario.spec()).await?;
        }
        scenario.meanwhile(lane, &release).await?;
    }
    let hit = lane.faults.heal();
    if killed {
        lane.start()?;
    }
    lane.until("it converges", HEALED, async || {
        scenario.is_done(lane, &release, killed).await
    })
    .await
    .with_context(|| format!("killed at {hit:?}"))?;
    scenario
        .was_careful(lane, &release, &before)
        .await
        .with_context(|| format!("killed at {hit:?}"))?;
    Ok(killed)
}

async fn enumerate(scenario: Scenario, fault: Fault) -> Result<()> {
    let name = format!("kill-{scenario:?}-{fault:?}").to_lowercase();
    let mut report = Report::new(&name);
    let mut lane = Lane::new(&name).await?;
    for position in 1..=MANY {
        let killed = case(&mut lane, scenario, fault, position)
            .await
            .with_context(|| format!("{scenario:?}, {fault:?} of write {position}"))?;
        report.case();
        if !killed {
            ensure!(position > 4, "only {} writes were seen", position - 1);
            report.end(&format!("{} writes", position - 1));
            return Ok(());
        }
    }
    anyhow::bail!("{scenario:?} never ends: more than {MANY} writes")
}

/// Both cuts of a scenario, side by side.
fn both(scenario: Scenario) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let (before, after) = tokio::join!(
            enumerate(scenario, Fault::KillBefore),
            enumerate(scenario, Fault::KillAfter)
        );
        before.and(after)
    });
    runtime.shutdown_background();
    result
}

#[test]
fn a_kill_at_any_write_of_an_install_is_made_good() -> Result<()> {
    both(Scenario::Install)
}

#[test]
fn a_kill_at_any_write_of_an_upgrade_is_made_good() -> Result<()> {
    both(Scenario::Upgrade)
}

#[test]
fn a_kill_at_any_write_of_a_prune_is_made_good() -> Result<()> {
    both(Scenario::PruneKinds)
}

#[test]
fn a_kill_at_any_write_of_a_deletion_is_made_good() -> Result<()> {
    both(Scenario::Delete)
}

#[test]
fn what_a_killed_install_left_goes_with_a_custom_resource_that_is_deleted_meanwhile() -> Result<()> {
    both(Scenario::Abandoned)
}

#[test]
fn what_a_killed_upgrade_added_goes_when_it_is_taken_back_meanwhile() -> Result<()> {
    both(Scenario::Reverted)
}
