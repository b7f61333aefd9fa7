//! The flags of the admission webhook, and its preview.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures::FutureExt as _;

use super::RunArgs;
use chartwright_operator::admission::{Admission, AdmissionOptions, PreviewFn, PreviewJob, WebhookUrl};
use chartwright_operator::telemetry::metrics::Metrics;
use chartwright_operator::telemetry::server::BindAddress;
use chartwright_preview::{PreviewCluster, preview};
use chartwright_watches::names::is_dns_label;

/// How long a preview sends dry runs: a user waits for it.
const CHECKS_FOR: Duration = Duration::from_millis(80);

/// Preview of changes when they are made
#[derive(Args, Clone, Debug)]
pub struct AdmissionArgs {
    /// Previews each change of a custom resource before the API server stores it: a change after which the release would be Stalled is
    /// refused with the chart's message, and restarts of pods and deletions are warnings of kubectl. The operator registers a
    /// validating webhook for the kinds of its watches, which blocks nothing while the operator is down
    #[arg(long, help_heading = "Admission")]
    admission: bool,

    /// Address of the webhook
    #[arg(long, value_name = "ADDRESS", help_heading = "Admission", default_value = ":9443")]
    admission_bind_address: BindAddress,

    /// Name of the ValidatingWebhookConfiguration, of the Service in the operator's namespace whose port 443 leads to the webhook, and of
    /// the Secret with its certificate [default: the operator's name and -admission]
    #[arg(long, value_name = "NAME", help_heading = "Admission", value_parser = parse_name)]
    admission_name: Option<String>,

    /// Where the API server reaches the webhook instead of at the Service, for an operator outside of the cluster
    #[arg(long, value_name = "URL", help_heading = "Admission")]
    admission_url: Option<WebhookUrl>,
}

impl AdmissionArgs {
    /// The address of the webhook. `None`: there is no webhook.
    pub fn bind_address(&self) -> Option<&BindAddress> {
        self.admission.then_some(&self.admission_bind_address)
    }

    /// The name of what the operator `operator` registers.
    fn name(&self, operator: &str) -> String {
        let given = self.admission_name.clone();
        given.unwrap_or_else(|| format!("{operator}-admission"))
    }

    /// # Errors
    /// A flag needs another one, or the name that follows from the operator's is invalid.
    pub fn check(&self, operator: &str) -> Result<(), String> {
        let needs_admission = [
            ("--admission-name", self.admission_name.is_some()),
            ("--admission-url", self.admission_url.is_some()),
        ];
        if let Some((flag, _)) = needs_admission
            .iter()
            .find(|(_, is_given)| *is_given && !self.admission)
        {
            return Err(format!(
                "{flag} needs --admission: without it there is no webhook; add --admission"
            ));
        }
        if self.admission && self.admission_bind_address == BindAddress::Off {
            return Err("--admission needs --admission-bind-address: give it an address such as :9443".to_owned());
        }
        let name = self.name(operator);
        if self.admission && !is_dns_label(&name) {
            return Err(format!(
                "{name:?}, from the operator's name, can't be the name of a Service: give another one with --admission-name"
            ));
        }
        Ok(())
    }
}

/// The webhook of this process. `None`: off.
pub(super) fn webhook(args: &RunArgs, metrics: &Arc<Metrics>) -> Option<Arc<Admission>> {
    args.admission.bind_address()?;
    let options = AdmissionOptions {
        kubeconfig: args.kubeconfig.clone(),
        operator: args.operator_name.clone(),
        own_namespace: args.namespace.clone(),
        name: args.admission.name(&args.operator_name),
        url: args.admission.admission_url.clone(),
        namespaces: args.watch_namespace.clone(),
    };
    let preview: PreviewFn = Arc::new(|job| preview_change(job).boxed());
    Some(Admission::new(options, preview, metrics.clone()))
}

async fn preview_change(job: PreviewJob) -> Result<chartwright_core::diff::ReleaseDiff, String> {
    let cluster = PreviewCluster {
        client: job.client,
        discovery: job.discovery,
        keys: job.keys,
        operator: job.operator,
        own_namespace: job.own_namespace,
        render: Some(job.render),
        quick: Some(CHECKS_FOR),
    };
    let found = preview(&cluster, &job.unit, job.live.as_ref(), job.resource).await;
    found.map_err(|error| error.to_string())
}

fn parse_name(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("a name of lower-case letters, digits and dashes is needed, of at most 63 characters".to_owned())
    }
}
