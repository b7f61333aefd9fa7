//! The configuration of the connection: kubeconfig files, or the pod's service account. Errors are one short cause.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::telemetry::chain;

const NOT_CONFIGURED: &str =
    "no API server configured: set KUBECONFIG or --kubeconfig, or run in a pod with a service account";

/// Reads the configuration: of the file given, of `KUBECONFIG`, of `~/.kube/config`, or of the pod's service account.
///
/// # Errors
/// There is none, or it is malformed. The message names the file.
pub(super) async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    if let Some(path) = kubeconfig {
        let read = Config::from_custom_kubeconfig(read_kubeconfig([path])?, &KubeConfigOptions::default()).await;
        return read
            .map_err(|error| short_cause(&error))
            .with_context(|| format!("kubeconfig {}", path.display()));
    }
    Config::infer().await.map_err(|error| {
        explain_missing(
            std::error::Error::source(&error).and_then(|cause| cause.downcast_ref()),
            variable("KUBECONFIG").as_deref(),
            in_pod_error().as_deref(),
        )
    })
}

/// Why there is no configuration. `in_pod`: why the pod's service account cannot be used; `None` outside of a pod.
fn explain_missing(error: Option<&KubeconfigError>, variable: Option<&str>, in_pod: Option<&str>) -> anyhow::Error {
    let is_absent =
        matches!(error, Some(KubeconfigError::ReadConfig(cause, _)) if cause.kind() == std::io::ErrorKind::NotFound);
    match (error, variable, in_pod) {
        // This error names the file.
        (Some(error @ KubeconfigError::ReadConfig(..)), Some(_), _) => short_cause(error).context("KUBECONFIG"),
        (Some(error), Some(files), _) => short_cause(error).context(format!("KUBECONFIG {files}")),
        (Some(error), None, _) if !is_absent => short_cause(error).context("kubeconfig ~/.kube/config"),
        (_, _, Some(in_pod)) => anyhow!("the service account of the pod: {in_pod}"),
        _ => anyhow!(NOT_CONFIGURED),
    }
}

fn in_pod_error() -> Option<String> {
    variable("KUBERNETES_SERVICE_HOST")?;
    Config::incluster_env().err().map(|error| chain(&error))
}

/// An environment variable that is not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// Reads and merges kubeconfig files. The first file that sets a value wins.
///
/// # Errors
/// The first file that cannot be read.
pub fn read_kubeconfig(paths: impl IntoIterator<Item = impl AsRef<Path>>) -> anyhow::Result<Kubeconfig> {
    let mut files = paths.into_iter();
    files.try_fold(Kubeconfig::default(), |merged, path| {
        let path = path.as_ref();
        let read = Kubeconfig::read_from(path).and_then(|next| merged.merge(next));
        read.map_err(|error| match error {
            KubeconfigError::ReadConfig(cause, _) => anyhow!(cause),
            error => short_cause(&error),
        })
        .with_context(|| format!("kubeconfig {}", path.display()))
    })
}

/// The cause of an error, once. The quoted lines of a parse error are left out: they may contain tokens.
fn short_cause(error: &KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::Parse(wrong) => {
            let line = wrong.location().map_or(0, |at| at.line());
            anyhow!("line {line} is not what a kubeconfig has there")
        }
        KubeconfigError::ReadConfig(cause, path) => anyhow!("{}: {cause}", path.display()),
        error => anyhow!(chain(error)),
    }
}

/// Where the configuration is read from. `None`: not from a file.
pub(super) fn source(kubeconfig: Option<&Path>) -> Option<String> {
    if let Some(path) = kubeconfig {
        return Some(path.display().to_string());
    }
    if let Some(files) = variable("KUBECONFIG") {
        return Some(files);
    }
    let path = PathBuf::from(variable("HOME")?).join(".kube/config");
    path.exists().then(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_configuration_has_one_short_cause() {
        let absent = || {
            let cause = std::io::Error::new(std::io::ErrorKind::NotFound, "No such file");
            KubeconfigError::ReadConfig(cause, PathBuf::from("/nowhere"))
        };
        let unset = || KubeconfigError::CurrentContextNotSet;
        for (error, variable, in_pod, expected) in [
            (absent(), Some("/nowhere"), None, "KUBECONFIG: /nowhere: No such file"),
            (
                unset(),
                Some("/a"),
                Some("no token"),
                "KUBECONFIG /a: failed to determine current context",
            ),
            (
                unset(),
                None,
                None,
                "kubeconfig ~/.kube/config: failed to determine current context",
            ),
            (
                absent(),
                None,
                Some("no token"),
                "the service account of the pod: no token",
            ),
            (absent(), None, None, NOT_CONFIGURED),
        ] {
            let message = format!("{:#}", explain_missing(Some(&error), variable, in_pod));
            assert_eq!(message, expected);
        }
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_read_is_named_once() {
        let error = config(Some(Path::new("/nowhere/config"))).await.unwrap_err();
        let message = format!("{error:#}");
        assert_eq!(
            message,
            "kubeconfig /nowhere/config: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_parse_error_quotes_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, "apiVersion: v1\nusers: [{user: {token: sesame}}\n").unwrap();
        let message = format!("{:#}", read_kubeconfig([&file]).unwrap_err());
        assert!(message.contains("line ") && !message.contains("sesame"), "{message}");
    }
}
