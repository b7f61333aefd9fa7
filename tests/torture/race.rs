//! Somebody puts an object of his own in a member's place after the operator has looked, and before its apply arrives at
//! a real API server (P9). That the two have no field in common makes it worth the trouble: nothing is in conflict.

use anyhow::{Context, Result, ensure};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::fault::{Fault, Plan};
use crate::flavour::Flavour;
use crate::lane::{HEALED, Lane, in_real_time};
use crate::look::{OPERATOR, PART_OF, TRACKING, condition, inventory, is_marked};
use crate::release::holds;
use crate::report::Report;

/// Whose object it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theirs {
    /// Somebody's who knows nothing of us.
    Foreign,
    /// Another release's of the same operator: even the field manager is the same.
    OtherRelease,
}

impl Theirs {
    fn object(self, lane: &Lane, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"of": "somebody else"},
        });
        if self == Theirs::OtherRelease {
            object["metadata"]["labels"] = json!({(PART_OF): "applyset-of-another-v1", (OPERATOR): lane.world.name});
            let tracking = format!("another-uid:ConfigMap:{}/{name}", lane.world.name);
            object["metadata"]["annotations"] = json!({(TRACKING): tracking});
        }
        object
    }

    /// As `kubectl apply --server-side`, or another release, makes it.
    async fn put(self, lane: &Lane, name: &str) -> Result<DynamicObject> {
        let manager = match self {
            Theirs::Foreign => "somebody",
            Theirs::OtherRelease => "chartwright",
        };
        let object = self.object(lane, name);
        let maps = lane.of_kind("ConfigMap");
        let (parameters, patch) = (PatchParams::apply(manager), Patch::Apply(&object));
        Ok(maps.patch(name, &parameters, &patch).await?)
    }

    fn refusal(self) -> &'static str {
        match self {
            Theirs::Foreign => "exists already",
            Theirs::OtherRelease => "another release",
        }
    }
}

/// The next apply of a member is held up for two seconds.
fn hold_up(lane: &Lane, member: &str) {
    let member = member.to_owned();
    let is_it = move |name: &str| name == member;
    lane.faults.arm(Plan {
        fault: Fault::Tardy,
        position: 1,
        times: 1,
        counts: Box::new(move |call| call.verb() == "patch" && call.target().is_some_and(|target| is_it(&target.name))),
    });
}

async fn is_held_up(lane: &Lane) -> Result<()> {
    lane.until("the apply is on its way", HEALED, async || {
        ensure!(lane.faults.has_hit(), "it is not");
        Ok(())
    })
    .await
}

async fn version(lane: &Lane, name: &str) -> Result<Option<String>> {
    let found = lane.of_kind("ConfigMap").get_opt(name).await?;
    Ok(found.and_then(|object| object.metadata.resource_version))
}

async fn is_ready(lane: &Lane, release: &str) -> Result<Value> {
    let widget = lane.widget(release).await?.context("gone")?;
    let ready = condition(&widget, "Ready").context("it says nothing")?;
    ensure!(ready["status"] == "True");
    ensure!(ready["observedGeneration"] == widget["metadata"]["generation"]);
    Ok(widget)
}

/// The release says whose object is in its way, at once, and that object is as it was made.
async fn is_refused(lane: &Lane, release: &str, member: &str, theirs: Theirs, made: &DynamicObject) -> Result<()> {
    lane.until("the collision is told", HEALED, async || {
        let widget = lane.widget(release).await?.context("gone")?;
        let stalled = condition(&widget, "Stalled").with_context(|| widget["status"].to_string())?;
        let message = stalled["message"].as_str().unwrap_or_default();
        ensure!(
            stalled["reason"] == "Collision" && message.contains(member) && message.contains(theirs.refusal()),
            "{stalled}"
        );
        Ok(())
    })
    .await?;
    ensure!(
        version(lane, member).await? == made.metadata.resource_version,
        "{theirs:?}: the object was written"
    );
    let reasons: Vec<String> = lane
        .world
        .events(release)?
        .into_iter()
        .map(|(reason, _)| reason)
        .collect();
    ensure!(
        reasons.iter().any(|reason| reason == "Collision") && reasons.iter().all(|reason| reason != "ApplyFailed"),
        "{reasons:?}"
    );
    Ok(())
}

/// A member that comes, and one that changes; what was refused is no member, and stays when it is no longer rendered.
async fn taken(lane: &Lane, theirs: Theirs) -> Result<()> {
    let release = format!("{theirs:?}").to_lowercase();
    let [main, two] = ["main", "two"].map(|member| format!("{release}-{member}"));
    let spec = |color: &str, extra: &[&str]| json!({"color": color, "extra": extra});
    hold_up(lane, &two);
    lane.put(&release, &spec("blue", &["one", "two"])).await?;
    is_held_up(lane).await?;
    let made = theirs.put(lane, &two).await?;
    is_refused(lane, &release, &two, theirs, &made).await?;
    let widget = lane.widget(&release).await?.context("gone")?;
    let listed = inventory(&widget);
    ensure!(
        listed.len() == 2 && !listed.contains(&format!("ConfigMap {two}")),
        "{listed:?}"
    );
    lane.put(&release, &spec("blue", &["one"])).await?;
    lane.until("it does without", HEALED, async || {
        is_ready(lane, &release).await.map(drop)
    })
    .await?;
    ensure!(
        version(lane, &two).await? == made.metadata.resource_version,
        "it was pruned"
    );

    let maps = lane.of_kind("ConfigMap");
    hold_up(lane, &main);
    lane.put(&release, &spec("red", &["one"])).await?;
    is_held_up(lane).await?;
    maps.delete(&main, &Default::default()).await?;
    let made = theirs.put(lane, &main).await?;
    is_refused(lane, &release, &main, theirs, &made).await?;
    for name in [&main, &two] {
        maps.delete(name, &Default::default()).await?;
    }
    lane.until("what was in its way is gone", HEALED, async || {
        holds(lane, &release, &spec("red", &["one"])).await
    })
    .await?;
    lane.clear(&release).await
}

/// A member that is only to be there is there, and somebody else's.
async fn yields(lane: &Lane) -> Result<()> {
    let once = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"ours": "1"},
        "metadata": {"name": "yields-once", "annotations": {"chartwright.dev/update": "IfNotPresent"}},
    });
    hold_up(lane, "yields-once");
    lane.put("yields", &json!({"extraDeploy": [once]})).await?;
    is_held_up(lane).await?;
    let made = Theirs::Foreign.put(lane, "yields-once").await?;
    lane.until("it is content", HEALED, async || {
        let widget = is_ready(lane, "yields").await?;
        ensure!(inventory(&widget) == ["ConfigMap yields-main"]);
        Ok(())
    })
    .await?;
    lane.clear("yields").await?;
    ensure!(
        version(lane, "yields-once").await? == made.metadata.resource_version,
        "it was taken"
    );
    Ok(())
}

/// A release that may take what is there takes what came meanwhile, too.
async fn forces(lane: &Lane) -> Result<()> {
    let spec = json!({"extra": ["two"]});
    hold_up(lane, "forces-two");
    lane.put("forces", &spec).await?;
    is_held_up(lane).await?;
    let made = Theirs::Foreign.put(lane, "forces-two").await?;
    lane.until("it is taken", HEALED, async || is_ready(lane, "forces").await.map(drop))
        .await?;
    let taken = lane.of_kind("ConfigMap").get("forces-two").await?;
    ensure!(taken.metadata.uid == made.metadata.uid, "it was made anew");
    ensure!(
        is_marked(&serde_json::to_value(&taken)?) && taken.data["data"]["extra"] == "two",
        "{taken:?}"
    );
    lane.clear("forces").await
}

async fn all() -> Result<()> {
    let mut report = Report::new("race");
    let lane = Lane::new("race").await?;
    for theirs in [Theirs::Foreign, Theirs::OtherRelease] {
        taken(&lane, theirs).await.with_context(|| format!("{theirs:?}"))?;
        report.case();
    }
    yields(&lane).await.context("IfNotPresent")?;
    report.case();
    let lane = Lane::with("race-force", Flavour::Plain, &["collisions: Force"]).await?;
    forces(&lane).await.context("collisions: Force")?;
    report.case();
    report.end("");
    Ok(())
}

#[test]
fn who_is_faster_than_an_apply_keeps_his_object() -> Result<()> {
    in_real_time(all())
}
