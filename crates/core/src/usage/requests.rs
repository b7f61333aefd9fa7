//! What pods and claims request, as the scheduler counts it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Amounts, Requests};

type Quantities = BTreeMap<String, String>;

/// What of a pod's spec says what it requests.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    #[serde(default)]
    containers: Vec<Container>,
    init_containers: Option<Vec<Container>>,
    resources: Option<Resources>,
    overhead: Option<Quantities>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    restart_policy: Option<String>,
    resources: Option<Resources>,
}

#[derive(Clone, Debug, Deserialize)]
struct Resources {
    requests: Option<Quantities>,
}

/// The same of a claim's.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ClaimSpec {
    resources: Option<Resources>,
}

/// CPU and memory, in thousandths.
type Pair = [u128; 2];

/// As `PodRequests` of k8s.io/component-helpers/resource: containers run at the same time, with the sidecars; init
/// containers one after the other, each with the sidecars that were started before it. What the pod itself requests
/// (`spec.resources`) counts in their place. The runtime's overhead comes on top.
pub fn of_pod(spec: &PodSpec) -> Requests {
    let (mut running, mut sidecars, mut starting) = ([0; 2], [0; 2], [0; 2]);
    for container in &spec.containers {
        running = add(running, of_container(container));
    }
    for container in spec.init_containers.iter().flatten() {
        let requests = of_container(container);
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        if is_sidecar {
            running = add(running, requests);
            sidecars = add(sidecars, requests);
        }
        let now = if is_sidecar { sidecars } else { add(sidecars, requests) };
        starting = [starting[0].max(now[0]), starting[1].max(now[1])];
    }
    let of_all = [running[0].max(starting[0]), running[1].max(starting[1])];
    let of_pod = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    let of_pod = |name, otherwise| of_pod.and_then(|given| thousandths(given, name)).unwrap_or(otherwise);
    let overhead = spec.overhead.as_ref().map(pair).unwrap_or_default();
    let [cpu, memory] = add([of_pod("cpu", of_all[0]), of_pod("memory", of_all[1])], overhead);
    Amounts {
        cpu: u64::try_from(cpu).unwrap_or(u64::MAX),
        memory: whole(memory),
        storage: 0,
    }
}

/// What a claim requests, whether it is bound or not.
pub fn of_claim(spec: &ClaimSpec) -> Requests {
    let requests = spec
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    Amounts {
        storage: whole(
            requests
                .and_then(|given| thousandths(given, "storage"))
                .unwrap_or_default(),
        ),
        ..Amounts::default()
    }
}

fn of_container(container: &Container) -> Pair {
    let requests = container
        .resources
        .as_ref()
        .and_then(|resources| resources.requests.as_ref());
    requests.map(pair).unwrap_or_default()
}

fn pair(given: &Quantities) -> Pair {
    ["cpu", "memory"].map(|name| thousandths(given, name).unwrap_or_default())
}

fn add(a: Pair, b: Pair) -> Pair {
    [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])]
}

fn whole(thousandths: u128) -> u64 {
    u64::try_from(thousandths.div_ceil(1000)).unwrap_or(u64::MAX)
}

fn thousandths(given: &Quantities, name: &str) -> Option<u128> {
    quantity(given.get(name)?)
}

/// Reads a quantity as Kubernetes writes it, in thousandths, rounded up: `1500m`, `0.5`, `1e3`, `128Mi`. `None`: it is
/// none, negative, or too large for any cluster.
pub fn quantity(text: &str) -> Option<u128> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits: u128 = format!("{integer}{fraction}").parse().ok()?;
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().zip(1..);
    let decimal = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().zip(-3..);
    let mut powers = binary.map(|(unit, power)| (unit, 10 * power, 0));
    let mut tens = decimal.map(|(unit, power)| (unit, 0, 3 * power));
    let unit = powers.find(|(unit, ..)| **unit == suffix);
    let unit = unit.or_else(|| tens.find(|(unit, ..)| **unit == suffix));
    let (twos, tens): (u32, i32) = match unit {
        Some((_, twos, tens)) => (twos, tens),
        None => (0, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let tens = tens.checked_add(3)?.checked_sub(i32::try_from(fraction.len()).ok()?)?;
    let scaled = digits.checked_mul(1 << twos)?;
    let power = 10u128.checked_pow(tens.unsigned_abs())?;
    if tens < 0 {
        Some(scaled.div_ceil(power))
    } else {
        scaled.checked_mul(power)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("2", Some(2000)),
            ("1500m", Some(1500)),
            ("0.5", Some(500)),
            (".5", Some(500)),
            ("+1.", Some(1000)),
            ("250u", Some(1)),
            ("1n", Some(1)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("128Mi", Some(134_217_728_000)),
            ("129e6", Some(129_000_000_000)),
            ("129E+6", Some(129_000_000_000)),
            ("5e-1", Some(500)),
            ("1E", Some(1_000_000_000_000_000_000_000)),
            ("1Ei", Some(1_152_921_504_606_846_976_000)),
            ("", None),
            ("Mi", None),
            ("-1", None),
            ("1mi", None),
            ("1.2.3", None),
            ("1e", None),
            ("1e99999999999", None),
            ("1e2147483647", None),
            ("9e38", None),
        ] {
            assert_eq!(quantity(text), expected, "{text}");
        }
    }

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"name": "a", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    #[test]
    fn pods_request_what_the_scheduler_counts() {
        let sidecar = |cpu: &str, memory: &str| {
            let mut sidecar = container(cpu, memory);
            sidecar["restartPolicy"] = "Always".into();
            sidecar
        };
        let two = json!([container("100m", "1Mi"), container("0.2", "2Mi"), {"name": "none"}]);
        const MI: u64 = 1 << 20;
        for (spec, cpu, memory) in [
            (json!({"containers": two}), 300, 3 * MI),
            (json!({"containers": [{"name": "a"}]}), 0, 0),
            // Each resource by itself.
            (
                json!({"containers": two, "initContainers": [container("1", "1Mi"), container("500m", "2Mi")]}),
                1000,
                3 * MI,
            ),
            // A sidecar runs with the init containers that follow it, and with the containers.
            (
                json!({"containers": two, "initContainers": [sidecar("50m", "1Mi"), container("1", "1Mi")]}),
                1050,
                4 * MI,
            ),
            (
                json!({"containers": two, "initContainers": [container("1", "1Mi"), sidecar("50m", "1Mi")]}),
                1000,
                4 * MI,
            ),
            (
                json!({"containers": [], "initContainers": [sidecar("1", "1Mi"), sidecar("2", "1Mi")]}),
                3000,
                2 * MI,
            ),
            (
                json!({"containers": two, "overhead": {"cpu": "10m", "memory": "1Mi"}}),
                310,
                4 * MI,
            ),
            (
                json!({"containers": two, "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1m"}}),
                2001,
                3 * MI,
            ),
        ] {
            let read: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            let expected = Amounts {
                cpu,
                memory,
                storage: 0,
            };
            assert_eq!(of_pod(&read), expected, "{spec}");
        }
    }

    #[test]
    fn claims_request_storage() {
        for (spec, storage) in [
            (json!({"resources": {"requests": {"storage": "1Gi"}}}), 1 << 30),
            (json!({"resources": {}}), 0),
            (json!({}), 0),
        ] {
            let read: ClaimSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(of_claim(&read).storage, storage);
        }
    }
}
