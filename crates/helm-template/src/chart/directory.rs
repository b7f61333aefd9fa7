//! Chart folders. Facts: Helm's `pkg/chart/v2/loader/directory.go` and `internal/sympath`.

use std::ffi::OsString;
use std::fs::FileType;
use std::io::Read;
use std::iter::repeat_n;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ignore::Rules;
use super::{Error, File, Warning, archive};
use go_template::Str;

/// How many parts of paths and links are walked to name what is missing.
const MAX_STEPS: usize = 1000;

/// The longest line that `.helmignore` may have, in bytes: what Go's `bufio.Scanner` takes.
const MAX_LINE: usize = 64 * 1024;

/// Up to how many bytes a file is copied from the buffer that it is read into.
const BUFFER: usize = 64 << 10;

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
/// folder; `chart_yaml` was read.
pub(super) fn read(root: &Path, chart_yaml: File, warnings: &mut Vec<Warning>) -> Result<Vec<File>, Error> {
    let ignore_file = root.join(".helmignore");
    let text = match read_whole(&ignore_file, archive::MAX_CHART) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) if !ignore_file.exists() => String::new(),
        Err(problem) => return Err(problem),
    };
    if text.split('\n').any(|line| line.len() >= MAX_LINE) {
        return Err(Error::Chart("bufio.Scanner: token too long".to_owned()));
    }
    let mut walk = Walk {
        rules: Rules::parse(&text)?,
        // One that is too long is read again, to say so.
        chart_yaml: Some(chart_yaml).filter(|file| (file.data.len() as u64) < archive::MAX_CHART),
        files: Vec::new(),
        left: archive::MAX_CHART,
        reader: Reader::new(),
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

/// Where a link leads in the end. An error is the text of Go's `filepath.EvalSymlinks`.
fn resolve(path: &Path) -> Result<PathBuf, String> {
    match std::fs::canonicalize(path) {
        Ok(resolved) => Ok(resolved),
        Err(e) if super::io_text(&e).contains("symbolic links") => Err("EvalSymlinks: too many links".to_owned()),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => Err(super::io_text(&e)),
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
    names: std::vec::IntoIter<(OsString, FileType)>,
}

struct Walk<'w> {
    warnings: &'w mut Vec<Warning>,
    rules: Rules,
    /// Until its turn comes.
    chart_yaml: Option<File>,
    files: Vec<File>,
    /// Bytes that the chart may still take.
    left: u64,
    reader: Reader,
}

/// What most files are read into before they are copied to memory of just their size.
struct Reader(Vec<u8>);

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
                let resolved = resolve(&level.real.join(&name)).map_err(|problem| {
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
        let mut data = match self.chart_yaml.take_if(|file| file.name == name) {
            Some(file) => file.data,
            None => self.reader.read(path, self.left).map_err(refuse)?,
        };
        self.left = self.left.checked_sub(data.len() as u64).ok_or_else(|| {
            refuse(format!(
                "chart exceeds maximum decompressed size of {} bytes",
                archive::MAX_CHART
            ))
        })?;
        let plain = archive::without_bom(data.as_bytes());
        if plain.len() < data.len() {
            data = plain.into();
        }
        self.files.push(File { name, data });
        Ok(())
    }
}

impl Reader {
    fn new() -> Self {
        Reader(vec![0; BUFFER])
    }

    /// What stands in a file; of one that is longer than `most`, more than that.
    fn read(&mut self, path: &Path, most: u64) -> Result<Str, String> {
        self.take(path, most.saturating_add(1))
            .map_err(|e| Error::io("open", path, e).to_string())
    }

    fn take(&mut self, path: &Path, most: u64) -> std::io::Result<Str> {
        let mut file = std::fs::File::open(path)?;
        let start = fill(&mut file, &mut self.0)?;
        if start < BUFFER {
            return Ok(self.0.get(..start).unwrap_or_default().into());
        }
        // A large file is read to where it stays: memory that is used the first time costs more than all else here.
        let size = file.metadata()?.len().min(most);
        let mut data: Arc<[u8]> = repeat_n(0, usize::try_from(size).unwrap_or(0)).collect();
        if let Some((head, rest)) = Arc::get_mut(&mut data).and_then(|data| data.split_at_mut_checked(start)) {
            head.copy_from_slice(&self.0);
            if fill(&mut file, rest)? == rest.len() && (size == most || file.read(&mut self.0)? == 0) {
                return Ok(Str::from(data));
            }
        }
        // Its size is not what is in it.
        let mut data = Vec::new();
        std::fs::File::open(path)?.take(most).read_to_end(&mut data)?;
        Ok(data.into())
    }
}

/// Reads until the buffer is full or the file at its end.
fn fill(file: &mut std::fs::File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(length)
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
