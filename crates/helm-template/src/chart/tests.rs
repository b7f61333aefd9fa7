use std::fs;
use std::io::Write;
use std::path::Path;

use super::*;
use go_template::{Entries, Map, MapKind};

fn write(root: &Path, name: &str, data: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, data).unwrap();
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(root, "Chart.yaml", &[b"\xef\xbb\xbf", CHART_YAML].concat());
    write(root, "values.yaml", b"a: 1\n---\nb: {c: 2}\n");
    write(root, "templates/a.yaml", b"a");
    write(root, "templates/.hidden", b"h");
    write(root, "crds/c.yaml", b"c");
    write(root, "README.md", b"r");
    write(root, "skip/me.txt", b"s");
    write(root, ".helmignore", b"skip/\n");
    write(
        root,
        "charts/y/Chart.yaml",
        b"apiVersion: v2\nname: sub\nversion: 2.0.0\n",
    );
    write(root, "charts/_z/Chart.yaml", b"not: loaded\n");
    folder
}

fn names(files: &[File]) -> Vec<&str> {
    files.iter().map(|file| file.name.as_str()).collect()
}

#[test]
fn folders_are_sorted_by_role() {
    let folder = folder();
    let chart = Chart::load(folder.path()).unwrap();
    assert_eq!(chart.name(), "x");
    assert_eq!(names(&chart.templates), ["templates/a.yaml"]);
    assert_eq!(names(&chart.files), [".helmignore", "README.md", "crds/c.yaml"]);
    assert_eq!(names(&chart.crds), ["crds/c.yaml"]);
    assert_eq!(
        serde_json::to_string(&chart.values.to_json()).unwrap(),
        r#"{"a":1.0,"b":{"c":2.0}}"#
    );
    assert_eq!(chart.dependencies.iter().map(Chart::name).collect::<Vec<_>>(), ["sub"]);
}

#[test]
fn the_digest_follows_every_file() {
    let folder = folder();
    let before = Chart::load(folder.path()).unwrap().digest().to_owned();
    assert_eq!(Chart::load(folder.path()).unwrap().digest(), before);
    write(folder.path(), "charts/y/templates/new.yaml", b"n");
    assert_ne!(Chart::load(folder.path()).unwrap().digest(), before);
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_for_ever() {
    let folder = folder();
    let other = tempfile::tempdir().unwrap();
    write(other.path(), "linked.yaml", b"l");
    std::os::unix::fs::symlink(other.path(), folder.path().join("templates/more")).unwrap();
    assert!(names(&Chart::load(folder.path()).unwrap().templates).contains(&"templates/more/linked.yaml"));
    std::os::unix::fs::symlink("..", folder.path().join("templates/up")).unwrap();
    // Each turn follows one link, and Linux follows 40.
    let around = format!(
        "open {}{}/templates/more: too many levels of symbolic links",
        folder.path().display(),
        "/templates/up".repeat(40)
    );
    assert_eq!(Chart::load(folder.path()).unwrap_err().to_string(), around);
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let folder = folder();
    let link = folder.path().join("templates/a");
    for (target, problem) in [
        ("gone/b", "no such file or directory"),
        ("../Chart.yaml/x", "not a directory"),
    ] {
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(target, &link).unwrap();
        assert_eq!(
            Chart::load(folder.path()).unwrap_err().to_string(),
            format!("error evaluating symlink {}: {problem}", link.display())
        );
    }
}

const CHART_YAML: &[u8] = b"apiVersion: v2\nname: x\nversion: 1.0.0\n";

type Builder = tar::Builder<flate2::write::GzEncoder<Vec<u8>>>;

/// An archive of what `fill` puts into it.
fn packed(fill: impl FnOnce(&mut Builder)) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    fill(&mut builder);
    builder.into_inner().unwrap().finish().unwrap()
}

/// Adds an entry. Its name is set by hand: the library refuses those that leave the archive.
fn add(builder: &mut Builder, name: &str, size: u64, data: &[u8]) {
    let mut header = tar::Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_size(size);
    header.set_cksum();
    builder.append(&header, data).unwrap();
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    packed(|builder| {
        for (name, data) in entries {
            add(builder, name, data.len() as u64, data);
        }
    })
}

fn unpack(data: &[u8], mut left: u64) -> Result<Chart, String> {
    let files = archive::unpack("x.tgz", data, &mut left, archive::Special::AsFiles).map_err(|e| e.to_string())?;
    files::assemble(files, left, go_yaml::MAX_DEPTH, &mut Vec::new()).map_err(|e| e.to_string())
}

#[test]
fn archives_load_and_stay_inside() {
    let inner = archive(&[("y/Chart.yaml", b"apiVersion: v1\nname: sub\nversion: 1.0.0\n")]);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let whole = archive(&[("x/Chart.yaml", CHART_YAML), ("x/charts/y-1.0.0.tgz", &inner)]);
    file.write_all(&whole).unwrap();
    let chart = Chart::load(file.path()).unwrap();
    assert_eq!(chart.dependencies.iter().map(Chart::name).collect::<Vec<_>>(), ["sub"]);
    let escaping = archive(&[("x/Chart.yaml", CHART_YAML), ("x/../../evil", b"e")]);
    let error = unpack(&escaping, archive::MAX_UNPACKED).unwrap_err();
    assert_eq!(error, "chart illegally references parent directory");
}

#[test]
fn bombs_are_refused_before_they_take_memory() {
    // A header that promises what no memory should be reserved for, and nothing behind it.
    for size in [archive::MAX_CHART, u64::from(u32::MAX), 1 << 40] {
        let bomb = packed(|builder| {
            add(builder, "x/Chart.yaml", CHART_YAML.len() as u64, CHART_YAML);
            add(builder, "x/bomb", size, b"");
        });
        let want = "decompressed chart is larger than the maximum size 104857600";
        assert_eq!(Chart::unpack(&bomb).unwrap_err().to_string(), want, "{size}");
        // As a dependency it is its parent's error.
        let parent = archive(&[("x/Chart.yaml", CHART_YAML), ("x/charts/y.tgz", &bomb)]);
        let want = format!("error unpacking subchart y.tgz in x: {want}");
        assert_eq!(Chart::unpack(&parent).unwrap_err().to_string(), want);
    }
    let folder = folder();
    let file = fs::File::create(folder.path().join("large")).unwrap();
    file.set_len(archive::MAX_CHART).unwrap();
    assert_eq!(
        Chart::load(folder.path()).unwrap_err().to_string(),
        "error reading large: chart exceeds maximum decompressed size of 104857600 bytes"
    );
}

#[test]
fn all_that_is_unpacked_counts_names_included() {
    let path = format!("x/{}", "n".repeat(10_000));
    let names = packed(|builder| {
        add(builder, "x/Chart.yaml", CHART_YAML.len() as u64, CHART_YAML);
        for _ in 0..30 {
            builder.append_pax_extensions([("path", path.as_bytes())]).unwrap();
            add(builder, "", 0, b"");
        }
    });
    let sub = archive(&[("x/Chart.yaml", CHART_YAML), ("x/large", &[b'-'; 10_000])]);
    let nested = archive(&[
        ("x/Chart.yaml", CHART_YAML),
        ("x/charts/a.tgz", &sub),
        ("x/charts/b/Chart.yaml", CHART_YAML),
        ("x/charts/b/charts/c.tgz", &sub),
    ]);
    for (packed, enough) in [(names, 400_000), (nested, 34_000)] {
        assert!(unpack(&packed, enough).is_ok());
        let error = unpack(&packed, enough * 3 / 4).unwrap_err();
        let want = "archives are too large when they are unpacked, names and headers included";
        assert!(error.ends_with(want), "{error}");
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let folder = folder();
    let socket = folder.path().join("templates/socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert_eq!(
        Chart::load(folder.path()).unwrap_err().to_string(),
        format!(
            "cannot load irregular file {} as it has file mode type bits set",
            socket.display()
        )
    );
}

#[test]
fn charts_nest_as_deep_as_the_limit_lets_them() {
    let folder = tempfile::tempdir().unwrap();
    let add = |depth: usize| {
        let path = format!("{}Chart.yaml", "charts/y/".repeat(depth));
        write(folder.path(), &path, CHART_YAML);
    };
    (0..=64).for_each(add);
    assert!(Chart::load(folder.path()).is_ok());
    add(65);
    let error = Chart::load(folder.path()).unwrap_err().to_string();
    assert!(
        error.ends_with("charts nest deeper than the limit of 64 levels"),
        "{error}"
    );
}

#[test]
fn values_are_imported_only_so_deep() {
    let long = ["p"; go_yaml::MAX_DEPTH + 1].join(".");
    let endless = "{child: a, parent: p}, {child: a, parent: p.q}";
    for (import, is_fine) in [(endless, true), (&format!("{{child: a, parent: {long}}}"), false)] {
        let declared = format!("dependencies: [{{name: y, version: 1.0.0, import-values: [{import}]}}]");
        let metadata = format!("apiVersion: v2\nname: x\nversion: 1.0.0\n{declared}\n");
        let files: [(&str, &[u8]); 3] = [
            ("x/Chart.yaml", metadata.as_bytes()),
            ("x/charts/y/Chart.yaml", b"apiVersion: v2\nname: y\nversion: 1.0.0\n"),
            ("x/charts/y/values.yaml", b"a: {v: 1}"),
        ];
        let chart = Chart::unpack(&archive(&files)).unwrap();
        let user = Map::new(MapKind::Any, Entries::new());
        let node = dependencies::process(&chart, &user, &mut Vec::new());
        assert_eq!(node.is_ok(), is_fine);
    }
}
