//! Go's time layouts: the reference time `Mon Jan 2 15:04:05 MST 2006` as a pattern, and writing a time by one.

use super::time::{Civil, MONTHS, WEEKDAYS};

/// An element of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    SpaceDay,
    ZeroDay,
    SpaceYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    ZoneName,
    /// An offset: `Z` for UTC allowed, colons, and how many of hours, minutes, seconds it has.
    Offset {
        z: bool,
        colon: bool,
        parts: u8,
    },
    /// So many digits after a separator; `trim` drops trailing zeros.
    Fraction {
        digits: usize,
        separator: u8,
        trim: bool,
    },
}

/// The literal text before an element, the element, and its own text.
pub(crate) type Chunk<'a> = (&'a [u8], Element, &'a [u8]);

/// Splits off the first element of a layout, and what follows it. `None` if there is none.
pub(crate) fn next_chunk(layout: &[u8]) -> Option<(Chunk<'_>, &[u8])> {
    for at in 0..layout.len() {
        let rest = layout.get(at..)?;
        if let Some((skip, element, len)) = element_at(rest) {
            let start = at + skip;
            let chunk = (layout.get(..start)?, element, layout.get(start..start + len)?);
            return Some((chunk, layout.get(start + len..)?));
        }
    }
    None
}

/// The element that a text starts with: bytes to skip first, the element, its length.
fn element_at(text: &[u8]) -> Option<(usize, Element, usize)> {
    use Element::*;
    let not_lower = |at: usize| !text.get(at).is_some_and(u8::is_ascii_lowercase);
    let offset = |z, colon, parts| Offset { z, colon, parts };
    let fixed: &[(&[u8], Element)] = match text.first()? {
        b'J' if text.starts_with(b"January") => &[(b"January", LongMonth)],
        b'J' if not_lower(3) => &[(b"Jan", Month)],
        b'M' if text.starts_with(b"Monday") => &[(b"Monday", LongWeekday)],
        b'M' if text.starts_with(b"Mon") && !not_lower(3) => &[],
        b'M' => &[(b"Mon", Weekday), (b"MST", ZoneName)],
        b'0' => &[
            (b"002", ZeroYearDay),
            (b"01", ZeroMonth),
            (b"02", ZeroDay),
            (b"03", ZeroHour12),
            (b"04", ZeroMinute),
            (b"05", ZeroSecond),
            (b"06", Year),
        ],
        b'1' => &[(b"15", Hour), (b"1", NumMonth)],
        b'2' => &[(b"2006", LongYear), (b"2", Day)],
        b'_' if text.starts_with(b"_2006") => return Some((1, LongYear, 4)),
        b'_' => &[(b"_2", SpaceDay), (b"__2", SpaceYearDay)],
        b'3' => &[(b"3", Hour12)],
        b'4' => &[(b"4", Minute)],
        b'5' => &[(b"5", Second)],
        b'P' => &[(b"PM", UpperPm)],
        b'p' => &[(b"pm", LowerPm)],
        sign @ (b'-' | b'Z') => {
            let z = *sign == b'Z';
            let forms: [(&[u8], bool, u8); 5] = [
                (b"070000", false, 3),
                (b"07:00:00", true, 3),
                (b"0700", false, 2),
                (b"07:00", true, 2),
                (b"07", false, 1),
            ];
            let rest = text.get(1..)?;
            let (form, colon, parts) = forms.into_iter().find(|(form, _, _)| rest.starts_with(form))?;
            return Some((0, offset(z, colon, parts), 1 + form.len()));
        }
        separator @ (b'.' | b',') => {
            let digit = text.get(1).filter(|b| matches!(b, b'0' | b'9'))?;
            let digits = text.iter().skip(1).take_while(|b| *b == digit).count();
            if text.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            let fraction = Fraction {
                digits,
                separator: *separator,
                trim: *digit == b'9',
            };
            return Some((0, fraction, 1 + digits));
        }
        _ => &[],
    };
    fixed
        .iter()
        .find(|(form, _)| text.starts_with(form))
        .map(|(form, element)| (0, *element, form.len()))
}

/// An offset in seconds as an element writes it.
fn offset_text(seconds: i32, colon: bool, parts: u8) -> String {
    // Go takes the sign from the minutes, and writes another before seconds that stand alone.
    let sign = if seconds <= -60 { '-' } else { '+' };
    let inner_sign = if (-59..0).contains(&seconds) { "-" } else { "" };
    let size = seconds.unsigned_abs();
    let separator = if colon { ":" } else { "" };
    let mut text = format!("{sign}{:02}", size / 3600);
    if parts > 1 {
        text.push_str(&format!("{separator}{:02}", size / 60 % 60));
    }
    if parts > 2 {
        text.push_str(&format!("{separator}{inner_sign}{:02}", size % 60));
    }
    text
}

/// `Time.Format`.
pub(crate) fn format(civil: &Civil, layout: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(layout.len() + 10);
    let mut rest = layout;
    while let Some(((prefix, element, _), after)) = next_chunk(rest) {
        out.extend_from_slice(prefix);
        out.extend_from_slice(element_text(civil, element).as_bytes());
        rest = after;
    }
    out.extend_from_slice(rest);
    out
}

fn element_text(civil: &Civil, element: Element) -> String {
    let name = |names: &[&'static str], index: usize| names.get(index).copied().unwrap_or("?");
    let clock = &civil.clock;
    let month = name(&MONTHS, usize::from(clock.month().unsigned_abs()) - 1);
    let weekday = name(&WEEKDAYS, clock.weekday().to_sunday_zero_offset().unsigned_abs().into());
    let hour12 = match clock.hour() % 12 {
        0 => 12,
        hour => hour,
    };
    let year_sign = if clock.year() < 0 { "-" } else { "" };
    match element {
        Element::LongMonth => month.to_owned(),
        Element::Month => month.get(..3).unwrap_or(month).to_owned(),
        Element::NumMonth => clock.month().to_string(),
        Element::ZeroMonth => format!("{:02}", clock.month()),
        Element::LongWeekday => weekday.to_owned(),
        Element::Weekday => weekday.get(..3).unwrap_or(weekday).to_owned(),
        Element::Day => clock.day().to_string(),
        Element::SpaceDay => format!("{:2}", clock.day()),
        Element::ZeroDay => format!("{:02}", clock.day()),
        Element::SpaceYearDay => format!("{:3}", clock.day_of_year()),
        Element::ZeroYearDay => format!("{:03}", clock.day_of_year()),
        Element::Hour => format!("{:02}", clock.hour()),
        Element::Hour12 => hour12.to_string(),
        Element::ZeroHour12 => format!("{hour12:02}"),
        Element::Minute => clock.minute().to_string(),
        Element::ZeroMinute => format!("{:02}", clock.minute()),
        Element::Second => clock.second().to_string(),
        Element::ZeroSecond => format!("{:02}", clock.second()),
        Element::LongYear => format!("{year_sign}{:04}", clock.year().unsigned_abs()),
        Element::Year => format!("{:02}", clock.year().unsigned_abs() % 100),
        Element::UpperPm => if clock.hour() >= 12 { "PM" } else { "AM" }.to_owned(),
        Element::LowerPm => if clock.hour() >= 12 { "pm" } else { "am" }.to_owned(),
        Element::ZoneName if !civil.zone.is_empty() => civil.zone.clone(),
        // A zone without a name shows its offset.
        Element::ZoneName => offset_text(civil.offset, false, 2),
        Element::Offset { z: true, .. } if civil.offset == 0 => "Z".to_owned(),
        Element::Offset { colon, parts, .. } => offset_text(civil.offset, colon, parts),
        Element::Fraction {
            digits,
            separator,
            trim,
        } => {
            let text: String = format!("{:09}", clock.subsec_nanosecond())
                .chars()
                .take(digits)
                .collect();
            let text = if trim { text.trim_end_matches('0') } else { &text };
            if text.is_empty() {
                String::new()
            } else {
                format!("{}{text}", char::from(separator))
            }
        }
    }
}
