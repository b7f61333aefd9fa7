//! One watch with its own backoff, as a stream of three kinds of news. Broken watches stay with themselves: each has
//! its own task, so that one that is forbidden never slows another down.

use std::fmt::Debug;

use futures::{Stream, StreamExt};
use kube::core::DynamicResourceScope;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use kube::api::ApiResource;

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
    watcher(api, config).default_backoff().map(|event| match event {
        Ok(watcher::Event::Init) => News::ListStarts,
        Ok(watcher::Event::InitApply(object)) => News::Listed(object),
        Ok(watcher::Event::InitDone) => News::ListEnds,
        Ok(watcher::Event::Apply(object)) => News::Changed(object),
        Ok(watcher::Event::Delete(object)) => News::Deleted(object),
        Err(error) => News::Failed {
            listing: matches!(error, watcher::Error::InitialListFailed(_)),
            error: text(&error),
        },
    })
}

/// The API server's own words where there are some.
fn text(error: &watcher::Error) -> String {
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
