//! `make fuzz` runs this: writes what libFuzzer starts from into `fuzz/seeds`: a folder for each target, and
//! `dictionary`, the words that it puts together.

#[path = "pieces.rs"]
mod pieces;
#[path = "seeds.rs"]
mod seeds;

use std::fmt::Write;
use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds"));
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    for (target, inputs) in seeds::all() {
        let folder = folder.join(target);
        fs::create_dir_all(&folder)?;
        for (number, input) in inputs.iter().enumerate() {
            fs::write(folder.join(number.to_string()), input)?;
        }
        println!("{target}: {} seeds", inputs.len());
    }
    let functions = include_str!("../fixtures/sprig/names.txt").lines();
    let words = functions.chain(pieces::PIECES.iter().copied()).map(str::as_bytes);
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
