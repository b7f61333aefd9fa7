//! The files of a chart that are taken into a project. Each has one place below the chart's folder, on every file system: nothing
//! leads out of it, and no two names are the same to a file system that ignores case.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use helm_template::chart::File;

/// As many files as a chart may have.
const MAX_FILES: usize = 20_000;
/// What the files of a chart may take, in bytes: as much as Helm's loader accepts.
const MAX_BYTES: u64 = 100 << 20;
/// How deep folders may nest.
const MAX_DEPTH: usize = 64;

/// How symbolic links in a folder are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Followed to any target, as Helm does.
    Followed,
    /// Only those that stay below the folder.
    Within,
}

/// The files that may be written into a project; those of version control are left out.
///
/// # Errors
/// Two files can't both be written, or a name is harmful.
pub fn checked(files: Vec<File>) -> anyhow::Result<Vec<File>> {
    let mut kept = Vec::with_capacity(files.len());
    // By the path in small letters: how it is spelled, and whether it is a file.
    let mut known: BTreeMap<String, (String, bool)> = BTreeMap::new();
    for file in files {
        let name = &file.name;
        if name.split('/').any(is_version_control) {
            continue;
        }
        let is_part = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\\') && part.len() <= 255;
        ensure!(
            name.split('/').all(is_part) && !name.chars().any(char::is_control),
            "the chart has a file {name:?}, which can't be written here: rename it"
        );
        for (end, is_file) in name
            .match_indices('/')
            .map(|(at, _)| (at, false))
            .chain([(name.len(), true)])
        {
            let path = name.get(..end).unwrap_or(name);
            match known.get(&path.to_lowercase()) {
                None => {
                    known.insert(path.to_lowercase(), (path.to_owned(), is_file));
                }
                Some((other, _)) if other != path => {
                    bail!("the chart has {other:?} and {path:?}, whose names differ only in case: rename one");
                }
                Some((_, false)) if !is_file => {}
                Some((_, true)) if is_file => bail!("the chart has the file {path:?} twice"),
                Some(_) => bail!("the chart has {path:?} as a file and as a folder"),
            }
        }
        kept.push(file);
        ensure!(kept.len() <= MAX_FILES, "the chart has more than {MAX_FILES} files");
    }
    Ok(kept)
}

/// Whether a file or folder is version control's. Its hooks and configuration are programs that `git` runs.
fn is_version_control(name: &str) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// All files in the folder of a chart but those of version control: what a .helmignore names may be of use to those who work on
/// the chart.
///
/// # Errors
/// A file that can't be read, is too large, or lies outside.
pub fn read_folder(root: &Path, links: Links) -> anyhow::Result<Vec<File>> {
    let mut folder = Folder {
        real: root.canonicalize().with_context(|| root.display().to_string())?,
        links,
        files: Vec::new(),
        seen: 0,
        left: MAX_BYTES,
    };
    folder.visit(root, "", 0)?;
    // File systems have orders of their own.
    folder.files.sort_by(|a, b| a.name.cmp(&b.name));
    checked(folder.files)
}

/// A folder that is read.
struct Folder {
    /// Where it lies, without links.
    real: PathBuf,
    links: Links,
    files: Vec<File>,
    /// How many files and folders there were.
    seen: usize,
    /// Bytes that its files may still take.
    left: u64,
}

impl Folder {
    fn visit(&mut self, path: &Path, prefix: &str, depth: usize) -> anyhow::Result<()> {
        let shown = path.display();
        ensure!(
            depth <= MAX_DEPTH,
            "{shown}: folders nest deeper than {MAX_DEPTH} levels"
        );
        for entry in fs::read_dir(path).with_context(|| shown.to_string())? {
            let entry = entry.with_context(|| shown.to_string())?;
            let path = entry.path();
            let name = entry.file_name();
            let name = name
                .to_str()
                .with_context(|| format!("{}: the name is not UTF-8", path.display()))?;
            if is_version_control(name) {
                continue;
            }
            self.seen += 1;
            ensure!(
                self.seen <= MAX_FILES,
                "{shown}: there are more than {MAX_FILES} files and folders"
            );
            let name = format!("{prefix}{name}");
            let mut kind = entry.file_type().with_context(|| path.display().to_string())?;
            if kind.is_symlink() {
                kind = self.follow(&path)?;
            }
            if kind.is_dir() {
                self.visit(&path, &format!("{name}/"), depth + 1)?;
            } else if kind.is_file() {
                let data = self.read(&path).with_context(|| path.display().to_string())?;
                self.files.push(File {
                    name,
                    data: data.into(),
                });
            } else {
                bail!("{}: it is neither a file nor a folder", path.display());
            }
        }
        Ok(())
    }

    /// What a symbolic link leads to.
    fn follow(&self, path: &Path) -> anyhow::Result<fs::FileType> {
        let shown = path.display();
        let target = path
            .canonicalize()
            .with_context(|| format!("{shown}: a symbolic link that leads nowhere"))?;
        ensure!(
            self.links == Links::Followed || target.starts_with(&self.real),
            "{shown}: a symbolic link to {}, which lies outside of the chart's folder: copy the file there in its place",
            target.display()
        );
        Ok(fs::metadata(&target).with_context(|| shown.to_string())?.file_type())
    }

    fn read(&mut self, path: &Path) -> anyhow::Result<Vec<u8>> {
        let mut data = Vec::new();
        let file = fs::File::open(path)?;
        file.take(self.left + 1).read_to_end(&mut data)?;
        let left = self.left.checked_sub(data.len() as u64);
        self.left = left.with_context(|| format!("the chart's files take more than {MAX_BYTES} bytes"))?;
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> File {
        File {
            name: name.to_owned(),
            data: "x".into(),
        }
    }

    #[test]
    fn every_file_has_one_place() {
        for (names, want) in [
            (&["Chart.yaml", "templates/a.yaml", "templates/b/c.yaml"][..], None),
            (
                &["Chart.yaml", ".git/hooks/post-checkout", "charts/.GIT/config", "a/.git"],
                None,
            ),
            (&["x", "x/y"], Some("\"x\" as a file and as a folder")),
            (&["x/y/z", "x/y"], Some("\"x/y\" as a file and as a folder")),
            (&["a", "a"], Some("the file \"a\" twice")),
            (&["README.md", "readme.md"], Some("differ only in case")),
            (&["Templates/a", "templates/b"], Some("differ only in case")),
            (&["../a"], Some("can't be written here")),
            (&["/a"], Some("can't be written here")),
            (&["a//b"], Some("can't be written here")),
            (&["a\\..\\b"], Some("can't be written here")),
            (&["a\u{1b}[2Jb"], Some("can't be written here")),
            (&["a\nb"], Some("can't be written here")),
        ] {
            let found = checked(names.iter().map(|name| file(name)).collect());
            match (found, want) {
                (Ok(files), None) => assert!(files.iter().all(|file| !file.name.to_lowercase().contains(".git"))),
                (Err(error), Some(want)) => {
                    let error = error.to_string();
                    assert!(
                        error.contains(want) && !error.contains(['\u{1b}', '\n']),
                        "{names:?}: {error}"
                    );
                }
                (found, want) => panic!("{names:?}: {found:?}, expected {want:?}"),
            }
        }
        let many = (0..=MAX_FILES).map(|number| file(&number.to_string())).collect();
        assert!(checked(many).unwrap_err().to_string().contains("more than"));
    }

    #[test]
    fn links_lead_nowhere_else() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("web");
        fs::create_dir_all(root.join("templates")).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(root.join(".git/config"), "[core]").unwrap();
        fs::write(root.join("Chart.yaml"), "name: web").unwrap();
        fs::write(parent.path().join("secret"), "s").unwrap();
        let link = |target: &str, name: &str| std::os::unix::fs::symlink(target, root.join(name)).unwrap();
        link("../Chart.yaml", "templates/inner");
        let names = |links| {
            let files = read_folder(&root, links).map_err(|error| format!("{error:#}"))?;
            let mut names: Vec<String> = files.into_iter().map(|file| file.name).collect();
            names.sort();
            Ok::<_, String>(names)
        };
        assert_eq!(names(Links::Within).unwrap(), ["Chart.yaml", "templates/inner"]);
        for (target, name, want) in [
            ("../../secret", "templates/out", "outside of the chart's folder"),
            ("/etc", "templates/etc", "outside of the chart's folder"),
            ("nowhere", "broken", "leads nowhere"),
            ("..", "templates/round", "nest deeper than"),
        ] {
            link(target, name);
            let error = names(Links::Within).unwrap_err();
            assert!(error.contains(want), "{error}");
            if target == "../../secret" {
                assert!(names(Links::Followed).unwrap().contains(&name.to_owned()));
            }
            fs::remove_file(root.join(name)).unwrap();
        }
    }
}
