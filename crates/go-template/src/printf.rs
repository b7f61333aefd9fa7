//! `fmt.Sprintf`: the format string's rules. What a verb prints is in [`super::format`].

use super::format::{Flags, Printer};
use super::unicode::decode_lossy;
use super::value::Value;

pub(super) use super::meter::MAX_TEXT;

/// `fmt.Sprintf(format, args...)`. There is no failure: what is wrong is reported inside the text, as Go does.
/// Widths and precisions are filled up to a text of 64 MiB; the function `printf` refuses a text of that length.
pub fn sprintf(format: &[u8], args: &[Value]) -> Vec<u8> {
    let mut out = Vec::with_capacity(format.len() + 16);
    let mut cursor = Cursor {
        format,
        at: 0,
        args,
        next_arg: 0,
        reordered: false,
        good_index: true,
        after_index: false,
    };
    while cursor.literal(&mut out) {
        cursor.verb(&mut out);
    }
    if !cursor.reordered && cursor.next_arg < args.len() {
        extra(&mut out, args.get(cursor.next_arg..).unwrap_or_default());
    }
    out
}

/// `%!(EXTRA type=value, ...)`.
fn extra(out: &mut Vec<u8>, args: &[Value]) {
    out.extend_from_slice(b"%!(EXTRA ");
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        if !arg.is_nil() {
            out.extend_from_slice(arg.type_name().as_bytes());
            out.push(b'=');
        }
        Printer::new(out).print(arg, 'v');
    }
    out.push(b')');
}

struct Cursor<'a> {
    format: &'a [u8],
    at: usize,
    args: &'a [Value],
    next_arg: usize,
    /// An explicit index `[n]` was used, so leftover arguments are not reported.
    reordered: bool,
    /// The indexes of the current verb are in order.
    good_index: bool,
    /// The last thing read was an index.
    after_index: bool,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// Copies up to the next `%` and takes it. False at the end.
    fn literal(&mut self, out: &mut Vec<u8>) -> bool {
        let rest = self.format.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|b| *b == b'%');
        out.extend_from_slice(rest.get(..length.unwrap_or(rest.len())).unwrap_or_default());
        self.at += length.map_or(rest.len(), |length| length + 1);
        length.is_some()
    }

    fn verb(&mut self, out: &mut Vec<u8>) {
        self.good_index = true;
        self.after_index = false;
        let mut flags = self.flags();
        self.index();
        self.width(&mut flags, out);
        self.precision(&mut flags, out);
        if !self.after_index {
            self.index();
        }
        let Some((verb, width)) = decode_lossy(self.format.get(self.at..).unwrap_or_default()) else {
            out.extend_from_slice(b"%!(NOVERB)");
            return;
        };
        self.at += width;
        let broken = match self.args.get(self.next_arg) {
            _ if verb == '%' => return out.push(b'%'),
            _ if !self.good_index => "(BADINDEX)",
            None => "(MISSING)",
            Some(arg) => {
                if matches!(verb, 'v' | 'w') {
                    flags.sharp_v = std::mem::replace(&mut flags.sharp, false);
                    flags.plus_v = std::mem::replace(&mut flags.plus, false);
                }
                let mut printer = Printer::new(out);
                printer.flags = flags;
                printer.print(arg, verb);
                self.next_arg += 1;
                return;
            }
        };
        out.extend_from_slice(b"%!");
        out.extend_from_slice(verb.encode_utf8(&mut [0; 4]).as_bytes());
        out.extend_from_slice(broken.as_bytes());
    }

    fn flags(&mut self) -> Flags {
        let mut flags = Flags::default();
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => flags.sharp = true,
                b'0' => flags.zero = true,
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b' ' => flags.space = true,
                _ => break,
            }
            self.at += 1;
        }
        flags
    }

    fn width(&mut self, flags: &mut Flags, out: &mut Vec<u8>) {
        if self.peek() == Some(b'*') {
            self.at += 1;
            match self.int_arg() {
                Some(width) => {
                    flags.width = Some(width.unsigned_abs() as usize);
                    if width < 0 {
                        flags.minus = true;
                        flags.zero = false;
                    }
                }
                None => out.extend_from_slice(b"%!(BADWIDTH)"),
            }
            self.after_index = false;
        } else {
            flags.width = self.number();
            if self.after_index && flags.width.is_some() {
                self.good_index = false;
            }
        }
    }

    fn precision(&mut self, flags: &mut Flags, out: &mut Vec<u8>) {
        if self.peek() != Some(b'.') || self.at + 1 >= self.format.len() {
            return;
        }
        self.at += 1;
        if self.after_index {
            self.good_index = false;
        }
        self.index();
        if self.peek() == Some(b'*') {
            self.at += 1;
            flags.precision = self.int_arg().and_then(|precision| usize::try_from(precision).ok());
            if flags.precision.is_none() {
                out.extend_from_slice(b"%!(BADPREC)");
            }
            self.after_index = false;
        } else {
            flags.precision = Some(self.number().unwrap_or(0));
        }
    }

    /// A decimal number up to a million; a larger one swallows the rest of the format, as in Go.
    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            let value = number.unwrap_or(0);
            if value > 1_000_000 {
                self.at = self.format.len();
                return None;
            }
            number = Some(value * 10 + usize::from(digit - b'0'));
            self.at += 1;
        }
        number
    }

    /// The next argument, for `*`.
    fn int_arg(&mut self) -> Option<i64> {
        let arg = self.args.get(self.next_arg)?;
        self.next_arg += 1;
        let number = match arg {
            Value::Int(n) | Value::Int64(n) => *n,
            Value::Uint8(n) => i64::from(*n),
            Value::Uint64(n) => i64::try_from(*n).ok()?,
            Value::Object(object) => object.as_int()?,
            _ => return None,
        };
        (-1_000_000..=1_000_000).contains(&number).then_some(number)
    }

    /// An explicit argument index, `[n]`, if there is one here.
    fn index(&mut self) {
        self.after_index = false;
        if self.peek() != Some(b'[') {
            return;
        }
        self.reordered = true;
        let rest = self.format.get(self.at..).unwrap_or_default();
        let closing = rest.iter().position(|b| *b == b']').filter(|_| rest.len() >= 3);
        let Some(closing) = closing else {
            self.at += 1;
            self.good_index = false;
            return;
        };
        let digits = rest.get(1..closing).unwrap_or_default();
        self.at += closing + 1;
        let number = if digits.iter().all(u8::is_ascii_digit) && digits.len() <= 7 {
            std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse::<usize>().ok())
        } else {
            None
        };
        match number.and_then(|number| number.checked_sub(1)) {
            Some(index) if index < self.args.len() => {
                self.next_arg = index;
                self.after_index = true;
            }
            _ => {
                self.good_index = false;
                self.after_index = number.is_some();
            }
        }
    }
}
