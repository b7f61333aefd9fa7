//! Waits until the operator has carried out requests.

use std::time::Duration;

use anyhow::bail;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{RequestArgs, RequestProgress, RequestedKind, Verb, describe};
use crate::cli::release::wait::POLL_INTERVAL;
use crate::cli::stdout::{note, print_line};
use chartwright_core::identity::GroupKind;
use chartwright_watches::text::first_items;

/// Unfinished requests that the error names.
const MOST_NAMED: usize = 5;

/// A request without a result.
struct Pending {
    uid: String,
    name: String,
    /// The last message about it.
    shown: String,
}

/// Requests and their results.
struct Waiting {
    total: usize,
    pending: Vec<Pending>,
    failed: Vec<String>,
}

/// News about a request.
#[derive(Debug, PartialEq, Eq)]
enum RequestNews {
    Done(String),
    Failed(String),
    Waiting(String),
}

impl Waiting {
    /// `failed`: the requests that were not written.
    fn new(group_kind: &GroupKind, written: &[Value], failed: Vec<String>) -> Self {
        let pending = written.iter().map(|object| Pending {
            uid: object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            name: describe(group_kind, object),
            shown: String::new(),
        });
        Waiting {
            total: written.len() + failed.len(),
            pending: pending.collect(),
            failed,
        }
    }

    /// Compares the pending requests with the custom resources of now. Returns what changed.
    fn update(&mut self, verb: Verb, objects: &[Value], token: &str) -> Vec<RequestNews> {
        let mut news = Vec::new();
        let failed = &mut self.failed;
        self.pending.retain_mut(|Pending { uid, name, shown }| {
            let found = objects.iter().find(|object| object["metadata"]["uid"] == uid.as_str());
            let failure = match found.map(|object| verb.progress(object, token)) {
                None => format!("{name} was deleted"),
                Some(RequestProgress::Failed(text)) => format!("{name}: {text}"),
                Some(RequestProgress::Done(text)) => {
                    news.push(RequestNews::Done(format!("{name} {text}")));
                    return false;
                }
                Some(RequestProgress::Waiting(text)) => {
                    if text != *shown {
                        news.push(RequestNews::Waiting(format!("{name}: {text}")));
                        *shown = text;
                    }
                    return true;
                }
            };
            news.push(RequestNews::Failed(failure.clone()));
            failed.push(failure);
            false
        });
        news
    }

    /// The error of the end: what failed, and what is unfinished and why. `None`: all requests are done.
    fn error(&self, unfinished: &str) -> Option<String> {
        let mut lines = self.failed.clone();
        if !self.pending.is_empty() {
            let names = first_items(MOST_NAMED, self.pending.iter().map(|pending| &pending.name));
            let (count, total) = (self.pending.len(), self.total);
            lines.push(format!("{count} of {total} requests {unfinished}: {names}"));
        }
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// Waits until the operator has carried out the requests, and prints each change.
///
/// # Errors
/// Requests failed or did not complete in time: the message names both.
pub(super) async fn wait_for_all(
    kind: &RequestedKind,
    verb: Verb,
    args: &RequestArgs,
    token: &str,
    written: &[Value],
    failed: Vec<String>,
) -> anyhow::Result<()> {
    let until = Instant::now() + args.timeout;
    let mut waiting = Waiting::new(&kind.group_kind, written, failed);
    loop {
        let objects = match kind.read(args).await {
            Ok(objects) => objects,
            Err(error) => {
                let failed = waiting.failed.iter().map(|failure| format!("{failure}\n"));
                bail!("{}{error:#}", failed.collect::<String>())
            }
        };
        let news = waiting.update(verb, &objects, token);
        // The error that follows immediately would repeat the last failures.
        let is_over = waiting.pending.is_empty();
        for line in news {
            match line {
                RequestNews::Done(text) => print_line!("{text}"),
                RequestNews::Failed(_) if is_over => {}
                RequestNews::Failed(text) | RequestNews::Waiting(text) => note!("{text}"),
            }
        }
        if is_over || Instant::now() >= until {
            return match waiting.error(&describe_timeout(args.timeout)) {
                Some(text) => bail!("{text}"),
                None => Ok(()),
            };
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn describe_timeout(timeout: Duration) -> String {
    format!("did not complete within {timeout:?}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, conditions: &Value) -> Value {
        json!({
            "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
            "status": {"lastHandledReconcileAt": "t", "conditions": conditions},
        })
    }

    #[test]
    fn failures_are_reported_when_they_are_known_and_again_in_the_end() {
        let ready = json!([{"type": "Ready", "status": "True", "reason": "Healthy", "message": "fine"}]);
        let stalled = json!([
            {"type": "Ready", "status": "False", "reason": "ValuesInvalid", "message": "why"},
            {"type": "Stalled", "status": "True"},
        ]);
        let slow = json!([{"type": "Ready", "status": "False", "reason": "Progressing", "message": "wait"}]);
        let objects = [object("a", &ready), object("b", &stalled), object("c", &slow)];
        let written: Vec<Value> = objects.iter().cloned().chain([object("d", &ready)]).collect();
        let kind = GroupKind::new("a.test", "Web");
        let mut waiting = Waiting::new(&kind, &written, vec!["Web.a.test shop/e: forbidden".to_owned()]);
        let news = waiting.update(Verb::Reconcile, &objects, "t");
        assert_eq!(
            news,
            [
                RequestNews::Done("Web.a.test shop/a is ready".into()),
                RequestNews::Failed("Web.a.test shop/b: ValuesInvalid: why".into()),
                RequestNews::Waiting("Web.a.test shop/c: Progressing: wait".into()),
                RequestNews::Failed("Web.a.test shop/d was deleted".into()),
            ]
        );
        assert_eq!(
            waiting.update(Verb::Reconcile, &objects, "t"),
            [],
            "each is reported once"
        );
        assert_eq!(
            waiting.error(&describe_timeout(Duration::from_secs(4))).unwrap(),
            "Web.a.test shop/e: forbidden\nWeb.a.test shop/b: ValuesInvalid: why\nWeb.a.test shop/d was deleted\n\
             1 of 5 requests did not complete within 4s: Web.a.test shop/c"
        );
    }

    #[test]
    fn an_error_names_the_first_unfinished_requests() {
        let kind = GroupKind::new("a.test", "Web");
        let written: Vec<Value> = (0..7).map(|at| object(&format!("w{at}"), &Value::Null)).collect();
        let mut waiting = Waiting::new(&kind, &written, Vec::new());
        let text = waiting.error("did not complete").unwrap();
        assert!(
            text.starts_with("7 of 7 requests did not complete: Web.a.test shop/w0, "),
            "{text}"
        );
        assert!(text.ends_with("shop/w4 and 2 more"), "{text}");
        waiting.pending.clear();
        assert_eq!(waiting.error("did not complete"), None);
    }
}
