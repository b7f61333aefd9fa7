//! How servers are asked: as the request says, or as Helm knows them.

use anyhow::{Context as _, ensure};

use super::helm_config::{self, Known, alias, named, unknown};
use super::http::{self, Http, Login, origin};
use super::oci;
use super::request::ChartRequest;

/// How servers are asked.
#[derive(Debug)]
pub struct Net {
    /// The server that what was said of names and certificates is for.
    origin: String,
    pub(super) asked: Http,
    pub(super) known: Vec<Known>,
    pub(super) plain_http: bool,
}

impl Net {
    pub(super) fn new(asked: &ChartRequest) -> anyhow::Result<Self> {
        let known = helm_config::known()?;
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
        let authorities = asked.ca_file.as_deref().map(http::authorities).transpose();
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
    pub(super) fn http(&self, repository: &str) -> anyhow::Result<Http> {
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
    pub(super) fn address(&self, repository: &str) -> anyhow::Result<String> {
        let Some(name) = alias(repository) else {
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
}
