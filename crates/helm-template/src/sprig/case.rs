//! Letter case and word shapes: Go's `strings` and `unicode`, goutils v1.1.1 and xstrings v1.5.0.

use std::sync::LazyLock;

use regex::Regex;

use crate::gostd::runes::{self, is_lower, is_title, is_upper, to_lower, to_title, to_upper};
use go_template::func::Func;
use go_template::unicode::is_letter_or_digit;

pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    vec![
        Func::new("upper", |text: &[u8]| match text.is_ascii() {
            true => text.to_ascii_uppercase(),
            false => runes::map(text, to_upper),
        }),
        Func::new("lower", |text: &[u8]| match text.is_ascii() {
            true => text.to_ascii_lowercase(),
            false => runes::map(text, to_lower),
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
        if separated { to_title(c) } else { c }
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
    let mut gap = true;
    runes::map(text, |c| {
        if is_upper(c) || is_title(c) {
            gap = false;
            to_lower(c)
        } else if is_lower(c) {
            let swapped = if gap { to_title(c) } else { to_upper(c) };
            gap = false;
            swapped
        } else {
            gap = c.is_whitespace();
            c
        }
    })
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
        // Of nothing but connectors, xstrings writes the last one twice.
        out.extend(chars.last());
        return out;
    };
    let rest = chars.get(lead + 1..).unwrap_or(&[]);
    if rest.is_empty() {
        out.push(to_upper(*first));
        return out;
    }
    let mut in_upper_word = is_upper(*first);
    let mut held = to_upper(*first);
    for next in rest {
        let before = held;
        held = *next;
        if is_connector(held) && is_connector(before) {
            out.push(before);
        } else if is_connector(before) {
            in_upper_word = is_upper(held);
            held = to_upper(held);
        } else {
            if in_upper_word {
                if is_upper(held) {
                    held = to_lower(held);
                } else {
                    in_upper_word = false;
                }
            }
            out.push(before);
        }
    }
    out.push(held);
    out
}

/// What a run of characters is, in xstrings' terms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Invalid,
    Number,
    Upper,
    Letters,
    Connector,
    Punctuation,
    Other,
}

/// xstrings counts a Chinese, Japanese or Korean ideograph as no letter of an alphabet.
fn is_letter(c: char) -> bool {
    is_letter_or_digit(c)
        && !c.is_numeric()
        && !matches!(c as u32, 0x4E00..=0x9FCC | 0x3400..=0x4D85 | 0x20000..=0x2B81D)
}

/// A character with the invalid bytes before it, which xstrings takes for a part of it; after the last character, invalid
/// bytes count as that once more.
#[derive(Clone, Copy)]
struct Unit<'t> {
    c: char,
    bytes: &'t [u8],
}

/// Cuts a text into units. Of a text without a valid character there are none.
fn units(text: &[u8]) -> Vec<Unit<'_>> {
    let mut units: Vec<Unit<'_>> = Vec::new();
    let mut start = 0;
    for (at, c, width) in runes::runes(text) {
        if c != char::REPLACEMENT_CHARACTER {
            let bytes = text.get(start..at + width).unwrap_or_default();
            units.push(Unit { c, bytes });
            start = at + width;
        }
    }
    if let (Some(last), Some(bytes @ [_, ..])) = (units.last().copied(), text.get(start..)) {
        units.push(Unit { c: last.c, bytes });
    }
    units
}

/// Reads the next word off `units`. An upper case run that a lower case letter follows gives its last letter away:
/// `HTTPStatus` is `HTTP`, `Status`.
fn next_word<'u, 't>(units: &'u [Unit<'t>]) -> (Word, &'u [Unit<'t>], &'u [Unit<'t>]) {
    let Some(Unit { c: first, .. }) = units.first().copied() else {
        return (Word::Invalid, units, &[]);
    };
    let run = |belongs: &dyn Fn(char) -> bool| units.iter().take_while(|unit| belongs(unit.c)).count().max(1);
    let lower = |c: char| is_letter(c) && !is_upper(c);
    let (word, len) = if is_connector(first) {
        (Word::Connector, run(&is_connector))
    } else if is_punctuation(first) {
        (Word::Punctuation, run(&is_punctuation))
    } else if is_upper(first) {
        let upper = run(&is_upper);
        let follower = units.get(upper).map(|unit| unit.c);
        let len = match follower {
            Some(c) if upper > 1 && is_letter(c) => upper - 1,
            Some(c) if upper == 1 && is_letter(c) => 1 + units.iter().skip(1).take_while(|unit| lower(unit.c)).count(),
            _ => upper,
        };
        (Word::Upper, len)
    } else if is_letter(first) {
        (Word::Letters, run(&lower))
    } else if first.is_numeric() {
        (Word::Number, run(&char::is_numeric))
    } else {
        let other = |c: char| !(is_connector(c) || is_letter(c) || c.is_numeric() || is_punctuation(c));
        (Word::Other, run(&other))
    };
    let (head, tail) = units.split_at(len.min(units.len()));
    (word, head, tail)
}

fn emit(out: &mut Vec<u8>, word: Word, units: &[Unit<'_>], connector: char) {
    for unit in units {
        if !matches!(word, Word::Upper | Word::Connector) {
            out.extend_from_slice(unit.bytes);
            continue;
        }
        for (_, c, _) in runes::runes(unit.bytes) {
            let c = match c {
                c if is_connector(c) => connector,
                c if is_upper(c) => to_lower(c),
                c => c,
            };
            runes::push(out, c);
        }
    }
}

/// xstrings' `camelCaseToLowerCase`.
fn separated(text: &[u8], connector: char) -> Vec<u8> {
    let units = units(text);
    if units.is_empty() {
        return text.to_vec();
    }
    let mut out = Vec::new();
    let (mut kind, mut word, mut rest) = next_word(&units);
    while !rest.is_empty() {
        if kind != Word::Connector {
            emit(&mut out, kind, word, connector);
        }
        let (before, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match before {
            Word::Number => {
                while matches!(kind, Word::Letters | Word::Number) {
                    emit(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::Invalid | Word::Punctuation | Word::Connector) {
                    runes::push(&mut out, connector);
                }
            }
            Word::Connector => emit(&mut out, before, last, connector),
            Word::Punctuation => {}
            _ if kind != Word::Number => {
                if !matches!(kind, Word::Connector | Word::Punctuation) {
                    runes::push(&mut out, connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word, rest) = next_word(rest);
                if kind != Word::Letters {
                    // The number belongs to the word before it: Bld4Floor is bld4_floor.
                    emit(&mut out, Word::Number, number, connector);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        runes::push(&mut out, connector);
                    }
                } else {
                    // Lower case letters follow, so it starts a word: HTTP2xx is http_2xx.
                    runes::push(&mut out, connector);
                    emit(&mut out, Word::Number, number, connector);
                    while matches!(kind, Word::Letters | Word::Number) {
                        emit(&mut out, kind, word, connector);
                        (kind, word, rest) = next_word(rest);
                    }
                    if !matches!(kind, Word::Invalid | Word::Connector | Word::Punctuation) {
                        runes::push(&mut out, connector);
                    }
                }
            }
        }
    }
    emit(&mut out, kind, word, connector);
    out
}

/// `unicode.IsPunct`: the categories P.
fn is_punctuation(c: char) -> bool {
    static CATEGORIES: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{P}$").ok());
    if c.is_ascii() {
        return c.is_ascii_punctuation() && !"$+<=>^`|~".contains(c);
    }
    let is_in = |regex: &Regex| regex.is_match(c.encode_utf8(&mut [0; 4]));
    !c.is_alphanumeric() && CATEGORIES.as_ref().is_some_and(is_in)
}
