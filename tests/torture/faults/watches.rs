//! Watches of any kind that end, fall silent or are late.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fake_apiserver::expired;
use futures::StreamExt;
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::faults::call::{BoxError, CallBody};

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchEnd {
    /// With 410 Gone.
    Gone,
    /// With its connection.
    Cut,
    /// With its connection, after it was silent for so long.
    Silent(Duration),
    /// Never: it stays open and sends nothing any more, not even bookmarks. What is behind the connection is gone.
    Mute,
}

/// What happens to all watches.
#[derive(Clone, Copy, Debug)]
pub struct WatchFlow {
    /// How often all watches have ended by now, and how the last time.
    pub ends: usize,
    pub how: WatchEnd,
    /// The delay of all events.
    pub late: Duration,
}

/// A watch whose lines pass as `flow` says.
pub fn disturbed(body: CallBody, mut flow: watch::Receiver<WatchFlow>) -> CallBody {
    let (sender, receiver) = mpsc::unbounded_channel::<Result<(Instant, Bytes), BoxError>>();
    let begun = *flow.borrow_and_update();
    tokio::spawn(async move {
        let mut frames = BodyStream::new(body);
        let mut line = BytesMut::new();
        loop {
            tokio::select! {
                // The client is gone.
                () = sender.closed() => return,
                frame = frames.next() => {
                    let Some(frame) = frame else { return };
                    let late = flow.borrow().late;
                    match frame.map(Frame::into_data) {
                        Ok(Ok(bytes)) => line.extend_from_slice(&bytes),
                        // Trailers: there are none on a watch.
                        Ok(Err(_)) => {}
                        Err(error) => {
                            let _ = sender.send(Err(error));
                            return;
                        }
                    }
                    // Whole lines only: what is put in between must not tear one.
                    if let Some(end) = line.iter().rposition(|byte| *byte == b'\n') {
                        let _ = sender.send(Ok((Instant::now() + late, line.split_to(end + 1).freeze())));
                    }
                }
                changed = flow.changed() => {
                    if changed.is_err() { return }
                    let now = *flow.borrow_and_update();
                    if now.ends == begun.ends { continue }
                    let last = match now.how {
                        WatchEnd::Gone => Ok((Instant::now(), expired())),
                        WatchEnd::Cut => Err("cut".into()),
                        WatchEnd::Silent(how_long) => {
                            tokio::time::sleep(how_long).await;
                            Err("cut after silence".into())
                        }
                        WatchEnd::Mute => return sender.closed().await,
                    };
                    let _ = sender.send(last);
                    return;
                }
            }
        }
    });
    let lines = futures::stream::unfold(receiver, |mut receiver| async move {
        let line = match receiver.recv().await? {
            Ok((due, line)) => {
                sleep_until(due).await;
                Ok(Frame::data(line))
            }
            Err(error) => Err(error),
        };
        Some((line, receiver))
    });
    StreamBody::new(lines).boxed_unsync()
}
