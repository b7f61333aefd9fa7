//! The charts of the previewed releases: those of the watches, or another one.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use super::select::DiffTarget;
use crate::cli::chart::render::load_engine;
use crate::cli::stdout::note;
use chartwright_operator::reconcile::Unit;
use chartwright_scaffold::fetch::{self, ChartRequest, http};
use helm_template::chart::Chart;
use helm_template::chart::stamp::Stamp;
use helm_template::render::Engine;

/// A chart, ready to render; or why not.
type LoadedChart = Result<(Arc<Engine>, Stamp), String>;

/// Charts, each loaded once.
pub(super) struct DiffCharts {
    /// In the place of every watch's chart.
    other: Option<Arc<Engine>>,
    loaded: HashMap<PathBuf, LoadedChart>,
    /// The names in the charts of the watches. `None`: the chart cannot be read.
    names: HashMap<PathBuf, Option<String>>,
}

impl DiffCharts {
    /// Loads the chart that is named in the place of the watches' own.
    pub(super) fn new(other: Option<&str>, version: &str) -> anyhow::Result<Self> {
        let other = other.map(|chart| fetch_chart(chart, version)).transpose()?;
        Ok(DiffCharts {
            other,
            loaded: HashMap::new(),
            names: HashMap::new(),
        })
    }

    /// Removes the releases that `--chart` is not for. Returns lines about them, and about releases whose chart has another name and that
    /// stay because they were named.
    pub(super) fn keep_same_name(&mut self, choice: Choice, targets: &mut Vec<DiffTarget>) -> Vec<String> {
        let Some(other) = self.other.clone() else {
            return Vec::new();
        };
        let given = other.chart().metadata.name.as_str();
        let used: Vec<UsedChart> = targets
            .iter()
            .map(|target| UsedChart {
                kind: target.group_kind.kind.clone(),
                chart: self.name_of(&target.watch.chart),
            })
            .collect();
        let (kept, lines) = choose(choice, given, &used);
        let mut kept = kept.into_iter();
        targets.retain(|_| kept.next().unwrap_or(true));
        lines
    }

    fn name_of(&mut self, path: &Path) -> Option<String> {
        let read = || Some(Chart::load(path).ok()?.metadata.name);
        self.names.entry(path.to_owned()).or_insert_with(read).clone()
    }

    /// The unit of one release. Each has its own, so that no rollout limit of the watch delays the others.
    pub(super) fn unit(&mut self, target: &DiffTarget) -> anyhow::Result<Arc<Unit>> {
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

/// How the releases of a preview are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// One by one: a kind with a name, or a file.
    Named,
    /// All of one kind.
    AllOfKind,
    /// All of the watches file.
    AllKinds,
}

/// The chart that the watch of a release has.
struct UsedChart {
    kind: String,
    /// `None`: it cannot be read.
    chart: Option<String>,
}

/// Decides for each release whether the chart `given` is meant for it, and returns lines about those with another chart. A chart that cannot
/// be read may have the same name. If no release of a named kind has that chart, the chart was renamed, and all stay.
fn choose(choice: Choice, given: &str, releases: &[UsedChart]) -> (Vec<bool>, Vec<String>) {
    let is_same = |used: &UsedChart| used.chart.as_deref().is_none_or(|chart| chart == given);
    let mut others: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for used in releases.iter().filter(|used| !is_same(used)) {
        let chart = used.chart.as_deref().unwrap_or_default();
        *others.entry((&used.kind, chart)).or_default() += 1;
    }
    let stays = match choice {
        Choice::Named => true,
        Choice::AllOfKind => !releases.iter().any(is_same),
        Choice::AllKinds => false,
    };
    if stays {
        let warning = |(kind, chart): &(&str, &str)| {
            format!("warning: --chart is {given}, and the watch of {kind} has the chart {chart}")
        };
        return (vec![true; releases.len()], others.keys().map(warning).collect());
    }
    let counts: Vec<String> = others
        .iter()
        .map(|((kind, chart), count)| {
            let noun = if *count == 1 { "release" } else { "releases" };
            format!("{count} {noun} of {kind} (chart {chart})")
        })
        .collect();
    let line = format!("--chart is {given}: left out {}", counts.join(", "));
    let lines = if counts.is_empty() { Vec::new() } else { vec![line] };
    (releases.iter().map(is_same).collect(), lines)
}

/// Names the flag and the chart, each once.
fn explain_fetch(error: &anyhow::Error, shown: &str) -> anyhow::Error {
    let text = format!("{error:#}");
    let cause = text.strip_prefix(&format!("{shown}: ")).unwrap_or(&text);
    anyhow::anyhow!("--chart {shown}: {cause}")
}

fn fetch_chart(chart: &str, version: &str) -> anyhow::Result<Arc<Engine>> {
    let request = ChartRequest {
        chart: chart.to_owned(),
        version: version.to_owned(),
        ..ChartRequest::default()
    };
    let shown = http::without_password(chart);
    let fetched = fetch::fetch(&request).map_err(|error| explain_fetch(&error, &shown))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Releases such as `Memcached=memcached`; `Web=` has a chart that cannot be read.
    fn used(releases: &[&str]) -> Vec<UsedChart> {
        let of = |text: &&str| {
            let (kind, chart) = text.split_once('=').unwrap();
            UsedChart {
                kind: kind.to_owned(),
                chart: (!chart.is_empty()).then(|| chart.to_owned()),
            }
        };
        releases.iter().map(of).collect()
    }

    #[test]
    fn a_chart_is_for_the_releases_of_its_name() {
        let mixed = &["Cache=redis", "Cd=argo-cd", "Web=", "Memcached=memcached", "Cd=argo-cd"];
        let left_out =
            "--chart is redis: left out 2 releases of Cd (chart argo-cd), 1 release of Memcached (chart memcached)";
        let warning = "warning: --chart is redis, and the watch of Memcached has the chart memcached";
        for (choice, releases, kept, lines) in [
            (
                Choice::AllKinds,
                &mixed[..],
                &[true, false, true, false, false][..],
                &[left_out][..],
            ),
            (Choice::AllKinds, &["Cache=redis"], &[true], &[]),
            (
                Choice::AllKinds,
                &["Memcached=memcached"],
                &[false],
                &["--chart is redis: left out 1 release of Memcached (chart memcached)"],
            ),
            (Choice::AllKinds, &[], &[], &[]),
            (Choice::Named, &["Memcached=memcached"], &[true], &[warning]),
            (Choice::Named, &["Cache=redis"], &[true], &[]),
            (
                Choice::AllOfKind,
                &["Memcached=memcached", "Memcached=memcached"],
                &[true, true],
                &[warning],
            ),
            (
                Choice::AllOfKind,
                &["Cache=redis", "Cache=valkey"],
                &[true, false],
                &["--chart is redis: left out 1 release of Cache (chart valkey)"],
            ),
        ] {
            let (found, said) = choose(choice, "redis", &used(releases));
            assert_eq!(found, kept, "{choice:?} {releases:?}");
            assert_eq!(said, lines, "{choice:?} {releases:?}");
        }
    }

    #[test]
    fn a_chart_that_is_not_there_is_named_once() {
        let error = fetch_chart("/nonexistent/chart", "").err().unwrap();
        assert_eq!(
            format!("{error:#}"),
            "--chart /nonexistent/chart: No such file or directory (os error 2)"
        );
    }
}
