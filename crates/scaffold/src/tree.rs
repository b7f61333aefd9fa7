//! Writes generated files: all or none, and never over a user's edits. A digest of the last written content detects edits.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use similar::TextDiff;

/// What happens to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Created,
    Updated,
    Unchanged,
    /// A user edited the file since it was written. It is not overwritten.
    Kept,
}

/// Files to be written, by their paths within a folder.
#[derive(Debug, Default)]
pub struct FileTree {
    files: BTreeMap<PathBuf, TreeFile>,
    /// Digests of charts by their folders: their files have none of their own.
    charts: BTreeMap<PathBuf, String>,
    /// Warnings for the user.
    warnings: Vec<String>,
}

#[derive(Debug)]
struct TreeFile {
    content: Vec<u8>,
    /// The content was merged with the present file, so it contains the user's edits.
    is_merged: bool,
}

/// What is to be done with a tree.
#[derive(Debug)]
pub struct TreeChanges {
    pub files: Vec<FileChange>,
    charts: BTreeMap<PathBuf, String>,
    pub warnings: Vec<String>,
}

/// What is to be done with one file.
#[derive(Debug)]
pub struct FileChange {
    pub path: PathBuf,
    pub fate: Fate,
    /// What there is.
    before: Option<Vec<u8>>,
    after: Vec<u8>,
}

/// Digests of the files as they were written last, by their paths; of charts by their folders, with a slash behind.
pub type WrittenDigests = BTreeMap<String, String>;

/// The key of a chart's folder in [`WrittenDigests`].
pub fn chart_key(folder: &Path) -> String {
    format!("{}/", folder.display())
}

impl FileTree {
    pub fn add(&mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        let content = content.into();
        let is_merged = false;
        self.files.insert(path.into(), TreeFile { content, is_merged });
    }

    /// The same for a file that was made of what there is.
    pub fn merge(&mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        let content = content.into();
        let is_merged = true;
        self.files.insert(path.into(), TreeFile { content, is_merged });
    }

    /// Files below the folder are a chart's, of which PROJECT keeps this digest.
    pub fn seal(&mut self, folder: impl Into<PathBuf>, digest: String) {
        self.charts.insert(folder.into(), digest);
    }

    pub fn warn(&mut self, warnings: Vec<String>) {
        self.warnings.extend(warnings);
    }

    /// Compares it with what there is. `force`: edits of others don't count.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn compare(self, root: &Path, written: &WrittenDigests, force: bool) -> io::Result<TreeChanges> {
        let mut files = Vec::new();
        for (
            path,
            TreeFile {
                content: after,
                is_merged,
            },
        ) in self.files
        {
            let before = match fs::read(root.join(&path)) {
                Ok(before) => Some(before),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(named(&path, error)),
            };
            let is_ours = |before: &[u8]| is_as_written(written, &path, before);
            let fate = match &before {
                None => Fate::Created,
                Some(before) if *before == after => Fate::Unchanged,
                Some(before) if force || is_merged || is_ours(before) => Fate::Updated,
                Some(_) => Fate::Kept,
            };
            files.push(FileChange {
                path,
                fate,
                before,
                after,
            });
        }
        Ok(TreeChanges {
            files,
            charts: self.charts,
            warnings: self.warnings,
        })
    }
}

impl FileChange {
    /// What is to be in the file.
    #[cfg(test)]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.after).into_owned()
    }
}

impl TreeChanges {
    /// Writes what is to be written: first all files into a folder beside, then each to its place. What can't be brought to an
    /// end is undone, so that nothing is left half-written.
    ///
    /// # Errors
    /// A file that can't be written; then none is.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        let is_due = |file: &&FileChange| matches!(file.fate, Fate::Created | Fate::Updated);
        let due: Vec<&FileChange> = self.files.iter().filter(is_due).collect();
        if due.is_empty() {
            return Ok(());
        }
        let staging = Staging::new(root)?;
        for (number, file) in due.iter().enumerate() {
            fs::write(staging.path(number), &file.after).map_err(|error| named(&file.path, error))?;
        }
        let mut undo = Undo::default();
        for (number, file) in due.iter().enumerate() {
            if let Err(error) = undo.place(&staging.path(number), root, file) {
                undo.carry_out(root);
                return Err(named(&file.path, error));
            }
        }
        Ok(())
    }

    /// With the files of others, to be written together.
    #[must_use]
    pub fn and(mut self, other: TreeChanges) -> Self {
        self.files.extend(other.files);
        self.charts.extend(other.charts);
        self.warnings.extend(other.warnings);
        self
    }

    /// Remembers what was written.
    pub fn remember(&self, written: &mut WrittenDigests) {
        for (folder, digest) in &self.charts {
            let key = chart_key(folder);
            written.retain(|path, _| !path.starts_with(&key));
            written.insert(key, digest.clone());
        }
        for file in &self.files {
            let is_of_chart = self.charts.keys().any(|folder| file.path.starts_with(folder));
            if file.fate != Fate::Kept && !is_of_chart {
                written.insert(file.path.to_string_lossy().into_owned(), digest(&file.after));
            }
        }
    }

    /// Describes the changes: one line a file, with a diff of files that change or are kept.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for file in &self.files {
            let path = file.path.display();
            let word = match file.fate {
                Fate::Created => "created",
                Fate::Updated => "updated",
                Fate::Unchanged => continue,
                Fate::Kept => "kept, for it was edited by hand (--force has it overwritten)",
            };
            let _ = writeln!(text, "{path}: {word}");
            if let (Some(before), Fate::Updated | Fate::Kept) = (&file.before, file.fate) {
                text += &difference(before, &file.after);
            }
        }
        text
    }
}

/// A temporary folder from which each file is moved to its place. Removed on drop.
struct Staging(PathBuf);

impl Staging {
    fn new(root: &Path) -> io::Result<Self> {
        let folder = root.join(format!(".chartwright-{}.new", std::process::id()));
        if folder.symlink_metadata().is_ok() {
            // Of a process of the same number that was killed.
            fs::remove_dir_all(&folder).map_err(|error| named(&folder, error))?;
        }
        fs::create_dir_all(&folder).map_err(|error| named(&folder, error))?;
        Ok(Staging(folder))
    }

    fn path(&self, number: usize) -> PathBuf {
        self.0.join(number.to_string())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The changes so far, to revert them if a later one fails.
#[derive(Default)]
struct Undo<'c> {
    files: Vec<&'c FileChange>,
    /// Folders that were made, outer ones first.
    folders: Vec<PathBuf>,
}

impl<'c> Undo<'c> {
    /// Moves a file to its place and creates missing folders.
    fn place(&mut self, staged: &Path, root: &Path, file: &'c FileChange) -> io::Result<()> {
        let target = root.join(&file.path);
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let missing: Vec<&Path> = target.ancestors().skip(1).take_while(is_missing).collect();
        for folder in missing.into_iter().rev() {
            fs::create_dir(folder)?;
            self.folders.push(folder.to_owned());
        }
        match fs::rename(staged, &target) {
            // A folder of the project on another file system.
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => fs::write(&target, &file.after)?,
            moved => moved?,
        }
        self.files.push(file);
        Ok(())
    }

    /// Reverts all changes. Errors are ignored: the caller reports the first error.
    fn carry_out(self, root: &Path) {
        for file in self.files.iter().rev() {
            let target = root.join(&file.path);
            let _ = match &file.before {
                Some(before) => fs::write(target, before),
                None => fs::remove_file(target),
            };
        }
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// The lines that differ, with a little around them.
pub fn difference(before: &[u8], after: &[u8]) -> String {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = TextDiff::from_lines(before.as_ref(), after.as_ref());
    let mut diff = diff.unified_diff();
    let text = diff.context_radius(1).to_string();
    text.lines().fold(String::new(), |all, line| all + "    " + line + "\n")
}

/// Whether a file has the content that was written last, without edits.
pub fn is_as_written(written: &WrittenDigests, path: &Path, content: &[u8]) -> bool {
    let last = written.get(path.to_string_lossy().as_ref());
    last.is_some_and(|last| *last == digest(content))
}

fn digest(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    data_encoding::HEXLOWER.encode(&digest[..8])
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes the error by value")]
fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A path without `.`, and without `..` where the folder before it is named.
pub fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if normal.file_name().is_some() => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(content: &str) -> FileTree {
        let mut tree = FileTree::default();
        tree.add("config/a.yaml", content);
        tree.add("b", "same\n");
        tree
    }

    #[test]
    fn edited_files_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut written) = (folder.path(), WrittenDigests::new());
        let write = |content: &str, force: bool, written: &mut WrittenDigests| {
            let changes = tree(content).compare(root, written, force).unwrap();
            changes.write(root).unwrap();
            changes.remember(written);
            (changes.files[1].fate, changes.describe())
        };
        let content = || fs::read_to_string(root.join("config/a.yaml")).unwrap();
        assert_eq!(write("a: 1\n", false, &mut written).0, Fate::Created);
        assert_eq!(write("a: 1\n", false, &mut written), (Fate::Unchanged, String::new()));
        let (fate, text) = write("a: 2\n", false, &mut written);
        assert_eq!((fate, content().as_str()), (Fate::Updated, "a: 2\n"));
        assert!(text.contains("-a: 1") && text.contains("+a: 2"), "{text}");
        fs::write(root.join("config/a.yaml"), "a: mine\n").unwrap();
        let (fate, text) = write("a: 3\n", false, &mut written);
        assert_eq!((fate, content().as_str()), (Fate::Kept, "a: mine\n"));
        assert!(text.contains("--force"), "{text}");
        assert_eq!(write("a: 3\n", true, &mut written).0, Fate::Updated);
        assert_eq!(content(), "a: 3\n");
        let names: Vec<_> = fs::read_dir(root.join("config"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["a.yaml"], "nothing is left beside it");
    }

    /// Every file below a folder, with its contents.
    fn all(folder: &Path) -> BTreeMap<PathBuf, Option<String>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            found.insert(path.clone(), fs::read_to_string(&path).ok());
            if path.is_dir() {
                found.extend(all(&path));
            }
        }
        found
    }

    #[test]
    fn nothing_is_written_if_something_can_not_be() {
        for paths in [
            &["a", "config/b"][..],
            &["a", "x", "x/y"],
            &["a", "new/deep/z", "taken"],
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path();
            fs::write(root.join("config"), "a file where a folder should be").unwrap();
            fs::create_dir(root.join("taken")).unwrap();
            fs::write(root.join("a"), "mine").unwrap();
            let before = all(root);
            let files = paths.iter().map(|path| FileChange {
                path: path.into(),
                fate: Fate::Updated,
                before: fs::read(root.join(path)).ok(),
                after: b"new".to_vec(),
            });
            let changes = TreeChanges {
                files: files.collect(),
                charts: BTreeMap::new(),
                warnings: Vec::new(),
            };
            let error = changes.write(root).unwrap_err().to_string();
            assert!(paths.iter().any(|path| error.starts_with(path)), "{error}");
            assert_eq!(all(root), before, "{paths:?}");
        }
    }
}
