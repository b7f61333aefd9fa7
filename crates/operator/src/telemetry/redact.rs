//! Redacts the secret values of a release from everything that is emitted during its reconcile.
//!
//! While a reconcile runs, the [`Secrets`] of its release are *entered*: each log line and Event in that time is
//! redacted.

use std::borrow::Cow;
use std::sync::Arc;

pub use chartwright_core::redact::{MARK, Secrets};

tokio::task_local! {
    static CURRENT: Arc<Secrets>;
}

/// Returns the text without the secrets of the release that is being reconciled; unchanged outside a reconcile.
pub fn current(text: &str) -> Cow<'_, str> {
    let clean = CURRENT.try_with(|secrets| secrets.redact(text).into_owned());
    clean.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Redacts what a closure emits.
pub fn during<T>(secrets: &Arc<Secrets>, work: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(secrets.clone(), work)
}

/// Redacts what a future emits. The future moves to the heap; an `async fn` would hold it a second time.
pub fn scope<F: Future>(secrets: &Arc<Secrets>, future: F) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(secrets.clone(), Box::pin(future))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(values: &[&str]) -> Arc<Secrets> {
        let secrets = Arc::new(Secrets::default());
        values.iter().for_each(|value| secrets.learn(value));
        secrets
    }

    #[test]
    fn sets_are_entered_and_left() {
        let (one, other) = (secrets(&["first-secret"]), secrets(&["second-secret"]));
        let text = "first-secret second-secret";
        during(&one, || {
            assert_eq!(current(text), "[redacted] second-secret");
            during(&other, || assert_eq!(current(text), "first-secret [redacted]"));
        });
        assert_eq!(current(text), text);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let work = scope(&one, async {
            tokio::task::yield_now().await;
            current(text).into_owned()
        });
        let aside = async {
            tokio::task::yield_now().await;
            current(text).into_owned()
        };
        let (inside, outside) = runtime.block_on(async { tokio::join!(work, aside) });
        assert_eq!((inside.as_str(), outside.as_str()), ("[redacted] second-secret", text));
    }
}
