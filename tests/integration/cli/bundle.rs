//! Bundles for OLM: the API server accepts each object in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::cli::scaffold::{refuse, run, succeed};
use crate::world::fields::ensure_contains;
use crate::world::{SOON, World, WorldSetup};

const BASE: &str = "config/manifests/bases/bundled.clusterserviceversion.yaml";
const CSV: &str = "bundle/manifests/bundled.clusterserviceversion.yaml";

fn yaml(file: &Path) -> Result<Value> {
    go_yaml::to_json(&fs::read(file)?).with_context(|| file.display().to_string())
}

/// The files of a folder and all that are in it, with their contents.
fn files(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(
                files(&path)?
                    .into_iter()
                    .map(|(below, text)| (format!("{name}/{below}"), text)),
            );
        } else {
            found.insert(name, fs::read_to_string(&path)?);
        }
    }
    Ok(found)
}

/// What OLM makes of a ClusterServiceVersion.
fn installed(csv: &Value, namespace: &str) -> Vec<Value> {
    let spec = &csv["spec"]["install"]["spec"];
    let items = |field: &str| spec[field].as_array().cloned().unwrap_or_default();
    let object = |api_version: &str, kind: &str, name: &Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    let mut objects = Vec::new();
    for deployment in items("deployments") {
        let mut made = object("apps/v1", "Deployment", &deployment["name"]);
        made["metadata"]["labels"] = deployment["label"].clone();
        made["metadata"]["namespace"] = namespace.into();
        made["spec"] = deployment["spec"].clone();
        objects.push(made);
    }
    for (field, kind) in [("clusterPermissions", "ClusterRole"), ("permissions", "Role")] {
        for permission in items(field) {
            let mut made = object("rbac.authorization.k8s.io/v1", kind, &permission["serviceAccountName"]);
            made["rules"] = permission["rules"].clone();
            objects.push(made);
        }
    }
    objects
}

#[test]
fn the_api_server_accepts_all_objects_of_a_bundle() -> Result<()> {
    let world = World::with("bundled-system", WorldSetup::NO_CRD)?;
    let folder = world.dir.path().join("bundled");
    fs::create_dir(&folder)?;
    succeed(&folder, "init --domain example.com --name bundled")?;
    succeed(&folder, "create api --group bundled --kind Web")?;
    let printed = succeed(
        &folder,
        "generate bundle --version 0.1.0 --image registry.example.com/bundled:0.1.0",
    )?;
    ensure_contains(
        &printed,
        &[
            "bundled.v0.1.0 keeps the rules",
            "bundle/metadata/annotations.yaml: created",
            BASE,
        ],
    )?;
    let try_out = |object: &str| {
        world
            .kubectl
            .run_with_input(["apply", "--dry-run=server", "--validate=strict", "-f", "-"], object)
    };
    let mut count = 0;
    for (name, text) in files(&folder.join("bundle/manifests"))? {
        if !name.ends_with(".clusterserviceversion.yaml") {
            try_out(&text).with_context(|| name.clone())?;
            count += 1;
        }
    }
    // The definition, the metrics' Service, role and NetworkPolicy, and three roles for people.
    ensure!(count == 7, "{count}");
    let csv = yaml(&folder.join(CSV))?;
    for object in installed(&csv, &world.name) {
        try_out(&object.to_string())?;
    }
    let examples = csv["metadata"]["annotations"]["alm-examples"]
        .as_str()
        .unwrap_or_default();
    let crd = folder.join("config/crd");
    world.run(["apply", "--server-side", "-k", &crd.to_string_lossy()])?;
    world
        .kubectl
        .wait("Established", "crd", "webs.bundled.example.com", SOON)?;
    let examples: Vec<Value> = serde_json::from_str(examples)?;
    ensure!(examples.len() == 1);
    let tried = try_out(&examples[0].to_string());
    world.run(["delete", "-k", &crd.to_string_lossy()])?;
    tried.map(drop)
}

#[test]
fn regenerating_a_bundle_keeps_edits() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    succeed(folder, "init --domain example.com --name bundled")?;
    succeed(folder, "create api --group bundled --kind Web")?;
    let (done, printed) = run(folder, &["generate", "bundle", "--version", "0.1.0", "--check"])?;
    ensure!(
        !done && !folder.join("bundle").exists() && !folder.join(BASE).exists(),
        "{printed}"
    );
    succeed(folder, "generate bundle --version 0.1.0")?;
    let printed = succeed(folder, "generate bundle --check")?;
    ensure!(
        printed.trim().starts_with("warning: bundle/") && printed.lines().count() == 1,
        "{printed}"
    );
    // The check uses the recorded options, too, and not another version.
    let image = "--image registry.example.com/bundled:9";
    succeed(
        folder,
        &format!("generate bundle {image} --replaces 0.0.9 --skip-range <0.1.0"),
    )?;
    succeed(folder, "generate bundle --check")?;
    let csv = yaml(&folder.join(CSV))?;
    ensure!(csv["spec"]["replaces"] == "bundled.v0.0.9", "{csv}");
    let (done, printed) = run(folder, &["generate", "bundle", "--version", "0.2.0", "--check"])?;
    ensure!(!done, "{printed}");
    ensure_contains(
        &printed,
        &[
            "-  replaces: bundled.v0.0.9",
            "-    olm.skipRange",
            "+                image: bundled:0.0.1",
        ],
    )?;
    // Another kind: the base is still ours, and follows.
    succeed(folder, "create api --group bundled --kind Shop")?;
    let printed = succeed(folder, "generate bundle")?;
    ensure_contains(
        &printed,
        &[&format!("{BASE}: updated"), "bundled.example.com_shops.yaml: created"],
    )?;
    // From now on it is edited by hand.
    let base = fs::read_to_string(folder.join(BASE))?.replace("maturity: alpha", "maturity: stable");
    fs::write(folder.join(BASE), &base)?;
    succeed(folder, "delete api --group bundled --kind Shop")?;
    let (done, printed) = run(folder, &["generate", "bundle", "--check"])?;
    ensure!(!done);
    ensure_contains(
        &printed,
        &["bundled.example.com_shops.yaml: removed", "+  maturity: stable"],
    )?;
    succeed(folder, "generate bundle -q")?;
    ensure!(fs::read_to_string(folder.join(BASE))? == base);
    ensure!(!folder.join("bundle/manifests/bundled.example.com_shops.yaml").exists());
    succeed(folder, "generate bundle --check").map(drop)
}

#[test]
fn an_error_leaves_no_bundle() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    refuse(
        folder,
        "generate bundle --version 0.1.0",
        &["there is no project in", "chartwright init"],
    )?;
    succeed(folder, "init --domain example.com --name bundled")?;
    refuse(
        folder,
        "generate bundle --version 0.1.0",
        &["watches.yaml has no kind yet"],
    )?;
    succeed(folder, "create api --group bundled --kind Web")?;
    refuse(folder, "generate bundle", &["--version is missing"])?;
    refuse(folder, "generate bundle --version 1", &["is no semantic version"])?;
    let long = format!("generate bundle --version 0.1.0 --package {}", "x".repeat(60));
    refuse(
        folder,
        &long,
        &[
            "metadata.name",
            "67 characters, and 63 are the most",
            "nothing was written",
        ],
    )?;
    refuse(
        folder,
        "generate bundle --version 0.1.0 --input-dir none",
        &["--input-dir none"],
    )?;
    refuse(
        folder,
        "generate bundle --version 0.1.0 --channels stable --default-channel fast",
        &["--default-channel fast: the bundle's channels are stable"],
    )?;
    refuse(
        folder,
        "generate bundle --version 0.1.0 --skip-range soon",
        &["\"soon\" is no range of versions"],
    )?;
    ensure!(!folder.join("bundle").exists() && !folder.join("config/manifests").exists());
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    let wrong = command
        .args(["generate", "bundle", "--overwrite=maybe"])
        .current_dir(folder)
        .output()?;
    ensure!(wrong.status.code() == Some(2));
    succeed(folder, "generate catalog --bundle-image example.com/bundled:v0.1.0")?;
    let printed = succeed(folder, "generate catalog --bundle-image example.com/bundled:v0.1.0")?;
    ensure_contains(
        &printed,
        &["catalog-template.yaml: lists example.com/bundled:v0.1.0 already"],
    )?;
    refuse(
        folder,
        "generate catalog --bundle-image example.com/bundled:v0.1.0 --channels alpha",
        &["--channels alpha: the template's channels are candidate, fast, stable"],
    )?;
    refuse(
        folder,
        "generate catalog --bundle-image A:1",
        &["is no name of an image"],
    )?;
    fs::write(folder.join("catalog-template.yaml"), "a: [\n")?;
    refuse(
        folder,
        "generate catalog --bundle-image a:1",
        &["catalog-template.yaml"],
    )
}
