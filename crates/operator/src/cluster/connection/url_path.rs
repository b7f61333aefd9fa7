//! Names as segments of a URL path, as client-go treats them: names that would change the path are refused, others escaped.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::cluster::error::{Error, Result};

/// The characters that Go's `net/url` does not escape in a path, besides letters, digits and the slash.
const PLAIN: &[u8] = b"-_.~$&+,:;=@";

/// Escapes a name as one path segment.
pub fn segment(name: &str) -> Cow<'_, str> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || PLAIN.contains(byte);
    if name.as_bytes().iter().all(is_plain) {
        return Cow::Borrowed(name);
    }
    let mut escaped = String::with_capacity(name.len() + 8);
    for byte in name.bytes() {
        if is_plain(&byte) {
            escaped.push(char::from(byte))
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    Cow::Owned(escaped)
}

/// Refuses the names that client-go's dynamic client refuses (`validateNamespaceWithOptionalName`), with the same message.
/// Both names may be empty.
///
/// # Errors
/// `Invalid`, which is permanent.
pub fn check_names(namespace: &str, name: &str) -> Result<()> {
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
    fn names_that_client_go_refuses_are_refused_with_its_message() {
        assert!(check_names("", "").is_ok() && check_names("shop", "a b").is_ok());
        for (namespace, name, expected) in [
            ("", "a/b", "invalid resource name \"a/b\": [may not contain '/']"),
            (
                "",
                "a/%",
                "invalid resource name \"a/%\": [may not contain '/' may not contain '%']",
            ),
            ("..", "a", "invalid namespace \"..\": [may not be '..']"),
        ] {
            assert_eq!(check_names(namespace, name).unwrap_err().to_string(), expected);
        }
    }
}
