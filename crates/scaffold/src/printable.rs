//! Texts of others, for terminals and comments: names of files, messages, and contents may have control characters.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Serialize;

/// Whether a terminal or an editor takes a character for more than itself: controls (escape sequences begin with one), and what
/// turns the direction of a text.
fn is_active(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a reader of YAML ends a line there, or an editor.
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

fn escaped(text: &str, is_harmful: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_harmful) {
        return Cow::Borrowed(text);
    }
    let one = |mut all: String, c: char| {
        if is_harmful(c) {
            // Writing to a string does not fail.
            let _ = write!(all, "{}", c.escape_unicode());
        } else {
            all.push(c)
        }
        all
    };
    Cow::Owned(text.chars().fold(String::new(), one))
}

/// A text of several lines for a terminal: its escape sequences are shown, not obeyed.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_active(c) && !matches!(c, '\n' | '\t'))
}

/// A text that stays on its line: in a comment, or in a list with a line each.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_active(c) || is_break(c))
}

/// Words that YAML 1.1 reads as booleans or nothing, in small letters.
const YAML_WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];

/// Whether YAML 1.1 reads a bare word as a boolean or as nothing.
pub fn is_yaml_word(text: &str) -> bool {
    YAML_WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// A text as a scalar of YAML: bare where every reader takes it for the same text, otherwise in quotes.
pub fn yaml_scalar(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/');
    let is_bare = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_plain);
    if is_bare && !is_yaml_word(text) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(serde_json::Value::from(text).to_string())
    }
}

/// A value as YAML for files of a project. The library writes YAML 1.2: what Go's readers, which know YAML 1.1, take for something else
/// is written in quotes, with escapes: `no`, `1_000`, `<<`, and line breaks that only they know.
///
/// # Errors
/// What the library can't write.
pub fn to_yaml(value: &impl Serialize) -> Result<String, serde_yaml::Error> {
    let value = serde_yaml::to_value(value)?;
    let plain = serde_yaml::to_string(&value)?;
    let mut mark = "chartwright-text".to_owned();
    // No text of the value may have the mark in it, whether it is escaped or not.
    while plain.contains(&mark) {
        mark.push('x');
    }
    let mut escapes = Escapes {
        mark,
        texts: Vec::new(),
    };
    let marked = escapes.marked(value);
    if escapes.texts.is_empty() {
        return Ok(plain);
    }
    let text = serde_yaml::to_string(&marked)?;
    let texts = escapes.texts.iter().enumerate();
    Ok(texts.fold(text, |all, (number, text)| {
        all.replace(&escapes.place(number), &quoted(text))
    }))
}

/// Whether Go's readers take a text for another one, or for none, as the library writes it.
fn is_misread(text: &str) -> bool {
    if text.contains(is_break_to_some) {
        return true;
    }
    // What isn't like these is a text to everyone; most texts are not looked at further.
    let is_number = text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | '<' | '='));
    if text.len() > 40 || !(is_number || is_yaml_word(text)) {
        return false;
    }
    let key = serde_yaml::to_string(text).unwrap_or_default();
    let read = go_yaml::to_json(format!("{}: 0\n", key.trim_end()).as_bytes());
    !read.is_ok_and(|read| read.as_object().is_some_and(|map| map.contains_key(text)))
}

/// A line break, or the mark of an encoding, to some readers of YAML and not to others.
fn is_break_to_some(c: char) -> bool {
    is_break(c) && !matches!(c, '\n' | '\r')
}

/// A text in double quotes, of which nothing is left to a reader's opinion.
fn quoted(text: &str) -> String {
    let one = |mut all: String, c: char| {
        // Writing to a string does not fail.
        let _ = match c {
            '"' | '\\' => write!(all, "\\{c}"),
            ' '..='~' => write!(all, "{c}"),
            c if u32::from(c) <= 0xffff => write!(all, "\\u{:04x}", u32::from(c)),
            c => write!(all, "\\U{:08x}", u32::from(c)),
        };
        all
    };
    text.chars().fold("\"".to_owned(), one) + "\""
}

/// Texts that are written later, and marks in their places.
struct Escapes {
    mark: String,
    texts: Vec<String>,
}

impl Escapes {
    fn place(&self, number: usize) -> String {
        format!("{}-{number}-", self.mark)
    }

    fn marked(&mut self, value: serde_yaml::Value) -> serde_yaml::Value {
        use serde_yaml::Value;
        match value {
            Value::String(text) if is_misread(&text) => {
                let place = self.place(self.texts.len());
                self.texts.push(text);
                Value::String(place)
            }
            Value::Sequence(items) => Value::Sequence(items.into_iter().map(|item| self.marked(item)).collect()),
            Value::Mapping(entries) => {
                let entries = entries.into_iter();
                Value::Mapping(
                    entries
                        .map(|(key, value)| (self.marked(key), self.marked(value)))
                        .collect(),
                )
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reader_sees_the_same_texts() {
        let value = serde_json::json!({
            "a\u{2028}b": ["x\u{85}: y", "\u{feff}- z", "\u{2029}\"\\ \u{1f600}\n---\n"],
            "plain": "chartwright-text-0-",
            "no": ["on", "y", "true", "1_000", "0b11", "0o7", "017", "1:30", "2001-01-01", ".5", "+1", "-", "- a", "="],
            "<<": "<<", "1_0": 1, "Off": 2, "null": 3, "0x1f": 4, "1e3": 5, "~": 6,
        });
        let marked = serde_json::json!(["\u{85}chartwright-text-1-", "no"]);
        for value in [value, marked] {
            let text = to_yaml(&value).unwrap();
            assert_eq!(go_yaml::to_json(text.as_bytes()).unwrap(), value, "{text}");
            assert_eq!(
                serde_yaml::from_str::<serde_json::Value>(&text).unwrap(),
                value,
                "{text}"
            );
        }
        let plain = serde_json::json!({"a": [1, "b"]});
        assert_eq!(to_yaml(&plain).unwrap(), serde_yaml::to_string(&plain).unwrap());
    }

    #[test]
    fn scalars_are_texts_to_every_reader() {
        for text in [
            "shop-operator",
            "bases/a_b.yaml",
            "no",
            "On",
            "Y",
            "123",
            "1e3",
            "0x1f",
            "",
            "a: b",
            "a\nb",
            "- a",
            "~",
        ] {
            let scalar = yaml_scalar(text);
            let read = go_yaml::to_json(format!("- {scalar}\n").as_bytes()).unwrap();
            assert_eq!(read, serde_json::json!([text]), "{scalar}");
        }
        assert_eq!(yaml_scalar("shop-operator"), "shop-operator");
    }

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        for (text, want, line) in [
            ("plain ü 漢", "plain ü 漢", "plain ü 漢"),
            ("a\nb\tc", "a\nb\tc", "a\\u{a}b\\u{9}c"),
            ("\u{1b}[2Ja\rb", "\\u{1b}[2Ja\\u{d}b", "\\u{1b}[2Ja\\u{d}b"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("a\u{202e}b", "a\\u{202e}b", "a\\u{202e}b"),
            ("a\u{2028}b", "a\u{2028}b", "a\\u{2028}b"),
        ] {
            assert_eq!((&*printable(text), &*one_line(text)), (want, line));
        }
    }
}
