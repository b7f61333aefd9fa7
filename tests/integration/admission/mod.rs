//! The admission webhook: a real API server calls the operator for each change.

mod answers;
mod certificate;
mod failures;

use std::net::TcpListener;
use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::until;
use crate::world::operator::{Launch, METERED, Operator};
use crate::world::{SOON, World, WorldSetup};

/// A world whose operator previews changes.
struct Webhook {
    world: World,
    /// Where the API server reaches the operator.
    url: String,
    port: u16,
}

/// What kubectl printed.
struct Printed {
    is_success: bool,
    out: String,
    err: String,
}

impl Webhook {
    fn new(name: &str) -> Result<Self> {
        Self::of(World::new(name)?)
    }

    fn with(name: &str, setup: WorldSetup<'_>) -> Result<Self> {
        Self::of(World::with(name, setup)?)
    }

    /// Has the objects and rights of `config/admission`, with this world's names.
    fn of(world: World) -> Result<Self> {
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let webhook = Webhook {
            world,
            url: format!("https://127.0.0.1:{port}"),
            port,
        };
        let world = &webhook.world;
        let stub = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": webhook.name()},
        });
        world.kubectl.apply(&stub.to_string())?;
        world.grant("admission", &world.project_rules("admission/role.yaml")?)?;
        world.grant(
            "admission-certificate",
            &world.project_rules("admission/certificate_role.yaml")?,
        )?;
        Ok(webhook)
    }

    /// The name of configuration and Secret.
    fn name(&self) -> String {
        format!("{}-admission", self.world.name)
    }

    fn start(&self) -> Result<Operator> {
        let operator = self.launch(0)?;
        operator.await_log("watching")?;
        self.await_called()?;
        Ok(operator)
    }

    fn launch(&self, replica: usize) -> Result<Operator> {
        let address = format!("--admission-bind-address=127.0.0.1:{}", self.port);
        let url = format!("--admission-url={}", self.url);
        let arguments = ["--admission", &address, &url];
        self.world.launch(&Launch {
            arguments: &arguments,
            replica,
            ..METERED
        })
    }

    /// Waits until the API server calls the webhook: it learns of a configuration after some time.
    fn await_called(&self) -> Result<()> {
        let probe = self.world.widget("probe", json!({"fail": "called"}));
        until("the API server calls the webhook", SOON, || {
            Ok(self.dry_run(&probe)?.err.contains("called"))
        })
    }

    /// Changes that the webhook has answered.
    fn reviews(operator: &Operator) -> Result<f64> {
        operator.metric("chartwright_admission_duration_seconds_count")
    }

    fn configuration(&self) -> Result<Value> {
        self.world.expect("validatingwebhookconfiguration", &self.name())
    }

    fn dry_run(&self, object: &Value) -> Result<Printed> {
        self.kubectl(&["apply", "--server-side", "--dry-run=server", "-f", "-"], object)
    }

    fn apply(&self, object: &Value) -> Result<Printed> {
        self.kubectl(&["apply", "--server-side", "-f", "-"], object)
    }

    /// Runs kubectl on an object, as a person does.
    fn kubectl(&self, arguments: &[&str], object: &Value) -> Result<Printed> {
        let file = self.world.dir.path().join("object.json");
        std::fs::write(&file, object.to_string())?;
        let mut command = self.world.kubectl.command();
        command.args(arguments).stdin(std::fs::File::open(&file)?);
        let Output { status, stdout, stderr } = command.output().context("kubectl")?;
        Ok(Printed {
            is_success: status.success(),
            out: String::from_utf8(stdout)?,
            err: String::from_utf8(stderr)?,
        })
    }
}

impl Printed {
    fn expect_success(self) -> Result<Self> {
        ensure!(self.is_success, "{}", self.err);
        Ok(self)
    }

    /// Ensures that the change was refused, with these texts.
    fn expect_refused(self, texts: &[&str]) -> Result<()> {
        ensure!(!self.is_success, "{}", self.out);
        crate::world::fields::ensure_contains(&self.err, &["admission webhook \"preview.chartwright.dev\" denied"])?;
        crate::world::fields::ensure_contains(&self.err, texts)
    }

    /// The warnings of a change that is admitted.
    fn warnings(self) -> Result<Vec<String>> {
        let printed = self.expect_success()?;
        let lines = printed.err.lines().filter_map(|line| line.strip_prefix("Warning: "));
        Ok(lines.map(str::to_owned).collect())
    }
}

/// Longer than the API server waits for a webhook.
const TIME_LIMIT: Duration = Duration::from_secs(8);
