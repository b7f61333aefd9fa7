//! The configuration of the connection: kubeconfig files, or the pod's service account. Errors are one short cause.
//!
//! kube has a reader of its own, which takes a quarter of a megabyte of the program.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use http::header::{HeaderValue, USER_AGENT};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::telemetry::chain;

/// Names this program in the audit log of the API server.
const PROGRAM: &str = concat!("chartwright/", env!("CARGO_PKG_VERSION"));

/// Names the files to read, separated as in `PATH`.
const VARIABLE: &str = "KUBECONFIG";

const NOT_CONFIGURED: &str =
    "no API server configured: set KUBECONFIG or --kubeconfig, or run in a pod with a service account";

/// Where the configuration comes from.
enum ConfigSource {
    Files(Vec<PathBuf>),
    /// The service account of the pod.
    Pod,
}

/// Reads the configuration: of the file given, of `KUBECONFIG`, of `~/.kube/config`, or of the pod's service account.
///
/// # Errors
/// There is none, or it is malformed. The message names the file.
pub(super) async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    let mut config = match ConfigSource::find(kubeconfig) {
        ConfigSource::Files(files) => {
            let found = read_kubeconfig(&files)?;
            Config::from_custom_kubeconfig(found, &KubeConfigOptions::default())
                .await
                .map_err(|error| anyhow!(chain(&error)))
                .with_context(|| format!("kubeconfig {}", shown(&files)))?
        }
        ConfigSource::Pod if variable("KUBERNETES_SERVICE_HOST").is_none() => bail!(NOT_CONFIGURED),
        ConfigSource::Pod => Config::incluster_env()
            .map_err(|error| anyhow!(chain(&error)))
            .context("the service account of the pod")?,
    };
    config.headers.push((USER_AGENT, HeaderValue::from_static(PROGRAM)));
    Ok(config)
}

/// Names the files that the configuration is read from. `None`: not from a file.
pub(super) fn source(kubeconfig: Option<&Path>) -> Option<String> {
    match ConfigSource::find(kubeconfig) {
        ConfigSource::Files(files) => Some(shown(&files)),
        ConfigSource::Pod => None,
    }
}

impl ConfigSource {
    fn find(given: Option<&Path>) -> Self {
        if let Some(path) = given {
            return ConfigSource::Files(vec![path.to_owned()]);
        }
        let value = variable(VARIABLE).unwrap_or_default();
        let named: Vec<PathBuf> = std::env::split_paths(&value)
            .filter(|path| !path.as_os_str().is_empty())
            .collect();
        if !named.is_empty() {
            return ConfigSource::Files(named);
        }
        let usual = std::env::home_dir().map(|home| home.join(".kube/config"));
        match usual.filter(|path| path.exists()) {
            Some(path) => ConfigSource::Files(vec![path]),
            None => ConfigSource::Pod,
        }
    }
}

fn shown(files: &[PathBuf]) -> String {
    let files = files.iter().map(|file| file.display().to_string());
    files.collect::<Vec<_>>().join(":")
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
        let read = read_file(path).and_then(|next| Ok(merged.merge(next)?));
        read.with_context(|| format!("kubeconfig {}", path.display()))
    })
}

fn read_file(path: &Path) -> anyhow::Result<Kubeconfig> {
    let text = std::fs::read(path)?;
    let text = String::from_utf8(text).context("it is no text in UTF-8")?;
    let text = text.trim_start_matches('\u{feff}');
    let directory = path.parent().unwrap_or(Path::new(""));
    let documents = go_yaml::documents(text).map_err(|error| without_quotes(&error))?;
    let documents = documents.into_iter().map(|document| {
        let mut config = parse(document)?;
        resolve_paths(&mut config, directory);
        anyhow::Ok(config)
    });
    documents
        .into_iter()
        .try_fold(Kubeconfig::default(), |merged, next| Ok(merged.merge(next?)?))
}

fn parse(document: &str) -> anyhow::Result<Kubeconfig> {
    let value = go_yaml::to_json(document.as_bytes()).map_err(|error| without_quotes(&error))?;
    if value.is_null() {
        return Ok(Kubeconfig::default());
    }
    match serde_json::from_value(value) {
        Ok(config) => Ok(config),
        // The error of the parser may quote a token.
        Err(_) => bail!("a field is not of the type that a kubeconfig has there"),
    }
}

/// The line of an error, without the text there: it may be a token.
fn without_quotes(error: &go_yaml::Error) -> anyhow::Error {
    let line = error.line().unwrap_or(1);
    anyhow::anyhow!("line {line} is not what a kubeconfig has there")
}

/// Makes paths relative to a directory absolute (`ResolveLocalPaths` of k8s.io/client-go/tools/clientcmd). A command without a slash is
/// looked up in `PATH`.
fn resolve_paths(config: &mut Kubeconfig, directory: &Path) {
    let resolve = |path: &mut Option<String>| {
        if let Some(text) = path.as_deref().filter(|text| !text.is_empty()) {
            *path = directory.join(text).to_str().map(str::to_owned);
        }
    };
    for cluster in config.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        resolve(&mut cluster.certificate_authority);
    }
    for user in config
        .auth_infos
        .iter_mut()
        .filter_map(|named| named.auth_info.as_mut())
    {
        for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            resolve(path);
        }
        if let Some(exec) = user.exec.as_mut().filter(|exec| {
            let command = exec.command.as_deref();
            command.is_some_and(|command| command.contains('/'))
        }) {
            resolve(&mut exec.command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> anyhow::Result<Kubeconfig> {
        let folder = tempfile::tempdir()?;
        let paths = (0..texts.len()).map(|number| folder.path().join(format!("{number}.yaml")));
        let paths: Vec<PathBuf> = paths.collect();
        for (path, text) in paths.iter().zip(texts) {
            std::fs::write(path, text)?;
        }
        let mut config = read_kubeconfig(&paths)?;
        let prefix = format!("{}/", folder.path().display());
        for user in config
            .auth_infos
            .iter_mut()
            .filter_map(|named| named.auth_info.as_mut())
        {
            user.client_key = user.client_key.take().map(|path| path.replace(&prefix, "HERE/"));
            if let Some(exec) = &mut user.exec {
                exec.command = exec.command.take().map(|path| path.replace(&prefix, "HERE/"));
            }
        }
        Ok(config)
    }

    #[test]
    fn the_first_file_and_document_win() {
        let one = "current-context: a\nclusters: [{name: c, cluster: {server: https://one}}]\n";
        let two = "current-context: b\nclusters: [{name: c, cluster: {server: https://two}}, {name: d, cluster: {server: https://d}}]\n";
        for texts in [&[one, two][..], &[format!("{one}---\n{two}").as_str()], &["", one, two]] {
            let config = read(texts).unwrap();
            assert_eq!(config.current_context.as_deref(), Some("a"));
            let servers = config
                .clusters
                .iter()
                .filter_map(|named| named.cluster.as_ref()?.server.as_deref());
            assert_eq!(servers.collect::<Vec<_>>(), ["https://one", "https://d"]);
        }
    }

    #[test]
    fn paths_are_relative_to_their_file() {
        for (command, resolved) in [
            ("aws", "aws"),
            ("./bin/login", "HERE/./bin/login"),
            ("/bin/login", "/bin/login"),
        ] {
            let text = format!(
                "users: [{{name: u, user: {{client-key: keys/u.pem, exec: {{command: {command}, apiVersion: client.authentication.k8s.io/v1}}}}}}]"
            );
            let config = read(&[&text]).unwrap();
            let user = config.auth_infos[0].auth_info.clone().unwrap();
            assert_eq!(user.client_key.as_deref(), Some("HERE/keys/u.pem"));
            assert_eq!(user.exec.unwrap().command.as_deref(), Some(resolved));
        }
    }

    #[test]
    fn errors_name_file_and_line_and_quote_nothing() {
        for (text, expected) in [
            ("clusters: [\nusers: {a: 'secret\n", "line "),
            (
                "users: [{name: u, user: {token: [secret]}}]",
                "a field is not of the type",
            ),
            ("users: secret", "a field is not of the type"),
            ("- secret", "a field is not of the type"),
            ("a: secret\n\tb: secret\n", "line 2 is not what"),
        ] {
            let error = format!("{:#}", read(&[text]).unwrap_err());
            assert!(error.starts_with("kubeconfig /") && error.contains(expected), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
        let absent = format!("{:#}", read_kubeconfig(["/absent/config"]).unwrap_err());
        assert_eq!(
            absent,
            "kubeconfig /absent/config: No such file or directory (os error 2)"
        );
    }

    #[tokio::test]
    async fn requests_name_this_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let text = "current-context: a\ncontexts: [{name: a, context: {cluster: c}}]\n\
                    clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n";
        std::fs::write(&path, text).unwrap();
        let config = super::config(Some(&path)).await.unwrap();
        let named = config.headers.iter().find(|(name, _)| name == USER_AGENT).unwrap();
        assert!(named.1.to_str().unwrap().starts_with("chartwright/"), "{named:?}");
    }

    #[tokio::test]
    async fn a_context_that_does_not_exist_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, "current-context: a\n").unwrap();
        let error = format!("{:#}", config(Some(&path)).await.unwrap_err());
        assert!(
            error.starts_with(&format!("kubeconfig {}: ", path.display())),
            "{error}"
        );
        let absent = format!("{:#}", config(Some(Path::new("/nowhere/config"))).await.unwrap_err());
        assert_eq!(
            absent,
            "kubeconfig /nowhere/config: No such file or directory (os error 2)"
        );
    }
}
