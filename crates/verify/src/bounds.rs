//! What a case file may read: the project that it belongs to, and nothing beside it. Case files and charts may be those of a
//! stranger's change that CI tries, and reports show what is read.

use std::path::{Path, PathBuf};

use chartwright_scaffold::tree::normal;

/// What makes a folder a project.
const MARKS: [&str; 2] = ["watches.yaml", "PROJECT"];
/// As many folders and files of a chart as are looked at for links.
const MAX_ENTRIES: usize = 100_000;

/// The folders that may be read, by their absolute paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds(Vec<Root>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Root {
    /// As it is named, without `.` and `..`.
    named: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl Bounds {
    /// The bounds of a case file and its chart: the nearest folder above the file that is a project. Without one, the
    /// working directory if the file is in it, or else the folder around the chart. A chart that a watch names
    /// elsewhere may be read, too.
    pub fn of(file: &Path, chart: Option<&Path>) -> Self {
        let file = absolute(file);
        let folder = file.parent().unwrap_or(&file);
        let is_project = |folder: &&Path| MARKS.iter().any(|mark| folder.join(mark).is_file());
        let working = std::env::current_dir().ok().filter(|working| file.starts_with(working));
        let chart = chart.map(absolute);
        let around = || chart.as_deref().and_then(Path::parent).unwrap_or(folder).to_owned();
        let project = folder.ancestors().find(is_project).map(Path::to_owned);
        let mut bounds = Bounds(Vec::new());
        bounds.add(&project.or(working).unwrap_or_else(around));
        if let Some(chart) = chart.filter(|chart| !bounds.names(chart)) {
            bounds.add(&chart);
            bounds.add(folder);
        }
        bounds
    }

    fn add(&mut self, folder: &Path) {
        if let Ok(real) = folder.canonicalize() {
            let named = folder.to_owned();
            self.0.push(Root { named, real });
        }
    }

    fn names(&self, path: &Path) -> bool {
        self.0
            .iter()
            .any(|root| path.starts_with(&root.named) || path.starts_with(&root.real))
    }

    /// Checks a file or folder, which need not be there.
    ///
    /// # Errors
    /// It lies outside, or a symbolic link on the way leads there.
    pub fn check(&self, path: &Path) -> Result<(), String> {
        let path = absolute(path);
        let is_there = |path: &&Path| path.symlink_metadata().is_ok();
        let real = path.ancestors().find(is_there).map(Path::canonicalize);
        let is_within = match real {
            Some(Ok(real)) => self.names(&path) && self.0.iter().any(|root| real.starts_with(&root.real)),
            // A link that leads nowhere.
            Some(Err(_)) | None => false,
        };
        if is_within {
            return Ok(());
        }
        let project = self
            .0
            .first()
            .map_or_else(String::new, |root| root.named.display().to_string());
        Err(format!(
            "{} lies outside of the project {project}: a case reads nothing there; copy it into the project",
            path.display()
        ))
    }

    /// Checks a chart, and all symbolic links in its folder.
    ///
    /// # Errors
    /// As [`Bounds::check`].
    pub fn check_chart(&self, chart: &Path) -> Result<(), String> {
        self.check(chart)?;
        let mut folders = vec![chart.to_owned()];
        let mut left = MAX_ENTRIES;
        while let Some(folder) = folders.pop() {
            // An archive has no links, and what can't be read is reported by who loads the chart.
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let Some(fewer) = left.checked_sub(1) else {
                    return Err(format!(
                        "{}: more than {MAX_ENTRIES} files and folders",
                        chart.display()
                    ));
                };
                left = fewer;
                match entry.file_type() {
                    // What a link leads to within the project is looked at where it lies, if that is a chart's.
                    Ok(kind) if kind.is_symlink() => self.check(&entry.path())?,
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn absolute(path: &Path) -> PathBuf {
    normal(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_project_ends_at_its_folder() {
        let parent = tempfile::tempdir().unwrap();
        let root = parent.path().join("shop");
        let chart = root.join("charts/web");
        fs::create_dir_all(chart.join("verify")).unwrap();
        fs::create_dir_all(parent.path().join("elsewhere/web")).unwrap();
        fs::write(parent.path().join("secret"), "s").unwrap();
        fs::write(root.join("watches.yaml"), "").unwrap();
        fs::write(root.join("sample.yaml"), "").unwrap();
        let case = chart.join("verify/a.yaml");
        let bounds = Bounds::of(&case, Some(&chart));
        symlink("../../../../secret", chart.join("verify/out")).unwrap();
        symlink("nowhere", chart.join("verify/broken")).unwrap();
        symlink("../../../sample.yaml", chart.join("verify/in")).unwrap();
        symlink("/etc", root.join("etc")).unwrap();
        for (path, is_within) in [
            ("charts/web", true),
            ("charts/web/verify/../../../sample.yaml", true),
            ("charts/web/verify/in", true),
            ("charts/web/verify/golden/new.yaml", true),
            ("../secret", false),
            ("charts/../../secret", false),
            ("../nothing", false),
            ("charts/web/verify/out", false),
            ("charts/web/verify/broken", false),
            ("etc/passwd", false),
            ("etc/nothing", false),
            ("/etc/passwd", false),
        ] {
            assert_eq!(bounds.check(&root.join(path)).is_ok(), is_within, "{path}");
        }
        let error = bounds.check_chart(&chart).unwrap_err();
        assert!(error.contains("lies outside of the project"), "{error}");
        fs::remove_file(chart.join("verify/out")).unwrap();
        fs::remove_file(chart.join("verify/broken")).unwrap();
        assert_eq!(bounds.check_chart(&chart), Ok(()));
        // A chart that a watch names elsewhere.
        let elsewhere = parent.path().join("elsewhere/web");
        let bounds = Bounds::of(&case, Some(&elsewhere));
        assert!(bounds.check(&elsewhere).is_ok() && bounds.check(&parent.path().join("secret")).is_err());
    }
}
