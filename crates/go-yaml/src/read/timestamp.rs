//! Which scalars go-yaml v2 takes for timestamps: four layouts of Go's `time.Parse`.

/// Whether a text is a date such as `2001-1-31`, alone, with a time behind spaces, or with a time and a zone behind `T`.
pub(crate) fn is_timestamp(text: &str) -> bool {
    rest_of_timestamp(text).is_some_and(str::is_empty)
}

fn rest_of_timestamp(text: &str) -> Option<&str> {
    let (year, rest) = text.split_at_checked(4)?;
    if !year.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let rest = number(rest.strip_prefix('-')?, 1, 12)?;
    let rest = number(rest.strip_prefix('-')?, 1, 31)?;
    if rest.is_empty() {
        return Some(rest);
    }
    match rest.strip_prefix(['T', 't']) {
        Some(rest) => zone(clock(rest)?),
        None => clock(rest.strip_prefix(' ')?.trim_start_matches(' ')),
    }
}

/// The text after a number of one or two digits within the range.
fn number(text: &str, least: u32, most: u32) -> Option<&str> {
    let digits = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (number, rest) = text.split_at(digits);
    (least..=most).contains(&number.parse().ok()?).then_some(rest)
}

/// The text after hours, minutes and seconds.
fn clock(text: &str) -> Option<&str> {
    let rest = number(text, 0, 23)?.strip_prefix(':')?;
    let rest = number(rest, 0, 59)?.strip_prefix(':')?;
    let rest = number(rest, 0, 59)?;
    let fraction = rest.strip_prefix(['.', ',']).unwrap_or_default();
    if fraction.starts_with(|c: char| c.is_ascii_digit()) {
        Some(fraction.trim_start_matches(|c: char| c.is_ascii_digit()))
    } else {
        Some(rest)
    }
}

/// The text after `Z` or `+hh:mm`.
fn zone(text: &str) -> Option<&str> {
    match text.strip_prefix('Z') {
        Some(rest) => Some(rest),
        None => number(number(text.strip_prefix(['+', '-'])?, 0, 24)?.strip_prefix(':')?, 0, 60),
    }
}
