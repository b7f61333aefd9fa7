//! The chart that a status names.

use serde_json::Value;

/// The chart of a release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseChart {
    pub name: String,
    pub version: String,
    pub app_version: String,
}

/// The chart that a status names.
pub fn chart_of(status: &Value) -> Option<ReleaseChart> {
    let text = |field: &str| status["release"][field].as_str().map(str::to_owned);
    Some(ReleaseChart {
        name: text("chart")?,
        version: text("version")?,
        app_version: text("appVersion").unwrap_or_default(),
    })
}
