//! The tables of flags in `docs/reference`, generated from the texts of `--help`.
//!
//! A page has a region per command, between `<!-- generated: chartwright COMMAND -->` and `<!-- end generated -->`. The test below
//! compares each region with the command line. `UPDATE=1 cargo test -p chartwright --lib markdown` rewrites the regions.

use std::fmt::Write as _;

use clap::builder::ValueRange;
use clap::{Arg, ArgAction, Command};

/// Returns the tables of a command: one if no flag has a help heading, else one per heading. `rank` is the level of the headings.
fn flag_tables(command: &Command, rank: usize) -> String {
    let is_listed =
        |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version" if is_builtin(arg));
    let args: Vec<&Arg> = command.get_arguments().filter(is_listed).collect();
    let mut headings: Vec<Option<&str>> = Vec::new();
    for arg in &args {
        if !headings.contains(&arg.get_help_heading()) {
            headings.push(arg.get_help_heading());
        }
    }
    let mut text = String::new();
    for heading in &headings {
        if headings.len() > 1 {
            // `Logging (RUST_LOG ...)`: the parenthesis is for the terminal.
            let title = heading.unwrap_or("General").split(" (").next().unwrap_or_default();
            let _ = writeln!(text, "{} {title}\n", "#".repeat(rank));
        }
        text.push_str("| flag | default | meaning |\n|---|---|---|\n");
        for arg in args.iter().filter(|arg| arg.get_help_heading() == *heading) {
            let (flag, default, meaning) = (flag_cell(arg), default_cell(arg), meaning_cell(arg));
            let _ = writeln!(
                text,
                "{}",
                format!("| {flag} | {default} | {meaning} |").replace("|  |", "| |")
            );
        }
        text.push('\n');
    }
    text
}

/// True for the flags that clap adds by itself.
fn is_builtin(arg: &Arg) -> bool {
    matches!(
        arg.get_action(),
        ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
    )
}

/// Returns all spellings of a flag, the last one with its value: `-n`, `--namespace NAMESPACE`.
fn flag_cell(arg: &Arg) -> String {
    let values = match arg.get_value_names() {
        Some(names) => names.join(" "),
        None => arg.get_id().as_str().to_uppercase(),
    };
    if arg.is_positional() {
        let is_many = arg.get_num_args().unwrap_or(ValueRange::SINGLE).max_values() > 1;
        let dots = if is_many && !values.contains(' ') { "..." } else { "" };
        return format!("`{values}{dots}`");
    }
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long().map(|name| format!("--{name}"));
    let aliases = arg.get_visible_aliases().unwrap_or_default();
    let mut names: Vec<String> = short.into_iter().chain(long).collect();
    let is_optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    if let Some(last) = names
        .last_mut()
        .filter(|_| arg.get_action().takes_values() && !is_optional)
    {
        *last += &format!(" {values}");
    }
    names.extend(aliases.into_iter().map(|name| format!("--{name}")));
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ").replace('|', "\\|")
}

/// Returns the environment variable and the default: that of clap, else the text `[default: ...]` at the end of the help.
fn default_cell(arg: &Arg) -> String {
    if arg.is_required_set() {
        return "required".to_owned();
    }
    let env = arg.get_env().map(|name| format!("`{}`", name.to_string_lossy()));
    let values: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    let is_shown =
        arg.get_action().takes_values() && !values.is_empty() && (!arg.is_hide_default_value_set() || is_switch(arg));
    let default = match help_parts(arg).1 {
        Some(text) => Some(quote_code(&text)),
        None if is_shown => Some(format!("`{}`", values.join(","))),
        None => None,
    };
    [env, default].into_iter().flatten().collect::<Vec<_>>().join(", else ")
}

/// True for a flag that takes an optional boolean after `=`.
fn is_switch(arg: &Arg) -> bool {
    arg.get_value_names().is_some_and(|names| names == ["BOOL"])
}

/// Returns the help that `-h` prints, and the possible values.
fn meaning_cell(arg: &Arg) -> String {
    let (help, _) = help_parts(arg);
    let mut text = quote_code(help.trim_end_matches('.')) + ".";
    let values: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if let ([first @ .., last], false) = (values.as_slice(), is_switch(arg)) {
        let _ = write!(text, " {} or {last}.", first.join(", "));
    }
    text
}

/// Splits the help into its text and the default at its end.
fn help_parts(arg: &Arg) -> (String, Option<String>) {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    match help.split_once(" [default: ") {
        Some((text, default)) => (text.to_owned(), Some(default.trim_end_matches(']').to_owned())),
        None => (help, None),
    }
}

/// Escapes a text for a table cell, and quotes the words that look like code: flags, paths, variables and patterns.
fn quote_code(text: &str) -> String {
    let is_code = |word: &str| {
        let is_variable =
            word.len() > 4 && word.contains('_') && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        word.starts_with("--")
            || word.starts_with(['/', '.', '~', '-', '*', '='])
            || word.contains("://")
            || is_variable
            || matches!(word, "KUBECONFIG" | "CHART" | "0")
            || word.ends_with("/") && word.len() > 1
            || [".yaml", ".json", ".crd.yaml", ".tgz"]
                .iter()
                .any(|end| word.ends_with(end))
    };
    let words = text.split(' ').map(|word| {
        let core = word.trim_end_matches([',', ':', ';', ')', '.']).trim_start_matches('(');
        if is_code(core) && !word.contains('`') {
            word.replacen(core, &format!("`{core}`"), 1)
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    const BEGIN: &str = "<!-- generated: chartwright ";
    const END: &str = "<!-- end generated -->";

    fn page(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference").join(name)
    }

    /// Returns the page with generated regions, and the commands of the regions.
    fn regenerate(page: &str) -> (String, Vec<String>) {
        let mut program = Cli::command();
        program.build();
        let (mut text, mut commands) = (String::new(), Vec::new());
        let mut rest = page;
        while let Some((before, after)) = rest.split_once(BEGIN) {
            let (path, after) = after.split_once(" -->\n").expect("a region has a command");
            let (_, after) = after.split_once(END).expect("a region has an end");
            let found = path
                .split(' ')
                .try_fold(&program, |command, word| command.find_subcommand(word));
            let command = found.unwrap_or_else(|| panic!("there is no command {path}"));
            let rank = if path == "run" { 3 } else { 4 };
            let _ = write!(text, "{before}{BEGIN}{path} -->\n\n{}{END}", flag_tables(command, rank));
            commands.push(path.to_owned());
            rest = after;
        }
        (text + rest, commands)
    }

    /// Returns all commands that have flags or arguments of their own.
    fn commands_with_flags(command: &Command, path: &str) -> Vec<String> {
        let below = command
            .get_subcommands()
            .filter(|below| !matches!(below.get_name(), "help"));
        let below = below.flat_map(|below| commands_with_flags(below, &format!("{path} {}", below.get_name())));
        let own = command
            .get_arguments()
            .any(|arg| !is_builtin(arg) && !arg.is_hide_set());
        let own = own.then(|| path.trim().to_owned());
        own.into_iter().chain(below).collect()
    }

    #[test]
    fn the_pages_list_the_flags_of_all_commands() {
        let mut listed = Vec::new();
        for name in ["cli.md", "flags.md", "lint.md"] {
            let text = std::fs::read_to_string(page(name)).unwrap();
            let (generated, commands) = regenerate(&text);
            listed.extend(commands);
            if std::env::var_os("UPDATE").is_some_and(|value| value == "1") {
                std::fs::write(page(name), generated).unwrap();
            } else {
                assert_eq!(
                    text, generated,
                    "docs/reference/{name} is outdated: run this test with UPDATE=1"
                );
            }
        }
        listed.sort();
        let mut expected = commands_with_flags(&Cli::command(), "");
        expected.sort();
        assert_eq!(listed, expected);
    }

    #[test]
    fn cells_have_names_defaults_and_help() {
        let command = Command::new("test")
            .arg(Arg::new("kind").required(true).help("The kind"))
            .arg(
                Arg::new("file")
                    .short('f')
                    .long("filename")
                    .value_name("FILE")
                    .help("A file such as a.yaml. It is read"),
            )
            .arg(
                Arg::new("name")
                    .long("name")
                    .env("NAME_OF_IT")
                    .help("A name [default: --kind in ~/x]"),
            )
            .arg(
                Arg::new("output")
                    .long("output")
                    .default_value("a")
                    .value_parser(["a", "b", "c"])
                    .help("A | B"),
            )
            .arg(
                Arg::new("all")
                    .long("all")
                    .visible_alias("each")
                    .action(ArgAction::SetTrue)
                    .help("All"),
            )
            .arg(Arg::new("none").long("none").hide(true));
        let expected = "\
| flag | default | meaning |
|---|---|---|
| `KIND` | required | The kind. |
| `-f`, `--filename FILE` | | A file such as `a.yaml`. It is read. |
| `--name NAME` | `NAME_OF_IT`, else `--kind` in `~/x` | A name. |
| `--output OUTPUT` | `a` | A \\| B. `a`, `b` or `c`. |
| `--all`, `--each` | | All. |

";
        let mut command = command;
        command.build();
        assert_eq!(flag_tables(&command, 3), expected);
    }
}
