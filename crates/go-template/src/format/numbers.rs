//! Integers, characters and floats by verb and flags.

use super::{Case, Printer};
use crate::number::format_float;
use crate::quote::{Keep, quote_with};
use crate::unicode::is_print;
use crate::value::Value;

impl Printer<'_> {
    pub(super) fn signed(&mut self, n: i64, verb: char, value: &Value) {
        self.by_verb(n as u64, true, verb, value);
    }

    pub(super) fn unsigned(&mut self, n: u64, verb: char, value: &Value) {
        if verb == 'v' && self.flags.sharp_v {
            let sharp = std::mem::replace(&mut self.flags.sharp, true);
            self.integer(n, false, 16, 'v', Case::Lower);
            self.flags.sharp = sharp;
        } else {
            self.by_verb(n, false, verb, value);
        }
    }

    fn by_verb(&mut self, n: u64, signed: bool, verb: char, value: &Value) {
        match verb {
            'v' | 'd' => self.integer(n, signed, 10, verb, Case::Lower),
            'b' => self.integer(n, signed, 2, verb, Case::Lower),
            'o' | 'O' => self.integer(n, signed, 8, verb, Case::Lower),
            'x' => self.integer(n, signed, 16, verb, Case::Lower),
            'X' => self.integer(n, signed, 16, verb, Case::Upper),
            'c' => self.pad(rune(n).encode_utf8(&mut [0; 4]).as_bytes()),
            'q' => {
                let keep = if self.flags.plus { Keep::Ascii } else { Keep::Printable };
                let quoted = quote_with(rune(n).encode_utf8(&mut [0; 4]).as_bytes(), '\'', keep);
                self.pad(quoted.as_bytes());
            }
            'U' => self.code_point(n),
            _ => self.bad_verb(value, verb),
        }
    }

    pub(super) fn integer(&mut self, n: u64, signed: bool, base: u32, verb: char, case: Case) {
        let negative = signed && (n as i64) < 0;
        let magnitude = if negative { n.wrapping_neg() } else { n };
        let precision = match (self.flags.precision, self.flags.width) {
            (Some(0), width) if magnitude == 0 => return self.padding(width.unwrap_or(0), b' '),
            (Some(precision), _) => precision,
            (None, Some(width)) if self.flags.zero && !self.flags.minus => {
                width.saturating_sub(usize::from(negative || self.flags.plus || self.flags.space))
            }
            _ => 0,
        };
        let digits = match (base, case) {
            (2, _) => format!("{magnitude:b}"),
            (8, _) => format!("{magnitude:o}"),
            (16, Case::Lower) => format!("{magnitude:x}"),
            (16, Case::Upper) => format!("{magnitude:X}"),
            _ => magnitude.to_string(),
        };
        let zeros = "0".repeat(self.room(precision.saturating_sub(digits.len())));
        let prefix = match (base, case) {
            (2, _) if self.flags.sharp => "0b",
            (8, _) if self.flags.sharp && !zeros.starts_with('0') && !digits.starts_with('0') => "0",
            (16, Case::Lower) if self.flags.sharp => "0x",
            (16, Case::Upper) if self.flags.sharp => "0X",
            _ => "",
        };
        let octal = if verb == 'O' { "0o" } else { "" };
        let sign = match (negative, self.flags.plus, self.flags.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        self.pad_with_spaces([sign, octal, prefix, &zeros, &digits].concat().as_bytes());
    }

    /// `%U`.
    fn code_point(&mut self, n: u64) {
        let digits = self.flags.precision.unwrap_or(0).max(4);
        let mut text = format!("{n:X}");
        text = format!("U+{}{text}", "0".repeat(self.room(digits.saturating_sub(text.len()))));
        let c = u32::try_from(n).ok().and_then(char::from_u32);
        if let Some(c) = c.filter(|c| self.flags.sharp && is_print(*c)) {
            text = format!("{text} '{c}'");
        }
        self.pad_with_spaces(text.as_bytes());
    }

    pub(super) fn float(&mut self, n: f64, verb: char, value: &Value) {
        let (letter, precision) = match verb {
            'v' => ('g', -1),
            'g' | 'G' => (verb, -1),
            'f' | 'e' | 'E' => (verb, 6),
            'F' => ('f', 6),
            _ => return self.bad_verb(value, verb),
        };
        let precision = self
            .flags
            .precision
            .map_or(precision, |precision| self.room(precision) as i32);
        let text = format_float(n, letter, precision);
        let (mut sign, mut number) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
            (Some(rest), _) => ('-', rest.to_owned()),
            (None, Some(rest)) => ('+', rest.to_owned()),
            (None, None) => ('+', text),
        };
        if self.flags.space && sign == '+' && !self.flags.plus {
            sign = ' ';
        }
        let shows_sign = self.flags.plus || sign != '+';
        if !n.is_finite() {
            let bare = if n.is_nan() {
                !self.flags.space && !self.flags.plus
            } else {
                !shows_sign
            };
            let text = if bare && n.is_nan() {
                number
            } else {
                format!("{sign}{number}")
            };
            return self.pad_with_spaces(text.as_bytes());
        }
        if self.flags.sharp {
            number = with_point(&number, letter, precision);
        }
        if !shows_sign {
            return self.pad(number.as_bytes());
        }
        let width = self.flags.width.unwrap_or(0);
        if self.flags.zero && !self.flags.minus && width > number.len() + 1 {
            self.out.push(sign as u8);
            self.padding(width - number.len() - 1, b'0');
            return self.write(&number);
        }
        self.pad(format!("{sign}{number}").as_bytes());
    }
}

fn rune(n: u64) -> char {
    u32::try_from(n)
        .ok()
        .and_then(char::from_u32)
        .unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// What `#` does to a float: a decimal point always, and the trailing zeros that `g` cuts.
fn with_point(number: &str, verb: char, precision: i32) -> String {
    let tail_at = number.find(['e', 'E']).unwrap_or(number.len());
    let (head, tail) = number.split_at(tail_at);
    let mut digits = match verb {
        'g' | 'G' => {
            if precision < 0 {
                6
            } else {
                precision
            }
        }
        _ => 0,
    };
    let significant = head.chars().filter(|c| *c != '.').skip_while(|c| *c == '0').count();
    digits -= significant as i32;
    let mut text = head.to_owned();
    if !head.contains('.') {
        if head == "0" {
            digits -= 1;
        }
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', usize::try_from(digits).unwrap_or(0)));
    text + tail
}
