//! `make fuzz` runs this: writes what libFuzzer starts from into `fuzz/seeds`: a folder for each target, and
//! `dictionary`, the words that it puts together.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

#[path = "pieces.rs"]
mod pieces;
#[path = "seeds.rs"]
mod seeds;

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// How many inputs a target gets: libFuzzer runs all before it begins to search.
const MOST: usize = 5000;

fn main() -> std::io::Result<()> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds"));
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for (target, inputs) in seeds::all() {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        let chosen = inputs.iter().step_by(inputs.len().div_ceil(MOST));
        for (number, input) in chosen.enumerate() {
            fs::write(folder.join(number.to_string()), input)?;
        }
    }
    let functions = include_str!("../fixtures/sprig/names.txt").lines();
    let words = functions
        .chain(pieces::PIECES.iter().map(String::as_str))
        .map(str::as_bytes);
    fs::write(folder.join("dictionary"), words.map(entry).collect::<String>())
}

/// A line of a dictionary: a text in quotes, bytes in hexadecimal.
fn entry(word: &[u8]) -> String {
    let mut line = String::from("\"");
    for byte in word {
        // Writing into a String can't fail.
        let _ = write!(line, "\\x{byte:02x}");
    }
    line + "\"\n"
}
