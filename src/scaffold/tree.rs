//! Writes generated files: all of them or none, and over nobody's edits. What was written last is known by its digest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use similar::TextDiff;

/// What becomes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Created,
    Updated,
    Unchanged,
    /// Somebody edited it since it was written: it stays.
    Kept,
}

/// Files to be written, by their paths within a folder.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<PathBuf, File>,
    /// What is to be known of them.
    warnings: Vec<String>,
}

#[derive(Debug)]
struct File {
    content: Vec<u8>,
    /// It was made of what there is: edits of others are in it.
    is_merged: bool,
}

/// What is to be done with a tree.
#[derive(Debug)]
pub struct Changes {
    pub files: Vec<Change>,
    pub warnings: Vec<String>,
}

/// What is to be done with one file.
#[derive(Debug)]
pub struct Change {
    pub path: PathBuf,
    pub fate: Fate,
    /// What there is.
    before: Option<Vec<u8>>,
    after: Vec<u8>,
}

/// Digests of the files as they were written last, by their paths.
pub type Written = BTreeMap<String, String>;

// === impl Tree ===

impl Tree {
    pub fn add(&mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        let content = content.into();
        let is_merged = false;
        self.files.insert(path.into(), File { content, is_merged });
    }

    /// The same for a file that was made of what there is.
    pub fn merge(&mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        let content = content.into();
        let is_merged = true;
        self.files.insert(path.into(), File { content, is_merged });
    }

    pub fn warn(&mut self, warnings: Vec<String>) {
        self.warnings.extend(warnings);
    }

    /// Compares it with what there is. `force`: edits of others don't count.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn compare(self, root: &Path, written: &Written, force: bool) -> io::Result<Changes> {
        let mut files = Vec::new();
        for (
            path,
            File {
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
            files.push(Change {
                path,
                fate,
                before,
                after,
            });
        }
        let warnings = self.warnings;
        Ok(Changes { files, warnings })
    }
}

// === impl Changes ===

impl Changes {
    /// Writes what is to be written, beside what there is, and puts it there at last: nothing is left half-done.
    ///
    /// # Errors
    /// A file that can't be written; then none is.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        let due = || {
            self.files
                .iter()
                .filter(|file| matches!(file.fate, Fate::Created | Fate::Updated))
        };
        let beside = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            root.join(path).with_file_name(format!(".{name}.new"))
        };
        let prepared = due().try_for_each(|file| {
            let target = root.join(&file.path);
            let folder = target.parent().unwrap_or(root);
            fs::create_dir_all(folder).map_err(|error| named(folder, error))?;
            fs::write(beside(&file.path), &file.after).map_err(|error| named(&file.path, error))
        });
        if let Err(error) = prepared {
            due().for_each(|file| drop(fs::remove_file(beside(&file.path))));
            return Err(error);
        }
        due().try_for_each(|file| {
            fs::rename(beside(&file.path), root.join(&file.path)).map_err(|error| named(&file.path, error))
        })
    }

    /// Remembers what was written.
    pub fn remember(&self, written: &mut Written) {
        for file in &self.files {
            if file.fate != Fate::Kept {
                written.insert(file.path.to_string_lossy().into_owned(), digest(&file.after));
            }
        }
    }

    /// What is done, a line a file, with the difference of those that change or are kept.
    pub fn told(&self) -> String {
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

/// The lines that differ, with a little around them.
pub(super) fn difference(before: &[u8], after: &[u8]) -> String {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = TextDiff::from_lines(before.as_ref(), after.as_ref());
    let mut diff = diff.unified_diff();
    let text = diff.context_radius(1).to_string();
    text.lines().fold(String::new(), |all, line| all + "    " + line + "\n")
}

/// Whether a file is as it was written last: nobody has edited it.
pub fn is_as_written(written: &Written, path: &Path, content: &[u8]) -> bool {
    let last = written.get(path.to_string_lossy().as_ref());
    last.is_some_and(|last| *last == digest(content))
}

fn digest(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    data_encoding::HEXLOWER.encode(&digest[..8])
}

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

    fn tree(content: &str) -> Tree {
        let mut tree = Tree::default();
        tree.add("config/a.yaml", content);
        tree.add("b", "same\n");
        tree
    }

    #[test]
    fn what_somebody_edited_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (root, mut written) = (folder.path(), Written::new());
        let write = |content: &str, force: bool, written: &mut Written| {
            let changes = tree(content).compare(root, written, force).unwrap();
            changes.write(root).unwrap();
            changes.remember(written);
            (changes.files[1].fate, changes.told())
        };
        let content = || fs::read_to_string(root.join("config/a.yaml")).unwrap();
        assert_eq!(write("a: 1\n", false, &mut written).0, Fate::Created);
        assert_eq!(write("a: 1\n", false, &mut written), (Fate::Unchanged, String::new()));
        let (fate, told) = write("a: 2\n", false, &mut written);
        assert_eq!((fate, content().as_str()), (Fate::Updated, "a: 2\n"));
        assert!(told.contains("-a: 1") && told.contains("+a: 2"), "{told}");
        fs::write(root.join("config/a.yaml"), "a: mine\n").unwrap();
        let (fate, told) = write("a: 3\n", false, &mut written);
        assert_eq!((fate, content().as_str()), (Fate::Kept, "a: mine\n"));
        assert!(told.contains("--force"), "{told}");
        assert_eq!(write("a: 3\n", true, &mut written).0, Fate::Updated);
        assert_eq!(content(), "a: 3\n");
        let names: Vec<_> = fs::read_dir(root.join("config"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["a.yaml"], "nothing is left beside it");
    }

    #[test]
    fn nothing_is_written_if_something_can_not_be() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::write(root.join("config"), "a file where a folder should be").unwrap();
        let changes = {
            let mut tree = Tree::default();
            tree.add("a", "first");
            tree.add("config/b", "second");
            tree.compare(root, &Written::new(), false)
        };
        let error = match changes {
            Ok(changes) => changes.write(root).unwrap_err(),
            Err(error) => error,
        };
        assert!(error.to_string().contains("config"), "{error}");
        assert!(!root.join("a").exists() && !root.join(".a.new").exists());
    }
}
