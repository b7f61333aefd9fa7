//! The connection: which API server, as whom, and the bound on every request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use http::Request;

use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use tokio::sync::Semaphore;

use crate::cluster::connection::fence::{Fence, Gate};
use crate::cluster::connection::silent_watch::Audible;
use crate::cluster::error::{Error, Result};
use crate::telemetry::chain;

pub mod fence;
mod silent_watch;
pub mod throttle;
pub mod url_path;

/// The longest that one request may take; a watch has its own clock.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Requests of this process that are under way at one time, besides watches and what leadership depends on: each watch of
/// `watches.yaml` has a bound of its own, and there may be many of them.
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
/// Its certificates can't be used. rustls takes X.509 version 3 alone; `openssl x509 -req` without extensions makes version
/// 1, which Go, and so kubectl, takes as well.
pub fn client(config: Config) -> anyhow::Result<Client> {
    let file = config.auth_info.client_certificate.clone().unwrap_or_default();
    Client::try_from(config).map_err(|error| match chain(&error).contains("UnsupportedCertVersion") {
        true => anyhow::anyhow!(
            "the client certificate {file} of the kubeconfig's user is of X.509 version 1, and version 3 is needed: sign it anew \
             with any extension, for example `openssl x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial \
             -days 365 -extfile client.ext -out client.crt` with the line `extendedKeyUsage = clientAuth` in client.ext"
        ),
        false => error.into(),
    })
}

/// A client that makes no requests.
///
/// # Errors
/// If no client can be built.
pub fn nowhere() -> anyhow::Result<Client> {
    let url = "http://127.0.0.1:0".parse().context("address")?;
    Ok(Client::try_from(Config::new(url))?)
}

async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    match kubeconfig {
        Some(path) => Config::from_custom_kubeconfig(read_kubeconfig([path])?, &KubeConfigOptions::default())
            .await
            .with_context(|| format!("kubeconfig {}", path.display())),
        None => Config::infer().await.map_err(unquoted).context(
            "no API server configured: set KUBECONFIG or --kubeconfig, or run in a pod with a service account",
        ),
    }
}

/// Kubeconfig files, merged. Of what two say the first counts.
///
/// # Errors
/// The first that can't be read.
pub fn read_kubeconfig(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> anyhow::Result<Kubeconfig> {
    let mut files = paths.into_iter();
    files.try_fold(Kubeconfig::default(), |merged, path| {
        let read = Kubeconfig::read_from(&path).and_then(|next| merged.merge(next));
        read.map_err(unquoted)
            .with_context(|| format!("kubeconfig {}", path.as_ref().display()))
    })
}

/// An error that shows nothing of the file: the library quotes the lines around what is wrong, where tokens may be.
fn unquoted<E: std::error::Error + Send + Sync + 'static>(error: E) -> anyhow::Error {
    let error = anyhow::Error::new(error);
    match error.chain().find_map(|cause| cause.downcast_ref()) {
        Some(KubeconfigError::Parse(wrong)) => {
            let line = wrong.location().map_or(0, |at| at.line());
            anyhow::anyhow!("line {line} is not what a kubeconfig has there")
        }
        _ => error,
    }
}

/// The same client for an operator. It gives up when no answer begins within [`REQUEST_TIMEOUT`]: on a connection whose
/// other side is gone, kube's watches would wait for ever for a list or for the beginning of a watch. A watch that falls
/// silent ends ([`silence`]), and who is asked to come back later is told when ([`throttle`]). So many requests at once,
/// and no more, are under way, until their answers are read ([`REQUESTS`]).
#[must_use]
pub fn answering(client: Client) -> Client {
    bounding(client, None)
}

/// As [`answering`], and no write leaves while the fence is closed.
#[must_use]
pub fn fenced(client: Client, fence: Arc<Fence>) -> Client {
    bounding(client, Some(Arc::new(Gate::new(fence))))
}

fn bounding(client: Client, gate: Option<Arc<Gate>>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let silence = silent_watch::longest_silence();
    let requests = Arc::new(Semaphore::new(REQUESTS));
    let service = tower::service_fn(move |request| {
        let client = client.clone();
        let requests = requests.clone();
        let gate = gate.clone();
        async move {
            let limit = silent_watch::is_watch(&request).then_some(silence);
            let permit = match limit.is_some() || is_lease(&request) {
                true => None,
                // It is never closed.
                false => requests.acquire_owned().await.ok(),
            };
            let request = match gate {
                Some(gate) => gate.admit(request).await?,
                None => request,
            };
            let answer = async { throttle::told(client.send(request).await?).await };
            match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
                Ok(answer) => answer.map(|answer| answer.map(|body| Audible::new(body, limit, permit))),
                Err(_) => Err(kube::Error::Service(Box::new(Error::TimedOut(REQUEST_TIMEOUT)))),
            }
        }
    });
    Client::new(service, namespace)
}

/// Leadership is lost by a request that waits behind others.
fn is_lease<B>(request: &Request<B>) -> bool {
    request.uri().path().starts_with("/apis/coordination.k8s.io/")
}

/// Bounds a request in time: a server that never answers must not keep a worker.
pub async fn bounded<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(Error::from).inspect_err(throttle::note),
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
    async fn what_is_wrong_with_a_certificate_is_told() {
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
        let refused = connect(Some(&folder.path().join("config"))).await;
        let told = format!("{:#}", refused.err().unwrap());
        assert!(
            told.contains("dev.crt of the kubeconfig's user is of X.509 version 1")
                && told.contains("openssl x509 -req"),
            "{told}"
        );
    }

    #[tokio::test]
    async fn so_many_requests_are_under_way_and_no_more() {
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
        let client = answering(Client::new(silent, "shop"));
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
    async fn an_answer_that_never_begins_is_given_up() {
        let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<std::result::Result<http::Response<kube::client::Body>, Error>>()
        });
        let client = answering(Client::new(silent, "shop"));
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
