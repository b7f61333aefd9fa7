//! The charts below a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The charts below a folder, sorted by path: not those in another chart's `charts/`.
pub fn find(root: &Path, only: &[String]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(root, &mut found)?;
    found.retain(|path| only.is_empty() || only.iter().any(|text| path.to_string_lossy().contains(text)));
    found.sort();
    Ok(found)
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let is_chart = folder.join("Chart.yaml").is_file();
    if is_chart {
        found.push(folder.to_path_buf());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        // Links may lead in circles.
        if entry.file_type()?.is_dir() {
            if !(is_chart && name == "charts") && name != ".git" {
                walk(&path, found)?;
            }
        } else if !is_chart && path.extension().is_some_and(|extension| extension == "tgz") {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A folder with these files.
    pub fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn charts_are_found_without_those_inside_them() {
        let folder = folder(&[
            ("charts/b/Chart.yaml", ""),
            ("charts/b/charts/inner/Chart.yaml", ""),
            ("charts/b/tests/other/Chart.yaml", ""),
            ("a/Chart.yaml", ""),
            ("packed-1.0.0.tgz", ""),
        ]);
        let found = |only: &[&str]| -> Vec<PathBuf> {
            let only: Vec<String> = only.iter().map(|text| (*text).to_owned()).collect();
            find(folder.path(), &only).unwrap()
        };
        let paths = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(|name| folder.path().join(name)).collect() };
        let all = paths(&["a", "charts/b", "charts/b/tests/other", "packed-1.0.0.tgz"]);
        assert_eq!(found(&[]), all);
        assert_eq!(found(&["tests", "packed"]), all[2..]);
    }
}
