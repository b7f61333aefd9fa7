//! Projects that are generated: the API server takes them whole, and nobody's edits are lost.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::look::says;
use crate::world::{Setup, World};

/// Runs the program in a folder: whether it succeeded, and what it said.
pub fn run(folder: &Path, arguments: &[&str]) -> Result<(bool, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    let output = command.args(arguments).current_dir(folder).output()?;
    let told = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&told).into_owned()))
}

pub fn succeed(folder: &Path, line: &str) -> Result<String> {
    let (done, told) = run(folder, &line.split(' ').collect::<Vec<_>>())?;
    ensure!(done, "{line}: {told}");
    Ok(told)
}

pub fn refuse(folder: &Path, line: &str, parts: &[&str]) -> Result<()> {
    let (done, told) = run(folder, &line.split(' ').collect::<Vec<_>>())?;
    ensure!(!done, "{line}: {told}");
    ensure!(!told.contains("panicked"), "{told}");
    says(&told, parts)
}

#[test]
fn a_generated_project_is_taken_as_it_is() -> Result<()> {
    let world = World::with("scaffold-system", Setup::NO_CRD)?;
    let folder = world.dir.path().join("shop");
    fs::create_dir(&folder)?;
    succeed(&folder, "init --domain example.com --name scaffold")?;
    succeed(&folder, "create api --group shop --kind Web")?;
    let memcached = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/memcached");
    succeed(
        &folder,
        &format!("create api --group cache --version v1 --helm-chart {memcached}"),
    )?;
    let watches = fs::read_to_string(folder.join("watches.yaml"))?;
    says(
        &watches,
        &["kind: Web", "group: cache.example.com", "chart: charts/memcached"],
    )?;
    // Into the namespace that its manifests make, which is there.
    let config = folder.join("config/default");
    world.run(["apply", "--dry-run=server", "-k", &config.to_string_lossy()])?;
    world.run([
        "apply",
        "--server-side",
        "-k",
        &folder.join("config/crd").to_string_lossy(),
    ])?;
    world
        .kubectl
        .wait("Established", "crd", "webs.shop.example.com", crate::world::SOON)?;
    let samples = folder.join("config/samples");
    world.run(["apply", "--dry-run=server", "-k", &samples.to_string_lossy()])?;
    let rendered = succeed(&folder, "render -f config/samples/shop_v1alpha1_web.yaml")?;
    says(&rendered, &["kind: Deployment", "readOnlyRootFilesystem: true"])?;
    let verified = succeed(&folder, "verify charts/web")?;
    says(&verified, &["4 cases: all passed"])?;
    world.run(["delete", "-k", &folder.join("config/crd").to_string_lossy()])?;
    Ok(())
}

#[test]
fn what_is_run_again_loses_nothing() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    succeed(folder, "init --domain example.com --name shop-operator")?;
    succeed(folder, "create api --group shop --kind Web")?;
    let role = folder.join("config/rbac/role.yaml");
    let edited = fs::read_to_string(&role)? + "# by hand\n";
    fs::write(&role, &edited)?;
    // What is written beside a chart holds from the beginning.
    fs::write(folder.join("charts/shop.crd.yaml"), "plural: shopz\nshortNames: [sh]\n")?;
    let told = succeed(folder, "create api --group shop --kind Shop")?;
    says(&told, &["config/rbac/role.yaml: kept", "--force", "# by hand"])?;
    succeed(folder, "generate crd --check")?;
    let definition = fs::read_to_string(folder.join("config/crd/bases/shop.example.com_shopz.yaml"))?;
    says(&definition, &["plural: shopz", "- sh\n"])?;
    ensure!(fs::read_to_string(&role)? == edited);
    let told = succeed(folder, "init")?;
    ensure!(!told.contains("created") && !told.contains("updated"), "{told}");
    succeed(folder, "init --base-image registry.example.com/cw:9")?;
    succeed(folder, "init")?;
    says(
        &fs::read_to_string(folder.join("Dockerfile"))?,
        &["FROM registry.example.com/cw:9\n"],
    )?;
    let told = succeed(folder, "delete api --group shop --kind Web --dry-run")?;
    says(&told, &["watches.yaml: updated", "nothing was written"])?;
    succeed(folder, "delete api --group shop.example.com --kind Web --force")?;
    let watches = fs::read_to_string(folder.join("watches.yaml"))?;
    ensure!(
        !watches.contains("kind: Web") && watches.contains("kind: Shop"),
        "{watches}"
    );
    ensure!(!folder.join("config/crd/bases/shop.example.com_webs.yaml").exists());
    ensure!(folder.join("charts/web/Chart.yaml").exists());
    let listed = fs::read_to_string(folder.join("config/rbac/kustomization.yaml"))?;
    ensure!(
        !listed.contains("web_") && listed.contains("shop_viewer_role.yaml"),
        "{listed}"
    );
    Ok(())
}

/// The role has what watches and samples bring in, under the plural of the definition, whoever of the commands writes it.
#[test]
fn the_role_is_made_in_one_way() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    succeed(folder, "init --domain example.com --name shop-operator")?;
    let chart = folder.join("chart");
    fs::create_dir_all(chart.join("templates"))?;
    fs::write(chart.join("Chart.yaml"), "{apiVersion: v2, name: shop, version: 0.1.0}")?;
    fs::write(chart.join("values.yaml"), "{host: null, kind: Deployment, mode: small}")?;
    let template = "apiVersion: apps/v1\nkind: {{ .Values.kind }}\nmetadata:\n  name: {{ required \"host is needed\" .Values.host }}\n\
                    {{- if eq .Values.mode \"full\" }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n{{ end }}";
    fs::write(chart.join("templates/a.yaml"), template)?;
    let is_unknown = [
        "warning: charts/shop: ",
        "the role lacks what it makes",
        "host is needed",
    ];
    let told = succeed(
        folder,
        "create api --group shop --kind Redis --plural redis --helm-chart ./chart",
    )?;
    says(&told, &is_unknown)?;
    let generate = "generate rbac -o config/rbac/role.yaml";
    let told = succeed(folder, generate)?;
    says(&told, &is_unknown)?;
    says(&told, &["role.yaml: unchanged"])?;

    let sample = folder.join("config/samples/shop_v1alpha1_redis.yaml");
    let text = fs::read_to_string(&sample)?;
    fs::write(&sample, text.replace("spec: {}", "spec: {host: a}"))?;
    let watches = folder.join("watches.yaml");
    let more = "  values: {kind: DaemonSet}\n  overrideValues: {mode: full}\n  valuesFrom: [{kind: Secret, name: a, targetPath: b}]\n  \
                onFailure: rollback\n# +kube";
    fs::write(&watches, fs::read_to_string(&watches)?.replace("# +kube", more))?;
    let lacking = ["create", "daemonsets.apps", "configmaps", "secrets"];
    refuse(folder, &format!("{generate} --check"), &lacking)?;
    let told = succeed(folder, generate)?;
    ensure!(
        told.contains("role.yaml: written") && !told.contains("warning"),
        "{told}"
    );
    let role = || fs::read_to_string(folder.join("config/rbac/role.yaml"));
    let parts = ["daemonsets", "configmaps", "secrets", "- redis\n", "- redis/status"];
    says(&role()?, &parts)?;
    let (_, told) = run(folder, &["lint"])?;
    ensure!(
        !told.contains("missing-right") && !told.contains("excess-right"),
        "{told}"
    );

    // It is known to be as it was made.
    let told = succeed(folder, "create api --group shop --kind Web")?;
    says(&told, &["config/rbac/role.yaml: updated"])?;
    says(&role()?, &parts)?;
    says(&role()?, &["- webs\n"])?;
    succeed(folder, &format!("{generate} --check"))?;
    let by_hand = role()? + "- apiGroups: [batch]\n  resources: [jobs]\n  verbs: [get]\n";
    fs::write(folder.join("config/rbac/role.yaml"), by_hand)?;
    succeed(folder, &format!("{generate} --check"))?;
    let told = succeed(folder, "delete api --group shop --kind Redis --force")?;
    says(
        &told,
        &["bases/shop.example.com_redis.yaml: removed", "role.yaml: updated"],
    )?;
    ensure!(!folder.join("config/crd/bases/shop.example.com_redis.yaml").exists());
    ensure!(
        !role()?.contains("redis") && !role()?.contains("secrets"),
        "{}",
        role()?
    );
    succeed(folder, &format!("{generate} --check"))?;
    Ok(())
}

/// What the example of a CI asks the program is fine in a project that was just made.
#[test]
fn the_example_of_a_ci_passes() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    succeed(folder, "init --domain example.com --name shop-operator")?;
    succeed(folder, "create api --group shop --kind Web")?;
    let text = fs::read_to_string(folder.join(".github/workflows/ci.yaml"))?;
    let workflow: Value = serde_yaml::from_str(&text)?;
    let steps = workflow["jobs"]["check"]["steps"].as_array().context("steps")?;
    let program = Path::new(env!("CARGO_BIN_EXE_chartwright"))
        .parent()
        .context("a folder")?;
    let search = format!("{}:{}", program.display(), std::env::var("PATH")?);
    let asks = |run: &&str| run.contains("chartwright ") && !run.contains("docker");
    let mut asked = 0;
    for run in steps.iter().filter_map(|step| step["run"].as_str()).filter(asks) {
        let mut command = Command::new("bash");
        command.args(["-e", "-c", run]).env("PATH", &search).current_dir(folder);
        let output = command.output()?;
        let told = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "{run}: {}", String::from_utf8_lossy(&told));
        asked += 1;
    }
    ensure!(asked == 4, "{text}");
    Ok(())
}

#[test]
fn wrong_input_is_one_clear_sentence() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    refuse(
        folder,
        "create api --group shop --kind Web",
        &["there is no project in", "chartwright init"],
    )?;
    refuse(folder, "init", &["--domain is missing"])?;
    refuse(folder, "init --domain example --name shop", &["is no domain"])?;
    refuse(
        folder,
        "init --domain example.com --name Shop",
        &["can't be the name of a project"],
    )?;
    ensure!(fs::read_dir(folder)?.count() == 0, "nothing is half-written");
    succeed(folder, "init --domain example.com --name shop-operator")?;
    refuse(
        folder,
        "init --domain other.com",
        &["the project shop-operator of the domain example.com already"],
    )?;
    succeed(folder, "create api --group shop --kind Web")?;
    refuse(
        folder,
        "create api --group shop --kind Web",
        &["watches.yaml:", "is watched already"],
    )?;
    refuse(folder, "create api --group shop --kind web", &["can't be a kind"])?;
    refuse(
        folder,
        "create api --group shop --version 1 --kind Other",
        &["is no API version"],
    )?;
    refuse(folder, "create api --group shop", &["--kind is missing"])?;
    refuse(
        folder,
        "create api --helm-chart ./none",
        &["--helm-chart ./none", "none"],
    )?;
    fs::create_dir(folder.join("empty"))?;
    refuse(folder, "create api --helm-chart ./empty", &["Chart.yaml"])?;
    fs::write(folder.join("x.tgz"), "no archive")?;
    refuse(folder, "create api --helm-chart ./x.tgz", &["x.tgz", "gzipped archive"])?;
    refuse(
        folder,
        "delete api --group shop --kind Other",
        &["has no kind Other", "Web.shop.example.com"],
    )?;
    fs::write(folder.join("watches.yaml"), "- kind: 5\n")?;
    refuse(folder, "create api --group shop --kind Third", &["watches.yaml:1"])?;
    fs::write(folder.join("PROJECT"), "- no map\n")?;
    refuse(folder, "create api --group shop --kind Third", &["PROJECT"])
}
