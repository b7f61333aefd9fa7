//! Bounds what the views of single releases cost the API server: few reads at a time, and one read for all who look at a release.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::DashboardSource;
use crate::sync::lock;
use chartwright_core::dashboard::ReleaseKey;

/// Reads at a time.
const READS: usize = 4;
/// How long one read answers.
const AGE: Duration = Duration::from_secs(1);
/// How long a read may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// What was read about a release. `None`: it no longer exists.
type Answer = Result<Option<Bytes>, String>;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ReleaseView {
    Release,
    Values,
    Changes,
}

pub(super) struct CachedReads {
    source: Arc<dyn DashboardSource>,
    places: Semaphore,
    last: Mutex<HashMap<(ReleaseView, ReleaseKey), (Instant, Answer)>>,
}

impl CachedReads {
    pub(super) fn new(source: Arc<dyn DashboardSource>) -> Self {
        CachedReads {
            source,
            places: Semaphore::new(READS),
            last: Mutex::default(),
        }
    }

    /// Reads a view of a release as JSON, or returns the last answer if it is new.
    pub(super) async fn read(&self, view: ReleaseView, key: &ReleaseKey) -> Answer {
        let slot = (view, key.clone());
        if let Some(answer) = self.last(&slot) {
            return answer;
        }
        let Ok(_place) = self.places.acquire().await else {
            return Err("the server ends".to_owned());
        };
        // Another request for the same may have been faster.
        if let Some(answer) = self.last(&slot) {
            return answer;
        }
        let read = async {
            match view {
                ReleaseView::Release => self.source.release(key.clone()).await,
                ReleaseView::Values => self.source.values(key.clone()).await.map(Some),
                ReleaseView::Changes => self.source.changes(key.clone()).await.map(Some),
            }
        };
        let read = timeout(TIMEOUT, read).await;
        let read = read.unwrap_or_else(|_| Err(format!("the API server gave no answer within {TIMEOUT:?}")));
        let answer = read.map(|found| found.map(|value: Value| Bytes::from(value.to_string())));
        let mut last = lock(&self.last);
        last.retain(|_, (at, _)| at.elapsed() < AGE);
        last.insert(slot, (Instant::now(), answer.clone()));
        answer
    }

    fn last(&self, slot: &(ReleaseView, ReleaseKey)) -> Option<Answer> {
        let last = lock(&self.last);
        let (at, answer) = last.get(slot)?;
        (at.elapsed() < AGE).then(|| answer.clone())
    }
}
