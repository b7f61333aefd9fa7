//! The formats that drafts up to 7 assert. boon has most of them, with the words of the library that Helm uses; here are
//! those that it judges or words otherwise.

use std::error::Error;
use std::sync::LazyLock;

use boon::Format;
use regex::Regex;
use serde_json::Value;

use super::budget;
use crate::gostd::url::Url;
use crate::gostd::{regexp, time_parse};
use go_template::integer::atoi;

/// The name that [`REGEX`] has for boon, which lets nobody take `regex`.
const OWN_REGEX: &str = "chartwright-regex";
const REGEX: &str = "regex";

/// The formats that Helm checks.
#[rustfmt::skip]
const CHECKED: [&str; 18] = [
    "date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer",
    "period", "relative-json-pointer", "semver", "time", "uri", "uri-reference", "uri-template", "uuid",
];

/// What a format of a schema is called for boon; `None` if Helm doesn't check it.
pub(super) fn checked(name: &str) -> Option<&'static str> {
    match name {
        REGEX => Some(OWN_REGEX),
        name => CHECKED.into_iter().find(|known| *known == name),
    }
}

/// What a format is called in a schema.
pub(super) fn shown(name: &str) -> &str {
    if name == OWN_REGEX { REGEX } else { name }
}

/// The formats that boon doesn't have so.
pub(super) fn all() -> [Format; 9] {
    let uri = |value: &Value| check(value, uri);
    let reference = |value: &Value| check(value, uri_reference);
    [
        budget::format(),
        new(OWN_REGEX, |value| check(value, |text| regexp::check(text.as_bytes()))),
        new("date", |value| {
            check(value, |text| time_parse::check("2006-01-02", text))
        }),
        new("ipv4", |value| check(value, ipv4)),
        new("semver", |value| check(value, semver)),
        new("uri", uri),
        new("iri", uri),
        new("uri-reference", reference),
        new("iri-reference", reference),
    ]
}

fn new(name: &'static str, func: fn(&Value) -> Result<(), Box<dyn Error>>) -> Format {
    Format { name, func }
}

fn check(value: &Value, check: impl Fn(&str) -> Result<(), String>) -> Result<(), Box<dyn Error>> {
    match value {
        Value::String(text) => Ok(check(text)?),
        _ => Ok(()),
    }
}

fn refuse(text: &str) -> Result<(), String> {
    Err(text.to_owned())
}

fn ipv4(text: &str) -> Result<(), String> {
    let groups: Vec<&str> = text.split('.').collect();
    if groups.len() != 4 {
        return refuse("expected four decimals");
    }
    for group in groups {
        if group.len() > 1 && group.starts_with('0') {
            return refuse("leading zeros");
        }
        if !(0..=255).contains(&atoi(group)?) {
            return refuse("decimal must be between 0 and 255");
        }
    }
    Ok(())
}

/// Go's reader takes more for a URL than RFC 3986 does.
fn uri(text: &str) -> Result<(), String> {
    match Url::parse(text.as_bytes())?.scheme.is_empty() {
        true => refuse("relative url"),
        false => Ok(()),
    }
}

fn uri_reference(text: &str) -> Result<(), String> {
    match text.contains('\\') {
        true => refuse("contains \\"),
        false => Url::parse(text.as_bytes()).map(drop),
    }
}

fn semver(text: &str) -> Result<(), String> {
    static VERSION: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let number = "(0|[1-9][0-9]*)";
        let pre = format!("({number}|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)");
        let build = "[0-9a-zA-Z-]+";
        Regex::new(&format!(
            r"\A{number}\.{number}\.{number}(-{pre}(\.{pre})*)?(\+{build}(\.{build})*)?\z"
        ))
        .ok()
    });
    match VERSION.as_ref().is_some_and(|version| version.is_match(text)) {
        true => Ok(()),
        false => refuse("must be like 1.2.3-pre.1+build"),
    }
}
