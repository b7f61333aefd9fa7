//! Who we are to a registry: what `helm registry login` and `docker login` have kept, or the helpers that they name.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::helm_config::helm_file;

#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    Password(String, String),
    /// What a registry gives tokens for.
    Token(String),
}

/// Without the secret.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Credentials::Password(name, _) => write!(f, "{name}"),
            Credentials::Token(_) => write!(f, "a token"),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Config {
    auths: Map<String, Value>,
    creds_store: String,
    cred_helpers: Map<String, Value>,
}

/// The credentials for a registry, if there are any.
///
/// # Errors
/// A file can't be read, or a helper fails.
pub fn find(host: &str) -> anyhow::Result<Option<Credentials>> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".docker")));
    let docker = folder.map(|folder| folder.join("config.json"));
    let helm = helm_file("HELM_REGISTRY_CONFIG", "registry/config.json");
    for path in [helm, docker].into_iter().flatten() {
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let config: Config = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        if let Some(found) = config.find(host).with_context(|| path.display().to_string())? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

impl Config {
    fn find(&self, host: &str) -> anyhow::Result<Option<Credentials>> {
        let key = match host {
            "docker.io" => "https://index.docker.io/v1/",
            host => host,
        };
        let helper = self.cred_helpers.get(key).and_then(Value::as_str);
        if let Some(helper) = helper.or(Some(self.creds_store.as_str()).filter(|store| !store.is_empty())) {
            return ask(helper, key);
        }
        let of = |key: &str| {
            let key = key.trim_start_matches("https://").trim_start_matches("http://");
            key.trim_end_matches('/').to_owned()
        };
        let entry = self.auths.iter().find(|(known, _)| of(known) == of(key));
        entry.map_or(Ok(None), |(_, entry)| read(entry))
    }
}

/// An entry of `auths`.
fn read(entry: &Value) -> anyhow::Result<Option<Credentials>> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(token) = text("identitytoken") {
        return Ok(Some(Credentials::Token(token.to_owned())));
    }
    if let (Some(name), Some(password)) = (text("username"), text("password")) {
        return Ok(Some(Credentials::Password(name.to_owned(), password.to_owned())));
    }
    let Some(auth) = text("auth") else { return Ok(None) };
    let wrong = "`auth` is no name and password in base64";
    let pair = data_encoding::BASE64.decode(auth.as_bytes()).ok().context(wrong)?;
    let pair = String::from_utf8(pair).ok().context(wrong)?;
    let (name, password) = pair.split_once(':').context(wrong)?;
    Ok(Some(Credentials::Password(
        name.to_owned(),
        password.trim_end_matches('\0').to_owned(),
    )))
}

/// What a program of docker's kind says.
fn ask(helper: &str, server: &str) -> anyhow::Result<Option<Credentials>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Answer {
        username: String,
        secret: String,
    }
    let program = format!("docker-credential-{helper}");
    let run = || -> std::io::Result<std::process::Output> {
        let mut child = Command::new(&program)
            .arg("get")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        // One that ends before it reads says why.
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(server.as_bytes());
        }
        child.wait_with_output()
    };
    let output = run().with_context(|| program.clone())?;
    let output_text = String::from_utf8_lossy(&output.stdout);
    // The helpers' own words for it.
    if !output.status.success() && output_text.contains("credentials not found") {
        return Ok(None);
    }
    ensure!(output.status.success(), "{program} fails: {}", output_text.trim());
    let answer: Answer =
        serde_json::from_slice(&output.stdout).with_context(|| format!("{program} answers nonsense"))?;
    Ok(Some(match answer.username.as_str() {
        "<token>" => Credentials::Token(answer.secret),
        name => Credentials::Password(name.to_owned(), answer.secret),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_s_entries_are_read() {
        let config = r#"{"auths": {
            "a:5000": {"auth": "dTpwOnE="},
            "https://b/": {"username": "u", "password": "p"},
            "c": {"auth": "dTpw", "identitytoken": "t"},
            "d": {}, "e": {"auth": "?"},
            "https://index.docker.io/v1/": {"auth": "dTpw"}
        }}"#;
        let config: Config = serde_json::from_str(config).unwrap();
        let password = |password: &str| Some(Credentials::Password("u".to_owned(), password.to_owned()));
        for (host, want) in [
            ("a:5000", password("p:q")),
            ("b", password("p")),
            ("c", Some(Credentials::Token("t".to_owned()))),
            ("d", None),
            ("other", None),
            ("docker.io", password("p")),
        ] {
            assert_eq!(config.find(host).unwrap(), want, "{host}");
        }
        assert!(config.find("e").is_err());
        let helped: Config = serde_json::from_str(r#"{"credHelpers": {"a": "no-such-helper"}}"#).unwrap();
        let error = format!("{:#}", helped.find("a").unwrap_err());
        assert!(error.starts_with("docker-credential-no-such-helper: "), "{error}");
        assert_eq!(helped.find("b").unwrap(), None);
    }
}
