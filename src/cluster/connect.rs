//! The connection: which API server, as whom, and the bound on every request.

use std::path::Path;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::error::{Error, Result};
use super::silence::{self, Audible};
use super::throttle;

/// The longest that one request may take; a watch has its own clock.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects as kubectl would: the file given, `KUBECONFIG`, the pod's service account, `~/.kube/config`.
///
/// # Errors
/// If no configuration is found or it is malformed. The API server is not contacted.
pub async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    Ok(Client::try_from(config(kubeconfig).await?)?)
}

/// As [`connect`], for who has other work than to wait: what the API server answers with 429, 503 or 504 is told at once
/// instead of being tried again, for up to half a minute, within the request.
///
/// # Errors
/// As [`connect`].
pub async fn connect_without_retries(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    use anyhow::Context;
    Ok(match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).with_context(|| format!("kubeconfig {}", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("kubeconfig {}", path.display()))?
        }
        None => Config::infer().await.context(
            "no API server configured: set KUBECONFIG or --kubeconfig, or run in a pod with a service account",
        )?,
    })
}

/// The same client for an operator. It gives up when no answer begins within [`REQUEST_TIMEOUT`]: on a connection whose
/// other side is gone, kube's watches would wait for ever for a list or for the beginning of a watch. A watch that falls
/// silent ends ([`silence`]), and who is asked to come back later is told when ([`throttle`]).
#[must_use]
pub fn answering(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let silence = silence::longest_silence();
    let service = tower::service_fn(move |request| {
        let client = client.clone();
        async move {
            let limit = silence::is_watch(&request).then_some(silence);
            let answer = async { throttle::told(client.send(request).await?).await };
            match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
                Ok(answer) => answer.map(|answer| answer.map(|body| Audible::new(body, limit))),
                Err(_) => Err(kube::Error::Service(Box::new(Error::TimedOut(REQUEST_TIMEOUT)))),
            }
        }
    });
    Client::new(service, namespace)
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
