//! Random histories: people edit, break and delete, the operator restarts and dies, requests fail. In the end, with all
//! failures gone, the cluster is what the custom resources say. A history that failed stays in `regressions.txt`.

use std::time::Duration;

use anyhow::{Context, Result};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

use crate::faults::call::ApiCall;
use crate::faults::fault::{Fault, FaultPlan};
use crate::faults::watches::WatchEnd;
use crate::histories::history::{ModelHistory, SOURCE, in_virtual_time, writes_a_member};
use crate::model::kinds::{begin_early, end_early};
use crate::model::new_model;
use crate::real_server::release;
use crate::report::{drawn, everything};

/// Two of a kind and namespace, one in another namespace, and one of another kind.
const RELEASES: [&str; 4] = ["a", "b", "yard/a", "gadgets/yard/g"];
const NAMESPACES: [&str; 2] = ["shop", "yard"];
/// Further keys of the watch: none, those that change nothing that is compared, and policies for drift.
const KEYS: [&str; 7] = [
    "",
    "",
    "",
    "  releaseName: '{{ .metadata.name }}'\n  crds: CreateReplace\n  \
       patches: [{target: {kind: ConfigMap}, patch: {metadata: {annotations: {patched: 'yes'}}}}]\n  \
       ignoreDifferences: [{kind: ConfigMap, jsonPointers: [/data/mine], managers: [absent]}]\n",
    "  drift: warn\n",
    "  drift: ignore\n",
    "  rollout: {maxInFlight: 1, maxFailed: 1}\n",
];
const EXTRAS: [&str; 3] = ["one", "two", "three"];

#[derive(Clone, Debug)]
enum HistoryStep {
    Edit(usize, Value),
    Delete(usize),
    ByHand(usize, usize, usize),
    ByOthers(usize, usize, bool),
    Suspend(usize, bool),
    /// A user requests a plan; whether it fails.
    FaultPlan(usize, bool),
    /// What may be looked up in a namespace is written or taken away.
    Source(usize, Option<&'static str>),
    /// Another operator of the same name comes or goes.
    SecondOperator(bool),
    /// A version of a member's kind is not served any more.
    EarlyEnds,
    /// By kill, or (`false`) by SIGTERM.
    Restart(bool),
    OtherChart(bool),
    /// What goes wrong, at which call, how often; and whether only writes on members count.
    Fault(Fault, usize, usize, bool),
    Wait(u64),
}

fn spec() -> impl Strategy<Value = Value> {
    let extras = proptest::sample::subsequence(EXTRAS.to_vec(), 0..=3);
    let color = proptest::sample::select(vec!["blue", "red"]);
    let fail = proptest::bool::weighted(0.1);
    let hooks = proptest::sample::select(vec!["", "", "", "ends", "ends", "fails", "hangs"]);
    let more = (any::<bool>(), any::<bool>(), hooks, proptest::bool::weighted(0.3));
    (color, extras, any::<bool>(), any::<bool>(), fail, more).prop_map(|(color, extra, secret, class, fail, more)| {
        json!({
            "color": color, "extra": extra, "secret": {"enabled": secret, "password": color},
            "priorityClass": {"enabled": class}, "fail": if fail { "on purpose" } else { "" },
            "lookup": if more.0 { SOURCE } else { "" }, "part": more.1, "hooks": more.2,
            "plan": more.3,
        })
    })
}

/// What may go wrong on the model; time costs nothing there.
pub const FAULTS: [Fault; 22] = [
    Fault::Status(403),
    Fault::Status(404),
    Fault::Status(409),
    Fault::Status(410),
    Fault::Status(413),
    Fault::Status(422),
    Fault::Status(429),
    Fault::Status(500),
    Fault::Status(503),
    Fault::Late,
    Fault::CutBefore,
    Fault::CutAfter,
    Fault::Hang,
    Fault::Slow,
    Fault::Watches(WatchEnd::Gone),
    Fault::Watches(WatchEnd::Cut),
    Fault::Watches(WatchEnd::Silent(Duration::from_secs(30))),
    Fault::WatchesLate(Duration::from_secs(3)),
    Fault::Watches(WatchEnd::Mute),
    Fault::WatchesBroken(403, Duration::from_secs(300)),
    Fault::WatchesBroken(404, Duration::from_secs(30)),
    Fault::WatchesBroken(410, Duration::from_secs(120)),
];

fn step() -> impl Strategy<Value = HistoryStep> {
    let release = 0..RELEASES.len();
    let fault = proptest::sample::select(FAULTS.to_vec());
    prop_oneof![
        5 => (release.clone(), spec()).prop_map(|(release, spec)| HistoryStep::Edit(release, spec)),
        1 => release.clone().prop_map(HistoryStep::Delete),
        2 => (release.clone(), 0..4_usize, 0..5_usize).prop_map(|(release, member, what)| HistoryStep::ByHand(release, member, what)),
        1 => (release.clone(), 0..4_usize, any::<bool>()).prop_map(|(release, member, copied)| HistoryStep::ByOthers(release, member, copied)),
        1 => (release.clone(), any::<bool>()).prop_map(|(release, suspended)| HistoryStep::Suspend(release, suspended)),
        1 => (release, proptest::bool::weighted(0.3)).prop_map(|(release, fails)| HistoryStep::FaultPlan(release, fails)),
        2 => (0..NAMESPACES.len(), proptest::sample::select(vec![None, Some("first"), Some("second")]))
            .prop_map(|(namespace, word)| HistoryStep::Source(namespace, word)),
        1 => any::<bool>().prop_map(HistoryStep::SecondOperator),
        1 => Just(HistoryStep::EarlyEnds),
        2 => any::<bool>().prop_map(HistoryStep::Restart),
        1 => any::<bool>().prop_map(HistoryStep::OtherChart),
        3 => (fault.clone(), 1..20_usize, 1..4_usize).prop_map(|(fault, position, times)| HistoryStep::Fault(fault, position, times, false)),
        3 => (fault, 1..6_usize, 1..4_usize).prop_map(|(fault, position, times)| HistoryStep::Fault(fault, position, times, true)),
        4 => prop_oneof![Just(1), Just(20), Just(400), Just(3_000), Just(40_000)].prop_map(HistoryStep::Wait),
    ]
}

async fn run(keys: &'static str, steps: &[HistoryStep]) -> Result<()> {
    let model = new_model();
    if steps.iter().any(|step| matches!(step, HistoryStep::EarlyEnds)) {
        begin_early(&model);
    }
    model.store().deletions_take = Duration::from_millis(50);
    let mut history = ModelHistory::begin_on_with_keys(model, keys).await?;
    for step in steps {
        match step {
            HistoryStep::Edit(release, spec) => history.edit(RELEASES[*release], spec.clone()).await?,
            HistoryStep::Delete(release) => history.delete(RELEASES[*release]).await?,
            HistoryStep::ByHand(release, member, what) => {
                let member = ["main", "one", "two", "three"][*member];
                let name = format!("{}-{member}", RELEASES[*release]);
                history.by_hand(&name, *what).await?;
            }
            HistoryStep::ByOthers(release, member, copied) => {
                let release = RELEASES[*release];
                let name = match copied {
                    true => format!("{release}copy"),
                    false => format!("{release}-{}", ["main", "one", "two", "three"][*member]),
                };
                let from = format!("{release}-main");
                history.by_others(&name, copied.then_some(from.as_str())).await?;
            }
            HistoryStep::Suspend(release, suspended) => history.suspend(RELEASES[*release], *suspended).await?,
            HistoryStep::FaultPlan(release, fails) => {
                history
                    .run_plan(RELEASES[*release], if *fails { "fails" } else { "ends" })
                    .await?;
            }
            HistoryStep::Source(namespace, word) => history.source(NAMESPACES[*namespace], *word).await?,
            HistoryStep::SecondOperator(runs) => history.set_second_operator(*runs).await?,
            HistoryStep::EarlyEnds => end_early(&history.model),
            HistoryStep::Restart(killed) => history.restart(*killed).await?,
            HistoryStep::OtherChart(killed) => history.other_chart(*killed).await?,
            HistoryStep::Fault(fault, position, times, members) => {
                let members = *members;
                let counts = move |call: &ApiCall| !members || writes_a_member(call);
                history.set_plan(FaultPlan::new(*fault, *position, *times, counts));
            }
            HistoryStep::Wait(milliseconds) => tokio::time::sleep(Duration::from_millis(*milliseconds)).await,
        }
    }
    history.end().await
}

#[test]
fn any_history_converges_to_the_custom_resources() -> Result<()> {
    let cases = if everything() { 2_000 } else { 40 };
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture/regressions.txt");
    let file = FileFailurePersistence::Direct(file);
    let keys = proptest::sample::select(KEYS.to_vec());
    let histories = (keys, proptest::collection::vec(step(), 1..25));
    let run = async |(keys, steps): &(&'static str, Vec<HistoryStep>)| run(keys, steps).await;
    drawn("histories", cases, Some(Box::new(file)), &histories, run)
}

/// Those that once failed, as they were found: they stay the same when what is drawn changes.
#[test]
fn earlier_failed_histories_pass() -> Result<()> {
    let spec = |extra: &[&str]| release::spec("blue", extra, false);
    let mut with_class = spec(&[]);
    with_class["priorityClass"]["enabled"] = true.into();
    let mut of_two = spec(&["one", "two"]);
    of_two["priorityClass"]["enabled"] = true.into();
    let mut with_part = spec(&[]);
    with_part["part"] = true.into();
    let mut class_and_part = with_class.clone();
    class_and_part["part"] = true.into();
    let histories = [
        // The operator ends before its silent watches show that a custom resource is gone in spite of its finalizer.
        vec![
            HistoryStep::Edit(0, class_and_part.clone()),
            HistoryStep::Fault(Fault::Watches(WatchEnd::Silent(Duration::from_secs(30))), 3, 2, true),
            HistoryStep::Delete(0),
            HistoryStep::Wait(3_000),
            HistoryStep::Restart(false),
        ],
        // Watches are silent while a custom resource is deleted and created again, and a request is refused.
        vec![
            HistoryStep::Edit(0, class_and_part),
            HistoryStep::Fault(Fault::Watches(WatchEnd::Silent(Duration::from_secs(30))), 3, 2, true),
            HistoryStep::Delete(0),
            HistoryStep::Fault(Fault::Status(403), 1, 1, false),
            HistoryStep::Edit(0, spec(&[])),
            HistoryStep::Delete(0),
        ],
        // The operator ends while it waits for an answer, and a custom resource is gone in spite of its finalizer.
        vec![
            HistoryStep::Edit(1, of_two),
            HistoryStep::Delete(1),
            HistoryStep::Fault(Fault::Hang, 3, 3, true),
            HistoryStep::Wait(3_000),
            HistoryStep::Restart(false),
        ],
        // The operator ends in the moment in which a custom resource goes in spite of its finalizer.
        vec![
            HistoryStep::Edit(1, with_class.clone()),
            HistoryStep::Delete(1),
            HistoryStep::Restart(false),
        ],
        // The same, and the operator waits for an answer until then.
        vec![
            HistoryStep::Fault(Fault::Slow, 14, 2, false),
            HistoryStep::Edit(1, with_class),
            HistoryStep::Delete(1),
            HistoryStep::Restart(false),
        ],
        // A version goes, and with it the watch that shows a member which the next edit drops.
        vec![
            HistoryStep::Edit(0, spec(&[])),
            HistoryStep::Edit(2, with_part.clone()),
            HistoryStep::Suspend(0, true),
            HistoryStep::EarlyEnds,
            HistoryStep::Edit(2, spec(&[])),
        ],
        // The same before the CustomResourceDefinitions were listed, which is refused at first.
        vec![
            HistoryStep::Fault(Fault::Status(410), 1, 1, true),
            HistoryStep::Wait(1),
            HistoryStep::Edit(0, with_part.clone()),
            HistoryStep::EarlyEnds,
            HistoryStep::Fault(Fault::Status(403), 1, 1, false),
        ],
        // A LIST that is never answered.
        vec![
            HistoryStep::Fault(Fault::Hang, 7, 2, false),
            HistoryStep::Edit(0, spec(&[])),
            HistoryStep::Wait(1),
        ],
        // Another client takes the name of a member while its release is recreated.
        vec![
            HistoryStep::Edit(1, spec(&[])),
            HistoryStep::Wait(1),
            HistoryStep::Delete(1),
            HistoryStep::Edit(1, spec(&[])),
            HistoryStep::ByOthers(1, 0, false),
        ],
        // The answer to a write shows an edit before its watch does.
        vec![
            HistoryStep::Edit(1, spec(&[])),
            HistoryStep::Fault(Fault::WatchesLate(Duration::from_secs(3)), 1, 1, false),
            HistoryStep::ByOthers(1, 0, false),
            HistoryStep::Wait(1),
            HistoryStep::Edit(1, spec(&["three"])),
        ],
        // A watch that is refused its version at its beginning, after it was cut.
        vec![
            HistoryStep::Edit(1, spec(&[])),
            HistoryStep::Fault(Fault::WatchesBroken(410, Duration::from_secs(120)), 12, 1, false),
            HistoryStep::Delete(1),
            HistoryStep::Wait(400),
            HistoryStep::Edit(1, spec(&[])),
            HistoryStep::Edit(2, spec(&[])),
            HistoryStep::Delete(2),
            HistoryStep::Delete(1),
        ],
    ];
    for steps in &histories {
        in_virtual_time(run("", steps)).with_context(|| format!("{steps:?}"))?;
    }
    Ok(())
}
