//! Alerts on the operator's process.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;

use super::prometheus::{Prometheus, is_left_out};
use crate::world::World;
use crate::world::operator::{ELECTED, Launch, METERED};

#[test]
fn alerts_fire_if_no_replica_leads_and_if_the_operator_is_down() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let world = World::new("alert-down")?;
    let leader = world.launch(&ELECTED)?;
    leader.await_log("watching")?;
    let standby = Launch { replica: 1, ..ELECTED };
    let standby = world.launch(&standby.metered())?;
    let prometheus = Prometheus::start(&world, &standby, "http")?;
    // Prometheus does not see the first replica.
    prometheus.await_firing("ChartwrightNoLeader", &[("namespace", "chartwright-system")])?;
    ensure!(leader.terminate()?.success());
    prometheus.await_silent("ChartwrightNoLeader")?;
    ensure!(prometheus.firing("ChartwrightDown")?.is_empty());
    standby.kill()?;
    prometheus
        .await_firing("ChartwrightDown", &[("severity", "critical")])
        .map(drop)
}

#[test]
fn an_alert_fires_if_memory_is_near_its_limit() -> Result<()> {
    if is_left_out() {
        return Ok(());
    }
    let world = World::new("alert-memory")?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({}))?;
    let resident = operator.metric("chartwright_memory_resident_bytes")?;
    ensure!(
        resident > 1e6 && resident <= operator.peak_memory()? as f64,
        "{resident}"
    );
    let prometheus = Prometheus::start(&world, &operator, "http")?;
    prometheus.await_silent("ChartwrightMemoryNearLimit")?;
    drop(prometheus);
    operator.kill()?;
    // It needs about as much as the former process.
    let limit = format!("--memory-limit={}", (resident * 0.9) as u64);
    let operator = world.launch(&Launch {
        arguments: &[&limit],
        ..METERED
    })?;
    let prometheus = Prometheus::start(&world, &operator, "http")?;
    let labels = [("pod", "manager-0")];
    prometheus.await_firing("ChartwrightMemoryNearLimit", &labels).map(drop)
}

/// Writes a certificate that expires after a time, with its key.
fn write_certificate(folder: &Path, after: Duration) -> Result<()> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::new(["metrics.test".to_owned()])?;
    parameters.not_after = rcgen::date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH)? + after;
    let certificate = parameters.self_signed(&key)?;
    fs::write(folder.join("tls.key"), key.serialize_pem())?;
    fs::write(folder.join("tls.crt"), certificate.pem())?;
    Ok(())
}

#[test]
fn alerts_fire_if_the_certificate_of_the_metrics_is_not_renewed() -> Result<()> {
    const DAY: Duration = Duration::from_secs(24 * 3600);
    if is_left_out() {
        return Ok(());
    }
    let world = World::new("alert-certificate")?;
    let folder = world.dir.path().join("certificates");
    fs::create_dir(&folder)?;
    write_certificate(&folder, 6 * DAY)?;
    let directory = format!("--metrics-cert-dir={}", folder.display());
    let operator = world.launch(&Launch {
        arguments: &["--metrics-secure", &directory],
        ..METERED
    })?;
    operator.await_log("watching")?;
    let prometheus = Prometheus::start(&world, &operator, "https")?;
    prometheus.await_firing("ChartwrightCertificateExpires", &[("source", "directory")])?;
    prometheus.await_silent("ChartwrightCertificateRenewalFailed")?;
    // A file that is not a certificate.
    fs::write(folder.join("tls.crt"), "no certificate")?;
    prometheus.await_firing("ChartwrightCertificateRenewalFailed", &[("result", "error")])?;
    write_certificate(&folder, 30 * DAY)?;
    prometheus.await_silent("ChartwrightCertificateExpires")
}
