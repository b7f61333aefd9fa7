//! The flags of `chartwright run`: those of helm-operator's `run` with the same names and environment, and a few more.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::num::ParseIntError;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::admission::AdmissionArgs;
use super::memory;
use crate::cli::switch::{as_switch, go_bool};
use chartwright_operator::telemetry::logging::LogOptions;
use chartwright_operator::telemetry::server::{BindAddress, CertificateSource, InvalidAddress};
use chartwright_operator::telemetry::traces::TraceOptions;
use chartwright_watches::duration;
use chartwright_watches::names::{check_object_name, is_dns_label, is_label_value};

/// Default of `--operator-name`.
const OPERATOR_NAME: &str = "chartwright";
const METRICS_ADDRESS: &str = ":8080";

const EXAMPLES: &str = "\
Examples:
  # Against the cluster of your kubeconfig, all namespaces
  chartwright run --watches-file ./watches.yaml

  # In a Deployment of two replicas: only the leader works
  chartwright run --leader-elect --leader-election-id=memcached-operator

  # Refuse custom resources that their chart refuses, for an operator outside of the cluster
  chartwright run --admission --admission-url=https://192.0.2.1:9443

  # Only CRs in two namespaces
  WATCH_NAMESPACE=team-a,team-b chartwright run";

/// Namespaces whose custom resources are watched. `None`: all namespaces and cluster-scoped resources.
type Namespaces = Option<BTreeSet<String>>;
/// Bytes; 0 means no limit. `None`: not given.
type MemoryLimit = Option<u64>;
/// `None`: not given, or empty as in projects of kubebuilder.
type Directory = Option<PathBuf>;

/// Run the operator
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, args_override_self = true, mut_args(|arg| as_switch(arg, go_bool)))]
pub struct RunArgs {
    /// The file that binds kinds to charts
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    pub watches_file: PathBuf,

    /// Time between two reconciles of an unchanged release. 0 means never; the minimum is 1s. A change is reconciled immediately
    #[arg(long, value_name = "DURATION", default_value = "10h", value_parser = duration::parse)]
    pub reconcile_period: Duration,

    /// Number of releases of one kind that are reconciled concurrently. The number of CPUs limits concurrent renders
    #[arg(long, value_name = "N", allow_negative_numbers = true, default_value = "32", value_parser = parse_at_least_1)]
    pub max_concurrent_reconciles: usize,

    /// Memory that the process may use, such as 512Mi. 0 means no limit. Each render takes a share of it, or waits [default: the
    /// container's limit, else half of the machine's available memory, 128Mi to 1Gi]
    #[arg(long, value_name = "BYTES", env = "MEMORY_LIMIT", hide_env_values = true, default_value = "",
          hide_default_value = true, value_parser = memory::parse)]
    pub memory_limit: MemoryLimit,

    /// Namespaces whose CRs the operator watches, separated by commas [default: all namespaces]
    #[arg(long, value_name = "NAMESPACES", env = "WATCH_NAMESPACE", hide_env_values = true, default_value = "",
          hide_default_value = true, value_parser = parse_namespaces)]
    pub watch_namespace: Namespaces,

    /// Label selector of the custom resources that this process works on, as of `kubectl --selector` [default: all]
    #[arg(long, value_name = "SELECTOR", value_parser = parse_labels)]
    pub watch_label_selector: Option<String>,

    /// The ServiceAccount of releases whose watch has no `serviceAccountName`, in the namespace of their custom resource
    #[arg(long, value_name = "NAME", help_heading = "Multi-tenancy", value_parser = parse_account)]
    pub default_service_account: Option<String>,

    /// Releases refer to nothing outside of the namespace of their custom resource: no dependency, lookup or target namespace
    #[arg(long, help_heading = "Multi-tenancy")]
    pub no_cross_namespace_refs: bool,

    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The operator's own namespace [default: that of the kubeconfig's context, else the pod's]
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE", hide_env_values = true, value_parser = parse_namespace)]
    pub namespace: Option<String>,

    /// The operator's name, a label on every object that it owns. An operator ignores the objects of operators with other names
    #[arg(long, value_name = "NAME", env = "OPERATOR_NAME", hide_env_values = true, default_value = OPERATOR_NAME,
          value_parser = parse_operator_name)]
    pub operator_name: String,

    /// Time that running reconciles have to finish after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration::parse)]
    pub shutdown_timeout: Duration,

    /// Interval at which the operator samples the CPU, memory and storage that releases request, for `chartwright usage`. 0 means
    /// never; the minimum is 1s [default: 0]
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true, value_parser = duration::parse)]
    pub meter_usage: Duration,

    /// Accepted for compatibility with helm-operator: the operator emits no Events about overrideValues
    #[arg(long)]
    suppress_override_values: bool,

    /// Address of /metrics. 0 disables it
    #[arg(long, value_name = "ADDRESS", help_heading = "Servers", visible_alias = "metrics-addr", default_value = METRICS_ADDRESS,
          value_parser = parse_metrics_address)]
    pub metrics_bind_address: BindAddress,

    /// Serves /metrics over HTTPS instead of plain HTTP
    #[arg(long, help_heading = "Servers")]
    metrics_secure: bool,

    /// Directory with the certificate for --metrics-secure: tls.crt and tls.key, which the operator rereads when they change
    /// [default: a self-signed certificate]
    #[arg(long, value_name = "DIR", help_heading = "Servers", visible_alias = "metrics-cert-path", default_value = "",
          hide_default_value = true, value_parser = parse_directory)]
    metrics_cert_dir: Directory,

    /// Serves /metrics only to clients with a token whose user may `get` the non-resource URL /metrics. Needs --metrics-secure
    #[arg(long, help_heading = "Servers")]
    metrics_require_rbac: bool,

    /// Serves a page with all releases beside /metrics, at /dashboard. It only shows, to users with a token that may `get` the
    /// non-resource URL /dashboard. Needs --metrics-require-rbac
    #[arg(long, help_heading = "Servers")]
    dashboard: bool,

    /// Accepted for compatibility with helm-operator: the servers have HTTP/1.1 only
    #[arg(long, hide = true)]
    enable_http2: bool,

    /// Address of /healthz and /readyz. 0 disables them
    #[arg(long, value_name = "ADDRESS", help_heading = "Servers", default_value = ":8081")]
    pub health_probe_bind_address: BindAddress,

    /// Of several replicas, only the one that holds the Lease works
    #[arg(long, help_heading = "Leader election", visible_alias = "enable-leader-election")]
    leader_elect: bool,

    /// Name of the Lease [default: the operator's name]
    #[arg(long, value_name = "NAME", help_heading = "Leader election")]
    leader_election_id: Option<String>,

    /// Namespace of the Lease [default: the operator's namespace]
    #[arg(long, value_name = "NAMESPACE", help_heading = "Leader election", value_parser = parse_namespace)]
    leader_election_namespace: Option<String>,

    /// Accepted for compatibility with helm-operator: errors show their causes, not stack traces
    #[arg(long, value_name = "LEVEL", hide = true, value_parser = ["info", "error", "panic"], ignore_case = true)]
    zap_stacktrace_level: Option<String>,

    #[command(flatten)]
    pub admission: AdmissionArgs,

    #[command(flatten)]
    pub traces: TraceOptions,

    #[command(flatten)]
    pub log: LogOptions,
}

impl RunArgs {
    /// Checks flags that depend on each other.
    ///
    /// # Errors
    /// The name of the Lease is invalid, or a flag lacks another one that it needs.
    pub fn check(&self) -> Result<(), String> {
        if self.metrics_require_rbac && !self.metrics_secure {
            return Err(
                "--metrics-require-rbac needs --metrics-secure: over plain HTTP, clients would send their tokens unencrypted; \
                 add --metrics-secure"
                    .to_owned(),
            );
        }
        if self.metrics_cert_dir.is_some() && !self.metrics_secure {
            return Err(
                "--metrics-cert-dir needs --metrics-secure: without it, /metrics is plain HTTP; add --metrics-secure"
                    .to_owned(),
            );
        }
        if self.dashboard && !self.metrics_require_rbac {
            return Err(
                "--dashboard needs --metrics-require-rbac: without it, every pod of the cluster could read the releases; \
                 add --metrics-secure --metrics-require-rbac"
                    .to_owned(),
            );
        }
        if self.dashboard && self.metrics_bind_address == BindAddress::Off {
            return Err(
                "--dashboard needs --metrics-bind-address: the page is served beside /metrics; give it an address such as :8443"
                    .to_owned(),
            );
        }
        self.admission.check(&self.operator_name)?;
        match self.lease() {
            Some((id, _)) if check_object_name("coordination.k8s.io", id).is_err() => Err(format!(
                "--leader-election-id {id:?} (by default the operator's name) can't be a Lease's name: use lower-case \
                 letters, digits, dashes and dots, beginning and ending with a letter or digit"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the certificate of /metrics. `None`: plain HTTP.
    pub fn metrics_certificate(&self) -> Option<CertificateSource> {
        let directory = self.metrics_cert_dir.clone();
        let source = directory.map_or(CertificateSource::SelfSigned, CertificateSource::Directory);
        self.metrics_secure.then_some(source)
    }

    /// True if only clients with the right may read /metrics.
    pub fn needs_right_for_metrics(&self) -> bool {
        self.metrics_require_rbac
    }

    /// True if the page with all releases is served.
    pub fn has_dashboard(&self) -> bool {
        self.dashboard
    }

    /// Returns name and namespace of the Lease to hold. Namespace `None`: the operator's own. `None`: no leader election.
    pub fn lease(&self) -> Option<(&str, Option<&str>)> {
        let is_given = |text: &&str| !text.is_empty();
        let id = self.leader_election_id.as_deref().filter(is_given);
        let namespace = self.leader_election_namespace.as_deref().filter(is_given);
        self.leader_elect
            .then(|| (id.unwrap_or(&self.operator_name), namespace))
    }
}

// Parsers of flag values. An empty environment variable counts as unset.

/// Parses a number. As in controller-runtime, less than one means one.
fn parse_at_least_1(text: &str) -> Result<usize, ParseIntError> {
    let number: i64 = text.parse()?;
    Ok(usize::try_from(number).unwrap_or(1).max(1))
}

fn parse_namespace(text: &str) -> Result<String, String> {
    match text.trim() {
        name if name.is_empty() || is_dns_label(name) => Ok(name.to_owned()),
        name => Err(format!(
            "{name:?} can't be a namespace: use lower-case letters, digits and dashes"
        )),
    }
}

fn parse_account(text: &str) -> Result<String, String> {
    if chartwright_watches::names::is_dns_subdomain(text) {
        Ok(text.to_owned())
    } else {
        Err("a name in lower case is needed: at most 253 of a-z, 0-9, - and .".to_owned())
    }
}

/// Checks a label selector, and returns it in the API server's notation.
fn parse_labels(text: &str) -> Result<String, String> {
    chartwright_watches::parse_selector(text).map(|selector| selector.to_string())
}

/// Parses namespaces. An empty text means all namespaces, as with helm-operator. Commas without names are an error: they must not
/// widen the scope to all namespaces.
fn parse_namespaces(text: &str) -> Result<Namespaces, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let names = text.split(',').filter(|name| !name.trim().is_empty());
    let names: BTreeSet<String> = names.map(parse_namespace).collect::<Result<_, _>>()?;
    if names.is_empty() {
        Err("it names no namespace: empty it for all".to_owned())
    } else {
        Ok(Some(names))
    }
}

fn parse_directory(text: &str) -> Result<Directory, Infallible> {
    Ok((!text.is_empty()).then(|| PathBuf::from(text)))
}

fn parse_operator_name(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Ok(OPERATOR_NAME.to_owned()),
        name if is_label_value(name) => Ok(name.to_owned()),
        _ => Err(
            "it can't be a label's value: use up to 63 letters, digits, dashes, dots and underscores, beginning and ending \
             with a letter or digit",
        ),
    }
}

/// Parses the metrics address. An empty text means the default, as in controller-runtime; an empty probe address does not.
fn parse_metrics_address(text: &str) -> Result<BindAddress, InvalidAddress> {
    match text {
        "" => METRICS_ADDRESS.parse(),
        text => text.parse(),
    }
}

#[cfg(test)]
mod tests;
