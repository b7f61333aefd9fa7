//! When the API server's schemas changed, by API group.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::lock;

/// The API groups whose schemas have changed, and the time of the last change.
#[derive(Default)]
pub struct Schemas(Mutex<HashMap<String, Instant>>);

/// How long the API server may use an old schema after a change.
const TAKES_EFFECT: Duration = Duration::from_secs(5);

impl Schemas {
    pub fn changed(&self, group: &str) {
        lock(&self.0).insert(group.to_owned(), Instant::now());
    }

    /// True if objects of a group may be judged otherwise than they were at a time.
    pub fn may_judge_otherwise(&self, group: &str, since: Instant) -> bool {
        let changed = lock(&self.0).get(group).copied();
        changed.is_some_and(|changed| since < changed + TAKES_EFFECT)
    }
}
