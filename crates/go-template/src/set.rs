//! A set of parsed templates by name.

use std::collections::HashMap;
use std::sync::Arc;

use super::error::ParseError;
use super::func::FuncMap;
use super::value::Str;
use crate::syntax::ast::Tree;
use crate::syntax::parser;

/// Templates by name. A clone shares the parsed templates. Text that is parsed into the clone does not change the
/// original, as Helm's `tpl` needs it.
#[derive(Clone, Default)]
pub struct Set {
    /// The name of the root template, for error texts.
    name: Arc<str>,
    /// Shared with clones as soon as there are any; never written from then on.
    shared: Arc<HashMap<Arc<str>, Arc<Tree>>>,
    /// The templates parsed since then. They replace those in `shared`.
    own: HashMap<Arc<str>, Arc<Tree>>,
}

/// Parses a text: the templates that it defines, and its own last. Several sets may share them.
///
/// # Errors
/// Those of [`Set::parse`].
pub fn trees<C>(name: &str, text: &Str, funcs: &FuncMap<C>) -> Result<Vec<Arc<Tree>>, ParseError> {
    let trees = parser::parse(name, text, &|name| funcs.contains_key(name))?;
    Ok(trees.into_iter().map(Arc::new).collect())
}

impl Set {
    /// An empty set. `name` is the root template's, which appears in the error for a missing template.
    pub fn new(name: &str) -> Self {
        Set {
            name: name.into(),
            ..Set::default()
        }
    }

    /// The root template's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Parses `text` as the template `name` and adds it and what it defines.
    ///
    /// Within one text a name may be defined once. Over several texts a later definition replaces an earlier one,
    /// except that an empty one (white space and comments only) replaces nothing.
    ///
    /// ```
    /// use go_template::{FuncMap, Set, host::Plain};
    ///
    /// let mut set = Set::new("page");
    /// let funcs = FuncMap::<Plain>::new();
    /// set.parse("page", r#"{{ define "title" }}x{{ end }}"#, &funcs).unwrap();
    /// assert!(set.get("title").is_some());
    /// let error = set.parse("bad", "{{ end }}", &funcs).unwrap_err();
    /// assert_eq!(error.to_string(), "template: bad:1: unexpected {{end}}");
    /// ```
    ///
    /// # Errors
    /// Any text that Go's parser refuses, with Go's message; the set is then unchanged. Unlike Go, the nesting of
    /// control structures and parentheses is limited, because the text may be untrusted and the parser is recursive.
    pub fn parse<C>(&mut self, name: &str, text: impl Into<Str>, funcs: &FuncMap<C>) -> Result<(), ParseError> {
        let trees = trees(name, &text.into(), funcs)?;
        trees.into_iter().for_each(|tree| self.add(tree));
        Ok(())
    }

    /// The template of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tree>> {
        self.own.get(name).or_else(|| self.shared.get(name))
    }

    /// Adds a template, unless it is empty and there is one of its name.
    pub fn add(&mut self, tree: Arc<Tree>) {
        if tree.is_empty() && self.get(tree.name()).is_some() {
            return;
        }
        self.writable().insert(tree.name().into(), tree);
    }

    fn writable(&mut self) -> &mut HashMap<Arc<str>, Arc<Tree>> {
        match Arc::get_mut(&mut self.shared) {
            Some(unshared) if self.own.is_empty() => unshared,
            _ => &mut self.own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exec::exec;
    use super::super::host::Plain;
    use super::super::value::Value;
    use super::*;

    fn parse(set: &mut Set, name: &str, text: &str) -> Result<(), String> {
        let parsed = set.parse(name, text, &FuncMap::<Plain>::new());
        parsed.map_err(|error| error.to_string())
    }

    fn run(set: &Set, name: &str) -> Result<String, String> {
        let mut out = Vec::new();
        let done = exec(set, name, &Value::Nil, &FuncMap::new(), &mut Plain::default(), &mut out);
        done.map(|()| String::from_utf8(out).unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn later_texts_replace_unless_empty() {
        let mut set = Set::new("root");
        parse(&mut set, "a", "{{define \"x\"}}1{{end}}").unwrap();
        parse(&mut set, "b", "{{define \"x\"}}2{{end}}").unwrap();
        assert_eq!(run(&set, "x").unwrap(), "2");
        parse(&mut set, "c", "{{define \"x\"}} {{/* nothing */}}\n{{end}}").unwrap();
        assert_eq!(run(&set, "x").unwrap(), "2");
        assert_eq!(run(&set, "a").unwrap(), "");
        let twice = "{{define \"y\"}}1{{end}}\n{{define \"x\"}}1{{end}}{{define \"x\"}}2{{end}}";
        let error = "template: d:2: template: multiple definition of template \"x\"";
        assert_eq!(parse(&mut set, "d", twice).unwrap_err(), error);
        assert!(set.get("y").is_none(), "a text that fails defines nothing");
    }

    #[test]
    fn a_clone_is_independent() {
        let mut set = Set::new("root");
        parse(&mut set, "a", "{{template \"x\"}}{{define \"x\"}}1{{end}}").unwrap();
        let mut clone = set.clone();
        parse(&mut clone, "b", "{{define \"x\"}}2{{end}}{{define \"y\"}}3{{end}}").unwrap();
        parse(&mut set, "c", "{{define \"z\"}}4{{end}}").unwrap();
        let ran = |set, name| run(set, name).unwrap_or_default();
        assert_eq!(
            (ran(&clone, "a"), ran(&clone, "y"), ran(&clone, "z")),
            ("2".into(), "3".into(), "".into())
        );
        assert_eq!(
            (ran(&set, "a"), ran(&set, "y"), ran(&set, "z")),
            ("1".into(), "".into(), "4".into())
        );
    }

    #[test]
    fn sets_cross_threads() {
        fn check<T: Send + Sync>() {}
        check::<Set>();
    }
}
