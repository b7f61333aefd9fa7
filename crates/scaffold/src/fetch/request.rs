//! Which chart to fetch, and how.

use std::path::PathBuf;

/// Which chart to fetch.
#[derive(Clone, Debug, Default)]
pub struct ChartRequest {
    /// A folder, an archive, a URL, a reference, or a name.
    pub chart: String,
    /// The repository of a chart that is named: its URL, or Helm's name for it.
    pub repository: Option<String>,
    /// A version, or a constraint; empty: the newest stable one.
    pub version: String,
    /// For the server of the repository, the URL or the registry.
    pub username: Option<String>,
    pub password: String,
    /// For all servers that lead to the chart, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Registries are asked without TLS.
    pub plain_http: bool,
    /// Keys of which one has to have signed the chart.
    pub keyring: Option<PathBuf>,
}
