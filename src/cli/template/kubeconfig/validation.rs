//! What client-go finds wrong with a kubeconfig's cluster and user (`tools/clientcmd/validation.go`).

use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, ExecConfig};

use crate::chart::io_text;
use crate::template::go::quote::quote_go;
use crate::template::sprig::url_parse::Url;

fn is_set(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

/// What the command line and the environment say in place of the kubeconfig.
pub struct Overrides<'a> {
    /// The folder that relative paths start from.
    pub dir: &'a Path,
    /// The certificate authority's file.
    pub authority: Option<String>,
    pub token: Option<String>,
    /// The user and groups to impersonate.
    pub user: Option<String>,
    pub groups: Vec<String>,
}

impl Overrides<'_> {
    /// Puts what is said of the user in its place.
    pub fn apply(&self, info: &mut AuthInfo) {
        if let Some(token) = &self.token {
            info.token = Some(token.clone().into());
        }
        if let Some(user) = &self.user {
            info.impersonate = Some(user.clone());
        }
        if !self.groups.is_empty() {
            info.impersonate_groups = Some(self.groups.clone());
        }
    }

    /// The certificate authority's file, from wherever one looks.
    pub fn authority_file(&self) -> Option<PathBuf> {
        self.authority.as_ref().map(|path| self.dir.join(path))
    }

    /// Why a file can't be read.
    fn unreadable(&self, what: &str, name: &str, of: &str) -> Option<String> {
        let problem = std::fs::File::open(self.dir.join(name)).err()?;
        let problem = io_text(&problem);
        Some(format!(
            "unable to read {what} {name} for {of} due to open {name}: {problem}"
        ))
    }

    /// `validateClusterInfo`
    pub fn cluster_problems(&self, name: &str, cluster: &Cluster) -> Vec<String> {
        let mut problems = Vec::new();
        let proxy = cluster.proxy_url.as_deref().unwrap_or_default();
        if let Some(problem) = proxy_problem(proxy) {
            let (proxy, name) = (quote_go(proxy), quote_go(name));
            problems.push(format!("invalid 'proxy-url' {proxy} for cluster {name}: {problem}"));
        }
        let file = self
            .authority
            .as_deref()
            .or(cluster.certificate_authority.as_deref())
            .filter(|path| !path.is_empty());
        if let Some(path) = file {
            if self.authority.is_none() && is_set(&cluster.certificate_authority_data) {
                problems.push(format!(
                    "certificate-authority-data and certificate-authority are both specified for {name}. \
                 certificate-authority-data will override."
                ));
            }
            problems.extend(self.unreadable("certificate-authority", path, name));
        }
        problems
    }

    /// `validateAuthInfo`
    pub fn user_problems(&self, name: &str, info: &AuthInfo) -> Vec<String> {
        let mut info = info.clone();
        self.apply(&mut info);
        let mut problems = Vec::new();
        let mut methods = Vec::new();
        if info.token.is_some() {
            methods.push("token");
        }
        if is_set(&info.username) || info.password.is_some() {
            methods.push("basicAuth");
        }
        if is_set(&info.client_certificate) || is_set(&info.client_certificate_data) {
            if is_set(&info.client_certificate) && is_set(&info.client_certificate_data) {
                problems.push(format!(
                    "client-cert-data and client-cert are both specified for {name}. client-cert-data will override."
                ));
            }
            if is_set(&info.client_key) && info.client_key_data.is_some() {
                problems.push(format!(
                    "client-key-data and client-key are both specified for {name}; client-key-data will override"
                ));
            }
            if !is_set(&info.client_key) && info.client_key_data.is_none() {
                problems.push(format!(
                "client-key-data or client-key must be specified for {name} to use the clientCert authentication method."
            ));
            }
            for (what, path) in [
                ("client-cert", &info.client_certificate),
                ("client-key", &info.client_key),
            ] {
                let path = path.as_deref().filter(|path| !path.is_empty());
                problems.extend(path.and_then(|path| self.unreadable(what, path, name)));
            }
        }
        if let Some(exec) = &info.exec {
            if info.auth_provider.is_some() {
                problems.push(format!(
                    "authProvider cannot be provided in combination with an exec plugin for {name}"
                ));
            }
            problems.extend(exec_problems(name, exec));
        }
        if methods.len() > 1 {
            problems.push(format!(
                "more than one authentication method found for {name}; found [{}], only one is allowed",
                methods.join(" ")
            ));
        }
        let more = info
            .impersonate_groups
            .as_ref()
            .is_some_and(|groups| !groups.is_empty())
            || info
                .impersonate_user_extra
                .as_ref()
                .is_some_and(|extra| !extra.is_empty())
            || is_set(&info.impersonate_uid);
        if more && !is_set(&info.impersonate) {
            problems.push(format!(
                "requesting uid, groups or user-extra for {name} without impersonating a user"
            ));
        }
        problems
    }
}

fn exec_problems(name: &str, exec: &ExecConfig) -> Vec<String> {
    let variables = exec.env.iter().flatten();
    let is_unnamed = variables.map(|variable| variable.get("name").is_none_or(String::is_empty));
    let mut needed = vec![
        ("command", is_set(&exec.command)),
        ("apiVersion", is_set(&exec.api_version)),
    ];
    needed.extend(is_unnamed.map(|is_unnamed| ("env variable name", !is_unnamed)));
    needed.push(("interactiveMode", exec.interactive_mode.is_some()));
    let missing = needed.iter().filter(|(_, is_there)| !is_there);
    missing
        .map(|(what, _)| format!("{what} must be specified for {name} to use exec authentication plugin"))
        .collect()
}

/// `parseProxyURL`
fn proxy_problem(proxy: &str) -> Option<String> {
    if proxy.is_empty() {
        return None;
    }
    match Url::parse(proxy.as_bytes()) {
        Err(_) => Some(format!("could not parse: {proxy}")),
        Ok(url) if [&b"http"[..], b"https", b"socks5"].contains(&&*url.scheme) => None,
        Ok(url) => {
            let scheme = quote_go(&url.scheme);
            Some(format!("unsupported scheme {scheme}, must be http, https, or socks5"))
        }
    }
}
