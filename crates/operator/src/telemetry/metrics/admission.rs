//! Metrics of the admission webhook. Without it there are none.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{LabelPairs, group_and_kind, lower_case};
use super::registration::{add, timing};

/// The API server waits 3 s for an answer, and a user with it.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0];

/// What became of a change, the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionResult {
    /// It was previewed, or concerns no release.
    Allowed,
    /// Its release would be `Stalled`.
    Refused,
    /// It was admitted without a preview.
    Unknown,
}

/// About changes that the API server asked the webhook about.
#[derive(Debug)]
pub struct AdmissionMetrics {
    reviews: Family<LabelPairs<3>, Counter>,
    duration: Family<LabelPairs<2>, Histogram, fn() -> Histogram>,
    registrations: Family<LabelPairs<1>, Counter>,
    certificate_expiry: Family<LabelPairs<0>, Gauge>,
}

impl AdmissionMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        AdmissionMetrics {
            reviews: add(
                registry,
                "admission_reviews",
                "Changes of custom resources that the admission webhook answered, by their result",
            ),
            duration: timing(
                registry,
                "admission_duration",
                "Time that answers of the admission webhook took",
                Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            ),
            registrations: add(
                registry,
                "admission_registrations",
                "Checks of the admission webhook's certificate and registration",
            ),
            certificate_expiry: timing(
                registry,
                "admission_certificate_expiry_timestamp",
                "When the certificate of the admission webhook expires, in seconds since 1970",
                Family::default(),
            ),
        }
    }

    /// Counts an answer.
    pub fn reviewed(&self, group: &str, kind: &str, result: AdmissionResult, took: Duration) {
        let [group, kind] = group_and_kind(group, kind);
        let labels = [group.clone(), kind.clone(), ("result", lower_case(result))];
        self.reviews.get_or_create(&labels).inc();
        self.duration.get_or_create(&[group, kind]).observe(took.as_secs_f64());
    }

    /// Counts a check of certificate and registration.
    pub fn registered(&self, succeeded: bool) {
        let result = if succeeded { "success" } else { "error" };
        self.registrations.get_or_create(&[("result", result.to_owned())]).inc();
    }

    /// Sets when the certificate expires, in seconds since 1970.
    pub fn set_certificate_expiry(&self, at: i64) {
        self.certificate_expiry.get_or_create(&[]).set(at);
    }
}
