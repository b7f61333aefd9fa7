//! Counts an operator's requests from the API server's audit log.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jiff::Timestamp;

use super::operator::Operator;
use super::{SOON, World};
use crate::support::{AuditMark, AuditedRequest, AuditedRequests};

/// For so long after a change of the served kinds, every operator reads discovery again: at growing intervals, and once
/// more after 10 s if the API server was not ready. Under load, each read takes seconds.
const DISCOVERY_ECHO: Duration = Duration::from_secs(16);

/// The start of a count of requests.
#[derive(Clone, Copy)]
pub struct RequestsStart {
    mark: AuditMark,
    at: Timestamp,
}

impl World {
    /// Starts a count of requests.
    pub fn mark(&self) -> Result<RequestsStart> {
        Ok(RequestsStart {
            mark: self.control_plane.audit().mark()?,
            at: Timestamp::now(),
        })
    }

    /// All requests of an operator.
    pub fn all_requests(&self, operator: &Operator, since: RequestsStart) -> Result<AuditedRequests> {
        // The audit log has a request only after its response.
        std::thread::sleep(Duration::from_millis(300));
        Ok(self.control_plane.audit().since(since.mark)?.by_user(&operator.user))
    }

    /// Like `all_requests`, without Leases, watches and, if the served kinds changed shortly before, discovery.
    pub fn requests(&self, operator: &Operator, since: RequestsStart) -> Result<AuditedRequests> {
        let requests = self.all_requests(operator, since)?.without_idling();
        let is_discovery = |request: &AuditedRequest| request.verb == "get" && request.resource.is_empty();
        if requests.clone().filter(is_discovery).is_empty() {
            return Ok(requests);
        }
        let is_echo = self
            .control_plane
            .audit()
            .served_kinds_changed_since(since.at - DISCOVERY_ECHO)?;
        Ok(requests.filter(|request| !(is_echo && is_discovery(request))))
    }

    /// Waits until an operator sends no requests for a second.
    pub fn await_quiet(&self, operator: &Operator) -> Result<()> {
        let deadline = Instant::now() + SOON;
        loop {
            let start = self.mark()?;
            std::thread::sleep(Duration::from_millis(700));
            let requests = self.requests(operator, start)?;
            if requests.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{requests}");
        }
    }

    /// The requests of an operator until it sends no more.
    pub fn requests_until_quiet(&self, operator: &Operator, since: RequestsStart) -> Result<AuditedRequests> {
        self.await_quiet(operator)?;
        self.requests(operator, since)
    }

    /// Checks that an operator sends no requests for some seconds.
    pub fn ensure_no_requests(&self, operator: &Operator, seconds: f64) -> Result<()> {
        let start = self.mark()?;
        std::thread::sleep(Duration::from_secs_f64(seconds));
        self.requests(operator, start)?.none()
    }
}
