//! Charts and `watches.yaml` of a world.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::World;

impl World {
    /// Replaces the default chart.
    pub fn use_chart(self, chart: &str) -> Result<Self> {
        fs::remove_dir_all(self.chart())?;
        copy_folder(&fixture(chart), &self.chart())?;
        Ok(self)
    }

    /// Copies a second chart from a folder of tests/fixtures/integration.
    pub fn second_chart(&self, chart: &str) -> Result<PathBuf> {
        let folder = self.dir.path().join(chart);
        copy_folder(&fixture(chart), &folder)?;
        Ok(folder)
    }

    /// Adds or replaces a template of the chart.
    pub fn write_template(&self, file: &str, text: &str) -> Result<()> {
        fs::write(self.chart().join("templates").join(file), text)?;
        Ok(())
    }

    /// Adds a template of tests/fixtures/integration/templates to the chart.
    pub fn add_template(&self, file: &str) -> Result<()> {
        self.write_template(file, &fs::read_to_string(fixture("templates").join(file))?)
    }

    /// The world's copy of the chart, which a test can change.
    pub fn chart(&self) -> PathBuf {
        self.dir.path().join("chart")
    }

    /// Writes another chart, from file names and texts of templates.
    pub fn write_chart(&self, name: &str, templates: &[(&str, &str)]) -> Result<PathBuf> {
        let folder = self.dir.path().join(name);
        fs::create_dir_all(folder.join("templates"))?;
        let about = format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n");
        fs::write(folder.join("Chart.yaml"), about)?;
        for (file, text) in templates {
            fs::write(folder.join("templates").join(file), text)?;
        }
        Ok(folder)
    }

    /// Adds a key to the watch of `Widget`, for example `selector: {matchLabels: {a: b}}`.
    pub fn watch_key(mut self, yaml: &str) -> Self {
        self.watch_keys.push(yaml.to_owned());
        self
    }

    /// Writes `watches.yaml`: `Widget` and its chart, with the extra keys.
    pub fn write_watches(&self) -> Result<()> {
        let keys: Vec<&str> = self.watch_keys.iter().map(String::as_str).collect();
        self.write_watches_of(&[("Widget", &self.chart(), &keys)])
    }

    /// Writes `watches.yaml`: kinds of this world, each with its chart and further keys.
    pub fn write_watches_of(&self, watches: &[(&str, &Path, &[&str])]) -> Result<()> {
        let mut text = String::new();
        for (kind, chart, keys) in watches {
            let (group, chart) = (self.group(), chart.display());
            text += &format!("- group: {group}\n  version: v1\n  kind: {kind}\n  chart: {chart}\n");
            for line in keys.iter().flat_map(|key| key.lines()) {
                text += &format!("  {line}\n");
            }
        }
        fs::write(self.watches_file(), text)?;
        Ok(())
    }

    pub fn watches_file(&self) -> PathBuf {
        self.dir.path().join("watches.yaml")
    }
}

/// The default chart of the tests.
pub fn widget_chart() -> PathBuf {
    fixture("chart")
}

/// The chart whose values are hooks and the steps of plans.
pub fn staged_chart() -> PathBuf {
    fixture("staged")
}

pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/integration")).join(name)
}

pub(super) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?
        } else {
            fs::copy(entry.path(), target).map(drop)?
        }
    }
    Ok(())
}
