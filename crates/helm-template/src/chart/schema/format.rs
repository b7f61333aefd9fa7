//! The formats that drafts up to 7 assert. boon has most of them, with the words of the library that Helm uses; here are
//! those that it judges or words otherwise.

use std::error::Error;
use std::sync::LazyLock;

use boon::Format;
use regex::Regex;
use serde_json::Value;

use super::budget;
use crate::gostd::url::Url;

/// The formats that Helm checks.
#[rustfmt::skip]
const CHECKED: [&str; 19] = [
    "date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer",
    "period", "regex", "relative-json-pointer", "semver", "time", "uri", "uri-reference", "uri-template", "uuid",
];

/// The format of that name; `None` if Helm doesn't check it.
pub(super) fn checked(name: &str) -> Option<&'static str> {
    CHECKED.into_iter().find(|known| *known == name)
}

/// The formats that boon doesn't have so.
pub(super) fn all() -> [Format; 6] {
    let uri = |value: &Value| check(value, uri);
    let reference = |value: &Value| check(value, uri_reference);
    [
        budget::format(),
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

/// Go's reader takes more for a URL than RFC 3986 does.
fn uri(text: &str) -> Result<(), String> {
    if Url::parse(text)?.scheme.is_empty() {
        refuse("relative url")
    } else {
        Ok(())
    }
}

fn uri_reference(text: &str) -> Result<(), String> {
    if text.contains('\\') {
        refuse("contains \\")
    } else {
        Url::parse(text).map(drop)
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
    if VERSION.as_ref().is_some_and(|version| version.is_match(text)) {
        Ok(())
    } else {
        refuse("must be like 1.2.3-pre.1+build")
    }
}
