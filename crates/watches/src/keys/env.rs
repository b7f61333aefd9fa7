//! Expansion of environment variables in `overrideValues`, as by Go's `os.ExpandEnv`.

/// An expanded text, and the variables that were not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandedText {
    pub text: String,
    /// Names of unset variables, each replaced by an empty text. In order of appearance, without duplicates.
    pub unset: Vec<String>,
}

/// Replaces `$NAME` and `${NAME}` by the result of `lookup`. An unset variable becomes empty.
///
/// As in Go, there is no escape for a dollar sign: `$$` is the variable named `$`. A `$` without a name stays.
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> ExpandedText {
    let mut out = String::with_capacity(text.len());
    let mut unset: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, behind) = variable(after);
        rest = behind;
        match lookup(name) {
            _ if name.is_empty() => out.push('$'),
            Some(value) => out.push_str(&value),
            None if unset.iter().any(|known| known == name) => {}
            None => unset.push(name.to_owned()),
        }
    }
    out.push_str(rest);
    ExpandedText { text: out, unset }
}

/// Splits the text after a `$` into the name of the variable, which may be empty, and the rest.
fn variable(after: &str) -> (&str, &str) {
    if let Some(braced) = after.strip_prefix('{') {
        return braced.split_once('}').unwrap_or(("", after));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = if after.starts_with('$') {
        1
    } else {
        after.find(|c| !is_name(c)).unwrap_or(after.len())
    };
    after.split_at(end)
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
            _ => None,
        }
    }

    /// Expectations were taken from `os.Expand` of Go 1.26 with the same variables, except for the unclosed brace.
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
            ("${HOST", "${HOST"),
            ("$é", "$é"),
            ("{{ $HOST }}", "{{ db }}"),
        ] {
            assert_eq!(expand(text, &lookup).text, expected, "{text}");
        }
    }

    #[test]
    fn names_each_missing_variable_once() {
        let expanded = expand("$A-${B}-$A-$HOST-$EMPTY-", &lookup);
        assert_eq!(
            expanded,
            ExpandedText {
                text: "---db--".into(),
                unset: vec!["A".into(), "B".into()]
            }
        );
    }
}
