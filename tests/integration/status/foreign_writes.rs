//! A status that another client changed is corrected, and a lost one repeats no request.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::support::{eventually, until};
use crate::world::fields::{condition, is_ready, text};
use crate::world::{SOON, World};

fn hacked(word: &str) -> serde_json::Value {
    json!({"status": {"conditions": [{
        "type": "Ready", "status": "False", "reason": "Hacked", "message": word,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    }]}})
}

#[test]
fn a_status_that_another_client_changes_is_corrected() -> Result<()> {
    let world = World::new("status-foreign")?;
    let operator = world.start()?;
    world.install("a", json!({}))?;
    world.await_quiet(&operator)?;
    for patch in [
        hacked("once"),
        json!({"status": null}),
        json!({"status": {"inventory": [], "release": null}}),
    ] {
        world.patch_status("a", &patch)?;
        eventually("the status is corrected", SOON, || {
            let widget = world.live("a")?;
            ensure!(is_ready(&widget), "{patch}: {}", widget["status"]);
            ensure!(
                widget["status"]["release"]["revision"] == 1,
                "{patch}: {}",
                widget["status"]
            );
            Ok(Some(()))
        })?;
    }
    // What other clients add stays.
    world.patch_status("a", &json!({"status": {"theirs": "x"}}))?;
    world.await_quiet(&operator)?;
    ensure!(world.live("a")?["status"]["theirs"] == "x");
    // A client that does it each time is not fought.
    let start = world.mark()?;
    for count in 0..30 {
        world.patch_status("a", &hacked(&count.to_string()))?;
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let writes = world
        .requests(&operator, start)?
        .resource("widgets")
        .verb("patch")
        .len();
    ensure!((2..=12).contains(&writes), "{writes} writes");
    world.await_event("a", "DriftContested", &["another client changes the status"])?;
    let drifted = condition(&world.await_ready("a")?, "Drifted");
    ensure!(text(&drifted["message"]).contains("the status"), "{drifted}");
    Ok(())
}

#[test]
fn a_lost_status_repeats_no_plan() -> Result<()> {
    let world = World::staged("status-lost-plan", &[], &[])?;
    let operator = world.start_and_settle()?;
    let hooks = json!([{"name": "wipe", "at": "plan-wipe"}]);
    world.install("a", json!({"hooks": hooks}))?;
    world.annotate("a", json!({"chartwright.dev/run-plan": "wipe@1"}))?;
    let ran = |count: usize| {
        until("the plan has run", SOON, || {
            let widget = world.live("a")?;
            Ok(widget["status"]["plans"][0]["phase"] == "Succeeded" && widget["status"]["plans"][0]["count"] == count)
        })
    };
    ran(1)?;
    world.await_quiet(&operator)?;
    // A backup of the custom resource, without its status and UID.
    let backup = world.live("a")?;
    operator.kill()?;
    world.patch_status("a", &json!({"status": null}))?;
    let start = world.mark()?;
    let operator = world.start_and_settle()?;
    world.await_ready("a")?;
    world.await_quiet(&operator)?;
    let jobs = |operator| {
        world
            .all_requests(operator, start)
            .map(|all| all.resource("jobs").verb("patch").len())
    };
    ensure!(jobs(&operator)? == 0, "the plan ran again");
    world.delete("a")?;
    world.await_gone("job", "a-wipe")?;
    let mut restored = world.widget("a", backup["spec"].clone());
    restored["metadata"]["annotations"] = json!({"chartwright.dev/run-plan": "wipe@1"});
    world.apply(&restored)?;
    world.await_ready("a")?;
    world.await_event("a", "PlanRefused", &["wipe@1", "backup"])?;
    world.absent("job", ["a-wipe"])?;
    // A new request runs.
    world.annotate("a", json!({"chartwright.dev/run-plan": "wipe@2"}))?;
    ran(1)
}
