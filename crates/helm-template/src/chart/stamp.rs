//! Detects changes of a chart on disk by the metadata of its files, without reading them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{Chart, Error};
use crate::chart::load::directory::MAX_DEPTH;

/// The delay before a chart that is being copied is read again, and the number of retries.
const PAUSE: Duration = Duration::from_millis(200);
const READS: usize = 25;

/// The names, sizes and change times of a chart's files. Equal stamps mean an unchanged chart, unless the metadata was
/// forged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp([u8; 32]);

impl Stamp {
    /// The current stamp of a path: a folder with its content, or a file. A path that cannot be read has a stamp too,
    /// because that can change.
    pub fn of(path: &Path) -> Self {
        let mut hash = Sha256::new();
        add(&mut hash, path, MAX_DEPTH);
        Stamp(hash.finalize().into())
    }
}

fn add(hash: &mut Sha256, path: &Path, depth: usize) {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    hash.update((name.len() as u64).to_le_bytes());
    hash.update(name);
    // A link counts as its target: charts in ConfigMap volumes consist of links.
    let Ok(metadata) = std::fs::metadata(path) else {
        hash.update([0]);
        return;
    };
    add_metadata(hash, &metadata);
    if !metadata.is_dir() || depth == 0 {
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else {
        hash.update([1]);
        return;
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    hash.update((paths.len() as u64).to_le_bytes());
    for path in paths {
        add(hash, &path, depth - 1);
    }
}

fn add_metadata(hash: &mut Sha256, metadata: &Metadata) {
    let size = if metadata.is_dir() { 0 } else { metadata.size() };
    hash.update(metadata.ino().to_le_bytes());
    hash.update(size.to_le_bytes());
    // The time of change can't be set, unlike that of modification, which copies often preserve.
    let (modified, changed) = (metadata.mtime(), metadata.ctime());
    for number in [modified, metadata.mtime_nsec(), changed, metadata.ctime_nsec()] {
        hash.update(number.to_le_bytes());
    }
}

/// Loads a chart in a stable state: if its files change while they are read, they are read again, for at most five
/// seconds. Blocks the thread.
///
/// # Errors
/// The errors of [`Chart::load`], or that the chart kept changing; with the stamp of what was read.
pub fn load_stable(path: &Path) -> (Result<Chart, Error>, Stamp) {
    load_when_still(path, |path| Chart::load(path))
}

fn load_when_still(path: &Path, load: impl Fn(&Path) -> Result<Chart, Error>) -> (Result<Chart, Error>, Stamp) {
    let mut before = Stamp::of(path);
    for _ in 0..READS {
        let chart = load(path);
        let after = Stamp::of(path);
        if before == after {
            return (chart, after);
        }
        std::thread::sleep(PAUSE);
        before = Stamp::of(path);
    }
    let message = "its files change all the time: is it still being copied?".to_owned();
    (Err(Error::Chart(message)), before)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fs;

    use super::*;

    fn chart() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("templates")).unwrap();
        fs::write(
            folder.path().join("Chart.yaml"),
            "apiVersion: v2\nname: a\nversion: 1.0.0\n",
        )
        .unwrap();
        fs::write(folder.path().join("templates/a.yaml"), "a: 1\n").unwrap();
        folder
    }

    #[test]
    fn every_change_of_a_file_changes_the_stamp() {
        let folder = chart();
        let file = folder.path().join("templates/a.yaml");
        let changes: [&dyn Fn(); 5] = [
            &|| fs::write(&file, "a: 2\n").unwrap(),
            &|| fs::write(folder.path().join("templates/b.yaml"), "").unwrap(),
            &|| fs::rename(folder.path().join("templates/b.yaml"), folder.path().join("c.yaml")).unwrap(),
            &|| fs::remove_file(folder.path().join("c.yaml")).unwrap(),
            &|| fs::remove_dir_all(folder.path().join("templates")).unwrap(),
        ];
        let mut stamp = Stamp::of(folder.path());
        assert_eq!(stamp, Stamp::of(folder.path()));
        for (number, change) in changes.iter().enumerate() {
            // Clocks of file systems tick every few milliseconds.
            std::thread::sleep(Duration::from_millis(15));
            change();
            let next = Stamp::of(folder.path());
            assert_ne!(stamp, next, "{number}");
            stamp = next;
        }
    }

    #[test]
    fn a_chart_that_changes_while_it_is_read_is_read_again() {
        let folder = chart();
        let reads = Cell::new(0);
        let (loaded, stamp) = load_when_still(folder.path(), |path| {
            let chart = Chart::load(path);
            reads.set(reads.get() + 1);
            if reads.get() < 3 {
                fs::write(path.join(format!("templates/{}.yaml", reads.get())), "").unwrap();
            }
            chart
        });
        assert_eq!((reads.get(), loaded.unwrap().templates.len()), (3, 3));
        assert_eq!(stamp, Stamp::of(folder.path()));
    }
}
