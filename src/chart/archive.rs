//! Chart archives (`.tgz`). Facts: Helm's `pkg/chart/loader/archive/archive.go`.
//!
//! They are read by a reader of our own since Helm's, Go's `archive/tar`, decides what an archive is: which of the many
//! variants and defects count, and what is said of those that don't.

mod broken;
mod budget;
mod gzip;
mod header;
mod pax;
mod sparse;
mod tar;

use std::path::Path;

use self::broken::Broken;
pub(super) use self::budget::Budget;
use self::tar::Archive;
use super::{Error, File, sniff};
use crate::template::go::quote::quote_go;

/// The largest chart, unpacked, in bytes.
pub(super) const MAX_CHART: u64 = 100 * 1024 * 1024;

/// How gzipped data begins.
const MAGIC: &[u8] = b"\x1f\x8b\x08";

/// Reads the files of the archive `path`, which holds `data`, in the archive's order.
pub(super) fn read(path: &Path, data: &[u8], budget: &mut Budget) -> Result<Vec<File>, Error> {
    let name = path.display().to_string();
    let sort = sniff::content_type(data);
    if sort != "application/x-gzip" && !data.starts_with(MAGIC) {
        return Err(Error::Chart(if name.ends_with(".yml") || name.ends_with(".yaml") {
            format!("file '{name}' seems to be a YAML file, but expected a gzipped archive")
        } else {
            format!("file '{name}' does not appear to be a gzipped archive; got '{sort}'")
        }));
    }
    unpack(data, budget).map_err(|error| match says_not_gzip(&error) {
        true => explain(path, error),
        false if budget.is_exceeded() => error,
        false => Error::Chart("unable to load chart archive".to_owned()),
    })
}

/// Adds the archive's name to an error that says that it isn't one, or one within it, as Helm does.
pub(super) fn explain(path: &Path, error: Error) -> Error {
    if !says_not_gzip(&error) {
        return error;
    }
    Error::Chart(format!(
        "file '{}' does not appear to be a valid chart file (details: {error})",
        path.display()
    ))
}

fn says_not_gzip(error: &Error) -> bool {
    error.to_string().ends_with(&Broken::GzipHeader.to_string())
}

/// Unpacks a gzipped tar archive. The first part of every path (the chart's folder) is dropped.
///
/// # Errors
/// Paths that leave the archive's folder, broken archives, more than 100 MiB of files, and more than the budget has.
pub(super) fn unpack(data: &[u8], budget: &mut Budget) -> Result<Vec<File>, Error> {
    let too_large = || {
        Error::Chart(format!(
            "decompressed chart is larger than the maximum size {MAX_CHART}"
        ))
    };
    let mut archive = Archive::new(data, budget)?;
    let mut files = Vec::new();
    let mut left = MAX_CHART;
    let mut bytes = Vec::new();
    while let Some(entry) = archive.next()? {
        let name = inner_path(&entry.name)?;
        archive.count(name.len())?;
        let size = u64::try_from(entry.size).unwrap_or_default();
        if size > left {
            return Err(too_large());
        }
        bytes.clear();
        archive.read(&entry, &mut bytes)?;
        left -= bytes.len() as u64;
        if (bytes.len() as u64) < size || left == 0 {
            return Err(too_large());
        }
        files.push(File {
            name,
            data: without_bom(&bytes).into(),
        });
    }
    if files.is_empty() {
        return Err(Error::Chart("no files in chart archive".to_owned()));
    }
    Ok(files)
}

impl From<Broken> for Error {
    fn from(broken: Broken) -> Self {
        Error::Chart(broken.to_string())
    }
}

/// The path of an entry within the chart.
fn inner_path(raw: &[u8]) -> Result<String, Error> {
    let refuse = |text: &str| Err(Error::Chart(text.to_owned()));
    let path = String::from_utf8_lossy(raw);
    let delimiter = if path.contains('\\') { '\\' } else { '/' };
    let (first, rest) = path.split_once(delimiter).unwrap_or((&path, ""));
    let name = rest.replace(delimiter, "/");
    if name.starts_with('/') {
        return refuse("chart illegally contains absolute paths");
    }
    let name = clean(&name);
    if name == "." {
        return Err(Error::Chart(format!(
            "chart illegally contains content outside the base directory: {}",
            quote_go(raw)
        )));
    }
    if name.starts_with("..") {
        return refuse("chart illegally references parent directory");
    }
    let bytes = name.as_bytes();
    if bytes.first().is_some_and(u8::is_ascii_alphabetic) && name.get(1..3) == Some(":/") {
        return refuse("chart contains illegally named files");
    }
    if first == "Chart.yaml" {
        return refuse("chart yaml not in base directory");
    }
    Ok(name)
}

/// Go's `path.Clean` for a relative path.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if parts.is_empty() {
        ".".to_owned()
    } else {
        parts.join("/")
    }
}

/// The bytes after a UTF-8 byte order mark.
pub(super) fn without_bom(data: &[u8]) -> &[u8] {
    data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        let table = [
            ("chart/Chart.yaml", Ok("Chart.yaml")),
            ("chart/a/../b", Ok("b")),
            ("./chart/x", Ok("chart/x")),
            ("chart\\templates\\x.yaml", Ok("templates/x.yaml")),
            ("chart/../../x", Err("chart illegally references parent directory")),
            ("chart//x", Err("chart illegally contains absolute paths")),
            ("chart/c:/x", Err("chart contains illegally named files")),
            (
                "Chart.yaml",
                Err("chart illegally contains content outside the base directory: \"Chart.yaml\""),
            ),
        ];
        for (raw, want) in table {
            let got = inner_path(raw.as_bytes()).map_err(|e| e.to_string());
            assert_eq!(
                got.as_deref(),
                want.map_err(str::to_owned).as_ref().map(|s| *s),
                "{raw}"
            );
        }
    }
}
