//! Metrics of the certificate with which the metrics are served.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::LabelPairs;
use super::registration::{add, timing};

/// About the certificate of the metrics' own server. Empty without one.
#[derive(Debug)]
pub struct CertificateMetrics {
    reloads: Family<LabelPairs<1>, Counter>,
    expiry: Family<LabelPairs<1>, Gauge>,
}

impl CertificateMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        CertificateMetrics {
            reloads: add(
                registry,
                "metrics_certificate_reloads",
                "Attempts to replace the certificate of the metrics by a newer one",
            ),
            expiry: timing(
                registry,
                "metrics_certificate_expiry_timestamp",
                "When the certificate of the metrics expires, in seconds since 1970",
                Family::default(),
            ),
        }
    }

    /// Counts a newer certificate for the metrics, or one that can't be used.
    pub fn count_reload(&self, succeeded: bool) {
        let result = if succeeded { "success" } else { "error" };
        self.reloads.get_or_create(&[("result", result.to_owned())]).inc();
    }

    /// Says when the certificate of the metrics expires, in seconds since 1970, and where it comes from.
    pub fn set_expiry(&self, source: &str, at: i64) {
        self.expiry.get_or_create(&[("source", source.to_owned())]).set(at);
        // From 0, so that `increase()` sees the first failure.
        let failures = [("result", "error".to_owned())];
        drop(self.reloads.get_or_create(&failures));
    }
}
