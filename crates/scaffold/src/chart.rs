//! The chart of a kind: its files, and what becomes of the folder in the project that they belong into.

mod files;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::api::project_watches;
use super::layout::CHART;
use super::names::check_chart_name;
use super::printable::to_yaml;
use super::project::Project;
use super::tree::{chart_key, is_as_written};
use files::Links;
use helm_template::chart::{self, Chart, File};

/// The files of a chart, as they lie in its folder.
#[derive(Debug)]
pub struct ChartFiles {
    /// A folder may have this name: [`check_chart_name`] holds.
    pub name: String,
    pub files: Vec<File>,
}

/// A chart, and what its folder in the project lacks.
#[derive(Debug)]
pub struct Placed {
    /// As it lies there when all is written.
    pub chart: ChartFiles,
    /// The folder, within the project.
    pub folder: PathBuf,
    pub written: Vec<File>,
    /// Files of the project that the chart doesn't have.
    pub removed: Vec<PathBuf>,
    /// The digest of the chart as it came, which PROJECT keeps; `None` where no chart came.
    pub digest: Option<String>,
}

impl ChartFiles {
    /// A chart of a kind that has none yet.
    ///
    /// # Errors
    /// The name can't be one.
    pub fn fresh(name: &str) -> anyhow::Result<Self> {
        check_chart_name(name)?;
        let about = json!({
            "apiVersion": "v2", "name": name, "type": "application", "version": "0.1.0", "appVersion": "1.27",
            "description": format!("What a {name} is made of"),
        });
        let file = |name: &str, text: &str| File {
            name: name.to_owned(),
            data: text.into(),
        };
        let about = file("Chart.yaml", &to_yaml(&about)?);
        let files = CHART.iter().map(|(name, text)| file(name, text));
        Ok(ChartFiles {
            name: name.to_owned(),
            files: [about].into_iter().chain(files).collect(),
        })
    }

    /// Writes the chart's files into a folder.
    ///
    /// # Errors
    /// A file or folder cannot be written.
    pub fn write_into(&self, folder: &Path) -> std::io::Result<()> {
        for file in &self.files {
            let path = folder.join(&file.name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, file.data.as_bytes())?;
        }
        Ok(())
    }

    /// The chart in a folder, or a `.tgz` archive.
    ///
    /// # Errors
    /// There is no chart, it can't be read, or it leads out of its folder.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        if !path.is_dir() {
            let data = fs::read(path).with_context(|| shown.clone())?;
            return ChartFiles::of_archive(&shown, &data);
        }
        if !path.join("Chart.yaml").exists() {
            // Helm's words for it.
            Chart::load(path)?;
        }
        let files = files::read_folder(path, Links::Within)?;
        // What a .helmignore names may be no part of a chart that can be loaded.
        let about = files.iter().filter(|file| file.name == "Chart.yaml").cloned();
        let chart = Chart::of_files(about.collect()).with_context(|| shown.clone())?;
        ChartFiles::named(&shown, chart, files)
    }

    /// The chart in an archive, which errors call so.
    ///
    /// # Errors
    /// There is no chart in it, or it can't be written into a project as it is.
    pub fn of_archive(shown: &str, data: &[u8]) -> anyhow::Result<Self> {
        let files = chart::unpack_plain_files(Path::new(shown), data)?;
        let files = files::checked(files).with_context(|| shown.to_owned())?;
        let chart = Chart::of_files(files.clone()).with_context(|| shown.to_owned())?;
        ChartFiles::named(shown, chart, files)
    }

    fn named(shown: &str, chart: Chart, files: Vec<File>) -> anyhow::Result<Self> {
        let name = chart.metadata.name;
        check_chart_name(&name).with_context(|| format!("{shown}: Chart.yaml"))?;
        Ok(ChartFiles { name, files })
    }

    /// The chart that these files make.
    ///
    /// # Errors
    /// They make none.
    pub fn load(&self) -> anyhow::Result<Chart> {
        Ok(Chart::of_files(self.files.clone())?)
    }

    /// What becomes of its folder in the project. Without `force`, what lies there stays: only what it lacks is written. A chart
    /// that isn't `given` is for who has none there.
    ///
    /// # Errors
    /// Another chart lies there.
    pub fn into_place(self, project: &Project, is_given: bool, force: bool) -> anyhow::Result<Placed> {
        let folder = Path::new(project.charts()).join(&self.name);
        let place = project.root.join(&folder);
        let digest = self.digest();
        let placed = |chart: ChartFiles, written, removed| Placed {
            chart,
            folder: folder.clone(),
            written,
            removed,
            digest: Some(digest.clone()),
        };
        if !place.join("Chart.yaml").exists() {
            let written = self.files.clone();
            return Ok(placed(self, written, Vec::new()));
        }
        let present = files::read_folder(&place, Links::Followed)?;
        let mut chart = ChartFiles {
            name: self.name.clone(),
            files: present,
        };
        if !is_given {
            return Ok(Placed {
                digest: None,
                ..placed(chart, Vec::new(), Vec::new())
            });
        }
        let known: BTreeMap<&str, &File> = chart.files.iter().map(|file| (file.name.as_str(), file)).collect();
        let is_there = |file: &&File| {
            known
                .get(file.name.as_str())
                .is_some_and(|known| known.data == file.data)
        };
        let due: Vec<File> = self.files.iter().filter(|file| !is_there(file)).cloned().collect();
        let record = project.written();
        let is_gone = |file: &&File| !self.files.iter().any(|own| own.name == file.name);
        let gone: Vec<&File> = chart.files.iter().filter(is_gone).collect();
        let path_of = |file: &File| folder.join(&file.name);
        if force {
            let removed = gone.into_iter().map(path_of).collect();
            return Ok(placed(self, due, removed));
        }
        // If the same chart was written last, what differs was edited by hand, or added.
        let last = record.get(&chart_key(&folder));
        let is_same = last.is_some_and(|last| *last == digest);
        // Earlier versions kept the digest of each file.
        let is_other = |file: &&File| {
            known.contains_key(file.name.as_str())
                && !is_same
                && !is_as_written(&record, &path_of(file), file.data.as_bytes())
        };
        let was_ours = |file: &&&File| match last {
            Some(_) => !is_same,
            None => record.contains_key(path_of(file).to_string_lossy().as_ref()),
        };
        let other = due.iter().find(is_other).or(gone.iter().find(was_ours).copied());
        if let Some(other) = other {
            return Err(self.refused(project, &folder, other, due.len(), gone.len()));
        }
        let lacks = due
            .iter()
            .filter(|file| !known.contains_key(file.name.as_str()))
            .cloned();
        let lacks: Vec<File> = lacks.collect();
        chart.files.extend(lacks);
        Ok(placed(chart, due, Vec::new()))
    }

    /// A digest of all files.
    fn digest(&self) -> String {
        let mut files: Vec<&File> = self.files.iter().collect();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let mut hash = Sha256::new();
        for file in files {
            for part in [file.name.as_bytes(), file.data.as_bytes()] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        let digest = hash.finalize();
        data_encoding::HEXLOWER.encode(digest.get(..8).unwrap_or(&digest))
    }

    /// Why a chart doesn't go to the place of another one, and what would happen.
    fn refused(&self, project: &Project, folder: &Path, file: &File, due: usize, gone: usize) -> anyhow::Error {
        let place = project.root.join(folder);
        let named = |chart: anyhow::Result<Chart>| match chart {
            Ok(chart) => format!("{} {}", chart.metadata.name, chart.metadata.version),
            Err(_) => "a chart that can't be read".to_owned(),
        };
        let (there, here) = (named(Chart::load(&place).map_err(Into::into)), named(self.load()));
        let shown = folder.display();
        let found = if there == here {
            format!("{shown} has another {here}: {} differs", file.name)
        } else {
            format!("{shown} has {there} and not {here}")
        };
        let watches = project_watches(project).unwrap_or_default();
        let kinds: Vec<String> = watches
            .iter()
            .filter(|watch| watch.chart == place)
            .map(|watch| watch.group_kind())
            .collect();
        let kinds = if kinds.is_empty() {
            String::new()
        } else {
            format!(", which {} is made from", kinds.join(", "))
        };
        anyhow!(
            "{found}; --force replaces the folder{kinds}, and what was edited by hand: {due} files are written and {gone} removed"
        )
    }
}
