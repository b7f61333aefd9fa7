//! The charts to try, what each is installed with, and what it is upgraded to.

use std::cmp::Ordering;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use chartwright::cli::chart::template::{CapturedOutput, run_captured};
use helm_template::chart::{Chart, values};
use serde_json::{Map, Value};

use crate::find;

/// One chart to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartCase {
    /// The chart's path below the folder that was searched.
    pub shown: String,
    pub version: String,
    pub path: PathBuf,
    /// The next version, if there is one.
    pub upgrade: Option<(String, PathBuf)>,
}

/// What is known of a chart that was found.
struct FoundChart {
    /// Its path below the folder, a part each.
    parts: Vec<String>,
    path: PathBuf,
    name: String,
    version: String,
}

/// The charts below a folder that can be installed. One that can't be loaded is one of them: the operator has to say so.
pub fn cases(root: &Path, only: &[String]) -> io::Result<Vec<ChartCase>> {
    let all: Vec<FoundChart> = find::find(root, only)?
        .into_iter()
        .filter_map(|path| FoundChart::load(root, path))
        .collect();
    Ok(all.iter().map(|chart| chart.case(&all)).collect())
}

impl FoundChart {
    fn load(root: &Path, path: PathBuf) -> Option<FoundChart> {
        let chart = Chart::load(&path).unwrap_or_default();
        let below = path.strip_prefix(root).unwrap_or(&path);
        let parts = below.iter().map(|part| part.to_string_lossy().into_owned());
        (!chart.is_library()).then(|| FoundChart {
            parts: parts.collect(),
            name: chart.metadata.name.clone(),
            version: chart.metadata.version.clone(),
            path: path.clone(),
        })
    }

    fn case(&self, all: &[FoundChart]) -> ChartCase {
        let later = all.iter().filter(|other| self.is_beside(other));
        let later = later.filter(|other| compare(&other.version, &self.version) == Ordering::Greater);
        let next = later.min_by(|a, b| compare(&a.version, &b.version));
        ChartCase {
            shown: if self.parts.is_empty() {
                ".".to_owned()
            } else {
                self.parts.join("/")
            },
            version: self.version.clone(),
            path: self.path.clone(),
            upgrade: next.map(|next| (next.version.clone(), next.path.clone())),
        }
    }

    /// Whether it is a chart of the same name whose path differs in one part.
    fn is_beside(&self, other: &FoundChart) -> bool {
        let differ = self.parts.iter().zip(&other.parts).filter(|(a, b)| a != b).count();
        !self.name.is_empty() && self.name == other.name && self.parts.len() == other.parts.len() && differ == 1
    }
}

/// Compares versions by their numbers.
fn compare(a: &str, b: &str) -> Ordering {
    let numbers = |version: &str| -> Vec<u64> {
        let parts = version.split(|c: char| !c.is_ascii_digit());
        parts.filter_map(|part| part.parse().ok()).collect()
    };
    numbers(a).cmp(&numbers(b))
}

/// Renders a chart as the release `rel`, without the operator. `kubernetes`: the version of the API server.
pub fn template(chart: &Path, values: &TrialValues, namespace: &str, kubernetes: &str) -> CapturedOutput {
    let path = chart.to_string_lossy();
    let mut words = vec!["rel", &path, "--namespace", namespace, "--kube-version", kubernetes];
    if !values.is_empty() {
        words.extend(["-f", "-"]);
    }
    run_captured(
        &words,
        Value::Object(values.clone()).to_string().as_bytes(),
        Path::new("/"),
    )
}

/// What a custom resource has for its spec.
pub type TrialValues = Map<String, Value>;

/// What a chart is installed with, and the file that it comes from: nothing if the default values render, or if no
/// ci/*-values.yaml does.
pub fn values(chart: &Path, kubernetes: &str) -> (TrialValues, Option<String>) {
    let renders = |values: &TrialValues| template(chart, values, "default", kubernetes).code == 0;
    if renders(&TrialValues::new()) {
        return (TrialValues::new(), None);
    }
    for file in ci_values(chart) {
        let text = fs::read(&file).unwrap_or_default();
        let Ok(values) = values::read(&text, go_yaml::MAX_DEPTH) else {
            continue;
        };
        if renders(&values) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            return (values, Some(format!("ci/{name}")));
        }
    }
    (TrialValues::new(), None)
}

fn ci_values(chart: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(chart.join("ci")).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with("-values.yaml"));
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(folder: &Path, path: &str, text: &str) {
        let folder = folder.join(path);
        fs::create_dir_all(folder.join("ci")).unwrap();
        fs::create_dir_all(folder.join("templates")).unwrap();
        fs::write(folder.join("Chart.yaml"), format!("apiVersion: v2\n{text}")).unwrap();
    }

    #[test]
    fn the_next_version_lies_in_one_other_folder() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("old/web", "name: web\nversion: 1.9.0\n"),
            ("new/web", "name: web\nversion: 1.10.0\n"),
            ("newest/web", "name: web\nversion: 2.0.0\n"),
            ("newest/db", "name: db\nversion: 3.0.0\n"),
            ("elsewhere/other", "name: web\nversion: 1.9.5\n"),
            ("new/common", "name: common\nversion: 1.0.0\ntype: library\n"),
        ] {
            chart(folder.path(), path, text);
        }
        let cases = cases(folder.path(), &[]).unwrap();
        let upgrades = cases.iter().map(|case| {
            let version = case.upgrade.as_ref().map(|(version, _)| version.as_str());
            (case.shown.as_str(), version)
        });
        let expected = [
            ("elsewhere/other", None),
            ("new/web", Some("2.0.0")),
            ("newest/db", None),
            ("newest/web", None),
            ("old/web", Some("1.10.0")),
        ];
        assert_eq!(upgrades.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn values_are_taken_where_the_defaults_dont_render() {
        let folder = tempfile::tempdir().unwrap();
        chart(folder.path(), "a", "name: a\nversion: 1.0.0\n");
        let path = folder.path().join("a");
        let template = "data: {{ required \"size is missing\" .Values.size }}\n";
        fs::write(path.join("templates/a.yaml"), template).unwrap();
        assert_eq!(values(&path, "1.34.0"), (TrialValues::new(), None));
        for (name, text) in [
            ("a-values.yaml", "other: 1\n"),
            ("b-values.yaml", "size: 3\n"),
            ("c.yaml", "size: 4\n"),
        ] {
            fs::write(path.join("ci").join(name), text).unwrap();
        }
        let (found, file) = values(&path, "1.34.0");
        assert_eq!(
            (Value::Object(found)["size"].as_f64(), file.as_deref()),
            (Some(3.0), Some("ci/b-values.yaml"))
        );
    }
}
