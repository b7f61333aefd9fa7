//! `time.Parse`: reading a time by one of Go's layouts, with Go's error texts.

use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};

use super::time::{Time, local_zone};
use super::time_layout::{Chunk, FRACTION, OFFSET, fraction_at, next_chunk};
use go_template::quote::quote_go;

#[rustfmt::skip]
const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
];

#[derive(Default)]
struct TimeFields {
    year: i16,
    month: i8,
    day: i8,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    is_afternoon: Option<bool>,
    zone: Option<TimeZone>,
}

/// Reads `value` by `layout`; a time without a zone is of the local one. An error is the text of Go's error.
pub(crate) fn parse(layout: &[u8], value: &[u8]) -> Result<Time, String> {
    let value = String::from_utf8_lossy(value);
    let (clock, zone) = read(&String::from_utf8_lossy(layout), &value)?;
    let time = clock.to_zoned(zone.unwrap_or_else(local_zone));
    time.map(Time::from)
        .map_err(|_| format!("parsing time {}: the date is too far away", quote_go(value.as_bytes())))
}

/// The reading of a clock, and the zone if there is one.
fn read(layout: &str, value: &str) -> Result<(DateTime, Option<TimeZone>), String> {
    let wrong = |what: &str| format!("parsing time {}{what}", quote_go(value));
    let mismatch = |left: &str, wanted: &str| {
        let [layout, left, wanted] = [layout, left, wanted].map(quote_go);
        wrong(&format!(" as {layout}: cannot parse {left} as {wanted}"))
    };
    let mut fields = TimeFields {
        month: 1,
        day: 1,
        ..TimeFields::default()
    };
    let (mut layout_left, mut left) = (layout, value);
    while let Some(chunk) = next_chunk(layout_left) {
        left = left
            .strip_prefix(chunk.literal)
            .ok_or_else(|| mismatch(left, chunk.literal))?;
        left = fields.read(&chunk, left).ok_or_else(|| mismatch(left, chunk.element))?;
        layout_left = chunk.rest;
    }
    match left.strip_prefix(layout_left) {
        None => return Err(mismatch(left, layout_left)),
        Some("") => {}
        Some(extra) => return Err(wrong(&format!(": extra text: {}", quote_go(extra)))),
    }
    let clock = fields
        .clock()
        .map_err(|part| wrong(&format!(": {part} out of range")))?;
    Ok((clock, fields.zone))
}

impl TimeFields {
    /// Reads the element that a text starts with. Gives what follows it; `None` if something else is there.
    fn read<'t>(&mut self, chunk: &Chunk<'_>, text: &'t str) -> Option<&'t str> {
        let (code, element) = (chunk.code, chunk.element);
        let text = match code {
            "%e" => text.strip_prefix(' ').unwrap_or(text),
            _ => text,
        };
        let least = if matches!(code, "%e" | "%H") || code.starts_with("%-") {
            1
        } else {
            2
        };
        let mut rest;
        match code {
            "%Y" => (self.year, rest) = digits(text, 4, 4)?,
            "%y" => {
                (self.year, rest) = digits(text, 2, 2)?;
                self.year += if self.year >= 69 { 1900 } else { 2000 };
            }
            "%b" => (self.month, rest) = month(text, 3)?,
            "%B" => (self.month, rest) = month(text, usize::MAX)?,
            "%m" | "%-m" => (self.month, rest) = digits(text, least, 2)?,
            "%d" | "%-d" | "%e" => (self.day, rest) = digits(text, least, 2)?,
            "%H" | "%I" | "%-I" => (self.hour, rest) = digits(text, least, 2)?,
            "%M" | "%-M" => (self.minute, rest) = digits(text, least, 2)?,
            "%S" | "%-S" => {
                (self.second, rest) = digits(text, least, 2)?;
                // A fraction may follow that is not in the layout.
                if fraction_at(chunk.rest).is_none()
                    && let Some((nanosecond, after)) = fraction(rest, None)
                {
                    (self.nanosecond, rest) = (nanosecond, after);
                }
            }
            FRACTION if element.ends_with('0') => (self.nanosecond, rest) = fraction(text, Some(element.len() - 1))?,
            FRACTION => (self.nanosecond, rest) = fraction(text, None).unwrap_or((0, text)),
            "%p" | "%P" => {
                rest = text.get(2..)?;
                self.is_afternoon = Some(match text.strip_suffix(rest)? {
                    "PM" | "pm" => true,
                    "AM" | "am" => false,
                    _ => return None,
                });
            }
            // The name of a day adds no information.
            "%a" => rest = text.get(3..)?,
            "%A" => rest = text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
            // The abbreviation of a zone is read as UTC.
            "%Z" => {
                rest = text.trim_start_matches(|c: char| c.is_ascii_uppercase());
                self.zone = (text.len() - rest.len() >= 3).then_some(TimeZone::UTC);
                self.zone.as_ref()?;
            }
            OFFSET if element.starts_with('Z') && text.starts_with('Z') => {
                rest = text.strip_prefix('Z')?;
                self.zone = Some(TimeZone::UTC);
            }
            OFFSET => {
                let (offset, after) = offset(text, element)?;
                (self.zone, rest) = (Some(TimeZone::fixed(offset)), after);
            }
            _ => return None,
        }
        Some(rest)
    }

    /// The date and time. An error is what is out of range.
    fn clock(&self) -> Result<DateTime, &'static str> {
        let hour = match self.is_afternoon {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        for (part, most, name) in [
            (self.month - 1, 11, "month"),
            (hour, 23, "hour"),
            (self.minute, 59, "minute"),
            (self.second, 59, "second"),
        ] {
            if !(0..=most).contains(&part) {
                return Err(name);
            }
        }
        let (minute, second) = (self.minute, self.second);
        DateTime::new(self.year, self.month, self.day, hour, minute, second, self.nanosecond).map_err(|_| "day")
    }
}

/// A number of so many digits, and what follows it.
fn digits<T: FromStr>(text: &str, least: usize, most: usize) -> Option<(T, &str)> {
    let len = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(len);
    if len < least {
        None
    } else {
        Some((digits.parse().ok()?, rest))
    }
}

/// The number of a month by so many letters of its name.
fn month(text: &str, len: usize) -> Option<(i8, &str)> {
    (1..).zip(MONTHS).find_map(|(number, name)| {
        let name = name.get(..len).unwrap_or(name);
        let (head, rest) = text.split_at_checked(name.len())?;
        head.eq_ignore_ascii_case(name).then_some((number, rest))
    })
}

/// The nanoseconds of a point or comma with so many digits behind, or as many as there are.
fn fraction(text: &str, count: Option<usize>) -> Option<(i32, &str)> {
    let digits = text.strip_prefix(['.', ','])?;
    let found = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (shown, rest) = digits.split_at_checked(count.unwrap_or(found))?;
    if shown.is_empty() || shown.len() > found {
        return None;
    }
    let nanoseconds = format!("{shown:0<9}");
    Some((nanoseconds.get(..9)?.parse().ok()?, rest))
}

/// An offset that is written like the element.
fn offset<'t>(text: &'t str, element: &str) -> Option<(Offset, &'t str)> {
    let (shown, rest) = text.split_at_checked(element.len())?;
    let (sign, numbers) = match shown.split_at_checked(1)? {
        ("+", numbers) => (1, numbers),
        ("-", numbers) => (-1, numbers),
        _ => return None,
    };
    let mut numbers = numbers;
    let mut seconds = 0;
    for unit in [3600, 60, 1] {
        if numbers.is_empty() {
            break;
        }
        if unit < 3600 && element.contains(':') {
            numbers = numbers.strip_prefix(':')?;
        }
        let (number, after) = digits::<i32>(numbers, 2, 2)?;
        seconds += unit * number;
        numbers = after;
    }
    Some((Offset::from_seconds(sign * seconds).ok()?, rest))
}
