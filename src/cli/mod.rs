//! The command line: one file per command. Exit codes: 0 done, 1 failed, 2 wrong use.

pub mod completion;
pub mod flags;
mod leftovers;
mod memory;
pub mod pflag;
mod release_finalizers;
mod render;
mod run;
pub mod template;
pub mod version;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  # Run the operator against the cluster of your kubeconfig
  chartwright run

  # What would be applied for a custom resource
  chartwright render -f config/samples/cache_v1alpha1_memcached.yaml

  # Render a chart as `helm template` does
  chartwright template my-release charts/memcached --set size=3";

/// Turns Helm charts into Kubernetes operators
#[derive(Debug, Parser)]
#[command(name = "chartwright", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<flags::RunArgs>),
    Render(render::RenderArgs),
    ReleaseFinalizers(release_finalizers::ReleaseFinalizersArgs),
    Leftovers(leftovers::LeftoversArgs),
    /// Replaced by `template::command`.
    Template,
    Completion(completion::CompletionArgs),
    Version(version::VersionArgs),
}

/// The whole command line.
fn command() -> clap::Command {
    Cli::command().mut_subcommand("template", |_| template::command())
}

/// What can be read of an argument. As in Go, each byte that isn't UTF-8 is U+FFFD.
fn text_of(word: &[u8]) -> String {
    let mut text = String::with_capacity(word.len());
    for chunk in word.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Parses the arguments of the process and runs its command.
pub fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).map(|word| text_of(word.as_encoded_bytes()));
    // Its flags follow other rules than clap's.
    if words.next().as_deref() == Some("template") {
        return template::run(&words.collect::<Vec<_>>());
    }
    let cli = Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit());
    let result = match cli.command {
        Command::Run(args) => return run::run(&args),
        Command::Template => return template::run(&[]),
        Command::Render(args) => render::run(&args),
        Command::ReleaseFinalizers(args) => release_finalizers::run(&args),
        Command::Leftovers(args) => leftovers::run(&args),
        Command::Completion(args) => completion::run(&args, command(), &mut io::stdout()).map_err(Into::into),
        Command::Version(args) => version::run(&args, &mut io::stdout()).map_err(Into::into),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Tells what went wrong. A reader that closed the pipe has seen enough, and is told nothing.
fn fail(error: &anyhow::Error) -> ExitCode {
    let closed = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if closed {
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(io::stderr(), "Error: {error:#}");
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn each_byte_that_is_no_text_is_replaced() {
        assert_eq!(text_of(b"a=\xf0\x9f,\xc3\xa9"), "a=\u{fffd}\u{fffd},\u{e9}");
    }

    #[test]
    fn every_command_has_help_with_an_example() {
        for command in command()
            .get_subcommands()
            .filter(|command| command.get_name() != "help")
        {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }
}
