//! The API server of one group is down: discovery is partial, and what it hides is neither pruned nor forgotten.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::lane::{HEALED, Lane, in_real_time};
use crate::release::live;
use crate::report::Report;
use crate::scenario::Scenario;

/// The group of PriorityClass, of which the release has one.
const GROUP: &str = "scheduling.k8s.io";

async fn partial() -> Result<()> {
    let mut report = Report::new("discovery");
    let mut lane = Lane::new("discovery").await?;
    for scenario in [Scenario::PruneKinds, Scenario::Delete] {
        let release = format!("{scenario:?}").to_lowercase();
        scenario.prepare(&mut lane, &release).await?;
        lane.stop()?;
        lane.faults.set_missing_group(Some(GROUP));
        let before = live(&lane, &release).await?;
        scenario.act(&mut lane, &release).await?;
        lane.start()?;
        lane.until("it says what it doesn't know", HEALED, async || {
            let widget = lane.widget(&release).await?.context("the custom resource is gone")?;
            let told = widget["status"]["conditions"].to_string();
            ensure!(told.contains(GROUP), "{told}");
            Ok(())
        })
        .await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let found = live(&lane, &release).await?;
        ensure!(
            found.keys().eq(before.keys()),
            "deleted on partial knowledge: {:?} are left",
            found.keys()
        );
        // Nothing tells the operator: it has to look by itself.
        lane.faults.set_missing_group(None);
        lane.until("it ends what it began", HEALED, async || {
            scenario.is_done(&lane, &release, false).await
        })
        .await?;
        report.case();
    }
    report.end("");
    Ok(())
}

#[test]
fn a_group_that_does_not_answer_is_waited_for() -> Result<()> {
    in_real_time(partial())
}
