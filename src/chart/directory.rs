//! Chart folders. Facts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::ignore::Rules;
use super::{Error, File, archive};

/// How deep folders may nest; a link to a parent folder would otherwise recurse until the path is too long.
const MAX_DEPTH: usize = 100;
/// How many parts of paths and links are walked to name what is missing.
const MAX_STEPS: usize = 1000;

/// Reads all files of a chart folder that `.helmignore` leaves in, sorted within each folder.
pub(super) fn read(root: &Path) -> Result<Vec<File>, Error> {
    let root = std::path::absolute(root).map_err(|e| Error::io("abs", root, e))?;
    let chart_yaml = root.join("Chart.yaml");
    if let Err(e) = std::fs::File::open(&chart_yaml) {
        let cause = Error::io("open", &chart_yaml, e);
        return Err(Error::Chart(format!(
            "unable to detect chart at {}: {cause}",
            chart_yaml.display()
        )));
    }
    let ignore_file = root.join(".helmignore");
    let text = match std::fs::read(&ignore_file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(Error::io("open", &ignore_file, e)),
    };
    let mut walk = Walk {
        rules: Rules::parse(&text)?,
        files: Vec::new(),
        left: archive::MAX_CHART,
        buffer: Vec::new(),
    };
    walk.folder(&root, "", 0)?;
    Ok(walk.files)
}

struct Walk {
    rules: Rules,
    files: Vec<File>,
    /// Bytes that the chart may still take.
    left: u64,
    /// What files are read into before they are copied to memory of just their size.
    buffer: Vec<u8>,
}

impl Walk {
    fn folder(&mut self, path: &Path, prefix: &str, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            let text = format!(
                "{} nests more than {MAX_DEPTH} folders deep: does a link point to its parent?",
                path.display()
            );
            return Err(Error::Chart(text));
        }
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(|e| Error::io("open", path, e))? {
            let entry = entry.map_err(|e| Error::io("readdirent", path, e))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        for name in names {
            let child = path.join(&name);
            let relative = format!("{prefix}{name}");
            let info = std::fs::metadata(&child).map_err(|e| {
                Error::Chart(format!(
                    "error evaluating symlink {}: lstat {}: {}",
                    child.display(),
                    missing(&child).display(),
                    super::io_text(&e)
                ))
            })?;
            if self.rules.ignores(&relative, info.is_dir()) {
                continue;
            }
            if info.is_dir() {
                self.folder(&child, &format!("{relative}/"), depth + 1)?;
            } else {
                self.file(&child, relative, &info)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String, info: &std::fs::Metadata) -> Result<(), Error> {
        if !info.is_file() {
            return Err(Error::Chart(format!(
                "cannot load irregular file {} as it has file mode type bits set",
                path.display()
            )));
        }
        let refuse = |text: String| Error::Chart(format!("error reading {name}: {text}"));
        if info.len() > self.left {
            return Err(refuse(format!(
                "chart exceeds maximum decompressed size of {} bytes",
                archive::MAX_CHART
            )));
        }
        self.buffer.clear();
        std::fs::File::open(path)
            .and_then(|mut file| file.read_to_end(&mut self.buffer))
            .map_err(|e| refuse(Error::io("open", path, e).to_string()))?;
        self.left = self.left.saturating_sub(self.buffer.len() as u64);
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
