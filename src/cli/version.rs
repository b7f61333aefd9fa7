//! `chartwright version`.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::telemetry::{COMMIT, VERSION};

const EXAMPLES: &str = "\
Examples:
  chartwright version
  chartwright version -o json";

/// Print the version
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct VersionArgs {
    /// How to print it
    #[arg(short, long, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// one line for people
    Text,
    /// an object with version, commit (if the build knew it), os and arch
    Json,
}

/// Writes the version to `out`.
///
/// # Errors
/// Those of `out`.
pub fn run(args: &VersionArgs, out: &mut dyn Write) -> std::io::Result<()> {
    write(args.output, COMMIT, out)
}

fn write(output: Output, commit: Option<&str>, out: &mut dyn Write) -> std::io::Result<()> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    match output {
        Output::Text => {
            let commit = commit.map(|commit| format!("commit {commit}, ")).unwrap_or_default();
            writeln!(out, "chartwright {VERSION} ({commit}{os}/{arch})")
        }
        Output::Json => {
            let mut version = json!({"version": VERSION, "os": os, "arch": arch});
            if let Some(commit) = commit {
                version["commit"] = commit.into();
            }
            writeln!(out, "{version:#}")
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: VersionArgs,
    }

    fn written(output: Output, commit: Option<&str>) -> String {
        let mut out = Vec::new();
        write(output, commit, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn one_line_for_people() {
        let text = written(Output::Text, Some("abc123"));
        assert!(
            text.starts_with(concat!("chartwright ", env!("CARGO_PKG_VERSION"), " (commit abc123, ")),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
        assert!(!written(Output::Text, None).contains("commit"));
    }

    #[test]
    fn an_object_for_programs() {
        let version: serde_json::Value = serde_json::from_str(&written(Output::Json, Some("abc123"))).unwrap();
        assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(version["commit"], "abc123");
        let version: serde_json::Value = serde_json::from_str(&written(Output::Json, None)).unwrap();
        assert_eq!(version.get("commit"), None);
    }

    #[test]
    fn the_output_is_chosen_by_a_flag() {
        let mut out = Vec::new();
        run(&Cli::try_parse_from(["version", "-o", "json"]).unwrap().args, &mut out).unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&out).is_ok());
        assert!(Cli::try_parse_from(["version", "-o", "yaml"]).is_err());
    }
}
