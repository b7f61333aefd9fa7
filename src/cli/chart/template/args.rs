//! The arguments of `chartwright template`: those of `helm template` that have an effect on the output.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Arg, ArgAction, Args, ValueEnum, ValueHint};

use crate::cli::switch::{self, as_switch};
use chartwright_scaffold::fetch::http;
use helm_template::chart::options::ValueOptions;

const EXAMPLES: &str = "\
Examples:
  chartwright template my-release ./mychart -n web -f values.yaml --set replicas=2
  chartwright template my-release ./mychart -s templates/service.yaml --kube-version 1.30
  kubectl get configmap values -o jsonpath={.data.values} | chartwright template ./mychart -f -";

const USAGE: &str = "chartwright template [OPTIONS] [NAME] CHART";

/// Flags of `helm template` for installation, download and logging. They are accepted without a value or with one after `=`, and
/// have no effect.
const IGNORED_SWITCHES: [&str; 19] = [
    "atomic",
    "create-namespace",
    "dependency-update",
    "devel",
    "disable-openapi-validation",
    "force",
    "force-conflicts",
    "force-replace",
    "hide-notes",
    "insecure-skip-tls-verify",
    "pass-credentials",
    "plain-http",
    "render-subchart-notes",
    "replace",
    "rollback-on-failure",
    "server-side",
    "skip-crds",
    "wait",
    "wait-for-jobs",
];

/// Such flags that require a value.
const IGNORED_OPTIONS: [&str; 19] = [
    "burst-limit",
    "ca-file",
    "cert-file",
    "color",
    "colour",
    "content-cache",
    "description",
    "key-file",
    "keyring",
    "labels",
    "password",
    "post-renderer-args",
    "qps",
    "registry-config",
    "repository-cache",
    "repository-config",
    "timeout",
    "username",
    "version",
];

/// Render a chart's templates and print them, as `helm template` does
///
/// Takes the arguments of `helm template` and prints the same result. Without --dry-run=server the command does not contact a
/// cluster, and `lookup` finds nothing. Helm's flags for installation, download and logging are accepted and have no effect.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, override_usage = USAGE, args_override_self = true, args(ignored_args()), mut_args(|arg| as_switch(arg, go_bool)))]
pub struct TemplateArgs {
    /// Release name (optional), then the chart: a folder or a .tgz file, on disk or at a URL
    #[arg(value_name = "[NAME] CHART", required = true, value_hint = ValueHint::AnyPath)]
    pub words: Vec<String>,

    /// Values from a YAML file, a URL, or - for standard input. Repeatable, or separated by commas; later files win
    #[arg(short = 'f', long, value_name = "FILE", value_delimiter = ',', value_hint = ValueHint::FilePath)]
    pub values: Vec<String>,

    /// Set values: key1=val1,key2=val2. Repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Set values that stay strings. Repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub set_string: Vec<String>,

    /// Set values from files: key1=path1. Repeatable
    #[arg(long, value_name = "KEY=FILE")]
    pub set_file: Vec<String>,

    /// Set values from JSON: key='{"a": 1}', or a complete object. Repeatable
    #[arg(long, value_name = "KEY=JSON")]
    pub set_json: Vec<String>,

    /// Set one value literally: nothing after the first = is special. Repeatable
    #[arg(long, value_name = "KEY=TEXT")]
    pub set_literal: Vec<String>,

    /// Namespace of the release [default: that of the kubeconfig's context, else default]
    #[arg(short, long, env = "HELM_NAMESPACE", hide_env_values = true)]
    pub namespace: Option<String>,

    /// Print only the output of this template, a path or a pattern such as templates/*.yaml. Repeatable
    #[arg(short, long, value_name = "TEMPLATE")]
    pub show_only: Vec<String>,

    /// Also print the manifests of crds/
    #[arg(long)]
    pub include_crds: bool,

    /// Omit hooks
    #[arg(long)]
    pub no_hooks: bool,

    /// Omit test hooks
    #[arg(long)]
    pub skip_tests: bool,

    /// Set .Release.IsUpgrade instead of .Release.IsInstall
    #[arg(long)]
    pub is_upgrade: bool,

    /// Further Kubernetes API versions of .Capabilities. Repeatable, or separated by commas
    #[arg(short, long, value_name = "VERSION", value_delimiter = ',')]
    pub api_versions: Vec<String>,

    /// Kubernetes version of .Capabilities
    #[arg(long, value_name = "VERSION")]
    pub kube_version: Option<String>,

    /// Read capabilities and lookups from the cluster with `server` [default: client]
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRunMode>,

    /// Old name of --dry-run=server
    #[arg(long, hide = true)]
    pub validate: bool,

    /// With --dry-run=server: existing objects are no error
    #[arg(long)]
    pub take_ownership: bool,

    /// The kubeconfig to use [default: ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE", env = "KUBECONFIG", hide_env_values = true, value_delimiter = ':',
          value_hint = ValueHint::FilePath)]
    pub kubeconfig: Vec<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", env = "HELM_KUBECONTEXT", hide_env_values = true)]
    pub kube_context: Option<String>,

    /// No release name is given: the release is called release-name
    #[arg(short, long)]
    pub generate_name: bool,

    /// Template of the release name
    #[arg(long, value_name = "TEMPLATE")]
    pub name_template: Option<String>,

    /// Write the manifests to files below this folder
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub output_dir: Option<String>,

    /// With --output-dir: below a folder with the release name
    #[arg(long)]
    pub release_name: bool,

    /// Do not check the values against values.schema.json
    #[arg(long)]
    pub skip_schema_validation: bool,

    /// Let getHostByName use this machine's resolver
    #[arg(long)]
    pub enable_dns: bool,

    /// After an error, also print manifests that are not valid YAML
    #[arg(long, env = "HELM_DEBUG", hide_env_values = true)]
    pub debug: bool,
}

/// Values of `--dry-run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRunMode {
    #[value(alias = "true")]
    Client,
    Server,
}

impl TemplateArgs {
    /// True if the command contacts a cluster.
    pub fn needs_cluster(&self) -> bool {
        self.validate || self.dry_run == Some(DryRunMode::Server)
    }

    /// Returns the arguments that set values. Relative paths start from `base`.
    pub fn value_options(&self, base: &Path) -> ValueOptions {
        ValueOptions {
            files: without_empty(&self.values),
            set: self.set.clone(),
            set_string: self.set_string.clone(),
            set_file: self.set_file.clone(),
            set_json: self.set_json.clone(),
            set_literal: self.set_literal.clone(),
            base: base.to_path_buf(),
            fetch: Some(Arc::new(http::get)),
        }
    }
}

/// Returns the non-empty items: `-f ""` names no file.
pub fn without_empty(items: &[String]) -> Vec<String> {
    items.iter().filter(|item| !item.is_empty()).cloned().collect()
}

/// Returns the hidden arguments that have no effect.
fn ignored_args() -> impl Iterator<Item = Arg> {
    let switches = IGNORED_SWITCHES.map(|name| Arg::new(name).num_args(0..=1).require_equals(true));
    let options = IGNORED_OPTIONS.map(|name| match name {
        "labels" => Arg::new(name).short('l'),
        _ => Arg::new(name),
    });
    let ignored = switches.into_iter().chain(options);
    ignored.map(|arg| {
        let name = arg.get_id().clone();
        arg.long(name).hide(true).action(ArgAction::Set)
    })
}

/// Parses a boolean as Go's `strconv.ParseBool`. An empty environment variable counts as unset.
fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "" => Ok(false),
        text => switch::go_bool(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::chart::template::parse;

    fn read(line: &str) -> TemplateArgs {
        parse(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn all_forms_of_helms_flags_are_parsed() {
        let args = read("r -f a.yaml,b.yaml c -f=c -fd --values e -a v1,v2 -a=v3 --set a=1,b=2 --set c=3 -gs x");
        assert_eq!(args.words, ["r", "c"]);
        assert_eq!(args.values, ["a.yaml", "b.yaml", "c", "d", "e"]);
        assert_eq!(args.api_versions, ["v1", "v2", "v3"]);
        assert_eq!(args.set, ["a=1,b=2", "c=3"]);
        assert_eq!(args.show_only, ["x"]);
        assert!(args.generate_name);
        assert_eq!(read("-f - -- -c").words, ["-c"]);
        assert_eq!(read("c -n a --namespace=b").namespace.as_deref(), Some("b"));
    }

    #[test]
    fn switches_accept_a_value() {
        for (line, on) in [
            ("c --debug", true),
            ("c --debug=1", true),
            ("--debug c", true),
            ("c --debug=false", false),
            ("c", false),
            ("c --debug --debug=F", false),
        ] {
            assert_eq!(read(line).debug, on, "{line}");
        }
        for (line, dry_run) in [
            ("c --dry-run", DryRunMode::Client),
            ("c --dry-run=true", DryRunMode::Client),
            ("c --dry-run=server", DryRunMode::Server),
        ] {
            assert_eq!(read(line).dry_run, Some(dry_run), "{line}");
        }
        for line in [
            "c --debug=x",
            "c --dry-run=none",
            "c --nope",
            "c --set",
            "c --repo http://a",
            "--debug",
        ] {
            assert!(parse(&line.split(' ').collect::<Vec<_>>()).is_err(), "{line}");
        }
    }

    #[test]
    fn installation_flags_are_accepted() {
        let line = "c --wait --wait=legacy --atomic --timeout 5m -l a=b --version 1.0.0 --skip-crds=true --devel";
        assert_eq!(read(line).words, ["c"]);
    }
}
