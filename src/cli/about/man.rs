//! `chartwright man`: manual pages, one per command, generated from the texts of `--help`.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use chartwright_operator::telemetry::VERSION;

const EXAMPLES: &str = "\
Examples:
  # Show the page of the program, and that of a command
  chartwright man | man -l -
  chartwright man create api | man -l -

  # Write all pages to a folder that man(1) searches
  chartwright man --out /usr/local/share/man/man1";

/// Print a manual page, or write the pages of all commands
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ManArgs {
    /// The command whose page is printed [default: the program]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Prints a page of `program`, or writes all pages.
///
/// # Errors
/// The command does not exist, or a page cannot be written.
pub fn run(args: &ManArgs, program: Command, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut program = without_help(program);
    program.build();
    if let Some(folder) = &args.out {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        return write_all(&program, folder);
    }
    let mut command = &program;
    for word in &args.command {
        let found = command.find_subcommand(word);
        command = found.with_context(|| format!("there is no command `{}`", args.command.join(" ")))?;
    }
    out.write_all(&page(command)?)?;
    Ok(())
}

/// Removes the command `help` of each command: it has no page.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

fn write_all(command: &Command, folder: &std::path::Path) -> anyhow::Result<()> {
    let file = folder.join(format!("{}.1", title(command)));
    std::fs::write(&file, page(command)?).with_context(|| file.display().to_string())?;
    let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.into_iter().try_for_each(|command| write_all(command, folder))
}

/// Returns a title such as chartwright-create-api.
fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// Returns a page as troff source.
fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = Man::new(command.clone())
        .title(title(command).to_owned())
        .source(format!("chartwright {VERSION}"))
        .manual("Chartwright");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(help) = command.get_after_help() {
        examples(&help.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

/// Formats the text after the help line by line: clap_mangen would join the lines.
fn examples(help: &str) -> Roff {
    let mut roff = Roff::new();
    let lines = match help.strip_prefix("Examples:\n") {
        Some(lines) => {
            roff.control("SH", ["EXAMPLES"]);
            lines
        }
        None => help,
    };
    roff.control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line)]);
    }
    roff.control("fi", []);
    roff
}

#[cfg(test)]
mod tests {
    use std::process::Command as Process;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn printed(words: &[&str]) -> anyhow::Result<String> {
        let args = ManArgs {
            command: words.iter().map(|word| (*word).to_owned()).collect(),
            out: None,
        };
        let mut out = Vec::new();
        run(&args, Cli::command(), &mut out)?;
        Ok(String::from_utf8(out)?)
    }

    #[test]
    fn a_page_has_the_texts_of_the_help() {
        let page = printed(&["create", "api"]).unwrap();
        for part in [
            ".TH chartwright-create-api 1",
            "helm\\-chart",
            ".SH EXAMPLES",
            "the newest 7.9",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(printed(&[]).unwrap().contains("chartwright\\-create(1)"));
        let none = printed(&["create", "nothing"]).unwrap_err().to_string();
        assert!(none.contains("there is no command `create nothing`"), "{none}");
    }

    #[test]
    fn every_command_has_a_valid_page() {
        let folder = tempfile::tempdir().unwrap();
        let args = ManArgs {
            command: Vec::new(),
            out: Some(folder.path().join("man1")),
        };
        run(&args, Cli::command(), &mut Vec::new()).unwrap();
        let pages: Vec<PathBuf> = std::fs::read_dir(folder.path().join("man1"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        let has = |name: &str| pages.iter().any(|page| page.ends_with(name));
        assert!(has("chartwright.1") && has("chartwright-generate-rbac.1") && !has("chartwright-help.1"));
        for page in pages {
            // Without groff the pages are not checked.
            let Ok(output) = Process::new("groff")
                .args(["-man", "-Tutf8", "-ww"])
                .arg(&page)
                .output()
            else {
                return;
            };
            let messages = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && messages.is_empty(),
                "{}: {messages}",
                page.display()
            );
        }
    }
}
