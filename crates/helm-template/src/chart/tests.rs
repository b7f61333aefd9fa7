use std::fs;
use std::io::Write;
use std::path::Path;

use super::*;
use go_template::{Entries, MapKind};

fn write(root: &Path, name: &str, data: &[u8]) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, data).unwrap();
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(
        root,
        "Chart.yaml",
        b"\xef\xbb\xbfapiVersion: v2\nname: x\nversion: 1.0.0\n",
    );
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
fn folders_may_nest_as_deep_as_the_system_lets_them() {
    let folder = folder();
    let deep = format!("templates/{}x.yaml", "d/".repeat(700));
    write(folder.path(), &deep, b"a: 1");
    assert!(names(&Chart::load(folder.path()).unwrap().templates).contains(&deep.as_str()));
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

pub(super) fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for (name, data) in entries {
        let mut header = tar::Header::new_gnu();
        // Set by hand: the library refuses names that leave the archive.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *data).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

#[test]
fn archives_load_and_stay_inside() {
    let chart_yaml: &[u8] = b"apiVersion: v2\nname: x\nversion: 1.0.0\n";
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let inner = archive(&[("y/Chart.yaml", b"apiVersion: v1\nname: sub\nversion: 1.0.0\n")]);
    file.write_all(&archive(&[
        ("x/Chart.yaml", chart_yaml),
        ("x/charts/y-1.0.0.tgz", &inner),
    ]))
    .unwrap();
    let chart = Chart::load(file.path()).unwrap();
    assert_eq!(chart.dependencies.iter().map(Chart::name).collect::<Vec<_>>(), ["sub"]);
    let escaping = archive(&[("x/Chart.yaml", chart_yaml), ("x/../../evil", b"e")]);
    let error = archive::unpack("x.tgz", &escaping, &mut Budget::of_one()).unwrap_err();
    assert_eq!(error.to_string(), "chart illegally references parent directory");
}

#[test]
fn bombs_are_refused_before_they_take_memory() {
    let chart_yaml: &[u8] = b"apiVersion: v2\nname: x\nversion: 1.0.0\n";
    let mut bytes = archive(&[("x/Chart.yaml", chart_yaml)]);
    // A header that promises what no memory should be reserved for, and nothing behind it.
    for size in [archive::MAX_CHART, u64::from(u32::MAX), 1 << 40] {
        let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (name, size, data) in [
            ("x/Chart.yaml", chart_yaml.len() as u64, chart_yaml),
            ("x/bomb", size, b""),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_path(name).unwrap();
            header.set_size(size);
            header.set_cksum();
            builder.append(&header, data).unwrap();
        }
        bytes = builder.into_inner().unwrap().finish().unwrap();
        let error = Chart::unpack(&bytes).unwrap_err().to_string();
        assert_eq!(
            error, "decompressed chart is larger than the maximum size 104857600",
            "{size}"
        );
    }
    // As a dependency it is its parent's error.
    let parent = archive(&[("x/Chart.yaml", chart_yaml), ("x/charts/y.tgz", &bytes)]);
    let error = Chart::unpack(&parent).unwrap_err().to_string();
    let want = "error unpacking subchart y.tgz in x: decompressed chart is larger than the maximum size 104857600";
    assert_eq!(error, want);

    let folder = folder();
    let file = fs::File::create(folder.path().join("large")).unwrap();
    file.set_len(archive::MAX_CHART).unwrap();
    assert_eq!(
        Chart::load(folder.path()).unwrap_err().to_string(),
        "error reading large: chart exceeds maximum decompressed size of 104857600 bytes"
    );
}

#[test]
fn names_count_as_well_as_files() {
    let path = format!("x/{}", "n".repeat(10_000));
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for _ in 0..30 {
        builder.append_pax_extensions([("path", path.as_bytes())]).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
    }
    let packed = builder.into_inner().unwrap().finish().unwrap();
    let read = |limit| archive::read(Path::new("x.tgz"), &packed, &mut Budget::new(limit));
    assert_eq!(read(400_000).unwrap().len(), 30);
    assert_eq!(
        read(300_000).unwrap_err().to_string(),
        "file 'x.tgz' can't be unpacked: archives take more than the limit of 300000 bytes when they are unpacked, names \
         and headers included"
    );
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
        write(folder.path(), &path, b"apiVersion: v2\nname: y\nversion: 1.0.0\n");
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
fn values_that_would_be_imported_without_end_are_refused() {
    let long = ["p"; go_yaml::MAX_DEPTH + 1].join(".");
    let endless = "{child: a, parent: p}, {child: a, parent: p.q}".to_owned();
    // Each table is in two places of the next.
    let levels: Vec<String> = ('a'..='y')
        .zip('b'..='z')
        .map(|(inner, outer)| {
            format!("{{child: {outer}, parent: p{outer}}}, {{child: {inner}, parent: p{outer}.x}}, {{child: {inner}, parent: p{outer}.y}}")
        })
        .collect();
    let deep = "import-values nest tables too deeply, or within themselves";
    let table = [
        (endless, deep),
        (format!("{{child: a, parent: {long}}}"), deep),
        (levels.join(", "), "import-values make more than 1000000 values"),
    ];
    let values: String = ('a'..='z').map(|name| format!("{name}: {{v: 1}}\n")).collect();
    for (import, want) in table {
        let declared = format!("dependencies: [{{name: y, version: 1.0.0, import-values: [{import}]}}]");
        let metadata = format!("apiVersion: v2\nname: x\nversion: 1.0.0\n{declared}\n");
        let files: [(&str, &[u8]); 3] = [
            ("x/Chart.yaml", metadata.as_bytes()),
            ("x/charts/y/Chart.yaml", b"apiVersion: v2\nname: y\nversion: 1.0.0\n"),
            ("x/charts/y/values.yaml", values.as_bytes()),
        ];
        let chart = Chart::unpack(&archive(&files)).unwrap();
        let user = Map::new(MapKind::Any, Entries::new());
        let error = dependencies::process(&chart, &user, &mut Vec::new()).err().unwrap();
        assert_eq!(
            error.to_string(),
            format!("chart dependencies processing failed: {want}")
        );
    }
}
