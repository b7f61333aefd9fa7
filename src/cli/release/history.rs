//! `chartwright history` and `chartwright rollback`: lists the revisions of a release, and runs an earlier one.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::table::align_columns;
use super::target::{TargetArgs, TargetResource};
use super::wait::{POLL_INTERVAL, parse_timeout};
use crate::cli::block_on;
use crate::cli::stdout::stdout;
use crate::cli::stdout::{note, print_line};
use chartwright_core::annotations::ROLLBACK_TO;
use chartwright_core::record::Record;
use chartwright_core::record::history::{History, Revision};
use chartwright_core::status::conditions;

const HISTORY_EXAMPLES: &str = "\
Examples:
  # List the revisions of a release, as helm history does
  chartwright history memcached web --namespace shop

  # For scripts
  chartwright history memcached web -o json";

const ROLLBACK_EXAMPLES: &str = "\
Examples:
  # Run the last healthy revision until the spec changes
  chartwright rollback memcached web

  # Run revision 3, and wait until its members are ready
  chartwright rollback memcached web 3 --wait";

/// Nesting of the list that is written as YAML.
const YAML_DEPTH: usize = 20;

/// List the revisions of a release
#[derive(Args, Clone, Debug)]
#[command(after_help = HISTORY_EXAMPLES)]
pub struct HistoryArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = HistoryFormat::Table)]
    output: HistoryFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HistoryFormat {
    Table,
    Json,
    Yaml,
}

/// Run an earlier revision of a release until its spec changes
#[derive(Args, Clone, Debug)]
#[command(
    after_help = ROLLBACK_EXAMPLES,
    long_about = "Run an earlier revision of a release until its spec changes\n\n\
        Annotates the custom resource. The operator then runs the pre-rollback hooks, applies the objects of that revision, and \
        runs the post-rollback hooks. It never deletes objects that hold data. Revisions are kept if the watch has \
        `onFailure: rollback`."
)]
pub struct RollbackArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The revision to run [default: the last healthy revision before the current one]
    revision: Option<i64>,
    /// Wait until the revision runs and its members are ready
    #[arg(long)]
    wait: bool,
    /// Limit of the wait, as a Go duration
    #[arg(long, default_value = "5m", value_parser = parse_timeout)]
    timeout: Duration,
}

pub fn list_revisions(args: &HistoryArgs) -> anyhow::Result<()> {
    block_on(async {
        let target = args.target.connect().await?;
        let (record, _) = read_record(&target).await?;
        let mut out = stdout();
        match args.output {
            HistoryFormat::Table => write!(out, "{}", format_table(&record))?,
            HistoryFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&list(&record))?)?,
            HistoryFormat::Yaml => write!(out, "{}", to_yaml(&record)?)?,
        }
        Ok(())
    })
}

/// Reads the record of a release and its custom resource.
async fn read_record(target: &TargetResource) -> anyhow::Result<(Record, Value)> {
    let object = target.read().await?;
    let record = Record::from_status(&object["status"], None).into_record();
    ensure!(
        !record.history.is_empty(),
        "the status of {target} lists no revision: nothing was applied yet, or the CRD schema drops status.history"
    );
    Ok((record, object))
}

/// The revisions for programs.
fn list(record: &Record) -> Value {
    let items = record.history.iter();
    items.map(|revision| to_json(revision, record.revision)).collect()
}

fn to_yaml(record: &Record) -> anyhow::Result<String> {
    go_yaml::to_string(&list(record), YAML_DEPTH).map_err(|error| anyhow::anyhow!("{error}"))
}

fn to_json(revision: &Revision, running: i64) -> Value {
    let mut item = json!(revision);
    item["status"] = revision.state(running).into();
    item
}

fn format_table(record: &Record) -> String {
    let header = [
        "REVISION",
        "UPDATED",
        "STATUS",
        "CHART",
        "APP VERSION",
        "GENERATION",
        "DESCRIPTION",
    ];
    let rows = record.history.iter().map(|revision| {
        [
            revision.revision.to_string(),
            revision
                .deployed
                .map_or_else(|| "-".to_owned(), |time| time.to_string()),
            revision.state(record.revision).to_owned(),
            format!("{}-{}", revision.chart, revision.version),
            revision.app_version.clone(),
            revision.generation.to_string(),
            describe(revision),
        ]
    });
    let rows: Vec<[String; 7]> = [header.map(str::to_owned)].into_iter().chain(rows).collect();
    align_columns(&rows)
}

fn describe(revision: &Revision) -> String {
    // One line per revision: the lines of a log follow the first line.
    let first = |text: &str| {
        let line = text.lines().next().unwrap_or_default();
        line.strip_suffix("; its log ends with:").unwrap_or(line).to_owned()
    };
    match (revision.rollback_to, revision.kept) {
        _ if !revision.failed.is_empty() => first(&revision.failed),
        (Some(to), _) => format!("Rollback to {to}"),
        (None, true) => "Kept: can be gone back to".to_owned(),
        (None, false) => String::new(),
    }
}

pub fn rollback(args: &RollbackArgs) -> anyhow::Result<()> {
    block_on(async {
        let target = args.target.connect().await?;
        let (record, object) = read_record(&target).await?;
        let to = resolve_revision(&record, args.revision)?;
        let text = format!("{to}@{}", jiff::Timestamp::now());
        target.annotate(&object, &[(ROLLBACK_TO, &text)]).await?;
        print_line!("{target} goes back to revision {to} until its spec changes");
        if args.wait {
            wait_for_rollback(&target, &text, args.timeout).await
        } else {
            Ok(())
        }
    })
}

/// Returns the revision to run. Fails if its objects are not kept.
fn resolve_revision(record: &Record, requested: Option<i64>) -> anyhow::Result<i64> {
    let history: &History = &record.history;
    let kept: Vec<String> = history.kept().map(|revision| revision.to_string()).collect();
    let kept = if kept.is_empty() {
        "no revision is kept: the watch needs `onFailure: rollback`".to_owned()
    } else {
        format!("these are kept: {}", kept.join(", "))
    };
    let running = history.get(record.revision).and_then(|revision| revision.rollback_to);
    let before = running.unwrap_or(record.revision);
    match requested {
        None => history
            .last_healthy(before)
            .with_context(|| format!("no revision before {before} was healthy and is kept; {kept}")),
        Some(to) if history.get(to).is_some_and(|revision| revision.kept) => Ok(to),
        Some(to) => bail!("revision {to} is not kept and cannot run again; {kept}"),
    }
}

/// Waits until the operator completed the rollback, and prints each change of the `Ready` message.
async fn wait_for_rollback(target: &TargetResource, text: &str, timeout: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + timeout;
    let mut shown = String::new();
    loop {
        let object = target.read().await?;
        let status = &object["status"];
        let ready = conditions::get(&conditions::of(status), "Ready").cloned();
        let (reason, message) = ready.map(|ready| (ready.reason, ready.message)).unwrap_or_default();
        let is_handled = status["lastHandledRollbackTo"] == text;
        if is_handled && reason == "RolledBack" {
            print_line!("{message}");
            return Ok(());
        }
        if is_handled && status["release"]["fallback"].is_null() {
            bail!("the rollback was refused, or replaced by a newer request: see the Events of {target}");
        }
        if is_handled && shown != message {
            note!("{message}");
            shown = message;
        }
        ensure!(
            Instant::now() < until,
            "the rollback did not complete within {timeout:?}: {shown}"
        );
        sleep(POLL_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let revision = |n: i64, healthy: bool, kept: bool| {
            json!({"revision": n, "generation": n, "chart": "app", "version": "1.0.0", "appVersion": "2",
                   "deployed": "2026-01-02T03:04:05Z", "healthy": healthy, "kept": kept})
        };
        let mut failed = revision(3, false, false);
        failed["failed"] = "HookFailed: no; its log ends with:\nmore".into();
        failed["deployed"] = Value::Null;
        let mut back = revision(4, true, true);
        back["rollbackTo"] = 2.into();
        let history = json!([revision(1, true, true), revision(2, true, true), failed, back]);
        Record::from_status(&json!({"release": {"revision": 4}, "history": history}), None).into_record()
    }

    #[test]
    fn revisions_are_listed_as_helm_does() {
        let expected = "\
REVISION  UPDATED               STATUS      CHART      APP VERSION  GENERATION  DESCRIPTION
1         2026-01-02T03:04:05Z  superseded  app-1.0.0  2            1           Kept: can be gone back to
2         2026-01-02T03:04:05Z  superseded  app-1.0.0  2            2           Kept: can be gone back to
3         -                     failed      app-1.0.0  2            3           HookFailed: no
4         2026-01-02T03:04:05Z  deployed    app-1.0.0  2            4           Rollback to 2
";
        assert_eq!(format_table(&record()), expected);
        assert_eq!(to_json(record().history.get(3).unwrap(), 4)["status"], "failed");
        let yaml = to_yaml(&record()).unwrap();
        assert!(yaml.starts_with("- appVersion: \"2\"\n  chart: app\n"), "{yaml}");
        assert_eq!(yaml.matches("status: superseded\n").count(), 2, "{yaml}");
    }

    #[test]
    fn only_kept_revisions_can_be_rolled_back_to() {
        let record = record();
        assert_eq!(
            resolve_revision(&record, None).unwrap(),
            1,
            "the revision before the running one"
        );
        assert_eq!(resolve_revision(&record, Some(2)).unwrap(), 2);
        let refused = resolve_revision(&record, Some(3)).unwrap_err().to_string();
        assert!(refused.contains("these are kept: 1, 2, 4"), "{refused}");
        let none = resolve_revision(&Record::default(), None).unwrap_err().to_string();
        assert!(none.contains("onFailure: rollback"), "{none}");
    }
}
