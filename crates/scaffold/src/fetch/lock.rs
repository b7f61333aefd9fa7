//! `Chart.lock`: the versions that a chart's dependencies were resolved to. Facts: Helm's `internal/resolver/resolver.go`.

use anyhow::{Context as _, anyhow, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::archive::digest;
use helm_template::chart::{Dependency, File, Metadata};

/// What a chart's dependencies were resolved to, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChartLock {
    #[serde(default)]
    dependencies: Vec<Locked>,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    generated: String,
}

/// A dependency, as Helm writes it: into the lock, and where it makes digests of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub repository: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
}

/// The same in the order of Go's fields, which the digest depends on.
#[derive(Serialize)]
struct LockFields<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    version: &'a str,
    repository: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    condition: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    enabled: bool,
    #[serde(rename = "import-values", skip_serializing_if = "<[_]>::is_empty")]
    import_values: &'a [Value],
    #[serde(skip_serializing_if = "str::is_empty")]
    alias: &'a str,
}

impl ChartLock {
    /// The name of the file that a chart keeps its lock in.
    pub fn file_name(chart: &Metadata) -> &'static str {
        match chart.api_version.as_str() {
            "v1" => "requirements.lock",
            _ => "Chart.lock",
        }
    }

    /// The lock of a chart with these dependencies, whose repositories are addresses.
    ///
    /// # Errors
    /// It can't be read, or was made for other dependencies.
    pub fn read(files: &[File], chart: &Metadata, dependencies: &[Dependency]) -> anyhow::Result<Option<Self>> {
        let name = ChartLock::file_name(chart);
        let Some(file) = files.iter().find(|file| file.name == name) else {
            return Ok(None);
        };
        let lock = go_yaml::to_json(&file.data).map_err(|error| anyhow!("{error}"));
        let lock = lock
            .and_then(|lock| Ok(serde_json::from_value::<ChartLock>(lock)?))
            .with_context(|| name)?;
        // Helm 2 made the digest from requirements.yaml.
        let is_of_helm_2 = chart.api_version == "v1" && lock.digest == former_sum(&chart.dependencies)?;
        ensure!(
            is_of_helm_2 || lock.digest == sum(dependencies, &lock.dependencies)?,
            "the lock file ({name}) is out of sync with the dependencies file (Chart.yaml): run `helm dependency update`"
        );
        Ok(Some(lock))
    }

    /// The lock of dependencies that were resolved just now.
    ///
    /// # Errors
    /// None that can be met.
    pub fn new(dependencies: &[Dependency], locked: Vec<Locked>) -> anyhow::Result<Self> {
        Ok(ChartLock {
            digest: sum(dependencies, &locked)?,
            dependencies: locked,
            generated: jiff::Timestamp::now().to_string(),
        })
    }

    /// The version of a chart's dependency at that place.
    pub fn version(&self, at: usize, name: &str) -> Option<&str> {
        let same_place = self.dependencies.get(at).filter(|locked| locked.name == name);
        let locked = same_place.or_else(|| self.dependencies.iter().find(|locked| locked.name == name));
        locked.map(|locked| locked.version.as_str())
    }
}

fn fields(dependency: &Dependency) -> LockFields<'_> {
    LockFields {
        name: &dependency.name,
        version: &dependency.version,
        repository: &dependency.repository,
        condition: &dependency.condition,
        tags: &dependency.tags,
        enabled: dependency.enabled,
        import_values: &dependency.import_values,
        alias: &dependency.alias,
    }
}

/// Helm's `HashReq`
fn sum(dependencies: &[Dependency], locked: &[Locked]) -> anyhow::Result<String> {
    let locked: Vec<Dependency> = locked
        .iter()
        .map(|locked| Dependency {
            name: locked.name.clone(),
            version: locked.version.clone(),
            repository: locked.repository.clone(),
            ..Dependency::default()
        })
        .collect();
    let lists: [Vec<LockFields<'_>>; 2] = [
        dependencies.iter().map(fields).collect(),
        locked.iter().map(fields).collect(),
    ];
    hash(&lists)
}

/// Helm's `HashV2Req`
fn former_sum(dependencies: &[Dependency]) -> anyhow::Result<String> {
    let list: Vec<LockFields<'_>> = dependencies.iter().map(fields).collect();
    hash(&std::collections::BTreeMap::from([("dependencies", list)]))
}

/// The digest of JSON as Go writes it, which escapes what HTML knows.
fn hash(value: &impl Serialize) -> anyhow::Result<String> {
    let mut text = serde_json::to_string(value)?;
    for (plain, escaped) in [
        ("<", "\\u003c"),
        (">", "\\u003e"),
        ("&", "\\u0026"),
        ("\u{2028}", "\\u2028"),
        ("\u{2029}", "\\u2029"),
    ] {
        text = text.replace(plain, escaped);
    }
    Ok(format!("sha256:{}", digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::chart::ChartFiles;

    /// What the real Helm has locked.
    #[test]
    fn locks_of_helm_are_read() {
        #[derive(Deserialize)]
        struct Case {
            chart: String,
            requirements: String,
            lock: String,
        }
        let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/fetch/locks.json");
        let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(cases).unwrap()).unwrap();
        assert!(cases.len() >= 3);
        for case in cases {
            let load = |chart: &str, requirements: &str| {
                let file = |name: &str, text: &str| File {
                    name: name.to_owned(),
                    data: text.into(),
                };
                let mut files = vec![file("Chart.yaml", chart)];
                let name = match requirements {
                    "" => "Chart.lock",
                    text => {
                        files.push(file("requirements.yaml", text));
                        "requirements.lock"
                    }
                };
                files.push(file(name, &case.lock));
                let files = ChartFiles {
                    name: "shop".to_owned(),
                    files,
                };
                let metadata = files.load().unwrap().metadata;
                ChartLock::read(&files.files, &metadata, &metadata.dependencies)
            };
            let lock = load(&case.chart, &case.requirements).unwrap().unwrap();
            assert!(
                lock.version(0, "common")
                    .is_some_and(|version| version.starts_with("0."))
            );
            assert_eq!(lock.version(0, "other"), None);
            let edited = |text: &str| text.replace("name: common", "name: command");
            let error = load(&edited(&case.chart), &edited(&case.requirements))
                .unwrap_err()
                .to_string();
            assert!(error.contains("out of sync"), "{error}");
        }
    }

    #[test]
    fn a_lock_is_written_as_helm_does() {
        let locked = Locked {
            name: "a".to_owned(),
            repository: "https://a".to_owned(),
            version: "1.0.0".to_owned(),
        };
        let text = serde_yaml::to_string(&ChartLock::new(&[], vec![locked]).unwrap()).unwrap();
        let want = "dependencies:\n- name: a\n  repository: https://a\n  version: 1.0.0\ndigest: sha256:";
        assert!(text.starts_with(want), "{text}");
    }
}
