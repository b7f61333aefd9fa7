//! The user's values, from files and from the `--set` family. Facts: Helm's `pkg/cli/values/options.go`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;

use serde_json::{Map, Value};

use crate::chart::values::strvals::{Mode, parse_into};
use crate::chart::{Error, Fetch, io_text, values};
use go_yaml::all_floats;

/// The values options of a command line, each list in the given order.
#[derive(Clone, Default)]
pub struct ValueOptions {
    /// `-f`, `--values`: paths, or `-` for standard input
    pub files: Vec<String>,
    /// `--set`
    pub set: Vec<String>,
    /// `--set-string`
    pub set_string: Vec<String>,
    /// `--set-file`: `key=path`
    pub set_file: Vec<String>,
    /// `--set-json`: `key=json`, or a JSON object
    pub set_json: Vec<String>,
    /// `--set-literal`
    pub set_literal: Vec<String>,
    /// The folder that relative paths start from; empty for the working directory.
    pub base: PathBuf,
    /// For files that are named by URL. `None`: those are errors.
    pub fetch: Option<Fetch>,
}

/// Texts that are not UTF-8, by the strings that represent them in a tree of values.
pub type RawTexts = HashMap<String, Vec<u8>>;

impl ValueOptions {
    /// The values, merged in Helm's order: files, then `--set-json`, `--set`, `--set-string`, `--set-file`,
    /// `--set-literal`. Numbers from files and JSON are floats, those of `--set` whole. `-` is read from `stdin`. A
    /// file of `--set-file` that is not UTF-8 is represented by a string that is listed in the returned table. Values
    /// in files may nest `max_depth` levels.
    ///
    /// # Errors
    /// A file that can't be read or parsed; a malformed `--set`.
    pub fn merge(&self, stdin: &mut dyn Read, max_depth: usize) -> Result<(Map<String, Value>, RawTexts), Error> {
        let stdin = RefCell::new(stdin);
        let raw = RefCell::new(RawTexts::new());
        let mut base = Map::new();
        for path in &self.files {
            let bytes = self.read_file(path, &stdin).map_err(Error::Values)?;
            let parsed =
                values::read(&bytes, max_depth).map_err(|e| Error::Values(format!("failed to parse {path}: {e}")))?;
            values::merge_maps(&mut base, parsed);
        }
        for text in &self.set_json {
            if text.trim().starts_with('{') {
                match serde_json::from_str(text.trim()).map(all_floats) {
                    Ok(Value::Object(map)) => values::merge_maps(&mut base, map),
                    _ => return Err(Error::Values(format!("failed parsing --set-json data JSON: {text}"))),
                }
            } else {
                parse_into(text, &Mode::Json, &mut base)
                    .map_err(|_| Error::Values(format!("failed parsing --set-json data {text}")))?;
            }
        }
        let read = |path: &str| {
            let bytes = self.read_file(path, &stdin)?;
            Ok(String::from_utf8(bytes).unwrap_or_else(|e| stand_in(e.into_bytes(), &mut raw.borrow_mut())))
        };
        let families: [(&str, Mode<'_>, &[String]); 4] = [
            ("--set", Mode::Typed, &self.set),
            ("--set-string", Mode::Strings, &self.set_string),
            ("--set-file", Mode::File(&read), &self.set_file),
            ("--set-literal", Mode::Literal, &self.set_literal),
        ];
        for (flag, mode, texts) in families {
            for text in texts {
                parse_into(text, &mode, &mut base)
                    .map_err(|e| Error::Values(format!("failed parsing {flag} data: {e}")))?;
            }
        }
        Ok((base, raw.into_inner()))
    }

    fn read_file(&self, path: &str, stdin: &RefCell<&mut dyn Read>) -> Result<Vec<u8>, String> {
        let wrap = |op: &'static str| move |e: std::io::Error| format!("{op} {path}: {}", io_text(&e));
        if path.trim() == "-" {
            let mut bytes = Vec::new();
            // A second reader finds the end of the input, as with Helm.
            return stdin
                .borrow_mut()
                .read_to_end(&mut bytes)
                .map(|_| bytes)
                .map_err(wrap("read"));
        }
        match (path.split_once("://").map(|(scheme, _)| scheme), &self.fetch) {
            (Some("http" | "https"), Some(fetch)) => return fetch(path),
            (Some("http" | "https" | "oci"), _) => {
                return Err(format!(
                    "{path}: values are not downloaded from there: fetch the file first and give its path"
                ));
            }
            _ => {}
        }
        if path.is_empty() {
            // Joined to the base it would be the base itself.
            return Err("open : no such file or directory".to_owned());
        }
        let mut file = std::fs::File::open(self.base.join(path)).map_err(wrap("open"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(wrap("read"))?;
        Ok(bytes)
    }
}

/// A unique string for these bytes: their readable part and marks that no other text has.
fn stand_in(bytes: Vec<u8>, raw: &mut RawTexts) -> String {
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    loop {
        text.push(char::MAX);
        if raw.get(&text).is_none_or(|known| *known == bytes) {
            raw.insert(text.clone(), bytes);
            return text;
        }
    }
}
