//! Keeps discovery up to date: CustomResourceDefinitions and APIServices that come or go change what can be rendered,
//! applied and watched.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{DynamicObject, PartialObjectMeta};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::shared::Shared;
use super::watching::{News, watch};
use crate::plan::identity::GroupKind;

/// A new CRD is served some time after it is established, and discovery follows later still; each wait counts from the
/// one before.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(150),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// How often discovery is read without the right to watch what changes it.
const POLL: Duration = Duration::from_secs(30);

/// How often it is read while the API server of some group does not answer: discovery has that group again some time
/// after its APIService has changed for the last time. And while the API server itself is not ready.
const POLL_INCOMPLETE: Duration = Duration::from_secs(10);

const KINDS: [(&str, &str); 2] = [
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
];

/// Runs until told to stop.
pub async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let (sender, mut changes) = mpsc::channel::<()>(1);
    let mut tasks = tokio::task::JoinSet::new();
    for (group, kind) in KINDS {
        tasks.spawn(follow(shared.clone(), GroupKind::new(group, kind), sender.clone()));
    }
    drop(sender);
    let mut read = true;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            change = changes.recv() => if change.is_none() { break },
            () = tokio::time::sleep(POLL_INCOMPLETE), if !read || !shared.context.discovery.snapshot().is_complete() => {
                read = shared.refresh_discovery().await;
                continue;
            }
        }
        // A change that comes while we look begins the series anew.
        let mut looks = LOOKS.iter();
        while let Some(wait) = looks.next() {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(*wait) => {}
            }
            read = shared.refresh_discovery().await;
            if changes.try_recv().is_ok() {
                looks = LOOKS.iter();
            }
        }
    }
    tasks.shutdown().await;
}

async fn follow(shared: Arc<Shared>, group_kind: GroupKind, changes: mpsc::Sender<()>) {
    let snapshot = shared.context.discovery.snapshot();
    let Some(resource) = snapshot.preferred(&group_kind) else {
        return;
    };
    let api = shared
        .context
        .discovery
        .api::<PartialObjectMeta<DynamicObject>>(resource, None);
    let mut stream = std::pin::pin!(watch(api, None, true));
    let mut listed = false;
    while let Some(news) = stream.next().await {
        match news {
            News::ListStarts => {}
            // The first list is what discovery has read already.
            News::ListEnds if !listed => listed = true,
            News::Listed(_) if !listed => {}
            News::Listed(_) | News::ListEnds | News::Changed(_) | News::Deleted(_) => {
                // A full channel means that a look is due anyway.
                let _ = changes.try_send(());
            }
            News::Failed { error, .. } => {
                shared.context.metrics.watch_failed(&group_kind.kind);
                tracing::warn!(kind = %group_kind, %error, "watch failed: new kinds are noticed late");
                tokio::time::sleep(POLL).await;
                let _ = changes.try_send(());
            }
        }
    }
}
