//! The command line: a folder per topic, a file per command. Exit codes: 0 done, 1 failed, 2 wrong usage.

mod about;
pub mod chart;
mod dashboard;
mod plugin;
mod project;
mod release;
mod run;
mod stdout;
mod switch;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};

use about::{complete, completion, man, version};
use chart::{lint, render, template, verify};
use plugin::CalledAs;
use project::{create, generate, init};
use release::{diff, explain, get, history, leftovers, plan, release_finalizers, request, rollout, usage, values};
use stdout::{has_colors, stdout};

const EXAMPLES: &str = "\
Examples:
  # Run the operator against the cluster of your kubeconfig
  chartwright run

  # Print what `run` would apply for a custom resource
  chartwright render -f config/samples/cache_v1alpha1_memcached.yaml

  # Render a chart as `helm template` does
  chartwright template my-release charts/memcached --set size=3";

/// Turns Helm charts into Kubernetes operators
#[derive(Debug, Parser)]
#[command(name = "chartwright", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    Run(Box<run::RunArgs>),
    Init(init::InitArgs),
    Create(create::CreateArgs),
    Delete(create::DeleteArgs),
    Render(render::RenderArgs),
    Generate(generate::GenerateArgs),
    ReleaseFinalizers(release_finalizers::ReleaseFinalizersArgs),
    Diff(Box<diff::DiffArgs>),
    Get(get::GetArgs),
    Dashboard(dashboard::DashboardArgs),
    Explain(explain::ExplainArgs),
    Tree(explain::TreeArgs),
    Values(values::ValuesArgs),
    Suspend(request::SuspendArgs),
    Resume(request::ResumeArgs),
    Reconcile(request::ReconcileArgs),
    Force(request::ForceArgs),
    History(history::HistoryArgs),
    Rollback(history::RollbackArgs),
    Rollout(rollout::RolloutArgs),
    Plan(plan::PlanArgs),
    Leftovers(leftovers::LeftoversArgs),
    Lint(lint::LintArgs),
    Usage(usage::UsageArgs),
    Verify(verify::VerifyArgs),
    Template(Box<template::TemplateArgs>),
    Completion(completion::CompletionArgs),
    Man(man::ManArgs),
    Version(version::VersionArgs),
}

/// Parses the arguments of the process and runs its command.
pub fn main() -> ExitCode {
    if let Some(words) = complete::words_to_complete() {
        complete::run(&words, Cli::command());
        return ExitCode::SUCCESS;
    }
    let called_as = CalledAs::of(std::env::args_os().next().as_deref());
    if called_as == CalledAs::Completion {
        let words: Vec<String> = std::env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        plugin::print_completions(&words, Cli::command());
        return ExitCode::SUCCESS;
    }
    let parsed = match called_as {
        CalledAs::Plugin => build_command()
            .bin_name("kubectl chartwright")
            .mut_subcommand("diff", |diff| diff.override_usage(diff::usage("kubectl chartwright"))),
        _ => build_command(),
    };
    let parsed = parsed.try_get_matches();
    let cli =
        parsed.and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut build_command())));
    let cli = cli.unwrap_or_else(|error| exit_with_usage_error(&error));
    let result = match cli.command {
        CliCommand::Run(args) => return run::run(*args),
        CliCommand::Template(args) => return template::run(&args),
        CliCommand::Generate(args) => return generate::run(&args).unwrap_or_else(|error| report_failure(&error)),
        CliCommand::Lint(args) => return lint::run(&args),
        CliCommand::Verify(args) => return verify::run(&args),
        CliCommand::Diff(args) => {
            if let Err(why) = args.check() {
                refuse_usage("diff", why);
            }
            return diff::run(&args);
        }
        CliCommand::Render(args) => render::run(&args),
        CliCommand::Init(args) => init::run(&args),
        CliCommand::Create(args) => create::create(&args),
        CliCommand::Delete(args) => create::delete(&args),
        CliCommand::ReleaseFinalizers(args) => release_finalizers::run(&args),
        CliCommand::Get(args) => get::run(&args),
        CliCommand::Dashboard(args) => dashboard::run(&args),
        CliCommand::Explain(args) => explain::explain(&args),
        CliCommand::Tree(args) => explain::tree(&args),
        CliCommand::Values(args) => values::run(&args),
        CliCommand::Suspend(args) => request::suspend(&args),
        CliCommand::Resume(args) => request::resume(&args),
        CliCommand::Reconcile(args) => request::reconcile(&args),
        CliCommand::Force(args) => request::force(&args),
        CliCommand::History(args) => history::list_revisions(&args),
        CliCommand::Plan(args) => plan::run(&args),
        CliCommand::Rollback(args) => history::rollback(&args),
        CliCommand::Rollout(args) => rollout::run(&args),
        CliCommand::Leftovers(args) => leftovers::run(&args),
        CliCommand::Usage(args) => usage::run(&args),
        CliCommand::Completion(args) => completion::run(&args, Cli::command(), &mut stdout()).map_err(Into::into),
        CliCommand::Man(args) => man::run(&args, Cli::command(), &mut stdout()),
        CliCommand::Version(args) => version::run(&args, &mut stdout()).map_err(Into::into),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report_failure(&error),
    }
}

/// Runs the requests of a command on a runtime with one thread.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("async runtime")?.block_on(work)
}

fn is_template_command() -> bool {
    std::env::args_os().nth(1).is_some_and(|word| word == "template")
}

/// Replaces the spaces of an example until the help is printed. clap wraps lines at spaces, and a wrapped command cannot be copied.
const NO_BREAK_SPACE: &str = "\u{a0}";

/// Returns the command line with examples that clap does not wrap.
fn build_command() -> clap::Command {
    keep_example_lines(Cli::command())
}

fn keep_example_lines(mut command: clap::Command) -> clap::Command {
    if let Some(help) = command.get_after_help().map(ToString::to_string) {
        let line = |line: &str| {
            if line.starts_with("  ") {
                line.replace(' ', NO_BREAK_SPACE)
            } else {
                line.to_owned()
            }
        };
        command = command.after_help(help.split_inclusive('\n').map(line).collect::<String>());
    }
    command.mut_subcommands(keep_example_lines)
}

/// Prints the help text of a clap error.
fn print_help(error: &clap::Error) {
    let help = error.render();
    let is_colored = if error.use_stderr() {
        has_colors(&io::stderr())
    } else {
        has_colors(&io::stdout())
    };
    let text = if is_colored {
        help.ansi().to_string()
    } else {
        help.to_string()
    };
    let text = text.replace(NO_BREAK_SPACE, " ");
    let _ = if error.use_stderr() {
        io::stderr().write_all(text.as_bytes())
    } else {
        io::stdout().write_all(text.as_bytes())
    };
}

/// Prints the error or the help, and ends the process. `template` returns 1 for wrong usage, as Helm does.
fn exit_with_usage_error(error: &clap::Error) -> ! {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => print_help(error),
        _ => drop(error.print()),
    }
    std::process::exit(match error.exit_code() {
        2 if is_template_command() => 1,
        code => code,
    })
}

/// Reports wrong arguments of a command with its usage, and ends the process.
fn refuse_usage(name: &str, why: String) -> ! {
    let mut command = build_command();
    command.build();
    let command = command.find_subcommand_mut(name);
    let error = command.map(|command| command.error(ErrorKind::MissingRequiredArgument, &why));
    exit_with_usage_error(&error.unwrap_or_else(|| clap::Error::raw(ErrorKind::MissingRequiredArgument, why)))
}

/// Prints an error. A closed standard output is no error. The error texts of `template` are Helm's, so they are not escaped.
fn report_failure(error: &anyhow::Error) -> ExitCode {
    if stdout::is_closed(error) {
        return ExitCode::SUCCESS;
    }
    if is_template_command() {
        drop(writeln!(io::stderr(), "Error: {error:#}"))
    } else {
        stdout::show_error(format_args!("Error: {error:#}\n"))
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_reference_lists_each_command() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/cli.md")).unwrap();
        let (_, rest) = page.split_once("\n## Overview\n").unwrap();
        let (overview, _) = rest.split_once("\n## ").unwrap();
        for command in Cli::command()
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
        {
            let name = command.get_name();
            let is_listed = ["`", " "].iter().any(|end| overview.contains(&format!("`{name}{end}")));
            assert!(is_listed || name == "help", "the overview does not list {name}");
        }
    }

    #[test]
    fn the_commands_of_a_report_are_those_of_the_program() {
        use chartwright_core::identity::GroupKind;
        use chartwright_core::report::{ReleaseReport, ReportFacts};
        let reasons =
            "ChartInvalid ValuesInvalid Refused Forbidden Collision ApplyFailed HookFailed RolledBack Other".split(' ');
        let condition =
            |reason| serde_json::json!({"type": "Ready", "status": "False", "reason": reason, "message": "x"});
        let resource = |reason| {
            let metadata = serde_json::json!({"name": "web", "namespace": "shop", "annotations": {}});
            serde_json::json!({"metadata": metadata, "status": {"conditions": [condition(reason)]}})
        };
        let mut resources: Vec<_> = reasons.map(resource).collect();
        let mut suspended = resource("Other");
        suspended["metadata"]["annotations"]["chartwright.dev/suspend"] = "true".into();
        let mut immutable = resource("Immutable");
        immutable["status"]["conditions"][0]["message"] = "set chartwright.dev/force-at".into();
        let labels = serde_json::json!({"applyset.kubernetes.io/part-of": "applyset-x"});
        let member = serde_json::json!({"metadata": {"name": "web", "labels": labels}});
        resources.extend([
            suspended,
            immutable,
            member,
            serde_json::json!({"metadata": {"name": "web"}}),
        ]);
        for resource in resources {
            let facts = ReportFacts::new(GroupKind::new("example.com", "Web"), resource);
            let report = ReleaseReport::of(&facts, jiff::Timestamp::UNIX_EPOCH);
            let commands: Vec<&String> = report.causes.iter().flat_map(|cause| &cause.commands).collect();
            assert!(!commands.is_empty(), "{report:?}");
            for command in commands.into_iter().flat_map(|command| command.split(" | ")) {
                let is_ours = command.starts_with("chartwright ");
                assert!(is_ours || command.starts_with("kubectl "), "{command}");
                assert!(!is_ours || Cli::try_parse_from(command.split(' ')).is_ok(), "{command}");
            }
        }
    }

    #[test]
    fn wrong_usage_is_rejected() {
        let parse = |line: &str| Cli::try_parse_from(format!("chartwright {line}").split(' '));
        for line in [
            "release-finalizers",
            "release-finalizers --dry-run",
            "release-finalizers --all --kind A",
            "release-finalizers --deleting --orphan",
            "completion tcsh",
            "history memcached",
            "rollback memcached web three",
            "plan run memcached web",
            "plan run memcached web backup --set x",
            "rollback memcached web --timeout soon",
            "usage --by chart",
            "usage -o yaml",
            "create api --kind Web --helm-chart-version 1.0.0",
            "create api --helm-chart web --verify",
            "create api --helm-chart web --keyring keys.gpg",
            "create api --helm-chart web --username me",
            "generate rbac --check",
            "generate argocd --check",
            "lint -o xml",
            "lint --severity info",
            "verify -o xml",
            "verify -j many",
            "get -A -n shop",
            "get memcached web -A",
            "get -o csv",
            "dashboard --port many",
            "dashboard memcached",
            "values memcached",
            "suspend memcached",
            "suspend memcached web --all",
            "resume memcached web -l a=b",
            "reconcile memcached web -A",
            "force memcached web --wait --dry-run",
            "diff memcached web --all",
            "diff memcached web -A",
            "diff memcached web -l a=b",
            "diff -f cr.yaml --all",
            "diff -f cr.yaml memcached web",
            "diff --all -A -n shop",
            "diff --all -o yaml",
            "diff --all --color sometimes",
            "diff --all --chart-version 1",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
        for line in [
            "release-finalizers --kind Memcached -n shop --name=web",
            "release-finalizers --all --deleting --dry-run",
            "lint charts/x -o sarif --rule a,b --ignore c --severity error",
            "leftovers --delete -n shop --uid=u",
            "get",
            "get memcached web -n shop -o yaml -w",
            "dashboard -n shop --port 8088 --watches-file watches.yaml",
            "get -A --not-ready -l team=shop --watches-file watches.yaml",
            "suspend memcached --all -A -l team=shop --wait --timeout 1m",
            "reconcile memcached web -n shop --dry-run",
            "diff -f -",
            "diff memcached web -n shop --set a=1 --values v.yaml --chart ./web",
            "diff memcached --all -A -l team=shop -o markdown",
            "diff --all --watches-file new.yaml --color never",
            "verify",
            "verify charts/a charts/b --run up* -j 4 --junit x.xml --update -o junit",
            "history memcacheds.cache.example.com web -n shop -o json",
            "rollback memcached web 3 --wait --timeout 1m",
            "plan run memcached web backup --set a=b --set c= --wait",
            "plan list memcached web -n shop",
            "generate argocd -o config/argocd --check",
            "usage --by namespace -o csv --kind Memcached -n shop",
            "create api --helm-chart oci://a/web --username me --password-stdin --verify --keyring k --ca-file ca.pem",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn diff_names_its_three_ways() {
        let check = |line: &str| match Cli::try_parse_from(line.split(' ')).unwrap().command {
            CliCommand::Diff(args) => args.check(),
            _ => panic!("{line}"),
        };
        for line in ["diff a b", "diff --all", "diff a --all", "diff -f -"] {
            assert_eq!(check(&format!("chartwright {line}")), Ok(()), "{line}");
        }
        let why = check("chartwright diff").unwrap_err();
        for way in ["<KIND> <NAME>", "-f <FILE>", "--all"] {
            assert!(why.contains(way), "{why}");
        }
        let why = check("chartwright diff web").unwrap_err();
        assert!(why.contains("web <NAME>, or web --all"), "{why}");
        let mut command = build_command();
        command.build();
        let usage = command.find_subcommand_mut("diff").unwrap().render_usage().to_string();
        assert_eq!(
            usage,
            "Usage: chartwright diff [OPTIONS] <KIND> <NAME> | -f <FILE> | --all"
        );
    }

    /// Splits a line into commands as a shell does, without comments, leading variables and redirections.
    fn commands(line: &str) -> Vec<Vec<String>> {
        let mut commands = vec![vec![String::new()]];
        let mut quote = None;
        for letter in line.chars() {
            let command = commands.last_mut().unwrap();
            match (quote, letter) {
                (Some(open), _) if open == letter => quote = None,
                (None, '"' | '\'') => quote = Some(letter),
                (None, '#') => break,
                (None, '|' | '<' | '>' | '(' | ')') => commands.push(vec![String::new()]),
                (None, ' ') => command.push(String::new()),
                _ => command.last_mut().unwrap().push(letter),
            }
        }
        let words = |command: Vec<String>| {
            let is_word = |word: &String| !word.is_empty() && !word.starts_with("WATCH_NAMESPACE=");
            command.into_iter().filter(is_word).collect()
        };
        commands.into_iter().map(words).collect()
    }

    /// Checks the examples of the command `path` and of its subcommands.
    fn check_examples(command: &clap::Command, path: &[String]) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let shown = path.join(" ");
        assert!(help.starts_with("Examples:\n"), "{shown}");
        let ours: Vec<Vec<String>> = help
            .lines()
            .filter(|line| line.starts_with("  "))
            .flat_map(commands)
            .filter(|command| command.first().is_some_and(|word| word == "chartwright"))
            .collect();
        assert!(ours.iter().any(|words| words.starts_with(path)), "{shown}: {ours:?}");
        for words in &ours {
            let parsed = Cli::try_parse_from(words);
            assert!(parsed.is_ok(), "{shown}: {words:?}: {}", parsed.unwrap_err());
        }
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            check_examples(below, &[path, &[below.get_name().to_owned()]].concat());
        }
    }

    /// Checks that the help of a command and of its subcommands contains each example line unwrapped.
    fn check_lines(command: &clap::Command) {
        let help = command.clone().term_width(40).render_long_help().to_string();
        let help = help.replace(NO_BREAK_SPACE, " ");
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in examples
            .replace(NO_BREAK_SPACE, " ")
            .lines()
            .filter(|line| line.starts_with("  "))
        {
            assert!(help.lines().any(|shown| shown == line), "{line}\n{help}");
        }
        command.get_subcommands().for_each(check_lines);
    }

    #[test]
    fn examples_are_not_wrapped() {
        check_lines(&build_command());
    }

    #[test]
    fn every_command_has_examples_that_parse() {
        check_examples(&Cli::command(), &["chartwright".to_owned()]);
        assert!(commands("a 'b c' | d > e")[1] == ["d"]);
    }
}
