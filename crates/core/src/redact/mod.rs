//! Secret values, and their removal from every text that the operator emits.
//!
//! Each release has its own [`Secrets`], which are dropped with the release. A search costs a few nanoseconds per byte.

mod edge;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL_NOPAD};
use edge::Edge;

/// Values of fewer bytes are not redacted: they are words that every text has, such as `true` and `admin`.
pub const SHORTEST: usize = 6;
/// The lines of a longer value count as secrets of their own from this length on, in bytes.
const SHORTEST_LINE: usize = 16;
/// Values of more bytes are only found as they are, and line by line: no message quotes such a value in base64.
const LONGEST: usize = 16 << 10;
/// What stands in the place of a secret value.
pub const MARK: &str = "[redacted]";
/// The first half of a value is redacted as well, as messages cut long values; it has at least so many bytes.
const SHORTEST_HALF: usize = 8;
/// go-yaml quotes so many characters of a value, and then dots (decode.go, `terror`).
const GO_YAML_CHARS: usize = 7;
/// A value that wasn't learned again in this many renders is forgotten.
const TURNS: u32 = 8;

/// Words that the operator's own messages are made of. A Secret that holds one of them can't be distinguished from them.
#[rustfmt::skip]
const OWN_WORDS: [&str; 56] = [
    "archive", "backoff", "cluster", "config", "controller", "correct", "custom", "default", "delete", "disabled",
    "enabled", "events", "failed", "format", "forbidden", "function", "health", "include", "install", "internal",
    "invalid", "kubectl", "manager", "memory", "message", "metadata", "namespace", "network", "nothing", "object",
    "operator", "orphan", "password", "policy", "random", "reader", "release", "replicas", "required", "resource",
    "schema", "secret", "secrets", "server", "service", "source", "status", "string", "system", "template", "update",
    "upgrade", "values", "version", "volume", "worker",
];

/// The secret values of one release.
#[derive(Default)]
pub struct Secrets(Mutex<Index>);

/// Everything that is looked for.
#[derive(Default)]
struct Index {
    /// By their first bytes.
    needles: HashMap<[u8; SHORTEST], Vec<Needle>>,
    /// Texts that are no secrets, even if a Secret contains them.
    public: HashSet<String>,
    turn: u32,
}

struct Needle {
    bytes: Box<[u8]>,
    edge: Edge,
    /// When it was learned last.
    turn: u32,
}

impl Secrets {
    fn index(&self) -> MutexGuard<'_, Index> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns a secret value: as it is, escaped as messages quote it, in base64 (at any offset), and each of
    /// its lines. Values shorter than [`SHORTEST`] are left out, and so are names that are [public](Secrets::publish) and
    /// words that the operator's own messages are made of.
    pub fn learn(&self, value: &str) {
        self.learn_unless(value, &|_| false);
    }

    /// The same for what is no secret if `is_known` says so of it, such as a word of the chart's own text. That is asked
    /// once for each value.
    pub fn learn_unless(&self, value: &str, is_known: &dyn Fn(&str) -> bool) {
        let value = value.trim();
        let mut index = self.index();
        if value.len() < SHORTEST || OWN_WORDS.contains(&value) || index.is_public(value, is_known) {
            return;
        }
        for form in forms(value) {
            let edge = if form == value { Edge::of(value) } else { Edge::Any };
            index.insert(form.as_bytes(), edge);
        }
        let lines = value.lines().map(str::trim);
        for line in lines.filter(|line| line.len() >= SHORTEST_LINE && !line.starts_with("-----")) {
            if !index.is_public(line, is_known) {
                index.insert(line.as_bytes(), Edge::of(line));
            }
        }
    }

    /// Says that a text is no secret though a Secret may hold it: the names of the release and of its members, which
    /// every reader of the release sees.
    pub fn publish(&self, name: &str) {
        let mut index = self.index();
        if name.len() >= SHORTEST && !index.public.contains(name) {
            index.remove(name.as_bytes());
            index.public.insert(name.to_owned());
        }
    }

    /// Ends a render: removes values that the last few renders did not learn again.
    pub fn turn(&self) {
        let mut index = self.index();
        index.turn = index.turn.wrapping_add(1);
        let now = index.turn;
        index.needles.retain(|_, needles| {
            needles.retain(|needle| now.wrapping_sub(needle.turn) <= TURNS);
            !needles.is_empty()
        });
    }

    /// The text with [`MARK`] in the place of every secret value.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let index = self.index();
        if index.needles.is_empty() || text.len() < SHORTEST {
            return Cow::Borrowed(text);
        }
        let mut out = String::new();
        let mut written = 0;
        // The run of overlapping matches that is being gathered.
        let mut run: Option<(usize, usize)> = None;
        let mut close = |(start, end): (usize, usize)| {
            out.push_str(text.get(written..start).unwrap_or_default());
            out.push_str(MARK);
            written = end;
        };
        for at in 0..=text.len() - SHORTEST {
            let Some(length) = index.longest(text, at) else {
                continue;
            };
            // The beginning of a value may end amid the bytes of a character.
            let to = text.floor_char_boundary(at + length);
            if index.is_in_name(text, at, to) {
                continue;
            }
            run = Some(match run {
                Some((start, end)) if at <= end => (start, end.max(to)),
                Some(done) => {
                    close(done);
                    (at, to)
                }
                None => (at, to),
            });
        }
        let Some(last) = run else {
            return Cow::Borrowed(text);
        };
        close(last);
        out.push_str(text.get(written..).unwrap_or_default());
        Cow::Owned(out)
    }
}

/// Shows no value, nor a digest of one.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(..)")
    }
}
impl Index {
    /// True if a text is no secret.
    fn is_public(&mut self, text: &str, is_known: &dyn Fn(&str) -> bool) -> bool {
        let is_needle = || {
            let needles = text.as_bytes().first_chunk().and_then(|start| self.needles.get(start));
            needles.is_some_and(|needles| needles.iter().any(|needle| *needle.bytes == *text.as_bytes()))
        };
        if self.public.contains(text) {
            return true;
        }
        let is_public = !is_needle() && is_known(text);
        if is_public {
            self.public.insert(text.to_owned());
        }
        is_public
    }

    /// True if the text at this place is part of a public name.
    fn is_in_name(&self, text: &str, from: usize, to: usize) -> bool {
        let (before, after) = (text.get(..from).unwrap_or_default(), text.get(to..).unwrap_or_default());
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
        let start = before.trim_end_matches(is_part).len();
        let end = text.len() - after.trim_start_matches(is_part).len();
        let is_edge = |c: char| matches!(c, '.' | ':');
        let name = text.get(start..end).unwrap_or_default().trim_matches(is_edge);
        name.len() > to - from && self.public.contains(name)
    }

    fn insert(&mut self, bytes: &[u8], edge: Edge) {
        let Some(start) = bytes.first_chunk::<SHORTEST>() else {
            return;
        };
        let turn = self.turn;
        let needles = self.needles.entry(*start).or_default();
        match needles.iter_mut().find(|needle| *needle.bytes == *bytes) {
            Some(known) => known.turn = turn,
            None => needles.push(Needle {
                bytes: bytes.into(),
                edge,
                turn,
            }),
        }
    }

    fn remove(&mut self, bytes: &[u8]) {
        if let Some(needles) = bytes.first_chunk().and_then(|start| self.needles.get_mut(start)) {
            needles.retain(|needle| *needle.bytes != *bytes);
        }
    }

    /// How much of a text from there on is a secret, or the first half of one and more.
    fn longest(&self, all: &str, at: usize) -> Option<usize> {
        let text = all.as_bytes().get(at..)?;
        let needles = self.needles.get(text.first_chunk::<SHORTEST>()?)?;
        let common = |needle: &Needle| {
            let length = text
                .iter()
                .zip(&needle.bytes)
                .take_while(|(one, other)| one == other)
                .count();
            let enough = needle
                .bytes
                .len()
                .min(needle.bytes.len().div_ceil(2).max(SHORTEST_HALF));
            let is_whole = length == needle.bytes.len();
            (length >= enough && needle.edge.fits(all, at, at + length, is_whole)).then_some(length)
        };
        needles.iter().filter_map(common).max()
    }
}

/// What a value looks like in messages.
fn forms(value: &str) -> BTreeSet<String> {
    let mut forms = BTreeSet::from([value.to_owned()]);
    if let Some((end, _)) = value.char_indices().nth(GO_YAML_CHARS) {
        forms.insert(format!("{}...", value.get(..end).unwrap_or_default()));
    }
    if value.len() <= LONGEST {
        // Go's %q, Rust's {:?} and JSON; the second time, a message that quotes such a message.
        let quoted = quote(value, '"');
        forms.insert(quote(&quoted, '"'));
        // JSON as Go writes it, the schema's messages, YAML.
        let html = [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026")];
        forms.insert(
            html.iter()
                .fold(quoted.clone(), |text, (from, to)| text.replace(*from, to)),
        );
        forms.insert(quoted);
        forms.insert(quote(value, '\''));
        forms.insert(value.replace('\'', "''"));
        for shift in 0..3 {
            forms.insert(encoded(value, shift, &BASE64_NOPAD));
            forms.insert(encoded(value, shift, &BASE64URL_NOPAD));
            // As in a Secret that is itself quoted in base64.
            forms.insert(encoded(&BASE64.encode(value.as_bytes()), shift, &BASE64_NOPAD));
        }
    }
    // A set is not redacted by what it writes itself.
    forms.retain(|form| form.len() >= SHORTEST && !MARK.contains(form.as_str()));
    forms
}

fn quote(text: &str, mark: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for char in text.chars() {
        match char {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            char if char == mark => out.extend(['\\', mark]),
            char => out.push(char),
        }
    }
    out
}

/// The digits of the base64 of a text that depend on nothing but a value in it. `shift`: how many bytes stand before the
/// value, modulo 3.
fn encoded(value: &str, shift: usize, encoding: &data_encoding::Encoding) -> String {
    let mut bytes = vec![0; shift];
    bytes.extend_from_slice(value.as_bytes());
    let digits = encoding.encode(&bytes);
    let (from, to) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
    digits.get(from..to).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn secrets(values: &[&str]) -> Arc<Secrets> {
        let secrets = Arc::new(Secrets::default());
        values.iter().for_each(|value| secrets.learn(value));
        secrets
    }

    #[test]
    fn values_are_found_however_they_are_written() {
        let value = "p\"a's\\s<w>örd";
        let set = secrets(&[value]);
        let quoted = format!("{value:?}");
        let json = serde_json::to_string(value).unwrap();
        let texts = [
            value.to_owned(),
            quoted.clone(),
            format!("{quoted:?}"),
            json.replace('<', "\\u003c").replace('>', "\\u003e"),
            json,
            format!("'{}'", value.replace('\'', "''")),
            format!("'{}'", value.replace('\\', "\\\\").replace('\'', "\\'")),
            BASE64.encode(value.as_bytes()),
            BASE64.encode(format!("a{value}b").as_bytes()),
            BASE64.encode(format!("ab{value}\n").as_bytes()),
            data_encoding::BASE64URL.encode(format!("abc{value}").as_bytes()),
            BASE64.encode(format!("a{}", BASE64.encode(value.as_bytes())).as_bytes()),
            format!("{}...", value.chars().take(7).collect::<String>()),
        ];
        for text in texts {
            let clean = set.redact(&text);
            // At most one digit on each side depends on the bytes at the boundary.
            assert!(clean.contains(MARK) && clean.len() <= MARK.len() + 8, "{text}: {clean}");
        }
    }

    #[test]
    fn the_text_around_them_stays() {
        for (values, text, clean) in [
            (&["hunter2"][..], "ähunter2ö hunter2", "ä[redacted]ö [redacted]"),
            (&["hunter2"], "hunter", "hunter"),
            (&["hunter2", "hunter2-and-more"], "hunter2-and-more.", "[redacted]."),
            (&["abcd1fgh", "1fghijkl"], "-abcd1fghijkl-", "-[redacted]-"),
            (&["abcde1", "ghijk2"], "abcde1ghijk2", "[redacted]"),
            (
                &["admin", "true", "", "5432"],
                "admin is true: 5432",
                "admin is true: 5432",
            ),
            (&["  hunter2\n"], "a hunter2 b", "a [redacted] b"),
            (
                &["0123456789abcdefghij"],
                "0123456789a 012345678-",
                "[redacted] 012345678-",
            ),
            (&["ß123456789ß"], "ß1234567ö", "[redacted]ö"),
            (&["ßßßßßßß"], "ßßßßä", "[redacted]ä"),
            (&["redacted"], "[redacted]", "[redacted]"),
            (&["größe-ß"], "größe-ß größe", "[redacted] größe"),
        ] {
            assert_eq!(secrets(values).redact(text), clean, "{values:?} {text}");
        }
    }

    #[test]
    fn lines_of_a_value_count() {
        let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nshort\n-----END KEY-----\n";
        let set = secrets(&[key]);
        assert_eq!(set.redact("at MIIEvQIBADANBgkqhkiG9w0BAQEFAASC:"), "at [redacted]:");
        assert_eq!(set.redact("short -----BEGIN KEY-----"), "short -----BEGIN KEY-----");
        assert_eq!(set.redact(&format!("{key:?}")), "\"[redacted]\\n\"");
        let long = "long line of a value\n".repeat(2000);
        assert_eq!(secrets(&[&long]).redact("a long line of a value"), "a [redacted]");
    }

    #[test]
    fn words_are_secrets_where_they_stand_alone() {
        let set = secrets(&["elastic", "puller", "correct-horse-battery", "7391528460", "Hunter"]);
        for (text, clean) in [
            (
                "StatefulSet elasticsearch-master, elasticity, ELASTIC",
                "StatefulSet elasticsearch-master, elasticity, ELASTIC",
            ),
            (
                "user=elastic elastic: (elastic)",
                "user=[redacted] [redacted]: ([redacted])",
            ),
            ("ELASTIC_elastic _elastic elastic_", "ELASTIC_elastic _elastic elastic_"),
            (
                r#""a\nelastic\u003celastic%2Felastic""#,
                r#""a\n[redacted]\u003c[redacted]%2F[redacted]""#,
            ),
            ("a.com/correct-horse-battery/x", "a.com/[redacted]/x"),
            ("correct-horse... correct-horse is", "[redacted]... correct-horse is"),
            (
                "x7391528460y 17391528460 73915284601",
                "x[redacted]y 17391528460 73915284601",
            ),
            ("Hunters", "Hunters"),
            ("images/puller", "images/[redacted]"),
            ("elastic", "[redacted]"),
        ] {
            assert_eq!(set.redact(text), clean, "{text}");
        }
        // Encodings are found in any place: such a text occurs only as an encoding.
        let user = BASE64.encode(b"user:elastic!");
        assert!(set.redact(&user).contains(MARK), "{user}");
        set.publish("web-elastic-0.shop");
        set.publish("system:elastic");
        for name in [
            "web-elastic-0.shop",
            "/web-elastic-0.shop/",
            "\"system:elastic\": no",
            "web-elastic-0.shop.",
        ] {
            assert_eq!(set.redact(name), name);
        }
        assert_eq!(set.redact("web-elastic-1.shop"), "web-[redacted]-1.shop");
    }

    #[test]
    fn known_words_and_those_of_our_own_are_no_secrets() {
        let set = Secrets::default();
        let lookups = std::cell::RefCell::new(Vec::new());
        let known = |text: &str| {
            lookups.borrow_mut().push(text.to_owned());
            ["known-one", "known line of a config"].contains(&text)
        };
        for _ in 0..2 {
            for value in [
                "template",
                "known-one",
                "secret-one",
                "known line of a config\nsecret line of a config",
            ] {
                set.learn_unless(value, &known);
            }
        }
        let text = "template known-one secret-one known line of a config, secret line of a config";
        let clean = "template known-one [redacted] known line of a config, [redacted]";
        assert_eq!(set.redact(text), clean);
        assert_eq!(lookups.borrow().iter().filter(|text| *text == "secret-one").count(), 1);
    }

    #[test]
    fn names_are_public_in_either_order() {
        let set = secrets(&["shop-db", "hunter2"]);
        set.publish("shop-db");
        assert_eq!(set.redact("shop-db hunter2"), "shop-db [redacted]");
        set.learn("shop-db");
        assert_eq!(set.redact("shop-db"), "shop-db");
    }

    #[test]
    fn what_is_not_learned_again_is_forgotten() {
        let set = secrets(&["hunter2", "stays-here"]);
        for _ in 0..=TURNS {
            assert_eq!(set.redact("hunter2"), MARK);
            set.turn();
            set.learn("stays-here");
        }
        assert_eq!(set.redact("hunter2 stays-here"), "hunter2 [redacted]");
        assert!(!format!("{set:?}").contains("stays"));
    }
}
