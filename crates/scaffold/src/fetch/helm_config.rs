//! Helm's own configuration: its files, and the repositories that it knows by name. Facts: Helm's `pkg/repo/v1/repo.go`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use super::http::{Http, Login, authorities, origin};

/// A repository that Helm knows by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Known {
    pub name: String,
    pub url: String,
    #[serde(default)]
    pub username: String,
    #[serde(default)]
    pub password: String,
    #[serde(default, rename = "caFile")]
    pub ca_file: String,
}

/// The repositories that Helm knows.
///
/// # Errors
/// The file can't be read.
pub fn known() -> anyhow::Result<Vec<Known>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        repositories: Vec<Known>,
    }
    let Some(path) = helm_file("HELM_REPOSITORY_CONFIG", "repositories.yaml") else {
        return Ok(Vec::new());
    };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let list: List = serde_yaml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(list.repositories)
}

/// A file of Helm's configuration, which a variable of the environment may name.
pub fn helm_file(variable: &str, name: &str) -> Option<PathBuf> {
    let given = |variable: &str| {
        std::env::var_os(variable)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    given(variable).or_else(|| {
        let folder = given("HELM_CONFIG_HOME").or_else(|| Some(given("XDG_CONFIG_HOME")?.join("helm")));
        let own = if cfg!(target_os = "macos") {
            "Library/Preferences"
        } else {
            ".config"
        };
        Some(
            folder
                .or_else(|| Some(given("HOME")?.join(own).join("helm")))?
                .join(name),
        )
    })
}

/// The name in a dependency's repository that is `@NAME` or `alias:NAME`.
pub(super) fn alias(repository: &str) -> Option<&str> {
    repository
        .strip_prefix('@')
        .or_else(|| repository.strip_prefix("alias:"))
}

/// The repository that Helm knows by a name.
pub(super) fn named<'k>(known: &'k [Known], name: &str) -> Option<&'k Known> {
    known.iter().find(|known| known.name == name.trim_start_matches('@'))
}

pub(super) fn unknown(name: &str) -> String {
    format!("{name:?} is no address, and no repository that Helm knows: add the repository with `helm repo add`")
}

impl Known {
    /// Whether a dependency's repository or what stands before a chart's name means this one.
    pub fn is_meant(&self, repository: &str) -> bool {
        alias(repository) == Some(&self.name) || self.url.trim_end_matches('/') == repository.trim_end_matches('/')
    }

    /// How Helm asks it.
    ///
    /// # Errors
    /// Its certificates can't be read.
    pub fn http(&self) -> anyhow::Result<Http> {
        let login = Login {
            origin: origin(&self.url),
            username: self.username.clone(),
            password: self.password.clone(),
        };
        Ok(Http {
            login: Some(login).filter(|login| !login.username.is_empty()),
            authorities: match self.ca_file.as_str() {
                "" => None,
                path => Some(authorities(Path::new(path))?),
            },
            ..Http::default()
        })
    }
}
