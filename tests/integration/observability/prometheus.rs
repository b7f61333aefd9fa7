//! A Prometheus that scrapes one operator and evaluates the project's alerts every second.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{eventually, until};
use crate::world::operator::Operator;
use crate::world::{SOON, World};

/// The job and the namespace that the ServiceMonitor gives the targets.
const JOB: &str = "chartwright-controller-manager-metrics-service";
const NAMESPACE: &str = "chartwright-system";

/// Killed when it is dropped.
pub struct Prometheus {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

/// True if `PROMETHEUS=off` leaves the tests with Prometheus out.
pub fn is_left_out() -> bool {
    let is_off = std::env::var("PROMETHEUS").is_ok_and(|value| value == "off");
    if is_off {
        eprintln!("prometheus: left out (PROMETHEUS=off)");
    }
    is_off
}

/// The groups of the project's alerts without `for`, so that an alert fires at the first evaluation.
fn impatient_rules() -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/observability/rules.yaml");
    let mut rules: Value = serde_yaml::from_str(&fs::read_to_string(path)?)?;
    for group in rules["spec"]["groups"].as_array_mut().into_iter().flatten() {
        for rule in group["rules"].as_array_mut().into_iter().flatten() {
            rule.as_object_mut().context("a rule")?.remove("for");
        }
    }
    Ok(rules["spec"].to_string())
}

impl Prometheus {
    /// Scrapes an operator by `http` or `https`.
    pub fn start(world: &World, operator: &Operator, scheme: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("rules.yaml"), impatient_rules()?)?;
        let target = format!("127.0.0.1:{}", operator.metrics_port()?);
        let config = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{
                "job_name": JOB,
                "honor_labels": true,
                "scheme": scheme,
                "tls_config": {"insecure_skip_verify": true},
                "static_configs": [{"targets": [target], "labels": {"namespace": NAMESPACE, "pod": "manager-0"}}],
            }],
        });
        fs::write(folder.path().join("prometheus.yaml"), config.to_string())?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new("prometheus");
        command
            .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("log"))?);
        let child = world.control_plane.adopt(&mut command).spawn();
        let child = child.context(
            "prometheus: install your system's package prometheus, or set PROMETHEUS=off to leave these tests out",
        )?;
        let prometheus = Prometheus {
            child,
            port,
            _folder: folder,
        };
        until("Prometheus has scraped the operator", SOON, || {
            let found = prometheus.get("/api/v1/query?query=up%3D%3D1")?;
            Ok(found["data"]["result"][0].is_object())
        })?;
        Ok(prometheus)
    }

    /// Reads a path of the API.
    fn get(&self, path: &str) -> Result<Value> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port))?;
        write!(connection, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer of HTTP")?;
        ensure!(head.contains(" 200 "), "{answer}");
        Ok(serde_json::from_str(body)?)
    }

    /// The alerts of a name that fire.
    pub fn firing(&self, alert: &str) -> Result<Vec<Value>> {
        let found = self.get("/api/v1/alerts")?;
        let alerts = found["data"]["alerts"].as_array().context("alerts")?;
        let fires = |found: &&Value| found["labels"]["alertname"] == alert && found["state"] == "firing";
        Ok(alerts.iter().filter(fires).cloned().collect())
    }

    /// Waits until an alert fires with these labels. Returns its summary.
    pub fn await_firing(&self, alert: &str, labels: &[(&str, &str)]) -> Result<String> {
        eventually(&format!("{alert} {labels:?} fires"), SOON, || {
            let firing = self.firing(alert)?;
            let is_it = |found: &&Value| labels.iter().all(|(name, value)| found["labels"][*name] == *value);
            let found = firing.iter().find(is_it);
            let found = found.with_context(|| format!("there are {firing:?}"))?;
            Ok(found["annotations"]["summary"].as_str().map(str::to_owned))
        })
    }

    /// Waits until no alert of a name fires.
    pub fn await_silent(&self, alert: &str) -> Result<()> {
        eventually(&format!("{alert} does not fire"), SOON, || {
            let firing = self.firing(alert)?;
            ensure!(firing.is_empty(), "{firing:?}");
            Ok(Some(()))
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
