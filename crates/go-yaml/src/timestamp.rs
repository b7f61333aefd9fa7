//! Which scalars go-yaml v2 takes for timestamps: four layouts of Go's `time.Parse`.

/// What is left of the text, while a layout is matched against it.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// A number of one or two digits (two if `fixed`), within `range`.
    fn number(&mut self, fixed: bool, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        let digit = |b: u8| b.is_ascii_digit().then(|| u32::from(b - b'0'));
        let first = digit(*self.0.first()?)?;
        let (value, width) = match self.0.get(1).copied().and_then(digit) {
            Some(second) => (first * 10 + second, 2),
            None if fixed => return None,
            None => (first, 1),
        };
        self.0 = &self.0[width..];
        range.contains(&value).then_some(value)
    }

    fn literal(&mut self, expected: u8) -> Option<()> {
        let (&found, rest) = self.0.split_first()?;
        self.0 = rest;
        (found == expected).then_some(())
    }

    /// Digits after the seconds, of any number.
    fn fraction(&mut self) {
        if let [b'.' | b',', digit, ..] = self.0
            && digit.is_ascii_digit()
        {
            let digits = self.0[1..].iter().take_while(|b| b.is_ascii_digit()).count();
            self.0 = &self.0[1 + digits..];
        }
    }

    fn clock(&mut self) -> Option<()> {
        self.number(false, 0..=23)?;
        self.literal(b':')?;
        self.number(false, 0..=59)?;
        self.literal(b':')?;
        self.number(false, 0..=59)?;
        self.fraction();
        Some(())
    }

    fn zone(&mut self) -> Option<()> {
        if let [b'Z', rest @ ..] = self.0 {
            self.0 = rest;
            return Some(());
        }
        let [b'+' | b'-', rest @ ..] = self.0 else { return None };
        self.0 = rest;
        self.number(true, 0..=24)?;
        self.literal(b':')?;
        self.number(true, 0..=60)?;
        Some(())
    }
}

fn days_in(month: u32, year: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

pub(super) fn is_timestamp(text: &str) -> bool {
    parse(text.as_bytes()).is_some()
}

fn parse(text: &[u8]) -> Option<()> {
    let (year, rest) = text.split_at_checked(4)?;
    if !year.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let year = year.iter().fold(0, |year, b| year * 10 + u32::from(b - b'0'));
    let mut rest = Rest(rest);
    rest.literal(b'-')?;
    let month = rest.number(false, 1..=12)?;
    rest.literal(b'-')?;
    rest.number(false, 1..=days_in(month, year))?;
    match rest.0 {
        [] => return Some(()),
        [b'T' | b't', after @ ..] => {
            rest.0 = after;
            rest.clock()?;
            rest.zone()?;
        }
        [b' ', ..] => {
            // A space in a layout stands for any number of them.
            rest.0 = rest.0.trim_ascii_start();
            rest.clock()?;
        }
        _ => return None,
    }
    rest.0.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::is_timestamp;

    #[test]
    fn follows_the_four_layouts() {
        for text in [
            "2001-01-01",
            "2001-1-1",
            "2004-02-29",
            "2001-01-01T10:00:00Z",
            "2001-1-1t1:2:3.5+01:00",
            "2001-01-01 10:00:00",
            "2001-01-01   1:2:3,123456789012",
        ] {
            assert!(is_timestamp(text), "{text}");
        }
        for text in [
            "2001-02-29",
            "2001-13-01",
            "2001-01-00",
            "2001-01-01T10:00:00",
            "2001-01-01 10:00",
            "2001-01-01 10:00:00 Z",
            "2001-01-01 24:00:00",
            "01-01-2001",
            "2001-01-01x",
            "20010-1-1",
        ] {
            assert!(!is_timestamp(text), "{text}");
        }
    }
}
