//! The way to the cluster, as client-go finds it: kubeconfig, pod, environment, flags; what is wrong with it, in its words.
//!
//! Facts: `tools/clientcmd` (`loader.go`, `client_config.go`, `validation.go`) and `rest/transport.go` of client-go.

mod file;
mod validation;

use kube::Config;
use kube::config::{AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster};

use self::validation::Overrides;
use super::install::aggregate;
use super::{Process, env_bool, namespace};
use crate::cli::pflag::Parsed;
use crate::template::go::quote::quote_go;
use crate::template::sprig::url_parse::Url;

/// Where a cluster is that nothing tells of.
const DEFAULT_SERVER: &str = "http://localhost:8080";

/// How to connect. The error is what Helm says after "kubernetes cluster unreachable: ".
pub async fn config(flags: &Parsed, process: &Process<'_>) -> Result<Config, String> {
    let overrides = overrides(flags, process);
    let mut config = match select(flags, process, &overrides)? {
        Some(selected) => selected.connect().await?,
        None => Config::new(parsed(DEFAULT_SERVER)?),
    };
    let server = given(flags, process, "kube-apiserver", "HELM_KUBEAPISERVER");
    let tls_name = given(flags, process, "kube-tls-server-name", "HELM_KUBETLS_SERVER_NAME");
    if server.is_some() || tls_name.is_some() {
        config.tls_server_name = tls_name;
    }
    if let Some(url) = &server {
        config.cluster_url = parsed(url)?;
    }
    overrides.apply(&mut config.auth_info);
    // A pod's own way, with its token, is taken only where nothing says another.
    let is_default = config.cluster_url == parsed(DEFAULT_SERVER)? && config.auth_info.impersonate.is_none();
    if is_default
        && server.is_none()
        && let Ok(pod) = Config::incluster()
    {
        return within_pod(pod, &overrides);
    }
    let insecure =
        flags.bool("kube-insecure-skip-tls-verify") || env_bool(process, "HELM_KUBEINSECURE_SKIP_TLS_VERIFY");
    if insecure || overrides.authority.is_some() {
        config.accept_invalid_certs = insecure;
        config.root_cert = None;
        config.root_cert_file = overrides.authority_file();
    }
    if config.cluster_url.scheme_str() != Some("https") {
        config.auth_info = without_secrets(&config.auth_info);
    }
    prefer_file(&mut config.auth_info);
    check_tls(&config)?;
    Ok(config)
}

/// Of a pod's way only token and authority can be other ones (`inClusterClientConfig`).
fn within_pod(mut pod: Config, overrides: &Overrides<'_>) -> Result<Config, String> {
    if let Some(token) = &overrides.token {
        pod.auth_info.token = Some(token.clone().into());
    }
    if let Some(file) = overrides.authority_file() {
        pod.root_cert = None;
        pod.root_cert_file = Some(file);
    }
    check_tls(&pod)?;
    Ok(pod)
}

/// What is told of a user to who could be overheard: whom to impersonate.
fn without_secrets(user: &AuthInfo) -> AuthInfo {
    AuthInfo {
        impersonate: user.impersonate.clone(),
        impersonate_groups: user.impersonate_groups.clone(),
        ..AuthInfo::default()
    }
}

/// Of a token and a file with one the file counts, if it can be read.
fn prefer_file(user: &mut AuthInfo) {
    let file = user.token_file.as_ref().filter(|file| !file.is_empty());
    if file.is_some_and(|file| std::fs::read(file).is_ok()) {
        user.token = None;
    }
}

/// The namespace that the kubeconfig says, if it says one.
///
/// # Errors
/// As [`config`], but for what only counts once the cluster is asked.
pub fn namespace(flags: &Parsed, process: &Process<'_>) -> Result<Option<String>, String> {
    let selected = select(flags, process, &overrides(flags, process))?;
    Ok(selected.and_then(|selected| selected.context.namespace))
}

/// What a flag says, or else a variable.
fn given(flags: &Parsed, process: &Process<'_>, flag: &str, variable: &str) -> Option<String> {
    let text = flags.text(flag).map(str::to_owned).or_else(|| (process.env)(variable));
    text.filter(|text| !text.is_empty())
}

fn overrides<'a>(flags: &Parsed, process: &Process<'a>) -> Overrides<'a> {
    let groups = match flags.is_set("kube-as-group") {
        true => flags.list("kube-as-group"),
        false => (process.env)("HELM_KUBEASGROUPS")
            .map(|text| text.trim_matches([',', ' ']).split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    };
    Overrides {
        dir: process.dir,
        authority: given(flags, process, "kube-ca-file", "HELM_KUBECAFILE"),
        token: given(flags, process, "kube-token", "HELM_KUBETOKEN"),
        user: given(flags, process, "kube-as-user", "HELM_KUBEASUSER"),
        groups: match groups.iter().any(|group| !group.is_empty()) {
            true => groups,
            false => Vec::new(),
        },
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

/// The kubeconfig files, merged.
fn read(flags: &Parsed, process: &Process<'_>) -> Result<Kubeconfig, String> {
    let explicit = flags.text("kubeconfig").filter(|path| !path.is_empty());
    let mut merged = Kubeconfig::default();
    let mut problems = Vec::new();
    for path in namespace::kubeconfigs(flags, process) {
        let shown = explicit.map_or_else(|| path.display().to_string(), str::to_owned);
        if !path.exists() {
            match explicit {
                Some(_) => return Err(format!("stat {shown}: no such file or directory")),
                None => continue,
            }
        }
        match file::read(&path, &shown) {
            Ok(next) => merged = merged.merge(next).map_err(|e| e.to_string())?,
            Err(e) => problems.push(format!("error loading config file \"{shown}\": {e}")),
        }
    }
    aggregate(problems).map_or(Ok(merged), Err)
}

/// A kubeconfig, and the context that counts.
struct Selected {
    kubeconfig: Kubeconfig,
    name: String,
    context: Context,
}

/// What client-go's `ConfirmUsable` lets pass. `None` if no context is named.
fn select(flags: &Parsed, process: &Process<'_>, overrides: &Overrides<'_>) -> Result<Option<Selected>, String> {
    let kubeconfig = read(flags, process)?;
    let named = namespace::context(flags, process);
    let Some(name) = named.clone().or_else(|| kubeconfig.current_context.clone()) else {
        let mut problems = overrides.user_problems("", &AuthInfo::default());
        problems.extend(overrides.cluster_problems("", &Cluster::default()));
        return check(problems).map(|()| None);
    };
    let Some(context) = kubeconfig.contexts.iter().find(|context| context.name == name) else {
        return Err(match named {
            Some(name) => no_context(&name),
            None => format!("invalid configuration: context was not found for specified context: {name}"),
        });
    };
    let context = context.context.clone().unwrap_or_default();
    let mut selected = Selected {
        kubeconfig,
        name,
        context,
    };
    let (name, user) = selected.user();
    let mut problems = overrides.user_problems(&name, user);
    let (name, cluster) = selected.cluster();
    problems.extend(overrides.cluster_problems(&name, cluster));
    check(problems).map(|()| Some(selected))
}

impl Selected {
    /// The context's user, and its name. One that isn't there is empty.
    fn user(&mut self) -> (String, &mut AuthInfo) {
        let name = self.context.user.clone().unwrap_or_default();
        let users = &mut self.kubeconfig.auth_infos;
        let at = users.iter().position(|user| user.name == name).unwrap_or_else(|| {
            users.push(NamedAuthInfo {
                name: name.clone(),
                ..NamedAuthInfo::default()
            });
            users.len() - 1
        });
        (name, users[at].auth_info.get_or_insert_default())
    }

    /// The context's cluster, and its name. One that isn't there is empty.
    fn cluster(&mut self) -> (String, &mut Cluster) {
        let name = self.context.cluster.clone();
        let clusters = &mut self.kubeconfig.clusters;
        let at = clusters
            .iter()
            .position(|cluster| cluster.name == name)
            .unwrap_or_else(|| {
                clusters.push(NamedCluster {
                    name: name.clone(),
                    ..NamedCluster::default()
                });
                clusters.len() - 1
            });
        (name, clusters[at].cluster.get_or_insert_default())
    }

    /// How to connect, with client-go's defaults for what the context leaves out.
    async fn connect(mut self) -> Result<Config, String> {
        let (_, cluster) = self.cluster();
        let server = with_scheme(cluster.server.as_deref().unwrap_or(DEFAULT_SERVER))?;
        parsed(&server)?;
        cluster.server = Some(server);
        let options = KubeConfigOptions {
            context: Some(self.name),
            ..KubeConfigOptions::default()
        };
        Config::from_custom_kubeconfig(self.kubeconfig, &options)
            .await
            .map_err(|e| e.to_string())
    }
}

fn check(problems: Vec<String>) -> Result<(), String> {
    match aggregate(problems) {
        Some(problems) => Err(format!("invalid configuration: {problems}")),
        None => Ok(()),
    }
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
    use crate::cli::template::flags;

    fn connection(kubeconfig: &str, args: &[&str]) -> Config {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kc"), kubeconfig).unwrap();
        std::fs::write(folder.path().join("token"), "of the file").unwrap();
        let args: Vec<String> = ["--kubeconfig=kc"]
            .iter()
            .chain(args)
            .map(ToString::to_string)
            .collect();
        let flags = flags::parse(&args).1.unwrap();
        let process = Process {
            stdin: &mut std::io::empty(),
            dir: folder.path(),
            env: &|_| None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(config(&flags, &process)).unwrap()
    }

    /// A kubeconfig for a server, with what is said of the cluster and of the user.
    fn kubeconfig(server: &str, cluster: &str, user: &str) -> String {
        format!(
            "clusters: [{{name: c, cluster: {{server: \"{server}\", {cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        )
    }

    #[test]
    fn secrets_are_kept_from_who_could_be_overheard() {
        let user = "token: t, as: somebody, as-groups: [g]";
        for (server, args, told) in [
            ("https://a", &[][..], true),
            ("http://a", &[], false),
            ("a:1", &[], false),
            ("https://a", &["--kube-apiserver=http://b"], false),
            ("http://a", &["--kube-apiserver=https://b"], true),
            ("http://a", &["--kube-token=t"], false),
        ] {
            let user = connection(&kubeconfig(server, "", user), args).auth_info;
            assert_eq!(user.token.is_some(), told, "{server} {args:?}");
            assert_eq!(user.impersonate.as_deref(), Some("somebody"));
            assert_eq!(user.impersonate_groups, Some(vec!["g".to_owned()]));
        }
    }

    #[test]
    fn the_token_of_a_file_counts() {
        for (file, inline) in [("token", false), ("nowhere", true)] {
            let text = kubeconfig("https://a", "", &format!("token: t, tokenFile: {file}"));
            let user = connection(&text, &[]).auth_info;
            assert_eq!(user.token.is_some(), inline, "{file}");
        }
    }

    #[test]
    fn flags_replace_what_a_kubeconfig_says_of_tls() {
        let text = kubeconfig(
            "https://a",
            "certificate-authority-data: WA==, tls-server-name: name",
            "",
        );
        let config = connection(&text, &["--kube-insecure-skip-tls-verify"]);
        assert!(config.accept_invalid_certs && config.root_cert.is_none());
        assert_eq!(config.tls_server_name.as_deref(), Some("name"));
        let config = connection(
            &text,
            &["--kube-insecure-skip-tls-verify", "--kube-apiserver=https://b"],
        );
        assert_eq!(config.tls_server_name, None);
    }

    fn server(kubeconfig: &str) -> String {
        connection(kubeconfig, &[]).cluster_url.to_string()
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
