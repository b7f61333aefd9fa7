//! The flags of `helm template` 4.3.1 (`pkg/cmd/{flags,install,template}.go`, `pkg/cli/environment.go`).

use super::klog;
use crate::cli::pflag::{self, Flag, Kind, Parsed};

/// Pairs of flags that exclude each other, in the order in which cobra checks them.
const EXCLUSIVE: [(&str, &str); 3] = [
    ("force", "force-conflicts"),
    ("force-replace", "force-conflicts"),
    ("validate", "dry-run"),
];

const fn flag(name: &'static str, kind: Kind, value: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        short: None,
        kind,
        value,
        help,
        deprecated: None,
        hidden: false,
        global: false,
    }
}

const fn short(short: char, flag: Flag) -> Flag {
    Flag {
        short: Some(short),
        ..flag
    }
}

const fn on(name: &'static str, help: &'static str) -> Flag {
    flag(name, Kind::Bool, "", help)
}

/// What concerns an installation, a download or the log, and has no meaning here: accepted and left out of the help.
const fn ignored(name: &'static str, kind: Kind) -> Flag {
    Flag {
        hidden: true,
        ..flag(name, kind, "VALUE", "Accepted for Helm's sake; has no effect")
    }
}

const fn deprecated(flag: Flag, advice: &'static str) -> Flag {
    Flag {
        deprecated: Some(advice),
        hidden: true,
        ..flag
    }
}

/// A flag of all commands (`EnvSettings.AddFlags`), or of klog.
const fn global(flag: Flag) -> Flag {
    Flag { global: true, ..flag }
}

fn no_plugin(name: &str) -> Result<(), String> {
    match name.is_empty() {
        true => Ok(()),
        false => Err(format!("plugin: {{Name:{name} Type:postrenderer/v1}} not found")),
    }
}

const NO_EFFECT: &str = "this flag has no effect for 'helm template' and will be removed in Helm 5";

/// Every flag.
#[rustfmt::skip]
pub const FLAGS: &[Flag] = &[
    short('f', flag("values", Kind::Csv, "FILE", "Values from a YAML file, or from standard input with \"-\" (repeatable; later files win)")),
    flag("set", Kind::List, "KEY=VALUE", "Set values: key1=val1,key2=val2 (repeatable)"),
    flag("set-string", Kind::List, "KEY=VALUE", "Set values that stay strings (repeatable)"),
    flag("set-file", Kind::List, "KEY=FILE", "Set values from files: key1=path1 (repeatable)"),
    flag("set-json", Kind::List, "KEY=JSON", "Set values from JSON: key='{\"a\": 1}', or a whole object (repeatable)"),
    flag("set-literal", Kind::List, "KEY=TEXT", "Set one value literally: nothing after the first \"=\" is special (repeatable)"),
    global(short('n', flag("namespace", Kind::Text, "NAMESPACE", "Namespace of the release [default: HELM_NAMESPACE, the kubeconfig's, or default]"))),
    short('s', flag("show-only", Kind::List, "TEMPLATE", "Print only what comes from this template, a path or pattern such as templates/*.yaml (repeatable)")),
    on("include-crds", "Print the manifests of crds/ too"),
    on("no-hooks", "Leave hooks out"),
    on("skip-tests", "Leave test hooks out"),
    on("is-upgrade", "Set .Release.IsUpgrade instead of .Release.IsInstall"),
    short('a', flag("api-versions", Kind::Csv, "VERSION", "Kubernetes API versions that .Capabilities has besides the usual ones (repeatable, or separated by commas)")),
    flag("kube-version", Kind::Text, "VERSION", "Kubernetes version that .Capabilities has"),
    flag("dry-run", Kind::Optional("unset"), "client|server", "server: take capabilities and lookups from the cluster [default: client]"),
    short('g', on("generate-name", "No name is given (the release is called release-name)")),
    flag("name-template", Kind::Text, "TEMPLATE", "Template for the release's name"),
    flag("output-dir", Kind::Text, "FOLDER", "Write the manifests to files below this folder"),
    on("release-name", "With --output-dir: below a folder with the release's name"),
    on("skip-schema-validation", "Don't check the values against values.schema.json"),
    short('l', flag("labels", Kind::Pairs, "KEY=VALUE", "Labels of the release, for templates nothing")),
    global(on("debug", "Print more; with an error also the manifests that aren't valid YAML [env: HELM_DEBUG]")),
    short('h', on("help", "Print help")),
    // The cluster of --dry-run=server.
    global(flag("kubeconfig", Kind::Text, "FILE", "The kubeconfig [env: KUBECONFIG]")),
    global(flag("kube-context", Kind::Text, "NAME", "The context in the kubeconfig [env: HELM_KUBECONTEXT]")),
    global(flag("kube-apiserver", Kind::Text, "URL", "The API server [env: HELM_KUBEAPISERVER]")),
    global(flag("kube-as-user", Kind::Text, "NAME", "The user to impersonate [env: HELM_KUBEASUSER]")),
    global(flag("kube-as-group", Kind::List, "NAME", "A group to impersonate (repeatable) [env: HELM_KUBEASGROUPS]")),
    global(flag("kube-ca-file", Kind::Text, "FILE", "The API server's certificate authority [env: HELM_KUBECAFILE]")),
    global(flag("kube-tls-server-name", Kind::Text, "NAME", "The name in the API server's certificate [env: HELM_KUBETLS_SERVER_NAME]")),
    global(on("kube-insecure-skip-tls-verify", "Don't check the API server's certificate [env: HELM_KUBEINSECURE_SKIP_TLS_VERIFY]")),
    global(flag("kube-token", Kind::Text, "TOKEN", "The bearer token [env: HELM_KUBETOKEN]")),
    on("enable-dns", "Let getHostByName ask this machine's resolver"),
    // What is accepted where it changes nothing, and an error where it would: charts are never downloaded.
    ignored("repo", Kind::Text),
    ignored("version", Kind::Text),
    ignored("devel", Kind::Bool),
    ignored("verify", Kind::Bool),
    ignored("keyring", Kind::Text),
    ignored("username", Kind::Text),
    ignored("password", Kind::Text),
    ignored("cert-file", Kind::Text),
    ignored("key-file", Kind::Text),
    ignored("ca-file", Kind::Text),
    ignored("insecure-skip-tls-verify", Kind::Bool),
    ignored("plain-http", Kind::Bool),
    ignored("pass-credentials", Kind::Bool),
    ignored("dependency-update", Kind::Bool),
    ignored("post-renderer", Kind::Checked(no_plugin)),
    ignored("post-renderer-args", Kind::List),
    global(ignored("registry-config", Kind::Text)),
    global(ignored("repository-config", Kind::Text)),
    global(ignored("repository-cache", Kind::Text)),
    global(ignored("content-cache", Kind::Text)),
    // Installing.
    ignored("create-namespace", Kind::Bool),
    ignored("description", Kind::Text),
    on("disable-openapi-validation", "With --dry-run=server: don't say first of an object that it lacks a kind or an apiVersion"),
    ignored("force-conflicts", Kind::Bool),
    ignored("force-replace", Kind::Bool),
    ignored("replace", Kind::Bool),
    ignored("rollback-on-failure", Kind::Bool),
    ignored("server-side", Kind::Bool),
    ignored("skip-crds", Kind::Bool),
    on("take-ownership", "With --dry-run=server: objects that exist already are no error"),
    ignored("timeout", Kind::Duration),
    ignored("wait", Kind::Wait),
    ignored("wait-for-jobs", Kind::Bool),
    global(ignored("burst-limit", Kind::Int)),
    global(ignored("qps", Kind::Float)),
    global(ignored("color", Kind::Text)),
    global(ignored("colour", Kind::Text)),
    deprecated(ignored("force", Kind::Bool), "use --force-replace instead"),
    deprecated(ignored("atomic", Kind::Bool), "use --rollback-on-failure instead"),
    deprecated(ignored("validate", Kind::Bool), "use '--dry-run=server' instead"),
    deprecated(ignored("hide-notes", Kind::Bool), NO_EFFECT),
    deprecated(ignored("render-subchart-notes", Kind::Bool), NO_EFFECT),
    // klog's.
    global(short('v', ignored("v", Kind::Checked(klog::level)))),
    global(ignored("add-dir-header", Kind::CheckedBool(klog::boolean))),
    global(ignored("alsologtostderr", Kind::CheckedBool(klog::boolean))),
    global(ignored("alsologtostderrthreshold", Kind::Checked(klog::severity))),
    global(ignored("legacy-stderr-threshold-behavior", Kind::CheckedBool(klog::boolean))),
    global(ignored("log-backtrace-at", Kind::Checked(klog::place))),
    global(ignored("log-dir", Kind::Text)),
    global(ignored("log-file", Kind::Text)),
    global(ignored("log-file-max-size", Kind::Checked(klog::size))),
    global(ignored("logtostderr", Kind::CheckedBool(klog::boolean))),
    global(ignored("one-output", Kind::CheckedBool(klog::boolean))),
    global(ignored("skip-headers", Kind::CheckedBool(klog::boolean))),
    global(ignored("skip-log-headers", Kind::CheckedBool(klog::boolean))),
    global(ignored("stderrthreshold", Kind::Checked(klog::severity))),
    global(ignored("vmodule", Kind::Checked(klog::modules))),
];

/// Reads the arguments as Helm does, twice into the same settings: `newRootCmdWithConfig` reads the flags of all commands
/// first, while it knows no others, and then the command reads all. Gives what the first reading made of the flags of all
/// commands, and all.
pub fn parse(args: &[String]) -> (Parsed, Result<Parsed, (String, Vec<String>)>) {
    let global: Vec<Flag> = FLAGS.iter().filter(|flag| flag.global).copied().collect();
    let first = pflag::parse_some(&global, args);
    let all = pflag::parse(first.clone(), FLAGS, args);
    (first, all)
}

/// Whether flags are given that exclude each other.
///
/// # Errors
/// cobra's text.
pub fn check_groups(parsed: &Parsed) -> Result<(), String> {
    for (one, other) in EXCLUSIVE {
        if parsed.is_set(one) && parsed.is_set(other) {
            let mut set = [one, other];
            set.sort_unstable();
            return Err(format!(
                "if any flags in the group [{one} {other}] are set none of the others can be; [{}] were all set",
                set.join(" ")
            ));
        }
    }
    Ok(())
}

/// The flags as arguments of clap, for the help and for shell completion.
pub fn describe(command: clap::Command) -> clap::Command {
    let args = FLAGS.iter().filter(|flag| flag.name != "help").map(|flag| {
        let mut arg = clap::Arg::new(flag.name)
            .long(flag.name)
            .help(flag.help)
            .hide(flag.hidden);
        if let Some(short) = flag.short {
            arg = arg.short(short);
        }
        match flag.kind {
            Kind::Bool | Kind::CheckedBool(_) => arg.action(clap::ArgAction::SetTrue),
            kind => {
                let arg = arg.value_name(flag.value).action(clap::ArgAction::Append);
                if kind.is_optional() {
                    arg.num_args(0..=1).require_equals(true)
                } else {
                    arg
                }
            }
        }
    });
    let command = command.args(args);
    command.mut_args(|arg| match arg.get_id().as_str() {
        "values" | "set-file" | "kubeconfig" | "kube-ca-file" => arg.value_hint(clap::ValueHint::FilePath),
        "output-dir" => arg.value_hint(clap::ValueHint::DirPath),
        "dry-run" => arg.value_parser(["client", "server"]),
        _ => arg,
    })
}
