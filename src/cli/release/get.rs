//! `chartwright get`: lists the releases of a cluster, and follows them.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _, select_all};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::runtime::watcher;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::kinds::find_kind;
use super::release_list::{
    ServedKind, Unlisted, describe_missing, describe_unlisted, find_release_kinds, list_resources,
};
use super::table::ColumnWidths;
use crate::cli::block_on;
use crate::cli::stdout::{note, stdout};
use chartwright_core::identity::GroupKind;
use chartwright_core::status::summary::ReleaseSummary;
use chartwright_operator::cluster;
use chartwright_operator::cluster::discovery::Snapshot;
use chartwright_scaffold::printable::one_line;
use chartwright_watches::{self as watches, Watch};

const EXAMPLES: &str = "\
Examples:
  # List all releases of the cluster
  chartwright get -A

  # Show which releases of a kind are not ready, and why
  chartwright get memcached -A --not-ready -o wide

  # Follow one release
  chartwright get memcached web -n shop --watch";

const ABOUT: &str = "\
List the releases of a cluster

Lists the custom resources of the kinds that an operator handles. With --watches-file the kinds are those of the watches. Without it \
the command finds the kinds by the marks of the operator: its finalizer, its label and its status. It changes nothing.";

/// Width of the message in `-o wide`, in characters.
const MESSAGE_WIDTH: usize = 100;

/// List the releases of a cluster
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct GetArgs {
    /// Kind of the CRs, singular or plural, with or without its group: memcached, memcacheds.cache.example.com [default: all]
    kind: Option<String>,
    /// Name of the CR [default: all]
    #[arg(conflicts_with_all = ["selector", "all_namespaces"])]
    name: Option<String>,
    /// In all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Namespace of the CRs [default: that of the kubeconfig's context]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only CRs with these labels, as for kubectl
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// Only releases that are not ready
    #[arg(long)]
    not_ready: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = GetFormat::Table)]
    output: GetFormat,
    /// Go on, and print the rows that change
    #[arg(short, long)]
    watch: bool,
    /// Take the kinds from this watches file
    #[arg(long, value_name = "FILE")]
    watches_file: Option<PathBuf>,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GetFormat {
    Table,
    Wide,
    Name,
    Json,
    Yaml,
}

/// A release and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListedRelease {
    group_kind: GroupKind,
    plural: String,
    summary: ReleaseSummary,
}

/// A kind whose releases are listed.
struct ListedKind {
    kind: ServedKind,
    /// The watches of the kind. Empty: all custom resources are releases.
    watches: Vec<Watch>,
}

pub fn run(args: &GetArgs) -> anyhow::Result<()> {
    let watches = match &args.watches_file {
        Some(file) => watches::load(file)?.0,
        None => Vec::new(),
    };
    block_on(get(args, watches))
}

async fn get(args: &GetArgs, watches: Vec<Watch>) -> anyhow::Result<()> {
    let (client, discovery) = cluster::connect_with_discovery(args.kubeconfig.as_deref()).await?;
    let snapshot = discovery.snapshot();
    let default = client.default_namespace().to_owned();
    let namespace = args.namespace.clone().unwrap_or(default);
    let namespace = (!args.all_namespaces).then_some(namespace);
    let mut unlisted = Unlisted::new();
    let kinds = select_kinds(args, watches, &client, &snapshot, namespace.as_deref(), &mut unlisted).await?;
    let mut rows = Vec::new();
    for listed in &kinds {
        let (group_kind, resource) = &listed.kind;
        match list_resources(&client, resource, namespace.as_deref(), args.selector.as_deref()).await {
            Ok((objects, _)) => rows.extend(listed.rows(&objects)),
            Err(error) if args.kind.is_some() => return Err(error).with_context(|| group_kind.to_string()),
            Err(error) => unlisted.push((group_kind.to_string(), error)),
        }
    }
    if let (Some(name), [listed]) = (&args.name, kinds.as_slice())
        && !rows.iter().any(|row| row.summary.name == *name)
    {
        let names: Vec<&str> = rows.iter().map(|row| row.summary.name.as_str()).collect();
        let namespace = namespace.as_deref().filter(|_| listed.kind.1.namespaced);
        bail!("{}", describe_missing(&listed.kind.0, name, namespace, &names));
    }
    rows.retain(|row| args.is_selected(row));
    rows.sort_by_cached_key(ListedRelease::key);
    let mut table = ReleaseTable::new(args.output == GetFormat::Wide);
    print(args, &mut table, &rows, Timestamp::now())?;
    let missed = describe_unlisted(&unlisted);
    if let Some(missed) = &missed {
        note!("{missed}");
    }
    ensure!(missed.is_none() || !kinds.is_empty(), "no kind could be listed");
    if args.watch {
        return follow(args, &client, &kinds, namespace.as_deref(), rows, table).await;
    }
    if rows.is_empty() && matches!(args.output, GetFormat::Table | GetFormat::Wide) {
        match namespace {
            Some(namespace) => note!("No release is selected in the namespace {namespace}. -A lists all namespaces."),
            None => note!("No release is selected."),
        }
    }
    Ok(())
}

/// Returns the kinds to list: the given one, those of the watches, or those with a mark of the operator.
async fn select_kinds(
    args: &GetArgs,
    watches: Vec<Watch>,
    client: &Client,
    snapshot: &Snapshot,
    namespace: Option<&str>,
    unlisted: &mut Unlisted,
) -> anyhow::Result<Vec<ListedKind>> {
    let of_kind = |group_kind: &GroupKind| -> Vec<Watch> {
        let is_of = |watch: &&Watch| GroupKind::new(&watch.group, &watch.kind) == *group_kind;
        watches.iter().filter(is_of).cloned().collect()
    };
    if let Some(kind) = &args.kind {
        let (group_kind, resource) = find_kind(snapshot, kind)?;
        let watches = of_kind(group_kind);
        if args.watches_file.is_some() && watches.is_empty() {
            bail!("the watches file has no watch for {group_kind}");
        }
        let kind = (group_kind.clone(), resource.clone());
        return Ok(vec![ListedKind { kind, watches }]);
    }
    if args.watches_file.is_none() {
        let found = find_release_kinds(client, snapshot, namespace, unlisted).await;
        let listed = |kind| ListedKind {
            kind,
            watches: Vec::new(),
        };
        return Ok(found.into_iter().map(listed).collect());
    }
    let mut kinds: Vec<ListedKind> = Vec::new();
    for watch in &watches {
        let group_kind = GroupKind::new(&watch.group, &watch.kind);
        if kinds.iter().any(|listed| listed.kind.0 == group_kind) {
            continue;
        }
        let Some(resource) = snapshot.resource(&group_kind, &watch.version) else {
            note!(
                "not listed: the API server does not serve {group_kind} in {}",
                watch.version
            );
            continue;
        };
        let kind = (group_kind.clone(), resource.clone());
        kinds.push(ListedKind {
            kind,
            watches: of_kind(&group_kind),
        });
    }
    Ok(kinds)
}

impl ListedKind {
    fn rows<'o>(&self, objects: impl IntoIterator<Item = &'o Value>) -> Vec<ListedRelease> {
        objects.into_iter().filter_map(|object| self.row(object)).collect()
    }

    /// The row of a custom resource. `None` if no watch selects it.
    fn row(&self, object: &Value) -> Option<ListedRelease> {
        use kube::core::SelectorExt as _;
        let labels = serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
        let is_selected = self.watches.is_empty() || self.watches.iter().any(|watch| watch.selector.matches(&labels));
        is_selected.then(|| ListedRelease {
            group_kind: self.kind.0.clone(),
            plural: self.kind.1.api.plural.clone(),
            summary: ReleaseSummary::of(object),
        })
    }
}

impl GetArgs {
    fn is_selected(&self, row: &ListedRelease) -> bool {
        self.name.as_ref().is_none_or(|name| *name == row.summary.name) && !(self.not_ready && row.summary.is_ready())
    }
}

impl ListedRelease {
    fn key(&self) -> (String, GroupKind, String) {
        (
            self.summary.namespace.clone(),
            self.group_kind.clone(),
            self.summary.name.clone(),
        )
    }

    /// `memcacheds.cache.example.com/web`, as kubectl writes it.
    fn name(&self) -> String {
        format!("{}.{}/{}", self.plural, self.group_kind.group, self.summary.name)
    }

    fn to_json(&self) -> Value {
        let mut item = json!({"group": self.group_kind.group, "kind": self.group_kind.kind});
        if let (Some(fields), Ok(Value::Object(summary))) = (item.as_object_mut(), serde_json::to_value(&self.summary))
        {
            fields.extend(summary);
        }
        item
    }

    fn cells(&self, now: Timestamp) -> [String; 9] {
        let or_dash = |text: &str| {
            if text.is_empty() {
                "-".to_owned()
            } else {
                one_line(text).into_owned()
            }
        };
        let summary = &self.summary;
        let chart = format!("{} {}", summary.chart, summary.version);
        let message: String = summary
            .message
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(MESSAGE_WIDTH)
            .collect();
        [
            or_dash(&summary.namespace),
            or_dash(&self.group_kind.kind),
            or_dash(&summary.name),
            summary.ready.clone(),
            or_dash(&summary.reason),
            or_dash(chart.trim()),
            summary.revision.to_string(),
            age(&summary.created, now),
            or_dash(&message),
        ]
    }
}

/// The age of an object as kubectl shortens it: `45s`, `12m`, `5h`, `3d`.
fn age(created: &str, now: Timestamp) -> String {
    let Ok(created) = created.parse::<Timestamp>() else {
        return "-".to_owned();
    };
    let seconds = now.duration_since(created).as_secs().max(0);
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0..=1) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, _) => format!("{hours}h"),
        (days, _, _) => format!("{days}d"),
    }
}

const HEADER: [&str; 9] = [
    "NAMESPACE",
    "KIND",
    "NAME",
    "READY",
    "REASON",
    "CHART",
    "REVISION",
    "AGE",
    "MESSAGE",
];

/// A table for people. Rows that follow it have its column widths.
struct ReleaseTable {
    widths: ColumnWidths<9>,
    /// With messages.
    is_wide: bool,
}

impl ReleaseTable {
    fn new(is_wide: bool) -> Self {
        let mut table = ReleaseTable {
            widths: ColumnWidths::default(),
            is_wide,
        };
        table.add(HEADER.map(str::to_owned));
        table
    }

    /// Makes the columns wide enough for a row. Returns the shown cells.
    fn add(&mut self, mut cells: [String; 9]) -> [String; 9] {
        if !self.is_wide
            && let Some(message) = cells.last_mut()
        {
            message.clear();
        }
        self.widths.widen(&cells);
        cells
    }

    /// Header and rows.
    fn format(&mut self, rows: &[ListedRelease], now: Timestamp) -> String {
        let header = HEADER.map(str::to_owned);
        let cells = std::iter::once(header).chain(rows.iter().map(|row| row.cells(now)));
        let cells: Vec<[String; 9]> = cells.map(|cells| self.add(cells)).collect();
        cells.iter().map(|cells| self.widths.line(cells)).collect()
    }

    /// One more row, below those of before.
    fn format_next(&mut self, row: &ListedRelease, now: Timestamp) -> String {
        let cells = self.add(row.cells(now));
        self.widths.line(&cells)
    }
}

fn print(args: &GetArgs, table: &mut ReleaseTable, rows: &[ListedRelease], now: Timestamp) -> anyhow::Result<()> {
    let mut out = stdout();
    match args.output {
        GetFormat::Table | GetFormat::Wide if rows.is_empty() => {}
        GetFormat::Table | GetFormat::Wide => {
            write!(out, "{}", table.format(rows, now))?;
        }
        GetFormat::Name => rows
            .iter()
            .try_for_each(|row| writeln!(out, "{}", one_line(&row.name())))?,
        GetFormat::Json | GetFormat::Yaml => {
            let items: Vec<Value> = rows.iter().map(ListedRelease::to_json).collect();
            write!(out, "{}", encode(&json!({"items": items}), args.output)?)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn encode(value: &Value, format: GetFormat) -> anyhow::Result<String> {
    match format {
        GetFormat::Yaml => Ok(go_yaml::to_string(value, YAML_DEPTH).map_err(|error| anyhow::anyhow!("{error}"))?),
        _ => Ok(serde_json::to_string_pretty(value)? + "\n"),
    }
}

/// Nesting of the lists that are written as YAML.
const YAML_DEPTH: usize = 20;

/// Watches the custom resources, and prints each row that changes. Ends only with an error or a closed standard output.
async fn follow(
    args: &GetArgs,
    client: &Client,
    kinds: &[ListedKind],
    namespace: Option<&str>,
    rows: Vec<ListedRelease>,
    mut table: ReleaseTable,
) -> anyhow::Result<()> {
    ensure!(
        !kinds.is_empty(),
        "no kind with a release was found that could be watched: name a kind"
    );
    let mut shown: HashMap<_, _> = rows.into_iter().map(|row| (row.key(), row)).collect();
    let mut config = watcher::Config::default();
    if let Some(selector) = &args.selector {
        config = config.labels(selector);
    }
    let streams = kinds.iter().enumerate().map(|(index, listed)| {
        let api: Api<DynamicObject> = listed.kind.1.api_in(client, namespace);
        let stream = watcher(api, config.clone()).map_ok(move |event| (index, event));
        stream.boxed()
    });
    let streams: Vec<BoxStream<'_, _>> = streams.collect();
    let mut events = select_all(streams);
    while let Some(event) = events.next().await {
        let (index, event) = match event {
            Ok(event) => event,
            // The watcher tries again.
            Err(error) => {
                note!("{}", chartwright_operator::telemetry::chain(&error));
                tokio::time::sleep(super::wait::POLL_INTERVAL).await;
                continue;
            }
        };
        let (object, is_gone) = match event {
            Event::Apply(object) | Event::InitApply(object) => (object, false),
            Event::Delete(object) => (object, true),
            Event::Init | Event::InitDone => continue,
        };
        let object = serde_json::to_value(object)?;
        let Some(mut row) = kinds.get(index).and_then(|listed| listed.row(&object)) else {
            continue;
        };
        if is_gone {
            row.summary.ready = "False".to_owned();
            row.summary.reason = "Deleted".to_owned();
        }
        let before = if is_gone {
            shown.remove(&row.key())
        } else {
            shown.insert(row.key(), row.clone())
        };
        let is_selected = args.is_selected(&row) || before.as_ref().is_some_and(|before| args.is_selected(before));
        if is_selected && before.as_ref() != Some(&row) {
            print_row(args, &mut table, &row)?;
        }
    }
    Ok(())
}

/// Prints a changed row: one line, without a header; a line of JSON; or a YAML document.
fn print_row(args: &GetArgs, table: &mut ReleaseTable, row: &ListedRelease) -> anyhow::Result<()> {
    let mut out = stdout();
    match args.output {
        GetFormat::Table | GetFormat::Wide => {
            write!(out, "{}", table.format_next(row, Timestamp::now()))?;
        }
        GetFormat::Name => writeln!(out, "{}", one_line(&row.name()))?,
        GetFormat::Json => writeln!(out, "{}", row.to_json())?,
        GetFormat::Yaml => write!(out, "---\n{}", encode(&row.to_json(), GetFormat::Yaml)?)?,
    }
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ready: &str, message: &str) -> ListedRelease {
        ListedRelease {
            group_kind: GroupKind::new("cache.example.com", "Memcached"),
            plural: "memcacheds".into(),
            summary: ReleaseSummary {
                namespace: "shop".into(),
                name: name.into(),
                ready: ready.into(),
                reason: if ready == "True" { "Healthy" } else { "MembersNotReady" }.into(),
                message: message.into(),
                chart: "memcached".into(),
                version: "1.2.0".into(),
                revision: 3,
                created: "2026-01-02T03:04:05Z".into(),
                ..ReleaseSummary::default()
            },
        }
    }

    fn now() -> Timestamp {
        "2026-01-02T05:04:05Z".parse().unwrap()
    }

    #[test]
    fn releases_are_listed_in_columns() {
        let rows = [
            row("web", "True", "fine\nmore"),
            row("a-long-name", "False", "\u{1b}[31mred"),
        ];
        let expected = "\
NAMESPACE  KIND       NAME         READY  REASON           CHART            REVISION  AGE
shop       Memcached  web          True   Healthy          memcached 1.2.0  3         2h
shop       Memcached  a-long-name  False  MembersNotReady  memcached 1.2.0  3         2h
";
        let mut table = ReleaseTable::new(false);
        assert_eq!(table.format(&rows, now()), expected);
        let next = "shop       Memcached  b            True   Healthy          memcached 1.2.0  3         2h\n";
        assert_eq!(table.format_next(&row("b", "True", "fine"), now()), next);
        let longer = table.format_next(&row("a-much-longer-name", "True", ""), now());
        assert!(longer.contains("a-much-longer-name  True "), "{longer}");
        let wide = ReleaseTable::new(true).format(&rows, now());
        assert!(
            wide.contains("AGE  MESSAGE\n") && wide.contains("2h   fine\n"),
            "{wide}"
        );
        assert!(!wide.contains('\u{1b}') && wide.contains("[31mred"), "{wide}");
        assert_eq!(rows[0].name(), "memcacheds.cache.example.com/web");
    }

    #[test]
    fn a_release_without_a_status_has_dashes() {
        let empty = ListedRelease {
            summary: ReleaseSummary {
                name: "web".into(),
                ready: "Unknown".into(),
                ..ReleaseSummary::default()
            },
            ..row("web", "True", "")
        };
        let table = ReleaseTable::new(false).format(&[empty], now());
        let line = "-          Memcached  web   Unknown  -       -      0         -";
        assert_eq!(table.lines().nth(1), Some(line), "{table}");
    }

    #[test]
    fn releases_are_listed_for_programs() {
        let item = row("web", "True", "fine").to_json();
        let expected = json!({
            "group": "cache.example.com", "kind": "Memcached", "namespace": "shop", "name": "web", "ready": "True",
            "reason": "Healthy", "message": "fine", "suspended": false, "chart": "memcached", "version": "1.2.0",
            "revision": 3, "created": "2026-01-02T03:04:05Z",
        });
        assert_eq!(item, expected);
        let yaml = encode(&json!({"items": [item]}), GetFormat::Yaml).unwrap();
        assert!(yaml.starts_with("items:\n- chart: memcached\n"), "{yaml}");
    }

    #[test]
    fn ages_are_short() {
        for (created, expected) in [
            ("2026-01-02T05:04:00Z", "5s"),
            ("2026-01-02T05:02:06Z", "119s"),
            ("2026-01-02T05:00:05Z", "4m"),
            ("2026-01-01T06:04:05Z", "23h"),
            ("2025-12-01T05:04:05Z", "32d"),
            ("2027-01-01T00:00:00Z", "0s"),
            ("soon", "-"),
        ] {
            assert_eq!(age(created, now()), expected, "{created}");
        }
    }
}
