//! Memcached: a size that people, kubectl and autoscalers set.

use anyhow::{Result, ensure};
use serde_json::json;

use super::{MEMCACHED, System};
use crate::look::says;

#[test]
fn a_size_that_no_chart_takes_is_refused() -> Result<()> {
    let system = System::new("memcached-refused", MEMCACHED)?;
    for size in [0, 6] {
        says(&system.refused("none", json!({"size": size}))?, &["spec.size"])?;
    }
    system.install("cache", json!({}))?;
    ensure!(system.live("cache")?["spec"]["size"] == 1);
    system.end()
}
