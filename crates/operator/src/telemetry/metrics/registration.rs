//! Registers metrics under their names, help texts and units.

use prometheus_client::registry::{Metric, Registry, Unit};

/// Registers a metric under its name and help text. Metrics are handles: the registry gets a clone.
pub(super) fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// The same for one that counts bytes.
pub(super) fn add_bytes<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, Unit::Bytes, metric.clone());
    metric
}

/// The same for one that measures time.
pub(super) fn timing<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// The value of a gauge.
pub(super) fn saturated(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
