//! Translates Go's regular expression syntax (RE2) to that of the `regex` crate.
//!
//! Most is the same in both, and is copied. What the crate reads otherwise is rewritten: `\d`, `\s`, `\w` and `\b` are
//! ASCII, `\Q…\E` quotes, a `{` that starts no repetition stands for itself, as does `\<`, and a class has no operators.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The longest translation, in bytes: the crate takes some hundred bytes of memory for each before it looks at the size
/// of a program.
const MAX_TRANSLATION: usize = 256 << 10;
/// As how many bytes of that a class such as `\pL` counts, which has hundreds of ranges.
const UNICODE_CLASS: usize = 256;

/// Compiles a constant regular expression.
type Tokens = LazyLock<Option<Regex>>;

/// Quoted text, an escape, a class in brackets, a repetition, or another `{`.
static TOKENS: Tokens = LazyLock::new(|| {
    let quoted = r"\\Q(?<quoted>.*?)(?:\\E|\z)";
    let class = r"\[\^?\]?(?:\[:\^?[a-z]+:\]|\\.|[^\]\\])*\]";
    let repetition = r"\{[0-9]+(?:,[0-9]*)?\}";
    Regex::new(&format!(r"(?s){quoted}|{ESCAPE}|{class}|{repetition}|\{{")).ok()
});
/// In brackets: a class by name, an escape, or what the crate takes for an operator.
static CLASS_TOKENS: Tokens = LazyLock::new(|| Regex::new(&format!(r"(?s)\[:\^?[a-z]+:\]|{ESCAPE}|--|[\[&~]")).ok());
const ESCAPE: &str = r"\\[pPx]\{[^}]*\}|\\.";

/// An error about a pattern, in Go's form.
pub(super) fn worded(what: &str, pattern: &str) -> String {
    format!("error parsing regexp: {what}: `{pattern}`")
}

/// Translates a pattern. The crate checks whether it is valid.
///
/// # Errors
/// It is too large.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let translated = rewritten(&TOKENS, pattern, |found, token| match token {
        r"\b" => r"(?-u:\b)".to_owned(),
        r"\B" => r"(?-u:\B)".to_owned(),
        "{" => r"\{".to_owned(),
        token => match (found.name("quoted"), token.strip_prefix('[')) {
            (Some(quoted), _) => regex::escape(quoted.as_str()),
            (None, Some(class)) => format!("[{}", rewritten(&CLASS_TOKENS, class, |_, token| class_part(token))),
            (None, None) => escape(token).to_owned(),
        },
    });
    let unicode_classes = pattern.matches(r"\p").count() + pattern.matches(r"\P").count();
    if translated.len() + UNICODE_CLASS * unicode_classes > MAX_TRANSLATION {
        Err(worded("expression too large", pattern))
    } else {
        Ok(translated)
    }
}

fn rewritten(tokens: &Tokens, text: &str, with: impl Fn(&Captures<'_>, &str) -> String) -> String {
    let replacement = |found: &Captures<'_>| with(found, found.get(0).map_or("", |token| token.as_str()));
    let tokens = tokens.as_ref();
    tokens.map_or(text.to_owned(), |tokens| {
        tokens.replace_all(text, replacement).into_owned()
    })
}

fn class_part(token: &str) -> String {
    match token {
        "[" | "&" | "~" | "--" => format!(r"\{token}"),
        token => escape(token).to_owned(),
    }
}

fn escape(token: &str) -> &str {
    match token {
        r"\d" => "[0-9]",
        r"\D" => "[^0-9]",
        r"\s" => r"[\t\n\f\r\x20]",
        r"\S" => r"[^\t\n\f\r\x20]",
        r"\w" => "[0-9A-Za-z_]",
        r"\W" => "[^0-9A-Za-z_]",
        r"\<" => "<",
        r"\>" => ">",
        other => other,
    }
}
