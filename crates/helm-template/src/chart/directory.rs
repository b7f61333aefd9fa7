//! Chart folders. Facts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.

use std::ffi::OsString;
use std::fs::FileType;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::ignore::Rules;
use super::{Error, File, Warning, archive};

/// The `Chart.yaml` of the chart folder at the absolute path `root`, whatever `.helmignore` says.
pub(super) fn chart_yaml(root: &Path) -> Result<File, Error> {
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
pub(super) fn read(root: &Path, warnings: &mut Vec<Warning>) -> Result<Vec<File>, Error> {
    let ignore_file = root.join(".helmignore");
    let text = match read_whole(&ignore_file, archive::MAX_CHART) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) if !ignore_file.exists() => String::new(),
        Err(problem) => return Err(problem),
    };
    let mut walk = Walk {
        rules: Rules::parse(&text)?,
        files: Vec::new(),
        left: archive::MAX_CHART,
        warnings,
    };
    walk.all(root)?;
    Ok(walk.files)
}

/// Reads a file of at most `most` bytes; of a longer one that much.
fn read_whole(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let file = std::fs::File::open(path).map_err(|e| Error::io("open", path, e))?;
    // As long as such files usually are.
    let mut data = Vec::with_capacity(4 << 10);
    file.take(most)
        .read_to_end(&mut data)
        .map_err(|e| Error::io("read", path, e))?;
    Ok(data)
}

/// A folder that is being walked.
struct Level {
    path: PathBuf,
    /// The same without the links that led to it.
    real: PathBuf,
    /// What the names of its files begin with.
    prefix: String,
    /// What is left to visit.
    names: std::vec::IntoIter<(OsString, FileType)>,
}

struct Walk<'w> {
    warnings: &'w mut Vec<Warning>,
    rules: Rules,
    files: Vec<File>,
    /// Bytes that the chart may still take.
    left: u64,
}

// === impl Level ===

impl Level {
    fn open(path: PathBuf, real: PathBuf, prefix: String) -> Result<Self, Error> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(|e| Error::io("open", &path, e))? {
            let entry = entry.map_err(|e| Error::io("readdirent", &path, e))?;
            let name = entry.file_name();
            // Most file systems tell the type along with the name.
            let kind = entry
                .file_type()
                .map_err(|e| Error::io("lstat", &path.join(&name), e))?;
            names.push((name, kind));
        }
        names.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Level {
            path,
            real,
            prefix,
            names: names.into_iter(),
        })
    }
}

// === impl Walk ===

impl Walk<'_> {
    /// Visits what is below a folder. A link to a folder around it ends as with Helm: where the system has followed
    /// enough links in one path.
    fn all(&mut self, root: &Path) -> Result<(), Error> {
        let level = Level::open(root.to_path_buf(), root.to_path_buf(), String::new())?;
        let mut open = vec![level];
        while let Some(level) = open.last_mut() {
            let Some((name, mut kind)) = level.names.next() else {
                open.pop();
                continue;
            };
            let child = level.path.join(&name);
            let mut real = None;
            // What isn't UTF-8 in a name is replaced: names are text to templates.
            let relative = format!("{}{}", level.prefix, name.to_string_lossy());
            if kind.is_symlink() {
                let resolved = std::fs::canonicalize(level.real.join(&name)).map_err(|e| {
                    let problem = super::io_text(&e);
                    Error::Chart(format!("error evaluating symlink {}: {problem}", child.display()))
                })?;
                self.warnings.push(Warning::link(&child, &resolved));
                let info = std::fs::symlink_metadata(&resolved).map_err(|e| Error::io("lstat", &resolved, e))?;
                kind = info.file_type();
                real = Some(resolved);
            }
            if self.rules.ignores(&relative, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                let real = real.unwrap_or_else(|| level.real.join(&name));
                open.push(Level::open(child, real, format!("{relative}/"))?);
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

    /// Takes in the next file.
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
