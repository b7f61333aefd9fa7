//! Charts in OCI registries, over [`http`](super::http). A library would bring more than it saves: `oci-client` comes with
//! reqwest, a second HTTP client, and chrono, which `deny.toml` bans. Facts: the distribution specification, and Helm's
//! `pkg/registry`.

use anyhow::{Context as _, bail, ensure};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LINK, WWW_AUTHENTICATE};
use serde::Deserialize;
use url::Url;

use super::archive::{Archive, check_digest};
use super::credentials::{self, Credentials};
use super::http::{Answer, Ask, Http, basic, origin};
use super::versions::pick;
use helm_template::sprig::semver::Version;

/// What stands before a reference.
pub const SCHEME: &str = "oci://";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
/// As many pages of tags as are read.
const MOST_PAGES: usize = 100;

/// `oci://host/path:tag@sha256:...`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciReference {
    /// The host, with its port.
    pub registry: String,
    pub repository: String,
    /// As a registry knows it: `_` for `+`; empty if there is none.
    pub tag: String,
    /// `sha256:` and hex; empty if there is none.
    pub digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OciManifest {
    #[serde(default)]
    media_type: String,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
}

impl OciReference {
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let wrong =
            || format!("{text:?} is no reference to a chart, such as oci://registry.example.com/charts/web:1.2.3");
        let rest = text.strip_prefix(SCHEME).with_context(wrong)?;
        let (rest, digest) = rest.split_once('@').unwrap_or((rest, ""));
        let (registry, path) = rest.split_once('/').with_context(wrong)?;
        let (repository, tag) = path.split_once(':').unwrap_or((path, ""));
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_part = |part: &str| {
            part.starts_with(is_word)
                && part.ends_with(is_word)
                && part.chars().all(|c| is_word(c) || matches!(c, '.' | '_' | '-'))
        };
        let is_host = !registry.is_empty()
            && registry
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-:[]_".contains(c));
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        let is_digest = digest.is_empty() || is_sha256(hex);
        let is_tag = tag.is_empty() || is_tag(&tag.replace('+', "_"));
        ensure!(
            is_host && repository.split('/').all(is_part) && is_tag && is_digest,
            wrong()
        );
        Ok(OciReference {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            tag: tag.replace('+', "_"),
            digest: digest.to_ascii_lowercase(),
        })
    }
}

/// Whether a registry may have such a tag.
fn is_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tag.len() <= 128 && tag.starts_with(is_word) && tag.chars().all(|c| is_word(c) || matches!(c, '.' | '-'))
}

/// Whether a text is a SHA-256 in hex.
fn is_sha256(hex: &str) -> bool {
    hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a password may be sent where a registry says that it gives tokens: the registry itself, or another host by HTTPS. Only
/// the registry's own challenge may name one ([`Registry::get`]).
fn is_safe_realm(registry: &str, realm: &Url) -> bool {
    realm.origin().ascii_serialization() == registry || (realm.scheme() == "https" && realm.has_host())
}

impl std::fmt::Display for OciReference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.repository)?;
        if !self.tag.is_empty() {
            write!(f, ":{}", self.tag)?;
        }
        if !self.digest.is_empty() {
            write!(f, "@{}", self.digest)?;
        }
        Ok(())
    }
}

/// Downloads a chart; with `provenance` also what is signed of it.
///
/// # Errors
/// Why there is none.
pub fn pull(http: &Http, plain: bool, at: &OciReference, wanted: &str, provenance: bool) -> anyhow::Result<Archive> {
    let mut registry = Registry::new(http, plain, at);
    let at = registry.resolve(at, wanted).with_context(|| at.to_string())?;
    registry.chart(&at, provenance).with_context(|| at.to_string())
}

/// A repository of a registry, and how it lets us in.
struct Registry<'h> {
    http: &'h Http,
    base: String,
    /// The registry's scheme, host and port: credentials are for these alone.
    origin: String,
    host: String,
    repository: String,
    /// The Authorization header that the registry requires.
    authorization: Option<String>,
}

impl<'h> Registry<'h> {
    fn new(http: &'h Http, plain: bool, at: &OciReference) -> Self {
        let scheme = if plain { "http" } else { "https" };
        // As docker calls it, and where it is.
        let host = match at.registry.as_str() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let base = format!("{scheme}://{host}/v2/{}", at.repository);
        Registry {
            http,
            origin: origin(&base),
            base,
            host: at.registry.clone(),
            repository: at.repository.clone(),
            authorization: None,
        }
    }

    /// The reference of the one version that is wanted.
    fn resolve(&mut self, at: &OciReference, wanted: &str) -> anyhow::Result<OciReference> {
        if !at.digest.is_empty() {
            return Ok(at.clone());
        }
        let tag = wanted.replace('+', "_");
        if !at.tag.is_empty() {
            ensure!(
                wanted.is_empty() || tag == at.tag,
                "the tag of the reference differs from the version {wanted:?}"
            );
            return Ok(at.clone());
        }
        let tag = match Version::parse(wanted) {
            // Two parts are a constraint as well.
            Ok(_) if wanted.matches('.').count() >= 2 && is_tag(&tag) => tag,
            _ => {
                let tags = self.tags()?;
                let versions: Vec<String> = tags.iter().map(|tag| tag.replace('_', "+")).collect();
                let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
                tags[pick(&versions, wanted)?].clone()
            }
        };
        Ok(OciReference { tag, ..at.clone() })
    }

    fn tags(&mut self) -> anyhow::Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Page {
            /// Null, if there are none.
            tags: Option<Vec<String>>,
        }
        let mut tags = Vec::new();
        let mut url = Url::parse(&format!("{}/tags/list", self.base))?;
        for _ in 0..MOST_PAGES {
            let answer = self.get(url.as_str(), Ask::default())?;
            let page: Page =
                serde_json::from_slice(&answer.body).context("the registry's list of tags can't be read")?;
            // A tag becomes a part of a URL.
            let page = page.tags.unwrap_or_default().into_iter();
            tags.extend(page.filter(|tag| is_tag(tag)));
            let next = answer.headers.get(LINK).and_then(|link| {
                let (target, relation) = link.to_str().ok()?.strip_prefix('<')?.split_once('>')?;
                relation.contains("next").then(|| target.to_owned())
            });
            match next {
                Some(next) => {
                    url = url.join(&next)?;
                    let other = url.origin().ascii_serialization();
                    ensure!(
                        other == self.origin,
                        "the registry's list of tags goes on at another host, {other}: name the version with --helm-chart-version"
                    );
                }
                None => break,
            }
        }
        Ok(tags)
    }

    fn chart(&mut self, at: &OciReference, provenance: bool) -> anyhow::Result<Archive> {
        let name = if at.digest.is_empty() { &at.tag } else { &at.digest };
        let url = format!("{}/manifests/{name}", self.base);
        let ask = Ask {
            accept: "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, */*",
            ..Ask::default()
        };
        let answer = self.get(&url, ask)?;
        if !at.digest.is_empty() {
            check_digest(&answer.body, at.digest.trim_start_matches("sha256:")).context("the manifest")?;
        }
        let manifest: OciManifest =
            serde_json::from_slice(&answer.body).context("the registry's answer is no manifest")?;
        let content_type = answer.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = match manifest.media_type.as_str() {
            "" => content_type.unwrap_or_default(),
            kind => kind,
        };
        let config = manifest.config.as_ref().map_or("", |config| config.media_type.as_str());
        if config != CONFIG {
            let what = if config.is_empty() { kind } else { config };
            bail!("there is no Helm chart, but {what:?}");
        }
        ensure!(
            kind == MANIFEST || kind.is_empty(),
            "the manifest is of the kind {kind:?}, which Helm doesn't write"
        );
        let layer = |kind: &str| manifest.layers.iter().find(|layer| layer.media_type == kind);
        let chart = layer(CHART).context("the manifest has no layer with a chart")?;
        let shown = format!("{}:{}", at.repository, name);
        let data = self.blob(&chart.digest, &shown)?;
        let provenance = if !provenance {
            None
        } else {
            let layer = layer(PROVENANCE).context("--verify: what is signed of the chart isn't there")?;
            Some(self.blob(&layer.digest, &format!("{shown}.prov"))?)
        };
        Ok(Archive {
            from: at.to_string(),
            data,
            provenance,
        })
    }

    fn blob(&mut self, digest: &str, name: &str) -> anyhow::Result<Vec<u8>> {
        let hex = digest.strip_prefix("sha256:").filter(|hex| is_sha256(hex));
        let hex = hex.with_context(|| format!("{digest:?} is no SHA-256, which Helm writes"))?;
        let url = format!("{}/blobs/{digest}", self.base);
        let ask = Ask {
            name: Some(name),
            ..Ask::default()
        };
        let data = self.get(&url, ask)?.body;
        check_digest(&data, hex).with_context(|| name.to_owned())?;
        Ok(data)
    }

    /// A request, a second time if the registry asks who we are.
    fn get(&mut self, url: &str, ask: Ask<'_>) -> anyhow::Result<Answer> {
        let authorized = |registry: &Self| {
            let authorization = registry.authorization.as_deref();
            registry.http.ask(url, Ask { authorization, ..ask })
        };
        let mut answer = authorized(self)?;
        if answer.status == StatusCode::UNAUTHORIZED && self.authorization.is_none() {
            // The challenge of another host could have the password sent anywhere.
            ensure!(
                answer.origin == self.origin,
                "failed to fetch {url}: the registry redirects to {}, which wants a login; credentials for {} are not sent there",
                answer.origin,
                self.host
            );
            self.authorization = Some(self.authorize(&answer)?);
            answer = authorized(self)?;
        }
        let status = answer.status;
        let hint = match status {
            StatusCode::NOT_FOUND => ": there is no such chart or version",
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                ": --username and --password-stdin say who you are, or `docker login`, or `helm registry login`"
            }
            _ => "",
        };
        ensure!(
            status.is_success(),
            "failed to fetch {url}: the registry answers {status}{hint}"
        );
        Ok(answer)
    }

    /// The header that a registry wants. What was given for it goes before what docker and Helm know.
    fn authorize(&self, answer: &Answer) -> anyhow::Result<String> {
        let given = self.http.login.as_ref();
        let credentials = match given {
            Some(login) => Some(Credentials::Password(login.username.clone(), login.password.clone())),
            None => credentials::find(&self.host)?,
        };
        let challenges = answer.headers.get_all(WWW_AUTHENTICATE).iter();
        let challenges: Vec<&str> = challenges.filter_map(|header| header.to_str().ok()).collect();
        let of = |scheme: &str| {
            challenges.iter().find_map(|challenge| {
                let (word, rest) = challenge.split_once(' ')?;
                word.eq_ignore_ascii_case(scheme).then_some(rest)
            })
        };
        match (of("Bearer"), of("Basic"), credentials) {
            (Some(challenge), _, credentials) => self.token(challenge, credentials.as_ref()),
            (None, Some(_), Some(Credentials::Password(name, password))) => Ok(basic(&name, &password)),
            (None, Some(_), _) => bail!(
                "{} wants a name and a password: --username and --password-stdin, or `docker login`, or `helm registry login`",
                self.host
            ),
            _ => bail!("{} refuses, and doesn't say what it wants", self.host),
        }
    }

    fn token(&self, challenge: &str, credentials: Option<&Credentials>) -> anyhow::Result<String> {
        #[derive(Deserialize)]
        struct Token {
            #[serde(default)]
            token: String,
            #[serde(default)]
            access_token: String,
        }
        let realm = parameter(challenge, "realm").context("the registry doesn't say where it gives tokens")?;
        let mut url = Url::parse(&realm).with_context(|| format!("{realm:?} is no address"))?;
        ensure!(
            is_safe_realm(&self.origin, &url),
            "{} wants the login sent to another host in plain text, {realm}: only HTTPS is accepted there",
            self.host
        );
        let scope = format!("repository:{}:pull", self.repository);
        let service = parameter(challenge, "service").unwrap_or_default();
        let mut authorization = None;
        let mut form = None;
        match credentials {
            Some(Credentials::Token(token)) => {
                let mut fields = url::form_urlencoded::Serializer::new(String::new());
                fields.append_pair("grant_type", "refresh_token");
                fields.append_pair("client_id", "chartwright");
                fields.append_pair("refresh_token", token);
                form = Some(
                    fields
                        .append_pair("service", &service)
                        .append_pair("scope", &scope)
                        .finish(),
                );
            }
            other => {
                if let Some(Credentials::Password(name, password)) = other {
                    authorization = Some(basic(name, password));
                }
                url.query_pairs_mut()
                    .append_pair("service", &service)
                    .append_pair("scope", &scope);
            }
        }
        let ask = Ask {
            authorization: authorization.as_deref(),
            form: form.as_deref(),
            ..Ask::default()
        };
        let answer = self.http.file(url.as_str(), ask).context("no token")?;
        let token: Token = serde_json::from_slice(&answer).with_context(|| format!("{realm} answers no token"))?;
        let token = if token.token.is_empty() {
            token.access_token
        } else {
            token.token
        };
        ensure!(!token.is_empty(), "{realm} answers no token");
        Ok(format!("Bearer {token}"))
    }
}

/// A parameter of a challenge: `realm="https://auth.example.com/token",service="registry"`.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    loop {
        let (key, after) = rest.split_once('=')?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_at(after.find(',').unwrap_or(after.len())),
        };
        if key.trim_matches([' ', ',']).eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_parsed() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, want) in [
            ("oci://a.example.com/web", ["a.example.com", "web", "", ""]),
            (
                "oci://localhost:5000/c/web:1.2.3+b.1",
                ["localhost:5000", "c/web", "1.2.3_b.1", ""],
            ),
            (
                &format!("oci://a/c/web:1.0.0@{digest}"),
                ["a", "c/web", "1.0.0", &digest],
            ),
            (&format!("oci://a/web@{digest}"), ["a", "web", "", &digest]),
        ] {
            let found = OciReference::parse(text).unwrap();
            let found_parts = [&found.registry, &found.repository, &found.tag, &found.digest];
            assert_eq!(found_parts, want, "{text}");
            assert_eq!(found.to_string(), text.replace('+', "_"));
        }
        for text in [
            "a/web",
            "oci://a",
            "oci://a/",
            "oci:///web",
            "oci://a/Web",
            "oci://a/web:a b",
            "oci://a/web@sha256:ab",
            "oci://a/web@md5:ab",
            "oci://a/-web",
            "oci://a//web",
            "oci://u:p@a/web",
        ] {
            let error = OciReference::parse(text).unwrap_err().to_string();
            assert!(error.contains("is no reference to a chart"), "{error}");
        }
    }

    #[test]
    fn a_password_is_sent_to_the_registry_or_by_https() {
        for (registry, realm, is_safe) in [
            ("https://a", "https://a/token", true),
            ("https://a", "https://a:443/token", true),
            ("https://a", "https://auth.example.com/token", true),
            ("https://a", "http://a/token", false),
            ("http://a:5000", "http://a:5000/token", true),
            ("http://a:5000", "http://a:5001/token", false),
            ("http://a:5000", "http://b:5000/token", false),
            ("http://a:5000", "https://b/token", true),
            ("https://a", "file:///etc/passwd", false),
            ("https://a", "data:text/plain,x", false),
        ] {
            assert_eq!(is_safe_realm(registry, &Url::parse(realm).unwrap()), is_safe, "{realm}");
        }
    }

    #[test]
    fn what_a_registry_says_becomes_no_part_of_a_url() {
        for (tag, is_valid) in [
            ("1.2.3_b.1", true),
            ("_a", true),
            ("", false),
            ("..", false),
            ("-rf", false),
            ("1.0.0/../../other", false),
            ("1.0.0?x=y", false),
            ("1.0.0\u{1b}[2J", false),
            (&*"1".repeat(129), false),
        ] {
            assert_eq!(is_tag(tag), is_valid, "{tag:?}");
        }
        assert!(is_sha256(&"aB".repeat(32)) && !is_sha256("../../other") && !is_sha256(&"g".repeat(64)));
    }

    #[test]
    fn parameters_of_challenges_are_found() {
        let challenge = r#"realm="https://a/token?x=1,2",service=b, scope="repository:c:pull,push",error="x""#;
        for (name, want) in [
            ("realm", Some("https://a/token?x=1,2")),
            ("service", Some("b")),
            ("scope", Some("repository:c:pull,push")),
            ("none", None),
        ] {
            assert_eq!(parameter(challenge, name).as_deref(), want);
        }
        assert_eq!(parameter("nonsense", "realm"), None);
        assert_eq!(parameter("realm=\"open", "realm"), None);
    }
}
