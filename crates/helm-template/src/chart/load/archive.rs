//! Chart archives (`.tgz`). Facts: Helm's `pkg/chart/loader/archive/archive.go`.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use tar::EntryType;

use crate::chart::{Error, File};
use go_template::quote::quote_go;

/// The largest chart, unpacked, in bytes.
pub(crate) const MAX_CHART: u64 = 100 * 1024 * 1024;

/// The largest total size of a chart's archive and all archives in it, unpacked, with names and headers. Helm limits
/// only the files of each archive.
pub(crate) const MAX_UNPACKED: u64 = 512 << 20;

/// The first bytes of gzipped data.
const MAGIC: &[u8] = b"\x1f\x8b\x08";

/// The handling of entries that are neither files nor folders: links and devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    /// As Helm does, which reads the contents of the entry: nothing, mostly.
    AsFiles,
    Refused,
}

/// The bytes of an archive, with the remaining limit.
struct Unpacked<'d> {
    data: MultiGzDecoder<&'d [u8]>,
    left: &'d mut u64,
}

/// Reads the files of the archive `path`, which holds `data`, in the archive's order.
pub(crate) fn read(path: &Path, data: &[u8], left: &mut u64, special: Special) -> Result<Vec<File>, Error> {
    if !data.starts_with(MAGIC) {
        let name = path.display().to_string();
        let seems = if name.ends_with(".yml") || name.ends_with(".yaml") {
            "seems to be a YAML file, but expected a gzipped archive"
        } else {
            "does not appear to be a gzipped archive"
        };
        return Err(Error::Chart(format!("file '{name}' {seems}")));
    }
    unpack(&path.display().to_string(), data, left, special)
}

/// Unpacks the gzipped tar archive of that name. The first part of every path (the chart's folder) is dropped.
///
/// # Errors
/// Paths that leave the archive's folder, broken archives, more than 100 MiB of files, and more bytes than are `left`.
pub(crate) fn unpack(name: &str, data: &[u8], left: &mut u64, special: Special) -> Result<Vec<File>, Error> {
    let too_large = || {
        Error::Chart(format!(
            "decompressed chart is larger than the maximum size {MAX_CHART}"
        ))
    };
    let broken = |error: std::io::Error| Error::Chart(format!("file '{name}' can't be unpacked: {error}"));
    let mut archive = tar::Archive::new(Unpacked {
        data: MultiGzDecoder::new(data),
        left,
    });
    let mut files = Vec::new();
    let mut left = MAX_CHART;
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        if kind.is_dir() || kind.is_pax_global_extensions() {
            continue;
        }
        let name = inner_path(&entry.path_bytes())?;
        if special == Special::Refused && !matches!(kind, EntryType::Regular | EntryType::Continuous) {
            let name = quote_go(name.as_bytes());
            return Err(Error::Chart(format!(
                "chart has a link or a device where a file should be: {name}"
            )));
        }
        let size = entry.size();
        if size > left {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        left -= size;
        if left == 0 {
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

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.data.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => {
                *self.left = left;
                Ok(read)
            }
            None => Err(std::io::Error::other(
                "archives are too large when they are unpacked, names and headers included",
            )),
        }
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
pub(crate) fn without_bom(data: &[u8]) -> &[u8] {
    data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data)
}
