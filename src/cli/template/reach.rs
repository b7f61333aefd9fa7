//! Whether the cluster answers, and why it doesn't, in the words of Go's `net/http` and of client-go.
//!
//! Facts: `IsReachable` in Helm's `pkg/kube/client.go`, `ServerVersion` in client-go's `discovery`,
//! `NewGenericServerResponse` in apimachinery's `api/errors`.

use std::net::SocketAddr;
use std::time::Duration;

use axum::http::{Request, StatusCode, Uri};
use kube::client::Body;
use kube::{Client, Config};

use super::{http, resolver};
use crate::chart::io_text;
use crate::cluster::certificate;
use crate::template::go::quote::quote_go;

/// How long a connection may take to be made.
const DIAL: Duration = Duration::from_secs(30);
/// As much of an answer as is read, in bytes: more than any API server's version.
const LARGEST: usize = 1 << 20;
/// As much of an answer as an error shows, in bytes.
const SHOWN: usize = 2048;

/// A client for a cluster that has told its version. The error is what Helm says after "kubernetes cluster unreachable: ".
pub async fn client(mut config: Config) -> Result<Client, String> {
    // The library waits for minutes where an answer asks for it; who waits here has a prompt to type at.
    config.default_retry = false;
    let base = config.cluster_url.clone();
    let url = format!("{}/version", base.to_string().trim_end_matches('/'));
    let got = |problem: String| http::failed(&url, &problem);
    if let Some(scheme) = base.scheme_str().filter(|scheme| !["http", "https"].contains(scheme)) {
        return Err(got(format!("unsupported protocol scheme {scheme:?}")));
    }
    match &config.proxy_url {
        Some(proxy) => {
            let problem = |problem| got(format!("proxyconnect tcp: {problem}"));
            dial(proxy).await.map_err(problem)?;
        }
        None => dial(&base).await.map_err(got)?,
    }
    certificate::check(&config)?;
    let client = Client::try_from(config).map_err(|e| e.to_string())?;
    let request = Request::get("/version").header("Accept", "application/json, */*");
    let request = request.body(Body::empty()).map_err(|e| e.to_string())?;
    let response = client.send(request).await.map_err(|e| got(http::worded(&e, &base)))?;
    let (head, body) = response.into_parts();
    let body = axum::body::to_bytes(axum::body::Body::new(body), LARGEST).await;
    let body = body.map_err(|e| got(e.to_string()))?;
    if (200..=206).contains(&head.status.as_u16()) {
        return Ok(client);
    }
    let kind = head.headers.get("content-type").and_then(|kind| kind.to_str().ok());
    let is_text = kind.is_some_and(|kind| kind.starts_with("text/"));
    let shown = body.get(..SHOWN).unwrap_or(&body);
    let words = String::from_utf8_lossy(shown).trim().to_owned();
    Err(refusal(
        head.status,
        Some(words).filter(|words| is_text && !words.is_empty()),
    ))
}

/// Connects, and hangs up.
async fn dial(url: &Uri) -> Result<(), String> {
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = http::port(url);
    let addresses = match tokio::net::lookup_host((host, port)).await {
        Ok(addresses) => addresses.collect::<Vec<SocketAddr>>(),
        Err(_) => return Err(format!("dial tcp: {}", resolver::lookup_error(host))),
    };
    let mut first = None;
    for address in addresses {
        let problem = match tokio::time::timeout(DIAL, tokio::net::TcpStream::connect(address)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(e)) => format!("connect: {}", io_text(&e)),
            Err(_) => "i/o timeout".to_owned(),
        };
        first.get_or_insert(format!("dial tcp {address}: {problem}"));
    }
    Err(first.unwrap_or_else(|| format!("dial tcp: {}", resolver::lookup_error(host))))
}

/// What client-go makes of a status; `words` are the server's own, if they are plain text.
fn refusal(status: StatusCode, words: Option<String>) -> String {
    let text = match status.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return words.unwrap_or_else(|| "unknown".to_owned()),
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 => {
            let usual = "the server was unable to respond with a content type that the client supports";
            return words.unwrap_or_else(|| usual.to_owned());
        }
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            let words = quote_go(words.as_deref().unwrap_or("unknown"));
            return format!("an error on the server ({words}) has prevented the request from succeeding");
        }
        code => return format!("the server responded with the status code {code} but did not return more information"),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// A server that gives every request the same answer.
    fn serve(answer: String) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        format!("http://{address}")
    }

    /// As Helm 4.3.1 has it.
    #[test]
    fn refusals_are_told_in_client_gos_words() {
        let error =
            |words: &str| format!("an error on the server ({words:?}) has prevented the request from succeeding");
        let none =
            |code: u16| format!("the server responded with the status code {code} but did not return more information");
        let cases = [
            (
                400,
                "text/plain",
                "the server rejected our request for an unknown reason".to_owned(),
            ),
            (
                401,
                "text/plain",
                "the server has asked for the client to provide credentials".to_owned(),
            ),
            (403, "text/plain", "some text".to_owned()),
            (403, "application/json", "unknown".to_owned()),
            (
                404,
                "text/plain",
                "the server could not find the requested resource".to_owned(),
            ),
            (406, "text/plain", "some text".to_owned()),
            (410, "text/plain", none(410)),
            (418, "application/json", none(418)),
            (500, "text/plain", error("some text")),
            (502, "application/json", error("unknown")),
            // The library would wait and ask again.
            (
                503,
                "text/plain",
                "the server is currently unable to handle the request".to_owned(),
            ),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for (code, kind, want) in cases {
            let url = serve(format!(
                "HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: 10\r\nRetry-After: 100\r\n\r\nsome text\n"
            ));
            let got = runtime.block_on(client(Config::new(url.parse().unwrap())));
            assert_eq!(got.err(), Some(want), "{code} {kind}");
        }
    }

    #[test]
    fn a_server_that_speaks_no_tls_is_told_in_gos_words() {
        let url = serve("HTTP/1.1 400 X\r\nContent-Length: 0\r\n\r\n".to_owned()).replace("http:", "https:");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let got = runtime.block_on(client(Config::new(url.parse().unwrap())));
        let want = format!("Get \"{url}/version\": tls: first record does not look like a TLS handshake");
        assert_eq!(got.err(), Some(want));
    }
}
