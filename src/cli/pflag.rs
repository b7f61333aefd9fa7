//! Flags as Go's pflag reads them: what Helm's users type has to mean the same here.
//!
//! Flags and words may alternate; `--` ends the flags; `-f=x`, `-fx`, `-f x`, `--file=x` and `--file x` are one; a flag
//! with an optional value takes it only after `=`. Error texts are pflag's and cobra's (`pflag/{flag,errors}.go`).

mod csv;

use std::collections::BTreeMap;

use crate::template::go::number::{parse_float, parse_int};
use crate::template::go::quote::{quote_go, quote_rune};
use crate::template::sprig::duration::parse_duration;

const SYNTAX: &str = "invalid syntax";
const RANGE: &str = "value out of range";

/// What a flag's values are.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// True without a value.
    Bool,
    /// One text; the last one counts.
    Text,
    /// A text that is `.0` where the flag stands without one.
    Optional(&'static str),
    /// How to wait for what is installed.
    Wait,
    /// Any number of texts (`StringArray`).
    List,
    /// Any number of texts, and several in one value: a record of comma-separated values (`StringSlice`).
    Csv,
    /// `key=value` pairs, several in one value (`StringToString`).
    Pairs,
    /// Go's notation, such as `5m0s`.
    Duration,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A text that the function may refuse.
    Checked(fn(&str) -> Result<(), String>),
    /// The same, and `true` where the flag stands without one.
    CheckedBool(fn(&str) -> Result<(), String>),
}

/// One flag.
#[derive(Debug, Clone, Copy)]
pub struct Flag {
    pub name: &'static str,
    pub short: Option<char>,
    pub kind: Kind,
    /// What stands for the value in the help.
    pub value: &'static str,
    pub help: &'static str,
    /// What a user is told who uses it.
    pub deprecated: Option<&'static str>,
    /// Not in the help.
    pub hidden: bool,
    /// Whether all commands have it.
    pub global: bool,
}

/// What a command line says.
#[derive(Debug, Clone, Default)]
pub struct Parsed {
    /// The arguments that are no flags.
    pub words: Vec<String>,
    /// What to tell about deprecated flags.
    pub notices: Vec<String>,
    values: BTreeMap<&'static str, Vec<String>>,
    /// The names of the flags as they were set.
    order: Vec<&'static str>,
}

/// The flags that a command line may have.
#[derive(Clone, Copy)]
struct Known<'a> {
    flags: &'a [Flag],
    /// Whether other flags are passed over (`ParseErrorsAllowlist.UnknownFlags`).
    skips_unknown: bool,
}

/// Reads a command line for some of its flags, up to the first error, and passes over the others as pflag does: a value
/// of theirs that begins with a dash is taken for flags, and so is a value that stands directly behind their letter.
pub fn parse_some(flags: &[Flag], args: &[String]) -> Parsed {
    let mut parsed = Parsed::default();
    let skips_unknown = true;
    // The next reading tells of the error.
    let _ = parsed.read(Known { flags, skips_unknown }, args);
    parsed
}

/// Reads a command line on top of what an earlier reading set.
///
/// # Errors
/// pflag's text for the first flag that is unknown, lacks its value or has a wrong one. The notices up to there come too.
pub fn parse(earlier: Parsed, flags: &[Flag], args: &[String]) -> Result<Parsed, (String, Vec<String>)> {
    let mut parsed = Parsed {
        words: Vec::new(),
        notices: Vec::new(),
        ..earlier
    };
    let skips_unknown = false;
    match parsed.read(Known { flags, skips_unknown }, args) {
        Ok(()) => Ok(parsed),
        Err(text) => Err((text, parsed.notices)),
    }
}

// === impl Parsed ===

impl Parsed {
    /// Whether the flag was given.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// The flag's last value, `None` if it wasn't given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.last().map(String::as_str)
    }

    /// All values of the flag.
    pub fn list(&self, name: &str) -> Vec<String> {
        self.values.get(name).cloned().unwrap_or_default()
    }

    /// Whether a boolean flag is on.
    pub fn bool(&self, name: &str) -> bool {
        self.text(name).and_then(parse_bool).unwrap_or(false)
    }

    /// The last value of flags that set the same thing.
    pub fn last_of(&self, names: &[&str]) -> Option<&str> {
        let name = self.order.iter().rev().find(|name| names.contains(name))?;
        self.text(name)
    }

    fn read(&mut self, known: Known<'_>, args: &[String]) -> Result<(), String> {
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            match arg.strip_prefix("--") {
                Some("") => self.words.extend(rest.by_ref().cloned()),
                Some(long) => self.long(known, arg, long, &mut rest)?,
                None => match arg.strip_prefix('-') {
                    Some(short) if !short.is_empty() => self.short(known, short, &mut rest)?,
                    _ => self.words.push(arg.clone()),
                },
            }
        }
        Ok(())
    }

    fn long(
        &mut self,
        known: Known<'_>,
        arg: &str,
        long: &str,
        rest: &mut std::slice::Iter<'_, String>,
    ) -> Result<(), String> {
        if long.starts_with(['-', '=']) {
            return Err(format!("bad flag syntax: {arg}"));
        }
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let Some(flag) = known.flags.iter().find(|flag| flag.name == name) else {
            if !known.skips_unknown || name == "help" {
                return Err(format!("unknown flag: --{name}"));
            }
            if value.is_none() {
                skip_value(rest);
            }
            return Ok(());
        };
        let value = value
            .or_else(|| flag.kind.without_value())
            .or_else(|| rest.next().map(String::as_str));
        let value = value.ok_or_else(|| format!("flag needs an argument: --{name}"))?;
        self.set(flag, value)
    }

    fn short(&mut self, known: Known<'_>, shorts: &str, rest: &mut std::slice::Iter<'_, String>) -> Result<(), String> {
        let mut shorts = shorts;
        let following = rest.clone();
        while let Some(letter) = shorts.chars().next() {
            // What the tests of Go programs take (`isGotestShorthandFlag`).
            if shorts.starts_with("test.") {
                return Ok(());
            }
            let after = shorts.get(letter.len_utf8()..).unwrap_or_default();
            let assigned = after.strip_prefix('=').filter(|value| !value.is_empty());
            // What follows is there for each letter anew.
            *rest = following.clone();
            let Some(flag) = known.flags.iter().find(|flag| flag.short == Some(letter)) else {
                if !known.skips_unknown || letter == 'h' {
                    // pflag takes the first byte for a character, and shows the first byte of its UTF-8 as one: 0xC3 for
                    // all that a character beyond ASCII can begin with.
                    let shown = quote_rune(if letter.is_ascii() { letter } else { '\u{c3}' });
                    return Err(format!("unknown shorthand flag: {shown} in -{shorts}"));
                }
                if assigned.is_some() {
                    return Ok(());
                }
                skip_value(rest);
                shorts = after;
                continue;
            };
            if let Some(value) = assigned {
                return self.set(flag, value);
            }
            if let Some(value) = flag.kind.without_value() {
                self.set(flag, value)?;
                shorts = after;
                continue;
            }
            let value = if after.is_empty() {
                rest.next().map(String::as_str)
            } else {
                Some(after)
            };
            let value = value.ok_or_else(|| format!("flag needs an argument: {letter:?} in -{shorts}"))?;
            return self.set(flag, value);
        }
        Ok(())
    }

    fn set(&mut self, flag: &Flag, value: &str) -> Result<(), String> {
        let values = flag.kind.read(value).map_err(|reason| {
            let short = flag.short.map(|short| format!("-{short}, ")).unwrap_or_default();
            format!(
                "invalid argument {} for \"{short}--{}\" flag: {reason}",
                quote_go(value),
                flag.name
            )
        })?;
        self.values.entry(flag.name).or_default().extend(values);
        self.order.push(flag.name);
        if let (Kind::Wait, Some(strategy)) = (flag.kind, boolean_wait(value)) {
            self.notices.push(format!(
                "level=WARN msg=\"--wait={value} is deprecated (boolean value) and can be replaced with --wait={strategy}\""
            ));
        }
        if let Some(advice) = flag.deprecated {
            self.notices
                .push(format!("Flag --{} has been deprecated, {advice}", flag.name));
        }
        Ok(())
    }
}

/// Passes over the value of an unknown flag, if it is one (`stripUnknownFlagValue`).
fn skip_value(rest: &mut std::slice::Iter<'_, String>) {
    if rest.as_slice().first().is_some_and(|next| !next.starts_with('-')) {
        rest.next();
    }
}

// === impl Kind ===

impl Kind {
    /// The value of a flag that stands without one, if it may.
    fn without_value(self) -> Option<&'static str> {
        match self {
            Kind::Bool | Kind::CheckedBool(_) => Some("true"),
            Kind::Wait => Some("watcher"),
            Kind::Optional(value) => Some(value),
            _ => None,
        }
    }

    /// Whether the flag may stand without a value.
    pub fn is_optional(self) -> bool {
        self.without_value().is_some()
    }

    fn read(self, value: &str) -> Result<Vec<String>, String> {
        let wrong = |function: &str, reason: &str| {
            let quoted = quote_go(value);
            Err(format!("strconv.{function}: parsing {quoted}: {reason}"))
        };
        match self {
            Kind::Bool if parse_bool(value).is_none() => return wrong("ParseBool", SYNTAX),
            Kind::Duration => parse_duration(value.as_bytes()).map(drop)?,
            Kind::Int if parse_int(value).is_none() => {
                return wrong("ParseInt", if is_integer(value) { RANGE } else { SYNTAX });
            }
            Kind::Float => match parse_float(value) {
                Some(number) if number.is_finite() && number.abs() > f64::from(f32::MAX) => {
                    return wrong("ParseFloat", RANGE);
                }
                Some(_) => {}
                None => {
                    let number = value.parse::<f64>();
                    let named = value.to_ascii_lowercase().contains("inf") || value.eq_ignore_ascii_case("nan");
                    if named && number.is_ok() {
                        return Ok(vec![value.to_owned()]);
                    }
                    let huge = number.is_ok_and(f64::is_infinite);
                    return wrong("ParseFloat", if huge { RANGE } else { SYNTAX });
                }
            },
            Kind::Wait if !["watcher", "hookOnly", "legacy", "true", "false"].contains(&value) => {
                let quoted = quote_go(value);
                return Err(format!(
                    "invalid wait input {quoted}. Valid inputs are watcher, hookOnly, and legacy"
                ));
            }
            Kind::Csv => return csv::record(value),
            Kind::Pairs => return pairs(value),
            Kind::Checked(check) | Kind::CheckedBool(check) => check(value)?,
            _ => {}
        }
        Ok(vec![value.to_owned()])
    }
}

/// `strconv.ParseBool`.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// The name of what a boolean `--wait` stands for (`waitValue.Set`).
fn boolean_wait(value: &str) -> Option<&'static str> {
    match value {
        "true" => Some("watcher"),
        "false" => Some("hookOnly"),
        _ => None,
    }
}

/// Whether a text is an integer in Go's notation, of any size.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let base = digits.get(..2).map(str::to_ascii_lowercase);
    let (base, digits) = match base.as_deref() {
        Some("0x") => (16, digits.get(2..)),
        Some("0o") => (8, digits.get(2..)),
        Some("0b") => (2, digits.get(2..)),
        Some(start) if start.starts_with('0') => (8, digits.get(1..)),
        _ => (10, Some(digits)),
    };
    digits.is_some_and(|digits| !digits.is_empty() && digits.chars().all(|digit| digit == '_' || digit.is_digit(base)))
}

fn pairs(value: &str) -> Result<Vec<String>, String> {
    let pairs = match value.matches('=').count() {
        0 => vec![value.to_owned()],
        1 => vec![value.trim_matches('"').to_owned()],
        _ => csv::record(value)?,
    };
    match pairs.iter().find(|pair| !pair.contains('=')) {
        Some(pair) => Err(format!("{pair} must be formatted as key=value")),
        None => Ok(pairs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: [Flag; 5] = [
        flag("values", Some('f'), Kind::Csv),
        flag("set", None, Kind::List),
        flag("debug", Some('d'), Kind::Bool),
        flag("dry-run", None, Kind::Optional("unset")),
        flag("labels", Some('l'), Kind::Pairs),
    ];

    const fn flag(name: &'static str, short: Option<char>, kind: Kind) -> Flag {
        Flag {
            name,
            short,
            kind,
            value: "X",
            help: "",
            deprecated: None,
            hidden: false,
            global: false,
        }
    }

    fn run(line: &str) -> Result<Parsed, String> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse(Parsed::default(), &FLAGS, &args).map_err(|(text, _)| text)
    }

    #[test]
    fn values_are_found_in_every_place() {
        let table: [(&str, &str, &[&str]); 9] = [
            ("-f=a", "values", &["a"]),
            ("-fa -f b --values c --values=d,e", "values", &["a", "b", "c", "d", "e"]),
            ("-df a", "values", &["a"]),
            ("-f \"a,b\",c", "values", &["a,b", "c"]),
            ("--set=a=b --set -x", "set", &["a=b", "-x"]),
            ("-d=false", "debug", &["false"]),
            ("--dry-run server", "dry-run", &["unset"]),
            ("-f= x", "values", &["="]),
            ("-l a=1,b=2 -l c=", "labels", &["a=1", "b=2", "c="]),
        ];
        for (line, name, want) in table {
            assert_eq!(run(line).unwrap().list(name), want, "{line}");
        }
        assert_eq!(run("a -d - b -- -d").unwrap().words, ["a", "-", "b", "-d"]);
        assert!(!run("--debug=0").unwrap().bool("debug"));
    }

    #[test]
    fn errors_are_those_of_pflag() {
        let table = [
            ("--foo=1", "unknown flag: --foo"),
            ("-dx", "unknown shorthand flag: 'x' in -x"),
            ("---d", "bad flag syntax: ---d"),
            ("--set", "flag needs an argument: --set"),
            ("-df", "flag needs an argument: 'f' in -f"),
            (
                "--debug=x",
                "invalid argument \"x\" for \"-d, --debug\" flag: strconv.ParseBool: parsing \"x\": invalid syntax",
            ),
            (
                "-fa\"",
                "invalid argument \"a\\\"\" for \"-f, --values\" flag: parse error on line 1, column 2: bare \" in \
                 non-quoted-field",
            ),
            (
                "-l a",
                "invalid argument \"a\" for \"-l, --labels\" flag: a must be formatted as key=value",
            ),
        ];
        for (line, want) in table {
            assert_eq!(run(line).unwrap_err(), want, "{line}");
        }
    }
}
