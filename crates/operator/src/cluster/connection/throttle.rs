//! An API server that asks to be left alone for a while (429, or 5xx with `Retry-After`): nobody sleeps through that
//! time. The request fails at once, and whoever made it comes back when the time is over.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use http::{HeaderMap, Response};
use kube::client::Body;
use kube::core::Status;

use crate::cluster::error::{Error, is_denied};

/// Of a message that isn't a `Status`, in bytes.
const LONGEST_TEXT: usize = 200;

tokio::task_local! {
    static ASKED: Cell<Option<Duration>>;
}

/// Carries out a piece of work that may ask, in the end, [`asked_to_wait`].
// An `async fn` would hold the work twice: as its argument, and as what it waits for.
pub fn noticing<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    ASKED.scope(Cell::new(None), work)
}

/// How long the API server asked this piece of work to stay away: the longest time, if it did so more than once.
/// `None` outside [`noticing`].
pub fn asked_to_wait() -> Option<Duration> {
    ASKED.try_with(Cell::get).ok().flatten()
}

/// A while after the time that was asked for, the same for the same asker: those who were all told the same don't come
/// back as one.
pub fn spread(after: Duration, asker: impl Hash) -> Duration {
    let mut hash = DefaultHasher::new();
    asker.hash(&mut hash);
    let percent = hash.finish() % 51;
    after + after.mul_f64(percent as f64 / 100.0)
}

/// Remembers what an error asks for.
pub(in crate::cluster) fn note(error: &Error) {
    if let Some(after) = error.retry_after() {
        // Work that nobody puts off has nobody to remember it for.
        let _ = ASKED.try_with(|asked| asked.set(asked.get().max(Some(after))));
    }
}

/// Lets an answer pass, unless it asks for patience: that is in a header, of which kube's errors tell nothing.
///
/// # Errors
/// [`Error::Throttled`], wrapped as kube wraps what its layers say; or an answer that ends in its middle.
pub(in crate::cluster) async fn told(answer: Response<Body>) -> kube::Result<Response<Body>> {
    let code = answer.status();
    let asks = code.as_u16() == 429 || code.is_server_error();
    // As client-go (rest/request.go, `checkWait`).
    let Some(after) = retry_after(answer.headers()).filter(|_| asks) else {
        return Ok(answer);
    };
    let body = answer.into_body().collect_bytes().await?;
    let message = match serde_json::from_slice::<Status>(&body) {
        // A webhook may say no with any code; it has not to do with the load of the server.
        Ok(status) if is_denied(&status.message) => return Err(kube::Error::Api(Box::new(status))),
        Ok(status) if !status.message.is_empty() => status.message,
        // What refuses requests before they are looked at writes plain text.
        _ => String::from_utf8_lossy(&body)
            .trim()
            .chars()
            .take(LONGEST_TEXT)
            .collect(),
    };
    let message = match message.is_empty() {
        true => format!("status {code}"),
        false => message,
    };
    Err(kube::Error::Service(Box::new(Error::Throttled { message, after })))
}

/// In seconds, the only form that API servers use.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim().parse();
    seconds.ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::connection::{answering, bounded};

    /// What a request comes to that is answered like this, and how long its caller is asked to wait.
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
        let client = answering(kube::Client::new(service, "shop"));
        noticing(async {
            let error = bounded(client.apiserver_version()).await.unwrap_err();
            (error, asked_to_wait())
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_asked_to_wait_is_told_at_once() {
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
            (404, Some("9"), status(404, "nobody"), None, "not served: nobody"),
        ] {
            let (error, asked) = answered(code, after, &body).await;
            assert_eq!(
                (error.to_string().as_str(), asked),
                (words, expected),
                "{code} {after:?}"
            );
        }
        let no = status(429, "admission webhook \"a.b\" denied the request: no");
        let (error, asked) = answered(429, Some("5"), &no).await;
        assert!(
            matches!(error, Error::Denied(_)) && asked.is_none(),
            "{error:?} {asked:?}"
        );
        assert_eq!(begun.elapsed(), Duration::ZERO, "nobody slept");
    }

    #[test]
    fn those_who_are_told_the_same_come_back_at_different_times() {
        let asked = Duration::from_secs(4);
        let times: std::collections::BTreeSet<Duration> = (0..100).map(|asker| spread(asked, asker)).collect();
        assert!(times.len() > 30, "{times:?}");
        assert!(
            times.iter().all(|time| (asked..=asked * 3 / 2).contains(time)),
            "{times:?}"
        );
        assert_eq!(spread(asked, "a"), spread(asked, "a"));
        assert_eq!(spread(Duration::ZERO, "a"), Duration::ZERO);
    }

    #[tokio::test]
    async fn the_longest_time_counts_and_only_for_who_was_asked() {
        let asked = |seconds| Error::Throttled {
            message: String::new(),
            after: Duration::from_secs(seconds),
        };
        noticing(async {
            for seconds in [2, 9, 3] {
                note(&asked(seconds));
            }
            note(&Error::TimedOut(Duration::from_secs(30)));
            assert_eq!(asked_to_wait(), Some(Duration::from_secs(9)));
            assert_eq!(noticing(async { asked_to_wait() }).await, None);
        })
        .await;
        note(&asked(1));
        assert_eq!(asked_to_wait(), None);
    }
}
