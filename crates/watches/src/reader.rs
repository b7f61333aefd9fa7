//! Reads typed fields of a YAML node. Collects all errors instead of stopping at the first one.

use go_yaml::{Data, Node};

use super::duration;
use super::finding::{FileErrors, FileFinding};

/// Collects the errors and warnings of a file.
pub struct Findings<'a> {
    file: &'a str,
    errors: Vec<FileFinding>,
    warnings: Vec<FileFinding>,
}

/// The entries of a mapping. Each key is known and occurs once.
pub struct MapFields<'n> {
    at: &'n Node,
    entries: Vec<(&'n str, &'n Node)>,
}

/// Describes the content of a node for a message.
pub fn describe(data: &Data) -> String {
    match data {
        Data::Null => "nothing".into(),
        Data::Bool(value) => format!("the bool {value}"),
        Data::Number(value) => format!("the number {value}"),
        Data::String(value) => {
            let short: String = value.chars().take(40).collect();
            let dots = if short.len() < value.len() { "..." } else { "" };
            format!("the string {short:?}{dots}")
        }
        Data::List(_) => "a list".into(),
        Data::Map(_) => "a map".into(),
    }
}

/// Returns the candidate that `word` most likely misspells.
pub fn suggestion<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower = word.to_lowercase();
    let distance = |candidate: &str| strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
    let (best, far) = candidates
        .into_iter()
        .map(|c| (c, distance(c)))
        .min_by_key(|(_, far)| *far)?;
    (far <= best.chars().count().div_ceil(3)).then_some(best)
}

impl<'a> Findings<'a> {
    pub fn new(file: &'a str) -> Self {
        Findings {
            file,
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub fn error_at(&mut self, line: usize, column: usize, message: impl Into<String>) {
        self.errors.push(self.finding(line, column, message.into()));
    }

    pub fn error(&mut self, at: &Node, message: impl Into<String>) {
        self.error_at(at.line, at.column, message);
    }

    pub fn warn_at(&mut self, line: usize, column: usize, message: impl Into<String>) {
        self.warnings.push(self.finding(line, column, message.into()));
    }

    pub fn warn(&mut self, at: &Node, message: impl Into<String>) {
        self.warn_at(at.line, at.column, message);
    }

    fn finding(&self, line: usize, column: usize, message: String) -> FileFinding {
        FileFinding {
            file: self.file.to_owned(),
            line,
            column,
            message,
        }
    }

    /// Returns the result with the warnings, or all errors. Both are sorted by line.
    pub fn finish<T>(mut self, result: T) -> Result<(T, Vec<FileFinding>), FileErrors> {
        if self.errors.is_empty() {
            self.warnings.sort_by_key(|warning| (warning.line, warning.column));
            return Ok((result, self.warnings));
        }
        self.errors.sort_by_key(|error| (error.line, error.column));
        Err(FileErrors(self.errors))
    }

    /// Adds an error: the field is not of the expected type.
    pub fn type_error(&mut self, at: &Node, name: &str, expected: &str) {
        self.error(at, format!("`{name}` must be {expected}, not {}", describe(&at.data)));
    }

    /// Reads a string. Returns `None` if the field is absent or null, or has another type, which is an error.
    pub fn read_string<'n>(&mut self, fields: &MapFields<'n>, name: &str) -> Option<(&'n str, &'n Node)> {
        let node = fields.get(name)?;
        match &node.data {
            Data::String(text) => Some((text, node)),
            _ => {
                self.type_error(node, name, "a string");
                None
            }
        }
    }

    /// Reads a list. Returns an empty list if the field is absent or null, or has another type, which is an error.
    pub fn read_list<'n>(&mut self, fields: &MapFields<'n>, name: &str) -> &'n [Node] {
        let Some(node) = fields.get(name) else { return &[] };
        match &node.data {
            Data::List(items) => items,
            _ => {
                self.type_error(node, name, "a list");
                &[]
            }
        }
    }

    /// Reads a list of strings. An item that `check` rejects is an error at the place of the item.
    pub fn read_strings(
        &mut self,
        fields: &MapFields<'_>,
        name: &str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Vec<String> {
        let mut out = Vec::new();
        for item in self.read_list(fields, name) {
            match &item.data {
                Data::String(text) => match check(text) {
                    Ok(()) => out.push(text.clone()),
                    Err(message) => self.error(item, message),
                },
                _ => self.type_error(item, name, "a list of strings"),
            }
        }
        out
    }

    /// Reads a string. If it is not valid, `message` is the error.
    pub fn read_checked(
        &mut self,
        fields: &MapFields<'_>,
        name: &str,
        is_valid: impl Fn(&str) -> bool,
        message: impl Fn(&str) -> String,
    ) -> Option<String> {
        let (text, node) = self.read_string(fields, name)?;
        if text.is_empty() && name != "group" {
            self.error(node, format!("`{name}` is empty"));
        } else if !is_valid(text) {
            self.error(node, message(text));
        }
        Some(text.to_owned())
    }

    /// Reads a duration. 0 returns `None` with a warning; `zero` says what 0 means.
    pub fn read_duration(&mut self, fields: &MapFields<'_>, name: &str, zero: &str) -> Option<std::time::Duration> {
        let node = fields.get(name)?;
        let text = match &node.data {
            Data::String(text) => text.clone(),
            Data::Number(number) => number.to_string(),
            _ => {
                self.type_error(node, name, "a duration such as 1m30s");
                return None;
            }
        };
        match duration::parse(&text) {
            Ok(period) if period.is_zero() => {
                self.warn(node, format!("`{name}: 0` {zero}"));
                None
            }
            Ok(period) => Some(period),
            Err(error) => {
                self.error(node, format!("`{name}`: {error}"));
                None
            }
        }
    }

    /// Reads a bool. Returns `default` if the field is absent or null, or has another type, which is an error.
    pub fn read_bool(&mut self, fields: &MapFields<'_>, name: &str, default: bool) -> bool {
        match fields.get(name).map(|node| (node, &node.data)) {
            Some((_, Data::Bool(value))) => *value,
            Some((node, _)) => {
                self.type_error(node, name, "true or false");
                default
            }
            None => default,
        }
    }

    /// Reads a whole number of at least `least`, which is 0 or 1.
    pub fn read_count(&mut self, fields: &MapFields<'_>, name: &str, least: usize) -> Option<usize> {
        let node = fields.get(name)?;
        let count = match &node.data {
            Data::Number(number) => number.as_u64().and_then(|count| usize::try_from(count).ok()),
            _ => None,
        };
        let count = count.filter(|count| *count >= least);
        if count.is_none() {
            let expected = ["a whole number", "a whole number from 1 on"];
            self.type_error(node, name, expected[least.min(1)]);
        }
        count
    }

    /// Reads one of several words. Returns the default if the field is absent, or has another word, which is an error.
    pub fn read_choice<T: Copy + Default, const N: usize>(
        &mut self,
        fields: &MapFields<'_>,
        name: &str,
        choices: [(&'static str, T); N],
    ) -> T {
        let Some((text, node)) = self.read_string(fields, name) else {
            return T::default();
        };
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text) {
            return *choice;
        }
        let words = choices.map(|(word, _)| word);
        let hint = suggestion(text, words).map(|best| format!(": did you mean {best}?"));
        let hint = hint.unwrap_or_default();
        self.error(
            node,
            format!("`{name}` must be one of {}, not {text:?}{hint}", words.join(", ")),
        );
        T::default()
    }
}

impl<'n> MapFields<'n> {
    /// Opens a mapping whose keys are all in `known`. Unknown keys and repeated keys are errors. Returns `None` if
    /// the node is not a mapping, which is an error. `what` names the mapping in messages.
    pub fn open(node: &'n Node, what: &str, known: &[&'static str], findings: &mut Findings<'_>) -> Option<Self> {
        let Data::Map(map) = &node.data else {
            findings.error(node, format!("{what} must be a map, not {}", describe(&node.data)));
            return None;
        };
        let mut entries: Vec<(&str, &Node)> = Vec::new();
        let mut seen: Vec<(&str, usize)> = Vec::new();
        for (key, value) in map {
            let Data::String(name) = &key.data else {
                findings.error(key, format!("keys of {what} are strings, not {}", describe(&key.data)));
                continue;
            };
            if let Some((_, line)) = seen.iter().find(|(seen, _)| seen == name) {
                findings.error(
                    key,
                    format!("`{name}` is there twice: first on line {line}; remove one"),
                );
                continue;
            }
            seen.push((name, key.line));
            if known.contains(&name.as_str()) {
                // As in Go's decoder, null leaves the field unset.
                if !matches!(value.data, Data::Null) {
                    entries.push((name, value));
                }
            } else {
                findings.error(
                    key,
                    match suggestion(name, known.iter().copied()) {
                        Some(best) => format!("unknown key `{name}`: did you mean `{best}`?"),
                        None => format!("unknown key `{name}`; {what} knows: {}", known.join(", ")),
                    },
                );
            }
        }
        Some(MapFields { at: node, entries })
    }

    /// Returns the value of a key. `None`: absent or null.
    pub fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    }

    /// Returns the node of the mapping, for the place of messages.
    pub fn at(&self) -> &'n Node {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_keys_have_a_suggestion() {
        let keys = ["selector", "chart", "kind", "watchDependentResources", "allow"];
        for (word, expected) in [
            ("slector", Some("selector")),
            ("Chart", Some("chart")),
            ("kidn", Some("kind")),
            ("watchDependantResource", Some("watchDependentResources")),
            ("replicas", None),
            ("x", None),
        ] {
            assert_eq!(suggestion(word, keys), expected, "{word}");
        }
    }

    #[test]
    fn a_repeated_key_is_an_error_with_both_places() {
        let node = |line, data| Node { line, column: 3, data };
        let entry = |line| {
            (
                node(line, Data::String("kind".into())),
                node(line, Data::String("A".into())),
            )
        };
        let map = node(2, Data::Map(vec![entry(2), entry(5)]));
        let mut findings = Findings::new("w.yaml");
        let fields = MapFields::open(&map, "a watch", &["kind"], &mut findings).unwrap();
        assert_eq!(fields.entries.len(), 1);
        assert_eq!(
            findings.finish(()).unwrap_err().to_string(),
            "w.yaml:5:3: `kind` is there twice: first on line 2; remove one"
        );
    }
}
