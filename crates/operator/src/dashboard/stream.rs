//! Changes as server-sent events. The first event has the present state, so a page needs no other request.
//!
//! | event | data |
//! |---|---|
//! | `list` | a page of the list |
//! | `release` | one release |
//! | `gone` | nothing: the release no longer exists |
//! | `problem` | why it cannot be read |
//!
//! A stream ends after [`LIFETIME`], and the page opens the next one, which is authorized again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::response::sse::Event;
use futures::stream::{Stream, unfold};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::listing::Board;
use super::reads::{CachedReads, ReleaseView};
use chartwright_core::dashboard::{ListQuery, ReleaseKey, ReleaseRow};

/// The most streams of all clients.
pub(super) const MOST_STREAMS: usize = 32;
/// How long a stream may last.
pub(super) const LIFETIME: Duration = Duration::from_secs(300);
/// The shortest time between two events of the list.
const PACE: Duration = Duration::from_millis(500);
/// The time between two reads of a release whose custom resource does not change: its pods may.
const REREAD: Duration = Duration::from_secs(5);

/// What a stream is about.
pub(super) enum Topic {
    List(ListQuery),
    Release(ReleaseKey),
}

struct TopicFollower {
    topic: Topic,
    board: Arc<Board>,
    reads: Arc<CachedReads>,
    changes: watch::Receiver<u64>,
    /// Name and data of the last event.
    sent: Option<(&'static str, Bytes)>,
    /// The row of the release at the last read.
    row: Option<ReleaseRow>,
    end: Instant,
    _place: OwnedSemaphorePermit,
}

/// Returns the events about a topic until [`LIFETIME`] is over. `place`: the stream's share of [`MOST_STREAMS`].
pub(super) fn follow(
    topic: Topic,
    board: Arc<Board>,
    reads: Arc<CachedReads>,
    place: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let follower = TopicFollower {
        topic,
        changes: board.subscribe(),
        board,
        reads,
        sent: None,
        row: None,
        end: Instant::now() + LIFETIME,
        _place: place,
    };
    unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    })
}

impl TopicFollower {
    /// Waits for the next event. `None`: the time of the stream is over.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if self.sent.is_some() && !self.wait().await {
                return None;
            }
            self.board.note_use();
            let (name, data) = self.read().await;
            let found = (name, data);
            if self.sent.as_ref() == Some(&found) {
                continue;
            }
            let text = String::from_utf8_lossy(&found.1).into_owned();
            self.sent = Some(found);
            return Some(Event::default().event(name).data(text));
        }
    }

    /// Waits until something may have changed. False: the time of the stream is over.
    async fn wait(&mut self) -> bool {
        let end = self.end;
        let changed = async {
            match &self.topic {
                Topic::List(_) => {
                    sleep(PACE).await;
                    // The sender lives as long as the board.
                    let _ = self.changes.changed().await;
                }
                Topic::Release(key) => {
                    let row_changes = async {
                        while self.changes.changed().await.is_ok() {
                            if self.board.row(key) != self.row {
                                return;
                            }
                        }
                        std::future::pending().await
                    };
                    let _ = timeout(REREAD, row_changes).await;
                }
            }
        };
        tokio::select! {
            () = changed => true,
            () = sleep_until(end) => false,
        }
    }

    /// The present state: name and data of its event.
    async fn read(&mut self) -> (&'static str, Bytes) {
        match &self.topic {
            Topic::List(query) => {
                self.changes.mark_unchanged();
                let listing = serde_json::to_vec(&self.board.listing(query));
                ("list", listing.unwrap_or_default().into())
            }
            Topic::Release(key) => {
                self.row = self.board.row(key);
                // Only listed releases are read: a name in a request is not sent to the API server otherwise.
                if self.row.is_none() {
                    return ("gone", Bytes::from_static(b"{}"));
                }
                match self.reads.read(ReleaseView::Release, key).await {
                    Ok(Some(release)) => ("release", release),
                    Ok(None) => ("gone", Bytes::from_static(b"{}")),
                    Err(problem) => ("problem", json!({"error": problem}).to_string().into()),
                }
            }
        }
    }
}
