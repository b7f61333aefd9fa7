//! `fmt`'s printing of values, by verb and flags. [`display`] is `%v`, what `{{ . }}` prints.

mod numbers;

use std::rc::Rc;

use crate::meter::Meter;
pub use crate::text::quote::quote_go;
use crate::text::unicode::{decode_lossy, rune_count};
use crate::value::{Field, List, ListKind, Map, Object, Value};

/// `fmt.Sprint` of one value: `%v`. A text over [`Meter::max_text`], or of a value that nests too deeply, is cut short and
/// reported to the [`Meter`].
///
/// ```
/// use go_template::{Meter, Value, format::display};
///
/// let value = Value::from_json(&serde_json::json!({"b": [1, "x"], "a": null}));
/// assert_eq!(display(&Meter::default(), &value), b"map[a:<nil> b:[1 x]]");
/// ```
pub fn display(meter: &Meter, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    display_into(meter, value, &mut out);
    out
}

/// [`display`] at the end of a buffer.
pub fn display_into(meter: &Meter, value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Int(n) | Value::Int64(n) => write_decimal(*n, out),
        // Whole numbers below a million print as integers do, except -0.
        Value::Float64(n) if n.abs() < 1e6 && n.fract() == 0.0 && (*n != 0.0 || n.is_sign_positive()) => {
            write_decimal(*n as i64, out);
        }
        other => Printer::new(meter, out).print(other, 'v'),
    }
}

/// [`display`] as text, where nothing is counted.
pub fn text(value: &Value) -> String {
    String::from_utf8_lossy(&display(&Meter::default(), value)).into_owned()
}

/// `fmt.Sprint`: `%v` of each, with spaces between those of which neither is a string.
pub fn sprint(meter: &Meter, args: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut after_string = true;
    for (i, arg) in args.iter().enumerate() {
        let is_string = arg.kind() == "string";
        if i > 0 && !is_string && !after_string {
            out.push(b' ');
        }
        display_into(meter, arg, &mut out);
        after_string = is_string;
    }
    out
}

/// `fmt.Sprintln`: `%v` of each, spaces between all, a newline at the end.
pub fn sprintln(meter: &Meter, args: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        display_into(meter, arg, &mut out);
    }
    out.push(b'\n');
    out
}

/// The output of `{{ . }}`: like [`display_into`], but the target of a pointer is printed without a `&`.
pub(crate) fn print_into(meter: &Meter, value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) if object.kind() == "ptr" && !object.is_stringer() => {
            let from = out.len();
            display_into(meter, value, out);
            if out.get(from) == Some(&b'&') {
                out.remove(from);
            }
        }
        value => display_into(meter, value, out),
    }
}

/// The first `count` characters.
pub(crate) fn truncate(bytes: &[u8], count: usize) -> &[u8] {
    let mut end = 0;
    for _ in 0..count {
        match decode_lossy(bytes.get(end..).unwrap_or_default()) {
            Some((_, width)) => end += width,
            None => return bytes,
        }
    }
    bytes.get(..end).unwrap_or(bytes)
}

fn write_decimal(n: i64, out: &mut Vec<u8>) {
    let mut buffer = [0; 20];
    let mut at = buffer.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        if let Some(digit) = buffer.get_mut(at) {
            *digit = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(buffer.get(at..).unwrap_or_default());
}

/// The flags between `%` and the verb.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) width: Option<usize>,
    pub(crate) precision: Option<usize>,
    pub(crate) minus: bool,
    pub(crate) plus: bool,
    pub(crate) sharp: bool,
    pub(crate) space: bool,
    pub(crate) zero: bool,
    /// `%#v`, for which `sharp` is off.
    pub(crate) sharp_v: bool,
    /// `%+v`, for which `plus` is off.
    pub(crate) plus_v: bool,
}

/// Prints values with flags at the end of a buffer.
pub(crate) struct Printer<'o> {
    meter: &'o Meter,
    pub(crate) out: &'o mut Vec<u8>,
    pub(crate) flags: Flags,
    /// The number of open lists, maps and structs.
    depth: usize,
}

impl<'o> Printer<'o> {
    pub(crate) fn new(meter: &'o Meter, out: &'o mut Vec<u8>) -> Self {
        Printer {
            meter,
            out,
            flags: Flags::default(),
            depth: 0,
        }
    }

    fn write(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Prints an argument.
    pub(crate) fn print(&mut self, value: &Value, verb: char) {
        match (verb, value) {
            ('T' | 'v', Value::Nil) => self.pad(b"<nil>"),
            ('T', value) => self.text(value.type_name().as_bytes()),
            ('v' | 'd', Value::List(list)) if list.kind == ListKind::Bytes => self.list(list, "[]byte", verb),
            (_, value) => self.value(value, verb),
        }
    }

    fn value(&mut self, value: &Value, verb: char) {
        match value {
            Value::Nil => self.bad_verb(value, verb),
            Value::Bool(b) if matches!(verb, 't' | 'v') => self.pad(if *b { b"true" } else { b"false" }),
            Value::Bool(_) => self.bad_verb(value, verb),
            Value::Int(n) | Value::Int64(n) => self.signed(*n, verb, value),
            Value::Uint8(n) => self.integer(false, u64::from(*n), verb, value),
            Value::Uint64(n) => self.integer(false, *n, verb, value),
            Value::Float64(n) => self.float(*n, verb, value),
            Value::String(text) => self.string(text.as_bytes(), verb, value),
            Value::List(list) => self.nested(|printer| printer.list(list, list.type_name(), verb)),
            Value::Map(map) => self.nested(|printer| printer.map(map, verb)),
            Value::Object(object) => self.nested(|printer| printer.object(object, verb, value)),
        }
    }

    /// Prints what has parts, unless that goes too deep or too far.
    fn nested(&mut self, print: impl FnOnce(&mut Self)) {
        let fits = self.meter.text(self.out.len());
        if fits.and_then(|()| self.meter.visit(self.depth)).is_ok() {
            self.depth += 1;
            print(self);
            self.depth -= 1;
        }
    }

    /// An element of a list or map. A nil one prints the same for every verb.
    fn element(&mut self, value: &Value, verb: char) {
        match value {
            Value::Nil if self.flags.sharp_v => self.write("interface {}(nil)"),
            Value::Nil => self.write("<nil>"),
            value => self.value(value, verb),
        }
    }

    /// `%!verb(type=value)`.
    fn bad_verb(&mut self, value: &Value, verb: char) {
        self.write("%!");
        self.out.extend_from_slice(verb.encode_utf8(&mut [0; 4]).as_bytes());
        self.write("(");
        match value {
            Value::Nil => self.write("<nil>"),
            value => {
                self.write(value.type_name());
                self.write("=");
                self.print(value, 'v');
            }
        }
        self.write(")");
    }

    fn list(&mut self, list: &List, type_name: &str, verb: char) {
        if list.kind == ListKind::Bytes && matches!(verb, 's' | 'q' | 'x' | 'X') {
            let items = list.items().iter();
            let bytes: Vec<u8> = items
                .map(|item| if let Value::Uint8(byte) = item { *byte } else { 0 })
                .collect();
            return self.string(&bytes, verb, &Value::Nil);
        }
        if list.kind == ListKind::Bytes && self.is_plain(verb) {
            let items = list.items().iter();
            return self.bytes(items.map(|item| if let Value::Uint8(byte) = item { *byte } else { 0 }));
        }
        if self.flags.sharp_v {
            self.write(type_name);
            if list.is_nil() {
                return self.write("(nil)");
            }
        }
        self.write(if self.flags.sharp_v { "{" } else { "[" });
        for (i, item) in list.items().iter().enumerate() {
            if i > 0 {
                self.write(if self.flags.sharp_v { ", " } else { " " });
            }
            self.element(item, verb);
        }
        self.write(if self.flags.sharp_v { "}" } else { "]" });
    }

    /// Whether a number is its decimal digits and nothing else.
    fn is_plain(&self, verb: char) -> bool {
        matches!(verb, 'v' | 'd') && self.flags == Flags::default()
    }

    /// Bytes as numbers. Files are printed whole, at times by mistake, so this is as short as it can be.
    fn bytes(&mut self, bytes: impl Iterator<Item = u8>) {
        self.out.push(b'[');
        for (i, byte) in bytes.enumerate() {
            if i > 0 {
                self.out.push(b' ');
            }
            write_decimal(i64::from(byte), self.out);
        }
        self.out.push(b']');
    }

    fn map(&mut self, map: &Map, verb: char) {
        if self.flags.sharp_v {
            self.write(map.type_name());
            if map.entries.is_none() {
                return self.write("(nil)");
            }
        }
        self.write(if self.flags.sharp_v { "{" } else { "map[" });
        if let Some(entries) = &map.entries {
            for (i, (key, item)) in entries.borrow().iter().enumerate() {
                if i > 0 {
                    self.write(if self.flags.sharp_v { ", " } else { " " });
                }
                self.string(key.as_bytes(), verb, &Value::String(key.clone()));
                self.write(":");
                match item {
                    Value::String(data) if map.kind.of_bytes() && self.is_plain(verb) => {
                        self.bytes(data.as_bytes().iter().copied());
                    }
                    Value::String(data) if map.kind.of_bytes() => {
                        self.list(&List::bytes(data.as_bytes()), "[]uint8", verb);
                    }
                    item => self.element(item, verb),
                }
            }
        }
        self.write(if self.flags.sharp_v { "}" } else { "]" });
    }

    fn object(&mut self, object: &Rc<dyn Object>, verb: char, value: &Value) {
        match (verb, object.as_int(), object.structure()) {
            ('v', ..) if object.is_stringer() => self.text(object.display().as_bytes()),
            ('s' | 'x' | 'X' | 'q', ..) if object.is_stringer() => {
                self.string(object.display().as_bytes(), verb, value);
            }
            (_, Some(n), _) => self.signed(n, verb, value),
            (_, None, Some(fields)) => self.structure(object.as_ref(), &fields, verb),
            _ => self.bad_verb(value, verb),
        }
    }

    /// A struct, or what a pointer points to. Go shows addresses of pointers within others.
    fn structure(&mut self, object: &dyn Object, fields: &[Field], verb: char) {
        let type_name = object.type_name();
        if type_name.starts_with('*') {
            self.write("&");
        }
        if self.flags.sharp_v {
            self.write(type_name.trim_start_matches('*'));
        }
        self.write("{");
        for (i, field) in fields.iter().enumerate() {
            if i > 0 {
                self.write(if self.flags.sharp_v { ", " } else { " " });
            }
            if self.flags.plus_v || self.flags.sharp_v {
                self.write(field.name);
                self.write(":");
            }
            self.element(&field.value, verb);
        }
        self.write("}");
    }

    fn string(&mut self, bytes: &[u8], verb: char, value: &Value) {
        match verb {
            'v' if self.flags.sharp_v => self.quoted(bytes),
            'v' | 's' => self.text(bytes),
            'x' | 'X' => self.hex(bytes, verb == 'X'),
            'q' => self.quoted(bytes),
            _ => self.bad_verb(value, verb),
        }
    }

    pub(crate) fn text(&mut self, bytes: &[u8]) {
        self.pad(self.flags.precision.map_or(bytes, |count| truncate(bytes, count)));
    }

    fn quoted(&mut self, bytes: &[u8]) {
        let bytes = self.flags.precision.map_or(bytes, |count| truncate(bytes, count));
        self.pad(quote_go(bytes).as_bytes());
    }

    fn hex(&mut self, bytes: &[u8], upper: bool) {
        let precision = self.flags.precision.unwrap_or(bytes.len());
        let bytes = bytes.get(..precision).unwrap_or(bytes);
        let digits = bytes.iter().map(|byte| {
            if upper {
                format!("{byte:02X}")
            } else {
                format!("{byte:02x}")
            }
        });
        self.pad(digits.collect::<String>().as_bytes());
    }

    fn padding(&mut self, count: usize, byte: u8) {
        self.out.resize(self.out.len() + self.room(count), byte);
    }

    /// As much of `count` bytes as the limit allows.
    fn room(&self, count: usize) -> usize {
        count.min(self.meter.max_text().saturating_sub(self.out.len()))
    }

    pub(crate) fn pad(&mut self, text: &[u8]) {
        let missing = self
            .flags
            .width
            .map_or(0, |width| width.saturating_sub(rune_count(text)));
        if self.flags.minus {
            self.out.extend_from_slice(text);
            self.padding(missing, b' ');
        } else {
            self.padding(missing, if self.flags.zero { b'0' } else { b' ' });
            self.out.extend_from_slice(text);
        }
    }

    fn pad_with_spaces(&mut self, text: &[u8]) {
        let zero = std::mem::replace(&mut self.flags.zero, false);
        self.pad(text);
        self.flags.zero = zero;
    }
}
