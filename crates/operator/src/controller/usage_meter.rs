//! Meters the resource requests of releases: samples them once per period, and stores the sums. No reconcile waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use crate::cluster::storage::secrets::MAX_BYTES;
use crate::cluster::storage::usage;
use crate::reconcile::Context;
use chartwright_core::identity::applyset;
use chartwright_core::identity::ownership::owner_of;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::usage::{Counters, Requests, UsageRelease};

const SHORTEST: Duration = Duration::from_secs(1);
/// The wait before the first sample, while the watches list the members.
const LISTS: Duration = Duration::from_secs(10);
/// After this many periods without a sample, the time between is not counted.
const GAP: u32 = 3;

struct UsageMeter {
    context: Arc<Context>,
    period: Duration,
    /// `None`: not read yet.
    counters: Option<Counters>,
    /// When the last sample began and ended.
    last: Option<(Instant, Instant)>,
    /// The last reported error.
    reported: Option<String>,
}

/// Takes a sample in every period. Runs until `stop`.
pub async fn run(context: Arc<Context>, period: Duration, stop: CancellationToken) {
    let period = period.max(SHORTEST);
    let mut meter = UsageMeter {
        context,
        period,
        counters: None,
        last: None,
        reported: None,
    };
    let mut ticks = interval_at(Instant::now() + period.min(LISTS), period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let work = async {
        loop {
            ticks.tick().await;
            let done = meter.meter().await;
            meter.report(done);
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

impl UsageMeter {
    async fn meter(&mut self) -> anyhow::Result<()> {
        let context = &self.context;
        let (namespace, operator) = (&context.settings.own_namespace, &context.settings.operator);
        let what = || format!("ConfigMap {namespace}/{}", usage::config_map_name(operator));
        let counters = match &mut self.counters {
            Some(counters) => counters,
            counters => {
                let stored = usage::read(&context.client, namespace, operator).await;
                let stored = stored.with_context(what)?;
                // Unreadable counters are not overwritten: they may cover years.
                let read = stored.map(|text| Counters::read(&text).map_err(anyhow::Error::msg));
                let read = read.transpose().with_context(what)?;
                counters.insert(read.unwrap_or_else(|| Counters::new(Timestamp::now())))
            }
        };
        let begun = Instant::now();
        let snapshot = context.discovery.snapshot();
        let sample = usage::sample(&context.client, &snapshot, context.settings.namespaces.as_ref()).await?;
        let requested: BTreeMap<UsageRelease, Requests> = sample.by_release(&|id, uid| release_of(context, id, uid));
        let gap = self.period * GAP;
        let last = self.last.filter(|(_, ended)| begun.duration_since(*ended) <= gap);
        let elapsed = last.map(|(before, _)| begun.duration_since(before));
        counters.period = self.period.as_secs();
        counters.take(Timestamp::now(), elapsed, requested, |release| {
            is_there(context, release)
        });
        self.last = Some((begun, Instant::now()));
        for (kind, counted) in counters.of_kinds() {
            let kind = GroupKind::parse(kind);
            context
                .metrics
                .usage
                .set_totals(&kind.group, &kind.kind, counted.into());
        }
        let text = counters.to_text(MAX_BYTES)?;
        let written = usage::write(&context.client, namespace, operator, text).await;
        written.with_context(what)
    }

    /// Logs each new error once, and the recovery.
    fn report(&mut self, done: anyhow::Result<()>) {
        let Err(error) = done else {
            if self.reported.take().is_some() {
                tracing::info!("usage is metered again");
            }
            return;
        };
        self.context.metrics.usage.failures.inc();
        let error = format!("{error:#}");
        if self.reported.as_ref() != Some(&error) {
            tracing::warn!(%error, "usage is not metered; tried again in every period (rights: config/rbac/usage_role.yaml)");
            self.reported = Some(error);
        }
    }
}

/// The release of a member.
fn release_of(context: &Context, id: &ObjectId, uid: Option<&str>) -> Option<UsageRelease> {
    let owner = {
        let members = context.members();
        let live = members.get(id)?;
        uid.is_none_or(|uid| uid == live.uid).then(|| owner_of(id, live))??
    };
    let (kind, key) = context.release(&owner)?;
    Some(UsageRelease {
        kind: kind.to_string(),
        namespace: key.namespace,
        name: key.name,
    })
}

fn is_there(context: &Context, release: &UsageRelease) -> bool {
    let kind = GroupKind::parse(&release.kind);
    context.knows(&applyset::id(
        &release.name,
        &release.namespace,
        &kind.kind,
        &kind.group,
    ))
}
