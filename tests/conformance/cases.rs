//! The charts below a folder, and what each is rendered with.

use std::fs;
use std::path::{Path, PathBuf};

use helm_template::chart::values;
use serde_json::{Map, Value};

/// One render.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderCase {
    /// The chart's path below the folder that was searched.
    pub chart: String,
    /// What the chart is rendered with, in words.
    pub name: String,
    path: PathBuf,
    arguments: Vec<String>,
}

impl RenderCase {
    /// What follows `helm template`.
    pub fn arguments(&self, more: &[String]) -> Vec<String> {
        let mut all = vec!["rel".to_owned(), self.path.to_string_lossy().into_owned()];
        all.extend_from_slice(&self.arguments);
        all.extend_from_slice(more);
        all
    }
}

/// What a chart is rendered with.
pub fn cases(root: &Path, chart: &Path, flip: bool) -> Vec<RenderCase> {
    let shown = chart.strip_prefix(root).unwrap_or(chart);
    let shown = if shown.as_os_str().is_empty() {
        Path::new(".")
    } else {
        shown
    };
    let shown = shown.to_string_lossy().into_owned();
    let case = |name: String, arguments: Vec<String>| RenderCase {
        chart: shown.clone(),
        name,
        path: chart.to_path_buf(),
        arguments,
    };
    if flip {
        let flips = flips(chart).into_iter();
        return flips
            .map(|set| case(set.clone(), vec!["--set".to_owned(), set]))
            .collect();
    }
    let mut found = vec![case("defaults".to_owned(), Vec::new())];
    for file in values_files(chart) {
        let name = file.strip_prefix(chart).unwrap_or(&file).to_string_lossy().into_owned();
        found.push(case(name, vec!["-f".to_owned(), file.to_string_lossy().into_owned()]));
    }
    for install in found.clone() {
        let arguments = [install.arguments, vec!["--is-upgrade".to_owned()]].concat();
        found.push(case(format!("{}, upgrade", install.name), arguments));
    }
    found
}

/// The values that a chart's authors try it with, sorted: `ci/*.yaml`, `values-*.yaml`, `values.*.yaml`.
fn values_files(chart: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (folder, prefixes) in [
        (chart.join("ci"), &[""][..]),
        (chart.to_path_buf(), &["values-", "values."]),
    ] {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
            let is_default = ["values.yaml", "values.yml"].contains(&name.as_str()) && path.parent() == Some(chart);
            if is_yaml && !is_default && prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// `path=true` as `--set` wants it, for each boolean that is false in the tables of the chart's values.yaml.
fn flips(chart: &Path) -> Vec<String> {
    let text = fs::read_to_string(chart.join("values.yaml")).unwrap_or_default();
    let mut found = Vec::new();
    if let Ok(values) = values::read(text.as_bytes(), go_yaml::MAX_DEPTH) {
        collect_flips(&values, "", &mut found);
    }
    found
}

fn collect_flips(table: &Map<String, Value>, prefix: &str, found: &mut Vec<String>) {
    for (key, value) in table {
        let mut path = prefix.to_owned();
        for character in key.chars() {
            if ".,=[]{}\\".contains(character) {
                path.push('\\');
            }
            path.push(character);
        }
        match value {
            Value::Bool(false) => found.push(format!("{path}=true")),
            Value::Object(inner) => collect_flips(inner, &format!("{path}."), found),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::tests::folder;

    #[test]
    fn each_values_file_makes_an_install_and_an_upgrade() {
        let files = "Chart.yaml values.yaml values-dev.yaml values.prod.yaml values.schema.json other.yaml";
        let files = files.split(' ').chain(["ci/min-values.yaml"]).map(|name| (name, ""));
        let folder = folder(&files.collect::<Vec<_>>());
        let cases = cases(folder.path(), folder.path(), false);
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let each = ["defaults", "ci/min-values.yaml", "values-dev.yaml", "values.prod.yaml"];
        assert_eq!(names[..4], each);
        assert_eq!(names[4..], each.map(|name| format!("{name}, upgrade")));
        assert_eq!(cases[7].arguments(&["-x".to_owned()])[4..], ["--is-upgrade", "-x"]);
    }

    #[test]
    fn booleans_are_turned_over_by_their_paths() {
        let values = "a: {no1: false, yes1: true}\nb.c: false\nlist: [{d: false}]\ne: {f: {g,h: false}}\n";
        let folder = folder(&[("Chart.yaml", ""), ("values.yaml", values)]);
        let cases = cases(folder.path(), folder.path(), true);
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["a.no1=true", "b\\.c=true", "e.f.h=true"]);
    }
}
