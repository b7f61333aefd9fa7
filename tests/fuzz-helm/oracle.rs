//! The real libraries, in a process of their own: requests and answers are JSON lines (tests/oracle).

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use data_encoding::BASE64;
use serde_json::Value;

/// What one side makes of a case: its bytes, or the text of its error.
pub type Answer = Result<Vec<u8>, String>;

pub struct Oracle {
    process: Child,
    requests: Option<BufWriter<ChildStdin>>,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    pub fn start(program: &str) -> Result<Self, String> {
        let mut process = Command::new(program)
            .env("TZ", "UTC")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{program}: {e}"))?;
        let (Some(requests), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(format!("{program}: no pipes"));
        };
        Ok(Oracle {
            process,
            requests: Some(BufWriter::new(requests)),
            answers: BufReader::new(answers),
        })
    }

    pub fn ask(&mut self, request: &str) -> Result<Value, String> {
        let requests = self.requests.as_mut().ok_or("the oracle is gone")?;
        writeln!(requests, "{request}").map_err(|e| format!("the oracle: {e}"))?;
        requests.flush().map_err(|e| format!("the oracle: {e}"))?;
        let mut line = Vec::new();
        self.answers
            .read_until(b'\n', &mut line)
            .map_err(|e| format!("the oracle: {e}"))?;
        if line.is_empty() {
            return Err(format!("the oracle ended at {request}"));
        }
        let mut json = serde_json::Deserializer::from_slice(&line);
        serde::Deserialize::deserialize(&mut json)
            .map_err(|e| format!("the oracle's answer: {e}: {}", String::from_utf8_lossy(&line)))
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.requests.take());
        let _ = self.process.wait();
    }
}

/// The text under `name` of an answer, or under its base64 twin.
pub fn text(answer: &Value, name: &str) -> Option<Vec<u8>> {
    if let Some(text) = answer.get(name).and_then(Value::as_str) {
        return Some(text.as_bytes().to_vec());
    }
    let encoded = answer.get(format!("{name}64"))?.as_str()?;
    BASE64.decode(encoded.as_bytes()).ok()
}

/// The error of an answer; a panic or a crash of the library counts as one.
pub fn error(answer: &Value) -> Option<String> {
    for (key, word) in [("panic", "PANIC"), ("fatal", "FATAL"), ("timeout", "TIMEOUT")] {
        if let Some(what) = answer.get(key) {
            return Some(format!("{word} {what}"));
        }
    }
    let bytes = text(answer, "err")?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
