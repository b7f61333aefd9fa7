//! `chartwright plan`: lists the plans of a release, or runs one.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::table::align_columns;
use super::target::{TargetArgs, TargetResource};
use super::wait::{POLL_INTERVAL, parse_timeout};
use crate::cli::block_on;
use crate::cli::stdout::stdout;
use crate::cli::stdout::{note, print_line};
use chartwright_core::annotations::{PLAN_PARAMS, RUN_PLAN};
use chartwright_core::hooks::HookRun;
use chartwright_core::plans::{self, FAILED, Plan, SUCCEEDED};
use chartwright_operator::cluster::workloads::pods::{last_lines, tail};

const EXAMPLES: &str = "\
Examples:
  # List the plans of a release and their runs
  chartwright plan list sampledb orders

  # Run a plan now, with a parameter, and wait for its end
  chartwright plan run sampledb orders backup --set label=before-migration --wait";

/// List the plans of a release, or run one
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PlanArgs {
    #[command(subcommand)]
    command: PlanCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum PlanCommand {
    /// List the plans of a release
    #[command(after_help = EXAMPLES)]
    List(PlanListArgs),
    /// Run a plan of a release
    #[command(after_help = EXAMPLES)]
    Run(PlanRunArgs),
}

#[derive(Args, Clone, Debug)]
struct PlanListArgs {
    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Args, Clone, Debug)]
struct PlanRunArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Name of the plan
    plan: String,
    /// Text parameter for the templates of the plan (`.Plan.Params`). Repeatable
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_parameter)]
    set: Vec<(String, String)>,
    /// Wait for the end of the run, print the last log lines, and fail if the run failed
    #[arg(long)]
    wait: bool,
    /// Limit of the wait, as a Go duration
    #[arg(long, default_value = "10m", value_parser = parse_timeout)]
    timeout: Duration,
}

fn parse_parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as name=value".to_owned()),
    }
}

pub fn run(args: &PlanArgs) -> anyhow::Result<()> {
    block_on(async {
        match &args.command {
            PlanCommand::List(args) => list_plans(args).await,
            PlanCommand::Run(args) => start_run(args).await,
        }
    })
}

/// Returns the plans in the status of a custom resource.
fn plans_of(object: &Value) -> Vec<Plan> {
    Vec::deserialize(&object["status"]["plans"]).unwrap_or_default()
}

async fn list_plans(args: &PlanListArgs) -> anyhow::Result<()> {
    let target = args.target.connect().await?;
    let plans = plans_of(&target.read().await?);
    if plans.is_empty() {
        note!("{target} has no plans.");
        return Ok(());
    }
    write!(stdout(), "{}", format_table(&plans))?;
    Ok(())
}

fn format_table(plans: &[Plan]) -> String {
    let time = |time: Option<jiff::Timestamp>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
    let or_dash = |text: &str| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text.to_owned()
        }
    };
    let header = ["PLAN", "RUNS", "LAST", "ENDED", "SCHEDULE", "NEXT", "MESSAGE"].map(str::to_owned);
    let rows = plans.iter().map(|plan| {
        let message = if plan.invalid.is_empty() {
            plan.message.lines().next().unwrap_or_default()
        } else {
            &plan.invalid
        };
        let (count, last, schedule) = (plan.count.to_string(), or_dash(&plan.phase), or_dash(&plan.schedule));
        let (ended, next) = (time(plan.ended), time(plan.next));
        [
            plan.name.clone(),
            count,
            last,
            ended,
            schedule,
            next,
            message.to_owned(),
        ]
    });
    align_columns(&[header].into_iter().chain(rows).collect::<Vec<_>>())
}

async fn start_run(args: &PlanRunArgs) -> anyhow::Result<()> {
    let target = args.target.connect().await?;
    let object = target.read().await?;
    let plans = plans_of(&object);
    let names: Vec<&str> = plans.iter().map(|plan| plan.name.as_str()).collect();
    ensure!(
        names.contains(&args.plan.as_str()),
        "{target} has no plan {:?}; it has {}",
        args.plan,
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    );
    let token = jiff::Timestamp::now().to_string();
    let pairs = args
        .set
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    let params = Value::Object(pairs.collect::<Map<_, _>>()).to_string();
    let text = format!("{}@{token}", args.plan);
    target
        .annotate(&object, &[(PLAN_PARAMS, &params), (RUN_PLAN, &text)])
        .await?;
    print_line!("plan {} of {target} is requested", args.plan);
    if args.wait {
        wait_for_run(&target, args, &text, &token).await
    } else {
        Ok(())
    }
}

/// Waits for the end of the run, and prints its progress.
async fn wait_for_run(target: &TargetResource, args: &PlanRunArgs, text: &str, token: &str) -> anyhow::Result<()> {
    let until = Instant::now() + args.timeout;
    let mut shown = String::new();
    loop {
        let object = target.read().await?;
        let status = &object["status"];
        let plan = plans_of(&object).into_iter().find(|plan| plan.name == args.plan);
        let plan = plan.with_context(|| format!("{target} has no plan {} any more", args.plan))?;
        let is_ours = plan.token == token;
        let steps = Vec::<HookRun>::deserialize(&status["planRun"]["steps"]["runs"]).unwrap_or_default();
        let steps = steps.into_iter().filter(|step| step.event == plans::event(&args.plan));
        let now = match (status["lastHandledRunPlan"] == text, is_ours) {
            (false, _) => "waiting for the operator".to_owned(),
            (true, false) => "waiting for its turn".to_owned(),
            (true, true) => {
                let steps: Vec<String> = steps
                    .clone()
                    .map(|step| {
                        format!(
                            "{} {}: {}",
                            step.object.group_kind.kind,
                            step.object.name,
                            step.phase.as_str()
                        )
                    })
                    .collect();
                steps.join(", ")
            }
        };
        let refused = status["planRun"]["refused"].as_str().unwrap_or_default();
        if status["lastHandledRunPlan"] == text && !is_ours && !refused.is_empty() {
            bail!("{refused}");
        }
        if now != shown {
            note!("{now}");
            shown = now;
        }
        if is_ours && (plan.phase == SUCCEEDED || plan.phase == FAILED) {
            return report_run_end(target, &plan, steps.collect()).await;
        }
        ensure!(
            Instant::now() < until,
            "plan {} did not end within {:?}",
            args.plan,
            args.timeout
        );
        sleep(POLL_INTERVAL).await;
    }
}

async fn report_run_end(target: &TargetResource, plan: &Plan, steps: Vec<HookRun>) -> anyhow::Result<()> {
    ensure!(plan.phase == SUCCEEDED, "plan {} failed: {}", plan.name, plan.message);
    for step in steps {
        let lines = last_lines(&target.client, &step.object, &step.uid).await;
        match lines.as_deref().map(tail) {
            Ok("") => {}
            Ok(lines) => print_line!("{}: {lines}", step.object.name),
            Err(error) => note!("{}: its log can't be read: {error}", step.object.name),
        }
    }
    print_line!("plan {} succeeded", plan.name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_listed_in_columns() {
        let plan = |name: &str, phase: &str| Plan {
            name: name.into(),
            phase: phase.into(),
            count: 2,
            schedule: "0 2 * * *".into(),
            ended: "2026-01-02T03:04:05Z".parse().ok(),
            message: "line\nmore".into(),
            ..Plan::default()
        };
        let expected = "\
PLAN    RUNS  LAST       ENDED                 SCHEDULE   NEXT  MESSAGE
backup  2     Succeeded  2026-01-02T03:04:05Z  0 2 * * *  -     line
test    2     -          2026-01-02T03:04:05Z  0 2 * * *  -     line
";
        assert_eq!(format_table(&[plan("backup", SUCCEEDED), plan("test", "")]), expected);
        assert!(parse_parameter("a=b=c").is_ok_and(|pair| pair == ("a".into(), "b=c".into())));
        assert!(parse_parameter("=b").is_err() && parse_parameter("a").is_err());
    }
}
