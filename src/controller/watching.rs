//! One watch with its own backoff, as a stream of three kinds of news. Broken watches stay with themselves: each has
//! its own task, so that one that is forbidden never slows another down.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use futures::{Stream, StreamExt};
use kube::core::DynamicResourceScope;
use kube::runtime::watcher;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use kube::api::ApiResource;

use crate::cluster;
use crate::telemetry::test_limit;

/// Objects in one page of a list. Full objects are large while they are decoded.
const PAGE: u32 = 100;
const METADATA_PAGE: u32 = 500;

/// What a watch tells.
pub enum News<K> {
    /// A list begins: what it does not repeat is gone when it ends.
    ListStarts,
    Listed(K),
    ListEnds,
    Changed(K),
    Deleted(K),
    /// The watch does not work; it is tried again by itself. `listing`: it has shown nothing yet.
    Failed {
        error: String,
        listing: bool,
    },
}

/// The shortest and the longest pause after a failure; it doubles from one to the next.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60);

/// The longest that one page of a list may take; a connection can fall silent in the middle of it.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);

/// A watch between two pieces of news.
struct Watching<S> {
    events: Pin<Box<S>>,
    /// Between the beginning and the end of a list.
    listing: bool,
    /// Failures since it last showed something. (kube's own backoff begins anew with every attempt to list.)
    failures: u32,
    pause: Duration,
}

/// Watches what an API shows, optionally by a label selector. The stream never ends.
pub fn watch<K>(api: Api<K>, labels: Option<&str>, metadata_only: bool) -> impl Stream<Item = News<K>> + Send
where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
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
    let begin = move || Box::pin(watcher(api.clone(), config.clone()));
    let watching = Watching {
        events: begin(),
        listing: false,
        failures: 0,
        pause: Duration::ZERO,
    };
    futures::stream::unfold((watching, begin), |(mut watching, begin)| async move {
        loop {
            tokio::time::sleep(std::mem::take(&mut watching.pause)).await;
            let next = match watching.listing {
                true => tokio::time::timeout(PAGE_TIMEOUT, watching.events.next()).await,
                false => Ok(watching.events.next().await),
            };
            let Ok(event) = next else {
                watching.pause = pause(watching.failures);
                watching.failures = watching.failures.saturating_add(1);
                watching.events = begin();
                watching.listing = false;
                let error = format!("the API server did not end its list within {PAGE_TIMEOUT:?}");
                return Some((News::Failed { error, listing: true }, (watching, begin)));
            };
            let news = match event? {
                Ok(watcher::Event::Init) => News::ListStarts,
                Ok(watcher::Event::InitApply(object)) => News::Listed(object),
                Ok(watcher::Event::InitDone) => News::ListEnds,
                Ok(watcher::Event::Apply(object)) => News::Changed(object),
                Ok(watcher::Event::Delete(object)) => News::Deleted(object),
                Err(error) if is_expired(&error) => {
                    // No failure, but how a server says that it begins with a list: after it was started anew, as a rule.
                    tracing::debug!(%error, "the watch begins anew with a list");
                    watching.pause = SHORTEST;
                    continue;
                }
                Err(error) => {
                    let asked = cause(&error).and_then(cluster::Error::retry_after);
                    watching.pause = pause(watching.failures).max(asked.unwrap_or_default());
                    watching.failures = watching.failures.saturating_add(1);
                    News::Failed {
                        listing: matches!(error, watcher::Error::InitialListFailed(_)),
                        error: text(&error),
                    }
                }
            };
            if !matches!(news, News::ListStarts | News::Failed { .. }) {
                watching.failures = 0;
            }
            match news {
                News::ListStarts => watching.listing = true,
                News::ListEnds => watching.listing = false,
                _ => {}
            }
            break Some((news, (watching, begin)));
        }
    })
}

fn pause(failures: u32) -> Duration {
    let longest = test_limit("CHARTWRIGHT_TEST_LONGEST_PAUSE_MS").map_or(LONGEST, Duration::from_millis);
    SHORTEST.saturating_mul(1 << failures.min(10)).min(longest)
}

/// True where the server no longer knows the version that a watch would go on from; kube's watcher lists next.
fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchError(status) => status.code == 410,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

/// What our own layers say of a watch that fails.
fn cause(error: &watcher::Error) -> Option<&cluster::Error> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Service(error))
        | watcher::Error::WatchStartFailed(kube::Error::Service(error)) => error.downcast_ref(),
        _ => None,
    }
}

/// The API server's own words where there are some.
fn text(error: &watcher::Error) -> String {
    if let Some(cause) = cause(error) {
        return cause.to_string();
    }
    let api = |error: &kube::Error| match error {
        kube::Error::Api(status) if !status.message.is_empty() => Some(status.message.clone()),
        _ => None,
    };
    let words = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => api(error),
        watcher::Error::WatchError(status) => Some(status.message.clone()),
        _ => None,
    };
    words.unwrap_or_else(|| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let pauses: Vec<_> = (0..9).map(|failures| pause(failures).as_millis()).collect();
        assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
        assert_eq!(pause(u32::MAX), LONGEST);
    }

    /// As a server that was started anew: it lists, and doesn't know the versions of before.
    #[tokio::test(start_paused = true)]
    async fn a_version_that_is_too_old_is_no_failure() {
        let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
            let body = match request.uri().query().unwrap_or_default().contains("watch=true") {
                true => r#"{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Failure", "message": "too old", "reason": "Expired", "code": 410}}"#
                    .replace('\n', ""),
                false => r#"{"kind": "WidgetList", "apiVersion": "a.test/v1", "metadata": {"resourceVersion": "7"},
                    "items": []}"#
                    .to_owned(),
            };
            Ok::<_, std::convert::Infallible>(http::Response::new(kube::client::Body::from(body.into_bytes())))
        });
        let resource = ApiResource {
            group: "a.test".into(),
            version: "v1".into(),
            api_version: "a.test/v1".into(),
            kind: "Widget".into(),
            plural: "widgets".into(),
        };
        let api: Api<kube::api::DynamicObject> = Api::all_with(kube::Client::new(service, "shop"), &resource);
        let begun = tokio::time::Instant::now();
        let news: Vec<_> = watch(api, None, false).take(20).collect().await;
        assert!(!news.iter().any(|news| matches!(news, News::Failed { .. })));
        let lists = news.iter().filter(|news| matches!(news, News::ListEnds)).count() as u32;
        assert_eq!(
            (lists, begun.elapsed().as_millis()),
            (10, u128::from(lists - 1) * SHORTEST.as_millis())
        );
    }
}
