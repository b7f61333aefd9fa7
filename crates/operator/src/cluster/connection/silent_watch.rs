//! Watches that fall silent. A connection whose other side is gone, or behind which a proxy has lost the API server,
//! looks like one on which nothing happens; kube would believe in it for five minutes. But API servers send a bookmark
//! about once a minute, which kube's watcher keeps to itself: so the bytes are listened to.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Request;
use http_body::Frame;
use kube::client::Body;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::telemetry::test_limit;

/// A watch that said nothing for this long ends, and begins anew where it was: a little more than two bookmarks
/// (`defaultBookmarkFrequency` of k8s.io/apiserver/pkg/storage/cacher is a minute). A server that sends none is asked
/// again as often, which is one request.
pub const LONGEST_SILENCE: Duration = Duration::from_secs(130);

/// [`LONGEST_SILENCE`]; a test that has no time names another, in whole seconds.
pub(in crate::cluster) fn longest_silence() -> Duration {
    test_limit("CHARTWRIGHT_TEST_SILENCE").map_or(LONGEST_SILENCE, Duration::from_secs)
}

/// True for requests whose answer goes on for as long as it is listened to.
pub(in crate::cluster) fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
}

/// A body that ends when it has been silent for too long.
pub(in crate::cluster) struct Audible {
    body: Body,
    /// How long it may be silent, and when that will have been too long; `None`: for ever.
    limit: Option<(Duration, Pin<Box<Sleep>>)>,
    /// The request is under way until its answer is read.
    _permit: Option<OwnedSemaphorePermit>,
}

// === impl Audible ===

impl Audible {
    pub(in crate::cluster) fn new(body: Body, limit: Option<Duration>, permit: Option<OwnedSemaphorePermit>) -> Self {
        let limit = limit.map(|silence| (silence, Box::pin(tokio::time::sleep(silence))));
        Audible {
            body,
            limit,
            _permit: permit,
        }
    }
}

impl http_body::Body for Audible {
    type Data = <Body as http_body::Body>::Data;
    type Error = <Body as http_body::Body>::Error;

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
        tracing::debug!("a watch was silent for {silence:?}: it begins anew on another connection");
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::{SinkExt, StreamExt};
    use http_body_util::{BodyStream, StreamBody};

    use super::*;
    use crate::cluster::connection::answering;

    /// When the answer to a request ends, of which a frame comes after each of these pauses, and then nothing for ever.
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
        let client = answering(kube::Client::new(service, "shop"));
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let begun = Instant::now();
        let mut frames = BodyStream::new(client.send(request).await.unwrap().into_body());
        let all = async { while frames.next().await.is_some() {} };
        let ended = tokio::time::timeout(Duration::from_secs(3600), all).await;
        ended.ok().map(|()| begun.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_ends_that_tells_not_even_bookmarks() {
        let limit = LONGEST_SILENCE;
        assert_eq!(ends("/api/v1/pods?watch=true", &[]).await, Some(limit));
        let bookmarks = &[60, 61, 129];
        assert_eq!(
            ends("/api/v1/pods?limit=5&watch=1", bookmarks).await,
            Some(Duration::from_secs(250) + limit)
        );
        // Others have a bound of their own.
        assert_eq!(ends("/api/v1/pods?watch=false", &[]).await, None);
        assert_eq!(ends("/api/v1/pods", &[]).await, None);
    }
}
