//! Chart repositories: which of the versions in an `index.yaml` is meant, and where its archive is. Facts: Helm's
//! `pkg/repo/v1/index.go`.

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use url::Url;

use super::archive::{Archive, check_digest};
use super::http::{Ask, Http, without_password};
use super::net::Net;
use super::oci;
use super::versions::pick;

/// One version of a chart in an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    pub version: String,
    /// The first of its archive's addresses, perhaps relative to the repository's.
    pub url: String,
    /// SHA-256 of the archive, in hex; empty if the index has none.
    pub digest: String,
}

/// The version of a chart that is wanted, in the text of an index.
///
/// # Errors
/// It is no index, or has no such chart or version.
pub fn find(index: &[u8], name: &str, wanted: &str) -> anyhow::Result<IndexEntry> {
    let index = go_yaml::to_json(index).map_err(|error| anyhow!("it is no index of a chart repository: {error}"))?;
    let entries = index.get("entries").and_then(Value::as_object);
    let entries = entries.context("it is no index of a chart repository: there are no `entries`")?;
    let known = || {
        let names: Vec<&str> = entries.keys().map(String::as_str).take(5).collect();
        format!("the repository has no chart {name:?}; it has: {}", names.join(", "))
    };
    let versions = entries.get(name).with_context(known)?.as_array();
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let versions = versions.into_iter().flatten().map(|entry| IndexEntry {
        version: text(entry, "version"),
        url: entry
            .pointer("/urls/0")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        digest: text(entry, "digest"),
    });
    let versions: Vec<IndexEntry> = versions.filter(|entry| !entry.url.is_empty()).collect();
    let names: Vec<&str> = versions.iter().map(|entry| entry.version.as_str()).collect();
    let at = pick(&names, wanted).with_context(|| format!("chart {name:?}"))?;
    Ok(versions[at].clone())
}

/// The address of an archive that an index names.
///
/// # Errors
/// It is none.
pub fn join(repository: &str, url: &str) -> anyhow::Result<String> {
    let mut base = Url::parse(repository)?;
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    let query = base.query().map(str::to_owned);
    let mut joined = base.join(url).with_context(|| format!("{url:?} is no address"))?;
    if joined.origin() == base.origin() {
        // What lets into the repository lets at its archives.
        let _ = joined.set_username(base.username());
        let _ = joined.set_password(base.password());
        if joined.query().is_none() {
            joined.set_query(query.as_deref());
        }
    }
    Ok(joined.into())
}

/// Downloads the archive of a chart; with `provenance` also what is signed of it.
///
/// # Errors
/// Why there is none.
pub fn pull(net: &Net, repository: &str, name: &str, wanted: &str, provenance: bool) -> anyhow::Result<Archive> {
    let http = net.http(repository)?;
    let at = join(repository, "index.yaml")?;
    let index = http.file(&at, Ask::default())?;
    let entry = find(&index, name, wanted).with_context(|| without_password(&at))?;
    if entry.url.starts_with(oci::SCHEME) {
        // The index of a repository that has moved into a registry, which has digests of its own.
        let at = oci::OciReference::parse(&entry.url)?;
        let version = if at.tag.is_empty() { entry.version.as_str() } else { "" };
        return oci::pull(&net.http(&entry.url)?, net.plain_http, &at, version, provenance);
    }
    let url = join(repository, &entry.url)?;
    let archive = download(&http, &url, provenance)?;
    if !entry.digest.is_empty() {
        let digest = entry.digest.trim_start_matches("sha256:");
        check_digest(&archive.data, digest).with_context(|| without_password(&url))?;
    }
    Ok(archive)
}

/// Downloads an archive by its URL.
///
/// # Errors
/// Why there is none.
pub fn download(http: &Http, url: &str, provenance: bool) -> anyhow::Result<Archive> {
    let place = Url::parse(url)?;
    let name = place.path().rsplit('/').next().unwrap_or_default();
    let data = http.file(
        url,
        Ask {
            name: Some(name),
            ..Ask::default()
        },
    )?;
    let provenance = if !provenance {
        None
    } else {
        let mut place = place.clone();
        place.set_path(&format!("{}.prov", place.path()));
        let signature = http.file(place.as_str(), Ask::default());
        Some(signature.context("--verify: the chart has no provenance file")?)
    };
    Ok(Archive {
        from: without_password(url),
        data,
        provenance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_tells_where_archives_are() {
        let index = b"apiVersion: v1\nentries:\n  web:\n  - {version: 1.0.0, urls: [web-1.0.0.tgz], digest: ab}\n  - {version: 2.0.0}\n  none: []\n";
        let entry = find(index, "web", "").unwrap();
        assert_eq!((entry.url.as_str(), entry.digest.as_str()), ("web-1.0.0.tgz", "ab"));
        for (index, name, want) in [
            (
                &index[..],
                "shop",
                "the repository has no chart \"shop\"; it has: none, web",
            ),
            (index, "none", "chart \"none\": there is no version at all"),
            (
                b"<html>",
                "web",
                "it is no index of a chart repository: there are no `entries`",
            ),
            (b"a: [", "web", "it is no index of a chart repository: "),
            (
                b"",
                "web",
                "it is no index of a chart repository: there are no `entries`",
            ),
            (
                b"entries: 5",
                "web",
                "it is no index of a chart repository: there are no `entries`",
            ),
            (b"entries: {web: 5}", "web", "chart \"web\": there is no version at all"),
        ] {
            let error = format!("{:#}", find(index, name, "").unwrap_err());
            assert!(error.starts_with(want), "{error}");
        }
    }

    #[test]
    fn addresses_are_joined_as_helm_does() {
        for (repository, url, want) in [
            ("https://a/charts", "web-1.tgz", "https://a/charts/web-1.tgz"),
            ("https://a/charts/", "x/web-1.tgz", "https://a/charts/x/web-1.tgz"),
            ("https://a/charts", "/web-1.tgz", "https://a/web-1.tgz"),
            ("https://a/charts", "https://b/web-1.tgz", "https://b/web-1.tgz"),
            ("https://u:p@a/c", "web.tgz", "https://u:p@a/c/web.tgz"),
            ("https://u:p@a/c", "https://b/web.tgz", "https://b/web.tgz"),
            ("https://a/c?t=1", "web.tgz", "https://a/c/web.tgz?t=1"),
        ] {
            assert_eq!(join(repository, url).unwrap(), want);
        }
    }
}
