//! What the operator is busy with while something goes wrong.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::real_server::process::TortureLane;
use crate::real_server::release::{
    MemberId, has_run_once, holds, is_gone, is_rolled_back, live, only_what_changed_was_written, spec, versions,
};
use crate::real_server::variant;
use crate::world::helm_releases;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scenario {
    Install,
    /// One member changes, one comes, one goes, two stay.
    Upgrade,
    /// The only members of two kinds go, one of them cluster-scoped.
    PruneKinds,
    Delete,
    /// A user edits one member and deletes another.
    Drift,
    /// An installation whose custom resource is deleted while no operator runs.
    Abandoned,
    /// An upgrade that is reverted while no operator runs.
    Reverted,
    /// An upgrade of which an object is refused, after others were applied: it goes back.
    RollsBack,
    /// A user requests a plan.
    Plan,
    /// A release that helm-operator made, of which the chart now renders less.
    Takeover,
    /// The same; its custom resource is deleted while no operator runs.
    TakeoverAbandoned,
}

/// UIDs and versions of a release before something goes wrong.
pub type Before = BTreeMap<MemberId, (String, String)>;

fn first() -> Value {
    spec("blue", &["one", "two"], true)
}

use Scenario::*;

impl Scenario {
    /// The spec at the end; the one at the beginning for a deletion.
    pub fn spec(self) -> Value {
        let mut spec = first();
        match self {
            Install | Delete | Drift | Abandoned => {}
            Upgrade | Reverted => {
                spec["color"] = "red".into();
                spec["extra"] = json!(["two", "three"]);
            }
            Plan => spec["plan"] = true.into(),
            RollsBack => {
                spec["color"] = "red".into();
                spec["extra"] = json!(["two", "three"]);
                spec["deployment"] = json!({"enabled": true, "replicas": -1});
            }
            PruneKinds => {
                spec["secret"]["enabled"] = false.into();
                spec["priorityClass"]["enabled"] = false.into();
            }
            // Without the Deployment and one ConfigMap of the fixture.
            Takeover | TakeoverAbandoned => {
                spec = json!({
                    "color": "green", "extra": ["one"], "kept": true, "priorityClass": {"enabled": true},
                    "secret": {"enabled": true, "password": "hunter2"}, "deployment": {"enabled": false},
                });
            }
        }
        spec
    }

    /// What its watch says besides.
    pub fn watch_keys(self) -> &'static [&'static str] {
        match self {
            RollsBack => &["onFailure: rollback"],
            _ => &[],
        }
    }

    pub fn is_takeover(self) -> bool {
        matches!(self, Takeover | TakeoverAbandoned)
    }

    /// Brings a release to where the scenario begins.
    pub async fn prepare(self, lane: &mut TortureLane, release: &str) -> Result<Before> {
        Ok(match self {
            Install | Abandoned => BTreeMap::new(),
            Takeover | TakeoverAbandoned => {
                // Our operator comes when helm-operator is gone.
                lane.stop()?;
                tokio::task::block_in_place(|| {
                    helm_releases::restore_as(&lane.world, "operator-sdk-widget", "plain", release, |widget| {
                        widget["spec"] = self.spec();
                    })
                })?;
                versions(&live(lane, release).await?)
            }
            _ => {
                let spec = if self == Plan { self.spec() } else { first() };
                lane.put(release, &spec).await?;
                lane.await_release(release, &spec).await?;
                versions(&live(lane, release).await?)
            }
        })
    }

    /// What starts the operator's work.
    pub async fn act(self, lane: &mut TortureLane, release: &str) -> Result<()> {
        match self {
            Install | Upgrade | PruneKinds | Abandoned | Reverted | RollsBack => lane.put(release, &self.spec()).await,
            Takeover | TakeoverAbandoned => lane.start(),
            Delete => lane.delete(release).await,
            Plan => {
                let request = json!({"metadata": {"annotations": {"chartwright.dev/run-plan": "work@1"}}});
                let request = kube::api::Patch::Merge(request);
                lane.widgets().patch(release, &Default::default(), &request).await?;
                Ok(())
            }
            Drift => {
                let maps = lane.maps();
                let edit = kube::api::Patch::Merge(json!({"data": {"color": "pink"}}));
                let main = format!("{release}-main");
                maps.patch(&main, &Default::default(), &edit).await?;
                maps.delete(&format!("{release}-one"), &Default::default()).await?;
                Ok(())
            }
        }
    }

    /// What happens between a kill and the next start.
    pub async fn interrupt(self, lane: &TortureLane, release: &str) -> Result<()> {
        match self {
            Abandoned | TakeoverAbandoned => lane.delete(release).await,
            Reverted => lane.put(release, &first()).await,
            _ => Ok(()),
        }
    }

    /// It is as it must be in the end; `interrupted` if [`Scenario::interrupt`] happened.
    pub async fn is_done(self, lane: &TortureLane, release: &str, interrupted: bool) -> Result<()> {
        match self {
            Delete => is_gone(lane, release).await,
            Abandoned | TakeoverAbandoned if interrupted => is_gone(lane, release).await,
            Takeover | TakeoverAbandoned => {
                variant::is_taken_over(lane, release).await?;
                holds(lane, release, &self.spec()).await.map(drop)
            }
            Plan => has_run_once(lane, release, &self.spec()).await,
            RollsBack => is_rolled_back(lane, release, &first()).await.map(drop),
            Reverted if interrupted => holds(lane, release, &first()).await.map(drop),
            _ => holds(lane, release, &self.spec()).await.map(drop),
        }
    }

    /// What must be true of the way there.
    pub async fn was_careful(self, lane: &TortureLane, release: &str, before: &Before) -> Result<()> {
        let after = versions(&live(lane, release).await?);
        match self {
            Install | Delete | Abandoned => Ok(()),
            Takeover | TakeoverAbandoned => {
                for (id, (uid, _)) in &after {
                    let was = before.get(id).map(|(uid, _)| uid);
                    ensure!(was == Some(uid), "{id:?} was recreated");
                }
                Ok(())
            }
            // A member may have changed and changed back; members that a user edited or deleted are written again.
            Reverted | RollsBack | Drift => {
                let mut before = before.clone();
                before.retain(|id, _| !id.1.ends_with("-main") && !id.1.ends_with("-one"));
                only_what_changed_was_written(lane, release, &before, &after, (&first(), &first()))
            }
            Plan => only_what_changed_was_written(lane, release, before, &after, (&self.spec(), &self.spec())),
            _ => only_what_changed_was_written(lane, release, before, &after, (&first(), &self.spec())),
        }
    }
}
