//! etcd that is restored from a backup: everything is as it was some time ago, in lower versions than were told since.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::history::{History, NAMESPACE, in_virtual_time};

const SECOND: Duration = Duration::from_secs(1);

fn spec(color: &str, extra: &[&str]) -> Value {
    json!({
        "color": color, "extra": extra, "secret": {"enabled": false}, "priorityClass": {"enabled": false}, "fail": "",
    })
}

fn map(history: &History, name: &str) -> Option<Value> {
    let key = ("configmaps", NAMESPACE.to_owned(), name.to_owned());
    history.model.store().objects.get(&key).map(|map| map["data"].clone())
}

async fn await_color(history: &History, color: &str, what: &str) -> Result<()> {
    for _ in 0..120 {
        if map(history, "a-main").is_some_and(|data| data["color"] == color) {
            return Ok(());
        }
        tokio::time::sleep(SECOND).await;
    }
    anyhow::bail!("{what}: {:?}", map(history, "a-main"))
}

#[test]
fn what_a_backup_brings_back_is_believed() -> Result<()> {
    in_virtual_time(async {
        let mut history = History::begin().await?;
        history.edit("a", spec("blue", &["one"])).await?;
        await_color(&history, "blue", "installed").await?;
        tokio::time::sleep(60 * SECOND).await;
        let backup = history.model.store().backup();
        for number in 0..20 {
            let color = format!("red{number}");
            history.edit("a", spec(&color, &["two"])).await?;
            await_color(&history, &color, "edited").await?;
        }
        tokio::time::sleep(60 * SECOND).await;
        ensure!(map(&history, "a-one").is_none() && map(&history, "a-two").is_some());

        history.model.store().restore(backup);
        history.faults().context("no operator")?.end_watches();
        tokio::time::sleep(60 * SECOND).await;
        ensure!(
            map(&history, "a-one").is_some() && map(&history, "a-two").is_none(),
            "what the backup has"
        );
        await_color(&history, "blue", "restored").await?;

        // Versions are still lower than those that the operator knew.
        let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/a-main");
        let patch = json!({"data": {"color": "by hand"}});
        history
            .ask(Method::PATCH, &path, "hand", "application/merge-patch+json", patch)
            .await?;
        await_color(&history, "blue", "put right").await?;
        history.edit("a", spec("green", &["three"])).await?;
        await_color(&history, "green", "edited after that").await?;
        tokio::time::sleep(60 * SECOND).await;
        ensure!(map(&history, "a-one").is_none() && map(&history, "a-three").is_some());
        history.end().await
    })
}
