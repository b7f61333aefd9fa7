//! The connection to the API server: kubeconfig, client, and limits of every request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;
use kube::{Client, Config};
use tokio::sync::Semaphore;

use crate::cluster::connection::fence::{Fence, RequestGate};
use crate::cluster::connection::silent_watch::MonitoredBody;
use crate::cluster::error::{Error, Result};
use crate::telemetry::chain;

pub use direct::Connection;
pub use first_contact::{connect_with_discovery, open_with_discovery};
pub use kubeconfig::read_kubeconfig;

use kubeconfig::config;

mod direct;
pub mod fence;
mod first_contact;
pub mod impersonation;
mod kubeconfig;
mod silent_watch;
pub mod throttle;
pub mod url_path;

/// The time limit of one request. Watches have limits of their own.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The most concurrent requests of this process. Watches and Lease requests are not counted. The limits per watch of
/// `watches.yaml` do not bound the sum.
const REQUESTS: usize = 128;

/// Connects as kubectl would: the file given, `KUBECONFIG`, the pod's service account, `~/.kube/config`.
///
/// # Errors
/// If no configuration is found or it is malformed. The API server is not contacted.
pub async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    client(config(kubeconfig).await?)
}

/// The configuration of [`connect`] for clients that do not retry by themselves: an answer of 429, 503 or 504 is returned
/// immediately. kube's own retries take up to half a minute within the request.
///
/// # Errors
/// As [`connect`].
pub async fn config_without_retries(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    Ok(config)
}

/// The client of a configuration.
///
/// # Errors
/// The certificates cannot be used.
pub fn client(config: Config) -> anyhow::Result<Client> {
    let certificate = config.auth_info.client_certificate.clone();
    Client::try_from(config).map_err(|error| explain_certificate(error, certificate.as_deref()))
}

/// The connection of a configuration, for clients with limits.
///
/// # Errors
/// The certificates cannot be used.
pub fn open(config: Config) -> anyhow::Result<Connection> {
    let certificate = config.auth_info.client_certificate.clone();
    Connection::open(config).map_err(|error| explain_certificate(error, certificate.as_deref()))
}

/// rustls accepts X.509 version 3 only. `openssl x509 -req` without extensions writes version 1, which Go, and so kubectl, accepts.
/// `file`: `None` if the kubeconfig contains the certificate.
fn explain_certificate(error: kube::Error, file: Option<&str>) -> anyhow::Error {
    let file = file.map(|file| format!(" {file}")).unwrap_or_default();
    if chain(&error).contains("UnsupportedCertVersion") {
        anyhow::anyhow!(
            "the client certificate{file} of the kubeconfig's user is of X.509 version 1, and version 3 is needed: sign it again \
         with any extension, for example `openssl x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial \
         -days 365 -extfile client.ext -out client.crt` with the line `extendedKeyUsage = clientAuth` in client.ext"
        )
    } else {
        error.into()
    }
}

/// A client that makes no requests.
///
/// # Errors
/// If no client can be built.
pub fn unconnected_client() -> anyhow::Result<Client> {
    let url = "http://127.0.0.1:0".parse().context("address")?;
    Ok(Client::try_from(Config::new(url))?)
}

/// Adds the limits of an operator to a client:
/// - A request fails if no response begins within [`REQUEST_TIMEOUT`]. On a dead connection, kube's watches would wait forever.
/// - A silent watch ends ([`silent_watch`]).
/// - A response with `Retry-After` fails immediately with that time ([`throttle`]).
/// - At most [`REQUESTS`] requests run concurrently, counted until their responses are read.
#[must_use]
pub fn with_time_limits(connection: impl Into<Connection>) -> Client {
    limited_client(connection.into(), None)
}

/// As [`with_time_limits`]; also refuses writes while the fence is closed.
#[must_use]
pub fn with_fence(connection: impl Into<Connection>, fence: Arc<Fence>) -> Client {
    limited_client(connection.into(), Some(Arc::new(RequestGate::new(fence))))
}

fn limited_client(connection: Connection, gate: Option<Arc<RequestGate>>) -> Client {
    let namespace = connection.default_namespace().to_owned();
    let silence = silent_watch::longest_silence();
    let requests = Arc::new(Semaphore::new(REQUESTS));
    let service = tower::service_fn(move |request| {
        let connection = connection.clone();
        let requests = requests.clone();
        let gate = gate.clone();
        async move {
            let limit = silent_watch::is_watch(&request).then_some(silence);
            let permit = if limit.is_some() || is_lease(&request) {
                None
            } else {
                requests.acquire_owned().await.ok()
            };
            let request = match gate {
                Some(gate) => gate.admit(request).await?,
                None => request,
            };
            let answer = async { throttle::reject_throttled(connection.send(request).await?).await };
            match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
                Ok(answer) => answer.map(|answer| answer.map(|body| MonitoredBody::new(body, limit, permit))),
                Err(_) => Err(kube::Error::Service(Box::new(Error::TimedOut(REQUEST_TIMEOUT)))),
            }
        }
    });
    Client::new(service, namespace)
}

/// True for Lease requests: leadership would be lost if they waited behind others.
fn is_lease<B>(request: &Request<B>) -> bool {
    request.uri().path().starts_with("/apis/coordination.k8s.io/")
}

/// Sends a request with the time limit [`REQUEST_TIMEOUT`], so that a server that never answers does not block a worker.
pub async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(Error::from),
        Err(_) => Err(Error::TimedOut(REQUEST_TIMEOUT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_ends() {
        let answer = bounded(std::future::pending::<kube::Result<()>>()).await;
        assert!(matches!(answer, Err(Error::TimedOut(REQUEST_TIMEOUT))), "{answer:?}");
    }

    #[tokio::test]
    async fn an_x509_version_1_certificate_is_reported_with_a_fix() {
        /// `openssl x509 -req -in client.csr -signkey client.key -days 36500`, without extensions.
        const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUL/5MG3q8tvFg0E9Rj3dQ2t1s9XYwCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDZGV2MCAXDTI2MTEyMzE1NTcxNloYDzIxMjYxMDMwMTU1NzE2WjAOMQww
CgYDVQQDDANkZXYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATBU6rq3CjB7XkM
JHkhgWtdeYnHNPiGfZQ9042hX/H+N36jyiuwfSlJ7apsiFJMJhBIh1LN47uhvcji
yvsEFCnLMAoGCCqGSM49BAMCA0gAMEUCIHgf292FiPJYzGBGXd1zJcCiikHynsPA
64YgXr/mxpgQAiEAtOk1EOrW/2DUGZ0zehj7XLmuA9moO+bKCiOCP+aJ98I=
-----END CERTIFICATE-----
";
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("dev.crt", VERSION_1);
        write("dev.key", &rcgen::KeyPair::generate().unwrap().serialize_pem());
        write(
            "config",
            "clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n\
             contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n\
             users: [{name: a, user: {client-key: dev.key, client-certificate: dev.crt}}]\n",
        );
        let inline = data_encoding::BASE64.encode(VERSION_1.as_bytes());
        write(
            "inline",
            &format!(
                "clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n\
                 users: [{{name: a, user: {{client-key: dev.key, client-certificate-data: {inline}}}}}]\n"
            ),
        );
        for (config, expected) in [
            ("config", "dev.crt of the kubeconfig's user is of X.509 version 1"),
            (
                "inline",
                "the client certificate of the kubeconfig's user is of X.509 version 1",
            ),
        ] {
            let refused = connect(Some(&folder.path().join(config))).await;
            let message = format!("{:#}", refused.err().unwrap());
            assert!(
                message.contains(expected) && message.contains("openssl x509 -req"),
                "{message}"
            );
        }
    }

    #[tokio::test]
    async fn concurrent_requests_are_limited() {
        let begun = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = begun.clone();
        let silent = tower::service_fn(move |request: Request<kube::client::Body>| {
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            async move {
                if request.uri().path() == "/short" {
                    return Ok(http::Response::new(kube::client::Body::empty()));
                }
                std::future::pending::<std::result::Result<_, Error>>().await
            }
        });
        let client = with_time_limits(Client::new(silent, "shop"));
        let ask = |uri: &'static str| {
            let client = client.clone();
            tokio::spawn(async move {
                let request = Request::get(uri).body(kube::client::Body::empty()).unwrap();
                client.send(request).await.map(drop)
            })
        };
        let under_way = async |expected: usize| {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            assert_eq!(begun.load(std::sync::atomic::Ordering::SeqCst), expected);
        };
        for _ in 0..3 * REQUESTS {
            ask("/short").await.unwrap().unwrap();
        }
        let done = 3 * REQUESTS;
        let first: Vec<_> = (0..REQUESTS + 20).map(|_| ask("/api/v1/pods")).collect();
        under_way(done + REQUESTS).await;
        let others = [
            "/api/v1/pods?watch=true",
            "/apis/coordination.k8s.io/v1/namespaces/shop/leases/a",
        ];
        let _others = others.map(ask);
        under_way(done + REQUESTS + others.len()).await;
        first[0].abort();
        under_way(done + REQUESTS + others.len() + 1).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_that_never_begins_times_out() {
        let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<std::result::Result<http::Response<kube::client::Body>, Error>>()
        });
        let client = with_time_limits(Client::new(silent, "shop"));
        assert_eq!(client.default_namespace(), "shop");
        let begun = tokio::time::Instant::now();
        let error = client.apiserver_version().await.unwrap_err();
        assert!(
            crate::telemetry::chain(&error).contains("did not answer within 30s"),
            "{error:?}"
        );
        assert_eq!(begun.elapsed().as_secs(), REQUEST_TIMEOUT.as_secs());
    }
}
