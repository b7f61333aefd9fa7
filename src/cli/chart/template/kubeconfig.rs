//! The kubeconfig: the namespace of a release, and the connection of `--dry-run=server`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use kube::Config;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

use super::args::TemplateArgs;
use chartwright_operator::cluster::connection::read_kubeconfig;

const DEFAULT: &str = "default";

/// Returns the namespace of a release: the given one, else that of the kubeconfig's context, else the pod's. As in Helm, an
/// unreadable kubeconfig is ignored.
pub fn find_namespace(args: &TemplateArgs, dir: &Path) -> String {
    let given = args.namespace.clone().filter(|name| !name.is_empty());
    let found = given.or_else(|| {
        let kubeconfig = read_files(args, dir).ok()?;
        let context = context_name(args, &kubeconfig);
        let mut contexts = kubeconfig.contexts.into_iter();
        let context = context.and_then(|name| contexts.find(|context| context.name == name)?.context);
        let named = context.and_then(|context| context.namespace.filter(|name| !name.is_empty()));
        named.or_else(|| {
            let pod = Config::incluster().ok()?;
            Some(std::env::var("POD_NAMESPACE").unwrap_or(pod.default_namespace))
        })
    });
    found.unwrap_or_else(|| DEFAULT.to_owned())
}

/// Returns the connection of the kubeconfig's context, else that of the pod.
///
/// # Errors
/// Neither exists, or it cannot be used.
pub async fn connection_config(args: &TemplateArgs, dir: &Path) -> anyhow::Result<Config> {
    let kubeconfig = read_files(args, dir)?;
    let mut config = match context_name(args, &kubeconfig) {
        None => {
            Config::incluster().context("no kubeconfig names a context, and this is no pod with a service account")?
        }
        context => {
            let options = KubeConfigOptions {
                context,
                ..KubeConfigOptions::default()
            };
            Config::from_custom_kubeconfig(kubeconfig, &options).await?
        }
    };
    if config.cluster_url.scheme_str() != Some("https") {
        // As in client-go: no credentials over plain HTTP.
        config.auth_info = AuthInfo {
            impersonate: config.auth_info.impersonate,
            impersonate_groups: config.auth_info.impersonate_groups,
            ..AuthInfo::default()
        };
    }
    // kube would retry for minutes if the server requests it. The user of a command can repeat it.
    config.default_retry = false;
    Ok(config)
}

/// Returns the name of the selected context.
fn context_name(args: &TemplateArgs, kubeconfig: &Kubeconfig) -> Option<String> {
    let given = args.kube_context.clone().filter(|name| !name.is_empty());
    given.or_else(|| kubeconfig.current_context.clone().filter(|name| !name.is_empty()))
}

/// Reads and merges the existing kubeconfig files. The first file wins.
fn read_files(args: &TemplateArgs, dir: &Path) -> anyhow::Result<Kubeconfig> {
    let mut paths = args.kubeconfig.clone();
    paths.retain(|path| !path.as_os_str().is_empty());
    if paths.is_empty() {
        paths.extend(std::env::home_dir().map(|home| home.join(".kube/config")));
    }
    let paths: Vec<PathBuf> = paths.iter().map(|path| dir.join(path)).collect();
    read_kubeconfig(paths.iter().filter(|path| path.exists()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::chart::template::parse;

    /// Returns a kubeconfig with a server and the fields of its user.
    fn kubeconfig(server: &str, user: &str) -> String {
        format!(
            "clusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        )
    }

    fn connection(text: &str) -> anyhow::Result<Config> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kc"), text).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let args = parse(&["c", "--kubeconfig=kc"]).unwrap();
        runtime.block_on(connection_config(&args, folder.path()))
    }

    #[test]
    fn the_context_names_the_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "a",
            "contexts: [{name: one, context: {cluster: c, namespace: first}}, {name: two, context: {cluster: c, namespace: second}}]",
        );
        write(
            "b",
            "current-context: two\ncontexts: [{name: two, context: {cluster: c, namespace: other}}, {name: bare, context: {cluster: c}}]",
        );
        write("broken", "current-context: [");
        for (line, want) in [
            ("--kubeconfig=nowhere", "default"),
            ("--kubeconfig=a", "default"),
            ("--kubeconfig=a:nowhere:b", "second"),
            ("--kubeconfig=b:a", "other"),
            ("--kubeconfig=b:broken", "default"),
            ("--kubeconfig=a:b --kube-context=one", "first"),
            ("--kubeconfig=b --kube-context=bare", "default"),
            ("--kubeconfig=b -n web", "web"),
            ("--kubeconfig=b --namespace=", "other"),
        ] {
            let args = parse(&["c"].into_iter().chain(line.split(' ')).collect::<Vec<_>>()).unwrap();
            assert_eq!(find_namespace(&args, folder.path()), want, "{line}");
        }
    }

    #[test]
    fn credentials_are_sent_over_https_only() {
        let user = "token: t, as: jane, as-groups: [g]";
        for (server, has_token) in [("https://a", true), ("http://a", false)] {
            let user = connection(&kubeconfig(server, user)).unwrap().auth_info;
            assert_eq!(user.token.is_some(), has_token, "{server}");
            assert_eq!(user.impersonate.as_deref(), Some("jane"));
            assert_eq!(user.impersonate_groups, Some(vec!["g".to_owned()]));
        }
    }

    #[test]
    fn errors_show_nothing_of_a_kubeconfig() {
        for user in ["token: [hidden]", "token: hidden, exec: hidden", "token: \"hidden"] {
            let error = format!("{:#}", connection(&kubeconfig("https://a", user)).unwrap_err());
            assert!(error.contains("kc") && !error.contains("hidden"), "{error}");
        }
    }
}
