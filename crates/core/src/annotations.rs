//! Annotations that control a release or one of its members: ours, Helm's and operator-sdk's.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::identity::applyset::{DIGEST_ANNOTATION, TRACKING_ANNOTATION};
use chartwright_watches::{duration, suggestion};

/// On a custom resource: nothing of the release is changed, nor deleted with it, while it is `true`.
pub const SUSPEND: &str = "chartwright.dev/suspend";
/// On a custom resource: its own resync period, as a Go duration.
pub const RECONCILE_PERIOD: &str = "chartwright.dev/reconcile-period";
/// The shortest resync period: a shorter one in an annotation is raised to this.
pub const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
/// On a custom resource: a new value starts a complete reconcile, although nothing changed.
pub const REQUESTED_AT: &str = "chartwright.dev/requested-at";
/// On a custom resource: a new value applies every member once. Members with immutable fields are recreated.
pub const FORCE_AT: &str = "chartwright.dev/force-at";
/// On a custom resource: a new value clears failures and contests, so that no retry is delayed.
pub const RESET_AT: &str = "chartwright.dev/reset-at";
/// On a custom resource: a new value regenerates all its random results.
pub const REGENERATE: &str = "chartwright.dev/regenerate";
/// On a custom resource: a new value, the number of a revision, runs that revision until the spec changes. What follows an
/// `@` only distinguishes two requests.
pub const ROLLBACK_TO: &str = "chartwright.dev/rollback-to";
/// On a custom resource: a new value, `<plan>[@<token>]`, runs a plan.
pub const RUN_PLAN: &str = "chartwright.dev/run-plan";
/// Beside it: `.Plan.Params`, a JSON object.
pub const PLAN_PARAMS: &str = "chartwright.dev/plan-params";
/// On a custom resource: what has to be ready before it is begun or upgraded, as in `dependsOn` of the watch.
pub const DEPENDS_ON: &str = "chartwright.dev/depends-on";
/// On a custom resource that is being deleted: `true` lets it go without its `on-delete` plans.
pub const SKIP_PLANS: &str = "chartwright.dev/skip-plans";
/// On the first step of a plan: when it runs, as five fields of cron.
pub const SCHEDULE: &str = "chartwright.dev/schedule";
/// On the first step of a plan: the zone of its schedule, such as `Europe/Berlin`. Else UTC.
pub const TIME_ZONE: &str = "chartwright.dev/time-zone";
/// On the first step of a plan: how late a run of its schedule may begin, as a Go duration.
pub const STARTING_DEADLINE: &str = "chartwright.dev/starting-deadline";
/// On the first step of a plan: `Forbid` or `Replace`, where it still runs when its schedule asks.
pub const CONCURRENCY: &str = "chartwright.dev/concurrency";
/// On the first step of a plan: how many of its runs the status lists.
pub const HISTORY_LIMIT: &str = "chartwright.dev/history-limit";
/// On the first step of a plan: a path of values; a change there runs it.
pub const RUN_ON_CHANGE: &str = "chartwright.dev/run-on-change";
/// On the first step of a plan: `true`, it runs before the release is installed.
pub const ON_CREATE: &str = "chartwright.dev/on-create";
/// On the first step of a plan: `true`, it runs before the release is deleted.
pub const ON_DELETE: &str = "chartwright.dev/on-delete";
/// On a custom resource, written by us: the Secret that holds its random results.
pub const KEPT: &str = "chartwright.dev/kept-results";
/// On a custom resource, written by us: who had the release before, until everything of theirs is taken over.
pub const TAKEOVER: &str = "chartwright.dev/takeover";
/// On a member or a custom resource: `true` lets something go that a guard holds.
pub const PRUNE: &str = "chartwright.dev/prune";
/// On a member: `InPlace`, `Recreate` or `IfNotPresent`.
pub const UPDATE: &str = "chartwright.dev/update";
/// On a member: `true` allows the operator to recreate it if an immutable field changes.
pub const FORCE: &str = "chartwright.dev/force";
/// On a live member: `disabled` leaves it as it is.
pub const RECONCILE: &str = "chartwright.dev/reconcile";
/// On a live member that existed before its release, written by us: `keep` leaves it behind, `delete` lets it go like other members.
pub const ADOPTED: &str = "chartwright.dev/adopted";
/// On a member: `correct`, `warn` or `ignore`.
pub const DRIFT: &str = "chartwright.dev/drift";
/// On a member: a whole number. Lower waves come first.
pub const WAVE: &str = "chartwright.dev/wave";
/// On a member, a hook or a step of a plan: a condition in CEL over live objects; it is well when that is true.
pub const READY_WHEN: &str = "chartwright.dev/ready-when";
/// On a hook: how long it may take, as a Go duration.
pub const TIMEOUT: &str = "chartwright.dev/timeout";
/// On a hook that runs after an installation or an upgrade: `healthy` lets it wait until all members are.
pub const AFTER: &str = "chartwright.dev/after";
/// On an object that a hook made, written by us: which run of the hook it is.
pub const HOOK_RUN: &str = "chartwright.dev/hook-run";
/// On a live CustomResourceDefinition: the digest of the chart's definition that may replace it.
pub const ALLOW_UNSAFE_CRD: &str = "chartwright.dev/allow-unsafe-crd";
/// On a CustomResourceDefinition of a chart's `crds/`, written by us: the digest of the chart's definition that was applied.
pub const CRD_DIGEST: &str = "chartwright.dev/crd-digest";
/// The same: name and version of the chart.
pub const CRD_CHART: &str = "chartwright.dev/crd-chart";
/// The same: the name of the operator that applied it.
pub const CRD_OPERATOR: &str = "chartwright.dev/crd-operator";
/// On a member, from Helm: `keep` leaves it behind.
pub const RESOURCE_POLICY: &str = "helm.sh/resource-policy";
const SDK_RECONCILE_PERIOD: &str = "helm.sdk.operatorframework.io/reconcile-period";
/// On a custom resource, from operator-sdk: it stays until every member is gone.
pub const SDK_UNINSTALL_WAIT: &str = "helm.sdk.operatorframework.io/uninstall-wait";
const SDK_UPGRADE_FORCE: &str = "helm.sdk.operatorframework.io/upgrade-force";
const SDK_ROLLBACK_FORCE: &str = "helm.sdk.operatorframework.io/rollback-force";

/// What all annotations of ours begin with.
pub const PREFIX: &str = "chartwright.dev/";
/// All of them, on any object: a member may be a custom resource itself.
const KNOWN: [&str; 38] = [
    SUSPEND,
    RECONCILE_PERIOD,
    REQUESTED_AT,
    FORCE_AT,
    RESET_AT,
    REGENERATE,
    ROLLBACK_TO,
    RUN_PLAN,
    PLAN_PARAMS,
    SKIP_PLANS,
    DEPENDS_ON,
    SCHEDULE,
    TIME_ZONE,
    STARTING_DEADLINE,
    CONCURRENCY,
    HISTORY_LIMIT,
    RUN_ON_CHANGE,
    ON_CREATE,
    ON_DELETE,
    KEPT,
    TAKEOVER,
    PRUNE,
    UPDATE,
    FORCE,
    RECONCILE,
    DRIFT,
    ADOPTED,
    WAVE,
    READY_WHEN,
    TIMEOUT,
    AFTER,
    HOOK_RUN,
    ALLOW_UNSAFE_CRD,
    CRD_DIGEST,
    CRD_CHART,
    CRD_OPERATOR,
    TRACKING_ANNOTATION,
    DIGEST_ANNOTATION,
];

/// Of one object.
pub type Annotations = BTreeMap<String, String>;

/// Go's `strconv.ParseBool`, as operator-sdk reads its flags and annotations; `None` for what is no bool.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn is_true(annotations: &Annotations, key: &str) -> bool {
    annotations.get(key).and_then(|text| parse_bool(text)) == Some(true)
}

pub fn is_suspended(annotations: &Annotations) -> bool {
    is_true(annotations, SUSPEND)
}

/// Whether the custom resource stays until every member is gone; `None` if it doesn't say, or says what is no bool.
pub fn uninstall_wait(annotations: &Annotations) -> Option<bool> {
    parse_bool(annotations.get(SDK_UNINSTALL_WAIT)?)
}

/// The revision that a value of [`ROLLBACK_TO`] names; `None` if it names none.
pub fn rollback_to(value: &str) -> Option<i64> {
    let (revision, _) = value.split_once('@').unwrap_or((value, ""));
    revision.trim().parse().ok().filter(|revision| *revision > 0)
}

/// A custom resource that is deleted goes without its `on-delete` plans.
pub fn skips_plans(annotations: &Annotations) -> bool {
    is_true(annotations, SKIP_PLANS)
}

/// The custom resource lets a render without objects prune everything.
pub fn is_prune_allowed(annotations: &Annotations) -> bool {
    is_true(annotations, PRUNE)
}

/// Says of each of these keys that looks like one of ours, and is none, that it has no effect.
pub fn unknown<'k>(keys: impl Iterator<Item = &'k str>) -> Vec<String> {
    let unknown = keys.filter(|key| key.starts_with(PREFIX) && !KNOWN.contains(key));
    let problems = unknown.map(|key| match suggestion(key, KNOWN) {
        Some(best) => format!("{key} is unknown and has no effect: did you mean {best}?"),
        None => format!("{key} is unknown and has no effect"),
    });
    problems.collect()
}

/// Says of an annotation of an object that its value has no effect.
pub fn bad_value(key: &str, value: &str, valid: &str) -> String {
    format!("{key}: {value:?} has no effect: it must be {valid}")
}

/// What stands in the annotations of a custom resource and has not the effect that its author may hope for.
pub fn problems(annotations: &Annotations) -> Vec<String> {
    let mut problems = unknown(annotations.keys().map(String::as_str));
    for key in [
        SUSPEND,
        PRUNE,
        SKIP_PLANS,
        SDK_UNINSTALL_WAIT,
        SDK_UPGRADE_FORCE,
        SDK_ROLLBACK_FORCE,
    ] {
        let Some(value) = annotations.get(key) else { continue };
        if parse_bool(value).is_none() {
            problems.push(format!(
                "{key}: {value:?} counts as \"false\": it must be \"true\" or \"false\""
            ));
        }
    }
    for key in [RECONCILE_PERIOD, SDK_RECONCILE_PERIOD] {
        match annotations.get(key).map(|text| (text, duration::parse(text))) {
            Some((_, Err(error))) => problems.push(format!("{key}: {error}; it has no effect")),
            Some((text, Ok(period))) if !period.is_zero() && period < SHORTEST_PERIOD => {
                problems.push(format!(
                    "{key}: {text:?} counts as {SHORTEST_PERIOD:?}, the shortest period"
                ));
            }
            _ => {}
        }
    }
    if let Some(value) = annotations.get(ROLLBACK_TO)
        && rollback_to(value).is_none()
    {
        problems.push(bad_value(ROLLBACK_TO, value, "the number of a revision"));
    }
    if is_true(annotations, SDK_UPGRADE_FORCE) {
        problems.push(format!(
            "{SDK_UPGRADE_FORCE} has no effect: conflicting fields are always corrected; to let objects be recreated \
             where a field can't be changed, set {FORCE_AT}"
        ));
    }
    problems
}

/// The resync period that a custom resource requests, as text; ours wins over operator-sdk's.
pub fn reconcile_period(annotations: &Annotations) -> Option<&str> {
    [RECONCILE_PERIOD, SDK_RECONCILE_PERIOD]
        .iter()
        .find_map(|key| annotations.get(*key))
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

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

    #[test]
    fn values_without_effect_are_reported() {
        for (key, value, expected) in table::<(String, String, Option<String>)>("annotations", "problems") {
            let found = problems(&BTreeMap::from([(key.clone(), value.clone())]));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{key}={value}: {found:?}");
            let fits = |problem: &String| expected.as_ref().is_some_and(|part| problem.contains(part));
            assert!(
                found.iter().all(|problem| problem.contains(&key) && fits(problem)),
                "{found:?}"
            );
        }
    }
}
