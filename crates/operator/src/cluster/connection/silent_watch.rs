//! Ends silent watches. A watch on a dead connection looks like a watch without events, and kube keeps it for five minutes.
//! API servers send a bookmark about once a minute. kube's watcher hides bookmarks, so this module watches the bytes.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::cluster::connection::direct::AnswerBody;
use http::Request;
use http_body::Frame;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::telemetry::test_limit;

/// A watch without a byte for this long ends and resumes: slightly more than two bookmark periods
/// (`defaultBookmarkFrequency` of k8s.io/apiserver/pkg/storage/cacher is a minute). A server without bookmarks costs one
/// request per period.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(130);

/// [`LONGEST_SILENCE`], or what a test sets instead, in whole seconds.
pub(in crate::cluster) fn longest_silence() -> Duration {
    test_limit("CHARTWRIGHT_TEST_SILENCE").map_or(LONGEST_SILENCE, Duration::from_secs)
}

/// True for watch requests, whose response does not end.
pub(in crate::cluster) fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// A response body that ends after a long silence.
pub(in crate::cluster) struct MonitoredBody {
    body: AnswerBody,
    /// The longest silence, and the timer for it. `None`: no limit.
    limit: Option<(Duration, Pin<Box<Sleep>>)>,
    /// Held until the response is read.
    _permit: Option<OwnedSemaphorePermit>,
}

impl MonitoredBody {
    pub(in crate::cluster) fn new(
        body: AnswerBody,
        limit: Option<Duration>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let limit = limit.map(|silence| (silence, Box::pin(tokio::time::sleep(silence))));
        MonitoredBody {
            body,
            limit,
            _permit: permit,
        }
    }
}

impl http_body::Body for MonitoredBody {
    type Data = <AnswerBody as http_body::Body>::Data;
    type Error = <AnswerBody as http_body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        let Some((silence, limit)) = &mut self.limit else {
            return frame;
        };
        if frame.is_ready() {
            limit.as_mut().reset(Instant::now() + *silence);
            return frame;
        }
        if limit.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        tracing::debug!("a watch was silent for {silence:?}: resuming it on another connection");
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::{SinkExt, StreamExt};
    use http_body_util::{BodyStream, StreamBody};

    use kube::client::Body;

    use super::*;
    use crate::cluster::connection::with_time_limits;

    /// Returns when a response ends that has a frame after each of these pauses, in seconds, and then nothing.
    async fn ends(uri: &str, pauses: &'static [u64]) -> Option<Duration> {
        let service = tower::service_fn(move |_: Request<Body>| async move {
            let (mut sender, frames) = futures::channel::mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
            tokio::spawn(async move {
                for pause in pauses {
                    tokio::time::sleep(Duration::from_secs(*pause)).await;
                    let _ = sender.send(Ok(Frame::data(Bytes::from_static(b"x")))).await;
                }
                std::future::pending::<()>().await;
            });
            Ok::<_, Infallible>(http::Response::new(StreamBody::new(frames)))
        });
        let client = with_time_limits(kube::Client::new(service, "shop"));
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let begun = Instant::now();
        let mut frames = BodyStream::new(client.send(request).await.unwrap().into_body());
        let all = async { while frames.next().await.is_some() {} };
        let ended = tokio::time::timeout(Duration::from_secs(3600), all).await;
        ended.ok().map(|()| begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_without_bookmarks_ends() {
        let limit = LONGEST_SILENCE;
        assert_eq!(ends("/api/v1/pods?watch=true", &[]).await, Some(limit));
        let bookmarks = &[60, 61, 129];
        assert_eq!(
            ends("/api/v1/pods?limit=5&watch=1", bookmarks).await,
            Some(Duration::from_secs(250) + limit)
        );
        // Other requests have another limit.
        assert_eq!(ends("/api/v1/pods?watch=false", &[]).await, None);
        assert_eq!(ends("/api/v1/pods", &[]).await, None);
    }
}
