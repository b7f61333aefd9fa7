//! Version constraints as Masterminds/semver v3.5.0 understands them: `>=1.2, <2 || ~3.1.x`.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::Regex;

use super::semver::{Version, compare_prerelease, is_identifiers};
use go_template::quote::quote_go;

/// The longest text and the most alternatives that are read.
const MAX_LENGTH: usize = 512;
const MAX_GROUPS: usize = 32;

/// A constraint's version: parts may be `x`, `X` or `*`, or missing. (The class holds a `|`, as the library's does.)
const VERSION: &str = concat!(
    r"v?([0-9|xX*]+)(\.[0-9|xX*]+)?(\.[0-9|xX*]+)?",
    r"(-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
);
/// In the library's order, which decides where several fit.
const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";
const SPACE: &str = r"[\t\n\x0C\r ]";

fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

static ONE: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(&format!("^{SPACE}*({OPERATORS}){SPACE}*({VERSION}){SPACE}*$")));
static EACH: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(&format!("(?:{OPERATORS}){SPACE}*(?:{VERSION})")));
static RANGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(&format!(
        "{SPACE}*(?<from>{VERSION}){SPACE}+-{SPACE}+(?<to>{VERSION}){SPACE}*"
    ))
});
static GROUP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let one = format!("(?:{OPERATORS}){SPACE}*(?:{VERSION}){SPACE}*");
    pattern(&format!("^{SPACE}*{one}(?:(?:{SPACE}+|,{SPACE}*){one})*$"))
});

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
const PLAIN_OPERATORS: [&str; 11] = ["!=", ">=", "=>", "<=", "=<", "~>", "=", ">", "<", "~", "^"];

fn improper(text: &str) -> String {
    format!("improper constraint: {}", quote_go(text))
}

/// A part of a version: a number or a wildcard; `None` if the text starts with neither.
fn number(text: &str) -> Option<(&str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let wildcard = usize::from(text.starts_with(['x', 'X', '*']));
    let (number, rest) = text.split_at_checked(digits.max(wildcard))?;
    // The patterns take more for a part, and what they take may be none.
    (!number.is_empty() && !rest.starts_with(|c: char| c.is_ascii_digit() || "|xX*".contains(c)))
        .then_some((number, rest))
}

/// A dot and such a part, if the text starts with them.
fn dotted(text: &str) -> (&str, &str) {
    match text.strip_prefix('.').and_then(number) {
        Some((number, rest)) => text.split_at_checked(1 + number.len()).unwrap_or(("", rest)),
        None => ("", text),
    }
}

// === impl Parts ===

impl<'t> Parts<'t> {
    /// A constraint that is one comparison with a version of numbers, as most are: the patterns take far longer.
    fn plain(text: &'t str) -> Option<Self> {
        let space = |c| matches!(c, '\t' | '\n' | '\x0C' | '\r' | ' ');
        let text = text.trim_matches(space);
        let operator = PLAIN_OPERATORS.iter().find(|operator| text.starts_with(**operator));
        let (operator, version) = text.split_at_checked(operator.map_or(0, |operator| operator.len()))?;
        let version = version.trim_start_matches(space);
        let (major, rest) = number(version.strip_prefix('v').unwrap_or(version))?;
        let (minor, rest) = dotted(rest);
        let (patch, prerelease) = if minor.is_empty() { ("", rest) } else { dotted(rest) };
        let is_prerelease = prerelease.strip_prefix('-').is_some_and(is_identifiers);
        (prerelease.is_empty() || is_prerelease).then_some(Parts {
            operator,
            version,
            major,
            minor,
            patch,
            prerelease,
        })
    }
}

// === impl Constraints ===

impl Constraints {
    /// Reads a constraint. Errors are the library's texts.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("constraint string is too long (max {MAX_LENGTH} bytes)"));
        }
        if let Some(parts) = Parts::plain(text) {
            let groups = vec![vec![Comparison::new(&parts)?]];
            return Ok(Constraints { groups });
        }
        let (Some(each), Some(group), Some(range)) = (&*EACH, &*GROUP, &*RANGE) else {
            return Err("constraint parser error".to_owned());
        };
        let mut rewritten = text.to_owned();
        for found in range.captures_iter(text) {
            let part = |name| found.name(name).map_or("", |part| part.as_str());
            let (whole, from, to) = (
                found.get(0).map_or("", |whole| whole.as_str()),
                part("from"),
                part("to"),
            );
            rewritten = rewritten.replacen(whole, &format!(">= {from}, <= {to} "), 1);
        }
        let parts: Vec<&str> = rewritten.split("||").collect();
        if parts.len() > MAX_GROUPS {
            return Err(format!("too many constraint groups (max {MAX_GROUPS})"));
        }
        let mut groups = Vec::with_capacity(parts.len());
        for part in parts {
            if !group.is_match(part) {
                return Err(improper(part));
            }
            let comparisons = each.find_iter(part).map(|found| Comparison::parse(found.as_str()));
            groups.push(comparisons.collect::<Result<Vec<_>, _>>()?);
        }
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
    fn parse(text: &str) -> Result<Self, String> {
        let Some(found) = ONE.as_ref().and_then(|one| one.captures(text)) else {
            return Err(improper(text));
        };
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
        Comparison::new(&Parts {
            operator: part(1),
            version: part(2),
            major: part(3),
            minor: part(4),
            patch: part(5),
            prerelease: part(6),
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is read without the patterns is what they find.
    #[test]
    fn plain_comparisons_are_read_as_the_patterns_do() {
        let operators = PLAIN_OPERATORS.iter().copied().chain(["", ">>", "==", "~=", "!", "v"]);
        let versions = [
            "1",
            "v1",
            "1.2",
            "1.2.3",
            "v1.2.3-0",
            "1-0",
            "1.2-a.b",
            "1.2.3-a..b",
            "1.2.3-",
            "1.",
            "1.2.",
            "1.2.3.4",
            "01.2",
            "",
            "vv1",
            "1.x",
            "1.2.3+m",
            "1 2",
            "x",
            "*",
            "1.X",
            "1.2.x",
            "1.*.*",
            "x1",
            "1x",
            "1.2*",
            "xx",
            "*.*",
            "1.x-a",
            "x.2.3",
            "1|x",
            "1.2.3-é",
            "|1",
            "1.2.3--",
            "99999999999999999999",
        ];
        let (one, group, each) = (ONE.as_ref().unwrap(), GROUP.as_ref().unwrap(), EACH.as_ref().unwrap());
        let mut plain = 0;
        for operator in operators {
            for version in versions {
                for (before, between, after) in [
                    ("", "", ""),
                    ("", " ", ""),
                    (" \t", "  ", "\n"),
                    ("\u{a0}", "", "\u{b}"),
                ] {
                    let text = format!("{before}{operator}{between}{version}{after}");
                    let Some(parts) = Parts::plain(&text) else { continue };
                    plain += 1;
                    assert!(group.is_match(&text), "{text:?}");
                    assert!(RANGE.as_ref().unwrap().find(&text).is_none(), "{text:?}");
                    let found: Vec<_> = each.find_iter(&text).collect();
                    assert_eq!(found.len(), 1, "{text:?}");
                    let found = one.captures(found[0].as_str()).unwrap();
                    let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
                    let got = [
                        parts.operator,
                        parts.version,
                        parts.major,
                        parts.minor,
                        parts.patch,
                        parts.prerelease,
                    ];
                    assert_eq!(got, [1, 2, 3, 4, 5, 6].map(part), "{text:?}");
                }
            }
        }
        assert!(plain > 200, "{plain}");
    }
}
