//! Version constraints as Masterminds/semver v3.5.0 understands them: `>=1.2, <2 || ~3.1.x`.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::sprig::semver::{IDENTIFIERS, Version};
use go_template::quote::quote_go;

/// The longest text and the most alternatives that are read.
const MAX_LENGTH: usize = 512;
const MAX_GROUPS: usize = 32;

/// Alternatives, each of which holds if all its comparisons do.
#[derive(Clone, Debug)]
pub struct Constraints {
    groups: Vec<Vec<VersionComparison>>,
}

#[derive(Clone, Debug)]
struct VersionComparison {
    operator: String,
    version: Version,
    open: OpenPart,
}

/// From which part on a comparison leaves its version open, by `x` or by ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenPart {
    Nothing,
    Patch,
    Minor,
    Major,
}

struct Syntax {
    comparison: Regex,
    /// Comparisons between which there are blanks or a comma.
    group: Regex,
    /// `a - b`, which is `>=a, <=b`.
    range: Regex,
}

static SYNTAX: LazyLock<Option<Syntax>> = LazyLock::new(|| {
    let number = "[0-9]+|[xX*]";
    let suffix = format!(r"(-{IDENTIFIERS})?(?:\+{IDENTIFIERS})?");
    let version = format!(r"v?({number})(?:\.({number}))?(?:\.({number}))?{suffix}");
    let comparison = format!(r"(!=|>=|=>|<=|=<|~>|[=<>~^]?)\s*({version})");
    let group = format!(r"^\s*{comparison}\s*(?:(?:\s+|,\s*){comparison}\s*)*$");
    let range = format!(r"\s*(?<from>{version})\s+-\s+(?<to>{version})\s*");
    Some(Syntax {
        comparison: Regex::new(&comparison).ok()?,
        group: Regex::new(&group).ok()?,
        range: Regex::new(&range).ok()?,
    })
});

impl Constraints {
    /// Reads a constraint. Errors are the library's texts.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_LENGTH {
            return Err(format!("constraint string is too long (max {MAX_LENGTH} bytes)"));
        }
        let improper = |text: &str| format!("improper constraint: {}", quote_go(text));
        let syntax = SYNTAX.as_ref().ok_or_else(|| improper(text))?;
        let text = syntax.range.replace_all(text, " >=${from}, <=${to} ");
        let alternatives: Vec<&str> = text.split("||").collect();
        if alternatives.len() > MAX_GROUPS {
            return Err(format!("too many constraint groups (max {MAX_GROUPS})"));
        }
        let group = |text: &&str| {
            if syntax.group.is_match(text) {
                syntax
                    .comparison
                    .captures_iter(text)
                    .map(|found| VersionComparison::new(&found))
                    .collect()
            } else {
                Err(improper(text))
            }
        };
        let groups = alternatives.iter().map(group).collect::<Result<_, String>>()?;
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

impl VersionComparison {
    fn new(found: &Captures<'_>) -> Result<Self, String> {
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
        let is_open = |part: &str| matches!(part, "" | "x" | "X" | "*");
        let (major, minor, patch, prerelease) = (part(3), part(4), part(5), part(6));
        let (open, text) = if is_open(major) {
            (OpenPart::Major, format!("0.0.0{prerelease}"))
        } else if is_open(minor) {
            (OpenPart::Minor, format!("{major}.0.0{prerelease}"))
        } else if is_open(patch) {
            (OpenPart::Patch, format!("{major}.{minor}.0{prerelease}"))
        } else {
            (OpenPart::Nothing, part(2).to_owned())
        };
        Ok(VersionComparison {
            operator: part(1).to_owned(),
            version: Version::parse(&text).map_err(|_| "constraint parser error")?,
            open,
        })
    }

    fn check(&self, version: &Version) -> bool {
        let wanted = &self.version;
        let order = version.compare(wanted);
        let by_major = version.major.cmp(&wanted.major);
        let by_minor = by_major.then(version.minor.cmp(&wanted.minor));
        // By the parts that are there: 11.1.0 isn't above "11", nor 1.2.7 above "1.2".
        let by_given = match self.open {
            OpenPart::Minor => by_major,
            OpenPart::Patch => by_minor,
            OpenPart::Major | OpenPart::Nothing => order,
        };
        let is_zero = (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0);
        match (self.operator.as_str(), self.open) {
            ("" | "=", OpenPart::Nothing) => order.is_eq(),
            ("!=", OpenPart::Patch) => by_minor.is_ne() || version.prerelease != wanted.prerelease,
            ("!=", _) => by_given.is_ne(),
            (">", _) => by_given.is_gt(),
            ("<", _) => order.is_lt(),
            (">=" | "=>", _) => order.is_ge(),
            ("<=" | "=<", OpenPart::Major) => by_minor.is_le(),
            ("<=" | "=<", _) => by_given.is_le(),
            _ if order.is_lt() => false,
            ("^", OpenPart::Minor) => by_major.is_eq(),
            ("^", _) if wanted.major > 0 => by_major.is_eq(),
            ("^", OpenPart::Patch) => by_minor.is_eq(),
            ("^", _) if wanted.minor > 0 => by_minor.is_eq(),
            ("^", _) => by_minor.is_eq() && version.patch == wanted.patch,
            // The remaining cases are a tilde and an equality with an open part.
            (_, OpenPart::Major | OpenPart::Nothing) if is_zero => true,
            (_, OpenPart::Minor) => by_major.is_eq(),
            _ => by_minor.is_eq(),
        }
    }
}
