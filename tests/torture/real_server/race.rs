//! Another client puts its own object in a member's place after the operator has looked, and before its apply arrives at
//! a real API server (P9). That the two have no field in common makes it worth the trouble: nothing is in conflict.

use anyhow::{Context, Result, ensure};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::real_server::process::{TortureLane, in_real_time};
use crate::real_server::variant::ReleaseVariant;
use crate::world::fields::{OPERATOR, PART_OF, TRACKING, ensure_contains, inventory, is_marked, text};

/// Whose object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theirs {
    /// The object of an unrelated client.
    Foreign,
    /// Another release's of the same operator: even the field manager is the same.
    OtherRelease,
}

impl Theirs {
    /// The manager that applies it, and what a refusal says of it.
    fn facts(self) -> (&'static str, &'static str) {
        match self {
            Theirs::Foreign => ("other", "exists already"),
            Theirs::OtherRelease => ("chartwright", "another release"),
        }
    }

    fn object(self, lane: &TortureLane, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"of": "another owner"},
        });
        if self == Theirs::OtherRelease {
            object["metadata"]["labels"] = json!({(PART_OF): "applyset-of-another-v1", (OPERATOR): lane.world.name});
            let tracking = format!("another-uid:ConfigMap:{}/{name}", lane.world.name);
            object["metadata"]["annotations"] = json!({(TRACKING): tracking});
        }
        object
    }
}

/// A spec is written whose apply of a member is held up for two seconds, and before it arrives another client creates an object
/// in the member's place, as `kubectl apply --server-side` or another release makes it.
async fn overtake(
    lane: &TortureLane,
    release: &str,
    spec: &Value,
    member: &str,
    theirs: Theirs,
) -> Result<DynamicObject> {
    let maps = lane.maps();
    let name = member.to_owned();
    let is_it = move |call: &ApiCall| call.verb() == "patch" && call.target().is_some_and(|target| target.name == name);
    lane.faults.arm(FaultPlan::new(Fault::Tardy, 1, 1, is_it));
    lane.put(release, spec).await?;
    lane.await_hit().await?;
    if maps.get_opt(member).await?.is_some() {
        maps.delete(member, &Default::default()).await?;
    }
    let (parameters, patch) = (PatchParams::apply(theirs.facts().0), theirs.object(lane, member));
    Ok(maps.patch(member, &parameters, &Patch::Apply(&patch)).await?)
}

async fn is_as_made(lane: &TortureLane, made: &DynamicObject) -> Result<()> {
    let name = made.metadata.name.clone().unwrap_or_default();
    let found = lane.maps().get_opt(&name).await?.context("it was deleted")?;
    let (is, was) = (&found.metadata, &made.metadata);
    ensure!(is.resource_version == was.resource_version, "it was written: {found:?}");
    Ok(())
}

/// The release immediately reports the owner of the conflicting object, which stays unchanged.
async fn is_refused(
    lane: &TortureLane,
    release: &str,
    member: &str,
    theirs: Theirs,
    made: &DynamicObject,
) -> Result<()> {
    let stalled = lane.await_reason(release, "Stalled", "Collision").await?;
    ensure_contains(text(&stalled["message"]), &[member, theirs.facts().1])?;
    is_as_made(lane, made).await?;
    // Events follow the status.
    let reported = lane.until("an Event reports it", async || {
        let events = lane.world.events(release)?;
        let has = |reason: &str| events.iter().any(|(found, _)| found == reason);
        ensure!(has("Collision") && !has("ApplyFailed"), "{events:?}");
        Ok(())
    });
    reported.await
}

/// A member that comes, and one that changes; what was refused is no member, and stays when it is no longer rendered.
async fn taken(lane: &TortureLane, theirs: Theirs) -> Result<()> {
    let release = &format!("{theirs:?}").to_lowercase();
    let [main, two] = ["main", "two"].map(|member| format!("{release}-{member}"));
    let spec = |color: &str, extra: &[&str]| json!({"color": color, "extra": extra});
    let made = overtake(lane, release, &spec("blue", &["one", "two"]), &two, theirs).await?;
    is_refused(lane, release, &two, theirs, &made).await?;
    let listed = inventory(&lane.widget(release).await?.context("gone")?);
    ensure!(listed.len() == 2, "{listed:?}");
    ensure!(!listed.contains(&format!("ConfigMap {two}")), "{listed:?}");
    lane.put(release, &spec("blue", &["one"])).await?;
    lane.await_ready(release).await?;
    is_as_made(lane, &made).await?;

    let red = spec("red", &["one"]);
    let made = overtake(lane, release, &red, &main, theirs).await?;
    is_refused(lane, release, &main, theirs, &made).await?;
    for name in [&main, &two] {
        lane.maps().delete(name, &Default::default()).await?;
    }
    lane.await_release(release, &red).await?;
    lane.clear(release).await
}

/// A member that only needs to exist exists, and belongs to another owner.
async fn yields(lane: &TortureLane) -> Result<()> {
    let once = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"ours": "1"},
        "metadata": {"name": "yields-once", "annotations": {"chartwright.dev/update": "IfNotPresent"}},
    });
    let spec = json!({"extraDeploy": [once]});
    let made = overtake(lane, "yields", &spec, "yields-once", Theirs::Foreign).await?;
    let widget = lane.await_ready("yields").await?;
    ensure!(inventory(&widget) == ["ConfigMap yields-main"], "{}", widget["status"]);
    lane.clear("yields").await?;
    is_as_made(lane, &made).await
}

/// A release that may adopt objects adopts one that appeared in between, too.
async fn forces(lane: &TortureLane) -> Result<()> {
    let spec = json!({"extra": ["two"]});
    let made = overtake(lane, "forces", &spec, "forces-two", Theirs::Foreign).await?;
    lane.await_ready("forces").await?;
    let taken = lane.maps().get("forces-two").await?;
    ensure!(taken.metadata.uid == made.metadata.uid, "it was recreated");
    ensure!(is_marked(&serde_json::to_value(&taken)?), "{taken:?}");
    ensure!(taken.data["data"]["extra"] == "two", "{taken:?}");
    lane.clear("forces").await
}

#[test]
fn an_object_created_during_an_apply_is_not_adopted() -> Result<()> {
    in_real_time(async {
        let lane = TortureLane::new("race", ReleaseVariant::Plain, &[]).await?;
        for theirs in [Theirs::Foreign, Theirs::OtherRelease] {
            taken(&lane, theirs).await.with_context(|| format!("{theirs:?}"))?;
        }
        yields(&lane).await.context("IfNotPresent")?;
        let lane = TortureLane::new("race-force", ReleaseVariant::Plain, &["collisions: Force"]).await?;
        forces(&lane).await.context("collisions: Force")
    })
}
