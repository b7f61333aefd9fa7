//! The records that pax puts before a header, in an entry of their own. Facts: Go's `archive/tar`.

use std::collections::BTreeMap;

use super::broken::Broken;

// The records that count.
pub(super) const PATH: &str = "path";
pub(super) const SIZE: &str = "size";
pub(super) const SPARSE_COUNT: &str = "GNU.sparse.numblocks";
pub(super) const SPARSE_MAP: &str = "GNU.sparse.map";
pub(super) const SPARSE_NAME: &str = "GNU.sparse.name";
pub(super) const SPARSE_MAJOR: &str = "GNU.sparse.major";
pub(super) const SPARSE_MINOR: &str = "GNU.sparse.minor";
pub(super) const SPARSE_SIZE: &str = "GNU.sparse.size";
pub(super) const SPARSE_REAL_SIZE: &str = "GNU.sparse.realsize";
// Those that have to be right.
const NUMBERS: [&str; 3] = ["uid", "gid", SIZE];
const TIMES: [&str; 3] = ["atime", "mtime", "ctime"];
/// The other records that are kept.
const TEXTS: [&str; 8] = [
    PATH,
    SPARSE_COUNT,
    SPARSE_MAP,
    SPARSE_NAME,
    SPARSE_MAJOR,
    SPARSE_MINOR,
    SPARSE_SIZE,
    SPARSE_REAL_SIZE,
];
/// Those that mustn't hold a zero. A key mustn't, either.
const STRINGS: [&str; 4] = [PATH, "linkpath", "uname", "gname"];
/// A sparse map in pairs of records; from version 0.1 on it is one record.
const SPARSE_PAIR: [&str; 2] = ["GNU.sparse.offset", "GNU.sparse.numbytes"];

/// The records before a header, by their keys.
#[derive(Default)]
pub(super) struct Records(BTreeMap<&'static str, Vec<u8>>);

impl Records {
    /// Reads records. The last of a key counts.
    ///
    /// # Errors
    /// What isn't a record, and half a pair of a sparse map.
    pub fn read(mut body: &[u8]) -> Result<Self, Broken> {
        let mut records = BTreeMap::new();
        let mut map: Vec<&[u8]> = Vec::new();
        while !body.is_empty() {
            let (key, value, rest) = record(body)?;
            body = rest;
            let wanted = SPARSE_PAIR[map.len() % 2];
            if SPARSE_PAIR.iter().any(|part| part.as_bytes() == key) {
                if key != wanted.as_bytes() || value.contains(&b',') {
                    return Err(Broken::TarHeader);
                }
                map.push(value);
            } else if let Some(key) = kept(key) {
                records.insert(key, value.to_vec());
            }
        }
        if !map.is_empty() {
            records.insert(SPARSE_MAP, map.join(&b','));
        }
        Ok(Records(records))
    }

    /// A record's text. An empty one is as good as none.
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.0.get(key).map(Vec::as_slice).filter(|value| !value.is_empty())
    }

    /// A record's number.
    pub fn number(&self, key: &str) -> Result<Option<i64>, Broken> {
        self.get(key).map(number).transpose()
    }

    /// Refuses numbers and times that are none, as soon as a header follows them.
    pub fn check(&self) -> Result<(), Broken> {
        for key in NUMBERS {
            self.number(key)?;
        }
        TIMES.iter().filter_map(|key| self.get(key)).try_for_each(check_time)
    }
}

/// A key that is kept.
fn kept(key: &[u8]) -> Option<&'static str> {
    let mut known = NUMBERS.into_iter().chain(TIMES).chain(TEXTS);
    known.find(|known| known.as_bytes() == key)
}

/// A decimal number.
pub(super) fn number(text: &[u8]) -> Result<i64, Broken> {
    let text = std::str::from_utf8(text).map_err(|_| Broken::TarHeader)?;
    text.parse().map_err(|_| Broken::TarHeader)
}

/// Seconds, with a fraction or without.
fn check_time(text: &[u8]) -> Result<(), Broken> {
    let (seconds, fraction) = cut(text, b'.').unwrap_or((text, b""));
    number(seconds)?;
    match fraction.iter().all(u8::is_ascii_digit) {
        true => Ok(()),
        false => Err(Broken::TarHeader),
    }
}

/// A record's key and value, and what follows it.
type Record<'b> = (&'b [u8], &'b [u8], &'b [u8]);

/// The first record: `<length> <key>=<value>\n`, where the length is that of all.
fn record(body: &[u8]) -> Result<Record<'_>, Broken> {
    let parts = || {
        let (digits, _) = cut(body, b' ')?;
        let length = number(digits).ok().and_then(|length| usize::try_from(length).ok())?;
        let (record, rest) = body.split_at_checked(length)?;
        let (key, value) = cut(record.get(digits.len() + 1..)?.strip_suffix(b"\n")?, b'=')?;
        let checked = match STRINGS.iter().any(|string| string.as_bytes() == key) {
            true => value,
            false => key,
        };
        (!key.is_empty() && !checked.contains(&0)).then_some((key, value, rest))
    };
    parts().ok_or(Broken::TarHeader)
}

/// The bytes before the first separator, and those after it.
fn cut(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|b| *b == separator)?;
    Some((&text[..at], &text[at + 1..]))
}
