//! Go's `time.Time`: an instant with a location, over jiff.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};

use super::time_layout;
use super::time_object;
use go_template::value::Value;

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(crate) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// Go's layout for `Time.String`.
const STRING_LAYOUT: &[u8] = b"2006-01-02 15:04:05.999999999 -0700 MST";
pub(crate) const RFC3339: &[u8] = b"2006-01-02T15:04:05.999999999Z07:00";
/// Go's zero time, the first of January of the year 1, in seconds since 1970.
pub(crate) const ZERO_SECONDS: i64 = -62_135_596_800;

/// Where a time is looked at from.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    Utc,
    /// The machine's zone, which Go calls `Local`.
    Local,
    Named(TimeZone),
    /// An offset in seconds that a text gave, with a name or without.
    Fixed(i32, String),
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Time {
    /// Nanoseconds since 1970 in UTC. What lies beyond the years from -9999 to 9999 is shown as their ends.
    pub(crate) at: i128,
    pub(crate) zone: Zone,
    /// The reading of the monotonic clock in nanoseconds, which Go prints; only the clock's own times have one.
    pub(crate) mono: Option<i64>,
}

/// A time in its zone.
pub(crate) struct Civil {
    pub(crate) clock: DateTime,
    /// Seconds east of UTC.
    pub(crate) offset: i32,
    /// The zone's abbreviation; may be empty.
    pub(crate) zone: String,
}

impl Zone {
    /// `time.LoadLocation`; an unknown name is `None`.
    pub(crate) fn load(name: &str) -> Option<Self> {
        match name {
            "" | "UTC" => Some(Zone::Utc),
            "Local" => Some(Zone::Local),
            name if name.contains("..") || name.starts_with(['/', '\\']) || name.ends_with('/') => None,
            name => {
                // Go opens the file of that path, where `posix` has them all again.
                let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
                let name = parts.strip_prefix(&["posix"]).unwrap_or(&parts).join("/");
                // Letter case counts; jiff ignores it.
                let zone = TimeZone::get(&name).ok();
                zone.filter(|zone| zone.iana_name() == Some(&name)).map(Zone::Named)
            }
        }
    }

    /// The offset in seconds and the abbreviation at an instant.
    pub(crate) fn offset_at(&self, at: i128) -> (i32, String) {
        let of = |zone: &TimeZone| {
            let info = zone.to_offset_info(instant(at));
            (info.offset().seconds(), info.abbreviation().to_owned())
        };
        match self {
            Zone::Utc => (0, "UTC".to_owned()),
            Zone::Local => of(&TimeZone::system()),
            Zone::Named(zone) => of(zone),
            Zone::Fixed(offset, name) => (*offset, name.clone()),
        }
    }
}

/// The nearest instant of jiff's years.
fn instant(at: i128) -> Timestamp {
    let end = if at < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_nanosecond(at).unwrap_or(end)
}

/// The reading of a clock in nanoseconds since 1970, as if it were in UTC.
pub(crate) fn nanoseconds(clock: DateTime) -> i128 {
    clock.duration_since(EPOCH).as_nanos()
}

impl Time {
    pub(crate) fn zero() -> Self {
        Time {
            at: i128::from(ZERO_SECONDS) * SECOND,
            zone: Zone::Utc,
            mono: None,
        }
    }

    /// `time.Unix(seconds, 0)`.
    pub(crate) fn unix(seconds: i64) -> Self {
        Time {
            at: i128::from(seconds) * SECOND,
            zone: Zone::Local,
            mono: None,
        }
    }

    pub(crate) fn into_value(self) -> Value {
        time_object::value(self)
    }

    pub(crate) fn of(value: &Value) -> Option<&Self> {
        time_object::time(value)
    }

    pub(crate) fn add(&self, nanoseconds: i64) -> Self {
        Time {
            at: self.at + i128::from(nanoseconds),
            zone: self.zone.clone(),
            mono: self.mono.map(|mono| mono.saturating_add(nanoseconds)),
        }
    }

    /// Nanoseconds from `other` to this, as far as an int64 reaches.
    pub(crate) fn since(&self, other: &Time) -> i64 {
        let between = self.at - other.at;
        i64::try_from(between).unwrap_or(if between < 0 { i64::MIN } else { i64::MAX })
    }

    pub(crate) fn within(&self, zone: Zone) -> Self {
        Time {
            at: self.at,
            zone,
            mono: None,
        }
    }

    /// Whole seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> i64 {
        self.at.div_euclid(SECOND) as i64
    }

    pub(crate) fn civil(&self) -> Civil {
        let (offset, zone) = self.zone.offset_at(self.at);
        Civil {
            clock: self.clock(offset),
            offset,
            zone,
        }
    }

    /// What a clock shows at that offset.
    fn clock(&self, offset: i32) -> DateTime {
        let shown = self.at + i128::from(offset) * SECOND;
        EPOCH.saturating_add(SignedDuration::new(
            shown.div_euclid(SECOND) as i64,
            shown.rem_euclid(SECOND) as i32,
        ))
    }

    pub(crate) fn format(&self, layout: &[u8]) -> Vec<u8> {
        time_layout::format(&self.civil(), layout)
    }

    /// `Time.String`
    pub(crate) fn shown(&self) -> String {
        let mut text = self.text(STRING_LAYOUT);
        if let Some(mono) = self.mono {
            let (sign, size) = (if mono < 0 { '-' } else { '+' }, mono.unsigned_abs());
            text.push_str(&format!(
                " m={sign}{}.{:09}",
                size / SECOND as u64,
                size % SECOND as u64
            ));
        }
        text
    }

    pub(crate) fn text(&self, layout: &[u8]) -> String {
        String::from_utf8_lossy(&self.format(layout)).into_owned()
    }

    /// `Time.AddDate`: days beyond a month's end run into the next. None beyond jiff's years.
    pub(crate) fn add_date(&self, years: i64, months: i64, days: i64) -> Option<Self> {
        let clock = self.civil().clock;
        let months = i64::from(clock.month()) - 1 + months;
        let year = i64::from(clock.year())
            .checked_add(years)?
            .checked_add(months.div_euclid(12))?;
        let first = Date::new(i16::try_from(year).ok()?, months.rem_euclid(12) as i8 + 1, 1).ok()?;
        let days = Span::new()
            .try_days(days.checked_add(i64::from(clock.day()) - 1)?)
            .ok()?;
        let clock = first.checked_add(days).ok()?.to_datetime(clock.time());
        Some(Time {
            at: self.zone.instant(nanoseconds(clock)),
            zone: self.zone.clone(),
            mono: None,
        })
    }
}

impl Zone {
    /// The instant of a wall clock's reading, in nanoseconds as if it were in UTC. Where clocks were set back, or
    /// skipped an hour, Go decides by the offset that holds right before.
    pub(crate) fn instant(&self, clock: i128) -> i128 {
        let seconds = |offset: i32| i128::from(offset) * SECOND;
        let guess = clock - seconds(self.offset_at(clock).0);
        clock - seconds(self.offset_at(guess).0)
    }
}
