//! Throttling by the API server (429, or 5xx with `Retry-After`). The request fails immediately instead of sleeping. The
//! caller retries when the time is over.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use kube::core::Status;

use crate::cluster::connection::direct::AnswerBody;
use crate::cluster::error::{Error, is_denied};

/// The longest part of a message that is not a `Status`, in characters.
const LONGEST_TEXT: usize = 200;

/// Adds 0 to 50 % to a wait, always the same for the same key, so that clients with the same wait do not retry together.
pub fn spread(after: Duration, key: impl Hash) -> Duration {
    let mut hash = DefaultHasher::new();
    key.hash(&mut hash);
    let percent = hash.finish() % 51;
    after + after.mul_f64(percent as f64 / 100.0)
}

/// Passes a response through unless it has `Retry-After`. kube's errors do not contain that header.
///
/// # Errors
/// [`Error::Throttled`], wrapped as kube wraps errors of its layers; or a response that ends early.
pub(in crate::cluster) async fn reject_throttled(answer: Response<AnswerBody>) -> kube::Result<Response<AnswerBody>> {
    let code = answer.status();
    let may_throttle = code.as_u16() == 429 || code.is_server_error();
    // As client-go (rest/request.go, `checkWait`).
    let Some(after) = retry_after(answer.headers()).filter(|_| may_throttle) else {
        return Ok(answer);
    };
    let body = answer.into_body().collect().await.map_err(kube::Error::Service)?;
    let body = body.to_bytes();
    let message = match serde_json::from_slice::<Status>(&body) {
        // A webhook may deny with any status code; that is not throttling.
        Ok(status) if is_denied(&status.message) => return Err(kube::Error::Api(Box::new(status))),
        Ok(status) if !status.message.is_empty() => status.message,
        // Priority and Fairness writes plain text.
        _ => String::from_utf8_lossy(&body)
            .trim()
            .chars()
            .take(LONGEST_TEXT)
            .collect(),
    };
    let message = if message.is_empty() {
        format!("status {code}")
    } else {
        message
    };
    Err(kube::Error::Service(Box::new(Error::Throttled { message, after })))
}

/// The header in seconds, the only form that API servers use.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse();
    seconds.ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use kube::client::Body;

    use super::*;
    use crate::cluster::connection::{bounded, with_time_limits};

    /// The error of a request with this response, and the requested wait.
    async fn answered(code: u16, after: Option<&str>, body: &str) -> (Error, Option<Duration>) {
        let (after, body) = (after.map(str::to_owned), body.to_owned());
        let service = tower::service_fn(move |_: http::Request<Body>| {
            let mut answer = Response::builder().status(code);
            if let Some(after) = &after {
                answer = answer.header("Retry-After", after);
            }
            let answer = answer.body(Body::from(body.clone().into_bytes()));
            async { answer }
        });
        let client = with_time_limits(kube::Client::new(service, "shop"));
        let error = bounded(client.apiserver_version()).await.unwrap_err();
        let retry_after = error.retry_after();
        (error, retry_after)
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_requests_fail_immediately_with_the_wait() {
        let begun = tokio::time::Instant::now();
        let status = |code: u16, message: &str| {
            serde_json::json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "x", "code": code,
            })
            .to_string()
        };
        let seconds = |number| Some(Duration::from_secs(number));
        for (code, after, body, expected, words) in [
            (429, Some("7"), status(429, "slow down"), seconds(7), "slow down"),
            // API Priority and Fairness.
            (
                429,
                Some("1"),
                "Too many requests, please try again later.\n".into(),
                seconds(1),
                "Too many requests, please try again later.",
            ),
            (
                503,
                Some(" 30 "),
                String::new(),
                seconds(30),
                "status 503 Service Unavailable",
            ),
            (500, Some("2"), status(500, "etcd"), seconds(2), "etcd"),
            (429, None, status(429, "slow down"), Some(Duration::ZERO), "slow down"),
            (503, None, status(503, "not now"), None, "not now"),
            (
                503,
                Some("Wed, 21 Oct 2026 07:28:00 GMT"),
                status(503, "not now"),
                None,
                "not now",
            ),
            (404, Some("9"), status(404, "missing"), None, "not served: missing"),
        ] {
            let (error, retry_after) = answered(code, after, &body).await;
            assert_eq!(
                (error.to_string().as_str(), retry_after),
                (words, expected),
                "{code} {after:?}"
            );
        }
        let no = status(429, "admission webhook \"a.b\" denied the request: no");
        let (error, retry_after) = answered(429, Some("5"), &no).await;
        assert!(
            matches!(error, Error::Denied(_)) && retry_after.is_none(),
            "{error:?} {retry_after:?}"
        );
        assert_eq!(begun.elapsed(), Duration::ZERO, "no sleep");
    }

    #[test]
    fn equal_waits_are_spread_by_key() {
        let retry_after = Duration::from_secs(4);
        let times: std::collections::BTreeSet<Duration> = (0..100).map(|asker| spread(retry_after, asker)).collect();
        assert!(times.len() > 30, "{times:?}");
        assert!(
            times
                .iter()
                .all(|time| (retry_after..=retry_after * 3 / 2).contains(time)),
            "{times:?}"
        );
        assert_eq!(spread(retry_after, "a"), spread(retry_after, "a"));
        assert_eq!(spread(Duration::ZERO, "a"), Duration::ZERO);
    }
}
