//! `chartwright version`.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde_json::json;

use chartwright_operator::telemetry::{COMMIT, VERSION};

const EXAMPLES: &str = "\
Examples:
  chartwright version
  chartwright version -o json";

/// Print the version
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct VersionArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: VersionFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VersionFormat {
    /// one line of text
    Text,
    /// a JSON object with version, commit (if the build recorded it), os and arch
    Json,
}

/// Writes the version to `out`.
///
/// # Errors
/// `out` cannot be written.
pub fn run(args: &VersionArgs, out: &mut dyn Write) -> std::io::Result<()> {
    write(args.output, COMMIT, out)
}

fn write(output: VersionFormat, commit: Option<&str>, out: &mut dyn Write) -> std::io::Result<()> {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    match output {
        VersionFormat::Text => {
            let commit = commit.map(|commit| format!("commit {commit}, ")).unwrap_or_default();
            writeln!(out, "chartwright {VERSION} ({commit}{os}/{arch})")
        }
        VersionFormat::Json => {
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
    use super::*;

    #[test]
    fn text_is_one_line_and_json_is_an_object() {
        let written = |output, commit| {
            let mut out = Vec::new();
            write(output, commit, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let line = written(VersionFormat::Text, Some("abc123"));
        assert!(
            line.starts_with(&format!("chartwright {VERSION} (commit abc123, ")),
            "{line}"
        );
        assert_eq!(line.lines().count(), 1);
        assert!(!written(VersionFormat::Text, None).contains("commit"));
        for commit in [Some("abc123"), None] {
            let version: serde_json::Value = serde_json::from_str(&written(VersionFormat::Json, commit)).unwrap();
            assert_eq!(
                (&version["version"], version["commit"].as_str()),
                (&json!(VERSION), commit)
            );
        }
    }
}
