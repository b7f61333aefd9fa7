//! Version constraints as Masterminds/semver v3.5.0 understands them: `>=1.2, <2 || ~3.1.x`.

use std::cmp::Ordering;

use super::semver::{Version, compare_prerelease, is_identifiers};
use go_template::quote::quote_go;

/// The longest text and the most alternatives that are read.
const MAX_LENGTH: usize = 512;
const MAX_GROUPS: usize = 32;

/// Alternatives, each of which holds if all its comparisons do.
#[derive(Clone, Debug)]
pub struct Constraints {
    groups: Vec<Vec<Comparison>>,
}

#[derive(Clone, Debug)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// Which parts were left open. `any` covers the other two, and a version that is all open.
    any: bool,
    minor: bool,
    patch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    TildeOrEqual,
    NotEqual,
    Greater,
    Less,
    GreaterEqual,
    LessEqual,
    Tilde,
    Caret,
}

/// A comparison, taken apart.
struct Parts<'t> {
    operator: &'t str,
    /// All of it after the operator.
    version: &'t str,
    major: &'t str,
    /// With their dot, if they are there.
    minor: &'t str,
    patch: &'t str,
    /// With its `-`.
    prerelease: &'t str,
}

/// Two characters before one, so that none hides a longer one.
const OPERATORS: [&str; 11] = ["!=", ">=", "=>", "<=", "=<", "~>", "=", ">", "<", "~", "^"];
const SPACE: [char; 5] = ['\t', '\n', '\x0C', '\r', ' '];

fn improper(text: &str) -> String {
    format!("improper constraint: {}", quote_go(text))
}

/// The length of a number or a wildcard at the front.
fn number(text: &str) -> usize {
    match text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()) {
        0 => usize::from(text.starts_with(['x', 'X', '*'])),
        digits => digits,
    }
}

/// A dot and such a part, if the text starts with them.
fn dotted(text: &str) -> (&str, &str) {
    match text.strip_prefix('.').map_or(0, number) {
        0 => ("", text),
        len => text.split_at(1 + len),
    }
}

// === impl Parts ===

impl<'t> Parts<'t> {
    /// Reads a comparison: an operator, if there is one, and a version, parts of which may be `x`, `X`, `*`, or missing.
    fn parse(text: &'t str) -> Option<Self> {
        let operator = OPERATORS.iter().find(|operator| text.starts_with(**operator));
        let (operator, version) = text.split_at(operator.map_or(0, |operator| operator.len()));
        let version = version.trim_start_matches(SPACE);
        let numbers = version.strip_prefix('v').unwrap_or(version);
        let (major, rest) = numbers.split_at(number(numbers));
        let (minor, rest) = dotted(rest);
        let (patch, rest) = if minor.is_empty() { ("", rest) } else { dotted(rest) };
        let (prerelease, metadata) = rest.split_at(rest.find('+').unwrap_or(rest.len()));
        let fits = |part: &str, sign| part.is_empty() || part.strip_prefix(sign).is_some_and(is_identifiers);
        (!major.is_empty() && fits(prerelease, '-') && fits(metadata, '+')).then_some(Parts {
            operator,
            version,
            major,
            minor,
            patch,
            prerelease,
        })
    }
}

/// Splits a text into comparisons, between which there are blanks or a comma. Blanks may follow an operator, and `a - b`
/// is `>=a <=b`.
fn comparisons(text: &str) -> Option<Vec<(Option<&'static str>, &str)>> {
    let word = |text: &str| text.find(|c| c == ',' || SPACE.contains(&c)).unwrap_or(text.len());
    let mut found = Vec::new();
    let mut rest = text.trim_matches(SPACE);
    while !rest.is_empty() {
        let operator = rest.len() - rest.trim_start_matches(['!', '=', '<', '>', '~', '^']).len();
        let version = rest.get(operator..)?.trim_start_matches(SPACE);
        let start = rest.len() - version.len();
        let (one, after) = rest.split_at_checked(start + word(version))?;
        let after = after.trim_start_matches(SPACE);
        let range = after.strip_prefix("- ").filter(|_| operator == 0);
        rest = match range.map(|to| to.trim_start_matches(SPACE)) {
            Some(to) => {
                let (to, after) = to.split_at(word(to));
                found.extend([(Some(">="), one), (Some("<="), to)]);
                after.trim_start_matches(SPACE)
            }
            None => {
                found.push((None, one));
                after
            }
        };
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start_matches(SPACE);
            if rest.is_empty() {
                return None;
            }
        }
    }
    (!found.is_empty()).then_some(found)
}

// === impl Constraints ===

impl Constraints {
    /// Reads a constraint. Errors are the library's texts.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("constraint string is too long (max {MAX_LENGTH} bytes)"));
        }
        let alternatives: Vec<&str> = text.split("||").collect();
        if alternatives.len() > MAX_GROUPS {
            return Err(format!("too many constraint groups (max {MAX_GROUPS})"));
        }
        let group = |text: &str| {
            let all = comparisons(text).ok_or_else(|| improper(text))?;
            let read = all.into_iter().map(|(operator, one)| {
                let mut parts = Parts::parse(one).ok_or_else(|| improper(text))?;
                parts.operator = operator.unwrap_or(parts.operator);
                Comparison::new(&parts)
            });
            read.collect()
        };
        let groups = alternatives.into_iter().map(group).collect::<Result<_, String>>()?;
        Ok(Constraints { groups })
    }

    /// Whether a version satisfies an alternative. Pre-releases only do where the alternative names one.
    pub fn check(&self, version: &Version) -> bool {
        self.groups.iter().any(|group| {
            let prereleases = group.iter().any(|comparison| !comparison.version.prerelease.is_empty());
            (version.prerelease.is_empty() || prereleases) && group.iter().all(|comparison| comparison.check(version))
        })
    }
}

fn is_open(part: &str) -> bool {
    matches!(part, "" | "x" | "X" | "*")
}

// === impl Comparison ===

impl Comparison {
    fn new(parts: &Parts<'_>) -> Result<Self, String> {
        let operator = match parts.operator {
            "!=" => Operator::NotEqual,
            ">" => Operator::Greater,
            "<" => Operator::Less,
            ">=" | "=>" => Operator::GreaterEqual,
            "<=" | "=<" => Operator::LessEqual,
            "~" | "~>" => Operator::Tilde,
            "^" => Operator::Caret,
            _ => Operator::TildeOrEqual,
        };
        let (major, minor, patch, prerelease) = (parts.major, parts.minor, parts.patch, parts.prerelease);
        let open = |part: &str| is_open(part.strip_prefix('.').unwrap_or(part));
        let (mut any, mut minor_open, mut patch_open) = (false, false, false);
        let text = if is_open(major) {
            any = true;
            format!("0.0.0{prerelease}")
        } else if open(minor) {
            (any, minor_open) = (true, true);
            format!("{major}.0.0{prerelease}")
        } else if open(patch) {
            (any, patch_open) = (true, true);
            format!("{major}{minor}.0{prerelease}")
        } else {
            parts.version.to_owned()
        };
        let version = Version::parse(&text).map_err(|_| "constraint parser error".to_owned())?;
        Ok(Comparison {
            operator,
            version,
            any,
            minor: minor_open,
            patch: patch_open,
        })
    }

    fn check(&self, version: &Version) -> bool {
        let order = version.compare(&self.version);
        let wanted = &self.version;
        match self.operator {
            Operator::TildeOrEqual if self.any => self.tilde(version),
            Operator::TildeOrEqual => order == Ordering::Equal,
            Operator::NotEqual => self.differs(version),
            Operator::Greater if !self.any => order == Ordering::Greater,
            Operator::Greater => match version.major.cmp(&wanted.major) {
                Ordering::Greater => true,
                Ordering::Less => false,
                // 11.1.0 isn't above "11", nor 1.2.7 above "1.2".
                Ordering::Equal if self.minor => false,
                Ordering::Equal if self.patch => version.minor > wanted.minor,
                Ordering::Equal => order == Ordering::Greater,
            },
            Operator::Less => order == Ordering::Less,
            Operator::GreaterEqual => order != Ordering::Less,
            Operator::LessEqual if !self.any => order != Ordering::Greater,
            Operator::LessEqual => {
                version.major < wanted.major
                    || (version.major == wanted.major && (version.minor <= wanted.minor || self.minor))
            }
            Operator::Tilde => self.tilde(version),
            Operator::Caret => self.caret(version),
        }
    }

    fn differs(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if self.any {
            if wanted.major != version.major || (wanted.minor != version.minor && !self.minor) {
                return true;
            }
            if self.minor {
                return false;
            }
            if wanted.patch != version.patch && !self.patch {
                return true;
            }
            if self.patch {
                let prereleases = !version.prerelease.is_empty() || !wanted.prerelease.is_empty();
                return prereleases && compare_prerelease(&version.prerelease, &wanted.prerelease) != Ordering::Equal;
            }
        }
        version.compare(wanted) != Ordering::Equal
    }

    fn tilde(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less {
            return false;
        }
        if (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0) && !self.minor && !self.patch {
            return true;
        }
        version.major == wanted.major && (version.minor == wanted.minor || self.minor)
    }

    fn caret(&self, version: &Version) -> bool {
        let wanted = &self.version;
        if version.compare(wanted) == Ordering::Less {
            return false;
        }
        if wanted.major > 0 || self.minor {
            return version.major == wanted.major;
        }
        if version.major > 0 {
            return false;
        }
        if wanted.minor > 0 || self.patch {
            return version.minor == wanted.minor;
        }
        version.minor == 0 && version.patch == wanted.patch
    }
}
