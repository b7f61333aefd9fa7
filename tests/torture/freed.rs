//! Somebody takes the operator's finalizer off a custom resource that stays: it is put on again, whatever the release is
//! like, and nothing else is written.

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::history::{History, MEMBERS, SECOND, in_virtual_time};
use crate::place::Place;

const OURS: &str = "chartwright.dev/release";

fn is_held(history: &History) -> bool {
    let finalizers = history.widget("a").unwrap_or_default()["metadata"]["finalizers"].take();
    finalizers.as_array().is_some_and(|all| all.contains(&OURS.into()))
}

async fn case(fail: &str, restarts: bool) -> Result<()> {
    let mut history = History::begin().await?;
    let mut spec = json!({
        "color": "blue", "extra": ["one"], "secret": {"enabled": true, "password": "x"}, "fail": "",
        "priorityClass": {"enabled": true},
    });
    history.edit("a", spec.clone()).await?;
    tokio::time::sleep(60 * SECOND).await;
    history.is_as_wanted().context("before")?;
    ensure!(is_held(&history), "it has no finalizer");
    if !fail.is_empty() {
        spec["fail"] = fail.into();
        history.edit("a", spec).await?;
        tokio::time::sleep(60 * SECOND).await;
    }
    let since = history.model.store().version();
    let bare = json!({"metadata": {"finalizers": Value::Null}});
    let merge = "application/merge-patch+json";
    history
        .ask(Method::PATCH, &Place::of("a").path(), "user", merge, bare)
        .await?;
    ensure!(!is_held(&history), "it was not taken off");
    if restarts {
        history.restart(true).await?;
    }
    tokio::time::sleep(60 * SECOND).await;
    ensure!(is_held(&history), "its finalizer never comes back");
    let written: Vec<_> = {
        let store = history.model.store();
        let news = store.changes.iter().filter(|change| change.version > since);
        news.filter(|change| MEMBERS.contains(&change.key.0))
            .map(|change| change.key.clone())
            .collect()
    };
    ensure!(written.is_empty(), "written: {written:?}");
    history.end().await
}

#[test]
fn a_finalizer_that_somebody_took_off_comes_back() -> Result<()> {
    for fail in ["", "on purpose"] {
        for restarts in [false, true] {
            let outcome = in_virtual_time(case(fail, restarts));
            outcome.with_context(|| format!("{fail:?}, restarts: {restarts}"))?;
        }
    }
    Ok(())
}
