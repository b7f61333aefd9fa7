//! Releases with more state than their members: hooks in the status, random results, a record in Secrets.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::faults::fault::LoggedCall;
use crate::histories::history::add_template;
use crate::real_server::process::TortureLane;
use crate::real_server::release::{MemberId, claims_ready, row_id};
use crate::world::fields::annotation;
use crate::world::{World, any_fields};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReleaseVariant {
    #[default]
    Plain,
    /// With a hook that the status lists, with Jobs before and after each operation, and a snapshot before the end.
    Hooked,
    /// With a random password, which a Secret keeps.
    Random,
    /// The schema of the status drops the record, which goes to a Secret.
    Lossy,
    /// More members than a status lists, but for [`crate::real_server::scenario::Scenario::PruneKinds`].
    Long,
}

/// The operator's finalizer.
pub const OURS: &str = "chartwright.dev/release";

/// With these, the usual release has two members more than a status lists.
const FILLERS: usize = 297;

impl ReleaseVariant {
    /// Makes a world one for such releases, before its operator starts.
    pub fn set_up(self, world: &World) -> Result<()> {
        match self {
            ReleaseVariant::Random => add_template(&world.chart(), "random.yaml")?,
            ReleaseVariant::Hooked => {
                add_template(&world.chart(), "hooks.yaml")?;
                add_template(&world.chart(), "snapshot.yaml")?;
            }
            ReleaseVariant::Lossy => {
                let any = any_fields();
                let status = json!({"type": "object", "properties": {
                    "conditions": {"type": "array", "items": any}, "observedGeneration": {"type": "integer"},
                }});
                world.install_crd_with("Widget", Some(status))?;
            }
            ReleaseVariant::Plain | ReleaseVariant::Long => {}
        }
        Ok(())
    }

    /// A spec with what such a release has besides.
    pub fn with_variant(self, spec: &Value) -> Value {
        let mut spec = spec.clone();
        match self {
            ReleaseVariant::Plain | ReleaseVariant::Lossy => {}
            ReleaseVariant::Hooked => {
                spec["hook"] = true.into();
                spec["hooks"] = "ends".into();
                spec["snapshot"] = true.into();
            }
            ReleaseVariant::Random => spec["random"] = true.into(),
            ReleaseVariant::Long => {
                let mut extra = spec["extra"].as_array().cloned().unwrap_or_default();
                extra.extend((0..FILLERS).map(|number| Value::from(format!("f{number:03}"))));
                spec["extra"] = extra.into();
            }
        }
        spec
    }
}

/// The Secrets in which the operator stores data of a release, even after its custom resource is gone.
pub async fn record_secrets(lane: &TortureLane, release: &str) -> Result<Vec<Value>> {
    let about = format!("Widget.{} {}/{release}", lane.world.group(), lane.world.name);
    let secrets = lane.of_kind("Secret").list(&ListParams::default()).await?;
    let mut found = Vec::new();
    for secret in secrets {
        let annotations = secret.metadata.annotations.as_ref();
        if annotations.and_then(|all| all.get("chartwright.dev/release")) == Some(&about) {
            found.push(serde_json::to_value(secret)?);
        }
    }
    Ok(found)
}

fn of_type<'s>(secrets: &'s [Value], kind: &str) -> Vec<&'s Value> {
    let kind = format!("chartwright.dev/{kind}");
    let found = secrets.iter().filter(|secret| secret["type"] == kind.as_str());
    found.collect()
}

/// A file of a Secret; unpacked if its name says that it is packed.
fn file(secret: &Value, name: &str) -> Result<String> {
    let text = secret["data"][name].as_str().with_context(|| format!("no {name}"))?;
    let bytes = BASE64.decode(text.as_bytes())?;
    if name.ends_with(".gz") {
        Ok(std::io::read_to_string(flate2::read::GzDecoder::new(bytes.as_slice()))?)
    } else {
        Ok(String::from_utf8(bytes)?)
    }
}

/// The rows of the inventory: those of the status, or of the record in the Secret where the status can't have it.
pub async fn rows(lane: &TortureLane, release: &str, widget: &Value, members: usize) -> Result<Vec<Value>> {
    if !lies_in_secrets(lane, members) {
        return Ok(widget["status"]["inventory"].as_array().cloned().unwrap_or_default());
    }
    let secrets = record_secrets(lane, release).await?;
    let records = of_type(&secrets, "record");
    let [secret] = records.as_slice() else {
        anyhow::bail!("there are {} records", records.len());
    };
    let record: Value = serde_json::from_str(&file(secret, "record.json.gz")?)?;
    Ok(record["record"]["entries"].as_array().cloned().unwrap_or_default())
}

fn lies_in_secrets(lane: &TortureLane, members: usize) -> bool {
    lane.variant == ReleaseVariant::Lossy || members > 300
}

/// What such a release has besides members is as it must be.
pub async fn holds(lane: &TortureLane, release: &str, widget: &Value, members: usize) -> Result<()> {
    let secrets = record_secrets(lane, release).await?;
    let has_record = !of_type(&secrets, "record").is_empty();
    let may_have = lies_in_secrets(lane, members);
    ensure!(may_have || !has_record, "the record of the status lies in Secrets, too");
    match lane.variant {
        ReleaseVariant::Plain | ReleaseVariant::Lossy | ReleaseVariant::Long => {}
        ReleaseVariant::Hooked => {
            let hooks = &widget["status"]["hooks"];
            ensure!(hooks["operation"]["phase"] == "Done", "the hooks are {hooks}");
            for hook in ["hook", "before", "after"] {
                let name = format!("{release}-{hook}");
                let mut runs = hooks["runs"].as_array().into_iter().flatten();
                let has_run = |run: &Value| run["name"] == name.as_str() && run["phase"] == "Succeeded";
                ensure!(runs.any(has_run), "the hooks are {hooks}");
            }
        }
        ReleaseVariant::Random => {
            let kept = of_type(&secrets, "kept-results");
            ensure!(kept.len() == 1, "{} Secrets keep its results", kept.len());
            let password = password(lane, release).await?.context("there is no password")?;
            let results = file(kept[0], "results.json")?;
            ensure!(results.contains(&password), "the password that is live is not kept");
            let place = &widget["metadata"]["annotations"]["chartwright.dev/kept-results"];
            ensure!(!place.is_null(), "the custom resource doesn't name the kept results");
        }
    }
    Ok(())
}

/// What is true at any time, also of a release that is half done: a status that is ready has its record behind it.
pub async fn is_truthful(lane: &TortureLane, release: &str, members: &BTreeMap<MemberId, Value>) -> Result<()> {
    let widget = lane.widget(release).await?;
    let Some(widget) = widget.filter(claims_ready) else {
        return Ok(());
    };
    if lane.variant == ReleaseVariant::Lossy && !lane.has_resident && record_secrets(lane, release).await?.is_empty() {
        // By the status of its first release an operator finds out that the schema keeps no record. If it ends between
        // the two writes, the labels show what it created.
        return Ok(());
    }
    let rows = rows(lane, release, &widget, members.len()).await;
    let rows = rows.context("the status is ready")?;
    let recorded: BTreeSet<MemberId> = rows.iter().map(row_id).collect();
    let wanted: BTreeSet<MemberId> = members.keys().cloned().collect();
    ensure!(
        recorded == wanted,
        "ready, with the record {recorded:?}, not {wanted:?}"
    );
    Ok(())
}

/// Each Job of an operation was made once since the faults were armed, however often the operator died: `first`, which is
/// over before a member is written or deleted, and `last`.
pub fn ran_once(lane: &TortureLane, release: &str, [first, last]: [&str; 2]) -> Result<()> {
    let log = lane.faults.log();
    let writes: Vec<_> = log.iter().filter(|entry| entry.call.is_write()).collect();
    let made = |job: &str| {
        let name = format!("{release}-{job}");
        let is_made =
            |entry: &&LoggedCall| entry.done == Some(201) && entry.call.is_of("jobs") && entry.call.names(&name);
        let places = (0..writes.len()).filter(|place| is_made(&writes[*place]));
        places.collect::<Vec<_>>()
    };
    let (first, last) = (made(first), made(last));
    ensure!(first.len() == 1 && last.len() == 1, "made at {first:?} and {last:?}");
    let member = format!("{release}-main");
    // Also one whose answer no operator received: it may have been carried out.
    let is_member = |entry: &&LoggedCall| entry.call.is_of("configmaps") && entry.call.names(&member);
    let touched = writes.iter().position(is_member);
    ensure!(
        touched.is_some_and(|touched| first[0] < touched),
        "{first:?}, members {touched:?}"
    );
    Ok(())
}

/// The random result that is live.
pub async fn password(lane: &TortureLane, release: &str) -> Result<Option<String>> {
    let secret = lane.of_kind("Secret").get_opt(&format!("{release}-random")).await?;
    let secret = secret.map(serde_json::to_value).transpose()?;
    secret.map(|secret| file(&secret, "password")).transpose()
}

/// Nothing is kept of a release that is gone.
pub async fn has_no_secrets_left(lane: &TortureLane, release: &str) -> Result<()> {
    let left = record_secrets(lane, release).await?;
    let names: Vec<_> = left.iter().map(|secret| &secret["metadata"]["name"]).collect();
    ensure!(left.is_empty(), "what was kept is left: {names:?}");
    let jobs = lane.jobs().list(&ListParams::default()).await?;
    let mut names = jobs.iter().filter_map(|job| job.metadata.name.as_deref());
    let left = names.find(|name| name.starts_with(&format!("{release}-")));
    ensure!(left.is_none(), "a Job is left: {left:?}");
    Ok(())
}

/// A release that was helm-operator's is ours, and nothing of the former owner remains.
pub async fn is_taken_over(lane: &TortureLane, release: &str) -> Result<()> {
    let widget = lane.widget(release).await?.context("the custom resource is gone")?;
    let metadata = &widget["metadata"];
    ensure!(metadata["finalizers"] == json!([OURS]), "{metadata}");
    ensure!(annotation(&widget, "chartwright.dev/takeover").is_none(), "{metadata}");
    ensure!(widget["status"]["deployedRelease"].is_null(), "{}", widget["status"]);
    ensure!(release_secrets(lane, release).await? == 0, "release Secrets are left");
    let orphan = lane.of_kind("Deployment").get_opt(release).await?;
    ensure!(orphan.is_none(), "what the chart doesn't render any more is left");
    Ok(())
}

/// As long as helm-operator's finalizer is on a custom resource, what it knew of the release is there; and something
/// holds the custom resource at any time.
pub async fn former_owner_could_go_on(lane: &TortureLane, release: &str) -> Result<()> {
    let widget = lane.widget(release).await?.context("the custom resource is gone")?;
    let finalizers = &widget["metadata"]["finalizers"];
    let held = finalizers.as_array().is_some_and(|all| !all.is_empty());
    ensure!(held, "nothing holds the custom resource");
    let left = release_secrets(lane, release).await?;
    let is_ours = *finalizers == json!([OURS]);
    ensure!(left > 0 || is_ours, "the release Secrets went before {finalizers}");
    Ok(())
}

async fn release_secrets(lane: &TortureLane, release: &str) -> Result<usize> {
    let parameters = ListParams::default().labels(&format!("owner=helm,name={release}"));
    Ok(lane.of_kind("Secret").list(&parameters).await?.items.len())
}
