//! `chartwright usage`: shows what releases request, from the counters that the operator keeps.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::table::align_columns;
use crate::cli::block_on;
use crate::cli::stdout::note;
use crate::cli::stdout::stdout;
use chartwright_core::usage::{Counters, GIB, Line, UsageRelease};
use chartwright_operator::cluster;

const EXAMPLES: &str = "\
Examples:
  # Show what each release requests, now and over time
  chartwright usage --operator-namespace chartwright-system

  # Sum up each namespace, for a spreadsheet
  chartwright usage --operator-namespace chartwright-system --by namespace -o csv

  # Select the releases of a kind in a namespace, for a script
  chartwright usage --operator-namespace chartwright-system --kind Memcached -n shop -o json";

/// Show what CPU, memory and storage releases request, now and over time
#[derive(Args, Clone, Debug)]
#[command(
    after_help = EXAMPLES,
    long_about = "Show what CPU, memory and storage releases request, now and over time\n\n\
        The operator collects the numbers if it runs with --meter-usage. Tables show hours; json and csv have exact seconds."
)]
pub struct UsageArgs {
    /// What to sum up by
    #[arg(long, value_enum, default_value_t = GroupBy::Release)]
    by: GroupBy,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = UsageFormat::Table)]
    output: UsageFormat,
    /// Only releases of this kind, with or without its group: Memcached, memcached.cache.example.com
    #[arg(long)]
    kind: Option<String>,
    /// Only releases in this namespace [default: all]
    #[arg(short, long)]
    namespace: Option<String>,
    /// The operator's name
    #[arg(long, env = "OPERATOR_NAME", default_value = "chartwright")]
    operator_name: String,
    /// The operator's own namespace, where its counters are [default: that of the kubeconfig's context]
    #[arg(long, value_name = "NAMESPACE")]
    operator_namespace: Option<String>,
    /// The kubeconfig to use [default: KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum GroupBy {
    Kind,
    Namespace,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UsageFormat {
    Table,
    Json,
    Csv,
}

/// Sums by release. Fields that were summed up are empty.
type UsageSums = BTreeMap<UsageRelease, Line>;

pub fn run(args: &UsageArgs) -> anyhow::Result<()> {
    block_on(async {
        let counters = read_counters(args).await?;
        let sums = sum_up(&counters, args);
        let mut out = stdout();
        match args.output {
            UsageFormat::Table => {
                note!("Counted from {} to {}", counters.since, counters.sampled);
                write!(out, "{}", format_table(&sums, args.by))?;
            }
            UsageFormat::Json => writeln!(out, "{}", serde_json::to_string_pretty(&to_json(&counters, &sums))?)?,
            UsageFormat::Csv => write!(out, "{}", format_csv(&sums))?,
        }
        let age = Timestamp::now().duration_since(counters.sampled);
        let period = SignedDuration::from_secs(i64::try_from(counters.period).unwrap_or(i64::MAX));
        if age > period.saturating_mul(3) {
            note!(
                "The counters are older than three periods. Check that the operator runs with --meter-usage, and read its log."
            );
        }
        Ok(())
    })
}

async fn read_counters(args: &UsageArgs) -> anyhow::Result<Counters> {
    let (client, _) = cluster::connect_with_discovery(args.kubeconfig.as_deref()).await?;
    let namespace = args.operator_namespace.as_deref();
    let namespace = namespace.unwrap_or(client.default_namespace());
    let name = cluster::storage::usage::config_map_name(&args.operator_name);
    let what = || format!("ConfigMap {namespace}/{name}");
    let read = cluster::storage::usage::read(&client, namespace, &args.operator_name).await;
    let Some(text) = read.with_context(what)? else {
        bail!(
            "there is no {}. Run the operator with --meter-usage=1m. If it runs, set --operator-namespace to its namespace and, \
             unless its name is chartwright, --operator-name",
            what()
        );
    };
    Counters::read(&text).map_err(anyhow::Error::msg).with_context(what)
}

fn sum_up(counters: &Counters, args: &UsageArgs) -> UsageSums {
    let is_kind = |release: &UsageRelease, kind: &str| {
        let named = release
            .kind
            .split_once('.')
            .map_or(release.kind.as_str(), |(kind, _)| kind);
        kind.eq_ignore_ascii_case(named) || kind.eq_ignore_ascii_case(&release.kind)
    };
    let is_selected = |(release, _): &(UsageRelease, &Line)| {
        args.kind.as_ref().is_none_or(|kind| is_kind(release, kind))
            && args
                .namespace
                .as_ref()
                .is_none_or(|namespace| release.namespace == *namespace)
    };
    let mut sums = UsageSums::new();
    for (release, line) in counters.lines().filter(is_selected) {
        let of = match args.by {
            GroupBy::Release => release,
            GroupBy::Kind => UsageRelease {
                namespace: String::new(),
                name: String::new(),
                ..release
            },
            GroupBy::Namespace => UsageRelease {
                kind: String::new(),
                name: String::new(),
                ..release
            },
        };
        let sum = sums.entry(of).or_default();
        let gone = line.gone.filter(|_| args.by == GroupBy::Release);
        *sum = sum.clone() + line.clone();
        sum.gone = gone;
    }
    sums
}

/// Formats sums as a table. `-` stands for a field that was summed up, or for no namespace.
fn format_table(sums: &UsageSums, by: GroupBy) -> String {
    let header = [
        "KIND",
        "NAMESPACE",
        "NAME",
        "CPU",
        "MEMORY",
        "STORAGE",
        "CORE-HOURS",
        "GIB-HOURS",
        "STORAGE GIB-HOURS",
    ];
    let others = if by == GroupBy::Release { "(others)" } else { "-" };
    let rows = sums.iter().map(|(release, line)| {
        let hours = |amount: f64| format!("{:.3}", amount / 3600.0);
        let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
        [
            or(&release.kind, "-"),
            or(&release.namespace, "-"),
            or(&release.name, others),
            format!("{}m", line.requested.cpu),
            format_bytes(line.requested.memory),
            format_bytes(line.requested.storage),
            hours(line.counted.cpu),
            hours(line.counted.memory / GIB),
            hours(line.counted.storage / GIB),
        ]
    });
    align_columns(&[header.map(str::to_owned)].into_iter().chain(rows).collect::<Vec<_>>())
}

/// Formats bytes in the largest unit that yields at least 1.
fn format_bytes(amount: u64) -> String {
    let units = ["Ti", "Gi", "Mi", "Ki"].iter().zip([40, 30, 20, 10]);
    let found = units
        .map(|(unit, power)| (unit, 1u64 << power))
        .find(|(_, one)| amount >= *one);
    let Some((unit, one)) = found else {
        return amount.to_string();
    };
    match amount % one {
        0 => format!("{}{unit}", amount / one),
        _ => format!("{:.1}{unit}", amount as f64 / one as f64),
    }
}

fn to_json(counters: &Counters, sums: &UsageSums) -> Value {
    let items = sums.iter().map(|(release, line)| {
        let (requested, counted) = (&line.requested, &line.counted);
        let mut item = json!({
            "requested": {
                "cpuMillicores": requested.cpu, "memoryBytes": requested.memory, "storageBytes": requested.storage,
            },
            "cpuCoreSeconds": counted.cpu, "memoryByteSeconds": counted.memory, "storageByteSeconds": counted.storage,
        });
        for (field, text) in [
            ("kind", &release.kind),
            ("namespace", &release.namespace),
            ("name", &release.name),
        ] {
            if !text.is_empty() {
                item[field] = text.as_str().into();
            }
        }
        if let Some(gone) = line.gone {
            item["gone"] = gone.to_string().into();
        }
        item
    });
    let items: Vec<Value> = items.collect();
    json!({"since": counters.since, "sampled": counters.sampled, "periodSeconds": counters.period, "items": items})
}

fn format_csv(sums: &UsageSums) -> String {
    let mut text =
        "kind,namespace,name,cpu_millicores,memory_bytes,storage_bytes,cpu_core_seconds,memory_byte_seconds,\
                    storage_byte_seconds\n"
            .to_owned();
    for (release, line) in sums {
        let names = [&release.kind, &release.namespace, &release.name].map(|name| quote_csv(name));
        let (requested, counted) = (&line.requested, &line.counted);
        let amounts = [requested.cpu, requested.memory, requested.storage].map(|amount| amount.to_string());
        let sums = [counted.cpu, counted.memory, counted.storage].map(|sum| sum.to_string());
        text += &([names, amounts, sums].concat().join(",") + "\n");
    }
    text
}

/// Quotes a CSV field if needed: names of some kinds contain commas.
fn quote_csv(name: &str) -> String {
    if name.contains([',', '"', '\n']) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    struct UsageCli {
        #[command(flatten)]
        usage: UsageArgs,
    }

    fn counters() -> Counters {
        let line = |hours: f64, cpu: u64| json!({"counted": [hours * 3600.0, hours * 3600.0 * GIB, 0.0], "requested": [cpu, 3 << 29, cpu << 10]});
        let mut gone = line(4.0, 0);
        gone["gone"] = "2026-01-03T00:00:00Z".into();
        let text = json!({
            "version": 1, "since": "2026-01-01T00:00:00Z", "sampled": "2026-01-02T00:00:00Z", "period": 60,
            "kinds": {
                "Cache.a.test": {"": {"": line(0.5, 0)}, "shop": {"web": line(1.0, 500)}},
                "Shop.a.test": {"shop": {"x": line(2.0, 1000)}, "test": {"old,er": gone}},
            },
        });
        Counters::read(&text.to_string()).unwrap()
    }

    fn sums_of(flags: &str) -> UsageSums {
        let command = UsageCli::command().mut_args(|arg| arg.env(None::<&str>));
        let words = std::iter::once("usage").chain(flags.split(' ').filter(|flag| !flag.is_empty()));
        let args = UsageCli::from_arg_matches(&command.get_matches_from(words))
            .unwrap()
            .usage;
        sum_up(&counters(), &args)
    }

    #[test]
    fn tables_show_hours_and_units() {
        let expected = "\
KIND          NAMESPACE  NAME      CPU    MEMORY  STORAGE  CORE-HOURS  GIB-HOURS  STORAGE GIB-HOURS
Cache.a.test  -          (others)  0m     1.5Gi   0        0.500       0.500      0.000
Cache.a.test  shop       web       500m   1.5Gi   500Ki    1.000       1.000      0.000
Shop.a.test   shop       x         1000m  1.5Gi   1000Ki   2.000       2.000      0.000
Shop.a.test   test       old,er    0m     1.5Gi   0        4.000       4.000      0.000
";
        assert_eq!(format_table(&sums_of(""), GroupBy::Release), expected);
        let expected = "\
KIND          NAMESPACE  NAME  CPU    MEMORY  STORAGE  CORE-HOURS  GIB-HOURS  STORAGE GIB-HOURS
Cache.a.test  -          -     500m   3Gi     500Ki    1.500       1.500      0.000
Shop.a.test   -          -     1000m  3Gi     1000Ki   6.000       6.000      0.000
";
        assert_eq!(format_table(&sums_of("--by kind"), GroupBy::Kind), expected);
        let expected = "\
KIND  NAMESPACE  NAME  CPU    MEMORY  STORAGE  CORE-HOURS  GIB-HOURS  STORAGE GIB-HOURS
-     shop       -     1500m  3Gi     1.5Mi    3.000       3.000      0.000
";
        assert_eq!(
            format_table(&sums_of("--by namespace -n shop"), GroupBy::Namespace),
            expected
        );
    }

    #[test]
    fn json_and_csv_have_exact_numbers() {
        let printed = to_json(&counters(), &sums_of("--kind SHOP"));
        let expected = json!({
            "kind": "Shop.a.test", "namespace": "test", "name": "old,er", "gone": "2026-01-03T00:00:00Z",
            "requested": {"cpuMillicores": 0, "memoryBytes": 3 << 29, "storageBytes": 0},
            "cpuCoreSeconds": 14400.0, "memoryByteSeconds": 14400.0 * GIB, "storageByteSeconds": 0.0,
        });
        assert_eq!(
            (printed["items"].as_array().unwrap().len(), &printed["items"][1]),
            (2, &expected)
        );
        let printed = format_csv(&sums_of("--kind shop.a.test"));
        let mut lines = printed.lines().skip(1);
        assert_eq!(
            lines.next(),
            Some("Shop.a.test,shop,x,1000,1610612736,1024000,7200,7730941132800,0")
        );
        assert_eq!(
            lines.next(),
            Some("Shop.a.test,test,\"old,er\",0,1610612736,0,14400,15461882265600,0")
        );
        let by_namespace = format_csv(&sums_of("--by namespace --kind cache"));
        assert!(by_namespace.contains("\n,shop,,500,"), "{by_namespace}");
        assert!(sums_of("--kind cach").is_empty());
    }
}
