//! Go's layouts: the time `Mon Jan 2 15:04:05 MST 2006` as a pattern, and writing a time by one.

use jiff::Zoned;
use jiff::fmt::strtime;

/// The elements of a layout: Go's text and jiff's. An element that begins with another one comes before it.
#[rustfmt::skip]
const ELEMENTS: [(&str, &str); 33] = [
    ("January", "%B"), ("Jan", "%b"), ("Monday", "%A"), ("Mon", "%a"), ("MST", "%Z"),
    ("2006", "%Y"), ("06", "%y"), ("002", "%j"), ("__2", "%_j"), ("01", "%m"), ("02", "%d"), ("_2", "%e"),
    ("15", "%H"), ("03", "%I"), ("04", "%M"), ("05", "%S"), ("PM", "%p"), ("pm", "%P"),
    ("1", "%-m"), ("2", "%-d"), ("3", "%-I"), ("4", "%-M"), ("5", "%-S"),
    ("-07:00:00", OFFSET), ("-070000", OFFSET), ("-07:00", OFFSET), ("-0700", OFFSET), ("-07", OFFSET),
    ("Z07:00:00", OFFSET), ("Z070000", OFFSET), ("Z07:00", OFFSET), ("Z0700", OFFSET), ("Z07", OFFSET),
];
/// Hours, minutes and seconds east of UTC; Go's text says how much of that.
pub(crate) const OFFSET: &str = "%::z";
/// Digits after a point or comma: as many as there are zeros, or at most as many as there are nines.
pub(crate) const FRACTION: &str = "%9f";

/// A part of a layout.
pub(crate) struct Chunk<'l> {
    /// The text before the element.
    pub(crate) literal: &'l str,
    pub(crate) element: &'l str,
    /// jiff's name of the element.
    pub(crate) code: &'static str,
    pub(crate) rest: &'l str,
}

/// The first element of a layout. `None` if there is none.
pub(crate) fn next_chunk(layout: &str) -> Option<Chunk<'_>> {
    layout.char_indices().find_map(|(at, _)| {
        let (literal, text) = layout.split_at(at);
        let (element, code) = element_at(text)?;
        let rest = text.strip_prefix(element)?;
        Some(Chunk {
            literal,
            element,
            code,
            rest,
        })
    })
}

fn element_at(text: &str) -> Option<(&str, &'static str)> {
    if let Some(fraction) = fraction_at(text) {
        return Some((fraction, FRACTION));
    }
    let (go, code) = ELEMENTS.into_iter().find(|(go, _)| text.starts_with(go))?;
    let (element, after) = text.split_at(go.len());
    let is_word = matches!(go, "Jan" | "Mon") && after.starts_with(|c: char| c.is_ascii_lowercase());
    let is_year = go == "_2" && after.starts_with("006");
    (!is_word && !is_year).then_some((element, code))
}

/// `.000` or `.999`, of any length, that no other digit follows.
pub(crate) fn fraction_at(text: &str) -> Option<&str> {
    let digits = text.strip_prefix(['.', ','])?;
    let kind = digits.chars().next().filter(|c| matches!(c, '0' | '9'))?;
    let after = digits.trim_start_matches(kind);
    if after.starts_with(|c: char| c.is_ascii_digit()) {
        None
    } else {
        text.strip_suffix(after)
    }
}

/// `Time.Format`.
pub(crate) fn format(time: &Zoned, layout: &str) -> String {
    let mut out = String::with_capacity(layout.len() + 10);
    let mut rest = layout;
    while let Some(chunk) = next_chunk(rest) {
        out.push_str(chunk.literal);
        out.push_str(&element_text(time, &chunk));
        rest = chunk.rest;
    }
    out + rest
}

fn element_text(time: &Zoned, chunk: &Chunk<'_>) -> String {
    let element = chunk.element;
    match chunk.code {
        // jiff writes those of a hundred years only.
        "%y" => format!("{:02}", time.year().unsigned_abs() % 100),
        "%Z" if is_nameless(time) => strtime::format("%z", time).unwrap_or_default(),
        OFFSET if element.starts_with('Z') && time.offset().is_zero() => "Z".to_owned(),
        OFFSET => {
            let mut offset = strtime::format(OFFSET, time).unwrap_or_default();
            if !element.contains(':') {
                offset = offset.replace(':', "");
            }
            offset.chars().take(element.len()).collect()
        }
        FRACTION => {
            let (separator, wanted) = element.split_at(1);
            let digits = format!("{:09}", time.subsec_nanosecond());
            let digits = digits.get(..wanted.len()).unwrap_or(&digits);
            let digits = if wanted.starts_with('9') {
                digits.trim_end_matches('0')
            } else {
                digits
            };
            match digits {
                "" => String::new(),
                digits => format!("{separator}{digits}"),
            }
        }
        code => strtime::format(code, time).unwrap_or_default(),
    }
}

/// Whether the zone is nothing but an offset that a text gave.
fn is_nameless(time: &Zoned) -> bool {
    let zone = time.time_zone();
    zone.iana_name().is_none() && zone.to_fixed_offset().is_ok()
}
