//! The charts of the previewed releases: those of the watches, or another one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;

use super::select::Target;
use crate::cli::chart::render::load_engine;
use crate::cli::stdout::note;
use chartwright_operator::reconcile::Unit;
use chartwright_scaffold::fetch::{self, ChartRequest, http};
use helm_template::chart::stamp::Stamp;
use helm_template::render::Engine;

/// A chart, ready to render; or why not.
type LoadedChart = Result<(Arc<Engine>, Stamp), String>;

/// Charts, each loaded once.
pub(super) struct Charts {
    /// In the place of every watch's chart.
    other: Option<Arc<Engine>>,
    loaded: HashMap<PathBuf, LoadedChart>,
}

impl Charts {
    /// Loads the chart that is named in the place of the watches' own.
    pub(super) fn new(other: Option<&str>, version: &str) -> anyhow::Result<Self> {
        let other = other.map(|chart| fetch_chart(chart, version)).transpose()?;
        Ok(Charts {
            other,
            loaded: HashMap::new(),
        })
    }

    /// The unit of one release. Each has its own, so that no rollout limit of the watch delays the others.
    pub(super) fn unit(&mut self, target: &Target) -> anyhow::Result<Arc<Unit>> {
        let watch = target.watch.clone();
        let (engine, stamp) = match &self.other {
            // The chart on disk is not the one that is previewed, and does not change it.
            Some(engine) => (engine.clone(), Stamp::of(&watch.chart)),
            None => {
                let loaded = self.loaded.entry(watch.chart.clone());
                let loaded = loaded.or_insert_with(|| load_engine(&watch.chart).map_err(|error| format!("{error:#}")));
                loaded.clone().map_err(anyhow::Error::msg)?
            }
        };
        let (group_kind, resource) = (target.group_kind.clone(), target.resource.clone());
        Ok(Arc::new(Unit::alone(watch, group_kind, resource, engine, stamp)))
    }
}

fn fetch_chart(chart: &str, version: &str) -> anyhow::Result<Arc<Engine>> {
    let request = ChartRequest {
        chart: chart.to_owned(),
        version: version.to_owned(),
        ..ChartRequest::default()
    };
    let shown = http::without_password(chart);
    let fetched = fetch::fetch(&request).with_context(|| format!("--chart {shown}"))?;
    for line in fetched.notes.fetched {
        note!("fetched {line}");
    }
    for line in fetched.notes.left_out {
        note!("warning: {line}");
    }
    let chart = fetched.chart.load().with_context(|| format!("--chart {shown}"))?;
    let engine = Engine::for_releases(chart).map_err(|error| anyhow::anyhow!("--chart {shown}: {error}"))?;
    Ok(Arc::new(engine))
}
