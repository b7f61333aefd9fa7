//! Annotations by which people steer a release or one of its members: ours, Helm's and operator-sdk's.

use std::collections::BTreeMap;

/// On a custom resource: nothing of the release is changed, nor deleted with it, while it is `true`.
pub const SUSPEND: &str = "chartwright.dev/suspend";
/// On a custom resource: its own resync period, as a Go duration.
pub const RECONCILE_PERIOD: &str = "chartwright.dev/reconcile-period";
/// On a custom resource: a new value draws all its random results anew.
pub const REGENERATE: &str = "chartwright.dev/regenerate";
/// On a custom resource, written by us: the Secret that holds its random results.
pub const KEPT: &str = "chartwright.dev/kept-results";
/// On a member or a custom resource: `true` lets something go that a guard holds.
pub const PRUNE: &str = "chartwright.dev/prune";
/// On a member, from Helm: `keep` leaves it behind.
pub const RESOURCE_POLICY: &str = "helm.sh/resource-policy";
const SDK_RECONCILE_PERIOD: &str = "helm.sdk.operatorframework.io/reconcile-period";
/// On a custom resource, from operator-sdk: it stays until every member is gone.
pub const SDK_UNINSTALL_WAIT: &str = "helm.sdk.operatorframework.io/uninstall-wait";

/// Of one object.
pub type Annotations = BTreeMap<String, String>;

/// Go's `strconv.ParseBool`, as operator-sdk reads its annotations; what is no bool is false.
fn is_true(annotations: &Annotations, key: &str) -> bool {
    matches!(
        annotations.get(key).map(String::as_str),
        Some("1" | "t" | "T" | "true" | "TRUE" | "True")
    )
}

pub fn is_suspended(annotations: &Annotations) -> bool {
    is_true(annotations, SUSPEND)
}

/// Whether the custom resource stays until every member is gone; `None` if it doesn't say, or says what is no bool.
pub fn uninstall_wait(annotations: &Annotations) -> Option<bool> {
    let is_false = matches!(
        annotations.get(SDK_UNINSTALL_WAIT).map(String::as_str),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False")
    );
    match is_true(annotations, SDK_UNINSTALL_WAIT) {
        true => Some(true),
        false => is_false.then_some(false),
    }
}

/// The custom resource lets a render without objects prune everything.
pub fn is_prune_allowed(annotations: &Annotations) -> bool {
    is_true(annotations, PRUNE)
}

/// The request to draw random results anew; who acknowledged it repeats its text.
pub fn regenerate(annotations: &Annotations) -> Option<&str> {
    annotations
        .get(REGENERATE)
        .map(String::as_str)
        .filter(|text| !text.is_empty())
}

/// The resync period that a custom resource asks for, as text; ours wins over operator-sdk's.
pub fn reconcile_period(annotations: &Annotations) -> Option<&str> {
    [RECONCILE_PERIOD, SDK_RECONCILE_PERIOD]
        .iter()
        .find_map(|key| annotations.get(*key))
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_read_as_go_reads_them() {
        let with = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        assert!(is_suspended(&with(SUSPEND, "true")) && is_suspended(&with(SUSPEND, "1")));
        for value in ["false", "yes", "", "TrUe"] {
            assert!(!is_suspended(&with(SUSPEND, value)), "{value}");
        }
        for (value, expected) in [("1", Some(true)), ("F", Some(false)), ("never", None)] {
            assert_eq!(uninstall_wait(&with(SDK_UNINSTALL_WAIT, value)), expected, "{value}");
        }
        assert_eq!(reconcile_period(&with(SDK_RECONCILE_PERIOD, "5m")), Some("5m"));
        let mut both = with(SDK_RECONCILE_PERIOD, "5m");
        both.insert(RECONCILE_PERIOD.into(), "1h".into());
        assert_eq!(reconcile_period(&both), Some("1h"));
    }
}
