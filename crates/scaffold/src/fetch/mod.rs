//! Fetches a chart from a folder, an archive, a URL, a repository or an OCI registry, with all its dependencies.
//! Nothing is written to disk. The result is the complete chart or an error.

pub mod credentials;
pub mod dependencies;
pub mod http;
pub mod lock;
pub mod oci;
pub mod provenance;
pub mod repository;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest, Sha256};

use self::dependencies::Notes;
use self::http::{Http, Login, origin};
use self::repository::Known;
use super::chart::ChartFiles;
use helm_template::chart::version;

/// Which chart to fetch.
#[derive(Clone, Debug, Default)]
pub struct ChartRequest {
    /// A folder, an archive, a URL, a reference, or a name.
    pub chart: String,
    /// The repository of a chart that is named: its URL, or Helm's name for it.
    pub repository: Option<String>,
    /// A version, or a constraint; empty: the newest stable one.
    pub version: String,
    /// For the server of the repository, the URL or the registry.
    pub username: Option<String>,
    pub password: String,
    /// For all servers that lead to the chart, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Registries are asked without TLS.
    pub plain_http: bool,
    /// Keys of which one has to have signed the chart.
    pub keyring: Option<PathBuf>,
}

/// A chart with all that it depends on.
#[derive(Debug)]
pub struct Fetched {
    pub chart: ChartFiles,
    pub notes: Notes,
}

/// The archive of a chart.
#[derive(Debug)]
pub struct Archive {
    /// Where it comes from.
    pub from: String,
    pub data: Vec<u8>,
    /// The provenance file, if it was requested.
    pub provenance: Option<Vec<u8>>,
}

/// How servers are asked.
#[derive(Debug)]
pub struct Net {
    /// The server that what was said of names and certificates is for.
    origin: String,
    asked: Http,
    known: Vec<Known>,
    plain_http: bool,
}

/// The SHA-256 of data, in hex.
pub fn digest(data: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(data))
}

/// # Errors
/// The data isn't what it should be.
fn check_digest(data: &[u8], want: &str) -> anyhow::Result<()> {
    let found = digest(data);
    let is_same = found.eq_ignore_ascii_case(want);
    ensure!(is_same, "the SHA-256 should be {want}, and what was sent has {found}");
    Ok(())
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
    fn new(asked: &ChartRequest) -> anyhow::Result<Self> {
        let known = repository::known()?;
        let place = match &asked.repository {
            Some(repository) => named(&known, repository).map_or(repository.as_str(), |known| known.url.as_str()),
            None => asked.chart.as_str(),
        };
        let scheme = if asked.plain_http { "http://" } else { "https://" };
        let origin = match place.strip_prefix(oci::SCHEME) {
            Some(rest) => origin(&format!(
                "{scheme}{}",
                rest.split(['/', '@']).next().unwrap_or_default()
            )),
            None => origin(place),
        };
        let login = asked.username.as_ref().map(|username| Login {
            origin: origin.clone(),
            username: username.clone(),
            password: asked.password.clone(),
        });
        let authorities = asked.ca_file.as_deref().map(repository::authorities).transpose();
        Ok(Net {
            origin,
            asked: Http {
                login,
                authorities: authorities.context("--ca-file")?,
                ..Http::default()
            },
            known,
            plain_http: asked.plain_http,
        })
    }

    /// How a repository is asked: as was said, or as Helm knows it.
    fn http(&self, repository: &str) -> anyhow::Result<Http> {
        let scheme = if self.plain_http { "http://" } else { "https://" };
        let address = repository.replacen(oci::SCHEME, scheme, 1);
        let has_said = self.asked.login.is_some() || self.asked.authorities.is_some();
        if has_said && origin(&address) == self.origin {
            return Ok(self.asked.clone());
        }
        let known = self.known.iter().find(|known| known.is_meant(repository));
        known.map_or_else(|| Ok(Http::default()), Known::http)
    }

    /// The address of a repository, which may be Helm's name for it.
    fn address(&self, repository: &str) -> anyhow::Result<String> {
        let Some(name) = repository
            .strip_prefix('@')
            .or_else(|| repository.strip_prefix("alias:"))
        else {
            let mut schemes = ["http://", "https://", "file://", oci::SCHEME].iter();
            let is_address = repository.is_empty() || schemes.any(|scheme| repository.starts_with(scheme));
            ensure!(
                is_address,
                "{repository:?} is no address of a repository, such as https://charts.example.com"
            );
            return Ok(repository.to_owned());
        };
        let known = named(&self.known, name);
        Ok(known.with_context(|| unknown(name))?.url.clone())
    }

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

/// The repository that Helm knows by a name.
fn named<'k>(known: &'k [Known], name: &str) -> Option<&'k Known> {
    known.iter().find(|known| known.name == name.trim_start_matches('@'))
}

fn unknown(name: &str) -> String {
    format!("{name:?} is no address, and no repository that Helm knows: add the repository with `helm repo add`")
}
