//! The release's namespace, as client-go finds it: the flag, the environment, the kubeconfig's context, the pod's.

use std::path::{Path, PathBuf};

use super::{Process, kubeconfig};
use crate::cli::pflag::Parsed;

const DEFAULT: &str = "default";
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The namespace for a command line. A kubeconfig that can't be used says nothing, as with Helm.
pub fn find(flags: &Parsed, process: &Process<'_>) -> String {
    let env = |name: &str| (process.env)(name).filter(|text| !text.is_empty());
    let given = match flags.text("namespace") {
        Some(text) => Some(text.to_owned()).filter(|text| !text.is_empty()),
        None => env("HELM_NAMESPACE"),
    };
    if let Some(given) = given {
        return given;
    }
    let of_pod = || {
        env("KUBERNETES_SERVICE_HOST").and(env("KUBERNETES_SERVICE_PORT"))?;
        // `inClusterClientConfig.Possible`.
        let token = Path::new(SERVICE_ACCOUNT).join("token");
        std::fs::metadata(token).ok().filter(|token| !token.is_dir())?;
        env("POD_NAMESPACE").or_else(|| {
            let text = std::fs::read_to_string(Path::new(SERVICE_ACCOUNT).join("namespace")).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        })
    };
    let found = match kubeconfig::namespace(flags, process) {
        Ok(found) => found.or_else(of_pod),
        Err(_) => None,
    };
    found.unwrap_or_else(|| DEFAULT.to_owned())
}

/// The context that the command line or the environment names.
pub fn context(flags: &Parsed, process: &Process<'_>) -> Option<String> {
    let given = flags.text("kube-context").map(str::to_owned);
    given
        .or_else(|| (process.env)("HELM_KUBECONTEXT"))
        .filter(|name| !name.is_empty())
}

/// The kubeconfig files, of which the first that says something counts.
pub fn kubeconfigs(flags: &Parsed, process: &Process<'_>) -> Vec<PathBuf> {
    if let Some(path) = flags.text("kubeconfig").filter(|path| !path.is_empty()) {
        return vec![process.dir.join(path)];
    }
    if let Some(paths) = (process.env)("KUBECONFIG").filter(|paths| !paths.is_empty()) {
        return paths
            .split(':')
            .filter(|path| !path.is_empty())
            .map(|path| process.dir.join(path))
            .collect();
    }
    (process.env)("HOME")
        .map(|home| Path::new(&home).join(".kube/config"))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::template::flags;

    #[test]
    fn the_context_names_the_namespace() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write(
            "a",
            "contexts: [{name: one, context: {namespace: first}}, {name: two, context: {namespace: second}}]",
        );
        write(
            "b",
            "current-context: two\ncontexts: [{name: two, context: {namespace: other}}, {name: bare, context: {}}]",
        );
        write("broken", "current-context: [");
        type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        let table: [Row<'_>; 12] = [
            ("", &[], "default"),
            ("", &[("KUBECONFIG", "a")], "default"),
            (
                "",
                &[("KUBERNETES_SERVICE_HOST", "h"), ("POD_NAMESPACE", "pod")],
                "default",
            ),
            ("", &[("KUBECONFIG", "a:nowhere:b")], "second"),
            ("", &[("KUBECONFIG", "b:a")], "other"),
            ("", &[("KUBECONFIG", "b:broken")], "default"),
            ("--kube-context=one", &[("KUBECONFIG", "a:b")], "first"),
            ("", &[("KUBECONFIG", "a"), ("HELM_KUBECONTEXT", "one")], "first"),
            ("--kubeconfig=b", &[("KUBECONFIG", "a")], "other"),
            ("--kubeconfig=b --kube-context=bare", &[], "default"),
            ("-n web --kubeconfig=b", &[("HELM_NAMESPACE", "env")], "web"),
            ("--kubeconfig=b", &[("HELM_NAMESPACE", "env")], "env"),
        ];
        for (line, env, want) in table {
            let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            let flags = flags::parse(&args).1.unwrap();
            let env = |name: &str| {
                env.iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| (*value).to_owned())
            };
            let process = Process {
                stdin: &mut std::io::empty(),
                dir: folder.path(),
                env: &env,
            };
            assert_eq!(find(&flags, &process), want, "{line} {want}");
        }
    }
}
