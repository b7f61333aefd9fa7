//! What `helm template` answers, and what ours does.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use chartwright::cli::chart::template::run_captured;
use serde_json::{Value, json};

/// What a user gets to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderAnswer {
    pub stdout: String,
    /// What follows `Error: `, or nothing.
    pub error: String,
    pub code: i32,
}

/// The real Helm, in a process of the oracle (`tests/oracle`) that answers one request after the other.
pub struct Helm {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Helm {
    /// Starts the oracle.
    ///
    /// # Errors
    /// When the program can't be started.
    pub fn start(oracle: &Path) -> Result<Helm, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", oracle.display());
        // It sees to it that nothing of this machine's Helm or cluster plays a part.
        let mut process = Command::new(oracle)
            .args(["-j", "1", "-timeout", "120s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| failed(&e))?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(requests), Some(answers)) => Ok(Helm {
                process,
                requests,
                answers: BufReader::new(answers),
            }),
            _ => Err(failed(&"it has no standard input and output")),
        }
    }

    /// Runs `helm template` with these arguments. A failure to run Helm is reported as its error.
    pub fn render(&mut self, arguments: &[String]) -> RenderAnswer {
        let words = [&["template".to_owned()], arguments].concat();
        let request = json!({"op": "helm", "args": words, "dir": "/"});
        self.ask(&request).unwrap_or_else(|problem| RenderAnswer {
            stdout: String::new(),
            error: format!("(oracle) {problem}"),
            code: -1,
        })
    }

    fn ask(&mut self, request: &Value) -> Result<RenderAnswer, String> {
        writeln!(self.requests, "{request}")
            .and_then(|()| self.requests.flush())
            .map_err(|e| e.to_string())?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|e| e.to_string())?;
        let answer: Value = serde_json::from_str(&line).map_err(|e| format!("{e}: {line:?}"))?;
        let code = answer.get("code").and_then(Value::as_i64).ok_or_else(|| line.clone())?;
        Ok(RenderAnswer {
            stdout: text(&answer, "stdout"),
            error: error_of(&text(&answer, "stderr")),
            code: i32::try_from(code).unwrap_or(-1),
        })
    }
}

impl Drop for Helm {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A field that stands under its name, or in base64 under the name with `64` at its end.
fn text(answer: &Value, name: &str) -> String {
    if let Some(text) = answer[name].as_str() {
        return text.to_owned();
    }
    let packed = answer[format!("{name}64")].as_str().unwrap_or_default();
    let bytes = data_encoding::BASE64.decode(packed.as_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What follows the line's beginning `Error: ` on standard error; warnings before it are left out.
fn error_of(stderr: &str) -> String {
    let start = match stderr.strip_prefix("Error: ") {
        Some(rest) => rest,
        None => stderr.split_once("\nError: ").map_or("", |(_, rest)| rest),
    };
    sort_findings(start.strip_suffix('\n').unwrap_or(start))
}

/// Helm lists what a schema finds in a random order, on each level: sorts lines that begin with `- at ` among those of
/// their depth, each with what stands deeper below it.
fn sort_findings(error: &str) -> String {
    let lines: Vec<&str> = error.split('\n').collect();
    let is_finding = |line: &&str| depth(line).is_some();
    let runs = lines.chunk_by(|a, b| is_finding(a) && is_finding(b));
    runs.map(|run| match run {
        [.., last] if is_finding(last) && last.ends_with(':') => sort_letters(run),
        [first, ..] if is_finding(first) => sort_level(run),
        run => run.join("\n"),
    })
    .collect::<Vec<_>>()
    .join("\n")
}

/// The name of the next chart stands right behind the last finding, whichever that is.
fn sort_letters(findings: &[&str]) -> String {
    let mut letters: Vec<char> = findings.concat().chars().collect();
    letters.sort_unstable();
    letters.into_iter().collect()
}

/// How far a finding is indented; nothing for other lines.
fn depth(line: &str) -> Option<usize> {
    let text = line.trim_start_matches(' ');
    text.starts_with("- at ").then(|| line.len() - text.len())
}

/// Findings, each followed by those below it, in the order of their texts.
fn sort_level(findings: &[&str]) -> String {
    let top = findings.iter().filter_map(|line| depth(line)).min();
    let mut groups: Vec<String> = findings
        .chunk_by(|_, next| depth(next) != top)
        .map(|group| match group {
            [first, below @ ..] if !below.is_empty() => format!("{first}\n{}", sort_level(below)),
            alone => alone.join("\n"),
        })
        .collect();
    groups.sort_unstable();
    groups.join("\n")
}

/// Renders with ours, in this process. The excerpt that we print above an error is ours alone, and not compared.
pub fn ours(arguments: &[String]) -> RenderAnswer {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let captured = run_captured(&words, &[], Path::new("/"));
    RenderAnswer {
        stdout: String::from_utf8_lossy(&captured.stdout).into_owned(),
        error: sort_findings(captured.error.as_deref().unwrap_or_default()),
        code: i32::from(captured.code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_begins_at_its_line() {
        for (stderr, error) in [
            ("", ""),
            ("level=WARN msg=\"Error: no\"\n", ""),
            ("Error: a\n", "a"),
            ("warning: x\nError: a\nb\n\nUse --debug\n", "a\nb\n\nUse --debug"),
        ] {
            assert_eq!(error_of(stderr), error, "{stderr:?}");
        }
    }

    #[test]
    fn findings_of_a_schema_have_no_order() {
        for (error, sorted) in [
            (
                "c:\n- at 'b'\n- at 'a'\n- at 'c'\nd",
                "c:\n- at 'a'\n- at 'b'\n- at 'c'\nd",
            ),
            (
                "- at 'b'\n  - at 'z'\n    - at '2'\n    - at '1'\n  - at 'y'\n- at 'a'\n  - at 'x'",
                "- at 'a'\n  - at 'x'\n- at 'b'\n  - at 'y'\n  - at 'z'\n    - at '1'\n    - at '2'",
            ),
            // What stands below one stays there.
            (
                "- at 'b'\n  - at '1'\n- at 'a'\n  - at '2'",
                "- at 'a'\n  - at '2'\n- at 'b'\n  - at '1'",
            ),
            ("no finding\n  at all", "no finding\n  at all"),
            (
                "a:\n- at '2'\n- at '1'b:\nc\n- at '3'",
                "a:\n    ''''--12:aabtt\nc\n- at '3'",
            ),
        ] {
            assert_eq!(sort_findings(error), sorted);
        }
    }
}
