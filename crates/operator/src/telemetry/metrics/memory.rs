//! The memory of this process, read when the metrics are.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::registration::saturated;

/// The metric `memory_resident_bytes`. It is absent where the system does not report it.
#[derive(Debug)]
pub(super) struct ResidentMemory;

impl Collector for ResidentMemory {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(bytes) = resident_bytes() else {
            return Ok(());
        };
        let gauge = ConstGauge::new(saturated(bytes));
        let help = "Memory of the process that is resident";
        let metric = encoder.encode_descriptor("memory_resident", help, Some(&Unit::Bytes), gauge.metric_type())?;
        gauge.encode(metric)
    }
}

/// Bytes of this process in physical memory, as Linux counts them.
fn resident_bytes() -> Option<u64> {
    resident_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// `VmRSS` in the text of `/proc/<pid>/status`, in bytes.
fn resident_of(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_the_status_of_a_process() {
        for (text, bytes) in [
            ("Name:\tx\nVmRSS:\t    1234 kB\nVmHWM:\t 9 kB\n", Some(1234 << 10)),
            ("VmRSS:\t many kB\n", None),
            ("VmRSS:\t 99999999999999999999 kB\n", None),
            ("VmHWM:\t 9 kB\n", None),
        ] {
            assert_eq!(resident_of(text), bytes, "{text}");
        }
    }
}
