//! Where a chart is (`LocateChart` in Helm's `pkg/action/install.go`). Charts on disk and archives at a URL; repositories aren't asked.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::files::clean_path;
use super::{Process, settings};
use crate::cli::pflag::Parsed;
use crate::template::go::quote::quote_go;
use crate::template::sprig::url_parse::Url;

/// Where a chart is.
#[derive(Debug)]
pub enum Place {
    /// A folder or an archive.
    Path(PathBuf),
    /// An archive's.
    Url(String),
    /// One that was fetched, and the file in which Helm would have put it.
    Archive(PathBuf, Vec<u8>),
}

/// Where Helm puts a chart that it has downloaded: its errors name that file. Nothing is written there.
/// Facts: `pkg/downloader/cache.go`, `pkg/helmpath/lazypath.go`.
pub fn cached(data: &[u8], flags: &Parsed, env: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let folder = |name: &str| env(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let cache = || {
        folder("HELM_CACHE_HOME")
            .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("helm")))
            .unwrap_or_else(|| folder("HOME").unwrap_or_default().join(".cache/helm"))
    };
    let digest = HEXLOWER.encode(&Sha256::digest(data));
    let content = match flags.text("content-cache") {
        Some(given) => PathBuf::from(given),
        None => folder("HELM_CONTENT_CACHE").unwrap_or_else(|| cache().join("content")),
    };
    content
        .join(digest.get(..2).unwrap_or_default())
        .join(digest + ".chart")
}

/// The place of the chart that a command line names.
///
/// # Errors
/// Helm's text if there is no such chart; one of ours if a repository or registry would have to be asked.
pub fn locate(flags: &Parsed, process: &Process<'_>, chart: &str) -> Result<Place, String> {
    let name = chart.trim();
    if let Some(url) = flags.text("repo").filter(|url| !url.is_empty()) {
        return Err(remote(name, &format!("helm pull --repo {url} {name}")));
    }
    let path = absolute(&process.dir.join(name));
    if !name.is_empty() && path.exists() {
        if flags.bool("verify") {
            return Err(unverified(&path));
        }
        return Ok(Place::Path(path));
    }
    if name.starts_with(['/', '.']) {
        return Err(format!("path {} not found", quote_go(name)));
    }
    let url = Url::parse(name.as_bytes()).map_err(|_| format!("invalid chart URL format: {name}"))?;
    by_url(flags, process, name, &url)
}

/// A chart that isn't there and may be elsewhere (`ResolveChartVersion` in Helm's `pkg/downloader/chart_downloader.go`).
fn by_url(flags: &Parsed, process: &Process<'_>, name: &str, url: &Url) -> Result<Place, String> {
    let pull = || Err(remote(name, &format!("helm pull {name}")));
    if name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("oci://")) {
        return pull();
    }
    let repositories = settings::repositories(flags, process)?;
    if !url.scheme.is_empty() && !url.host.is_empty() && !url.path.is_empty() {
        return match url.scheme.as_slice() {
            b"http" | b"https" if !flags.bool("verify") => Ok(Place::Url(name.to_owned())),
            b"http" | b"https" => pull(),
            scheme => Err(format!("scheme {} not supported", quote_go(scheme))),
        };
    }
    let path = String::from_utf8_lossy(&url.path);
    match path.split_once('/') {
        Some((repository, _)) if repositories.iter().any(|known| known == repository) => pull(),
        Some((repository, _)) => Err(format!("repo {repository} not found")),
        None => Err(format!(
            "non-absolute URLs should be in form of repo_name/path_to_chart, got: {}",
            String::from_utf8_lossy(&url.text())
        )),
    }
}

/// Go's `filepath.Abs`: errors name the chart by this path.
fn absolute(path: &Path) -> PathBuf {
    match std::path::absolute(path) {
        Ok(path) => PathBuf::from(clean_path(&path.to_string_lossy())),
        Err(_) => path.to_path_buf(),
    }
}

fn remote(chart: &str, command: &str) -> String {
    format!("{chart}: charts are not downloaded: run `{command}` first and give the path of the chart")
}

/// Why a chart can't be verified: signatures are not supported, and most charts fail before they would matter.
fn unverified(chart: &Path) -> String {
    if chart.is_dir() {
        return "unpacked charts cannot be verified".to_owned();
    }
    if !chart
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("tgz"))
    {
        return "chart must be a tgz file".to_owned();
    }
    let provenance = format!("{}.prov", chart.display());
    match std::fs::metadata(&provenance) {
        Err(e) => format!(
            "could not load provenance file {provenance}: stat {provenance}: {}",
            crate::chart::io_text(&e)
        ),
        Ok(_) => "signatures of charts are not checked: run `helm verify` and leave --verify out".to_owned(),
    }
}
