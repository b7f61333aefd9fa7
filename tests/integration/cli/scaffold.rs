//! Generated projects: the API server accepts them, and edits survive.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::world::fields::ensure_contains;
use crate::world::{World, WorldSetup};

/// Runs the program in a folder: whether it succeeded, and what it said.
pub fn run(folder: &Path, arguments: &[&str]) -> Result<(bool, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
    let output = command.args(arguments).current_dir(folder).output()?;
    let printed = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&printed).into_owned()))
}

pub fn succeed(folder: &Path, line: &str) -> Result<String> {
    let (done, printed) = run(folder, &line.split(' ').collect::<Vec<_>>())?;
    ensure!(done, "{line}: {printed}");
    Ok(printed)
}

pub fn refuse(folder: &Path, line: &str, parts: &[&str]) -> Result<()> {
    let (done, printed) = run(folder, &line.split(' ').collect::<Vec<_>>())?;
    ensure!(!done, "{line}: {printed}");
    ensure!(!printed.contains("panicked"), "{printed}");
    ensure_contains(&printed, parts)
}

#[test]
fn the_api_server_accepts_a_generated_project() -> Result<()> {
    let world = World::with("scaffold-system", WorldSetup::NO_CRD)?;
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
    ensure_contains(
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
    ensure_contains(&rendered, &["kind: Deployment", "readOnlyRootFilesystem: true"])?;
    let verified = succeed(&folder, "verify charts/web")?;
    ensure_contains(&verified, &["4 cases: all passed"])?;
    world.run(["delete", "-k", &folder.join("config/crd").to_string_lossy()])?;
    Ok(())
}

#[test]
fn init_gives_an_earlier_project_the_rights_for_its_metrics() -> Result<()> {
    const ADDED: &str = "- metrics_auth_role.yaml\n- metrics_auth_role_binding.yaml\n";
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    succeed(folder, "init --domain example.com --name shop-operator")?;
    let list = folder.join("config/rbac/kustomization.yaml");
    let listed = fs::read_to_string(&list)?;
    ensure_contains(&listed, &[ADDED])?;
    // The list is the user's, who may take the entries out.
    let edited = listed.replace(ADDED, "- mine.yaml # mine\n");
    fs::write(&list, &edited)?;
    succeed(folder, "init")?;
    ensure!(fs::read_to_string(&list)? == edited);
    // An earlier version wrote neither the files nor the entries.
    for file in ["metrics_auth_role.yaml", "metrics_auth_role_binding.yaml"] {
        fs::remove_file(folder.join("config/rbac").join(file))?;
    }
    succeed(folder, "init")?;
    ensure!(fs::read_to_string(&list)? == format!("{edited}{ADDED}"));
    ensure!(folder.join("config/rbac/metrics_auth_role.yaml").exists());
    succeed(folder, "init").map(drop)
}

#[test]
fn repeated_commands_lose_nothing() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    succeed(folder, "init --domain example.com --name shop-operator")?;
    succeed(folder, "create api --group shop --kind Web")?;
    let role = folder.join("config/rbac/role.yaml");
    let edited = fs::read_to_string(&role)? + "# by hand\n";
    fs::write(&role, &edited)?;
    // What is written beside a chart holds from the beginning.
    fs::write(folder.join("charts/shop.crd.yaml"), "plural: shopz\nshortNames: [sh]\n")?;
    let printed = succeed(folder, "create api --group shop --kind Shop")?;
    ensure_contains(&printed, &["config/rbac/role.yaml: kept", "--force", "# by hand"])?;
    succeed(folder, "generate crd --check")?;
    let definition = fs::read_to_string(folder.join("config/crd/bases/shop.example.com_shopz.yaml"))?;
    ensure_contains(&definition, &["plural: shopz", "- sh\n"])?;
    ensure!(fs::read_to_string(&role)? == edited);
    let printed = succeed(folder, "init")?;
    ensure!(
        !printed.contains("created") && !printed.contains("updated"),
        "{printed}"
    );
    succeed(folder, "init --base-image registry.example.com/cw:9")?;
    succeed(folder, "init")?;
    ensure_contains(
        &fs::read_to_string(folder.join("Dockerfile"))?,
        &["FROM registry.example.com/cw:9\n"],
    )?;
    let printed = succeed(folder, "delete api --group shop --kind Web --dry-run")?;
    ensure_contains(&printed, &["watches.yaml: updated", "nothing was written"])?;
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

/// The role covers watches and samples, under the plural of the definition, whichever command writes it.
#[test]
fn generate_rbac_and_create_api_make_the_same_role() -> Result<()> {
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
    let printed = succeed(
        folder,
        "create api --group shop --kind Redis --plural redis --helm-chart ./chart",
    )?;
    ensure_contains(&printed, &is_unknown)?;
    let generate = "generate rbac -o config/rbac/role.yaml";
    let printed = succeed(folder, generate)?;
    ensure_contains(&printed, &is_unknown)?;
    ensure_contains(&printed, &["role.yaml: unchanged"])?;

    let sample = folder.join("config/samples/shop_v1alpha1_redis.yaml");
    let text = fs::read_to_string(&sample)?;
    fs::write(&sample, text.replace("spec: {}", "spec: {host: a}"))?;
    let watches = folder.join("watches.yaml");
    let more = "  values: {kind: DaemonSet}\n  overrideValues: {mode: full}\n  valuesFrom: [{kind: Secret, name: a, targetPath: b}]\n  \
                onFailure: rollback\n# +kube";
    fs::write(&watches, fs::read_to_string(&watches)?.replace("# +kube", more))?;
    let lacking = ["create", "daemonsets.apps", "configmaps", "secrets"];
    refuse(folder, &format!("{generate} --check"), &lacking)?;
    let printed = succeed(folder, generate)?;
    ensure!(
        printed.contains("role.yaml: written") && !printed.contains("warning"),
        "{printed}"
    );
    let role = || fs::read_to_string(folder.join("config/rbac/role.yaml"));
    let parts = ["daemonsets", "configmaps", "secrets", "- redis\n", "- redis/status"];
    ensure_contains(&role()?, &parts)?;
    let (_, printed) = run(folder, &["lint"])?;
    ensure!(
        ["missing-right", "optional-right", "excess-right"]
            .iter()
            .all(|rule| !printed.contains(rule)),
        "{printed}"
    );

    // It is known to be as it was made.
    let printed = succeed(folder, "create api --group shop --kind Web")?;
    ensure_contains(&printed, &["config/rbac/role.yaml: updated"])?;
    ensure_contains(&role()?, &parts)?;
    ensure_contains(&role()?, &["- webs\n"])?;
    succeed(folder, &format!("{generate} --check"))?;
    let by_hand = role()? + "- apiGroups: [batch]\n  resources: [jobs]\n  verbs: [get]\n";
    fs::write(folder.join("config/rbac/role.yaml"), by_hand)?;
    succeed(folder, &format!("{generate} --check"))?;
    let printed = succeed(folder, "delete api --group shop --kind Redis --force")?;
    ensure_contains(
        &printed,
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

/// A chart of one template, in a folder beside the project.
fn chart(folder: &Path, name: &str, version: &str, files: &[(&str, &str)]) -> Result<()> {
    let about = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n";
    for (file, text) in [("Chart.yaml", about.as_str()), ("templates/a.yaml", template)]
        .iter()
        .chain(files)
    {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        fs::write(path, text)?;
    }
    Ok(())
}

#[test]
fn force_replaces_a_chart() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("shop");
    fs::create_dir(&folder)?;
    let read = |file: &str| fs::read_to_string(folder.join(file));
    let values = ("values.yaml", "size: 1\n");
    chart(
        &dir.path().join("v1"),
        "web",
        "1.0.0",
        &[values, ("templates/deep/old.yaml", "")],
    )?;
    chart(
        &dir.path().join("v2"),
        "web",
        "2.0.0",
        &[("values.yaml", "color: red\n")],
    )?;
    succeed(&folder, "init --domain example.com")?;
    let again = "create api --group shop --kind Web --helm-chart ../v1";
    succeed(&folder, again)?;
    let printed = succeed(&folder, again)?;
    ensure!(
        printed.lines().count() == 1 && printed.starts_with("next: "),
        "{printed}"
    );
    // What is edited by hand stays, and counts.
    fs::write(folder.join("charts/web/values.yaml"), "size: 1\nmine: true\n")?;
    fs::remove_file(folder.join("charts/web/templates/a.yaml"))?;
    let printed = succeed(&folder, again)?;
    ensure_contains(
        &printed,
        &[
            "charts/web/values.yaml: kept",
            "-mine: true",
            "charts/web/templates/a.yaml: created",
            "_webs.yaml: updated",
            "# mine, size",
        ],
    )?;
    let project = read("PROJECT")?;
    // One digest of a chart, for any number of files.
    ensure!(
        project.matches("charts/web/").count() == 1 && project.contains("charts/web/: "),
        "{project}"
    );
    let other = "create api --group shop --kind Web --helm-chart ../v2";
    refuse(
        &folder,
        other,
        &[
            "charts/web has web 1.0.0 and not web 2.0.0; --force replaces the folder",
            "which Web.shop.example.com is made from",
            "2 files are written and 1 removed",
        ],
    )?;
    fs::write(dir.path().join("v1/templates/a.yaml"), "")?;
    let second = "create api --group other --kind Other --helm-chart ../v1";
    refuse(
        &folder,
        second,
        &["charts/web has another web 1.0.0: templates/a.yaml differs"],
    )?;
    ensure!(read("PROJECT")? == project);
    let printed = succeed(&folder, &format!("{other} --force"))?;
    ensure_contains(
        &printed,
        &[
            "charts/web/templates/deep/old.yaml: removed",
            "charts/web/Chart.yaml: updated",
        ],
    )?;
    ensure!(read("charts/web/values.yaml")? == "color: red\n" && !folder.join("charts/web/templates/deep").exists());
    ensure!(!read("PROJECT")?.contains("old.yaml"));
    let definition = read("config/crd/bases/shop.example.com_webs.yaml")?;
    ensure!(
        definition.contains("color:") && !definition.contains("mine:"),
        "{definition}"
    );
    // The kind may go, and its chart stays what it is.
    succeed(&folder, "delete api --group shop --kind Web")?;
    refuse(&folder, again, &["charts/web has web 2.0.0 and not web 1.0.0"])?;
    // A chart that isn't named is the one that is there.
    succeed(&folder, "create api --group shop --kind Web --force")?;
    ensure!(read("charts/web/values.yaml")? == "color: red\n");
    Ok(())
}

#[test]
fn required_values_of_a_chart_are_reported() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path().join("shop");
    fs::create_dir(&folder)?;
    let schema = r#"{"type": "object", "required": ["host", "db"], "properties": {"host": {"type": "string"},
        "db": {"type": "object", "required": ["password"], "properties": {"password": {"type": "string"}}}}}"#;
    chart(
        &dir.path().join("web"),
        "web",
        "1.0.0",
        &[("values.schema.json", schema)],
    )?;
    succeed(&folder, "init --domain example.com")?;
    let line = "create api --group shop --kind Web --helm-chart ../web";
    let printed = succeed(&folder, line)?;
    let sample = "config/samples/shop_v1alpha1_web.yaml";
    let warning = format!("warning: {sample} is refused until it sets ");
    ensure_contains(&printed, &[&format!("{warning}db.password, host\n")])?;
    let text = fs::read_to_string(folder.join(sample))?;
    ensure!(
        text.ends_with("# Every value of the chart may stand here.\n# These have to: db.password, host\nspec: {}\n"),
        "{text}"
    );
    fs::write(folder.join(sample), text.replace("{}", "{host: a}"))?;
    let printed = succeed(&folder, line)?;
    ensure_contains(&printed, &[&format!("{warning}db.password\n")])
}

#[test]
fn generate_keeps_other_entries_of_existing_lists() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    let read = |file: &str| fs::read_to_string(folder.join(file));
    let write = |file: &str, text: &str| fs::write(folder.join(file), text);
    succeed(folder, "init --domain example.com --name shop-operator")?;
    write("config/samples/kustomization.yaml", "resources: [mine.yaml] # mine\n")?;
    write(
        "config/samples/mine.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    )?;
    succeed(folder, "create api --group shop --kind Web")?;
    let samples = "resources: [mine.yaml, shop_v1alpha1_web.yaml] # mine\n";
    ensure!(read("config/samples/kustomization.yaml")? == samples);
    // Indented, as many write it.
    let indented: String = read("watches.yaml")?
        .lines()
        .map(|line| format!("  {line}\n"))
        .collect();
    write("watches.yaml", &indented)?;
    succeed(folder, "create api --group shop --kind Shop")?;
    let watches = read("watches.yaml")?;
    let list: Value = serde_yaml::from_str(&watches)?;
    ensure!(list.as_array().is_some_and(|list| list.len() == 2), "{watches}");
    let (head, last) = watches.rsplit_once("  - ").context("two watches")?;
    write("watches.yaml", &format!("{head}  # of shops\n  - {last}"))?;
    // An edited sample stays.
    let sample = "config/samples/shop_v1alpha1_web.yaml";
    write(sample, &read(sample)?.replace("{}", "{replicaCount: 3}"))?;
    let printed = succeed(folder, "delete api --group shop --kind Web")?;
    ensure_contains(&printed, &[&format!("{sample}: kept"), "1 file; --force"])?;
    ensure!(read(sample)?.contains("replicaCount: 3"));
    let watches = read("watches.yaml")?;
    ensure!(!watches.contains("Web"), "{watches}");
    ensure_contains(&watches, &["  # of shops\n", "kind: Shop"])?;
    ensure!(read("config/samples/kustomization.yaml")?.starts_with("resources: [mine.yaml, shop_v1alpha1_shop.yaml]"));
    // A file that can't be edited is reported, and nothing is written.
    let rbac = "resources: [role.yaml,\n  mine.yaml]\n";
    write("config/rbac/kustomization.yaml", rbac)?;
    let project = read("PROJECT")?;
    refuse(
        folder,
        "create api --group shop --kind Third",
        &[
            "config/rbac/kustomization.yaml: ",
            "by hand, and run it again:\n- third_admin_role.yaml",
        ],
    )?;
    ensure!(read("PROJECT")? == project && read("watches.yaml")? == watches && !folder.join("charts/third").exists());
    Ok(())
}

#[test]
fn a_kind_keeps_the_rules_that_its_other_watches_need() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let folder = dir.path();
    let read = |file: &str| fs::read_to_string(folder.join(file));
    succeed(folder, "init --domain example.com --name shop-operator")?;
    succeed(folder, "create api --group shop --kind Web")?;
    let first = read("watches.yaml")?;
    let selected = |version: &str| {
        let entry: Vec<&str> = first.lines().filter(|line| !line.starts_with('#')).collect();
        let entry = entry.join("\n").replace("v1alpha1", version);
        format!("{entry}\n  selector: {{matchLabels: {{version: {version}}}}}\n")
    };
    fs::write(folder.join("watches.yaml"), selected("v1alpha1") + &selected("v1"))?;
    succeed(folder, "generate crd")?;
    refuse(
        folder,
        "delete api --group shop --kind Web",
        &["is watched 2 times, in v1alpha1, v1: select one with --version"],
    )?;
    refuse(
        folder,
        "delete api --group shop --kind Web --version v2",
        &["has no kind Web in the group shop in version v2"],
    )?;
    let printed = succeed(folder, "delete api --group shop --kind Web --version v1alpha1")?;
    ensure_contains(
        &printed,
        &[
            "Web has another watch",
            "config/samples/shop_v1alpha1_web.yaml: removed",
        ],
    )?;
    ensure!(read("watches.yaml")? == selected("v1"), "{}", read("watches.yaml")?);
    ensure!(folder.join("config/crd/bases/shop.example.com_webs.yaml").exists());
    ensure_contains(&read("config/rbac/kustomization.yaml")?, &["web_viewer_role.yaml"])?;
    ensure_contains(&read("PROJECT")?, &["kind: Web\n  version: v1\n"])?;
    // Another group may have a kind of that name.
    let ours = read("config/rbac/web_admin_role.yaml")?;
    succeed(folder, "create api --group cache --kind Web")?;
    ensure!(read("config/rbac/web_admin_role.yaml")? == ours);
    let theirs = read("config/rbac/cache_web_admin_role.yaml")?;
    ensure_contains(&theirs, &["name: cache-web-admin-role", "cache.example.com"])?;
    let printed = succeed(folder, "delete api --group cache --kind Web")?;
    ensure_contains(&printed, &["config/rbac/cache_web_admin_role.yaml: removed"])?;
    ensure!(read("config/rbac/web_admin_role.yaml")? == ours);
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
    let mut count = 0;
    for run in steps.iter().filter_map(|step| step["run"].as_str()).filter(asks) {
        let mut command = Command::new("bash");
        command.args(["-e", "-c", run]).env("PATH", &search).current_dir(folder);
        let output = command.output()?;
        let printed = [output.stdout, output.stderr].concat();
        ensure!(output.status.success(), "{run}: {}", String::from_utf8_lossy(&printed));
        count += 1;
    }
    ensure!(count == 4, "{text}");
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
        "create api --group shop --kind Web --version v2",
        &["watches.yaml:", "is watched already, in version v1alpha1", "delete api"],
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
