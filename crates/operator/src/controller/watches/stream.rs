//! One watch with its own backoff, as a stream of [`WatchItem`]. Each watch has its own task, so a forbidden watch never slows
//! another down.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use api_objects::Readable;
use futures::{Stream, StreamExt};
use kube::api::ApiResource;
use kube::core::{DynamicResourceScope, ObjectMeta, Status};
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::cluster;
use crate::cluster::connection::throttle::spread;
use crate::telemetry::test_limit;

/// Objects in one page of a list. Full objects are large while they are decoded.
const PAGE: u32 = 100;
const METADATA_PAGE: u32 = 500;

/// An item of a watch.
pub enum WatchItem<K> {
    /// A list begins. What it does not contain is gone when it ends.
    ListStarts,
    Listed(K),
    ListEnds {
        /// True if the watch works. After a refused watch with an accepted list, a new list is no proof.
        proven: bool,
    },
    Changed(K),
    Deleted(K),
    /// A listed or changed object cannot be read: the metadata that identifies it.
    Unreadable(Box<ObjectMeta>),
    /// The watch failed and is retried automatically.
    Failed {
        error: String,
        /// True if the list failed.
        listing: bool,
        /// How long the API server has refused the watch permanently. Earlier items may be outdated: a new list follows.
        refused: Option<Duration>,
    },
    /// After a failure: the watch itself has worked for [`STEADY`].
    Steady,
}

/// The shortest and the longest pause after a failure; it doubles from one to the next.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// A watch without failure for this long works.
const STEADY: Duration = Duration::from_secs(10);

/// Server errors that last longer than this count as a refusal.
const GRACE: Duration = Duration::from_secs(60);

/// After this long, releases report a refused watch that they need.
pub const REPORTED_AFTER: Duration = Duration::from_secs(15);

/// The time limit for a page of a list: a connection can stall in the middle.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The state of a watch.
struct Watching<S, B> {
    /// The watched URL, for the log.
    url: String,
    /// Starts a new watch with a list.
    begin: B,
    events: Pin<Box<S>>,
    /// Between the beginning and the end of a list.
    listing: bool,
    /// Failures since the last change or steady phase. (kube's own backoff restarts with every list.)
    failures: u32,
    pause: Duration,
    /// Since when it fails, and when it counts as steady.
    failing: Option<Instant>,
    steady: Option<Instant>,
    /// Since when it is refused.
    refused: Option<Instant>,
    /// The watch is refused, but not the list.
    shaky: bool,
    /// The resourceVersion was too old. Once is no failure.
    expired: bool,
}

/// Watches an API, optionally with a label selector. The stream never ends.
pub fn watch<K>(api: Api<K>, labels: Option<&str>, metadata_only: bool) -> impl Stream<Item = WatchItem<K>> + Send
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Readable
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let mut config = watcher::Config::default().page_size(if metadata_only { METADATA_PAGE } else { PAGE });
    if let Some(labels) = labels {
        config = config.labels(labels);
    }
    let url = api.resource_url().to_owned();
    let begin = move || Box::pin(watcher(api.clone(), config.clone()));
    let watching = Watching {
        url,
        events: begin(),
        begin,
        listing: false,
        failures: 0,
        pause: Duration::ZERO,
        failing: None,
        steady: None,
        refused: None,
        shaky: false,
        expired: false,
    };
    futures::stream::unfold(watching, |mut watching| async move {
        let news = watching.next().await?;
        Some((news, watching))
    })
}

impl<K, S, B> Watching<S, B>
where
    K: Resource + Readable,
    S: Stream<Item = watcher::Result<watcher::Event<K>>>,
    B: Fn() -> Pin<Box<S>>,
{
    async fn next(&mut self) -> Option<WatchItem<K>> {
        loop {
            tokio::time::sleep(std::mem::take(&mut self.pause)).await;
            let deadline = if self.listing {
                Some(Instant::now() + PAGE_TIMEOUT)
            } else {
                self.steady
            };
            let next = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, self.events.next()).await,
                None => Ok(self.events.next().await),
            };
            let news = match next {
                Ok(Some(Ok(event))) => Some(self.read_event(event)),
                Ok(Some(Err(error))) => self.broken(&error),
                Ok(None) => return None,
                Err(_) if self.listing => Some(self.stuck()),
                Err(_) => self.is_steady().then_some(WatchItem::Steady),
            };
            if news.is_some() {
                return news;
            }
        }
    }

    fn read_event(&mut self, event: watcher::Event<K>) -> WatchItem<K> {
        match event {
            watcher::Event::Init => {
                self.listing = true;
                WatchItem::ListStarts
            }
            watcher::Event::InitDone => {
                self.listing = false;
                let is_doubted = self.failing.is_some() || self.expired;
                self.steady = is_doubted.then(|| Instant::now() + STEADY);
                let proven = !self.shaky;
                WatchItem::ListEnds { proven }
            }
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) if object.problem().is_some() => {
                unreadable(&self.url, &object)
            }
            watcher::Event::InitApply(object) => WatchItem::Listed(object),
            watcher::Event::Apply(object) => {
                self.failures = 0;
                WatchItem::Changed(object)
            }
            watcher::Event::Delete(object) => {
                self.failures = 0;
                WatchItem::Deleted(object)
            }
        }
    }

    fn broken(&mut self, error: &watcher::Error) -> Option<WatchItem<K>> {
        if is_expired(error) && !self.expired {
            // No failure: usually a restarted server, which requires a new list.
            tracing::debug!(%error, "the watch relists");
            // kube's watcher relists only after the watch has begun, and otherwise retries with the same version.
            self.events = (self.begin)();
            self.expired = true;
            self.steady = None;
            self.pause = SHORTEST;
            return None;
        }
        let listing = matches!(error, watcher::Error::InitialListFailed(_));
        let retry_after = cause(error).and_then(cluster::Error::retry_after);
        let retry_after = retry_after.map(|retry_after| spread(retry_after, (&self.url, self.failures)));
        self.fail(listing, answer(error).map(|status| status.code), retry_after);
        let refused = self.refused.map(|since| since.elapsed());
        if refused.is_some() {
            self.shaky = !listing;
        }
        if refused.is_some() && !listing {
            self.events = (self.begin)();
        }
        Some(WatchItem::Failed {
            listing,
            error: text(error),
            refused,
        })
    }

    /// Handles a list that does not end.
    fn stuck(&mut self) -> WatchItem<K> {
        self.fail(true, None, None);
        self.events = (self.begin)();
        WatchItem::Failed {
            error: format!("the API server did not end its list within {PAGE_TIMEOUT:?}"),
            listing: true,
            refused: None,
        }
    }
}

impl<S, B> Watching<S, B> {
    /// Records a failure, with the status code of the API server. `retry_after`: the wait that it requested.
    fn fail(&mut self, listing: bool, answered: Option<u16>, retry_after: Option<Duration>) {
        let now = Instant::now();
        let since = *self.failing.get_or_insert(now);
        self.pause = pause(self.failures).max(retry_after.unwrap_or_default());
        self.failures = self.failures.saturating_add(1);
        self.listing = false;
        let is_refusal = match answered {
            // Forbidden, not served, or not watchable.
            Some(403..=405) => true,
            // Repeatedly expired.
            Some(410) if self.expired => true,
            Some(_) => now - since >= GRACE,
            // No response: the status could not be reported either.
            None => false,
        };
        if is_refusal {
            self.refused.get_or_insert(now);
        }
        // A resumed watch counts as steady by time; after a list, its end sets the timer.
        let goes_on = !listing && self.refused.is_none();
        self.steady = goes_on.then(|| now + self.pause + STEADY);
    }

    /// Ends a failure after steady work. True if it failed before.
    fn is_steady(&mut self) -> bool {
        self.steady = None;
        self.refused = None;
        self.shaky = false;
        self.expired = false;
        self.failures = 0;
        self.failing.take().is_some()
    }
}

/// Logs an unreadable object; the others are still read.
fn unreadable<K: Resource + Readable>(kind: &str, object: &K) -> WatchItem<K> {
    let metadata = object.meta().clone();
    tracing::warn!(
        url = kind,
        namespace = metadata.namespace,
        name = metadata.name,
        error = object.problem().unwrap_or_default(),
        "an object can't be read; it is left out"
    );
    WatchItem::Unreadable(Box::new(metadata))
}

fn pause(failures: u32) -> Duration {
    let longest = test_limit("CHARTWRIGHT_TEST_LONGEST_PAUSE_MS").map_or(LONGEST, Duration::from_millis);
    SHORTEST.saturating_mul(1 << failures.min(10)).min(longest)
}

/// True if the resourceVersion of a watch is too old.
fn is_expired(error: &watcher::Error) -> bool {
    !matches!(error, watcher::Error::InitialListFailed(_)) && answer(error).is_some_and(|status| status.code == 410)
}

fn request_error(error: &watcher::Error) -> Option<&kube::Error> {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(error),
        _ => None,
    }
}

/// What the API server answered, if it did.
fn answer(error: &watcher::Error) -> Option<&Status> {
    match (error, request_error(error)) {
        (watcher::Error::WatchError(status), _) | (_, Some(kube::Error::Api(status))) => Some(status),
        _ => None,
    }
}

/// What our own layers say of a watch that fails.
fn cause(error: &watcher::Error) -> Option<&cluster::Error> {
    match request_error(error)? {
        kube::Error::Service(error) => error.downcast_ref(),
        _ => None,
    }
}

/// The API server's own words where there are some.
fn text(error: &watcher::Error) -> String {
    match (cause(error), answer(error)) {
        (Some(cause), _) => cause.to_string(),
        (None, Some(status)) if !status.message.is_empty() => status.message.clone(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::testing::widgets;
    use api_objects::Whole;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let pauses: Vec<_> = (0..9).map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
        assert_eq!(pause(u32::MAX), LONGEST);
    }

    type ObservedNews = (Vec<&'static str>, Vec<u64>);

    /// The news from a server whose n-th list or watch (from 0) gets these codes, and at which seconds lists end and
    /// fail.
    async fn observe_news(answers: impl Fn(bool, usize) -> u16 + Clone + Send + 'static, news: usize) -> ObservedNews {
        let counts = std::sync::Arc::new(std::sync::Mutex::new([0, 0]));
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let watches = request.uri().query().unwrap_or_default().contains("watch=true");
            let count = {
                let mut counts = counts.lock().unwrap();
                let count = &mut counts[usize::from(watches)];
                *count += 1;
                *count - 1
            };
            let code = answers(watches, count);
            async move {
                let list = r#"{"kind": "WidgetList", "apiVersion": "a.test/v1", "metadata": {"resourceVersion": "7"},
                    "items": []}"#;
                let refusal = format!(
                    r#"{{"kind": "Status", "apiVersion": "v1", "metadata": {{}}, "status": "Failure", "message": "no",
                    "reason": "None", "code": {code}}}"#
                )
                .replace('\n', "");
                // It stays open for a minute.
                let open = watches && code == 200;
                let (status, body) = match code {
                    200 => (200, list.to_owned()),
                    // Within a watch that began well.
                    410 => (200, format!(r#"{{"type": "ERROR", "object": {refusal}}}"#)),
                    code => (code, refusal),
                };
                let frames = futures::stream::once(async move {
                    if open {
                        tokio::time::sleep(Duration::from_secs(60)).await;
                    }
                    let text = if open { String::new() } else { body };
                    Ok::<_, std::io::Error>(http_body::Frame::data(bytes::Bytes::from(text)))
                });
                let body = http_body_util::BodyExt::boxed_unsync(http_body_util::StreamBody::new(frames));
                Ok::<_, std::convert::Infallible>(http::Response::builder().status(status).body(body).unwrap())
            }
        });
        let api = widgets().api_in::<Whole>(&kube::Client::new(service, "shop"), None);
        let begun = Instant::now();
        let all: Vec<_> = watch(api, None, false)
            .filter(|news| futures::future::ready(!matches!(news, WatchItem::ListStarts)))
            .map(|news| {
                let name = match news {
                    WatchItem::ListEnds { proven: true } => "listed",
                    WatchItem::ListEnds { proven: false } => "only listed",
                    WatchItem::Failed {
                        refused: Some(_),
                        listing: true,
                        ..
                    } => "list refused",
                    WatchItem::Failed { refused: Some(_), .. } => "refused",
                    WatchItem::Failed { .. } => "failed",
                    WatchItem::Steady => "steady",
                    _ => "else",
                };
                (name, begun.elapsed().as_secs())
            })
            .take(news)
            .collect()
            .await;
        all.into_iter().unzip()
    }

    /// Behaves as a restarted server: it lists, and does not know earlier versions.
    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_too_old_is_no_failure_unless_it_always_is() {
        let once = |watches, count| if watches && count == 0 { 410 } else { 200 };
        assert_eq!(observe_news(once, 2).await.0, ["listed", "listed"]);
        let always = |watches, _| if watches { 410 } else { 200 };
        let (news, seconds) = observe_news(always, 10).await;
        assert_eq!(news[..2], ["listed", "listed"]);
        assert_eq!(news[2..], ["refused", "only listed"].repeat(4));
        assert!(seconds[9] >= 7, "{seconds:?}: ever more seldom");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_refused_begins_anew_with_a_list_and_proves_itself() {
        // It may list, and not watch; then both; a right that is given back counts from then on.
        let (news, seconds) = observe_news(|watches, count| if watches && count < 2 { 403 } else { 200 }, 6).await;
        assert_eq!(
            news,
            ["listed", "refused", "only listed", "refused", "only listed", "steady"]
        );
        assert_eq!(seconds[5] - seconds[4], STEADY.as_secs());
        let (news, _) = observe_news(|watches, count| if !watches && count < 2 { 404 } else { 200 }, 4).await;
        assert_eq!(news, ["list refused", "list refused", "listed", "steady"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_pass_is_no_refusal_until_it_has_lasted() {
        let (news, _) = observe_news(|watches, count| if watches && count < 3 { 503 } else { 200 }, 5).await;
        assert_eq!(news, ["listed", "failed", "failed", "failed", "steady"]);
        let (news, seconds) = observe_news(|watches, _| if watches { 500 } else { 200 }, 10).await;
        let first = news.iter().position(|news| *news == "refused").unwrap();
        assert!((60..130).contains(&seconds[first]), "{news:?} {seconds:?}");
        assert_eq!(news[first + 1], "only listed");
    }

    /// Behaves as a kind with one unreadable object, and one that nests deep.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_cannot_be_read_stops_no_watch() {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            let deep = format!("{}1{}", "{\"a\":".repeat(5000), "}".repeat(5000));
            let body = if request.uri().query().unwrap_or_default().contains("watch=true") {
                r#"{"type":"MODIFIED","object":{"metadata":{"name":"odd","labels":6,"resourceVersion":"8"}}}
            {"type":"MODIFIED","object":{"metadata":{"name":"plain","resourceVersion":"9"}}}
            "#
                .to_owned()
            } else {
                r#"{"kind": "WidgetList", "apiVersion": "a.test/v1", "metadata": {"resourceVersion": "7"},
            "items": [{"metadata": {"name": "odd", "labels": 5}}, {"metadata": {"name": "deep"}, "spec": DEEP},
            {"metadata": {"name": "plain"}}]}"#
                    .replace("DEEP", &deep)
            };
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(body.into_bytes())))
        });
        let api = widgets().api_in::<Whole>(&kube::Client::new(service, "shop"), None);
        let name = |metadata: &ObjectMeta| metadata.name.clone().unwrap_or_default();
        let observed = watch(api, None, false).take(7).map(|news| match news {
            WatchItem::ListStarts => "begins".to_owned(),
            WatchItem::ListEnds { .. } => "ends".to_owned(),
            WatchItem::Steady => "steady".to_owned(),
            WatchItem::Listed(object) => format!("listed {}", name(&object.metadata)),
            WatchItem::Changed(object) => format!("changed {}", name(&object.metadata)),
            WatchItem::Deleted(object) => format!("deleted {}", name(&object.metadata)),
            WatchItem::Unreadable(odd) => format!("unreadable {}", name(&odd)),
            WatchItem::Failed { error, .. } => error,
        });
        let observed: Vec<String> = observed.collect().await;
        assert_eq!(
            observed,
            [
                "begins",
                "unreadable odd",
                "listed deep",
                "listed plain",
                "ends",
                "unreadable odd",
                "changed plain"
            ]
        );
    }
}
