//! Go's `time.Time`: an instant with a location, over jiff.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::date_layout;
use super::time_object;
use crate::template::go::value::Value;

pub(super) const MONTHS: [&str; 12] = [
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
pub(super) const WEEKDAYS: [&str; 7] = [
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
pub(super) const RFC3339: &[u8] = b"2006-01-02T15:04:05.999999999Z07:00";
/// Go's zero time, the first of January of the year 1, in seconds since 1970.
pub(super) const ZERO_SECONDS: i64 = -62_135_596_800;
/// The day from which Go's `time` counts, the first of March of the year -292277022400, in seconds since 1970.
const FIRST_SECONDS: i128 = -9_223_372_028_741_760_000;

/// Where a time is looked at from.
#[derive(Clone, Debug)]
pub(super) enum Zone {
    Utc,
    /// The machine's zone, which Go calls `Local`.
    Local,
    Named(TimeZone),
    /// An offset in seconds that a text gave, with a name or without.
    Fixed(i32, String),
}

/// Nanoseconds of a second.
const SECOND: i128 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Time {
    /// Nanoseconds since 1970 in UTC; Go's years reach further than jiff's.
    pub(super) at: i128,
    pub(super) zone: Zone,
    /// The reading of the monotonic clock in nanoseconds, which Go prints; only the clock's own times have one.
    pub(super) mono: Option<i64>,
}

/// The parts of a time in its zone.
pub(super) struct Civil {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: u8,
    pub(super) day: u8,
    pub(super) hour: u8,
    pub(super) minute: u8,
    pub(super) second: u8,
    pub(super) nanosecond: u32,
    /// 0 is Sunday.
    pub(super) weekday: u8,
    /// 1 to 366.
    pub(super) year_day: u16,
    /// Seconds east of UTC.
    pub(super) offset: i32,
    /// The zone's abbreviation; may be empty.
    pub(super) zone: String,
}

impl Zone {
    /// `time.LoadLocation`; an unknown name is `None`.
    pub(super) fn load(name: &str) -> Option<Self> {
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

    /// Whether clocks are set forward at an instant.
    pub(super) fn is_dst(&self, at: i128) -> bool {
        let of = |zone: &TimeZone| zone.to_offset_info(within_reach(at)).dst().is_dst();
        match self {
            Zone::Utc | Zone::Fixed(..) => false,
            Zone::Local => of(&TimeZone::system()),
            Zone::Named(zone) => of(zone),
        }
    }

    /// The offset in seconds and the abbreviation at an instant.
    pub(super) fn offset_at(&self, at: i128) -> (i32, String) {
        let of = |zone: &TimeZone| {
            let info = zone.to_offset_info(within_reach(at));
            (info.offset().seconds(), info.abbreviation().to_owned())
        };
        match self {
            Zone::Utc => (0, "UTC".to_owned()),
            Zone::Local => of(&TimeZone::system()),
            Zone::Named(zone) => of(zone),
            Zone::Fixed(offset, name) => (*offset, name.clone()),
        }
    }

    /// `Location.lookupName`: the offset of a zone with that abbreviation, if possible one that holds while clocks show
    /// `clock`.
    pub(super) fn offset_named(&self, name: &str, clock: i128) -> Option<i32> {
        let known = match self {
            Zone::Utc => Vec::new(),
            Zone::Local => offsets_named(&TimeZone::system(), name),
            Zone::Named(zone) => offsets_named(zone, name),
            Zone::Fixed(offset, known) => (known == name).then_some(*offset).into_iter().collect(),
        };
        let mut then = known
            .iter()
            .map(|offset| self.offset_at(clock - i128::from(*offset) * SECOND));
        let holds = then.find(|(_, found)| found == name);
        holds.map(|(offset, _)| offset).or(known.first().copied())
    }

    /// `Location.String`
    pub(super) fn name(&self) -> String {
        match self {
            Zone::Utc => "UTC".to_owned(),
            Zone::Local => local_name(std::env::var("TZ").ok()),
            Zone::Named(zone) => zone.iana_name().unwrap_or_default().to_owned(),
            Zone::Fixed(_, name) => name.clone(),
        }
    }
}

/// The offsets that a zone has had under an abbreviation, in order.
fn offsets_named(zone: &TimeZone, name: &str) -> Vec<i32> {
    // From here on all repeats.
    const LAST: i64 = 2_145_916_800;
    let first = zone.to_offset_info(Timestamp::MIN);
    let first = (first.abbreviation() == name).then(|| first.offset().seconds());
    let later = zone
        .following(Timestamp::MIN)
        .take_while(|change| change.timestamp().as_second() < LAST)
        .filter(|change| change.abbreviation() == name)
        .map(|change| change.offset().seconds());
    let mut offsets: Vec<i32> = Vec::new();
    for offset in first.into_iter().chain(later) {
        if !offsets.contains(&offset) {
            offsets.push(offset);
        }
    }
    offsets
}

/// The name of the machine's zone, by the variable `TZ`.
fn local_name(variable: Option<String>) -> String {
    let is_known = || TimeZone::try_system().is_ok();
    let name = match variable.as_deref().map(|name| name.strip_prefix(':').unwrap_or(name)) {
        None | Some("/etc/localtime") if is_known() => "Local",
        Some(path) if path.starts_with('/') && is_known() => path,
        Some(name) if !name.is_empty() && Zone::load(name).is_some() => name,
        _ => "UTC",
    };
    name.to_owned()
}

/// An instant of jiff's years at which a zone has the same rules.
fn within_reach(at: i128) -> Timestamp {
    let (first, last) = (Timestamp::MIN, Timestamp::MAX);
    // So long it takes until the calendar repeats, weekdays included.
    const CYCLE: i128 = 146_097 * 86_400 * SECOND;
    let beyond = at - last.as_nanosecond();
    let cycles = if beyond > 0 { 1 + (beyond - 1) / CYCLE } else { 0 };
    Timestamp::from_nanosecond(at - cycles * CYCLE).unwrap_or(first)
}

/// Days from 1970-01-01 to a date of the Gregorian calendar; months and days may overflow.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year + (month - 1).div_euclid(12);
    let month = (month - 1).rem_euclid(12) + 1;
    // Years that begin in March put the leap day last.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of so many days since 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + carry, month, day)
}

impl Time {
    pub(super) fn zero() -> Self {
        Time {
            at: i128::from(ZERO_SECONDS) * SECOND,
            zone: Zone::Utc,
            mono: None,
        }
    }

    /// `time.Unix(seconds, 0)`.
    pub(super) fn unix(seconds: i64) -> Self {
        Time {
            at: i128::from(seconds) * SECOND,
            zone: Zone::Local,
            mono: None,
        }
    }

    pub(super) fn into_value(self) -> Value {
        time_object::value(self)
    }

    pub(super) fn of(value: &Value) -> Option<Self> {
        time_object::time(value).cloned()
    }

    pub(super) fn add(&self, nanoseconds: i64) -> Self {
        Time {
            at: self.at + i128::from(nanoseconds),
            zone: self.zone.clone(),
            mono: self.mono.map(|mono| mono.saturating_add(nanoseconds)),
        }
    }

    /// `Time.Truncate` and `Time.Round`: to a multiple of the duration since the zero time.
    pub(super) fn to_multiple(&self, nanoseconds: i64, round: bool) -> Self {
        let mut time = self.within(self.zone.clone());
        if nanoseconds > 0 {
            let unit = i128::from(nanoseconds);
            let above = (self.at - Time::zero().at).rem_euclid(unit);
            time.at -= above;
            if round && above * 2 >= unit {
                time.at += unit;
            }
        }
        time
    }

    /// Nanoseconds from `other` to this, as far as an int64 reaches.
    pub(super) fn since(&self, other: &Time) -> i64 {
        let between = self.at - other.at;
        i64::try_from(between).unwrap_or(if between < 0 { i64::MIN } else { i64::MAX })
    }

    pub(super) fn within(&self, zone: Zone) -> Self {
        Time {
            at: self.at,
            zone,
            mono: None,
        }
    }

    /// Whole seconds since 1970.
    pub(super) fn unix_seconds(&self) -> i64 {
        self.at.div_euclid(SECOND) as i64
    }

    pub(super) fn civil(&self) -> Civil {
        let (offset, zone) = self.zone.offset_at(self.at);
        let mut seconds = i128::from(self.unix_seconds()) + i128::from(offset);
        // Go counts unsigned seconds from this day on: what lies before it comes out behind the last day.
        if seconds < FIRST_SECONDS {
            seconds += 1 << 64;
        }
        let (days, of_day) = (seconds.div_euclid(86_400) as i64, seconds.rem_euclid(86_400));
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month: month as u8,
            day: day as u8,
            hour: (of_day / 3_600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
            nanosecond: self.at.rem_euclid(SECOND) as u32,
            weekday: (days + 4).rem_euclid(7) as u8,
            year_day: (days - days_from_civil(year, 1, 1) + 1) as u16,
            offset,
            zone,
        }
    }

    pub(super) fn format(&self, layout: &[u8]) -> Vec<u8> {
        date_layout::format(&self.civil(), layout)
    }

    /// `Time.String`
    pub(super) fn shown(&self) -> String {
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

    pub(super) fn text(&self, layout: &[u8]) -> String {
        String::from_utf8_lossy(&self.format(layout)).into_owned()
    }

    /// `Time.AddDate`: days beyond a month's end run into the next.
    pub(super) fn add_date(&self, years: i64, months: i64, days: i64) -> Option<Self> {
        // Go's own years end behind these.
        let reaches = [100_000_000_000, 1_200_000_000_000, 36_500_000_000_000];
        let mut parts = [years, months, days].into_iter().zip(reaches);
        if parts.any(|(n, reach)| !(-reach..reach).contains(&n)) {
            return None;
        }
        let civil = self.civil();
        let date = days_from_civil(
            civil.year + years,
            i64::from(civil.month) + months,
            i64::from(civil.day) + days,
        );
        let of_day = i64::from(civil.hour) * 3_600 + i64::from(civil.minute) * 60 + i64::from(civil.second);
        let clock = (i128::from(date) * 86_400 + i128::from(of_day)) * SECOND + i128::from(civil.nanosecond);
        Some(Time {
            at: self.zone.instant(clock),
            zone: self.zone.clone(),
            mono: None,
        })
    }
}

impl Zone {
    /// The instant of a wall clock's reading, in nanoseconds as if it were in UTC. Where clocks were set back, or
    /// skipped an hour, Go decides by the offset that holds right before.
    pub(super) fn instant(&self, clock: i128) -> i128 {
        let seconds = |offset: i32| i128::from(offset) * SECOND;
        let guess = clock - seconds(self.offset_at(clock).0);
        clock - seconds(self.offset_at(guess).0)
    }
}
