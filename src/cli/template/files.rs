//! `--output-dir`: manifests as files (`writeToFile` in Helm's `pkg/action/install.go` and `pkg/cmd/template.go`).

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use crate::chart::io_text;
use crate::render::{Hook, Rendered, StreamOptions, bytes, document};

/// Where files go, and what was written so far.
pub struct Folder<'a> {
    /// What relative paths start from.
    pub base: &'a Path,
    /// `--output-dir`, as given.
    pub root: &'a str,
    /// The release's name, if the files go below a folder of that name.
    pub release: Option<&'a str>,
    /// A line for each file that is written.
    pub report: &'a mut Vec<u8>,
}

impl Folder<'_> {
    /// Writes each manifest to the file that its template is called, several of one template to the same file.
    ///
    /// # Errors
    /// The first file that can't be written, in Go's words.
    pub fn write(&mut self, rendered: &Rendered) -> Result<(), String> {
        let mut written: Vec<&str> = Vec::new();
        let root = self.root.to_owned();
        for crd in &rendered.crds {
            self.file(&root, &crd.name, &crd.data, written.contains(&crd.name.as_str()))?;
            written.push(&crd.name);
        }
        let below = self.below();
        for manifest in &rendered.objects {
            self.file(
                &below,
                &manifest.source,
                &bytes::of_text(&manifest.text),
                written.contains(&manifest.source.as_str()),
            )?;
            written.push(&manifest.source);
        }
        Ok(())
    }

    /// Writes the hooks. They are appended to what is there, even from an earlier run.
    ///
    /// # Errors
    /// The first file that can't be written.
    pub fn write_hooks(&mut self, hooks: &[Hook], options: StreamOptions) -> Result<(), String> {
        let below = self.below();
        for hook in hooks.iter().filter(|hook| options.has(hook)) {
            let exists = self.base.join(&below).join(&hook.manifest.source).exists();
            self.file(
                &below,
                &hook.manifest.source,
                &bytes::of_text(&hook.manifest.text),
                exists,
            )?;
        }
        Ok(())
    }

    fn below(&self) -> String {
        match self.release {
            Some(name) => clean_path(&format!("{}/{name}", self.root)),
            None => self.root.to_owned(),
        }
    }

    fn file(&mut self, folder: &str, source: &str, text: &[u8], append: bool) -> Result<(), String> {
        let shown = format!("{folder}/{source}");
        let path = self.base.join(&shown);
        let parent = clean_path(shown.rsplit_once('/').map_or(".", |(parent, _)| parent));
        if let Err(e) = std::fs::metadata(self.base.join(&parent))
            && e.kind() != io::ErrorKind::NotFound
        {
            return Err(format!("stat {parent}: {}", io_text(&e)));
        }
        make_folders(self.base, &parent)?;
        let wrap = |e: io::Error| format!("open {shown}: {}", io_text(&e));
        let mut options = OpenOptions::new();
        options.write(true).append(append);
        if !append {
            options.create(true).truncate(true);
        }
        let mut file = options.open(&path).map_err(wrap)?;
        let mut out = Vec::with_capacity(source.len() + text.len());
        document(&mut out, source, text);
        file.write_all(&out).map_err(wrap)?;
        self.report.extend_from_slice(format!("wrote {shown}\n").as_bytes());
        Ok(())
    }
}

/// Go's `os.MkdirAll`, which names the first part of the path that can't be made.
fn make_folders(base: &Path, folder: &str) -> Result<(), String> {
    let path = base.join(folder);
    if path.exists() && !path.is_dir() {
        return Err(format!("mkdir {folder}: not a directory"));
    }
    std::fs::create_dir_all(path).map_err(|e| {
        let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
        let mut parts = ends.filter_map(|end| folder.get(..end)).filter(|part| !part.is_empty());
        let at = parts.find(|part| !base.join(part).is_dir()).unwrap_or(folder);
        format!("mkdir {at}: {}", io_text(&e))
    })
}

/// Go's `filepath.Clean`, which `filepath.Join` applies.
pub fn clean_path(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            ("..", None) if rooted => {}
            _ => parts.push(part),
        }
    }
    match (rooted, parts.join("/")) {
        (true, rest) => format!("/{rest}"),
        (false, rest) if rest.is_empty() => ".".to_owned(),
        (false, rest) => rest,
    }
}

#[cfg(test)]
mod tests {
    use super::clean_path;

    #[test]
    fn paths_are_cleaned_as_by_go() {
        let table = [
            ("./a//b/", "a/b"),
            ("a/../..", ".."),
            ("/../a", "/a"),
            ("", "."),
            ("../x/.", "../x"),
        ];
        for (path, want) in table {
            assert_eq!(clean_path(path), want, "{path}");
        }
    }
}
