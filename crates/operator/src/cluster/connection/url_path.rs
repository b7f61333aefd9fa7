//! Names as parts of a request's path, as client-go has them: it refuses what would change the path and escapes the rest.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::cluster::error::{Error, Result};

/// What Go's `net/url` leaves in a path as it is, besides letters and digits; the slash apart.
const PLAIN: &[u8] = b"-_.~$&+,:;=@";

/// A name as one segment of a path.
pub fn segment(name: &str) -> Cow<'_, str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || PLAIN.contains(byte);
    if name.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut escaped = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        match is_plain(&byte) {
            true => escaped.push(char::from(byte)),
            false => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    Cow::Owned(escaped)
}

/// Refuses what client-go's dynamic client does (`validateNamespaceWithOptionalName`), in its words. Both may be empty.
///
/// # Errors
/// `Invalid`: asking again changes nothing.
pub fn check(namespace: &str, name: &str) -> Result<()> {
    for (what, text) in [("namespace", namespace), ("resource name", name)] {
        let wrong = match text {
            "." | ".." => vec![format!("may not be '{text}'")],
            text => ["/", "%"]
                .into_iter()
                .filter(|part| text.contains(part))
                .map(|part| format!("may not contain '{part}'"))
                .collect(),
        };
        if !wrong.is_empty() {
            return Err(Error::Invalid(format!(
                "invalid {what} {text:?}: [{}]",
                wrong.join(" ")
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_go_escapes_paths() {
        for (name, expected) in [
            ("system:reader", "system:reader"),
            ("a-b.c_d~e", "a-b.c_d~e"),
            ("{{ template \"x\" . }}", "%7B%7B%20template%20%22x%22%20.%20%7D%7D"),
            ("ä?#", "%C3%A4%3F%23"),
        ] {
            assert_eq!(segment(name), expected);
        }
    }

    #[test]
    fn what_client_go_refuses_is_refused_in_its_words() {
        assert!(check("", "").is_ok() && check("shop", "a b").is_ok());
        for (namespace, name, expected) in [
            ("", "a/b", "invalid resource name \"a/b\": [may not contain '/']"),
            (
                "",
                "a/%",
                "invalid resource name \"a/%\": [may not contain '/' may not contain '%']",
            ),
            ("..", "a", "invalid namespace \"..\": [may not be '..']"),
        ] {
            assert_eq!(check(namespace, name).unwrap_err().to_string(), expected);
        }
    }
}
