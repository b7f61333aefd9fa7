//! Files by URL: values (`pkg/getter/httpgetter.go` in Helm) and what schemas refer to (`HTTPURLLoader` in its
//! `pkg/chart/common/util/jsonschema.go`). The client is that of the Kubernetes library, without a cluster.

use std::error::Error as _;
use std::time::Duration;

use axum::http::{HeaderName, Request, StatusCode, Uri};
use data_encoding::BASE64;
use hyper::ext::ReasonPhrase;
use kube::client::Body;
use kube::{Client, Config};

use super::resolver;
use crate::chart::Fetch;
use crate::chart::io_text;
use crate::template::go::quote::quote_go;
use crate::template::sprig::url_parse::Url;

/// How long one answer may take; Helm waits as long for a schema.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The largest file that is taken, in bytes.
const LARGEST: usize = 64 << 20;
/// As many requests as Go's client makes where one leads to another.
const MOST_REQUESTS: usize = 10;

/// What came back.
struct Answer {
    status: StatusCode,
    /// The server's words for the status, or else the usual ones.
    reason: String,
    body: Vec<u8>,
}

/// The proxies that the environment names, as Go's `http.ProxyFromEnvironment` reads them.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    https: Option<String>,
    http: Option<String>,
    none: String,
}

/// Fetches values files and charts.
pub fn files(proxies: &Proxies) -> Fetch {
    let proxies = proxies.clone();
    Fetch::new(move |url| {
        let answer = get(url, &proxies)?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(format!("failed to fetch {url} : {} {}", status.as_u16(), answer.reason)),
        }
    })
}

/// Fetches schemas.
pub fn schemas(proxies: &Proxies) -> Fetch {
    let proxies = proxies.clone();
    Fetch::new(move |url| {
        let answer = get(url, &proxies).map_err(|problem| format!("HTTP request failed for {url}: {problem}"))?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(format!(
                "HTTP request to {url} returned status {} ({})",
                status.as_u16(),
                status.canonical_reason().unwrap_or_default()
            )),
        }
    })
}

fn get(url: &str, proxies: &Proxies) -> Result<Answer, String> {
    let asked = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|e| e.to_string())?.block_on(follow(url, proxies))
    };
    // On a thread of its own: whoever calls may already be within a runtime.
    let answer = std::thread::scope(|scope| scope.spawn(asked).join());
    answer.unwrap_or_else(|_| Err(failed(url, "the request stopped unexpectedly")))
}

async fn follow(url: &str, proxies: &Proxies) -> Result<Answer, String> {
    let mut at = url.to_owned();
    let mut last = String::new();
    for _ in 0..MOST_REQUESTS {
        let (answer, location) = match tokio::time::timeout(TIMEOUT, ask(&at, proxies)).await {
            Ok(result) => result.map_err(|problem| failed(&at, &problem))?,
            Err(_) => {
                let problem = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
                return Err(failed(&at, problem));
            }
        };
        match location {
            Some(location) => {
                at = join(&at, &location).map_err(|problem| failed(&at, &problem))?;
                last = location;
            }
            None => return Ok(answer),
        }
    }
    Err(failed(&last, &format!("stopped after {MOST_REQUESTS} redirects")))
}

/// Go's `url.Error` of a request, which shows no password.
pub fn failed(url: &str, problem: &str) -> String {
    let shown = Url::parse(url.as_bytes()).map(|url| url.text_without_password());
    format!("Get {}: {problem}", quote_go(shown.unwrap_or_else(|_| url.into())))
}

/// One request: the answer, and where it leads on to.
async fn ask(url: &str, proxies: &Proxies) -> Result<(Answer, Option<String>), String> {
    let url = Url::parse(url.as_bytes())?;
    if url.host.is_empty() {
        return Err("http: no Host in request URL".to_owned());
    }
    let text = String::from_utf8_lossy(&url.text()).into_owned();
    let uri: Uri = text.parse().map_err(|e| format!("{e}"))?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err("http: no Host in request URL".to_owned());
    };
    let host = authority.as_str().rsplit('@').next().unwrap_or_default();
    let server: Uri = format!("{scheme}://{host}").parse().map_err(|e| format!("{e}"))?;
    let mut config = Config::new(server);
    config.default_retry = false;
    config.proxy_url = match proxies.of(&uri) {
        Some(proxy) => Some(proxy.parse().map_err(|e| format!("proxyconnect tcp: {proxy}: {e}"))?),
        None => None,
    };
    let client = Client::try_from(config).map_err(|e| e.to_string())?;
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut request = Request::get(format!("{}{query}", uri.path()))
        .header("User-Agent", concat!("chartwright/", env!("CARGO_PKG_VERSION")));
    if let Some((name, password)) = url.credentials() {
        let credentials = BASE64.encode(&[name, b":", password].concat());
        request = request.header("Authorization", format!("Basic {credentials}"));
    }
    let request = request.body(Body::empty()).map_err(|e| e.to_string())?;
    let response = client.send(request).await.map_err(|e| worded(&e, &uri))?;
    let (head, body) = response.into_parts();
    let location = match head.status.as_u16() {
        301 | 302 | 303 | 307 | 308 => head.headers.get(HeaderName::from_static("location")),
        _ => None,
    };
    let location = location.and_then(|text| text.to_str().ok()).map(str::to_owned);
    let body = axum::body::to_bytes(axum::body::Body::new(body), LARGEST).await;
    let body = body.map_err(|e| format!("the answer can't be read, or is larger than {LARGEST} bytes: {e}"))?;
    let reason = match head.extensions.get::<ReasonPhrase>() {
        Some(reason) => String::from_utf8_lossy(reason.as_bytes()).into_owned(),
        None => head.status.canonical_reason().unwrap_or_default().to_owned(),
    };
    let answer = Answer {
        status: head.status,
        reason,
        body: body.to_vec(),
    };
    Ok((answer, location))
}

/// The port of a server, by its scheme if none is given.
pub(super) fn port(uri: &Uri) -> u16 {
    let usual = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    uri.port_u16().unwrap_or(usual)
}

/// The cause in Go's words, where they are known.
pub(super) fn worded(error: &kube::Error, uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    let port = port(uri);
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(error) = cause {
        text = error.to_string();
        if text.starts_with("failed to lookup address information") {
            return format!("dial tcp: {}", resolver::lookup_error(host));
        }
        if text.contains("InvalidContentType") {
            return "tls: first record does not look like a TLS handshake".to_owned();
        }
        if text.contains("invalid peer certificate: UnknownIssuer") {
            return "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned();
        }
        if let Some(error) = error.downcast_ref::<std::io::Error>()
            && error.raw_os_error().is_some()
        {
            return format!("dial tcp {host}:{port}: connect: {}", io_text(error));
        }
        cause = error.source();
    }
    text
}

/// Where a redirection leads.
fn join(from: &str, location: &str) -> Result<String, String> {
    let parse = |url: &str| Url::parse(url.as_bytes());
    let wrong = |e: String| format!("failed to parse Location header {}: {e}", quote_go(location));
    let url = parse(from)?.resolve(&parse(location).map_err(wrong)?);
    Ok(String::from_utf8_lossy(&url.text()).into_owned())
}

// === impl Proxies ===

impl Proxies {
    /// Reads `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or the same in lower case.
    pub fn from_environment(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let text = |name: &str| {
            let names = [name.to_owned(), name.to_ascii_lowercase()];
            names
                .iter()
                .find_map(|name| variable(name).filter(|text| !text.is_empty()))
        };
        let url = |name: &str| {
            text(name).map(|text| {
                if text.contains("://") {
                    text
                } else {
                    format!("http://{text}")
                }
            })
        };
        Proxies {
            https: url("HTTPS_PROXY"),
            http: url("HTTP_PROXY"),
            none: text("NO_PROXY").unwrap_or_default(),
        }
    }

    fn of(&self, uri: &Uri) -> Option<&str> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let excepted = self
            .none
            .split(',')
            .map(str::trim)
            .any(|name| match name.strip_prefix("*.") {
                Some(_) => host.ends_with(&name[1..]),
                None if name == "*" => true,
                None if name.starts_with('.') => host.ends_with(name),
                None => {
                    !name.is_empty()
                        && (host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')))
                }
            });
        let proxy = if uri.scheme_str() == Some("https") {
            &self.https
        } else {
            &self.http
        };
        proxy.as_deref().filter(|_| !is_local && !excepted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::path::Path;

    /// A server on the loopback that answers these paths, and others with 404. Its address.
    fn serve(pages: &'static [(&'static str, &'static str, &'static str)]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                lines
                    .by_ref()
                    .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                    .for_each(drop);
                let path = first.split(' ').nth(1).unwrap_or_default();
                let page = pages.iter().find(|(known, ..)| *known == path);
                let (_, head, body) = page.copied().unwrap_or(("", "404 Not Found", "no"));
                let size = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {head}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        address
    }

    #[test]
    fn values_and_schemas_come_from_urls() {
        let address = serve(&[
            ("/values.yaml", "200 OK", "a: from the net"),
            ("/moved", "302 Found\r\nLocation: values.yaml", ""),
            ("/gone.yaml", "410 Gone for good", ""),
            ("/int.json", "200 OK", r#"{"type": "integer"}"#),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let chart = folder.path().join("c");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: c\nversion: 1.0.0\n").unwrap();
        std::fs::write(chart.join("templates/a.yaml"), "a: {{ .Values.a | quote }}\n").unwrap();
        let run = |more: &[&str]| {
            let args = [&["template", "r", "c"][1..], more].concat();
            super::super::run_captured(&args, b"", Path::new(folder.path()))
        };
        for page in ["values.yaml", "moved"] {
            let done = run(&["-f", &format!("http://{address}/{page}")]);
            assert_eq!(
                String::from_utf8_lossy(&done.stdout),
                "---\n# Source: c/templates/a.yaml\na: \"from the net\"\n"
            );
        }
        let done = run(&["--set-file", &format!("a=http://{address}/values.yaml")]);
        assert!(
            String::from_utf8_lossy(&done.stdout).contains("a: \"a: from the net\""),
            "{done:?}"
        );
        let missing = format!("http://{address}/none");
        let want = format!("failed to fetch {missing} : 404 Not Found");
        assert_eq!(run(&["-f", &missing]).error, Some(want));
        let gone = format!("http://{address}/gone.yaml");
        let want = format!("failed to fetch {gone} : 410 Gone for good");
        assert_eq!(run(&["-f", &gone]).error, Some(want));

        let reference = |page: &str| format!(r#""properties": {{"a": {{"$ref": "http://{address}/{page}"}}}}"#);
        // One that is large is begun with before anything is fetched for it.
        for blanks in [String::new(), " ".repeat(20_000)] {
            let write = |page: &str| {
                let text = format!("{{{blanks}{}}}", reference(page));
                std::fs::write(chart.join("values.schema.json"), text).unwrap();
            };
            write("int.json");
            assert_eq!(run(&["--set", "a=1"]).code, 0);
            let error = run(&["--set", "a=x"]).error.unwrap_or_default();
            assert!(error.ends_with("c:\n- at '/a': got string, want integer\n"), "{error}");
            write("none");
            let error = run(&[]).error.unwrap_or_default();
            let want =
                format!("c:\nfailing loading {missing:?}: HTTP request to {missing} returned status 404 (Not Found)");
            assert!(error.ends_with(&want), "{error}");
        }
    }

    #[test]
    fn name_and_password_of_an_url_are_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            .unwrap();
            head
        });
        let answer = get(&format!("http://u%20:p@{address}?a=b"), &Proxies::default());
        let head = server.join().unwrap();
        assert_eq!(answer.map(|answer| answer.status), Ok(StatusCode::OK));
        assert_eq!(head.first().map(String::as_str), Some("GET /?a=b HTTP/1.1"));
        assert!(head.contains(&"authorization: Basic dSA6cA==".to_owned()), "{head:?}");
    }

    #[test]
    fn a_server_that_is_not_there_is_told_in_gos_words() {
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let url = format!("http://{closed}/x");
        let problem = get(&url, &Proxies::default()).map(|_| ()).unwrap_err();
        assert_eq!(
            problem,
            format!("Get {url:?}: dial tcp {closed}: connect: connection refused")
        );
        assert_eq!(failed("HTTP://u%20:p@h/a b", "x"), r#"Get "http://u :***@h/a%20b": x"#);
    }

    #[test]
    fn proxies_are_those_of_the_environment() {
        let proxies = Proxies::from_environment(&|name| match name {
            "https_proxy" => Some("proxy:3128".to_owned()),
            "NO_PROXY" => Some("example.org, .internal,10.0.0.1".to_owned()),
            _ => None,
        });
        for (url, want) in [
            ("https://example.com/a", Some("http://proxy:3128")),
            ("http://example.com/a", None),
            ("https://example.org/a", None),
            ("https://a.example.org/a", None),
            ("https://anexample.org/a", Some("http://proxy:3128")),
            ("https://a.internal/", None),
            ("https://10.0.0.1/", None),
            ("https://localhost/", None),
        ] {
            assert_eq!(proxies.of(&url.parse().unwrap()), want, "{url}");
        }
    }

    #[test]
    fn redirections_are_joined() {
        for (from, location, want) in [
            ("http://a/b/c", "d", "http://a/b/d"),
            ("http://a/b/c", "/d", "http://a/d"),
            ("http://u:p@a/b/c", "../d?e#f", "http://u:p@a/d?e#f"),
            ("http://a/b/c", "//d/e", "http://d/e"),
            ("http://a", "https://d/e", "https://d/e"),
        ] {
            assert_eq!(join(from, location).as_deref(), Ok(want));
        }
    }
}
