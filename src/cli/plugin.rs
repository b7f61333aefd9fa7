//! The program as a plugin of kubectl: `kubectl chartwright explain memcached web`.
//!
//! kubectl runs a plugin under the name `kubectl-chartwright`. For completion it runs `kubectl_complete-chartwright` with the words of the
//! command line, and reads one word per line and then a directive of Cobra.

use std::ffi::OsStr;
use std::path::Path;

use super::about::complete;

/// Cobra's directive `ShellCompDirectiveNoFileComp`: the shell does not add file names.
const NO_FILES: &str = ":4";

/// The name under which the program was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CalledAs {
    Program,
    Plugin,
    Completion,
}

impl CalledAs {
    /// By the first word of the command line.
    pub(super) fn of(program: Option<&OsStr>) -> Self {
        let name = program.and_then(|program| Path::new(program).file_stem());
        match name.and_then(OsStr::to_str) {
            Some("kubectl-chartwright") => CalledAs::Plugin,
            Some("kubectl_complete-chartwright") => CalledAs::Completion,
            _ => CalledAs::Program,
        }
    }
}

/// Prints the words that the last word of a command line can be: commands, else kinds and names of the cluster.
pub(super) fn print_completions(words: &[String], command: clap::Command) {
    let mut found = match words {
        [] => Vec::new(),
        [start] => commands(&command, start),
        words => complete::find(words, command),
    };
    found.push(NO_FILES.to_owned());
    complete::print(&found);
}

fn commands(command: &clap::Command, start: &str) -> Vec<String> {
    let names = command.get_subcommands().map(clap::Command::get_name);
    names
        .filter(|name| name.starts_with(start))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_program_decides() {
        for (name, expected) in [
            ("chartwright", CalledAs::Program),
            ("/usr/bin/kubectl-chartwright", CalledAs::Plugin),
            ("kubectl-chartwright.exe", CalledAs::Plugin),
            ("./kubectl_complete-chartwright", CalledAs::Completion),
            ("kubectl", CalledAs::Program),
            ("", CalledAs::Program),
        ] {
            assert_eq!(CalledAs::of(Some(OsStr::new(name))), expected, "{name}");
        }
        assert_eq!(CalledAs::of(None), CalledAs::Program);
    }

    #[test]
    fn the_first_word_is_a_command() {
        let command =
            clap::Command::new("chartwright").subcommands(["explain", "expose", "tree"].map(clap::Command::new));
        assert_eq!(commands(&command, "ex"), ["explain", "expose"]);
        assert_eq!(commands(&command, "").len(), 3);
    }
}
