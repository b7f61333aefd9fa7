//! The first contact of a command with its cluster. Errors name the address and the kubeconfig.

use std::path::Path;

use anyhow::anyhow;
use kube::{Client, Config};

use super::kubeconfig;
use crate::cluster::discovery::Discovery;
use crate::cluster::error::Error;

/// Connects as [`super::connect`] does, and reads discovery.
///
/// # Errors
/// As [`super::connect`]; the API server does not answer, or refuses the credentials.
pub async fn connect_with_discovery(path: Option<&Path>) -> anyhow::Result<(Client, Discovery)> {
    open_with_discovery(kubeconfig::config(path).await?, path).await
}

/// The same with the configuration that was read from `path`.
///
/// # Errors
/// The API server does not answer, or refuses the credentials.
pub async fn open_with_discovery(config: Config, path: Option<&Path>) -> anyhow::Result<(Client, Discovery)> {
    let address = config.cluster_url.to_string();
    let client = super::client(config)?;
    let discovery = Discovery::new(client.clone()).await;
    let discovery = discovery.map_err(|error| {
        explain(
            error,
            address.trim_end_matches('/'),
            kubeconfig::source(path).as_deref(),
        )
    })?;
    Ok((client, discovery))
}

/// Adds address and kubeconfig to an error of the connection or the credentials. `file`: `None` if there is no kubeconfig.
fn explain(error: Error, address: &str, file: Option<&str>) -> anyhow::Error {
    let question = file.map(|file| format!("; is the kubeconfig {file} the right one?"));
    let question = question.unwrap_or_default();
    match error {
        Error::Unreachable { cause, .. } if cause.contains("peer certificate") => {
            anyhow!("the certificate of the API server at {address} is not accepted: {cause}{question}")
        }
        Error::Unreachable { cause, .. } => {
            let cause = cause.split(" (os error").next().unwrap_or_default();
            anyhow!("the API server at {address} does not answer: {cause}{question}")
        }
        Error::TimedOut(limit) => anyhow!("the API server at {address} did not answer within {limit:?}{question}"),
        Error::Unauthorized(_) => {
            let place = file.map_or_else(
                || " of the pod's service account".to_owned(),
                |file| format!(" of the kubeconfig {file}"),
            );
            anyhow!("{error}{place}")
        }
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn address_and_kubeconfig_are_named() {
        let unreachable = |cause: &str| Error::Unreachable {
            message: String::new(),
            cause: cause.to_owned(),
        };
        for (error, file, expected) in [
            (
                unreachable("Connection refused (os error 111)"),
                Some("/k"),
                "the API server at https://a:1 does not answer: Connection refused; is the kubeconfig /k the right one?",
            ),
            (
                unreachable("no route"),
                None,
                "the API server at https://a:1 does not answer: no route",
            ),
            (
                unreachable("invalid peer certificate: UnknownIssuer"),
                Some("/k"),
                "the certificate of the API server at https://a:1 is not accepted: invalid peer certificate: UnknownIssuer; \
                 is the kubeconfig /k the right one?",
            ),
            (
                Error::TimedOut(Duration::from_secs(30)),
                Some("/k"),
                "the API server at https://a:1 did not answer within 30s; is the kubeconfig /k the right one?",
            ),
            (
                Error::Unauthorized("Unauthorized".into()),
                Some("/k"),
                "unauthorized: the API server refuses the credentials of the kubeconfig /k",
            ),
            (
                Error::Unauthorized("Unauthorized".into()),
                None,
                "unauthorized: the API server refuses the credentials of the pod's service account",
            ),
            (Error::Forbidden("no".into()), Some("/k"), "forbidden: no"),
        ] {
            assert_eq!(format!("{:#}", explain(error, "https://a:1", file)), expected);
        }
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_named() {
        let unused = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        let config = format!(
            "clusters: [{{name: a, cluster: {{server: 'http://{unused}'}}}}]\n\
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n\
             users: [{{name: a, user: {{}}}}]\n"
        );
        std::fs::write(&file, config).unwrap();
        let refused = connect_with_discovery(Some(&file)).await.err().unwrap();
        let expected = format!(
            "the API server at http://{unused} does not answer: Connection refused; is the kubeconfig {} the right one?",
            file.display()
        );
        assert_eq!(format!("{refused:#}"), expected);
    }
}
