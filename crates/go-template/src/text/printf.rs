//! `fmt.Sprintf`: the format string's rules. What a verb prints is in [`crate::text::format`].

use crate::meter::Meter;
use crate::text::format::{Flags, Printer};
use crate::text::unicode::decode_lossy;
use crate::value::Value;

/// The largest width, precision and index of an argument.
const MAX_NUMBER: usize = 10_000_000;

/// `fmt.Sprintf(format, args...)`. There is no failure: what is wrong is reported inside the text, as Go does.
/// Widths and precisions are filled up to a text of 64 MiB; the function `printf` refuses a text of that length.
///
/// ```
/// use go_template::{Meter, Value, printf::sprintf};
///
/// let text = sprintf(&Meter::default(), b"%05.1f|%q|%d", &[Value::Float64(2.25), Value::string("x")]);
/// assert_eq!(text, b"002.2|\"x\"|%!d(MISSING)".as_slice().to_vec());
/// ```
pub fn sprintf(meter: &Meter, format: &[u8], args: &[Value]) -> Vec<u8> {
    let mut out = Vec::with_capacity(format.len() + 16);
    let mut cursor = Cursor {
        meter,
        format,
        at: 0,
        args,
        next_arg: 0,
        reordered: false,
    };
    while cursor.literal(&mut out) {
        cursor.verb(&mut out);
    }
    if !cursor.reordered && cursor.next_arg < args.len() {
        extra(meter, &mut out, args.get(cursor.next_arg..).unwrap_or_default());
    }
    out
}

/// `%!(EXTRA type=value, ...)`.
fn extra(meter: &Meter, out: &mut Vec<u8>, args: &[Value]) {
    out.extend_from_slice(b"%!(EXTRA ");
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            out.extend_from_slice(b", ");
        }
        if !arg.is_nil() {
            out.extend_from_slice(arg.type_name().as_bytes());
            out.push(b'=');
        }
        Printer::new(meter, out).print(arg, 'v');
    }
    out.push(b')');
}

struct Cursor<'a> {
    meter: &'a Meter,
    format: &'a [u8],
    at: usize,
    args: &'a [Value],
    next_arg: usize,
    /// An explicit index `[n]` was used, so leftover arguments are not reported.
    reordered: bool,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// Takes a byte if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let comes = self.peek() == Some(byte);
        self.at += usize::from(comes);
        comes
    }

    /// Copies up to the next `%` and takes it. False at the end.
    fn literal(&mut self, out: &mut Vec<u8>) -> bool {
        let rest = self.format.get(self.at..).unwrap_or_default();
        let length = memchr::memchr(b'%', rest);
        out.extend_from_slice(rest.get(..length.unwrap_or(rest.len())).unwrap_or_default());
        self.at += length.map_or(rest.len(), |length| length + 1);
        length.is_some()
    }

    fn verb(&mut self, out: &mut Vec<u8>) {
        let mut flags = self.flags();
        self.index();
        self.width(&mut flags);
        if self.take(b'.') {
            self.index();
            flags.precision = if self.take(b'*') {
                self.int_arg().and_then(|precision| usize::try_from(precision).ok())
            } else {
                Some(self.number().unwrap_or(0))
            };
        }
        self.index();
        let Some((verb, width)) = decode_lossy(self.format.get(self.at..).unwrap_or_default()) else {
            out.extend_from_slice(b"%!(NOVERB)");
            return;
        };
        self.at += width;
        let broken = match self.args.get(self.next_arg) {
            _ if verb == '%' => return out.push(b'%'),
            Some(arg) => {
                if verb == 'v' {
                    flags.sharp_v = std::mem::replace(&mut flags.sharp, false);
                    flags.plus_v = std::mem::replace(&mut flags.plus, false);
                }
                let mut printer = Printer::new(self.meter, out);
                printer.flags = flags;
                printer.print(arg, verb);
                self.next_arg += 1;
                return;
            }
            None if self.next_arg > self.args.len() => "(BADINDEX)",
            None => "(MISSING)",
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

    fn width(&mut self, flags: &mut Flags) {
        if !self.take(b'*') {
            flags.width = self.number();
            return;
        }
        let width = self.int_arg();
        flags.width = width.map(|width| width.unsigned_abs() as usize);
        flags.minus |= width.is_some_and(i64::is_negative);
    }

    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            let value = number.unwrap_or(0) * 10 + usize::from(digit - b'0');
            number = Some(value.min(MAX_NUMBER));
            self.at += 1;
        }
        number
    }

    /// The next argument, for `*`.
    fn int_arg(&mut self) -> Option<i64> {
        let arg = self.args.get(self.next_arg)?;
        self.next_arg += 1;
        let most = MAX_NUMBER as i64;
        match arg {
            Value::Int(n) | Value::Int64(n) => Some((*n).clamp(-most, most)),
            _ => None,
        }
    }

    /// An explicit argument index, `[n]`, if there is one here. One that is no number, or 0, is beyond all arguments.
    fn index(&mut self) {
        if !self.take(b'[') {
            return;
        }
        self.reordered = true;
        let number = self.number().and_then(|number| number.checked_sub(1));
        let index = number.filter(|index| self.take(b']') && *index < self.args.len());
        self.next_arg = index.unwrap_or(self.args.len() + 1);
    }
}
