//! URLs of schemas, and how references lead from one to another.

use crate::template::go::quote::quote_go;
use crate::template::sprig::url_parse::Url;

/// A JSON pointer, or an anchor, as it stands in an URL.
pub(super) fn encoded(pointer: &str) -> String {
    if pointer.bytes().all(|byte| byte == b'/' || is_unescaped(byte)) {
        return pointer.to_owned();
    }
    let parts: Vec<_> = pointer.split('/').map(percent_encode).collect();
    parts.join("/")
}

/// A reference, resolved against a base URL: the URL without its fragment, and the fragment decoded.
pub(super) fn join(base: &str, reference: &str) -> Result<(String, String), String> {
    let (path, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    Url::parse(path.as_bytes()).map_err(|e| format!("error in parsing {}: {e}", quote_go(path)))?;
    let fragment = percent_decode(fragment).map_err(|e| format!("error in parsing {}: {e}", quote_go(reference)))?;
    Ok((resolve(base, path), fragment))
}

/// RFC 3986, section 5.2, without fragments.
fn resolve(base: &str, reference: &str) -> String {
    let has_scheme = |text: &str| {
        text.split_once(':').is_some_and(|(scheme, _)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        })
    };
    if reference.is_empty() {
        return base.to_owned();
    }
    if has_scheme(reference) {
        return reference.to_owned();
    }
    let (scheme, rest) = base.split_once(':').unwrap_or(("", base));
    let Some(rest) = rest.strip_prefix("//") else {
        // An opaque base (`urn:…`) has no hierarchy to resolve in.
        return base.to_owned();
    };
    if let Some(other) = reference.strip_prefix("//") {
        return format!("{scheme}://{other}");
    }
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let path = path.split('?').next().unwrap_or_default();
    let (target, query) = reference.split_once('?').map_or((reference, ""), |(path, _)| {
        (path, reference.get(path.len()..).unwrap_or_default())
    });
    let joined = if target.starts_with('/') {
        target.to_owned()
    } else if target.is_empty() {
        path.to_owned()
    } else {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        format!("{folder}/{target}")
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/').skip(1) {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    if joined.ends_with("/.") || joined.ends_with("/..") {
        parts.push("");
    }
    format!("{scheme}://{host}/{}{query}", parts.join("/"))
}

/// Go's `url.PathUnescape`.
pub(super) fn percent_decode(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        if *byte != b'%' {
            out.push(*byte);
            at += 1;
            continue;
        }
        let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(at + 1), digit(at + 2)) else {
            let bad: Vec<u8> = bytes.iter().skip(at).take(3).copied().collect();
            return Err(format!("invalid URL escape {}", quote_go(&bad)));
        };
        out.push((high * 16 + low) as u8);
        at += 3;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn is_unescaped(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+=:@".contains(&byte)
}

/// Go's `url.PathEscape`.
fn percent_encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if is_unescaped(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        let table = [
            (
                "file:///values.schema.json",
                "#/$defs/a",
                "file:///values.schema.json",
                "/$defs/a",
            ),
            (
                "file:///values.schema.json",
                "other.json#a%20b",
                "file:///other.json",
                "a b",
            ),
            ("https://x.org/a/b", "../c?d", "https://x.org/c?d", ""),
            ("https://x.org/a/b", "/c/./d", "https://x.org/c/d", ""),
            ("https://x.org", "//y.org/z", "https://y.org/z", ""),
            ("urn:a:b", "c", "urn:a:b", ""),
            ("file:///x", "urn:q", "urn:q", ""),
        ];
        for (base, reference, url, fragment) in table {
            let want = Ok((url.to_owned(), fragment.to_owned()));
            assert_eq!(join(base, reference), want, "{base} {reference}");
        }
        assert!(join("file:///x", "#%zz").is_err());
    }
}
