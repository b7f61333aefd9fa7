//! Chart folders. Facts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::chart::load::archive;
use crate::chart::load::ignore::Rules;
use crate::chart::warning::Level;
use crate::chart::{Error, File, Warning};

/// The `Chart.yaml` of the chart folder at the absolute path `root`, also if `.helmignore` excludes it.
pub(crate) fn chart_yaml(root: &Path) -> Result<File, Error> {
    let path = root.join("Chart.yaml");
    match read_whole(&path, archive::MAX_CHART) {
        Ok(data) => Ok(File {
            name: "Chart.yaml".to_owned(),
            data: data.into(),
        }),
        Err(cause) => Err(Error::Chart(format!(
            "unable to detect chart at {}: {cause}",
            path.display()
        ))),
    }
}

/// Reads all files of the chart folder at the absolute path `root` that `.helmignore` leaves in, sorted within each
/// folder.
pub(crate) fn read(root: &Path, warnings: &mut Vec<Warning>) -> Result<Vec<File>, Error> {
    let ignore_file = root.join(".helmignore");
    let text = match read_whole(&ignore_file, archive::MAX_CHART) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) if !ignore_file.exists() => String::new(),
        Err(problem) => return Err(problem),
    };
    let mut walk = FolderWalk {
        rules: Rules::parse(&text)?,
        files: Vec::new(),
        left: archive::MAX_CHART,
        warnings,
    };
    walk.folder(root, root, "", 0)?;
    Ok(walk.files)
}

/// Reads at most `most` bytes of a file.
fn read_whole(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let file = std::fs::File::open(path).map_err(|e| Error::io("open", path, e))?;
    // The usual length of such files.
    let mut data = Vec::with_capacity(4 << 10);
    file.take(most)
        .read_to_end(&mut data)
        .map_err(|e| Error::io("read", path, e))?;
    Ok(data)
}

/// The maximum nesting of folders.
pub(crate) const MAX_DEPTH: usize = 200;

struct FolderWalk<'w> {
    warnings: &'w mut Vec<Warning>,
    rules: Rules,
    files: Vec<File>,
    /// Bytes that the chart may still take.
    left: u64,
}

impl FolderWalk<'_> {
    /// Visits what is in the folder at `path`, which is at `real` without the links that led to it; the names of its
    /// files begin with `prefix`. A link to a parent folder ends as in Helm: the system refuses to follow more links in
    /// one path.
    fn folder(&mut self, path: &Path, real: &Path, prefix: &str, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            let problem = format!(
                "the folders of a chart nest deeper than {MAX_DEPTH} levels: {}",
                path.display()
            );
            return Err(Error::Chart(problem));
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(|e| Error::io("open", path, e))? {
            let entry = entry.map_err(|e| Error::io("readdirent", path, e))?;
            // Most file systems return the type with the name.
            let kind = entry.file_type().map_err(|e| Error::io("lstat", &entry.path(), e))?;
            names.push((entry.file_name(), kind));
        }
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (name, mut kind) in names {
            let (child, mut real) = (path.join(&name), real.join(&name));
            // Bytes of a name that are not UTF-8 are replaced: names are text to templates.
            let relative = format!("{prefix}{}", name.to_string_lossy());
            if kind.is_symlink() {
                real = self.follow(&child, &real)?;
                let info = std::fs::symlink_metadata(&real).map_err(|e| Error::io("lstat", &real, e))?;
                kind = info.file_type();
            }
            if self.rules.ignores(&relative, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                self.folder(&child, &real, &format!("{relative}/"), depth + 1)?;
            } else if kind.is_file() {
                self.file(relative, &child)?;
            } else {
                return Err(Error::Chart(format!(
                    "cannot load irregular file {} as it has file mode type bits set",
                    child.display()
                )));
            }
        }
        Ok(())
    }

    /// Returns the target of the link at `path`.
    fn follow(&mut self, path: &Path, real: &Path) -> Result<PathBuf, Error> {
        let resolved = std::fs::canonicalize(real).map_err(|e| {
            let problem = crate::chart::io_text(&e);
            Error::Chart(format!("error evaluating symlink {}: {problem}", path.display()))
        })?;
        let text = "found symbolic link in path. Contents of linked file included and used";
        let shown = |path: &Path| path.display().to_string();
        let attributes = [("path", shown(path)), ("resolved", shown(&resolved))];
        self.warnings.push(Warning::new(Level::Info, text, attributes));
        Ok(resolved)
    }

    /// Adds the next file.
    fn file(&mut self, name: String, path: &Path) -> Result<(), Error> {
        let refuse = |text: String| Error::Chart(format!("error reading {name}: {text}"));
        let data = read_whole(path, self.left.saturating_add(1)).map_err(|e| refuse(e.to_string()))?;
        self.left = self.left.checked_sub(data.len() as u64).ok_or_else(|| {
            refuse(format!(
                "chart exceeds maximum decompressed size of {} bytes",
                archive::MAX_CHART
            ))
        })?;
        let data = archive::without_bom(&data).into();
        self.files.push(File { name, data });
        Ok(())
    }
}
