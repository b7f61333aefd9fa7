//! A chart on disk -> [`Chart`]: folders and archives, `.helmignore`, metadata, values, dependencies, schema.
//!
//! Everything here follows Helm's own loader (`pkg/chart/loader`, `pkg/chart/v2`, `pkg/chart/common/util`); error
//! texts are those that `helm template` prints, since people search for them.

pub mod dependencies;
mod digest;
pub(crate) mod load;
pub mod metadata;
pub mod schema;
pub mod stamp;
pub mod values;
pub mod version;
pub mod warning;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use go_template::Str;
pub use load::ignore;
use load::{archive, directory, files};
pub use metadata::{Dependency, Maintainer, Metadata};
pub use values::frozen::Frozen;
pub use values::{options, strvals};
pub use warning::Warning;

/// A loaded chart: plain data, immutable, shared between threads by `Arc`.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    pub metadata: Metadata,
    /// Files below `templates/`, named with that prefix, in the loader's order.
    pub templates: Vec<File>,
    /// The content of `.Files`: every file without another role, including `crds/`.
    pub files: Vec<File>,
    /// The chart's `values.yaml`. Every number is a float, as Helm reads them.
    pub values: Frozen,
    /// `values.schema.json`.
    pub schema: Option<schema::Schema>,
    /// The manifests of this chart's own `crds/` folder (`.yaml`, `.yml`, `.json`); never templated.
    pub crds: Vec<File>,
    /// The charts below `charts/`, declared or not, enabled or not.
    pub dependencies: Vec<Chart>,
    /// The log lines of Helm's loader, in order. Empty if the caller collects them ([`Chart::load_logged`]).
    pub warnings: Vec<Warning>,
    digest: OnceLock<String>,
}

/// One file of a chart. Its name is relative to the chart, with `/` between its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub name: String,
    pub data: Str,
}

/// Why a chart can't be loaded or its values can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{op} {path}: {}", io_text(.source))]
    Io {
        op: &'static str,
        path: String,
        source: std::io::Error,
    },
    /// The chart's files are not what Helm accepts.
    #[error("{0}")]
    Chart(String),
    /// `Chart.yaml` lacks or misuses a field.
    #[error("validation: {0}")]
    Metadata(String),
    /// Values that don't fit the chart, or that can't be parsed.
    #[error("{0}")]
    Values(String),
    /// A chart inside `charts/` can't be loaded.
    #[error("error unpacking subchart {name} in {parent}: {source}")]
    Subchart {
        name: String,
        parent: String,
        source: Box<Error>,
    },
}

/// Fetches an `http:` or `https:` URL, for values files and schemas. An error is Helm's message. Only the command line
/// has a client: the renders of an operator must not depend on other servers.
pub type Fetch = Arc<dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync>;

/// The files of the chart at `path`, a folder or an archive, as [`Chart::load`] reads them, for callers that need a
/// text with its comments. Those of subcharts are below `charts/`, or in archives there ([`unpack_files`]).
///
/// # Errors
/// As [`Chart::load`], for what can't be read.
pub fn read_files(path: &Path) -> Result<Vec<File>, Error> {
    let info = std::fs::metadata(path).map_err(|e| Error::io("stat", path, e))?;
    let path = std::path::absolute(path).map_err(|e| Error::io("abs", path, e))?;
    if info.is_dir() {
        return directory::read(&path, &mut Vec::new());
    }
    let data = std::fs::read(&path).map_err(|e| Error::io("open", &path, e))?;
    unpack_files(&path, &data)
}

/// The files of an archive, without the folder around them. `path` is what errors call it.
///
/// # Errors
/// As [`Chart::unpack`], for what can't be read.
pub fn unpack_files(path: &Path, data: &[u8]) -> Result<Vec<File>, Error> {
    let mut left = archive::MAX_UNPACKED;
    archive::read(path, data, &mut left, archive::Special::AsFiles)
}

/// Like [`unpack_files`], for callers that write the files to disk: links and devices, which Helm reads as empty files,
/// are refused.
///
/// # Errors
/// As [`unpack_files`], and an entry that is no plain file.
pub fn unpack_plain_files(path: &Path, data: &[u8]) -> Result<Vec<File>, Error> {
    let mut left = archive::MAX_UNPACKED;
    archive::read(path, data, &mut left, archive::Special::Refused)
}

impl Chart {
    /// Loads a chart from a folder or from a `.tgz` archive.
    ///
    /// Links are followed, byte order marks dropped, `.helmignore` applied (to folders only), a chart's size limited to
    /// 100 MiB. Archives whose paths leave the chart are refused.
    ///
    /// # Errors
    /// [`Error`], with Helm's message.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let chart = Chart::load_logged(path.as_ref(), go_yaml::MAX_DEPTH, &mut warnings)?;
        Ok(Chart { warnings, ..chart })
    }

    /// Like [`load`](Self::load), with values that nest up to `max_depth` levels. The log lines of Helm's loader are
    /// added to `warnings`, also before an error.
    ///
    /// # Errors
    /// As [`load`](Self::load). Errors of a schema are reported when values are checked.
    pub fn load_logged(path: &Path, max_depth: usize, warnings: &mut Vec<Warning>) -> Result<Self, Error> {
        let info = std::fs::metadata(path).map_err(|e| Error::io("stat", path, e))?;
        let path = std::path::absolute(path).map_err(|e| Error::io("abs", path, e))?;
        if info.is_dir() {
            files::check_format(&directory::chart_yaml(&path)?)?;
            let files = directory::read(&path, warnings)?;
            return files::assemble(files, archive::MAX_UNPACKED, max_depth, warnings);
        }
        let data = std::fs::read(&path).map_err(|e| Error::io("open", &path, e))?;
        Chart::unpack_logged(&path, &data, max_depth, warnings)
    }

    /// Loads a chart from the bytes of a `.tgz` archive.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn unpack(data: &[u8]) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let chart = Chart::unpack_logged(Path::new(""), data, go_yaml::MAX_DEPTH, &mut warnings)?;
        Ok(Chart { warnings, ..chart })
    }

    /// Like [`load_logged`](Self::load_logged), from bytes as if they were the content of the file `path`.
    ///
    /// # Errors
    /// As [`load`](Self::load), with `path` in them.
    pub fn unpack_logged(
        path: &Path,
        data: &[u8],
        max_depth: usize,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, Error> {
        let mut left = archive::MAX_UNPACKED;
        let files = archive::read(path, data, &mut left, archive::Special::AsFiles)?;
        let chart_yaml = files.iter().find(|file| file.name == "Chart.yaml");
        let problem = "unable to detect chart version, no Chart.yaml found";
        files::check_format(chart_yaml.ok_or_else(|| Error::Chart(problem.to_owned()))?)?;
        files::assemble(files, left, max_depth, warnings)
    }

    /// Loads a chart from its files, named as in its folder.
    ///
    /// ```
    /// use helm_template::chart::{Chart, File};
    ///
    /// let file = |name: &str, text: &str| File { name: name.to_owned(), data: text.into() };
    /// let chart = Chart::of_files(vec![file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")]).unwrap();
    /// assert_eq!(chart.name(), "web");
    /// ```
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn of_files(files: Vec<File>) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let chart_yaml = files.iter().find(|file| file.name == "Chart.yaml");
        let problem = "Chart.yaml file is missing";
        files::check_format(chart_yaml.ok_or_else(|| Error::Chart(problem.to_owned()))?)?;
        let chart = files::assemble(files, archive::MAX_UNPACKED, go_yaml::MAX_DEPTH, &mut warnings)?;
        Ok(Chart { warnings, ..chart })
    }

    /// The chart's name, as `Chart.yaml` gives it.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// SHA-256 over all data of the chart that renders use, in lower-case hex: charts with equal digests are equal. It
    /// is computed at the first call.
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| digest::digest(self))
    }

    /// The template that renders name as `chart/templates/x.yaml`, those of subcharts as
    /// `chart/charts/sub/templates/x.yaml`.
    pub fn template(&self, source: &str) -> Option<&File> {
        let rest = source.strip_prefix(self.name())?.strip_prefix('/')?;
        match rest.strip_prefix("charts/") {
            Some(rest) => self.dependencies.iter().find_map(|chart| chart.template(rest)),
            None => self.templates.iter().find(|file| file.name == rest),
        }
    }

    /// Whether the chart has a type that can be released. Helm checks this first, before it warns that a chart is
    /// deprecated.
    pub fn has_installable_type(&self) -> bool {
        matches!(self.metadata.kind.as_str(), "" | "application")
    }

    /// Whether only its partials count (`type: library`).
    pub fn is_library(&self) -> bool {
        self.metadata.kind == "library"
    }

    fn is_v1(&self) -> bool {
        self.metadata.api_version == "v1"
    }

    /// Checks that the chart can be released at all, as `helm template` does before it renders.
    ///
    /// # Errors
    /// A library chart; a declared dependency that isn't in `charts/`.
    pub fn check_installable(&self) -> Result<(), Error> {
        self.check_complete(|_| true)
    }

    /// Like [`check_installable`](Self::check_installable), but only some dependencies must be present.
    ///
    /// # Errors
    /// As [`check_installable`](Self::check_installable).
    pub(crate) fn check_complete(&self, is_needed: impl Fn(&Dependency) -> bool) -> Result<(), Error> {
        if !self.has_installable_type() {
            return Err(Error::Chart(format!(
                "{} charts are not installable",
                self.metadata.kind
            )));
        }
        let missing: Vec<&str> = self
            .metadata
            .dependencies
            .iter()
            .filter(|wanted| !self.dependencies.iter().any(|chart| chart.name() == wanted.name) && is_needed(wanted))
            .map(|wanted| wanted.name.as_str())
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::Chart(format!(
            "an error occurred while checking for chart dependencies. You may need to run 'helm dependency build' to fetch \
             missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
            missing.join(", ")
        )))
    }
}

impl Error {
    fn io(op: &'static str, path: &Path, source: std::io::Error) -> Self {
        Error::Io {
            op,
            path: path.display().to_string(),
            source,
        }
    }
}

/// Go's wording of the operating system's commonest errors.
pub fn io_text(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        std::io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        // Go's texts are the C library's, in lower case and without the number.
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error ").next().unwrap_or(&text);
            let mut chars = text.chars();
            chars
                .next()
                .map(|first| first.to_lowercase().chain(chars).collect())
                .unwrap_or_default()
        }
    }
}
