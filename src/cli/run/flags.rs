//! The flags of `chartwright run`: those of helm-operator's `run`, with the same names, defaults and environment, and
//! a few of ours.

use std::collections::BTreeSet;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::memory;
use crate::cli::switch::{as_switch, go_bool};
use chartwright_operator::telemetry::logging::LogOptions;
use chartwright_operator::telemetry::server::{BindAddress, InvalidAddress};
use chartwright_watches::duration;
use chartwright_watches::names::{check_object_name, is_dns_label, is_label_value};

/// The operator's name unless it is given one.
const OPERATOR_NAME: &str = "chartwright";
const METRICS_ADDRESS: &str = ":8080";

const EXAMPLES: &str = "\
Examples:
  # Against the cluster of your kubeconfig, every namespace
  chartwright run --watches-file ./watches.yaml

  # As in a Deployment: two replicas, one of which works
  chartwright run --leader-elect --leader-election-id=memcached-operator

  # CRs of two namespaces only
  WATCH_NAMESPACE=team-a,team-b chartwright run";

/// Namespaces whose custom resources are watched; `None`: all, and cluster-scoped ones.
type Namespaces = Option<BTreeSet<String>>;
/// Bytes, if they were given; 0 is no limit.
type MemoryLimit = Option<u64>;

/// Run the operator
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, args_override_self = true, mut_args(|arg| as_switch(arg, go_bool)))]
pub struct RunArgs {
    /// The file that binds kinds to charts
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    pub watches_file: PathBuf,

    /// How often a release is looked at without a reason; 0 is never. Changes are seen at once, whatever this says
    #[arg(long, value_name = "DURATION", default_value = "10h", value_parser = duration::parse)]
    pub reconcile_period: Duration,

    /// Releases of one kind that are worked on at the same time; they mostly wait for the API server, and as many are
    /// rendered at a time as there are CPUs
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "32", value_parser = at_least_1)]
    pub max_concurrent_reconciles: usize,

    /// Memory that the process may take, such as 512Mi; 0 is no limit. Renders get a share of it each, and wait for it
    /// [default: the container's limit, else half of the machine's free memory up to 1Gi]
    #[arg(long, value_name = "BYTES", env = "MEMORY_LIMIT", hide_env_values = true, default_value = "",
          hide_default_value = true, value_parser = memory::parse)]
    pub memory_limit: MemoryLimit,

    /// Namespaces whose CRs are watched, separated by commas; none is all of them
    #[arg(long, value_name = "NAMESPACES", env = "WATCH_NAMESPACE", hide_env_values = true, default_value = "",
          hide_default_value = true, value_parser = namespaces)]
    pub watch_namespace: Namespaces,

    /// The kubeconfig to use [default: KUBECONFIG, else the cluster that the pod runs in, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of the operator itself [default: the one of the kubeconfig's context, or the pod's]
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", hide_env_values = true, value_parser = namespace)]
    pub namespace: Option<String>,

    /// Name of this operator, a label on every object: operators don't watch each other's
    #[arg(long, value_name = "NAME", env = "OPERATOR_NAME", hide_env_values = true, default_value = OPERATOR_NAME,
          value_parser = operator_name)]
    pub operator_name: String,

    /// How long running reconciles may take to end on SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::parse)]
    pub shutdown_timeout: Duration,

    /// How often to see what CPU, memory and storage releases request, for `chartwright usage`; 0 is never, and 1s the
    /// shortest [default: 0]
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true, value_parser = duration::parse)]
    pub meter_usage: Duration,

    /// Accepted for helm-operator's sake: there are no Events about overrideValues
    #[arg(long)]
    suppress_override_values: bool,

    /// Where /metrics is served; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", help_heading = "Servers", alias = "metrics-addr", default_value = METRICS_ADDRESS,
          value_parser = metrics_address)]
    pub metrics_bind_address: BindAddress,

    /// There is no HTTPS in this version: /metrics is plain HTTP on 127.0.0.1 only
    #[arg(long, help_heading = "Servers")]
    metrics_secure: bool,

    /// The API server is not asked in this version: /metrics is plain HTTP on 127.0.0.1 only
    #[arg(long, help_heading = "Servers")]
    metrics_require_rbac: bool,

    /// Accepted for helm-operator's sake: there is no HTTPS server that could speak it
    #[arg(long, hide = true)]
    enable_http2: bool,

    /// Where /healthz and /readyz are served; 0 is nowhere
    #[arg(long, value_name = "ADDRESS", help_heading = "Servers", default_value = ":8081")]
    pub health_probe_bind_address: BindAddress,

    /// Of several replicas one works, the others wait [default: false]
    #[arg(long, help_heading = "Leader election", alias = "enable-leader-election")]
    leader_elect: bool,

    /// Name of the Lease that the replicas share [default: the operator's name]
    #[arg(long, value_name = "NAME", help_heading = "Leader election")]
    leader_election_id: Option<String>,

    /// Namespace of the Lease [default: the operator's namespace]
    #[arg(long, value_name = "NAMESPACE", help_heading = "Leader election", value_parser = namespace)]
    leader_election_namespace: Option<String>,

    /// Accepted for helm-operator's sake: errors bring their causes, not stack traces
    #[arg(long, value_name = "LEVEL", hide = true, value_parser = ["info", "error", "panic"], ignore_case = true)]
    zap_stacktrace_level: Option<String>,

    #[command(flatten)]
    pub log: LogOptions,
}

// === impl RunArgs ===

impl RunArgs {
    /// Checks what takes more than one flag to judge.
    ///
    /// # Errors
    /// A flag that can't be used as a name.
    pub fn check(&self) -> Result<(), String> {
        match self.lease() {
            Some((id, _)) if check_object_name("coordination.k8s.io", id).is_err() => Err(format!(
                "--leader-election-id {id:?} (by default the operator's name) can't be a Lease's name: use lower-case \
                 letters, digits, dashes and dots, beginning and ending with a letter or digit"
            )),
            _ => Ok(()),
        }
    }

    /// Where /metrics is served, and a warning if that is not where the flags say.
    ///
    /// operator-sdk's scaffolds have the flags for HTTPS with authorization. An operator that does not start for them helps
    /// no one, and one that serves the same without protection would open what was closed.
    pub fn metrics_server(&self) -> (BindAddress, Option<String>) {
        let wanted = &self.metrics_bind_address;
        let BindAddress::At { port, .. } = *wanted else {
            return (wanted.clone(), None);
        };
        if !self.metrics_secure && !self.metrics_require_rbac {
            return (wanted.clone(), None);
        }
        let served = match wanted.is_loopback() {
            true => wanted.clone(),
            false => BindAddress::At {
                host: "127.0.0.1".to_owned(),
                port,
            },
        };
        let warning = format!(
            "this version has no HTTPS for --metrics-secure and --metrics-require-rbac: /metrics is plain HTTP on {served}, \
             which only the containers of this pod reach; to scrape it from elsewhere, leave the two flags out and guard the \
             port with a NetworkPolicy"
        );
        (served, Some(warning))
    }

    /// Name and namespace of the Lease to hold while working: the operator's namespace, where it is `None`. `None`: this
    /// process works without asking anybody.
    pub fn lease(&self) -> Option<(&str, Option<&str>)> {
        let is_given = |text: &&str| !text.is_empty();
        let id = self.leader_election_id.as_deref().filter(is_given);
        let namespace = self.leader_election_namespace.as_deref().filter(is_given);
        self.leader_elect
            .then(|| (id.unwrap_or(&self.operator_name), namespace))
    }
}

// What clap reads flags with. An empty variable in a Deployment means that it isn't set.

/// As with controller-runtime, less than one is one.
fn at_least_1(text: &str) -> Result<usize, ParseIntError> {
    let number: i64 = text.parse()?;
    Ok(usize::try_from(number).unwrap_or(1).max(1))
}

fn namespace(text: &str) -> Result<String, String> {
    match text.trim() {
        name if name.is_empty() || is_dns_label(name) => Ok(name.to_owned()),
        name => Err(format!(
            "{name:?} can't be a namespace: use lower-case letters, digits and dashes"
        )),
    }
}

/// Nothing, or blanks, is all namespaces, as with helm-operator. Commas around nothing are a mistake that must not widen
/// the scope to everything.
fn namespaces(text: &str) -> Result<Namespaces, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let names = text.split(',').filter(|name| !name.trim().is_empty());
    let names: BTreeSet<String> = names.map(namespace).collect::<Result<_, _>>()?;
    match names.is_empty() {
        true => Err("it names no namespace: empty it for all".to_owned()),
        false => Ok(Some(names)),
    }
}

fn operator_name(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Ok(OPERATOR_NAME.to_owned()),
        name if is_label_value(name) => Ok(name.to_owned()),
        _ => Err(
            "it can't be a label's value: use up to 63 letters, digits, dashes, dots and underscores, beginning and ending \
             with a letter or digit",
        ),
    }
}

/// An address where nothing is the default: controller-runtime treats the metrics address so, the one of probes not.
fn metrics_address(text: &str) -> Result<BindAddress, InvalidAddress> {
    match text {
        "" => METRICS_ADDRESS.parse(),
        text => text.parse(),
    }
}

#[cfg(test)]
mod tests;
