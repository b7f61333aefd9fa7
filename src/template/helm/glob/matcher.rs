//! The matchers, and what each makes of a text: whether it matches all of it, and where in it it would match first.

use memchr::memmem;

use super::Steps;

#[derive(Clone)]
pub(super) enum Matcher {
    Nothing,
    Text(String),
    /// Anything without a `/`.
    Any,
    /// Anything.
    Super,
    /// A character other than `/`.
    Single,
    List {
        chars: Vec<char>,
        negated: bool,
    },
    Range {
        low: char,
        high: char,
        negated: bool,
    },
    Prefix(String),
    Suffix(String),
    PrefixSuffix(String, String),
    /// A text, and then no `/`.
    PrefixAny(String),
    SuffixAny(String),
    Contains {
        text: String,
        negated: bool,
    },
    /// At least so many characters.
    Min(usize),
    Max(usize),
    EveryOf(Vec<Matcher>),
    AnyOf(Vec<Matcher>),
    /// Matchers of known lengths, one behind the other.
    Row {
        matchers: Vec<Matcher>,
        length: usize,
    },
    BTree(Box<BTree>),
}

/// A matcher, and what the text before and behind it must be; nothing where there is none.
#[derive(Clone)]
pub(super) struct BTree {
    pub value: Matcher,
    pub left: Option<Matcher>,
    pub right: Option<Matcher>,
    left_length: Option<usize>,
    right_length: Option<usize>,
    length: Option<usize>,
}

/// Where a matcher matches first, in bytes, and how many bytes it may take there.
type Found = Option<(usize, Vec<usize>)>;

impl Matcher {
    /// How many characters it takes, if that is one number, or if the library thinks so.
    pub(super) fn length(&self) -> Option<usize> {
        match self {
            Matcher::Nothing => Some(0),
            Matcher::Text(text) => Some(text.chars().count()),
            Matcher::Single | Matcher::List { .. } | Matcher::Range { .. } => Some(1),
            Matcher::EveryOf(matchers) => matchers.is_empty().then_some(0),
            Matcher::AnyOf(options) => {
                // An unknown length before the first known one is forgotten.
                let mut length = None;
                for option in options {
                    match (length, option.length()) {
                        (None, one) => length = one,
                        (Some(one), Some(other)) if one == other => {}
                        _ => return None,
                    }
                }
                length
            }
            Matcher::Row { length, .. } => Some(*length),
            Matcher::BTree(tree) => tree.length,
            _ => None,
        }
    }

    /// Whether it matches all of `s`. An error is Go's panic, or that it takes too long.
    pub(super) fn matches(&self, s: &[u8], steps: &Steps) -> Result<bool, String> {
        steps.spend(s.len())?;
        Ok(match self {
            Matcher::Nothing => s.is_empty(),
            Matcher::Text(text) => s == text.as_bytes(),
            Matcher::Any => !s.contains(&b'/'),
            Matcher::Super => true,
            Matcher::Single | Matcher::List { .. } | Matcher::Range { .. } => {
                let mut runes = runes(s);
                // Of nothing, Go decodes the replacement character.
                let (_, c) = runes.next().unwrap_or((0, char::REPLACEMENT_CHARACTER));
                runes.next().is_none() && self.accepts(c)
            }
            Matcher::Prefix(prefix) => s.starts_with(prefix.as_bytes()),
            Matcher::Suffix(suffix) => s.ends_with(suffix.as_bytes()),
            Matcher::PrefixSuffix(prefix, suffix) => s.starts_with(prefix.as_bytes()) && s.ends_with(suffix.as_bytes()),
            Matcher::PrefixAny(prefix) => s
                .strip_prefix(prefix.as_bytes())
                .is_some_and(|rest| !rest.contains(&b'/')),
            Matcher::SuffixAny(suffix) => s
                .strip_suffix(suffix.as_bytes())
                .is_some_and(|rest| !rest.contains(&b'/')),
            Matcher::Contains { text, negated } => memmem::find(s, text.as_bytes()).is_some() != *negated,
            Matcher::Min(least) => runes(s).take(*least).count() >= (*least).max(1),
            Matcher::Max(most) => runes(s).take(most + 1).count() <= *most,
            Matcher::EveryOf(matchers) => {
                for matcher in matchers {
                    if !matcher.matches(s, steps)? {
                        return Ok(false);
                    }
                }
                true
            }
            Matcher::AnyOf(options) => {
                for option in options {
                    if option.matches(s, steps)? {
                        return Ok(true);
                    }
                }
                false
            }
            Matcher::Row { matchers, length } => {
                runes(s).take(length + 1).count() == *length && row_matches(matchers, s, steps)?
            }
            Matcher::BTree(tree) => tree.matches(s, steps)?,
        })
    }

    /// Whether a matcher of one character takes that one.
    fn accepts(&self, c: char) -> bool {
        match self {
            Matcher::List { chars, negated } => chars.contains(&c) != *negated,
            Matcher::Range { low, high, negated } => (*low..=*high).contains(&c) != *negated,
            _ => c != '/',
        }
    }

    fn index(&self, s: &[u8], steps: &Steps) -> Result<Found, String> {
        steps.spend(s.len())?;
        let find = |text: &str| memmem::find(s, text.as_bytes());
        Ok(match self {
            Matcher::Nothing => Some((0, vec![0])),
            Matcher::Text(text) => find(text).map(|at| (at, vec![text.len()])),
            Matcher::Any => {
                let end = memchr::memchr(b'/', s).unwrap_or(s.len());
                Some((0, ends(s.get(..end).unwrap_or_default(), 0)))
            }
            Matcher::Super => Some((0, ends(s, 0))),
            Matcher::Single | Matcher::List { .. } | Matcher::Range { .. } => runes(s)
                .find(|(_, c)| self.accepts(*c))
                .map(|(at, c)| (at, vec![c.len_utf8()])),
            Matcher::Prefix(prefix) => find(prefix).map(|at| {
                let rest = s.get(at + prefix.len()..).unwrap_or_default();
                (at, behind(rest, prefix.len()))
            }),
            Matcher::PrefixAny(prefix) => find(prefix).map(|at| {
                let rest = s.get(at + prefix.len()..).unwrap_or_default();
                let end = memchr::memchr(b'/', rest).unwrap_or(rest.len());
                (at, behind(rest.get(..end).unwrap_or_default(), prefix.len()))
            }),
            Matcher::Suffix(suffix) => find(suffix).map(|at| (0, vec![at + suffix.len()])),
            Matcher::SuffixAny(suffix) => find(suffix).map(|at| {
                let before = s.get(..at).unwrap_or_default();
                let from = memchr::memrchr(b'/', before).map_or(0, |slash| slash + 1);
                (from, vec![at + suffix.len() - from])
            }),
            Matcher::PrefixSuffix(prefix, suffix) => find(prefix).and_then(|at| {
                let rest = s.get(at..).unwrap_or_default();
                let found: Vec<usize> = last_to_first(rest, suffix.as_bytes());
                let lengths: Vec<usize> = found.into_iter().rev().map(|at| at + suffix.len()).collect();
                (!lengths.is_empty()).then_some((at, lengths))
            }),
            Matcher::Contains { text, negated: false } => find(text).map(|at| {
                let from = at + text.len();
                (0, ends(s.get(from..).unwrap_or_default(), from))
            }),
            Matcher::Contains { text, negated: true } => {
                let end = find(text).unwrap_or(s.len());
                Some((0, ends(s.get(..end).unwrap_or_default(), 0)))
            }
            Matcher::Min(least) => {
                let lengths: Vec<usize> = behind(s, 0).into_iter().skip((*least).max(1)).collect();
                // Go compares bytes here, which are no fewer than characters.
                (!lengths.is_empty()).then_some((0, lengths))
            }
            Matcher::Max(most) => Some((0, behind(s, 0).into_iter().take(most + 1).collect())),
            Matcher::EveryOf(matchers) => every_index(matchers, s, steps)?,
            Matcher::AnyOf(options) => {
                let mut first: Found = None;
                for option in options {
                    let Some((at, lengths)) = option.index(s, steps)? else {
                        continue;
                    };
                    match &mut first {
                        Some((known, _)) if at > *known => {}
                        Some((known, all)) if at == *known => {
                            steps.spend(all.len() + lengths.len())?;
                            *all = merged(all, &lengths);
                        }
                        first => *first = Some((at, lengths)),
                    }
                }
                first
            }
            Matcher::Row { matchers, length } => {
                for (at, _) in runes(s) {
                    let rest = s.get(at..).unwrap_or_default();
                    if rest.len() < *length {
                        break;
                    }
                    if row_matches(matchers, rest, steps)? {
                        return Ok(Some((at, vec![*length])));
                    }
                }
                None
            }
            // The library looks for what is in the middle only.
            Matcher::BTree(_) => None,
        })
    }
}

/// Each matcher gets as many characters as it is long, but of the last of them only the first byte.
fn row_matches(matchers: &[Matcher], s: &[u8], steps: &Steps) -> Result<bool, String> {
    let mut from = 0;
    for matcher in matchers {
        let rest = s.get(from..).unwrap_or_default();
        let length = matcher.length().unwrap_or(0);
        let (mut count, mut last) = (0, 0);
        for (at, _) in runes(rest) {
            (count, last) = (count + 1, at);
            if count == length {
                break;
            }
        }
        steps.spend(last)?;
        if count < length {
            return Ok(false);
        }
        let end = from + last + 1;
        let Some(part) = s.get(from..end) else {
            return Err(format!(
                "runtime error: slice bounds out of range [:{end}] with length {}",
                s.len()
            ));
        };
        if !matcher.matches(part, steps)? {
            return Ok(false);
        }
        from = end;
    }
    Ok(true)
}

/// Lengths that all of the matchers may take, as far as the library keeps their places apart.
fn every_index(matchers: &[Matcher], s: &[u8], steps: &Steps) -> Result<Found, String> {
    let (mut index, mut offset) = (0_usize, 0_usize);
    let mut current: Vec<usize> = Vec::new();
    let mut rest = s;
    for (at, matcher) in matchers.iter().enumerate() {
        let Some((found, lengths)) = matcher.index(rest, steps)? else {
            return Ok(None);
        };
        steps.spend(current.len().saturating_mul(lengths.len()))?;
        if at == 0 {
            current = lengths;
        } else {
            let is_also = |length: &usize| {
                let shifted = (length + index).checked_sub(found + offset);
                shifted.is_some_and(|shifted| lengths.contains(&shifted))
            };
            // The new lengths are those of the first matcher, moved.
            current = current
                .iter()
                .filter(|length| is_also(length))
                .filter_map(|length| (length + index).checked_sub(found + offset))
                .collect();
            if current.is_empty() {
                return Ok(None);
            }
        }
        index = found + offset;
        rest = s.get(index..).unwrap_or_default();
        offset += found;
    }
    Ok(Some((index, current)))
}

impl BTree {
    pub(super) fn new(value: Matcher, left: Option<Matcher>, right: Option<Matcher>) -> Self {
        let length_of = |side: &Option<Matcher>| side.as_ref().map_or(Some(0), Matcher::length);
        let (left_length, right_length) = (length_of(&left), length_of(&right));
        let length = match (left_length, value.length(), right_length) {
            (Some(left), Some(value), Some(right)) => Some(left + value + right),
            _ => None,
        };
        BTree {
            value,
            left,
            right,
            left_length,
            right_length,
            length,
        }
    }

    fn matches(&self, s: &[u8], steps: &Steps) -> Result<bool, String> {
        if self.length.is_some_and(|length| length > s.len()) {
            return Ok(false);
        }
        // Lengths are of characters; the library takes them for bytes.
        let mut offset = self.left_length.unwrap_or(0);
        let Some(limit) = s.len().checked_sub(self.right_length.unwrap_or(0)) else {
            return Ok(false);
        };
        while let Some(middle) = s.get(offset..limit).filter(|middle| !middle.is_empty()) {
            let Some((at, lengths)) = self.value.index(middle, steps)? else {
                return Ok(false);
            };
            let from = offset + at;
            if side_matches(&self.left, s.get(..from).unwrap_or_default(), steps)? {
                for length in lengths.into_iter().rev() {
                    if side_matches(&self.right, s.get(from + length..).unwrap_or_default(), steps)? {
                        return Ok(true);
                    }
                }
            }
            let mut next = runes(s.get(from..).unwrap_or_default()).skip(1);
            offset = next.next().map_or(s.len(), |(width, _)| from + width);
        }
        Ok(false)
    }
}

fn side_matches(side: &Option<Matcher>, s: &[u8], steps: &Steps) -> Result<bool, String> {
    match side {
        Some(matcher) => matcher.matches(s, steps),
        None => Ok(s.is_empty()),
    }
}

/// The characters of a text and where they start; a byte that isn't UTF-8 is U+FFFD, as in Go's `range`.
fn runes(s: &[u8]) -> impl Iterator<Item = (usize, char)> {
    let mut at = 0;
    s.utf8_chunks()
        .flat_map(|chunk| {
            let bad = chunk.invalid().iter().map(|_| (char::REPLACEMENT_CHARACTER, 1));
            chunk.valid().chars().map(|c| (c, c.len_utf8())).chain(bad)
        })
        .map(move |(c, width)| {
            let start = at;
            at += width;
            (start, c)
        })
}

/// Where the characters of a text start, and its end, each `from` further.
fn ends(s: &[u8], from: usize) -> Vec<usize> {
    let starts = runes(s).map(|(at, _)| from + at);
    starts.chain([from + s.len()]).collect()
}

/// `from`, and where each character of a text ends, `from` further; as long as they are in UTF-8.
fn behind(s: &[u8], from: usize) -> Vec<usize> {
    let all = runes(s).map(|(at, c)| from + at + c.len_utf8());
    [from].into_iter().chain(all).collect()
}

/// Where a text is found in `s`, without overlaps, from its end on.
fn last_to_first(mut s: &[u8], text: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    while let Some(at) = memmem::rfind(s, text) {
        found.push(at);
        s = s.get(..at).unwrap_or_default();
    }
    found
}

/// Both lists in order; both have been so.
fn merged(one: &[usize], other: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = one.iter().chain(other).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}
