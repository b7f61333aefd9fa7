//! Watches that end, fall silent or tell late, whatever they are watches of.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http_body::Frame;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::call::{Body, BoxError};

/// What happens to all watches. The counters go up by one each time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    pub gone: usize,
    pub cut: usize,
    pub silent: usize,
    pub silence: Duration,
    pub mute: usize,
    pub late: Duration,
}

/// A watch whose lines pass as `flow` says.
pub fn disturbed(body: Body, mut flow: watch::Receiver<Flow>) -> Body {
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
                    if now.gone > begun.gone {
                        let gone = json!({"type": "ERROR", "object": {
                            "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
                            "message": "too old resource version",
                        }});
                        let _ = sender.send(Ok((Instant::now(), Bytes::from(format!("{gone}\n")))));
                        return;
                    }
                    if now.cut > begun.cut {
                        let _ = sender.send(Err("cut".into()));
                        return;
                    }
                    if now.mute > begun.mute {
                        return sender.closed().await;
                    }
                    if now.silent > begun.silent {
                        tokio::time::sleep(now.silence).await;
                        let _ = sender.send(Err("cut after silence".into()));
                        return;
                    }
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
