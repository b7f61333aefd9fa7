//! Files by HTTP. The client is that of the Kubernetes library, without a cluster: it brings TLS, and the proxies of
//! `HTTPS_PROXY` and `NO_PROXY`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, USER_AGENT};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use futures::StreamExt as _;
use kube::client::Body;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use percent_encoding::percent_decode_str;
use serde_json::json;
use url::Url;

use crate::progress::ProgressLine;

/// As many requests as one may lead to.
const MOST_REQUESTS: usize = 10;

/// A client for HTTP servers with limits of time and size.
#[derive(Clone, Debug)]
pub struct Http {
    pub login: Option<Login>,
    /// Certificates of authorities, in PEM, which are trusted instead of the system's.
    pub authorities: Option<String>,
    /// How long a server may be silent.
    pub idle_timeout: Duration,
    /// How long a download may take, redirections included.
    pub timeout: Duration,
    /// The largest file that is accepted, in bytes.
    pub largest: usize,
}

/// A name and a password, sent to one server alone.
#[derive(Clone)]
pub struct Login {
    /// `https://host:port`, as [`origin`] makes it.
    pub origin: String,
    pub username: String,
    pub password: String,
}

/// What a request says besides its URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    pub accept: &'a str,
    /// The header of that name, sent to the server of the URL alone; instead of a login.
    pub authorization: Option<&'a str>,
    /// A form that is sent, to the server of the URL alone: it may hold a token.
    pub form: Option<&'a str>,
    /// What is downloaded, for those who watch.
    pub name: Option<&'a str>,
}

/// What a server answers, be it that there is nothing.
#[derive(Debug)]
pub struct Answer {
    /// The server that answered, as [`origin`] makes it: after redirects perhaps another one than that of the URL.
    pub origin: String,
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

/// Whether a path or a chart is named by URL.
pub fn is_url(text: &str) -> bool {
    text.starts_with("http://") || text.starts_with("https://")
}

/// A URL without what stands before the host: a password, perhaps.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// The scheme, the host and the port of a URL; empty if it has none.
pub fn origin(url: &str) -> String {
    Url::parse(url).map_or(String::new(), |url| url.origin().ascii_serialization())
}

/// The header of a name and a password.
pub fn basic(username: &str, password: &str) -> String {
    let text = data_encoding::BASE64.encode(format!("{username}:{password}").as_bytes());
    format!("Basic {text}")
}

/// The file at a URL. Blocks; must not be called within an async runtime.
///
/// # Errors
/// Why there is none, with the URL.
pub fn get(url: &str) -> Result<Vec<u8>, String> {
    let file = Http::default().file(url, Ask::default());
    file.map_err(|error| format!("{error:#}"))
}

impl Default for Http {
    fn default() -> Self {
        Http {
            login: None,
            authorities: None,
            idle_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(600),
            largest: 64 << 20,
        }
    }
}

impl Http {
    /// The file at a URL. Blocks; must not be called within an async runtime.
    ///
    /// # Errors
    /// Why there is none, with the URL.
    pub fn file(&self, url: &str, ask: Ask<'_>) -> anyhow::Result<Vec<u8>> {
        let answer = self.ask(url, ask)?;
        ensure!(
            answer.status.is_success(),
            "failed to fetch {}: the server answers {}",
            without_password(url),
            answer.status
        );
        Ok(answer.body)
    }

    /// What the server of a URL answers. Blocks; must not be called within an async runtime.
    ///
    /// # Errors
    /// Why there is no answer, with the URL.
    pub fn ask(&self, url: &str, ask: Ask<'_>) -> anyhow::Result<Answer> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = async { tokio::time::timeout(self.timeout, self.follow(url, ask)).await };
        let late = |_| anyhow!("no whole answer within {} seconds", self.timeout.as_secs());
        let answer = runtime.block_on(work).map_err(late).and_then(|answer| answer);
        // The libraries' errors repeat what they come from.
        answer.map_err(|error| {
            let problem = chartwright_operator::telemetry::chain(error.as_ref());
            anyhow!("failed to fetch {}: {problem}", without_password(url))
        })
    }

    /// Follows redirects. Credentials are for the server of the URL: what leads to another scheme, host or port loses them for
    /// good, as in Go's client, also where it leads back.
    async fn follow(&self, url: &str, mut ask: Ask<'_>) -> anyhow::Result<Answer> {
        let mut at = Url::parse(url)?;
        let first = at.origin();
        let mut login = self.login.as_ref();
        for _ in 0..MOST_REQUESTS {
            let (head, body) = self.in_time(self.send(&at, ask, login)).await?.into_parts();
            if head.status.is_redirection() {
                let location = head.headers.get(LOCATION).context("a redirection to nowhere")?;
                at = at.join(location.to_str()?)?;
                if at.origin() != first {
                    ensure!(
                        ask.form.is_none(),
                        "it redirects a request with a token to another host, {}",
                        at.origin().ascii_serialization()
                    );
                    login = None;
                    ask.authorization = None;
                }
                continue;
            }
            let body = self.whole(body, &head.headers, ask.name).await?;
            return Ok(Answer {
                origin: at.origin().ascii_serialization(),
                status: head.status,
                headers: head.headers,
                body,
            });
        }
        bail!("more than {MOST_REQUESTS} redirections")
    }

    /// One request. A name and a password in the URL are sent to its own server alone.
    async fn send(&self, at: &Url, ask: Ask<'_>, login: Option<&Login>) -> anyhow::Result<Response<Body>> {
        ensure!(
            ["http", "https"].contains(&at.scheme()) && at.has_host(),
            "no host in the URL"
        );
        let server = at.origin().ascii_serialization();
        let login = login.filter(|login| login.origin == server);
        let authorization = match (ask.authorization, login) {
            (Some(given), _) => Some(given.to_owned()),
            (None, _) if !at.username().is_empty() || at.password().is_some() => {
                let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
                Some(basic(
                    &decoded(at.username()),
                    &decoded(at.password().unwrap_or_default()),
                ))
            }
            (None, login) => login.map(|login| basic(&login.username, &login.password)),
        };
        let path = &at[url::Position::BeforePath..url::Position::AfterQuery];
        let mut request = match ask.form {
            None => Request::get(path).body(Body::empty())?,
            Some(form) => Request::post(path).body(Body::from(form.as_bytes().to_vec()))?,
        };
        let headers = request.headers_mut();
        let agent = concat!("chartwright/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if !ask.accept.is_empty() {
            headers.insert(ACCEPT, ask.accept.parse()?);
        }
        if ask.form.is_some() {
            headers.insert(
                CONTENT_TYPE,
                HeaderValue::from_static("application/x-www-form-urlencoded"),
            );
        }
        if let Some(authorization) = authorization {
            let mut value = HeaderValue::from_str(&authorization)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(self.client(at, &server).await?.send(request).await?)
    }

    async fn client(&self, at: &Url, server: &str) -> anyhow::Result<Client> {
        let encode = |pem: &String| data_encoding::BASE64.encode(pem.as_bytes());
        let authorities = self.authorities.as_ref().map(encode);
        // Only a configuration that is read as a kubeconfig takes the proxies from the environment.
        let kubeconfig = json!({
            "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": authorities}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        });
        let kubeconfig = serde_json::from_value(kubeconfig)?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        if ["localhost", "127.0.0.1", "[::1]"].contains(&at.host_str().unwrap_or_default()) {
            // As in Go: no proxy leads to this machine.
            config.proxy_url = None;
        }
        Ok(Client::try_from(config)?)
    }

    async fn in_time<T, E: Into<anyhow::Error>>(&self, work: impl Future<Output = Result<T, E>>) -> anyhow::Result<T> {
        let silent = |_| anyhow!("the server is silent for {} seconds", self.idle_timeout.as_secs());
        let done = tokio::time::timeout(self.idle_timeout, work).await.map_err(silent)?;
        done.map_err(Into::into)
    }

    async fn whole(&self, body: Body, headers: &HeaderMap, name: Option<&str>) -> anyhow::Result<Vec<u8>> {
        let length = headers
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse().ok());
        let too_large = || format!("larger than {} bytes", self.largest);
        ensure!(length.is_none_or(|length: usize| length <= self.largest), too_large());
        let mut progress = name.map(|name| (name, ProgressLine::new()));
        let line = |name: &str, done: usize| {
            let of = length.map_or(String::new(), |length| format!(" of {}", length.div_ceil(1024)));
            format!("{name}: {}{of} KiB", done.div_ceil(1024))
        };
        let mut parts = axum::body::Body::new(body).into_data_stream();
        let mut whole = Vec::new();
        while let Some(part) = self
            .in_time(async { parts.next().await.transpose() })
            .await
            .context("cut off")?
        {
            ensure!(whole.len() + part.len() <= self.largest, too_large());
            whole.extend_from_slice(&part);
            if let Some((name, progress)) = &mut progress {
                progress.show(|| line(name, whole.len()));
            }
        }
        if let Some((name, progress)) = progress {
            progress.end(&line(name, whole.len()));
        }
        Ok(whole)
    }
}

/// Without the password.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {}", self.username, self.origin)
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
    use crate::testing::serve;

    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    #[test]
    fn a_password_is_told_to_its_server_alone() {
        let page = ("/echo", "200 OK", "");
        let (own, away) = (serve(Box::leak(Box::new([page]))), serve(Box::leak(Box::new([page]))));
        let body = |url: &str| String::from_utf8(get(url).unwrap()).unwrap();
        let own = body(&format!("http://u:p@{own}/echo"));
        assert!(own.to_lowercase().contains("authorization: basic dtpw"), "{own}");
        let location = format!("302 Found\r\nLocation: http://{away}/echo").leak();
        let moved = serve(Box::leak(Box::new([("/moved", &*location, "")])));
        let away = body(&format!("http://u:p@{moved}/moved"));
        assert!(!away.to_lowercase().contains("authorization"), "{away}");
        let problem = get(&format!("http://u:p@{moved}/none")).unwrap_err();
        assert!(
            problem.starts_with(&format!("failed to fetch http://{moved}/none: ")),
            "{problem}"
        );
    }

    /// What lets into one server is for its scheme, host and port, and for no server that it names.
    #[test]
    fn redirects_to_another_server_drop_credentials() {
        let page = ("/echo", "200 OK", "");
        let away = serve(Box::leak(Box::new([page])));
        let location = format!("302 Found\r\nLocation: http://{away}/echo").leak();
        let own = serve(Box::leak(Box::new([("/moved", &*location, ""), page])));
        let back = format!("302 Found\r\nLocation: http://{own}/echo").leak();
        let round = serve(Box::leak(Box::new([("/back", &*back, "")])));
        let there = format!("302 Found\r\nLocation: http://{round}/back").leak();
        let start = serve(Box::leak(Box::new([("/round", &*there, ""), page])));
        let http = |origin: &str| Http {
            login: Some(Login {
                origin: format!("http://{origin}"),
                username: "u".to_owned(),
                password: "p".to_owned(),
            }),
            ..Http::default()
        };
        let given = Ask {
            authorization: Some("Bearer secret"),
            ..Ask::default()
        };
        for (login, url, ask, is_sent) in [
            (&own, format!("http://{own}/echo"), Ask::default(), true),
            (&own, format!("http://{own}/moved"), Ask::default(), false),
            (&away, format!("http://{own}/moved"), Ask::default(), false),
            (&own, format!("http://{own}/moved"), given, false),
            // Back at the server of the login, by way of another.
            (&own, format!("http://{start}/round"), given, false),
        ] {
            let received = String::from_utf8(http(login).file(&url, ask).unwrap()).unwrap();
            let has = received.to_lowercase().contains("authorization");
            assert_eq!(has, is_sent, "{url}: {received}");
        }
        let form = Ask {
            form: Some("refresh_token=secret"),
            ..Ask::default()
        };
        let problem = http(&own).file(&format!("http://{own}/moved"), form).unwrap_err();
        let want = format!("to another host, http://{away}");
        assert!(problem.to_string().ends_with(&want), "{problem}");
    }

    #[test]
    fn redirections_are_followed_a_while() {
        let server = serve(&[
            ("/a/b", "302 Found\r\nLocation: c?e", ""),
            ("/a/c?e", "302 Found\r\nLocation: /d", ""),
            ("/d", "200 OK", "there"),
            ("/round", "302 Found\r\nLocation: round", ""),
            ("/off", "302 Found\r\nLocation: file:///etc/passwd", ""),
        ]);
        assert_eq!(get(&format!("http://{server}/a/b")).unwrap(), b"there");
        for (path, want) in [("round", "more than 10 redirections"), ("off", "no host in the URL")] {
            let problem = get(&format!("http://{server}/{path}")).unwrap_err();
            assert!(problem.ends_with(want), "{problem}");
        }
    }

    #[test]
    fn what_is_slow_or_large_is_given_up() {
        let http = Http {
            idle_timeout: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            largest: 1000,
            ..Http::default()
        };
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let large = serve(Box::leak(Box::new([("/", "200 OK", &*"0".repeat(1001).leak())])));
        // Sends one byte at a time, without end.
        let slow = TcpListener::bind("127.0.0.1:0").unwrap();
        let endless = slow.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut stream = slow.accept().unwrap().0;
            let _ = BufReader::new(stream.try_clone().unwrap()).read_line(&mut String::new());
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            while stream.write_all(b"0000001\r\na\r\n").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        for (url, want) in [
            (format!("http://{large}/"), "larger than 1000 bytes"),
            (format!("http://{closed}/"), "Connection refused"),
            (format!("http://{endless}/"), "no whole answer within 2 seconds"),
        ] {
            let problem = format!("{:#}", http.file(&url, Ask::default()).unwrap_err());
            assert!(problem.starts_with(&format!("failed to fetch {url}: ")), "{problem}");
            assert!(problem.contains(want), "{problem}");
        }
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", held.local_addr().unwrap());
        let problem = format!("{:#}", http.file(&url, Ask::default()).unwrap_err());
        assert!(problem.ends_with("the server is silent for 1 seconds"), "{problem}");
    }
}
