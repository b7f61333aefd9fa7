//! Semantic versions as Masterminds/semver v3.5.0 reads and compares them.

pub(crate) mod constraint;

use std::any::Any;
use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;
use std::sync::LazyLock;

use regex::Regex;

use crate::gostd::NIL_POINTER;
use go_template::func::{Func, Param};
use go_template::value::{Object, Str, Value};

pub use crate::sprig::semver::constraint::Constraints;

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("semver", |text: &Str| {
            Version::parse(&text.to_text()).map(|version| Value::Object(Rc::new(version)))
        }),
        Func::new("semverCompare", |constraint: &Str, version: &Str| {
            let constraints = Constraints::parse(&constraint.to_text())?;
            Version::parse(&version.to_text()).map(|version| constraints.check(&version))
        }),
    ]
}

/// The longest version that is read, in bytes.
const MAX_VERSION: usize = 256;
const INVALID: &str = "invalid semantic version";

/// A version. Equality is of all its parts; [`Version::compare`] is the order that ignores metadata.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    /// Without its `-`; empty if there is none.
    pub prerelease: String,
    /// Without its `+`; empty if there is none.
    pub metadata: String,
    /// The text that was read.
    pub original: String,
}

/// The characters allowed between the `-` or `+` of a version and its next part.
pub(super) const IDENTIFIERS: &str = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*";
static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let numbers = r"([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?";
    Regex::new(&format!(r"^v?{numbers}(?:-({IDENTIFIERS}))?(?:\+({IDENTIFIERS}))?$")).ok()
});

impl Version {
    /// `NewVersion`: a leading `v`, missing parts and leading zeros are accepted. Errors are the library's texts.
    ///
    /// ```
    /// use helm_template::sprig::semver::{Constraints, Version};
    ///
    /// let version = Version::parse("v1.2").unwrap();
    /// assert!(Constraints::parse("^1.2.0").unwrap().check(&version));
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_VERSION {
            return Err(format!("version string is too long (max {MAX_VERSION} bytes)"));
        }
        let found = VERSION.as_ref().and_then(|version| version.captures(text));
        let found = found.ok_or(INVALID)?;
        let part = |index: usize| found.get(index).map_or("", |part| part.as_str());
        let number = |index: usize| match part(index) {
            "" => Ok(0),
            digits => digits.parse().map_err(|_| {
                format!("error parsing version segment: strconv.ParseUint: parsing \"{digits}\": value out of range")
            }),
        };
        let zero_led = |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
        if part(4).split('.').any(zero_led) {
            return Err("version segment starts with 0".to_owned());
        }
        Ok(Version {
            major: number(1)?,
            minor: number(2)?,
            patch: number(3)?,
            prerelease: part(4).to_owned(),
            metadata: part(5).to_owned(),
            original: text.to_owned(),
        })
    }

    /// The order of versions; metadata doesn't count.
    pub fn compare(&self, other: &Version) -> Ordering {
        let key = |v: &Version| (v.major, v.minor, v.patch, v.prerelease.is_empty());
        key(self)
            .cmp(&key(other))
            .then_with(|| compare_prerelease(&self.prerelease, &other.prerelease))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

/// The order of two pre-releases, part by part: numbers by size and before words, fewer parts before more.
fn compare_prerelease(a: &str, b: &str) -> Ordering {
    let key = |part| match str::parse::<u64>(part) {
        Ok(number) => (false, number, ""),
        Err(_) => (true, 0, part),
    };
    a.split('.').map(key).cmp(b.split('.').map(key))
}

impl Version {
    /// The result of an `Inc...` method: without a pre-release and metadata.
    fn next(&self, major: u64, minor: u64, patch: u64) -> Value {
        let mut next = Version {
            major,
            minor,
            patch,
            ..Version::default()
        };
        let lead = if self.original.starts_with('v') { "v" } else { "" };
        next.original = format!("{lead}{next}");
        Value::Object(Rc::new(next))
    }
}

/// The version that is the argument of a method.
fn other(args: &[Value]) -> Result<&Version, String> {
    let found = match args {
        [Value::Object(object)] => object.as_any().downcast_ref(),
        _ => None,
    };
    found.ok_or_else(|| NIL_POINTER.to_owned())
}

/// A `*semver.Version`.
impl Object for Version {
    fn type_name(&self) -> &'static str {
        "*semver.Version"
    }

    fn kind(&self) -> &'static str {
        "ptr"
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        Some(match method {
            "Compare" | "Equal" | "LessThan" | "LessThanEqual" | "GreaterThan" | "GreaterThanEqual" => {
                &[Param::Named("*semver.Version")]
            }
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "Original" | "String" | "IncMajor"
            | "IncMinor" | "IncPatch" => &[],
            _ => return None,
        })
    }

    fn call(&self, method: &str, args: &[Value]) -> Option<Result<Value, String>> {
        let version = self;
        let order = |test: fn(Ordering) -> bool| other(args).map(|other| Value::Bool(test(version.compare(other))));
        Some(match method {
            "Major" => Ok(Value::Uint64(version.major)),
            "Minor" => Ok(Value::Uint64(version.minor)),
            "Patch" => Ok(Value::Uint64(version.patch)),
            "Prerelease" => Ok(Value::string(version.prerelease.as_str())),
            "Metadata" => Ok(Value::string(version.metadata.as_str())),
            "Original" => Ok(Value::string(version.original.as_str())),
            "String" => Ok(Value::string(version.to_string())),
            "IncMajor" => Ok(self.next(version.major.saturating_add(1), 0, 0)),
            "IncMinor" => Ok(self.next(version.major, version.minor.saturating_add(1), 0)),
            "IncPatch" => {
                let by = u64::from(version.prerelease.is_empty());
                Ok(self.next(version.major, version.minor, version.patch.saturating_add(by)))
            }
            "Compare" => other(args).map(|other| Value::Int(version.compare(other) as i64)),
            "Equal" if matches!(args, [Value::Nil]) => Ok(Value::Bool(false)),
            "Equal" => order(Ordering::is_eq),
            "LessThan" => order(Ordering::is_lt),
            "LessThanEqual" => order(Ordering::is_le),
            "GreaterThan" => order(Ordering::is_gt),
            "GreaterThanEqual" => order(Ordering::is_ge),
            _ => return None,
        })
    }

    fn display(&self) -> String {
        self.to_string()
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        Ok(serde_json::Value::String(self.to_string()))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
