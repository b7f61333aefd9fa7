//! The files of a project, as operator-sdk lays it out: what `init` writes, and the lists that name what belongs to kinds.

use std::fs;
use std::io;

use handlebars::{Handlebars, no_escape};
use serde_json::json;

use super::printable::{to_yaml, yaml_scalar};
use super::project::Project;
use super::tree::FileTree;

const DOCKERFILE: &str = "Dockerfile";
const MANAGER: &str = "config/manager/manager.yaml";
const METRICS_AUTH_ROLE: &str = "config/rbac/metrics_auth_role.yaml";

/// What config/rbac lists for `--metrics-require-rbac`.
pub const METRICS_AUTH: [&str; 2] = ["metrics_auth_role.yaml", "metrics_auth_role_binding.yaml"];

/// Files of which only names differ between projects: handlebars.
const TEMPLATES: [(&str, &str); 11] = [
    ("Makefile", include_str!("layout/files/Makefile.hbs")),
    (DOCKERFILE, include_str!("layout/files/Dockerfile.hbs")),
    ("README.md", include_str!("layout/files/README.md.hbs")),
    (
        "config/default/kustomization.yaml",
        include_str!("layout/files/config/default/kustomization.yaml.hbs"),
    ),
    (
        "config/default/metrics_service.yaml",
        include_str!("layout/files/config/default/metrics_service.yaml.hbs"),
    ),
    (
        "config/manager/kustomization.yaml",
        include_str!("layout/files/config/manager/kustomization.yaml.hbs"),
    ),
    (MANAGER, include_str!("layout/files/config/manager/manager.yaml.hbs")),
    (
        "config/prometheus/monitor.yaml",
        include_str!("layout/files/config/prometheus/monitor.yaml.hbs"),
    ),
    (
        "config/network-policy/allow-metrics-traffic.yaml",
        include_str!("layout/files/config/network-policy/allow-metrics-traffic.yaml.hbs"),
    ),
    (
        "config/rbac/hmac_key_role.yaml",
        include_str!("layout/files/config/rbac/hmac_key_role.yaml.hbs"),
    ),
    (
        "config/rbac/leader_election_role.yaml",
        include_str!("layout/files/config/rbac/leader_election_role.yaml.hbs"),
    ),
];

/// Files that are the same in every project.
const FIXED: [(&str, &str); 11] = [
    (".gitignore", include_str!("layout/files/gitignore")),
    (".github/workflows/ci.yaml", include_str!("layout/files/github/ci.yaml")),
    (
        "config/prometheus/kustomization.yaml",
        include_str!("layout/files/config/prometheus/kustomization.yaml"),
    ),
    (
        "config/network-policy/kustomization.yaml",
        include_str!("layout/files/config/network-policy/kustomization.yaml"),
    ),
    (
        "config/rbac/hmac_key_role_binding.yaml",
        include_str!("layout/files/config/rbac/hmac_key_role_binding.yaml"),
    ),
    (
        "config/rbac/leader_election_role_binding.yaml",
        include_str!("layout/files/config/rbac/leader_election_role_binding.yaml"),
    ),
    (
        METRICS_AUTH_ROLE,
        include_str!("layout/files/config/rbac/metrics_auth_role.yaml"),
    ),
    (
        "config/rbac/metrics_auth_role_binding.yaml",
        include_str!("layout/files/config/rbac/metrics_auth_role_binding.yaml"),
    ),
    (
        "config/rbac/metrics_reader_role.yaml",
        include_str!("layout/files/config/rbac/metrics_reader_role.yaml"),
    ),
    (
        "config/rbac/service_account.yaml",
        include_str!("layout/files/config/rbac/service_account.yaml"),
    ),
    (
        "config/rbac/role_binding.yaml",
        include_str!("layout/files/config/rbac/role_binding.yaml"),
    ),
];

/// The chart that a kind gets if there is none.
pub const CHART: [(&str, &str); 11] = [
    (".helmignore", include_str!("layout/files/chart/helmignore")),
    ("values.yaml", include_str!("layout/files/chart/values.yaml")),
    (
        "values.schema.json",
        include_str!("layout/files/chart/values.schema.json"),
    ),
    ("status.yaml", include_str!("layout/files/chart/status.yaml")),
    ("verify/app.yaml", include_str!("layout/files/chart/verify/app.yaml")),
    (
        "templates/_helpers.tpl",
        include_str!("layout/files/chart/templates/_helpers.tpl"),
    ),
    (
        "templates/deployment.yaml",
        include_str!("layout/files/chart/templates/deployment.yaml"),
    ),
    (
        "templates/service.yaml",
        include_str!("layout/files/chart/templates/service.yaml"),
    ),
    (
        "templates/serviceaccount.yaml",
        include_str!("layout/files/chart/templates/serviceaccount.yaml"),
    ),
    (
        "templates/pdb.yaml",
        include_str!("layout/files/chart/templates/pdb.yaml"),
    ),
    (
        "templates/NOTES.txt",
        include_str!("layout/files/chart/templates/NOTES.txt"),
    ),
];

/// The RBAC files of an operator, the same for all kinds.
const RBAC: [&str; 9] = [
    "service_account.yaml",
    "role.yaml",
    "role_binding.yaml",
    "leader_election_role.yaml",
    "leader_election_role_binding.yaml",
    "hmac_key_role.yaml",
    "hmac_key_role_binding.yaml",
    METRICS_AUTH[0],
    METRICS_AUTH[1],
];

/// What `init` writes of a project, beside PROJECT. `base`: the image that the operator's is made from.
///
/// # Errors
/// A template that can't be rendered: a defect.
pub fn files(project: &Project, base: &str) -> anyhow::Result<FileTree> {
    let mut tree = FileTree::default();
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine.register_escape_fn(no_escape);
    // Where a name is all of a scalar, it may be a number or a boolean to YAML: 123, on.
    let scalar = yaml_scalar(project.name());
    let data = json!({"name": project.name(), "scalar": scalar, "base": base, "charts": project.charts()});
    for (path, text) in TEMPLATES {
        tree.add(path, engine.render_template(text, &data)?);
    }
    for (path, text) in FIXED {
        tree.add(path, text);
    }
    Ok(tree)
}

/// True for a project that `init` of an earlier version wrote: its operator gets `--metrics-require-rbac` with the new
/// config/manager, and needs the rights for it.
pub fn lacks_metrics_auth(project: &Project) -> bool {
    project.written().contains_key(MANAGER) && !project.root.join(METRICS_AUTH_ROLE).exists()
}

/// The image that the Dockerfile of `init` was made with. Another program's Dockerfile, which PROJECT doesn't list, has one of
/// its own, in which there is no program of ours.
///
/// # Errors
/// The file can't be read.
pub fn base_image(project: &Project) -> io::Result<Option<String>> {
    if !project.written().contains_key(DOCKERFILE) {
        return Ok(None);
    }
    let text = match fs::read_to_string(project.root.join(DOCKERFILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io::Error::new(error.kind(), format!("{DOCKERFILE}: {error}"))),
    };
    // The last stage makes the image; users may add stages before it.
    let last = text.lines().rev().find_map(|line| {
        let mut words = line.split_whitespace();
        let is_from = words.next().is_some_and(|word| word.eq_ignore_ascii_case("from"));
        words.find(|word| is_from && !word.starts_with("--"))
    });
    Ok(last.filter(|image| !image.contains('$')).map(str::to_owned))
}

/// A kustomization that lists these resources.
///
/// # Errors
/// None that can be met.
pub fn kustomization(resources: &[String]) -> anyhow::Result<String> {
    let list = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources,
    });
    Ok(to_yaml(&list)?)
}

/// What config/rbac lists, with the roles for people of these kinds.
pub fn rbac(kinds: &[String]) -> Vec<String> {
    let fixed = RBAC.iter().map(|name| (*name).to_owned());
    let roles = kinds
        .iter()
        .flat_map(|kind| ["admin", "editor", "viewer"].map(|role| format!("{kind}_{role}_role.yaml")));
    fixed
        .chain(["metrics_reader_role.yaml".to_owned()])
        .chain(roles)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use helm_template::chart::Chart;
    use helm_template::render::{Engine, ReleaseObject};

    #[test]
    fn every_file_is_well_formed() {
        let project = Project::new(Path::new("."), "shop-operator", "example.com");
        let changes = files(&project, "chartwright:1").unwrap();
        let changes = changes
            .compare(Path::new("/nowhere"), &Default::default(), false)
            .unwrap();
        let text = changes.describe();
        for (path, _) in TEMPLATES.iter().chain(&FIXED) {
            assert!(text.contains(path), "{path}");
        }
        assert_eq!(changes.files.len(), TEMPLATES.len() + FIXED.len());
        assert_eq!(rbac(&["memcached".into()]).len(), 13);
    }

    /// In new projects and in this repository: from the argument over the ports of pod and Service to the ServiceMonitor.
    #[test]
    fn metrics_are_https_from_the_operator_to_prometheus() {
        let config = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../config"));
        let of_template = |path: &str| TEMPLATES.iter().find(|(name, _)| *name == path).unwrap().1.to_owned();
        let of_repository = |path: &str| fs::read_to_string(config.parent().unwrap().join(path)).unwrap();
        for (path, part) in [
            (
                MANAGER,
                "- --metrics-bind-address=:8443\n            # HTTPS, for clients with the ClusterRole metrics-reader. The \
                 operator needs metrics-auth-role for that.\n            - --metrics-secure\n            \
                 - --metrics-require-rbac\n",
            ),
            (MANAGER, "- name: metrics\n              containerPort: 8443\n"),
            (
                "config/default/metrics_service.yaml",
                "- name: https\n      port: 8443\n      targetPort: metrics\n",
            ),
            ("config/prometheus/monitor.yaml", "- port: https\n      scheme: https\n"),
            ("config/network-policy/allow-metrics-traffic.yaml", "- port: metrics\n"),
        ] {
            for text in [of_template(path), of_repository(path)] {
                assert!(text.contains(part), "{path}: {part}\n{text}");
            }
        }
        for (path, text) in FIXED.iter().filter(|(path, _)| path.contains("rbac/metrics_")) {
            assert_eq!(of_repository(path), *text, "{path}");
        }
    }

    #[test]
    fn the_fresh_chart_renders() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in CHART {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let about = "apiVersion: v2\nname: web\nversion: 0.1.0\nappVersion: '1.2'\n";
        std::fs::write(folder.path().join("Chart.yaml"), about).unwrap();
        let engine = Engine::new(Chart::load(folder.path()).unwrap()).unwrap();
        let release = ReleaseObject::install("shop", "default");
        let rendered = engine.render(&release, json!({"replicaCount": 2})).unwrap();
        assert_eq!(rendered.objects.len(), 4);
        assert!(rendered.notes.unwrap().contains("port-forward"));
        let wrong = engine.render(&release, json!({"image": {"tags": "x"}})).unwrap_err();
        assert!(wrong.to_string().contains("tags"), "{wrong}");
    }
}
