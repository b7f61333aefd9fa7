//! Letter case and word shapes: Go's `strings` and `unicode`, goutils v1.1.1 and xstrings v1.5.0.

use crate::gostd::runes::{self, to_lower, to_upper};
use go_template::func::Func;
use go_template::unicode::is_letter_or_digit;

pub(crate) fn table<C: crate::sprig::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("upper", |text: &[u8]| {
            if text.is_ascii() {
                text.to_ascii_uppercase()
            } else {
                runes::map(text, to_upper)
            }
        }),
        Func::new("lower", |text: &[u8]| {
            if text.is_ascii() {
                text.to_ascii_lowercase()
            } else {
                runes::map(text, to_lower)
            }
        }),
        Func::new("title", title),
        Func::new("untitle", untitle),
        Func::new("swapcase", swapcase),
        Func::new("snakecase", |text: &[u8]| separated(text, '_')),
        Func::new("kebabcase", |text: &[u8]| separated(text, '-')),
        Func::new("camelcase", camelcase),
    ]
}

/// `strings.Title`: a letter after a separator. Other scripts' punctuation is no separator, only their space is.
fn title(text: &[u8]) -> Vec<u8> {
    let mut before = ' ';
    runes::map(text, |c| {
        let separated = match before {
            c if c.is_ascii() => !c.is_ascii_alphanumeric() && c != '_',
            c => !c.is_alphanumeric() && c.is_whitespace(),
        };
        before = c;
        if separated { to_upper(c) } else { c }
    })
}

fn untitle(text: &[u8]) -> Vec<u8> {
    let mut gap = true;
    runes::map(text, |c| {
        let first = gap && !c.is_whitespace();
        gap = c.is_whitespace();
        if first { to_lower(c) } else { c }
    })
}

fn swapcase(text: &[u8]) -> Vec<u8> {
    runes::map(text, |c| if c.is_uppercase() { to_lower(c) } else { to_upper(c) })
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// xstrings' `ToPascalCase`: connectors go and the letter after them is upper case; a leading upper case word is
/// lowered after its first letter; leading and doubled connectors stay.
fn camelcase(text: &[u8]) -> String {
    let chars: Vec<char> = runes::runes(text).map(|(_, c, _)| c).collect();
    let mut out = String::new();
    let lead = chars.iter().take_while(|c| is_connector(**c)).count();
    out.extend(chars.iter().take(lead));
    let Some(first) = chars.get(lead) else {
        // If a text has only connectors, xstrings writes the last one twice.
        out.extend(chars.last());
        return out;
    };
    let mut in_upper_word = first.is_uppercase();
    out.push(to_upper(*first));
    let mut before = *first;
    for c in chars.iter().skip(lead + 1) {
        match (is_connector(before), is_connector(*c)) {
            (true, true) => out.push(before),
            (false, true) => {}
            (true, false) => {
                in_upper_word = c.is_uppercase();
                out.push(to_upper(*c));
            }
            (false, false) => {
                in_upper_word &= c.is_uppercase();
                out.push(if in_upper_word { to_lower(*c) } else { *c });
            }
        }
        before = *c;
    }
    if is_connector(before) {
        out.push(before);
    }
    out
}

/// The kind of a run of characters, as xstrings defines it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WordKind {
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

fn is_letter(c: char) -> bool {
    is_letter_or_digit(c) && !c.is_numeric()
}

/// `unicode.IsPunct`, of ASCII.
fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c)
}

/// Splits a text into words. An upper case run that a lower case letter follows gives its last letter away:
/// `HTTPStatus` is `HTTP`, `Status`.
fn words(mut text: &[char]) -> Vec<(WordKind, &[char])> {
    let lower = |c: char| is_letter(c) && !c.is_uppercase();
    let mut words = Vec::new();
    while let Some(first) = text.first().copied() {
        let run = |belongs: &dyn Fn(char) -> bool| text.iter().take_while(|c| belongs(**c)).count().max(1);
        let (word, len) = if is_connector(first) {
            (WordKind::Connector, run(&is_connector))
        } else if is_punctuation(first) {
            (WordKind::Punctuation, run(&is_punctuation))
        } else if first.is_uppercase() {
            let upper = run(&char::is_uppercase);
            let len = match text.get(upper) {
                Some(c) if upper > 1 && is_letter(*c) => upper - 1,
                Some(c) if upper == 1 && is_letter(*c) => 1 + text.iter().skip(1).take_while(|c| lower(**c)).count(),
                _ => upper,
            };
            (WordKind::Upper, len)
        } else if is_letter(first) {
            (WordKind::Letters, run(&lower))
        } else if first.is_numeric() {
            (WordKind::Number, run(&char::is_numeric))
        } else {
            let other = |c: char| !(is_connector(c) || is_letter(c) || c.is_numeric() || is_punctuation(c));
            (WordKind::Other, run(&other))
        };
        let (head, tail) = text.split_at(len.min(text.len()));
        words.push((word, head));
        text = tail;
    }
    words
}

/// xstrings' `camelCaseToLowerCase`: words in lower case with connectors between them. A number belongs to the lower
/// case letters that follow it, else to the word before it: `HTTP2xx` is `http_2xx`, `Bld4Floor` is `bld4_floor`.
fn separated(text: &[u8], connector: char) -> String {
    let text: Vec<char> = runes::lossy(text).chars().collect();
    let words = words(&text);
    let mut out = String::new();
    let mut before = None;
    for (at, (word, text)) in words.iter().enumerate() {
        let next = words.get(at + 1).map(|(word, _)| *word);
        let joins = match (before, word) {
            (None | Some(WordKind::Connector | WordKind::Punctuation), _) => true,
            (_, WordKind::Connector | WordKind::Punctuation) => true,
            (Some(WordKind::Number), WordKind::Letters | WordKind::Number) => true,
            (Some(_), WordKind::Number) => next != Some(WordKind::Letters),
            _ => false,
        };
        if !joins {
            out.push(connector);
        }
        out.extend(text.iter().map(|c| match word {
            WordKind::Upper => to_lower(*c),
            WordKind::Connector => connector,
            _ => *c,
        }));
        // Letters behind a number are part of it.
        if (before, *word) != (Some(WordKind::Number), WordKind::Letters) {
            before = Some(*word);
        }
    }
    out
}
