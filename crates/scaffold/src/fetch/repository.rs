//! Chart repositories: which of the versions in an `index.yaml` is meant, and where its archive is. Helm's own list of
//! repositories, for those that are called by name. Facts: Helm's `pkg/repo/v1/{index,repo}.go`.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::http::{Ask, Http, Login, origin, without_password};
use super::{Archive, Net, check_digest, oci};
use helm_template::sprig::semver::{Constraints, Version};

/// One version of a chart in an index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexEntry {
    pub version: String,
    /// The first of its archive's addresses, perhaps relative to the repository's.
    pub url: String,
    /// SHA-256 of the archive, in hex; empty if the index has none.
    pub digest: String,
}

/// A repository that Helm knows by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Known {
    pub name: String,
    pub url: String,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub password: String,
    #[serde(default, rename = "caFile")]
    pub ca_file: String,
}

/// The place of the version that is wanted: the one that is called exactly so, else the newest that the constraint allows;
/// the newest stable one if nothing is wanted.
///
/// # Errors
/// What is wanted is no constraint, or nothing satisfies it.
pub fn pick(versions: &[&str], wanted: &str) -> anyhow::Result<usize> {
    if let Some(exact) = versions.iter().position(|version| *version == wanted) {
        return Ok(exact);
    }
    let constraint = if wanted.is_empty() { "*" } else { wanted };
    let constraint = Constraints::parse(constraint).map_err(|error| anyhow!("{wanted:?} is no version: {error}"))?;
    let read = versions.iter().enumerate();
    let read = read.filter_map(|(at, version)| Some((at, Version::parse(version).ok()?)));
    let fitting = read.filter(|(_, version)| constraint.check(version));
    // Of equals the first: what stands in an index first.
    let newest = fitting.reduce(|best, next| match next.1.compare(&best.1) {
        Ordering::Greater => next,
        _ => best,
    });
    let what = match wanted {
        "" => "there is no stable version; --helm-chart-version \">0-0\" takes any".to_owned(),
        wanted => format!("no version satisfies {wanted:?}"),
    };
    newest.map(|(at, _)| at).with_context(|| match versions {
        [] => "there is no version at all".to_owned(),
        some => format!("{what}; there are: {}", some[..some.len().min(5)].join(", ")),
    })
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

/// The repositories that Helm knows.
///
/// # Errors
/// The file can't be read.
pub fn known() -> anyhow::Result<Vec<Known>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        repositories: Vec<Known>,
    }
    let Some(path) = helm_file("HELM_REPOSITORY_CONFIG", "repositories.yaml") else {
        return Ok(Vec::new());
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let list: List = serde_yaml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(list.repositories)
}

/// A file of Helm's configuration, which a variable of the environment may name.
pub fn helm_file(variable: &str, name: &str) -> Option<PathBuf> {
    let given = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    given(variable).or_else(|| {
        let folder = given("HELM_CONFIG_HOME").or_else(|| Some(given("XDG_CONFIG_HOME")?.join("helm")));
        let own = if cfg!(target_os = "macos") {
            "Library/Preferences"
        } else {
            ".config"
        };
        Some(
            folder
                .or_else(|| Some(given("HOME")?.join(own).join("helm")))?
                .join(name),
        )
    })
}

impl Known {
    /// Whether a dependency's repository or what stands before a chart's name means this one.
    pub fn is_meant(&self, repository: &str) -> bool {
        let name = repository
            .strip_prefix('@')
            .or_else(|| repository.strip_prefix("alias:"));
        name == Some(&self.name) || self.url.trim_end_matches('/') == repository.trim_end_matches('/')
    }

    /// How Helm asks it.
    ///
    /// # Errors
    /// Its certificates can't be read.
    pub fn http(&self) -> anyhow::Result<Http> {
        let login = Login {
            origin: origin(&self.url),
            username: self.username.clone(),
            password: self.password.clone(),
        };
        Ok(Http {
            login: Some(login).filter(|login| !login.username.is_empty()),
            authorities: match self.ca_file.as_str() {
                "" => None,
                path => Some(authorities(Path::new(path))?),
            },
            ..Http::default()
        })
    }
}

/// The certificates in a file.
///
/// # Errors
/// There are none.
pub fn authorities(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let is_pem = text.contains("-----BEGIN CERTIFICATE-----");
    ensure!(is_pem, "{}: there is no certificate in PEM", path.display());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_picked_as_helm_does() {
        let versions = [
            "2.0.0-rc.1",
            "1.2.0",
            "1.10.1",
            "1.9.0",
            "v0.3.0",
            "nonsense",
            "1.10.1+build.2",
        ];
        for (wanted, want) in [
            ("", "1.10.1"),
            ("1.9.0", "1.9.0"),
            ("~1.9", "1.9.0"),
            ("~1.2", "1.2.0"),
            ("^1", "1.10.1"),
            ("<1.10", "1.9.0"),
            ("0.3.0", "v0.3.0"),
            ("1.10.1+build.2", "1.10.1+build.2"),
            (">0-0", "2.0.0-rc.1"),
            (">=2.0.0-0", "2.0.0-rc.1"),
            ("nonsense", "nonsense"),
            ("1.x || >=3", "1.10.1"),
        ] {
            assert_eq!(versions[pick(&versions, wanted).unwrap()], want, "{wanted}");
        }
        for (versions, wanted, want) in [
            (
                &versions[..],
                "3",
                "no version satisfies \"3\"; there are: 2.0.0-rc.1, 1.2.0",
            ),
            (&versions[..], "no", "\"no\" is no version: improper constraint"),
            (&["1.0.0-rc"], "", "there is no stable version"),
            (&[], "", "there is no version at all"),
        ] {
            let error = pick(versions, wanted).unwrap_err().to_string();
            assert!(error.starts_with(want), "{wanted}: {error}");
        }
    }

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
