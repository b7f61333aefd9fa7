//! `--output-dir`: manifests as files (`writeToFile` in Helm's `pkg/action/install.go` and `pkg/cmd/template.go`).

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use helm_template::render::{HookManifest, Rendered, StreamOptions, document};

/// The folder that manifests are written to.
pub struct OutputFolder<'a> {
    /// Relative paths start here.
    pub base: &'a Path,
    /// `--output-dir`, as given.
    pub root: &'a str,
    /// The release name, if the files go into a subfolder of that name.
    pub release: Option<&'a str>,
    /// Receives a line per written file.
    pub report: &'a mut Vec<u8>,
}

impl OutputFolder<'_> {
    /// Writes each manifest to a file with the path of its template. Manifests of one template go to the same file.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&mut self, rendered: &Rendered) -> Result<(), String> {
        let mut written: Vec<&str> = Vec::new();
        let root = self.root.to_owned();
        for crd in &rendered.crds {
            self.write_file(
                &root,
                &crd.name,
                &crd.data.to_text(),
                written.contains(&crd.name.as_str()),
            )?;
            written.push(&crd.name);
        }
        let below = self.release_folder();
        for manifest in &rendered.objects {
            let source = manifest.source.as_str();
            self.write_file(&below, source, &manifest.text, written.contains(&source))?;
            written.push(source);
        }
        Ok(())
    }

    /// Writes the hooks. They are appended to existing files, also to those of an earlier run.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_hooks(&mut self, hooks: &[HookManifest], options: StreamOptions) -> Result<(), String> {
        let below = self.release_folder();
        for HookManifest { manifest, .. } in hooks.iter().filter(|hook| options.has(hook)) {
            let exists = self.base.join(&below).join(&manifest.source).exists();
            self.write_file(&below, &manifest.source, &manifest.text, exists)?;
        }
        Ok(())
    }

    /// Returns the folder of the release. Helm prints it without `./`.
    fn release_folder(&self) -> String {
        let Some(name) = self.release else {
            return self.root.to_owned();
        };
        let path = Path::new(self.root).join(name);
        let parts = path.components().filter(|part| *part != Component::CurDir);
        parts.collect::<PathBuf>().display().to_string()
    }

    fn write_file(&mut self, folder: &str, source: &str, text: &str, append: bool) -> Result<(), String> {
        let shown = format!("{folder}/{source}");
        self.write_document(&self.base.join(&shown), source, text, append)
            .map_err(|e| format!("{shown}: {e}"))?;
        self.report.extend_from_slice(format!("wrote {shown}\n").as_bytes());
        Ok(())
    }

    fn write_document(&self, path: &Path, source: &str, text: &str, append: bool) -> io::Result<()> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).append(append).truncate(!append);
        let mut out = String::with_capacity(source.len() + text.len());
        document(&mut out, source, text);
        options.open(path)?.write_all(out.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_release_is_shown_as_by_go() {
        for (root, want) in [("out", "out/web"), ("./out/", "out/web"), ("/a/./b", "/a/b/web")] {
            let report = &mut Vec::new();
            let folder = OutputFolder {
                base: Path::new(""),
                root,
                release: Some("web"),
                report,
            };
            assert_eq!(folder.release_folder(), want);
        }
    }
}
