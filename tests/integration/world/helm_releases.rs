//! Releases as operator-sdk's helm-operator and Helm left them (tests/fixtures/takeover), put back on the API server.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::fields::{text, uid};
use crate::world::{SOON, World, member_rule};

/// The namespace in which the fixtures were made.
const NAMESPACE: &str = "take-fixture";

/// A release that is there before the operator is.
pub struct FormerRelease {
    pub name: String,
    /// Members and release Secrets as they were put back, by kind and name.
    pub objects: Vec<Value>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/takeover")
}

/// The chart of the fixtures that are called store.
pub fn store_chart() -> PathBuf {
    folder().join("charts/store")
}

/// The rights that a takeover needs besides those of the members.
pub fn grant(world: &World) -> Result<()> {
    let rules = [member_rule("", "secrets"), member_rule("batch", "jobs")];
    world.grant("takeover", &rules)
}

/// Puts a release back: `file` without its ending, the name of the release, and the custom resource as it is to be
/// before the operator starts.
pub fn restore(world: &World, file: &str, name: &str, change: impl FnOnce(&mut Value)) -> Result<FormerRelease> {
    restore_as(world, file, name, name, change)
}

/// The same under another name, for a name that nothing but the release has.
pub fn restore_as(
    world: &World,
    file: &str,
    former_name: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> Result<FormerRelease> {
    let mut items = read(world, file, former_name, name)?;
    if items[0]["kind"] == "Widget" {
        let mut resource = items.remove(0);
        let former_uid = uid(&resource);
        change(&mut resource);
        let now = restore_custom_resource(world, resource)?;
        items = owned_by(&items, &former_uid, &now)?;
    }
    let wanted = packed(items)?;
    create(world, &wanted)?;
    let objects = wanted.iter().map(|object| restore_fields(world, object));
    Ok(FormerRelease {
        name: name.to_owned(),
        objects: objects.collect::<Result<_>>()?,
    })
}

/// A fixture's objects as those of a world and a release; the custom resource is the first.
pub fn read(world: &World, file: &str, former_name: &str, name: &str) -> Result<Vec<Value>> {
    let path = folder().join(format!("{file}.json"));
    let mut text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    for kind in ["FixtureStore", "FixtureCache", "FixtureWidget"] {
        text = text.replace(kind, "Widget");
    }
    text = text.replace(NAMESPACE, &world.name).replace(former_name, name);
    let mut list: Value = serde_json::from_str(&text)?;
    list["items"].take().as_array().cloned().context("a list")
}

/// The same objects, owned by a custom resource with another UID.
pub fn owned_by(items: &[Value], former_uid: &str, now: &str) -> Result<Vec<Value>> {
    let text = serde_json::to_string(items)?.replace(former_uid, now);
    Ok(serde_json::from_str(&text)?)
}

/// The same objects, with the releases in their Secrets as Helm packs them.
pub fn packed(mut items: Vec<Value>) -> Result<Vec<Value>> {
    for item in &mut items {
        if let Some(release) = item.as_object_mut().and_then(|fields| fields.remove("release")) {
            item["data"] = json!({"release": pack(&release)?});
        }
    }
    Ok(items)
}

/// As [`restore`], with one of the release's ConfigMaps, made `count` times, in the place of all its members:
/// `<name>-000` and so on.
pub fn restore_many(world: &World, file: &str, name: &str, count: usize) -> Result<()> {
    let mut items = read(world, file, name, name)?;
    let resource = items.remove(0);
    let former_uid = uid(&resource);
    let now = restore_custom_resource(world, resource)?;
    let mut items = owned_by(&items, &former_uid, &now)?;
    let extra = format!("{name}-extra");
    let map = items.iter().find(|item| item["metadata"]["name"] == extra.as_str());
    let map = map.context("a ConfigMap")?.clone();
    items.retain(|item| item.get("release").is_some());
    let mut items = packed(items)?;
    items.extend((0..count).map(|number| {
        let mut map = map.clone();
        map["metadata"]["name"] = format!("{name}-{number:03}").into();
        map
    }));
    for item in &mut items {
        item["metadata"]["managedFields"].take();
    }
    create(world, &items)
}

fn restore_custom_resource(world: &World, mut resource: Value) -> Result<String> {
    let name = text(&resource["metadata"]["name"]).to_owned();
    let status = resource["status"].take();
    let fields = resource["metadata"]["managedFields"].take();
    let metadata = resource["metadata"].as_object_mut().context("metadata")?;
    metadata.retain(|field, _| field != "uid" && field != "managedFields");
    create(world, &[resource])?;
    world.patch_status(&name, &json!({"status": status}))?;
    world.patch_widget(&name, &json!({"metadata": {"managedFields": fields}}))?;
    Ok(uid(&world.live(&name)?))
}

fn create(world: &World, items: &[Value]) -> Result<()> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let arguments = ["create", "-f", "-", "--field-manager=helm-operator"];
    world.kubectl.run_with_input(arguments, &list.to_string()).map(drop)
}

/// Gives an object the managedFields that the real thing left on it.
fn restore_fields(world: &World, wanted: &Value) -> Result<Value> {
    let (kind, name) = (kind(wanted), text(&wanted["metadata"]["name"]));
    let fields = &wanted["metadata"]["managedFields"];
    world.patch(&kind, name, &json!({"metadata": {"managedFields": fields}}))?;
    world.expect(&kind, name)
}

/// `kind.group` for kubectl.
pub fn kind(object: &Value) -> String {
    let kind = text(&object["kind"]).to_lowercase();
    match text(&object["apiVersion"]).split_once('/') {
        Some((group, version)) => format!("{kind}.{version}.{group}"),
        None => kind,
    }
}

/// A release as Helm packs it into a Secret, and the API server into JSON.
fn pack(release: &Value) -> Result<String> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(release.to_string().as_bytes())?;
    Ok(BASE64.encode(BASE64.encode(&gzip.finish()?).as_bytes()))
}

impl FormerRelease {
    /// The members: everything but Helm's own Secrets.
    pub fn members(&self) -> impl Iterator<Item = &Value> {
        let objects = self.objects.iter();
        objects.filter(|object| object["type"] != "helm.sh/release.v1")
    }

    /// The release Secrets that are still there.
    pub fn secrets(&self, world: &World) -> Result<usize> {
        let of_release = format!("owner=helm,name={}", self.name);
        Ok(world.list("secrets", &of_release)?.len())
    }

    /// Waits until the workloads run; gives the UIDs of their pods.
    pub fn await_pods(&self, world: &World) -> Result<Vec<String>> {
        eventually("the former release's pods run", SOON, || {
            for workload in world.kubectl.list("deployments,statefulsets", "")? {
                let (wanted, ready) = (&workload["spec"]["replicas"], &workload["status"]["readyReplicas"]);
                ensure!(wanted == ready, "{} of {wanted} pods are ready", ready);
            }
            Ok(Some(()))
        })?;
        pods(world)
    }

    /// Waits until nothing of the former owner is on the custom resource.
    pub fn await_taken_over(&self, world: &World) -> Result<Value> {
        await_taken_over(world, &self.name, SOON)
    }
}

/// The same, however long it takes.
pub fn await_taken_over(world: &World, name: &str, limit: Duration) -> Result<Value> {
    let taken = eventually("the release is taken over", limit, || {
        let widget = world.live(name)?;
        let marker = &widget["metadata"]["annotations"]["chartwright.dev/takeover"];
        let ours = widget["metadata"]["finalizers"] == json!(["chartwright.dev/release"]);
        ensure!(ours && marker.is_null(), "{}", widget["metadata"]);
        Ok(Some(widget))
    });
    taken.with_context(|| world.describe_failure(name))
}

/// UIDs of the pods in the world's namespace.
pub fn pods(world: &World) -> Result<Vec<String>> {
    let mut uids: Vec<String> = world.kubectl.list("pods", "")?.iter().map(uid).collect();
    uids.sort();
    Ok(uids)
}
