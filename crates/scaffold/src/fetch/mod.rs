//! Fetches a chart from a folder, an archive, a URL, a repository or an OCI registry, with all its dependencies.
//! Nothing is written to disk. The result is the complete chart or an error.

pub mod archive;
pub mod credentials;
pub mod dependencies;
pub mod helm_config;
pub mod http;
pub mod lock;
pub mod net;
pub mod oci;
pub mod provenance;
pub mod repository;
mod request;
mod versions;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use self::archive::{Archive, digest};
use self::dependencies::Notes;
use self::helm_config::{named, unknown};
use self::net::Net;
pub use self::request::ChartRequest;
use super::chart::ChartFiles;
use helm_template::chart::version;

/// A chart with all that it depends on.
#[derive(Debug)]
pub struct Fetched {
    pub chart: ChartFiles,
    pub notes: Notes,
}

/// Fetches a chart and what it depends on.
///
/// # Errors
/// Why there is none.
pub fn fetch(asked: &ChartRequest) -> anyhow::Result<Fetched> {
    let path = Path::new(&asked.chart);
    let is_local = asked.repository.is_none()
        && !asked.chart.starts_with(oci::SCHEME)
        && !http::is_url(&asked.chart)
        && (path.exists() || path.is_absolute() || asked.chart.starts_with('.'));
    let net = Net::new(asked)?;
    let mut notes = Notes::default();
    let (mut chart, folder) = if is_local {
        local(asked, path)?
    } else {
        let archive = net.pull(asked)?;
        if let Some(keyring) = &asked.keyring {
            let provenance = archive
                .provenance
                .as_deref()
                .context("--verify: there is no signature")?;
            provenance::verify(provenance, &archive.data, keyring).with_context(|| archive.from.clone())?;
        }
        let files = ChartFiles::of_archive(&archive.from, &archive.data)?;
        notes
            .fetched
            .push(format!("{} (sha256:{})", archive.from, digest(&archive.data)));
        (files, None)
    };
    let found = chart.load()?.metadata.version;
    ensure!(
        asked.version.is_empty() || found == asked.version || version::compatible(&asked.version, &found),
        "the chart is {} {found}, but --helm-chart-version is {:?}",
        chart.name,
        asked.version
    );
    dependencies::complete(&mut chart, folder.as_deref(), &net, 0, &mut notes)?;
    Ok(Fetched { chart, notes })
}

/// The chart at a path, and its folder if it is one.
fn local(asked: &ChartRequest, path: &Path) -> anyhow::Result<(ChartFiles, Option<PathBuf>)> {
    if let Some(keyring) = &asked.keyring {
        ensure!(
            !path.is_dir(),
            "--verify: a chart in a folder isn't signed, only its archive"
        );
        let read = |path: PathBuf| std::fs::read(&path).with_context(|| path.display().to_string());
        let beside = read(PathBuf::from(format!("{}.prov", path.display())))?;
        provenance::verify(&beside, &read(path.to_owned())?, keyring)?;
    }
    Ok((ChartFiles::read(path)?, path.is_dir().then(|| path.to_owned())))
}

impl Net {
    /// Downloads a chart.
    fn pull(&self, asked: &ChartRequest) -> anyhow::Result<Archive> {
        let (chart, version, signed) = (asked.chart.as_str(), asked.version.as_str(), asked.keyring.is_some());
        if let Some(repository) = &asked.repository {
            let is_name = !chart.is_empty() && !chart.contains("://") && !chart.starts_with(['.', '/']);
            ensure!(is_name, "--helm-chart-repo: {chart:?} is no name of a chart there");
            if repository.starts_with(oci::SCHEME) {
                let at = oci::OciReference::parse(&format!("{}/{chart}", repository.trim_end_matches('/')))?;
                return oci::pull(&self.http(repository)?, self.plain_http, &at, version, signed);
            }
            let url = named(&self.known, repository).map_or(repository.as_str(), |known| known.url.as_str());
            ensure!(http::is_url(url), "--helm-chart-repo: {}", unknown(repository));
            return repository::pull(self, url, chart, version, signed);
        }
        if chart.starts_with(oci::SCHEME) {
            let at = oci::OciReference::parse(chart)?;
            return oci::pull(&self.http(chart)?, self.plain_http, &at, version, signed);
        }
        if http::is_url(chart) {
            return repository::download(&self.asked, chart, signed);
        }
        let known = chart
            .split_once('/')
            .and_then(|(name, chart)| Some((named(&self.known, name)?, chart)));
        let Some((known, name)) = known else {
            bail!(
                "there is no such folder or file; a chart of a repository takes --helm-chart-repo, or the name that `helm repo \
                 add` gave it: bitnami/memcached"
            );
        };
        repository::pull(self, &known.url, name, version, signed)
    }
}
