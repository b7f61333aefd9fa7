//! The way to the cluster, as client-go finds it: kubeconfig, pod, environment, flags; what is wrong with it, in its words.
//!
//! Facts: `tools/clientcmd` (`loader.go`, `client_config.go`, `validation.go`) and `rest/transport.go` of client-go.

use std::path::Path;

use kube::Config;
use kube::config::{AuthInfo, Cluster, ExecConfig, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster};
use serde_json::Value;

use super::install::aggregate;
use super::{Process, env_bool, namespace};
use crate::chart::io_text;
use crate::chart::metadata::json_kind;
use crate::cli::pflag::Parsed;
use crate::template::go::quote::quote_go;
use crate::template::sprig::url_parse::Url;
use crate::yaml;

/// Where a cluster is that nothing tells of.
const DEFAULT_SERVER: &str = "http://localhost:8080";

/// How to connect. The error is what Helm says after "kubernetes cluster unreachable: ".
pub async fn config(flags: &Parsed, process: &Process<'_>) -> Result<Config, String> {
    let given = |flag: &str, variable: &str| {
        let text = flags.text(flag).map(str::to_owned).or_else(|| (process.env)(variable));
        text.filter(|text| !text.is_empty())
    };
    let authority = given("kube-ca-file", "HELM_KUBECAFILE");
    let server = given("kube-apiserver", "HELM_KUBEAPISERVER");
    let token = given("kube-token", "HELM_KUBETOKEN");
    let files = Files {
        dir: process.dir,
        authority: authority.as_deref(),
    };
    let context = namespace::context(flags, process);
    let mut config = match (read(flags, process)?, context) {
        (Some(kubeconfig), context) => selected(kubeconfig, context, files).await?,
        (None, Some(name)) => return Err(no_context(&name)),
        (None, None) => unnamed(files)?,
    };
    if let Some(url) = server {
        config.cluster_url = parsed(&url)?;
    }
    if let Some(token) = token {
        config.auth_info.token = Some(token.into());
    }
    if let Some(user) = given("kube-as-user", "HELM_KUBEASUSER") {
        config.auth_info.impersonate = Some(user);
    }
    let groups = match flags.is_set("kube-as-group") {
        true => flags.list("kube-as-group"),
        false => (process.env)("HELM_KUBEASGROUPS")
            .map(|text| text.trim_matches([',', ' ']).split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    };
    if groups.iter().any(|group| !group.is_empty()) {
        config.auth_info.impersonate_groups = Some(groups);
    }
    if let Some(name) = given("kube-tls-server-name", "HELM_KUBETLS_SERVER_NAME") {
        config.tls_server_name = Some(name);
    }
    if flags.bool("kube-insecure-skip-tls-verify") || env_bool(process, "HELM_KUBEINSECURE_SKIP_TLS_VERIFY") {
        config.accept_invalid_certs = true;
    }
    if let Some(path) = &authority {
        config.root_cert = None;
        config.root_cert_file = Some(process.dir.join(path));
    }
    check_tls(&config)?;
    Ok(config)
}

/// Without a kubeconfig that says so: a pod knows where its cluster is.
fn unnamed(files: Files<'_>) -> Result<Config, String> {
    check(files.cluster_problems("", &Cluster::default()))?;
    match Config::incluster() {
        Ok(config) => Ok(config),
        Err(_) => Ok(Config::new(parsed(DEFAULT_SERVER)?)),
    }
}

/// A server's address, which may lack `http://`.
fn parsed(server: &str) -> Result<axum::http::Uri, String> {
    let url = with_scheme(server)?;
    url.parse().map_err(|e| format!("parse {}: {e}", quote_go(url)))
}

fn no_context(name: &str) -> String {
    format!("context {} does not exist", quote_go(name))
}

/// client-go's `DefaultServerURL` (`rest/url_utils.go`).
fn with_scheme(server: &str) -> Result<String, String> {
    let is_whole = |url: Url| !url.scheme.is_empty() && !url.host.is_empty();
    if Url::parse(server.as_bytes()).is_ok_and(is_whole) {
        return Ok(server.to_owned());
    }
    let url = format!("http://{server}");
    match Url::parse(url.as_bytes())?.path.as_slice() {
        b"" | b"/" => Ok(url),
        _ => Err(format!("host must be a URL or a host:port pair: {}", quote_go(server))),
    }
}

/// The kubeconfig files, merged; `None` if there is none.
fn read(flags: &Parsed, process: &Process<'_>) -> Result<Option<Kubeconfig>, String> {
    let explicit = flags.text("kubeconfig").filter(|path| !path.is_empty());
    let mut merged: Option<Kubeconfig> = None;
    for path in namespace::kubeconfigs(flags, process) {
        let shown = explicit.map_or_else(|| path.display().to_string(), str::to_owned);
        if !path.exists() {
            match explicit {
                Some(_) => return Err(format!("stat {shown}: no such file or directory")),
                None => continue,
            }
        }
        let next = read_one(&path, &shown).map_err(|e| format!("error loading config file \"{shown}\": {e}"))?;
        merged = Some(match merged {
            Some(earlier) => earlier.merge(next).map_err(|e| e.to_string())?,
            None => next,
        });
    }
    Ok(merged)
}

/// One file, named in errors as it is `shown`.
fn read_one(path: &Path, shown: &str) -> Result<Kubeconfig, String> {
    let text = std::fs::read(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::IsADirectory => format!("read {shown}: {}", io_text(&e)),
        _ => format!("open {shown}: {}", io_text(&e)),
    })?;
    let json = yaml::to_json(&text).map_err(|e| {
        let text = e.to_string();
        text.strip_prefix("error converting YAML to JSON: ")
            .unwrap_or(&text)
            .to_owned()
    })?;
    match json {
        Value::Object(_) | Value::Null => Kubeconfig::read_from(path).map_err(|e| e.to_string()),
        other => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            json_kind(&other)
        )),
    }
}

/// What a context of the kubeconfig says, with client-go's defaults for what it leaves out.
async fn selected(mut kubeconfig: Kubeconfig, named: Option<String>, files: Files<'_>) -> Result<Config, String> {
    let Some(name) = named
        .clone()
        .or_else(|| kubeconfig.current_context.clone())
        .filter(|name| !name.is_empty())
    else {
        return unnamed(files);
    };
    let Some(context) = kubeconfig.contexts.iter().find(|context| context.name == name) else {
        return Err(match named {
            Some(name) => no_context(&name),
            None => format!("invalid configuration: context was not found for specified context: {name}"),
        });
    };
    let context = context.context.clone().unwrap_or_default();
    if !kubeconfig
        .clusters
        .iter()
        .any(|cluster| cluster.name == context.cluster)
    {
        kubeconfig.clusters.push(NamedCluster {
            name: context.cluster.clone(),
            ..NamedCluster::default()
        });
    }
    let user = context.user.unwrap_or_default();
    if !kubeconfig.auth_infos.iter().any(|info| info.name == user) {
        kubeconfig.auth_infos.push(NamedAuthInfo {
            name: user.clone(),
            ..NamedAuthInfo::default()
        });
    }
    let mut problems = Vec::new();
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .filter(|cluster| cluster.name == context.cluster)
    {
        let (name, cluster) = (&cluster.name, cluster.cluster.get_or_insert_default());
        let server = cluster.server.as_deref().filter(|server| !server.is_empty());
        cluster.server = Some(with_scheme(server.unwrap_or(DEFAULT_SERVER))?);
        parsed(cluster.server.as_deref().unwrap_or_default())?;
        problems.extend(files.cluster_problems(name, cluster));
    }
    for info in kubeconfig.auth_infos.iter_mut().filter(|info| info.name == user) {
        problems.extend(files.user_problems(&info.name, info.auth_info.get_or_insert_default()));
    }
    check(problems)?;
    let options = KubeConfigOptions {
        context: Some(name),
        ..KubeConfigOptions::default()
    };
    Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(|e| e.to_string())
}

fn check(problems: Vec<String>) -> Result<(), String> {
    match aggregate(problems) {
        Some(problems) => Err(format!("invalid configuration: {problems}")),
        None => Ok(()),
    }
}

fn is_set(text: &Option<String>) -> bool {
    text.as_ref().is_some_and(|text| !text.is_empty())
}

/// The files that a kubeconfig and the command line name.
#[derive(Clone, Copy)]
struct Files<'a> {
    /// What relative names are relative to.
    dir: &'a Path,
    /// The certificate authority that the command line names.
    authority: Option<&'a str>,
}

impl Files<'_> {
    /// Why a file can't be read.
    fn unreadable(self, what: &str, name: &str, of: &str) -> Option<String> {
        let problem = std::fs::File::open(self.dir.join(name)).err()?;
        let problem = io_text(&problem);
        Some(format!(
            "unable to read {what} {name} for {of} due to open {name}: {problem}"
        ))
    }

    /// `validateClusterInfo`
    fn cluster_problems(self, name: &str, cluster: &Cluster) -> Vec<String> {
        let mut problems = Vec::new();
        let file = self
            .authority
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
    fn user_problems(self, name: &str, info: &AuthInfo) -> Vec<String> {
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
    let needed = [
        ("command", is_set(&exec.command)),
        ("apiVersion", is_set(&exec.api_version)),
        ("interactiveMode", exec.interactive_mode.is_some()),
    ];
    let missing = needed.iter().filter(|(_, is_there)| !is_there);
    missing
        .map(|(what, _)| format!("{what} must be specified for {name} to use exec authentication plugin"))
        .collect()
}

/// What `rest.TLSConfigFor` refuses.
fn check_tls(config: &Config) -> Result<(), String> {
    if config.cluster_url.scheme_str() != Some("https") {
        return Ok(());
    }
    let file = config.root_cert_file.as_ref().map(std::fs::read);
    if config.accept_invalid_certs && (file.is_some() || config.root_cert.is_some()) {
        return Err("specifying a root certificates file with the insecure flag is not allowed".to_owned());
    }
    let is_pem = |text: &[u8]| text.windows(11).any(|part| part == b"-----BEGIN ");
    let is_empty = config.root_cert.as_ref().is_some_and(Vec::is_empty);
    if file.is_some_and(|text| text.is_ok_and(|text| !is_pem(&text))) || is_empty {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(kubeconfig: &str) -> String {
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let files = Files {
            dir: Path::new("."),
            authority: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let config = runtime.block_on(selected(kubeconfig, None, files)).unwrap();
        config.cluster_url.to_string()
    }

    #[test]
    fn what_a_kubeconfig_leaves_out_is_on_this_machine() {
        let rest = "contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
        for (text, want) in [
            ("clusters: []\n".to_owned(), "http://localhost:8080/"),
            (rest.to_owned(), "http://localhost:8080/"),
            (
                format!("clusters: [{{name: c, cluster: {{}}}}]\n{rest}"),
                "http://localhost:8080/",
            ),
            (
                format!("clusters: [{{name: c, cluster: {{server: \"\"}}}}]\n{rest}"),
                "http://localhost:8080/",
            ),
            (
                format!("clusters: [{{name: c, cluster: {{server: a:1}}}}]\n{rest}"),
                "http://a:1/",
            ),
            (
                format!("clusters: [{{name: c, cluster: {{server: \"https://a/b\"}}}}]\n{rest}"),
                "https://a/b",
            ),
        ] {
            assert_eq!(server(&text), want, "{text}");
        }
    }
}
