//! `time.ParseInLocation`: reading a time by one of Go's layouts, with Go's error texts.

use jiff::civil::{Date, DateTime};

use super::duration::quote_ascii;
use super::time::{MONTHS, RFC3339, Time, WEEKDAYS, Zone, nanoseconds as since_1970};
use super::time_layout::{Element, next_chunk};
use go_template::value::Value;

/// What went wrong with one element: it doesn't fit, or a part is out of range.
enum Bad {
    Mismatch,
    Range(&'static str),
}

type Parsed<T> = Result<T, Bad>;

#[derive(Default)]
struct Fields {
    year: i32,
    month: Option<i32>,
    day: Option<i32>,
    year_day: Option<i32>,
    hour: i32,
    minute: i32,
    second: i32,
    nanosecond: u32,
    pm: bool,
    am: bool,
    utc: bool,
    offset: Option<i32>,
    zone_name: Option<String>,
}

fn parse_error(value: &[u8], layout: &[u8], value_element: &[u8], layout_element: &[u8]) -> String {
    let [value, layout, value_element, layout_element] =
        [value, layout, value_element, layout_element].map(quote_ascii);
    format!("parsing time {value} as {layout}: cannot parse {value_element} as {layout_element}")
}

fn cut_space(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|b| **b == b' ').count();
    text.get(spaces..).unwrap_or(&[])
}

/// Removes a literal from the front; any number of spaces stands for any number. An error is where it stopped.
fn skip<'a>(mut value: &'a [u8], mut prefix: &[u8]) -> Result<&'a [u8], &'a [u8]> {
    while let Some((first, rest)) = prefix.split_first() {
        if *first == b' ' {
            if value.first().is_some_and(|b| *b != b' ') {
                return Err(value);
            }
            prefix = cut_space(prefix);
            value = cut_space(value);
            continue;
        }
        match value.split_first() {
            Some((found, tail)) if found == first => value = tail,
            _ => return Err(value),
        }
        prefix = rest;
    }
    Ok(value)
}

fn digit(text: &[u8], at: usize) -> Option<i32> {
    text.get(at).filter(|b| b.is_ascii_digit()).map(|b| i32::from(b - b'0'))
}

/// One or two digits; two if `fixed`.
fn number<'a>(value: &mut &'a [u8], fixed: bool) -> Parsed<i32> {
    let text: &'a [u8] = value;
    let first = digit(text, 0).ok_or(Bad::Mismatch)?;
    let (n, len) = match digit(text, 1) {
        Some(second) => (first * 10 + second, 2),
        None if fixed => return Err(Bad::Mismatch),
        None => (first, 1),
    };
    *value = text.get(len..).unwrap_or(&[]);
    Ok(n)
}

fn take<'a>(value: &mut &'a [u8], len: usize) -> Parsed<&'a [u8]> {
    let (head, tail) = value.split_at_checked(len).ok_or(Bad::Mismatch)?;
    *value = tail;
    Ok(head)
}

fn all_digits(text: &[u8]) -> Parsed<i32> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(Bad::Mismatch);
    }
    Ok(text.iter().fold(0, |n, b| n * 10 + i32::from(b - b'0')))
}

/// Go's `atoi`: digits with a sign or without.
fn signed(text: &[u8]) -> Parsed<i32> {
    match text {
        [b'+', digits @ ..] => all_digits(digits),
        [b'-', digits @ ..] => Ok(-all_digits(digits)?),
        digits => all_digits(digits),
    }
}

/// A name from a table, whatever its letter case; `len` is how much of each name counts, if not all.
fn lookup(value: &mut &[u8], names: &[&str], len: Option<usize>) -> Parsed<i32> {
    for (index, name) in names.iter().enumerate() {
        let name = name
            .as_bytes()
            .get(..len.unwrap_or(name.len()))
            .unwrap_or(name.as_bytes());
        if let Some((head, tail)) = value.split_at_checked(name.len())
            && head.eq_ignore_ascii_case(name)
        {
            *value = tail;
            return Ok(index as i32);
        }
    }
    Err(Bad::Mismatch)
}

fn in_range(n: i32, range: std::ops::Range<i32>, name: &'static str) -> Parsed<i32> {
    if range.contains(&n) {
        Ok(n)
    } else {
        Err(Bad::Range(name))
    }
}

/// Nanoseconds of a separator and digits; more than nine digits are cut.
fn nanoseconds(text: &[u8]) -> Parsed<u32> {
    let [b'.' | b',', digits @ ..] = text else {
        return Err(Bad::Mismatch);
    };
    let digits = digits.get(..9).unwrap_or(digits);
    let n = u32::try_from(signed(digits)?).map_err(|_| Bad::Range("fractional second"))?;
    Ok(n * 10u32.pow(9 - digits.len() as u32))
}

fn is_fraction(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'.' | b',')) && digit(text, 1).is_some()
}

fn fraction_len(text: &[u8]) -> usize {
    1 + text.iter().skip(1).take_while(|b| b.is_ascii_digit()).count()
}

/// The length of a zone's abbreviation at the front.
fn zone_name_len(text: &[u8]) -> Option<usize> {
    if text.len() < 3 {
        return None;
    }
    if text.starts_with(b"ChST") || text.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix(b"GMT") {
        return Some(3 + signed_offset_len(rest));
    }
    if matches!(text.first(), Some(b'+' | b'-')) {
        return Some(signed_offset_len(text)).filter(|len| *len > 0);
    }
    match text.iter().take(6).take_while(|b| b.is_ascii_uppercase()).count() {
        5 if text.get(4) == Some(&b'T') => Some(5),
        4 if text.get(3) == Some(&b'T') || text.starts_with(b"WITA") => Some(4),
        3 => Some(3),
        _ => None,
    }
}

fn signed_offset_len(text: &[u8]) -> usize {
    if !matches!(text.first(), Some(b'+' | b'-')) {
        return 0;
    }
    let len = fraction_len(text);
    let hours = text.get(1..len).unwrap_or(&[]);
    let zeros = hours.iter().take_while(|digit| **digit == b'0').count();
    let small = match hours.get(zeros..).unwrap_or(&[]) {
        [] => zeros > 0,
        hours => hours.len() < 3 && all_digits(hours).is_ok_and(|hours| hours <= 23),
    };
    if small { len } else { 0 }
}

impl Fields {
    fn read(&mut self, element: Element, value: &mut &[u8], rest_of_layout: &[u8]) -> Parsed<()> {
        match element {
            Element::Year => {
                let year = signed(take(value, 2)?)?;
                self.year = if year >= 69 { year + 1900 } else { year + 2000 };
            }
            Element::LongYear => self.year = all_digits(take(value, 4)?)?,
            Element::Month => self.month = Some(lookup(value, &MONTHS, Some(3))? + 1),
            Element::LongMonth => self.month = Some(lookup(value, &MONTHS, None)? + 1),
            Element::NumMonth | Element::ZeroMonth => {
                self.month = Some(in_range(number(value, element == Element::ZeroMonth)?, 1..13, "month")?);
            }
            Element::Weekday => {
                lookup(value, &WEEKDAYS, Some(3))?;
            }
            Element::LongWeekday => {
                lookup(value, &WEEKDAYS, None)?;
            }
            Element::Day | Element::SpaceDay | Element::ZeroDay => {
                if element == Element::SpaceDay {
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                }
                self.day = Some(number(value, element == Element::ZeroDay)?);
            }
            Element::SpaceYearDay | Element::ZeroYearDay => {
                if element == Element::SpaceYearDay {
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                    *value = value.strip_prefix(b" ").unwrap_or(value);
                }
                let len = value.iter().take(3).take_while(|b| b.is_ascii_digit()).count();
                if element == Element::ZeroYearDay && len != 3 {
                    return Err(Bad::Mismatch);
                }
                self.year_day = Some(all_digits(take(value, len)?)?);
            }
            Element::Hour => self.hour = in_range(number(value, false)?, 0..24, "hour")?,
            Element::Hour12 | Element::ZeroHour12 => {
                self.hour = in_range(number(value, element == Element::ZeroHour12)?, 0..13, "hour")?;
            }
            Element::Minute | Element::ZeroMinute => {
                self.minute = in_range(number(value, element == Element::ZeroMinute)?, 0..60, "minute")?;
            }
            Element::Second | Element::ZeroSecond => {
                self.second = in_range(number(value, element == Element::ZeroSecond)?, 0..60, "second")?;
                // A fraction may follow that the layout doesn't mention.
                let mentioned = matches!(next_chunk(rest_of_layout), Some(((_, Element::Fraction { .. }, _), _)));
                if is_fraction(value) && !mentioned {
                    let len = fraction_len(value);
                    self.nanosecond = nanoseconds(take(value, len)?)?;
                }
            }
            Element::UpperPm | Element::LowerPm => {
                let text = take(value, 2)?;
                let forms: [&[u8]; 2] = if element == Element::UpperPm {
                    [b"PM", b"AM"]
                } else {
                    [b"pm", b"am"]
                };
                let [pm, am] = forms;
                self.pm |= text == pm;
                self.am |= text == am;
                if text != pm && text != am {
                    return Err(Bad::Mismatch);
                }
            }
            Element::Offset { z: true, .. } if value.first() == Some(&b'Z') => {
                take(value, 1)?;
                self.utc = true;
            }
            Element::Offset { colon, parts, .. } => self.offset(value, colon, parts)?,
            Element::ZoneName => {
                if value.starts_with(b"UTC") {
                    take(value, 3)?;
                    self.utc = true;
                } else {
                    let len = zone_name_len(value).ok_or(Bad::Mismatch)?;
                    self.zone_name = Some(String::from_utf8_lossy(take(value, len)?).into_owned());
                }
            }
            Element::Fraction {
                digits, trim: false, ..
            } => self.nanosecond = nanoseconds(take(value, 1 + digits)?)?,
            Element::Fraction { .. } if !is_fraction(value) => {}
            Element::Fraction { .. } => {
                let len = fraction_len(value);
                self.nanosecond = nanoseconds(take(value, len)?)?;
            }
        }
        Ok(())
    }

    fn offset(&mut self, value: &mut &[u8], colon: bool, parts: u8) -> Parsed<()> {
        let step = if colon { 3 } else { 2 };
        let text = take(value, 1 + 2 + step * (usize::from(parts) - 1))?;
        let mut numbers = [0; 3];
        for (index, number) in numbers.iter_mut().enumerate().take(usize::from(parts)) {
            let at = 1 + index * step;
            if colon && index > 0 && text.get(at - 1) != Some(&b':') {
                return Err(Bad::Mismatch);
            }
            *number = all_digits(text.get(at..at + 2).unwrap_or(&[]))?;
        }
        let [hours, minutes, seconds] = numbers;
        // 24 hours, 60 minutes and 60 seconds pass, as in Go.
        for (n, most, name) in [
            (seconds, 60, "time zone offset second"),
            (minutes, 60, "time zone offset minute"),
            (hours, 24, "time zone offset hour"),
        ] {
            in_range(n, 0..most + 1, name)?;
        }
        let size = (hours * 60 + minutes) * 60 + seconds;
        self.offset = Some(match text.first() {
            Some(b'+') => size,
            Some(b'-') => -size,
            _ => return Err(Bad::Mismatch),
        });
        Ok(())
    }

    /// Month and day from the day of the year, if that was given. An error is the end of Go's text.
    fn settle_day(&mut self) -> Result<(), &'static str> {
        if let Some(given) = self.year_day {
            let found =
                Date::new(self.year as i16, 1, 1).and_then(|first| first.with().day_of_year(given as i16).build());
            let Ok(date) = found else {
                return Err(": day-of-year out of range");
            };
            let (month, day) = (i32::from(date.month()), i32::from(date.day()));
            if self.month.is_some_and(|given| given != month) {
                return Err(": day-of-year does not match month");
            }
            if self.day.is_some_and(|given| given != day) {
                return Err(": day-of-year does not match day");
            }
            (self.month, self.day) = (Some(month), Some(day));
        }
        let month = *self.month.get_or_insert(1);
        let day = *self.day.get_or_insert(1);
        match Date::new(self.year as i16, month as i8, day as i8) {
            Ok(_) => Ok(()),
            Err(_) => Err(": day out of range"),
        }
    }

    fn into_time(self, location: &Zone) -> Time {
        let hour = match self.hour {
            hour if self.pm && hour < 12 => hour + 12,
            12 if self.am => 0,
            hour => hour,
        };
        // What fits no calendar was refused before.
        let clock = DateTime::new(
            self.year as i16,
            self.month.unwrap_or(1) as i8,
            self.day.unwrap_or(1) as i8,
            hour as i8,
            self.minute as i8,
            self.second as i8,
            self.nanosecond as i32,
        );
        let clock = since_1970(clock.unwrap_or_default());
        let earlier = |offset: i32| clock - i128::from(offset) * 1_000_000_000;
        if self.utc {
            return Time {
                at: clock,
                zone: Zone::Utc,
                mono: None,
            };
        }
        // To Go, -1 is no offset.
        if let Some(offset) = self.offset.filter(|offset| *offset != -1) {
            let at = earlier(offset);
            let (local, name) = location.offset_at(at);
            let is_local = local == offset && self.zone_name.as_ref().is_none_or(|given| *given == name);
            let zone = if is_local {
                location.clone()
            } else {
                Zone::Fixed(offset, self.zone_name.unwrap_or_default())
            };
            return Time { at, zone, mono: None };
        }
        if let Some(name) = self.zone_name {
            let at = location.instant(clock);
            if location.offset_at(at).1 == name {
                let zone = location.clone();
                return Time { at, zone, mono: None };
            }
            // An unknown abbreviation counts as UTC, unless it says how far from GMT it is; Go still keeps the clock.
            let hours: i32 = name
                .strip_prefix("GMT")
                .and_then(|hours| hours.parse().ok())
                .unwrap_or(0);
            return Time {
                at: clock,
                zone: Zone::Fixed(hours * 3600, name),
                mono: None,
            };
        }
        Time {
            at: location.instant(clock),
            zone: location.clone(),
            mono: None,
        }
    }
}

/// Checks that `value` reads by `layout`. An error is the text of Go's error.
pub fn check(layout: &[u8], value: &[u8]) -> Result<(), String> {
    // Without the local time zone, whose table takes long to find.
    fields(layout, value).map(drop)
}

/// Reads `value` by `layout`; a time without a zone is of that location. An error is the text of Go's error.
pub(crate) fn parse(layout: &[u8], value: &[u8], location: &Zone) -> Result<Time, String> {
    fields(layout, value).map(|fields| fields.into_time(location))
}

/// The dates and times of TOML that have no offset: how they are written, and the name of their location.
const TOML_LOCALS: [(&[u8], &str); 3] = [
    (b"2006-01-02T15:04:05.999999999", "datetime-local"),
    (b"2006-01-02", "date-local"),
    (b"15:04:05.999999999", "time-local"),
];

/// A date or time of TOML.
pub fn toml(text: &[u8]) -> Option<Value> {
    let mut locals = TOML_LOCALS.iter();
    let local = locals.find_map(|(layout, name)| parse(layout, text, &Zone::Fixed(0, (*name).to_owned())).ok());
    let time = local.or_else(|| parse(RFC3339, text, &Zone::Local).ok());
    time.map(Time::into_value)
}

/// How TOML writes a time of that location.
pub(crate) fn toml_layout(zone: &Zone) -> &'static [u8] {
    let mut locals = TOML_LOCALS.iter();
    let local = locals.find(|(_, name)| matches!(zone, Zone::Fixed(_, given) if given == name));
    local.map_or(RFC3339, |(layout, _)| layout)
}

fn fields(layout: &[u8], value: &[u8]) -> Result<Fields, String> {
    let with_message = |message: &str| format!("parsing time {}{message}", quote_ascii(value));
    let mut fields = Fields::default();
    let (mut layout_left, mut left) = (layout, value);
    while let Some(((prefix, element, text), after)) = next_chunk(layout_left) {
        left = skip(left, prefix).map_err(|at| parse_error(value, layout, at, prefix))?;
        let before = left;
        match fields.read(element, &mut left, after) {
            Ok(()) => {}
            Err(Bad::Range(name)) => return Err(with_message(&format!(": {name} out of range"))),
            Err(Bad::Mismatch) => return Err(parse_error(value, layout, before, text)),
        }
        layout_left = after;
    }
    left = skip(left, layout_left).map_err(|at| parse_error(value, layout, at, layout_left))?;
    if !left.is_empty() {
        return Err(with_message(&format!(": extra text: {}", quote_ascii(left))));
    }
    fields.settle_day().map_err(&with_message)?;
    Ok(fields)
}
