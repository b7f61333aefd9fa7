//! The patterns of `.Files.Glob`: gobwas/glob 0.2.3 with `/` as its separator.
//!
//! `*` and `?` don't cross a `/`, `**` does; `[abc]`, `[a-z]`, `[!a-z]`, `{a,b}` (nestable), `\` escapes. That is what
//! the library promises. What it does follows from the tree of matchers that it makes of a pattern: `{*.yaml,a}` behind
//! other text never matches, characters of several bytes are cut, some patterns panic. Charts have been tried with what it
//! does, so the same tree is built here: [`parse`], [`compile`], [`matcher`].

mod compile;
mod matcher;
mod parse;

use std::cell::Cell;

use matcher::Matcher;

/// How many bytes and matchers one pattern and the names that it is tried on may make it look at: a second, where real
/// patterns take microseconds.
const MAX_STEPS: u64 = 1 << 23;

/// A compiled pattern.
pub struct Glob {
    matcher: Matcher,
    steps: Steps,
}

impl Glob {
    /// Compiles a pattern; a malformed one matches everything, as Helm has it.
    ///
    /// # Errors
    /// The pattern takes too many steps.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let steps = Steps(Cell::new(MAX_STEPS));
        let matcher = match parse::parse(pattern) {
            Some(tree) => compile::compile(&tree, &steps)?,
            None => Matcher::Super,
        };
        Ok(Glob { matcher, steps })
    }

    /// Whether the pattern matches the whole of `name`.
    ///
    /// # Errors
    /// The library panics, with Go's text; or it takes too many steps.
    pub fn matches(&self, name: &[u8]) -> Result<bool, String> {
        self.matcher.matches(name, &self.steps)
    }
}

/// How many steps are left.
struct Steps(Cell<u64>);

impl Steps {
    fn spend(&self, count: usize) -> Result<(), String> {
        match self.0.get().checked_sub(count as u64 + 1) {
            Some(left) => {
                self.0.set(left);
                Ok(())
            }
            None => Err(format!("the pattern takes more than the limit of {MAX_STEPS} steps")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_patterns_end() {
        let name = "a/".repeat(100);
        for piece in ["***", "*?", "{a*,b}", "{", "{a,", "[!a]*", "?", "a{,b}"] {
            let pattern = piece.repeat(5_000 / piece.len());
            if let Ok(glob) = Glob::new(&pattern) {
                let _ = glob.matches(name.as_bytes());
            }
        }
    }
}
