//! Admits users to `/metrics` or `/dashboard` who have the right, as the API server decides it.
//!
//! Every pod of the cluster may send tokens. An answer of the API server counts for 10 s, and at most [`MAX_REVIEWS`] tokens are
//! reviewed at a time, each for at least [`REVIEW_PAUSE`]: guessed tokens cost the API server a bounded number of requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::sync::lock;
use chartwright_core::access::{AccessVerdict, BearerToken, TokenDigest};

/// How long a verdict counts.
const VERDICT_AGE: Duration = Duration::from_secs(10);

/// The most verdicts that are kept. [`MAX_REVIEWS`] and [`REVIEW_PAUSE`] allow fewer within [`VERDICT_AGE`].
const MAX_VERDICTS: usize = 1024;

/// The most tokens that are reviewed at a time.
const MAX_REVIEWS: usize = 4;

/// The shortest time that a review takes one of [`MAX_REVIEWS`] places.
const REVIEW_PAUSE: Duration = Duration::from_millis(50);

/// How long a request waits for the verdict about its token.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// The log repeats an unchanged failure after this time.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Asks the API server about a token.
pub type Review =
    Arc<dyn Fn(Arc<BearerToken>) -> BoxFuture<'static, Result<AccessVerdict, ReviewFailure>> + Send + Sync>;

/// A token about which the API server gave no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewFailure {
    /// What went wrong, and what to do.
    pub message: String,
    /// True if the next attempt may succeed without a change of the operator's rights.
    pub is_transient: bool,
}

/// Decides about requests by their tokens.
pub(crate) struct AccessGuard {
    review: Review,
    /// The path that the review is about.
    path: &'static str,
    verdicts: Mutex<VerdictCache>,
    reviews: Arc<Semaphore>,
    /// The last failure in the log, and when it was logged.
    logged: Mutex<Option<(String, Instant)>>,
}

/// Recent verdicts. Tokens themselves are not kept.
#[derive(Default)]
struct VerdictCache(HashMap<TokenDigest, (AccessVerdict, Instant)>);

impl AccessGuard {
    /// `path`: what the review is about.
    pub(crate) fn new(review: Review, path: &'static str) -> Self {
        AccessGuard {
            review,
            path,
            verdicts: Mutex::default(),
            reviews: Arc::new(Semaphore::new(MAX_REVIEWS)),
            logged: Mutex::default(),
        }
    }

    /// Decides about a request by its headers.
    ///
    /// # Errors
    /// The answer to a request that is not admitted.
    pub(crate) async fn admit(&self, headers: &HeaderMap) -> Result<(), Response> {
        let values = headers.get_all(header::AUTHORIZATION).iter();
        let Some(token) = BearerToken::from_headers(values.map(HeaderValue::as_bytes)) else {
            return Err(unauthorized("a bearer token is needed\n"));
        };
        let token = Arc::new(token);
        let verdict = timeout(REVIEW_TIMEOUT, self.verdict(&token)).await;
        let verdict = verdict.unwrap_or_else(|_| {
            Err(ReviewFailure {
                message: format!("the API server gave no answer within {REVIEW_TIMEOUT:?}"),
                is_transient: true,
            })
        });
        match verdict {
            Ok(AccessVerdict::Allowed) => Ok(()),
            Ok(AccessVerdict::Unauthenticated) => Err(unauthorized("the token is invalid\n")),
            Ok(AccessVerdict::Denied { user }) => {
                let message = format!("{user} lacks the right to get the non-resource URL {}\n", self.path);
                Err((StatusCode::FORBIDDEN, message).into_response())
            }
            Err(failure) => {
                self.log(&token.remove_from(&failure.message));
                let status = if failure.is_transient {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::INTERNAL_SERVER_ERROR
                };
                Err((
                    status,
                    "the token can't be reviewed: the operator's log has the reason\n",
                )
                    .into_response())
            }
        }
    }

    async fn verdict(&self, token: &Arc<BearerToken>) -> Result<AccessVerdict, ReviewFailure> {
        let digest = token.digest();
        if let Some(verdict) = self.cached(digest) {
            return Ok(verdict);
        }
        let place = self.reviews.clone().acquire_owned().await;
        // Another request with the same token may have been faster.
        if let Some(verdict) = self.cached(digest) {
            return Ok(verdict);
        }
        let place = Arc::new(place);
        let paused = place.clone();
        tokio::spawn(async move {
            sleep(REVIEW_PAUSE).await;
            drop(paused);
        });
        let verdict = (self.review)(token.clone()).await?;
        let mut verdicts = lock(&self.verdicts);
        verdicts.insert(digest, verdict.clone(), Instant::now());
        drop(place);
        Ok(verdict)
    }

    fn cached(&self, digest: TokenDigest) -> Option<AccessVerdict> {
        let verdicts = lock(&self.verdicts);
        verdicts.get(digest, Instant::now())
    }

    fn log(&self, failure: &str) {
        let mut logged = lock(&self.logged);
        let is_known = |(known, at): &(String, Instant)| known == failure && at.elapsed() < FAILURE_PAUSE;
        if !logged.as_ref().is_some_and(is_known) {
            tracing::error!(error = failure, path = self.path, "a request can't be authorized");
            *logged = Some((failure.to_owned(), Instant::now()));
        }
    }
}

impl VerdictCache {
    fn get(&self, digest: TokenDigest, now: Instant) -> Option<AccessVerdict> {
        let (verdict, at) = self.0.get(&digest)?;
        (now < *at + VERDICT_AGE).then(|| verdict.clone())
    }

    fn insert(&mut self, digest: TokenDigest, verdict: AccessVerdict, now: Instant) {
        self.0.retain(|_, (_, at)| now < *at + VERDICT_AGE);
        if self.0.len() >= MAX_VERDICTS {
            let oldest = self.0.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(digest, (verdict, now));
    }
}

/// The answer to a request without a valid token.
pub(crate) fn unauthorized(message: &'static str) -> Response {
    (
        StatusCode::UNAUTHORIZED,
        [(header::WWW_AUTHENTICATE, "Bearer")],
        message,
    )
        .into_response()
}

#[cfg(test)]
mod tests;
