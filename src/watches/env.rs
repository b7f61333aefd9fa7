//! Expansion of the environment in `overrideValues`, as Go's `os.ExpandEnv` does it.

/// What a text became, and which variables were missing on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    pub text: String,
    /// Names that the lookup didn't know, each replaced by nothing. In order, each once.
    pub unset: Vec<String>,
}

/// Replaces `$NAME` and `${NAME}` by what `lookup` answers; a name it doesn't know becomes empty.
///
/// Go's rules, with its edges: there is no escape for a dollar sign (`$$` is the variable named `$`); a `$` that no
/// name follows stays; `${}` disappears, as does a `${` that is never closed.
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Expanded {
    let mut out = String::with_capacity(text.len());
    let mut unset: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, after) = rest.split_at(at);
        out.push_str(before);
        let after = &after[1..];
        if after.is_empty() {
            out.push('$');
            return Expanded { text: out, unset };
        }
        let (name, width) = variable(after);
        match name {
            "" if width == 0 => out.push('$'),
            "" => {}
            name => match lookup(name) {
                Some(value) => out.push_str(&value),
                None if unset.iter().any(|known| known == name) => {}
                None => unset.push(name.to_owned()),
            },
        }
        rest = &after[width..];
    }
    out.push_str(rest);
    Expanded { text: out, unset }
}

/// The variable's name at the start of what follows a `$`, and how many bytes it takes. Both are empty if no name is
/// there; an empty name with a width is broken syntax, which Go drops.
fn variable(after: &str) -> (&str, usize) {
    let bytes = after.as_bytes();
    match bytes.first() {
        Some(b'{') => {
            if bytes.len() > 2 && is_special(bytes[1]) && bytes[2] == b'}' {
                return (&after[1..2], 3);
            }
            match after.find('}') {
                Some(end) => (&after[1..end], end + 1),
                None => ("", 1),
            }
        }
        Some(first) if is_special(*first) => (&after[..1], 1),
        _ => {
            let end = bytes
                .iter()
                .position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'));
            let end = end.unwrap_or(bytes.len());
            (&after[..end], end)
        }
    }
}

/// One-character names of the shell: positional parameters and the like.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'#' | b'$' | b'@' | b'!' | b'?' | b'-' | b'0'..=b'9')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("db".into()),
            "PORT_2" => Some("5432".into()),
            "EMPTY" => Some(String::new()),
            "a b" => Some("spaced".into()),
            "1" => Some("one".into()),
            _ => None,
        }
    }

    /// Expectations were taken from `os.Expand` of Go 1.26 with the same variables.
    #[test]
    fn expands_like_go() {
        for (text, expected) in [
            ("plain", "plain"),
            ("$HOST", "db"),
            ("${HOST}:${PORT_2}", "db:5432"),
            ("$HOST:$PORT_2!", "db:5432!"),
            ("$HOSTS", ""),
            ("$HOST-1", "db-1"),
            ("x${EMPTY}y", "xy"),
            ("${a b}", "spaced"),
            ("costs 5$", "costs 5$"),
            ("a $ b", "a $ b"),
            ("$$HOST", "HOST"),
            ("$.HOST", "$.HOST"),
            ("${}x", "x"),
            ("${HOST", "HOST"),
            ("${*}x", "x"),
            ("$12", "one2"),
            ("${12}", ""),
            ("$é", "$é"),
            ("{{ $HOST }}", "{{ db }}"),
        ] {
            assert_eq!(expand(text, &lookup).text, expected, "{text}");
        }
    }

    #[test]
    fn names_each_missing_variable_once() {
        let expanded = expand("$A-${B}-$A-$HOST-$EMPTY-${}", &lookup);
        assert_eq!(
            expanded,
            Expanded {
                text: "---db--".into(),
                unset: vec!["A".into(), "B".into()]
            }
        );
    }
}
