//! Integers and floats by verb and flags.

use crate::text::format::Printer;
use crate::text::number::format_float;
use crate::value::Value;

impl Printer<'_> {
    pub(crate) fn signed(&mut self, n: i64, verb: char, value: &Value) {
        self.integer(n < 0, n.unsigned_abs(), verb, value);
    }

    pub(crate) fn integer(&mut self, negative: bool, magnitude: u64, verb: char, value: &Value) {
        let (prefix, digits) = match verb {
            'v' | 'd' => ("", magnitude.to_string()),
            'b' => ("0b", format!("{magnitude:b}")),
            'o' => (if magnitude > 0 { "0" } else { "" }, format!("{magnitude:o}")),
            'x' => ("0x", format!("{magnitude:x}")),
            'X' => ("0X", format!("{magnitude:X}")),
            'c' | 'q' => {
                let c = u32::try_from(magnitude).ok().and_then(char::from_u32);
                let c = c.filter(|_| !negative).unwrap_or(char::REPLACEMENT_CHARACTER);
                let text = if verb == 'q' { format!("'{c}'") } else { c.to_string() };
                return self.pad(text.as_bytes());
            }
            _ => return self.bad_verb(value, verb),
        };
        let sign = self.sign(negative);
        let least = match (self.flags.precision, self.flags.width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if self.flags.zero && !self.flags.minus => width.saturating_sub(sign.len()),
            _ => 0,
        };
        let zeros = "0".repeat(self.room(least.saturating_sub(digits.len())));
        let prefix = if self.flags.sharp { prefix } else { "" };
        self.pad_with_spaces([sign, prefix, &zeros, &digits].concat().as_bytes());
    }

    fn sign(&self, negative: bool) -> &'static str {
        match (negative, self.flags.plus, self.flags.space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        }
    }

    pub(crate) fn float(&mut self, n: f64, verb: char, value: &Value) {
        let (letter, precision) = match verb {
            'v' => ('g', -1),
            'g' | 'G' => (verb, -1),
            'f' | 'e' | 'E' => (verb, 6),
            'F' => ('f', 6),
            _ => return self.bad_verb(value, verb),
        };
        let precision = self.flags.precision.map_or(precision, |precision| precision as i32);
        let text = format_float(n, letter, precision);
        let number = text.trim_start_matches(['-', '+']);
        let sign = if text.starts_with('+') {
            "+"
        } else {
            self.sign(text.starts_with('-'))
        };
        let missing = self.flags.width.unwrap_or(0).saturating_sub(sign.len() + number.len());
        if self.flags.zero && !self.flags.minus && n.is_finite() {
            self.out.extend_from_slice(sign.as_bytes());
            self.padding(missing, b'0');
            self.out.extend_from_slice(number.as_bytes());
        } else {
            self.pad_with_spaces([sign, number].concat().as_bytes());
        }
    }
}
