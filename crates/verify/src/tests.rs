use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::*;

const SET_TO_WRITE: &str = "VERIFY_WRITE";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn fixtures() -> PathBuf {
    root().join("tests/fixtures/verify")
}

fn verified(path: &Path) -> anyhow::Result<Verified> {
    verify(&[path.to_owned()], &VerifyOptions::default())
}

/// The report as people see it, and the warnings.
fn report_of(path: &Path) -> String {
    let text = match verified(path) {
        Ok(verified) => {
            let warnings = verified.warnings.iter().map(|warning| format!("warning: {warning}\n"));
            warnings.collect::<String>() + &output::text(&verified)
        }
        Err(error) => format!("Error: {error:#}\n"),
    };
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    [path, &canonical]
        .iter()
        .fold(text, |text, path| text.replace(&format!("{}/", path.display()), ""))
}

#[test]
fn each_fixture_has_the_report_that_is_written_beside_it() {
    let mut wrong = String::new();
    let mut count = 0;
    if std::env::var_os(SET_TO_WRITE).is_some() {
        let update = VerifyOptions {
            update: true,
            ..VerifyOptions::default()
        };
        verify(
            &[
                fixtures().join("web/in/verify/good.yaml"),
                root().join("charts/flightticket"),
            ],
            &update,
        )
        .unwrap();
    }
    for entry in std::fs::read_dir(fixtures()).unwrap() {
        let folder = entry.unwrap().path();
        if !folder.join("in").is_dir() {
            continue;
        }
        count += 1;
        let (path, found) = (folder.join("expected.txt"), report_of(&folder.join("in")));
        if std::env::var_os(SET_TO_WRITE).is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if expected != found {
            let _ = writeln!(wrong, "{}: expected\n{expected}\nfound\n{found}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(count, 5);
}

#[test]
fn the_charts_of_this_repository_pass() {
    let verified = verified(root()).unwrap();
    assert_eq!(verified.warnings, Vec::<String>::new());
    assert_eq!(verified.counts().1, 0, "{}", output::text(&verified));
    for chart in ["memcached", "flightticket", "sampledb", "etcd"] {
        let folder = format!("charts/{chart}/verify");
        assert!(
            verified.reports.iter().any(|report| report.file.contains(&folder)),
            "{chart}"
        );
    }
}

#[test]
fn a_fresh_chart_passes() {
    let folder = tempfile::tempdir().unwrap();
    let chart = chartwright_scaffold::chart::ChartFiles::fresh("web").unwrap();
    chart.write_into(folder.path()).unwrap();
    let verified = verified(folder.path()).unwrap();
    assert!(verified.counts().0 > 0 && verified.warnings.is_empty());
    assert_eq!(verified.counts().1, 0, "{}", output::text(&verified));
}

#[test]
fn wrong_use_is_an_error() {
    let web = fixtures().join("web/in");
    let one = |path: PathBuf| verified(&path).unwrap_err().to_string();
    for (path, expected) in [
        (fixtures().join("nowhere"), "there is no such file or folder"),
        (
            fixtures(),
            "there is neither a watches.yaml nor a Chart.yaml nor a case file in this folder",
        ),
        (
            web.join("verify/other.cr"),
            "name a project, a chart's folder, or case files (.yaml)",
        ),
        (
            fixtures().join("upgrade/in/old/store"),
            "there are no case files: none in ",
        ),
    ] {
        let error = one(path);
        assert!(error.contains(expected), "{error}");
    }
    let options = VerifyOptions {
        only: Some("no such".to_owned()),
        ..VerifyOptions::default()
    };
    let error = verify(&[web], &options).unwrap_err().to_string();
    assert_eq!(error, "no case has \"no such\" in its name");
}

#[test]
fn golden_files_are_written_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    copy("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n");
    copy(".helmignore", "verify/\n");
    copy(
        "templates/a.yaml",
        "{{ $ca := genCA \"a\" 10 }}\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {ca: {{ $ca.Cert | b64enc }}, other: eA==}\n",
    );
    copy(
        "verify/a.yaml",
        "cases:\n- {name: All of it, expect: {snapshot: true}, then: [{spec: {a: 1}, expect: {snapshot: true}}]}\n",
    );
    let run = |update: bool| {
        let options = VerifyOptions {
            update,
            ..VerifyOptions::default()
        };
        verify(&[folder.path().to_owned()], &options).unwrap()
    };
    assert_eq!(run(false).counts(), (0, 1));
    let updated = run(true);
    assert_eq!((updated.counts(), updated.reports[0].updated.len()), ((1, 0), 2));
    // What chance decides on is left out, so that it is the same each time.
    assert_eq!(run(false).counts(), (1, 0));
    assert!(run(true).reports[0].updated.is_empty());
    let written = std::fs::read_to_string(folder.path().join("verify/golden/a/all-of-it.yaml")).unwrap();
    assert!(
        written.contains("ca: <random>") && written.contains("other: eA=="),
        "{written}"
    );
    assert!(folder.path().join("verify/golden/a/all-of-it-2.yaml").is_file());
}

/// Hooks, waves, conditions of readiness, rollback and drift are those of the operator.
#[test]
fn cases_run_the_pipeline_of_the_operator() {
    const CHART: [(&str, &str); 7] = [
        ("charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
        ("charts/a/.helmignore", "verify/\n"),
        (
            "charts/a/templates/job.yaml",
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: migrate\n  annotations:\n    helm.sh/hook: pre-install,pre-upgrade\n    \
             helm.sh/hook-delete-policy: hook-succeeded\n    chartwright.dev/ready-when: self.status.done\n\
             spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}\n",
        ),
        (
            "charts/a/templates/db.yaml",
            "apiVersion: db.example.com/v1\nkind: Database\nmetadata: {name: db, annotations: {chartwright.dev/ready-when: self.status.up}}\n\
             spec: {size: {{ .Values.size | default 1 }}}\n",
        ),
        (
            "charts/a/templates/web.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {chartwright.dev/wave: \"1\"}}\n\
             spec: {selector: {matchLabels: {app: {{ .Values.app | default \"web\" }} } } }\n",
        ),
        (
            "watches.yaml",
            "- {group: a.example.com, version: v1, kind: A, chart: charts/a, onFailure: rollback}\n",
        ),
        (
            "charts/a/verify/a.yaml",
            r#"
cases:
- name: hooks and waves
  expect:
    created: [Database db, Deployment web]
    hooks: {pre-install: [Job migrate]}
  then:
  - spec: {size: 2}
    expect:
      changed: {Database db: [spec.size]}
      unchanged: [Deployment web]
      hooks: {pre-upgrade: [Job migrate]}
- name: a failure is rolled back
  then:
  - spec: {app: other, size: 2}
    expect: {refused: {reason: RolledBack, text: "Immutable: Deployment.apps default/web"}}
  - spec: {app: null}
    expect: {changed: {Database db: [spec.size]}}
- name: a dependency is not waited for
  metadata: {annotations: {chartwright.dev/depends-on: '[{group: b.example.com, kind: B, name: main}]'}}
  expect: {contains: [Deployment web], created: [Database db, Deployment web]}
"#,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in CHART {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let verified = verified(folder.path()).unwrap();
    assert_eq!(verified.counts(), (3, 0), "{}", output::text(&verified));
}

#[test]
fn names_are_chosen_by_parts() {
    for (pattern, is) in [
        ("", true),
        ("upgrade", true),
        ("an*two", true),
        ("*", true),
        ("two*an", false),
        ("three", false),
    ] {
        assert_eq!(is_like("An upgrade to two", pattern), is, "{pattern}");
    }
}

/// A file outside of the project that a case file, a chart or a link names is an error, and its content is not
/// reported.
#[expect(clippy::too_many_lines, reason = "a table")]
#[test]
fn nothing_outside_of_the_project_is_read() {
    use std::fs;
    use std::os::unix::fs::symlink;

    const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: hunter2}\n";
    let chart = |folder: &Path| {
        fs::create_dir_all(folder.join("templates")).unwrap();
        fs::create_dir_all(folder.join("verify/golden/a")).unwrap();
        fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: web\nversion: 1.0.0\n").unwrap();
        fs::write(folder.join(".helmignore"), "verify/\n").unwrap();
        let template = "{{ .Files.Get \"f\" }}{{ .Files.Get \"d/secret\" }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
        fs::write(folder.join("templates/a.yaml"), template).unwrap();
    };
    let parent = tempfile::tempdir().unwrap();
    let outside = parent.path().join("outside");
    chart(&outside);
    fs::write(outside.join("secret"), SECRET).unwrap();
    fs::write(outside.join("case.yaml"), SECRET).unwrap();
    type Prepare = fn(&Path);
    let plain = "cases: [{name: c}]\n";
    let cases: [(&str, &str, Prepare); 11] = [
        ("cr", "cases: [{name: c, cr: ../../../../outside/secret}]\n", |_| ()),
        ("cr of the system", "cases: [{name: c, cr: /etc/passwd}]\n", |_| ()),
        (
            "lookups",
            "cases: [{name: c, lookups: [../../../../outside/secret]}]\n",
            |_| (),
        ),
        ("chart", "chart: ../../../../outside\ncases: [{name: c}]\n", |_| ()),
        (
            "another chart",
            "cases: [{name: c, then: [{chart: ../../../../outside}]}]\n",
            |_| (),
        ),
        ("cr by a link", "cases: [{name: c, cr: link}]\n", |root| {
            symlink("../../../../outside/secret", root.join("charts/web/verify/link")).unwrap();
        }),
        ("file of the chart", plain, |root| {
            symlink("../../../outside/secret", root.join("charts/web/f")).unwrap();
        }),
        ("folder of the chart", plain, |root| {
            symlink("../../../outside", root.join("charts/web/d")).unwrap();
        }),
        (
            "golden file",
            "cases: [{name: c, expect: {snapshot: true}}]\n",
            |root| {
                symlink(
                    "../../../../../../../outside/secret",
                    root.join("charts/web/verify/golden/a/c.yaml"),
                )
                .unwrap();
            },
        ),
        ("definition", plain, |root| {
            fs::create_dir_all(root.join("config/crd/bases")).unwrap();
            symlink("../../../../outside/secret", root.join("config/crd/bases/a.yaml")).unwrap();
        }),
        ("old definition", plain, |root| {
            fs::create_dir_all(root.join("deploy/crds")).unwrap();
            symlink("../../../outside/secret", root.join("deploy/crds/a.yaml")).unwrap();
        }),
    ];
    for (name, text, prepare) in cases {
        let root = parent.path().join("shop");
        chart(&root.join("charts/web"));
        fs::write(
            root.join("watches.yaml"),
            "- {group: a.example.com, version: v1, kind: Web, chart: charts/web}\n",
        )
        .unwrap();
        fs::write(root.join("charts/web/verify/a.yaml"), text).unwrap();
        prepare(&root);
        for path in [
            root.clone(),
            root.join("charts/web"),
            root.join("charts/web/verify/a.yaml"),
        ] {
            for update in [false, true] {
                let options = VerifyOptions {
                    update,
                    ..VerifyOptions::default()
                };
                let report = match verify(std::slice::from_ref(&path), &options) {
                    Ok(verified) => output::text(&verified),
                    Err(error) => format!("{error:#}"),
                };
                assert!(report.contains("lies outside of the project"), "{name}: {report}");
                assert!(
                    !report.contains("hunter2") && !report.contains("root:"),
                    "{name}: {report}"
                );
            }
        }
        assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), SECRET, "{name}");
        fs::remove_dir_all(&root).unwrap();
    }
    // A case file that is a link itself.
    let root = parent.path().join("shop");
    chart(&root.join("charts/web"));
    fs::write(
        root.join("watches.yaml"),
        "- {group: a.example.com, version: v1, kind: Web, chart: charts/web}\n",
    )
    .unwrap();
    symlink("../../../../outside/case.yaml", root.join("charts/web/verify/a.yaml")).unwrap();
    let report = output::text(&verified(&root).unwrap());
    assert!(
        report.contains("lies outside") && !report.contains("hunter2"),
        "{report}"
    );
}
