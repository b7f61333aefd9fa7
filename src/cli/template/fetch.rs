//! Files by URL: values, charts, and what schemas refer to. The client is that of the Kubernetes library, without a
//! cluster: it brings TLS, and the proxies of `HTTPS_PROXY` and `NO_PROXY`.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use axum::http::header::{LOCATION, USER_AGENT};
use axum::http::{Request, Response, Uri};
use kube::client::Body;
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::json;

/// How long a file may take, redirections included.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The largest file that is taken, in bytes.
const LARGEST: usize = 64 << 20;
/// As many requests as one may lead to.
const MOST_REQUESTS: usize = 10;

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
    let (_, host) = split_user(authority);
    format!("{scheme}://{host}{path}")
}

/// The file at a URL. Blocks; must not be called within an async runtime.
///
/// # Errors
/// Why there is none, with the URL.
pub fn get(url: &str) -> Result<Vec<u8>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let work = async { tokio::time::timeout(TIMEOUT, follow(url)).await };
    let problem = match runtime.map(|runtime| runtime.block_on(work)) {
        Ok(Ok(Ok(file))) => return Ok(file),
        Ok(Ok(Err(error))) => crate::telemetry::chain(error.as_ref()),
        Ok(Err(_)) => format!("no whole answer within {} seconds", TIMEOUT.as_secs()),
        Err(error) => error.to_string(),
    };
    Err(format!("failed to fetch {}: {problem}", without_password(url)))
}

async fn follow(url: &str) -> anyhow::Result<Vec<u8>> {
    let mut at: Uri = url.parse()?;
    for _ in 0..MOST_REQUESTS {
        let (head, body) = ask(&at).await?.into_parts();
        if head.status.is_redirection() {
            let location = head.headers.get(LOCATION).context("a redirection to nowhere")?;
            at = join(&at, location.to_str()?)?;
            continue;
        }
        ensure!(head.status.is_success(), "the server answers {}", head.status);
        let body = axum::body::to_bytes(axum::body::Body::new(body), LARGEST).await;
        return Ok(body
            .with_context(|| format!("cut off, or larger than {LARGEST} bytes"))?
            .into());
    }
    bail!("more than {MOST_REQUESTS} redirections")
}

/// One request. A name and a password in the URL are told to its own server alone.
async fn ask(at: &Uri) -> anyhow::Result<Response<Body>> {
    let (Some(scheme), Some(authority)) = (at.scheme_str(), at.authority()) else {
        bail!("no host in the URL");
    };
    let (user, host) = split_user(authority.as_str());
    let (username, password) = user.map(|user| user.split_once(':').unwrap_or((user, ""))).unzip();
    // Only a configuration that is read as a kubeconfig takes the proxies from the environment.
    let kubeconfig = json!({
        "clusters": [{"name": "c", "cluster": {"server": format!("{scheme}://{host}")}}],
        "users": [{"name": "u", "user": {"username": username, "password": password}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    });
    let kubeconfig = serde_json::from_value(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    if ["localhost", "127.0.0.1", "[::1]"].contains(&at.host().unwrap_or_default()) {
        // As in Go: no proxy leads to this machine.
        config.proxy_url = None;
    }
    let path = at.path_and_query().map_or("/", |path| path.as_str());
    let request = Request::get(path)
        .header(USER_AGENT, concat!("chartwright/", env!("CARGO_PKG_VERSION")))
        .body(Body::empty())?;
    Ok(Client::try_from(config)?.send(request).await?)
}

/// What stands before `@`, and the host.
fn split_user(authority: &str) -> (Option<&str>, &str) {
    match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    }
}

/// Where a redirection leads: to another URL, or to a path of the same server.
fn join(from: &Uri, location: &str) -> anyhow::Result<Uri> {
    if is_url(location) {
        return Ok(location.parse()?);
    }
    let folder = match location.strip_prefix('/') {
        Some(_) => "",
        None => from.path().rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    let path = format!("{folder}/{}", location.trim_start_matches('/'));
    let mut parts = from.clone().into_parts();
    parts.path_and_query = Some(path.parse()?);
    Ok(Uri::from_parts(parts)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::super::run_captured;

    /// A server on the loopback that answers these paths, and others with 404; `/echo` with the request's head. Its address.
    fn serve(pages: &'static [(&'static str, &'static str, &'static str)]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let head: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
                let path = head[0].split(' ').nth(1).unwrap_or_default();
                let page = pages.iter().find(|(known, ..)| *known == path);
                let (_, status, body) = page.copied().unwrap_or(("", "404 Not Found", "no"));
                let body = if path == "/echo" {
                    head.join("\n")
                } else {
                    body.to_owned()
                };
                let size = body.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{body}"
                );
            }
        });
        address
    }

    #[test]
    fn values_and_schemas_come_from_urls() {
        let address = serve(&[
            ("/a/values.yaml", "200 OK", "a: from the net"),
            ("/a/moved", "302 Found\r\nLocation: values.yaml", ""),
            ("/away", "301 Moved\r\nLocation: /a/moved", ""),
            ("/int.json", "200 OK", r#"{"type": "integer"}"#),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let chart = folder.path().join("c");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: c\nversion: 1.0.0\n").unwrap();
        std::fs::write(chart.join("templates/a.yaml"), "a: {{ .Values.a | quote }}\n").unwrap();
        let run = |more: &[&str]| run_captured(&[&["r", "c"], more].concat(), b"", folder.path());
        for page in ["a/values.yaml", "a/moved", "away"] {
            let done = run(&["-f", &format!("http://{address}/{page}")]);
            assert_eq!(
                String::from_utf8_lossy(&done.stdout),
                "---\n# Source: c/templates/a.yaml\na: \"from the net\"\n",
                "{done:?}"
            );
        }
        let done = run(&["--set-file", &format!("a=http://{address}/a/values.yaml")]);
        assert!(
            String::from_utf8_lossy(&done.stdout).contains("a: \"a: from the net\""),
            "{done:?}"
        );
        let missing = format!("http://{address}/none");
        let want = format!("failed to fetch {missing}: the server answers 404 Not Found");
        assert_eq!(run(&["-f", &missing]).error, Some(want));

        let schema = format!(r#"{{"properties": {{"a": {{"$ref": "http://{address}/int.json"}}}}}}"#);
        std::fs::write(chart.join("values.schema.json"), schema).unwrap();
        assert_eq!(run(&["--set", "a=1"]).code, 0);
        let error = run(&["--set", "a=x"]).error.unwrap_or_default();
        assert!(error.contains("at '/a': got string, want integer"), "{error}");
    }

    #[test]
    fn a_password_is_told_to_its_server_alone() {
        let page = ("/echo", "200 OK", "");
        let (own, away) = (serve(Box::leak(Box::new([page]))), serve(Box::leak(Box::new([page]))));
        let told = |url: &str| String::from_utf8(get(url).unwrap()).unwrap();
        let own = told(&format!("http://u:p@{own}/echo"));
        assert!(own.to_lowercase().contains("authorization: basic dtpw"), "{own}");
        let location = format!("302 Found\r\nLocation: http://{away}/echo").leak();
        let moved = serve(Box::leak(Box::new([("/moved", &*location, "")])));
        let away = told(&format!("http://u:p@{moved}/moved"));
        assert!(!away.to_lowercase().contains("authorization"), "{away}");
        let problem = get(&format!("http://u:p@{moved}/none")).unwrap_err();
        assert!(
            problem.starts_with(&format!("failed to fetch http://{moved}/none: ")),
            "{problem}"
        );
    }

    #[test]
    fn redirections_are_joined() {
        for (from, location, want) in [
            ("http://a/b/c", "d?e", "http://a/b/d?e"),
            ("http://a/b/c", "/d", "http://a/d"),
            ("http://a", "https://d/e", "https://d/e"),
        ] {
            assert_eq!(join(&from.parse().unwrap(), location).unwrap().to_string(), want);
        }
    }
}
