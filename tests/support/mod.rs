//! A real Kubernetes control plane on this machine, for the integration tests and the demo.
//!
//! ```text
//! let control_plane = ControlPlane::builder().pods(true).start()?;
//! let kubectl = control_plane.kubectl();
//! kubectl.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n")?;
//! let operator = control_plane.kubeconfig_for("system:serviceaccount:one:operator", &[])?;
//! let before = control_plane.audit().mark()?;
//! // ... the test itself ...
//! let writes = control_plane.audit().since(before)?.by_user("operator").writes();
//! ```
//!
//! Plain blocking code: from async tests call it in `tokio::task::spawn_blocking` or before the runtime starts.

// Every user of this module uses a part of it.
#![allow(dead_code, unused_imports)]

mod audit;
mod client;
mod control_plane;
mod credentials;
mod kubectl;
mod parts;
mod watchdog;

pub use audit::{Audit, AuditMark, AuditedRequest, AuditedRequests};
pub use client::Client;
pub use control_plane::{ControlPlane, ControlPlaneBuilder};
pub use kubectl::Kubectl;

use std::time::{Duration, Instant};

/// Calls `check` every 100 ms until it gives something.
pub fn eventually<T>(
    what: &str,
    timeout: Duration,
    mut check: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    loop {
        let outcome = check();
        if let Ok(Some(value)) = outcome {
            return Ok(value);
        }
        if started.elapsed() >= timeout {
            return Err(match outcome {
                Err(error) => error.context(format!("{what}: not within {timeout:?}")),
                Ok(_) => anyhow::anyhow!("{what}: not within {timeout:?}"),
            });
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Calls `check` every 100 ms until it is true.
pub fn until(what: &str, timeout: Duration, mut check: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    eventually(what, timeout, || Ok(check()?.then_some(())))
}
