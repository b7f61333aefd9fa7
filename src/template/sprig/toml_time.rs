//! The times of TOML: those without an offset have a location whose name says what they lack. Facts: BurntSushi/toml
//! v1.6.0, `internal/tz.go` and `parse.go`.

use jiff::Timestamp;

use super::date_parse;
use super::time::{RFC3339, Zone};
use crate::template::go::value::Value;

/// What a time without an offset has: how it is written, and the name of its location.
type Local = (&'static [u8], &'static str);

const DATE_TIME: Local = (b"2006-01-02T15:04:05.999999999", "datetime-local");
const DATE: Local = (b"2006-01-02", "date-local");
const TIME: Local = (b"15:04:05.999999999", "time-local");

/// How a time may be written, in the order in which the library tries it; with an offset there is no location.
const LAYOUTS: [(&[u8], Option<Local>); 7] = [
    (RFC3339, None),
    (DATE_TIME.0, Some(DATE_TIME)),
    (DATE.0, Some(DATE)),
    (TIME.0, Some(TIME)),
    (b"2006-01-02T15:04Z07:00", None),
    (b"2006-01-02T15:04", Some(DATE_TIME)),
    (b"15:04", Some(TIME)),
];

/// A time; `None` if it is none.
pub fn read(text: &[u8]) -> Option<Value> {
    let mut layouts = LAYOUTS.iter();
    let (layout, local) = layouts.find(|(layout, _)| date_parse::check(layout, text).is_ok())?;
    if misses_zero(text, layout) {
        return None;
    }
    let zone = match local {
        None => Zone::Local,
        // The offset of the day on which the program runs.
        Some((_, name)) => {
            let now = Timestamp::now().as_nanosecond();
            Zone::Fixed(Zone::Local.offset_at(now).0, (*name).to_owned())
        }
    };
    Some(date_parse::parse(layout, text, &zone).ok()?.into_value())
}

/// How a time of such a location is written.
pub(super) fn layout(zone: &Zone) -> &'static [u8] {
    let locals = [DATE_TIME, DATE, TIME];
    let local = locals
        .iter()
        .find(|(_, name)| matches!(zone, Zone::Fixed(_, given) if given == name));
    local.map_or(RFC3339, |(layout, _)| layout)
}

/// Whether a separator isn't where the layout has it.
fn misses_zero(text: &[u8], layout: &[u8]) -> bool {
    let parts = layout.iter().take_while(|byte| !matches!(byte, b'.' | b'Z'));
    parts
        .zip(text)
        .any(|(wanted, found)| !wanted.is_ascii_digit() && wanted != found)
}
