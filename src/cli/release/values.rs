//! `chartwright values`: the effective values of a release, and where each one comes from.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::table::align_columns;
use super::target::TargetArgs;
use crate::cli::block_on;
use crate::cli::chart::render::build_unit;
use crate::cli::stdout::{note, stdout};
use chartwright_core::values::origins::ValueOrigin;
use chartwright_operator::cluster::Discovery;
use chartwright_operator::reconcile::{CustomResource, explain_values};
use chartwright_scaffold::printable::one_line;
use kube::api::DynamicObject;

const EXAMPLES: &str = "\
Examples:
  # Show each value of a release and its source
  chartwright values memcached web -n shop

  # For a script
  chartwright values memcached web -o json --watches-file config/watches.yaml";

const ABOUT: &str = "\
Show the effective values of a release, and where each one comes from

Merges the values as the operator does: chart defaults, the watch's values, valuesFrom, the CR, overrideValues. Needs the watches file \
and the chart on this machine, and reads the Secrets and ConfigMaps of valuesFrom. Values from a Secret are masked, and so are \
overrideValues from environment variables. It changes nothing.";

/// Characters of a value in a table.
const VALUE_WIDTH: usize = 60;
/// What a table shows for a masked value.
const MASKED: &str = "(masked)";
/// Nesting of the values that are written as YAML.
const YAML_DEPTH: usize = 1000;

/// Show the effective values of a release, and where each one comes from
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES, long_about = ABOUT)]
pub struct ValuesArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The watches file
    #[arg(long, value_name = "FILE", default_value = "./watches.yaml")]
    watches_file: PathBuf,
    /// The decorator to use if several watches match the object
    #[arg(long, value_name = "NAME")]
    decorator: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ValuesFormat::Table)]
    output: ValuesFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ValuesFormat {
    Table,
    Json,
    Yaml,
}

pub fn run(args: &ValuesArgs) -> anyhow::Result<()> {
    let (watches, warnings) = chartwright_watches::load(&args.watches_file)?;
    for warning in warnings {
        note!("warning: {warning}");
    }
    // A text that is not in the file comes from an environment variable.
    let file = std::fs::read_to_string(&args.watches_file).with_context(|| args.watches_file.display().to_string())?;
    let found = block_on(async {
        let target = args.target.connect().await?;
        let object: DynamicObject = serde_json::from_value(target.read().await?)?;
        let mut resource = CustomResource::from(object);
        let group_kind = target.group_kind.clone();
        let version = target.resource.api.version.clone();
        let watch = chartwright_watches::find_watch(
            &watches,
            args.decorator.as_deref(),
            &(&group_kind.group, &version, &group_kind.kind),
            &resource.labels,
        )
        .map_err(anyhow::Error::msg)?;
        resource = resource.decorated_by(watch.decorator.clone());
        let unit = build_unit(watch, group_kind, target.resource.clone())?;
        let snapshot = Discovery::new(target.client.clone()).await?.snapshot();
        let is_public = |text: &str| file.contains(text);
        explain_values(&target.client, &snapshot, &unit, &resource, is_public).await
    })?;
    let text = match args.output {
        ValuesFormat::Table => format_table(&found),
        ValuesFormat::Json => serde_json::to_string_pretty(&json!({"values": found}))? + "\n",
        ValuesFormat::Yaml => {
            let values = serde_json::to_value(json!({"values": found}))?;
            go_yaml::to_string(&values, YAML_DEPTH).map_err(|error| anyhow::anyhow!("{error}"))?
        }
    };
    stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn format_table(found: &[ValueOrigin]) -> String {
    let header = ["PATH", "VALUE", "SOURCE"].map(str::to_owned);
    let rows = found.iter().map(|row| {
        let value = row.value.as_ref().map_or_else(|| MASKED.to_owned(), show);
        [
            one_line(&row.path).into_owned(),
            value,
            one_line(&row.origin).into_owned(),
        ]
    });
    align_columns(&std::iter::once(header).chain(rows).collect::<Vec<_>>())
}

/// A value on one line, as JSON, cut to the width of its column.
fn show(value: &Value) -> String {
    let text = value.to_string();
    let text = one_line(&text);
    if text.chars().count() <= VALUE_WIDTH {
        return text.into_owned();
    }
    text.chars().take(VALUE_WIDTH - 3).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_listed_in_columns() {
        let row = |path: &str, value: Option<Value>, origin: &str| ValueOrigin {
            path: path.into(),
            secret: value.is_none(),
            value,
            origin: origin.into(),
        };
        let found = [
            row("image.tag", Some(json!("v1")), "CR"),
            row("password", None, "valuesFrom[0]: Secret shop/creds"),
            row(
                "text",
                Some(json!("\u{1b}[31m\n".to_owned() + &"x".repeat(100))),
                "chart default",
            ),
        ];
        let table = format_table(&found);
        let lines: Vec<&str> = table.lines().collect();
        assert!(
            lines[0].starts_with("PATH       VALUE ") && lines[0].ends_with("SOURCE"),
            "{table}"
        );
        assert!(
            lines[1].starts_with("image.tag  \"v1\" ") && lines[1].ends_with("  CR"),
            "{table}"
        );
        assert!(lines[2].starts_with("password   (masked) "), "{table}");
        assert!(
            lines.len() == 4 && lines[3].contains("xxx...  chart default"),
            "{table}"
        );
        assert!(!table.contains('\u{1b}'));
        let masked = serde_json::to_value(&found[1]).unwrap();
        assert_eq!(
            masked,
            json!({"path": "password", "secret": true, "origin": "valuesFrom[0]: Secret shop/creds"})
        );
    }
}
