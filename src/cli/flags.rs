//! The flags of `chartwright run`: those of helm-operator's `run`, with the same names, defaults and environment, and
//! a few of ours.
//!
//! [`RunArgs`] is what clap reads; [`RunArgs::settle`] makes [`RunOptions`] of it: deprecated names resolved, values
//! that clap can't judge judged, all mistakes in one answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::ValueParser;
use clap::{Arg, ArgAction, Args};

use super::memory;
use crate::telemetry::logging::{Encoder, Level, LogOptions, TimeEncoding};
use crate::telemetry::server::BindAddress;
use crate::watches::duration;
use crate::watches::names::{is_dns_label, is_label_value, object_name};

/// Where Kubernetes mounts the namespace of a pod's service account.
const IN_CLUSTER_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// The operator's name unless it is given one.
const OPERATOR_NAME: &str = "chartwright";

const EXAMPLES: &str = "\
Examples:
  # Against the cluster of your kubeconfig, every namespace
  chartwright run --watches-file ./watches.yaml

  # As in a Deployment: two replicas, one of which works
  chartwright run --leader-elect --leader-election-id=memcached-operator

  # CRs of two namespaces only
  WATCH_NAMESPACE=team-a,team-b chartwright run";

/// Run the operator
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, args_override_self = true, mut_args(|arg| as_switch(arg, go_bool)))]
pub struct RunArgs {
    /// The file that binds kinds to charts
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,

    /// How often a release is looked at without a reason; 0 is never. Changes are seen at once, whatever this says
    #[arg(long, value_name = "DURATION", default_value = "10h", value_parser = duration::parse)]
    reconcile_period: Duration,

    /// Releases of one kind that are worked on at the same time; they mostly wait for the API server, and as many are
    /// rendered at a time as there are CPUs
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value_t = 32)]
    max_concurrent_reconciles: i64,

    /// Memory that the process may take, such as 512Mi; 0 is no limit. Renders get a share of it each, and wait for it
    /// [default: the container's limit]
    #[arg(long, value_name = "BYTES", env = "MEMORY_LIMIT", hide_env_values = true)]
    memory_limit: Option<String>,

    /// Namespaces whose CRs are watched, separated by commas; none is all of them
    #[arg(long, value_name = "NAMESPACES", env = "WATCH_NAMESPACE", hide_env_values = true)]
    watch_namespace: Option<String>,

    /// The kubeconfig to use [default: KUBECONFIG, else the cluster that the pod runs in, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Namespace of the operator itself [default: the pod's, else the one of the kubeconfig's context]
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", hide_env_values = true)]
    namespace: Option<String>,

    /// Name of this operator, a label on every object: operators don't watch each other's [default: chartwright]
    #[arg(long, value_name = "NAME", env = "OPERATOR_NAME", hide_env_values = true)]
    operator_name: Option<String>,

    /// How long running reconciles may take to end on SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::parse)]
    shutdown_timeout: Duration,

    /// Accepted for helm-operator's sake: there are no Events about overrideValues
    #[arg(long)]
    suppress_override_values: bool,

    /// Where /metrics is served; 0 is nowhere [default: :8080]
    #[arg(long, value_name = "ADDRESS", help_heading = "Servers", value_parser = metrics_address)]
    metrics_bind_address: Option<BindAddress>,

    /// The old name of --metrics-bind-address
    #[arg(long, value_name = "ADDRESS", hide = true, conflicts_with = "metrics_bind_address",
          value_parser = metrics_address)]
    metrics_addr: Option<BindAddress>,

    /// Metrics over HTTPS: not supported yet
    #[arg(long, help_heading = "Servers")]
    metrics_secure: bool,

    /// Metrics for those only whom the API server lets: not supported yet
    #[arg(long, help_heading = "Servers")]
    metrics_require_rbac: bool,

    /// Accepted for helm-operator's sake: there is no HTTPS server that could speak it
    #[arg(long, hide = true)]
    enable_http2: bool,

    /// Where /healthz and /readyz are served; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", help_heading = "Servers", default_value = ":8081")]
    health_probe_bind_address: BindAddress,

    /// Of several replicas one works, the others wait [default: false]
    #[arg(long, help_heading = "Leader election")]
    leader_elect: bool,

    /// The old name of --leader-elect
    #[arg(long, hide = true, conflicts_with = "leader_elect")]
    enable_leader_election: bool,

    /// Name of the Lease that the replicas share [default: the operator's name]
    #[arg(long, value_name = "NAME", help_heading = "Leader election")]
    leader_election_id: Option<String>,

    /// Namespace of the Lease [default: the operator's namespace]
    #[arg(long, value_name = "NAMESPACE", help_heading = "Leader election")]
    leader_election_namespace: Option<String>,

    #[command(flatten)]
    zap: ZapArgs,
}

/// The flags of controller-runtime's zap logger.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Logging (RUST_LOG decides what is logged, if it is set)")]
struct ZapArgs {
    /// Development defaults: readable lines, level debug
    #[arg(long)]
    zap_devel: bool,

    /// How lines look [default: console on a terminal, else json]
    #[arg(long, value_name = "ENCODER", ignore_case = true)]
    zap_encoder: Option<Encoder>,

    /// debug, info, warn, error, or a number from 1 (debug) up [default: info]
    #[arg(long, value_name = "LEVEL")]
    zap_log_level: Option<Level>,

    /// Accepted for helm-operator's sake: errors bring their causes, not stack traces
    #[arg(long, value_name = "LEVEL", hide = true, value_parser = ["info", "error", "panic"], ignore_case = true)]
    zap_stacktrace_level: Option<String>,

    /// How time stamps look [default: rfc3339]
    #[arg(long, value_name = "ENCODING", ignore_case = true)]
    zap_time_encoding: Option<TimeEncoding>,
}

/// What `chartwright run` was asked to do.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOptions {
    /// `watches.yaml`, as given: relative to the working directory.
    pub watches_file: PathBuf,
    /// The period of watches that don't say their own; zero is never.
    pub reconcile_period: Duration,
    /// The limit of watches that don't say their own; at least 1.
    pub max_concurrent_reconciles: usize,
    /// Bytes that the process may take, if that was given; 0 is no limit.
    pub memory_limit: Option<u64>,
    /// Whose CRs are watched: those of these namespaces, or (`None`) of all, and cluster-scoped ones.
    pub watch_namespaces: Option<BTreeSet<String>>,
    /// A kubeconfig other than the one that the environment leads to.
    pub kubeconfig: Option<PathBuf>,
    /// The operator's namespace if it was given; [`operator_namespace`] knows what else it can be.
    pub namespace: Option<String>,
    /// Value of the label `chartwright.dev/operator`; valid as one.
    pub operator_name: String,
    /// The bound on the end of running work after SIGTERM.
    pub shutdown_timeout: Duration,
    /// Where metrics are served.
    pub metrics_address: BindAddress,
    /// Where probes are served.
    pub probe_address: BindAddress,
    /// `None`: this process works without asking anybody.
    pub leader_election: Option<LeaderElectionOptions>,
    /// How to log.
    pub log: LogOptions,
    /// What to warn of once logging runs.
    pub warnings: Vec<String>,
}

/// Which Lease to hold while working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElectionOptions {
    /// The Lease's name; valid as one.
    pub id: String,
    /// Its namespace; `None` is the operator's.
    pub namespace: Option<String>,
}

/// Flags that can't be obeyed, all of them. Wrong use: exit code 2.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct UsageError(Vec<String>);

/// The namespace that the operator lives in: where its Lease and its own Secrets are. `explicit` (flag or
/// POD_NAMESPACE) wins; then comes the one of the pod's service account, then the one of the kubeconfig's context, then
/// `default`.
pub fn operator_namespace(explicit: Option<&str>, of_context: &str) -> String {
    resolve_namespace(explicit, Path::new(IN_CLUSTER_NAMESPACE), of_context)
}

fn resolve_namespace(explicit: Option<&str>, in_cluster: &Path, of_context: &str) -> String {
    let mounted = std::fs::read_to_string(in_cluster).unwrap_or_default();
    [explicit.unwrap_or_default(), mounted.trim(), of_context, "default"]
        .into_iter()
        .find(|namespace| !namespace.is_empty())
        .unwrap_or_default()
        .to_owned()
}

// === impl RunArgs ===

impl RunArgs {
    /// Resolves deprecated names and defaults, and checks what is more than syntax. Reads nothing from outside.
    ///
    /// # Errors
    /// Every flag that is unsupported, contradicts another or couldn't be used as a name, in one error.
    pub fn settle(self) -> Result<RunOptions, UsageError> {
        let mut errors = self.unsupported();
        let old_names = [
            ("metrics-addr", "metrics-bind-address", self.metrics_addr.is_some()),
            ("enable-leader-election", "leader-elect", self.enable_leader_election),
        ];
        let old_names = old_names.into_iter().filter(|(.., is_set)| *is_set);
        let warnings = old_names.map(|(old, new, _)| format!("--{old} is deprecated: use --{new}"));

        let operator_name = non_empty(self.operator_name).unwrap_or_else(|| OPERATOR_NAME.to_owned());
        if operator_name.is_empty() || !is_label_value(&operator_name) {
            errors.push(format!(
                "--operator-name (or OPERATOR_NAME) {operator_name:?} can't be a label's value: use up to 63 letters, \
                 digits, dashes, dots and underscores, beginning and ending with a letter or digit"
            ));
        }
        let mut namespace = |flag: &str, value: Option<String>| {
            let value = non_empty(value)?;
            check_namespace(flag, &value, &mut errors);
            Some(value)
        };
        let own_namespace = namespace("--namespace (or POD_NAMESPACE)", self.namespace);
        let lease_namespace = namespace("--leader-election-namespace", self.leader_election_namespace);
        let memory_limit = non_empty(self.memory_limit).and_then(|text| {
            let parsed = memory::parse(&text);
            parsed
                .map_err(|error| errors.push(format!("--memory-limit (or MEMORY_LIMIT) {text:?}: {error}")))
                .ok()
        });
        let watch_namespaces = watched_namespaces(self.watch_namespace.as_deref(), &mut errors);

        let leads_alone = self.leader_elect || self.enable_leader_election;
        let leader_election = leads_alone.then(|| {
            let id = non_empty(self.leader_election_id).unwrap_or_else(|| operator_name.clone());
            if object_name("coordination.k8s.io", &id).is_err() {
                errors.push(format!(
                    "--leader-election-id {id:?} (by default the operator's name) can't be a Lease's name: use \
                     lower-case letters, digits, dashes and dots, beginning and ending with a letter or digit"
                ));
            }
            LeaderElectionOptions {
                id,
                namespace: lease_namespace,
            }
        });
        if !errors.is_empty() {
            return Err(UsageError(errors));
        }

        let concurrency = usize::try_from(self.max_concurrent_reconciles).unwrap_or(1);
        Ok(RunOptions {
            watches_file: self.watches_file,
            reconcile_period: self.reconcile_period,
            max_concurrent_reconciles: concurrency.max(1),
            memory_limit,
            watch_namespaces,
            kubeconfig: self.kubeconfig.filter(|path| !path.as_os_str().is_empty()),
            namespace: own_namespace,
            operator_name,
            shutdown_timeout: self.shutdown_timeout,
            metrics_address: self
                .metrics_bind_address
                .or(self.metrics_addr)
                .unwrap_or_else(default_metrics_address),
            probe_address: self.health_probe_bind_address,
            leader_election,
            log: self.zap.options(),
            warnings: warnings.collect(),
        })
    }

    /// Flags that would promise what isn't there.
    fn unsupported(&self) -> Vec<String> {
        [
            ("metrics-secure", self.metrics_secure),
            ("metrics-require-rbac", self.metrics_require_rbac),
        ]
        .into_iter()
        .filter(|(_, set)| *set)
        .map(|(flag, _)| {
            format!(
                "--{flag} is not supported yet: metrics are plain HTTP; leave the flag out, and guard the port with \
                     a NetworkPolicy, or switch it off with --metrics-bind-address=0"
            )
        })
        .collect()
    }
}

/// An empty variable in a Deployment means that it isn't set.
fn non_empty(value: Option<String>) -> Option<String> {
    value
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
}

// === impl ZapArgs ===

impl ZapArgs {
    fn options(&self) -> LogOptions {
        LogOptions {
            devel: self.zap_devel,
            encoder: self.zap_encoder,
            level: self.zap_log_level,
            time: self.zap_time_encoding,
        }
    }
}

/// Nothing, or blanks, is all namespaces, as with helm-operator. Commas around nothing are a mistake that must not widen
/// the scope to everything.
fn watched_namespaces(text: Option<&str>, errors: &mut Vec<String>) -> Option<BTreeSet<String>> {
    let text = text.map(str::trim).filter(|text| !text.is_empty())?;
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let namespaces: BTreeSet<String> = names.map(str::to_owned).collect();
    for name in &namespaces {
        check_namespace("--watch-namespace (or WATCH_NAMESPACE)", name, errors);
    }
    if namespaces.is_empty() {
        errors.push(format!(
            "--watch-namespace (or WATCH_NAMESPACE) {text:?} names no namespace: empty it for all"
        ));
    }
    Some(namespaces)
}

/// As in Go, a boolean flag may have a value after `=`.
pub(super) fn as_switch(arg: Arg, read: fn(&str) -> Result<bool, String>) -> Arg {
    match arg.get_action() {
        ArgAction::SetTrue => arg
            .action(ArgAction::Set)
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_value("false")
            .default_missing_value("true")
            .hide_default_value(true)
            .value_parser(ValueParser::from(read)),
        _ => arg,
    }
}

/// Go's `strconv.ParseBool`, which reads the flags of Go programs.
pub(super) fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("use true or false".to_owned()),
    }
}

/// An address where nothing is the default: controller-runtime treats the metrics address so, the one of probes not.
fn metrics_address(text: &str) -> Result<BindAddress, <BindAddress as std::str::FromStr>::Err> {
    if text.is_empty() {
        Ok(default_metrics_address())
    } else {
        text.parse()
    }
}

fn default_metrics_address() -> BindAddress {
    BindAddress::At {
        host: String::new(),
        port: 8080,
    }
}

fn check_namespace(flag: &str, name: &str, errors: &mut Vec<String>) {
    if !is_dns_label(name) {
        errors.push(format!(
            "{flag} {name:?} can't be a namespace: use lower-case letters, digits and dashes"
        ));
    }
}

#[cfg(test)]
mod tests;
