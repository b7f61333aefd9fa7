//! A name space of parsed templates.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::ast::Tree;
use super::error::ParseError;
use super::func::FuncMap;
use super::parser;
use super::value::Str;

/// Templates by name. Cloning shares what is there: more text can be parsed into the clone without touching the
/// original, which is what Helm's `tpl` needs.
#[derive(Clone, Default)]
pub struct Set {
    /// The name of the root template, for error texts.
    name: Arc<str>,
    /// Shared with clones as soon as there are any; never written from then on.
    shared: Arc<HashMap<Arc<str>, Arc<Tree>>>,
    /// What was parsed since; wins over `shared`.
    own: HashMap<Arc<str>, Arc<Tree>>,
}

/// The functions that a template may name. The built-in ones need not be listed.
pub trait FuncNames {
    /// Whether there is a function of this name.
    fn has(&self, name: &str) -> bool;
}

impl<C: ?Sized> FuncNames for FuncMap<C> {
    fn has(&self, name: &str) -> bool {
        self.contains_key(name)
    }
}

impl FuncNames for HashSet<&str> {
    fn has(&self, name: &str) -> bool {
        self.contains(name)
    }
}

impl FuncNames for [&str] {
    fn has(&self, name: &str) -> bool {
        self.contains(&name)
    }
}

/// Parses a text: the templates that it defines, and its own last. Several sets may share them.
///
/// # Errors
/// Those of [`Set::parse`].
pub fn trees(name: &str, text: &Str, funcs: &(impl FuncNames + ?Sized)) -> Result<Vec<Arc<Tree>>, ParseError> {
    let trees = parser::parse(name, text, &|name| funcs.has(name))?;
    Ok(trees.into_iter().map(Arc::new).collect())
}

// === impl Set ===

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

    /// Parses `text` (bytes, usually UTF-8) as the template `name` and adds it and what it defines.
    ///
    /// Within one text a name may be defined once. Over several texts a later definition replaces an earlier one,
    /// except that an empty one (white space and comments only) replaces nothing.
    ///
    /// # Errors
    /// Whatever Go's parser refuses, in its words; then the set is as before. Beyond Go, nesting of control structures
    /// and parentheses is limited, since it is somebody's input that recurses here.
    pub fn parse(
        &mut self,
        name: &str,
        text: impl AsRef<[u8]>,
        funcs: &(impl FuncNames + ?Sized),
    ) -> Result<(), ParseError> {
        self.parse_shared(name, &Str::from(text.as_ref()), funcs)
    }

    /// As [`Set::parse`], for a text that the trees may share.
    ///
    /// # Errors
    /// Those of [`Set::parse`].
    pub fn parse_shared(
        &mut self,
        name: &str,
        text: &Str,
        funcs: &(impl FuncNames + ?Sized),
    ) -> Result<(), ParseError> {
        trees(name, text, funcs)?.into_iter().for_each(|tree| self.add(tree));
        Ok(())
    }

    /// The template of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<Tree>> {
        self.own.get(name).or_else(|| self.shared.get(name))
    }

    /// Whether there is a template of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The names of all templates, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let shared = self.shared.keys().filter(|name| !self.own.contains_key(*name));
        self.own.keys().chain(shared).map(|name| &**name)
    }

    /// Adds a template, unless it is empty and there is one of its name.
    pub fn add(&mut self, tree: Arc<Tree>) {
        if tree.is_empty() && self.contains(tree.name()) {
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

    const NO_FUNCS: &[&str] = &[];

    fn run(set: &Set, name: &str) -> String {
        let mut out = Vec::new();
        exec(set, name, &Value::Nil, &FuncMap::new(), &mut Plain::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn later_texts_replace_unless_empty() {
        let mut set = Set::new("root");
        set.parse("a", "{{define \"x\"}}1{{end}}", NO_FUNCS).unwrap();
        set.parse("b", "{{define \"x\"}}2{{end}}", NO_FUNCS).unwrap();
        assert_eq!(run(&set, "x"), "2");
        set.parse("c", "{{define \"x\"}} {{/* nothing */}}\n{{end}}", NO_FUNCS)
            .unwrap();
        assert_eq!(run(&set, "x"), "2");
        assert_eq!(run(&set, "a"), "");
        let error = set
            .parse(
                "d",
                "{{define \"y\"}}1{{end}}\n{{define \"x\"}}1{{end}}{{define \"x\"}}2{{end}}",
                NO_FUNCS,
            )
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "template: d:2: template: multiple definition of template \"x\""
        );
        assert!(!set.contains("y"), "a text that fails defines nothing");
    }

    #[test]
    fn a_clone_is_independent() {
        let mut set = Set::new("root");
        set.parse("a", "{{template \"x\"}}{{define \"x\"}}1{{end}}", NO_FUNCS)
            .unwrap();
        let mut clone = set.clone();
        clone
            .parse("b", "{{define \"x\"}}2{{end}}{{define \"y\"}}3{{end}}", NO_FUNCS)
            .unwrap();
        set.parse("c", "{{define \"z\"}}4{{end}}", NO_FUNCS).unwrap();
        assert_eq!((run(&clone, "a"), run(&set, "a")), ("2".to_owned(), "1".to_owned()));
        assert!(clone.contains("y") && !set.contains("y") && !clone.contains("z"));
        let mut names: Vec<_> = clone.names().collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "b", "x", "y"]);
    }

    #[test]
    fn sets_cross_threads() {
        fn check<T: Send + Sync>() {}
        check::<Set>();
    }
}
