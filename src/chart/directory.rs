//! Chart folders. Facts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.

use std::fs::FileType;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::ignore::Rules;
use super::{Error, File, Warning, archive};

/// How many parts of paths and links are walked to name what is missing.
const MAX_STEPS: usize = 1000;

/// The longest line that `.helmignore` may have, in bytes: what Go's `bufio.Scanner` takes.
const MAX_LINE: usize = 64 * 1024;

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
    let text = if ignore_file.exists() {
        String::from_utf8_lossy(&read_whole(&ignore_file, archive::MAX_CHART)?).into_owned()
    } else {
        String::new()
    };
    if text.split('\n').any(|line| line.len() >= MAX_LINE) {
        return Err(Error::Chart("bufio.Scanner: token too long".to_owned()));
    }
    let mut walk = Walk {
        rules: Rules::parse(&text)?,
        files: Vec::new(),
        left: archive::MAX_CHART,
        buffer: Vec::new(),
        warnings,
    };
    walk.all(root)?;
    Ok(walk.files)
}

/// Reads a file of at most `most` bytes; of a longer one that much.
fn read_whole(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let file = std::fs::File::open(path).map_err(|e| Error::io("open", path, e))?;
    let mut data = Vec::new();
    file.take(most)
        .read_to_end(&mut data)
        .map_err(|e| Error::io("read", path, e))?;
    Ok(data)
}

/// Where a link leads in the end. An error is the text of Go's `filepath.EvalSymlinks`.
fn resolve(path: &Path) -> Result<PathBuf, String> {
    match std::fs::canonicalize(path) {
        Ok(resolved) => Ok(resolved),
        Err(e) if super::io_text(&e).contains("symbolic links") => Err("EvalSymlinks: too many links".to_owned()),
        Err(e) => Err(format!("lstat {}: {}", missing(path).display(), super::io_text(&e))),
    }
}

/// A folder that is being walked.
struct Level {
    path: PathBuf,
    /// The same without the links that led to it.
    real: PathBuf,
    /// What the names of its files begin with.
    prefix: String,
    /// What is left to visit.
    names: std::vec::IntoIter<(String, FileType)>,
}

struct Walk<'w> {
    warnings: &'w mut Vec<Warning>,
    rules: Rules,
    files: Vec<File>,
    /// Bytes that the chart may still take.
    left: u64,
    /// What files are read into before they are copied to memory of just their size.
    buffer: Vec<u8>,
}

// === impl Level ===

impl Level {
    fn open(path: PathBuf, real: PathBuf, prefix: String) -> Result<Self, Error> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&path).map_err(|e| Error::io("open", &path, e))? {
            let entry = entry.map_err(|e| Error::io("readdirent", &path, e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
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
        let mut open = vec![Level::open(root.to_path_buf(), root.to_path_buf(), String::new())?];
        while let Some(level) = open.last_mut() {
            let Some((name, mut kind)) = level.names.next() else {
                open.pop();
                continue;
            };
            let child = level.path.join(&name);
            let mut real = level.real.join(&name);
            let relative = format!("{}{name}", level.prefix);
            if kind.is_symlink() {
                real = resolve(&real).map_err(|problem| {
                    Error::Chart(format!("error evaluating symlink {}: {problem}", child.display()))
                })?;
                self.warnings.push(Warning::link(&child, &real));
                let info = std::fs::symlink_metadata(&real).map_err(|e| Error::io("lstat", &real, e))?;
                kind = info.file_type();
            }
            if self.rules.ignores(&relative, kind.is_dir()) {
                continue;
            }
            if kind.is_dir() {
                open.push(Level::open(child, real, format!("{relative}/"))?);
            } else {
                self.file(&child, relative, kind)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String, kind: FileType) -> Result<(), Error> {
        if !kind.is_file() {
            return Err(Error::Chart(format!(
                "cannot load irregular file {} as it has file mode type bits set",
                path.display()
            )));
        }
        let refuse = |text: String| Error::Chart(format!("error reading {name}: {text}"));
        self.buffer.clear();
        // One byte more tells whether it is too much.
        std::fs::File::open(path)
            .and_then(|file| file.take(self.left.saturating_add(1)).read_to_end(&mut self.buffer))
            .map_err(|e| refuse(Error::io("open", path, e).to_string()))?;
        self.left = self.left.checked_sub(self.buffer.len() as u64).ok_or_else(|| {
            refuse(format!(
                "chart exceeds maximum decompressed size of {} bytes",
                archive::MAX_CHART
            ))
        })?;
        self.files.push(File {
            name,
            data: archive::without_bom(&self.buffer).into(),
        });
        Ok(())
    }
}

/// The first part of a link's way that isn't there, as Go's `EvalSymlinks` names it.
fn missing(link: &Path) -> PathBuf {
    let parts = |path: &Path| -> Vec<PathBuf> {
        let parts = path.components().rev();
        parts.map(|part| PathBuf::from(part.as_os_str())).collect()
    };
    let mut at = PathBuf::new();
    let mut rest = parts(link);
    for _ in 0..MAX_STEPS {
        let Some(part) = rest.pop() else { break };
        if part == Path::new("..") {
            at.pop();
            continue;
        }
        // An absolute part, with which every absolute target begins, replaces what was walked so far.
        at.push(part);
        if let Ok(target) = std::fs::read_link(&at) {
            rest.extend(parts(&target));
            at.pop();
        } else if std::fs::symlink_metadata(&at).is_err() {
            break;
        }
    }
    at
}
