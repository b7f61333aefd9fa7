//! A server on a local port in front of an API server. It counts the operator's requests, writes them down, and lets a
//! chosen one go wrong.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use futures::FutureExt;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::faults::call::ApiCall;
use crate::faults::fault::Faults;

/// A client for a kubeconfig.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

/// The port of a server on 127.0.0.1 that answers through `faults` until the runtime ends.
pub async fn serve(faults: Arc<Faults>) -> anyhow::Result<u16> {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .context("a port for the proxy")?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let faults = faults.clone();
            let service = service_fn(move |request| {
                let faults = faults.clone();
                async move {
                    let call = ApiCall::read(request).await?;
                    // A task of its own: the connection of a client that is killed takes along what it waits for, and
                    // requests that the API server carries out in between must be in the log.
                    tokio::spawn(faults.answer(call)).await?
                }
            });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            // An error is what a fault or a killed client makes of a connection.
            tokio::spawn(connection.map(drop));
        }
    });
    Ok(port)
}

/// A kubeconfig that leads to a port of 127.0.0.1, without credentials.
pub fn kubeconfig(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: proxy\n\
         clusters: [{{name: proxy, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: proxy, user: {{}}}}]\n\
         contexts: [{{name: proxy, context: {{cluster: proxy, user: proxy}}}}]\n"
    )
}
