//! Texts that are parsed by whoever wants their templates first.
//!
//! A text that defines nothing concerns nobody until its own template is executed. So other threads parse while one
//! executes, in the order in which it does; where it catches up with them it does something from the end.

use std::sync::{Arc, OnceLock, Weak};

use super::ast::Tree;
use super::error::ParseError;
use super::parallel::Promise;
use super::parser;
use super::set::{FuncNames, Set};
use super::value::Str;

/// The texts of a set that is being parsed.
pub struct Parsing {
    /// The name of the root template, for error texts.
    name: String,
    texts: Arc<[Text]>,
}

/// A text of a set. A clone is the same text: what was parsed of one, was of both.
#[derive(Clone)]
pub struct Text {
    name: Arc<str>,
    source: Str,
    defines: OnceLock<bool>,
    trees: Promise<Trees>,
}

/// What a text defines, and its own template.
type Trees = Result<Vec<Arc<Tree>>, ParseError>;

/// A text that may still have to be parsed.
#[derive(Clone)]
pub(super) struct Later {
    texts: Arc<[Text]>,
    at: usize,
}

// === impl Parsing ===

impl Parsing {
    /// `set` is the name of the root template; `texts` have names of their own, each once, and stand in the order in which
    /// they are executed.
    pub fn new(set: &str, texts: impl Iterator<Item = Text>) -> Self {
        Parsing {
            name: set.to_owned(),
            texts: texts.collect(),
        }
    }

    /// The texts.
    pub fn texts(&self) -> &[Text] {
        &self.texts
    }

    /// What another thread can do of it: those that define templates, from the last on, then the others, from the first
    /// on. It ends early when nobody wants them any more.
    pub fn task(&self) -> impl FnOnce() + Send + use<> {
        let texts = Arc::downgrade(&self.texts);
        let all = 0..self.texts.len();
        move || {
            let order = all.clone().rev().map(|at| (at, true)).chain(all.map(|at| (at, false)));
            for (at, defines) in order {
                let Some(texts) = Weak::upgrade(&texts) else { return };
                if let Some(text) = texts.get(at).filter(|text| text.defines() == defines) {
                    text.trees.begin();
                }
            }
        }
    }

    /// The set, as soon as all is known that texts define for others. What isn't parsed by then is parsed when it is
    /// wanted; [`Parsing::finish`] tells whether it could be.
    ///
    /// # Errors
    /// Those of [`Parsing::finish`], if one is known by then.
    pub fn begun(&self) -> Result<Set, ParseError> {
        let mut set = Set::new(&self.name);
        for text in self.texts.iter().filter(|text| text.defines()) {
            match text.trees.get() {
                Ok(trees) => trees.iter().for_each(|tree| set.add(Arc::clone(tree))),
                // Another text's error may come before it.
                Err(_) => return self.finish(),
            }
        }
        let later = || self.texts.iter().enumerate().filter(|(_, text)| !text.defines());
        if later().any(|(_, text)| set.contains(&text.name)) {
            // Which of two counts depends on what is in them.
            return self.finish();
        }
        for (at, text) in later() {
            let texts = Arc::clone(&self.texts);
            set.add_later(Arc::clone(&text.name), Later { texts, at });
        }
        Ok(set)
    }

    /// Tells whether all texts could be parsed, once they are.
    ///
    /// # Errors
    /// The first text's that can't be parsed.
    pub fn check(&self) -> Result<(), ParseError> {
        let mut results = self.texts.iter().map(|text| text.trees.get());
        results.try_for_each(|trees| trees.as_ref().map(|_| ()).map_err(ParseError::clone))
    }

    /// The set when all texts are parsed. A later definition replaces an earlier one, except that an empty one (white
    /// space and comments only) replaces nothing.
    ///
    /// # Errors
    /// The first text's that can't be parsed.
    pub fn finish(&self) -> Result<Set, ParseError> {
        let mut set = Set::new(&self.name);
        for text in self.texts.iter() {
            let trees = text.trees.get().as_ref().map_err(ParseError::clone)?;
            trees.iter().for_each(|tree| set.add(Arc::clone(tree)));
        }
        Ok(set)
    }
}

// === impl Text ===

impl Text {
    /// A text of that name, of which nothing is parsed yet.
    pub fn new<F: FuncNames + Sync + ?Sized>(name: &str, source: &Str, funcs: &'static F) -> Self {
        let name: Arc<str> = name.into();
        let (wanted, text) = (Arc::clone(&name), source.clone());
        Text {
            name,
            source: source.clone(),
            defines: OnceLock::new(),
            trees: Promise::new(move || {
                let trees = parser::parse(&wanted, &text, &|name| funcs.has(name))?;
                Ok(trees.into_iter().map(Arc::new).collect())
            }),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is parsed.
    pub fn source(&self) -> &Str {
        &self.source
    }

    /// Whether it may define templates besides its own.
    fn defines(&self) -> bool {
        *self.defines.get_or_init(|| may_define(self.source.as_bytes()))
    }
}

// === impl Later ===

impl Later {
    /// The template of that name, if the text could be parsed. While another thread is at it, this one parses others.
    pub fn tree(&self, name: &str) -> Option<&Arc<Tree>> {
        let text = self.texts.get(self.at)?;
        if !text.trees.is_done() && !text.trees.begin() {
            for other in self.texts.iter().rev() {
                if text.trees.is_done() {
                    break;
                }
                other.trees.begin();
            }
        }
        let mut trees = text.trees.get().as_ref().ok()?.iter();
        trees.find(|tree| tree.name() == name)
    }
}

/// Whether a text may define templates: whether there is an action that begins as those do. Of comments and strings that
/// look like one, too.
fn may_define(text: &[u8]) -> bool {
    [&b"define"[..], b"block"].iter().any(|word| {
        memchr::memmem::find_iter(text, word).any(|at| {
            let before = text.get(..at).unwrap_or_default();
            let spaces = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'-');
            let end = before.iter().rposition(|byte| !spaces(byte)).map_or(0, |last| last + 1);
            before.get(..end).is_some_and(|before| before.ends_with(b"{{"))
        })
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::exec::exec;
    use super::super::func::FuncMap;
    use super::super::host::Plain;
    use super::super::value::Value;
    use super::*;

    static NO_FUNCS: &[&str] = &[];

    fn begin(texts: &[(&str, &str)]) -> Parsing {
        let text = |(name, text): &(&str, &str)| Text::new(name, &Str::from(*text), NO_FUNCS);
        Parsing::new("root", texts.iter().map(text))
    }

    /// What each template makes, by name.
    fn made(set: &Set) -> Vec<(String, String)> {
        let mut names: Vec<String> = set.names().map(str::to_owned).collect();
        names.sort_unstable();
        let run = |name: String| {
            let mut out = Vec::new();
            let result = exec(
                set,
                &name,
                &Value::Nil,
                &FuncMap::new(),
                &mut Plain::default(),
                &mut out,
            );
            let text = result.map_or_else(|e| format!("{:?}", e.cause), |()| String::from_utf8(out).unwrap());
            (name, text)
        };
        names.into_iter().map(run).collect()
    }

    #[test]
    fn what_may_define_is_found() {
        let table = [
            ("{{define \"x\"}}1{{end}}", true),
            ("a {{- define \"x\" -}} 1 {{- end -}}", true),
            ("{{\n\t define \"x\"}}1{{end}}", true),
            ("{{ block \"x\" . }}1{{ end }}", true),
            ("{{- \r\nblock \"x\" .}}1{{end}}", true),
            ("{{/* define */}} define {{ \"block\" }}", false),
            ("{{ .define }}{{ .block }} { {define }", false),
            ("define", false),
            ("{define {{ \"\" }}", false),
            ("{{ if . }}block{{ end }}", false),
            ("", false),
        ];
        for (text, want) in table {
            assert_eq!(may_define(text.as_bytes()), want, "{text:?}");
            let trees = parser::parse("t", &text.into(), &|_| false).unwrap();
            assert_eq!(trees.len() > 1, want, "{text:?}");
        }
    }

    #[test]
    fn whoever_parses_the_set_is_the_same() {
        let define = "{{define \"x\"}}1{{end}}";
        let table: [&[(&str, &str)]; 6] = [
            &[
                ("a", "{{template \"x\"}} {{template \"b\"}}"),
                ("b", "B"),
                ("_c", define),
            ],
            &[
                ("a", define),
                ("b", "{{define \"x\"}}2{{end}}"),
                ("c", "{{template \"x\"}}"),
            ],
            &[
                ("a", define),
                ("b", "{{define \"x\"}} {{end}}"),
                ("c", "{{template \"x\"}}"),
            ],
            // A definition has the name of a text, which is empty or not, and comes before or after it.
            &[
                ("a", "{{define \"b\"}}2{{end}}"),
                ("b", " "),
                ("c", "{{template \"b\"}}"),
            ],
            &[("a", "A"), ("b", "{{define \"a\"}}2{{end}}{{template \"a\"}}")],
            &[("a", ""), ("b", "{{define \"a\"}} {{end}}{{template \"a\"}}")],
        ];
        for texts in table {
            let mut plain = Set::new("root");
            texts
                .iter()
                .for_each(|(name, text)| plain.parse(name, text, NO_FUNCS).unwrap());
            let want = made(&plain);
            assert_eq!(made(&begin(texts).finish().unwrap()), want, "{texts:?}");
            assert_eq!(made(&begin(texts).begun().unwrap()), want, "{texts:?}");
            for _ in 0..20 {
                let parsing = begin(texts);
                let threads: Vec<_> = (0..3).map(|_| thread::spawn(parsing.task())).collect();
                assert_eq!(made(&parsing.begun().unwrap()), want, "{texts:?}");
                threads.into_iter().for_each(|thread| thread.join().unwrap());
                assert_eq!(made(&parsing.finish().unwrap()), want, "{texts:?}");
            }
        }
    }

    #[test]
    fn the_first_error_is_told() {
        let parsing = begin(&[
            ("a", "A"),
            ("b", "{{ if }}"),
            ("c", "{{define \"x\"}}{{ end"),
            ("d", "{{ nothing }}"),
        ]);
        let errors = [parsing.begun().err(), parsing.finish().err(), parsing.check().err()];
        for error in errors {
            assert_eq!(error.unwrap().name, "b");
        }
        let parsing = begin(&[("a", "{{template \"b\"}}"), ("b", "{{ nothing }}")]);
        let set = parsing.begun().unwrap();
        assert!(set.contains("b") && set.get("b").is_none());
        assert_eq!(parsing.check().unwrap_err().name, "b");
    }

    #[test]
    fn nothing_is_parsed_that_nobody_wants() {
        let parsing = begin(&[("a", "A"), ("b", "B")]);
        let (task, texts) = (parsing.task(), Arc::downgrade(&parsing.texts));
        let trees: Vec<_> = parsing.texts.iter().map(|text| text.trees.clone()).collect();
        drop(parsing);
        task();
        assert!(texts.upgrade().is_none());
        assert!(trees.iter().all(|trees| !trees.is_done()));
    }
}
