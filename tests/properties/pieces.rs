//! What generated input and libFuzzer's dictionary are made of.

use std::sync::LazyLock;

/// What the languages are made of: random bytes seldom get past a lexer.
pub static PIECES: LazyLock<Vec<String>> =
    LazyLock::new(|| serde_json::from_str(include_str!("pieces.json")).expect("a list of texts"));
