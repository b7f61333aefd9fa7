//! URLs of schemas, and how references lead from one to another.

use crate::sprig::url_parse::{self, Url};
use go_template::quote::quote_go;

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
    let parse = |url: &str| Url::parse(url.as_bytes()).map_err(|e| unparsed(url, &e));
    let base = parse(base)?;
    let (path, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    let fragment = percent_decode(fragment).map_err(|e| unparsed(reference, &e))?;
    let path = parse(path)?;
    let mut url = base.resolve(&path);
    if path.scheme.is_empty() {
        url = url.with_opaque_of(&base);
    }
    Ok((String::from_utf8_lossy(&url.text()).into_owned(), fragment))
}

/// The library's words for what isn't an URL.
pub(super) fn unparsed(url: &str, problem: &str) -> String {
    format!("error in parsing {}: {problem}", quote_go(url))
}

/// Go's `url.PathUnescape`, as text.
pub(super) fn percent_decode(text: &str) -> Result<String, String> {
    let decoded = url_parse::path_unescape(text.as_bytes())?;
    Ok(String::from_utf8_lossy(&decoded).into_owned())
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
            ("file:///x/y", "HTTP://X.org/ü/../a b?c d", "http://X.org/a%20b?c d", ""),
            ("file:///x/y", "file:/a//b/./c/..", "file:/a//b/", ""),
            ("http://u:p@x.org/a?b", "", "http://u:p@x.org/a?b", ""),
        ];
        for (base, reference, url, fragment) in table {
            let want = Ok((url.to_owned(), fragment.to_owned()));
            assert_eq!(join(base, reference), want, "{base} {reference}");
        }
        assert!(join("file:///x", "#%zz").is_err());
    }
}
