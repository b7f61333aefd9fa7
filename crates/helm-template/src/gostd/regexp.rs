//! Regular expressions: Go's `regexp` over the `regex` crate.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use regex::{Captures, Regex, RegexBuilder};

use super::{regexp_syntax, runes};
use crate::limit;
use go_template::func::CallError;
use go_template::meter::{Meter, Overrun};
use go_template::value::Str;

/// The maximum size of a pattern's program, in bytes: the smallest of these that suffices, so that its memory is known
/// within a factor. No pattern may take more than the last.
const PROGRAMS: [usize; 5] = [16 << 10, 256 << 10, 4 << 20, 16 << 20, 64 << 20];
/// The memory for compiling, as a multiple of the program's size.
const COMPILING: u64 = 3;
/// Compiling a program takes a step for so many of its bytes.
const BYTES_A_STEP: usize = 16;
/// The maximum memory of each of a pattern's two lazy automata, in bytes.
const MAX_AUTOMATON: usize = 256 << 10;
/// About what they take.
const AUTOMATA: usize = 192 << 10;
/// The size of a program times the length of a text, in bytes both: in the worst case a match takes a nanosecond or
/// more for each pair of a state (some 30 bytes) and a byte.
const MAX_WORK: usize = 1 << 38;
/// The maximum memory of the process for compiled patterns, in bytes. Charts use few patterns, and the same ones in
/// each render.
const MAX_CACHED: usize = 16 << 20;
/// The overhead of a cache entry, in bytes.
const CACHED: usize = 128;

/// A compiled Go regular expression. What is cut short is not used: the evaluator fails the call.
pub struct GoRegex<'m> {
    program: Arc<Program>,
    /// Counts what is made.
    meter: &'m Meter,
}

#[derive(Debug)]
struct Program {
    regex: Regex,
    /// More than it takes, in bytes.
    size: usize,
}

/// A pattern, or what is wrong with it.
type CompileResult = Result<Arc<Program>, String>;

/// What was compiled, by pattern. It is the process's and not a chart's: many charts share what there is room for, and a
/// result depends on nothing but the pattern.
#[derive(Default)]
struct ProgramCache {
    known: HashMap<Vec<u8>, CompileResult>,
    /// The memory of the entries.
    bytes: usize,
}

static COMPILED: LazyLock<Mutex<ProgramCache>> = LazyLock::new(Mutex::default);

/// Compiles a pattern in Go's syntax, or takes it from the cache.
///
/// ```
/// let meter = go_template::Meter::default();
/// let regex = helm_template::gostd::regexp::compile(&meter, br"^\d+$").unwrap();
/// assert!(regex.is_match(b"42"));
/// ```
///
/// # Errors
/// What is wrong with the pattern.
pub fn compile<'m>(meter: &'m Meter, pattern: &[u8]) -> Result<GoRegex<'m>, String> {
    let known = locked().known.get(pattern).cloned();
    let compiled = known.unwrap_or_else(|| {
        // Others need not wait for that.
        let compiled = Program::new(meter, pattern).map(Arc::new);
        // An overrun of time or memory says nothing about the pattern.
        if !meter.has_overrun() {
            locked().insert(pattern, compiled.clone());
        }
        compiled
    });
    if meter.is_first(pattern) {
        let size = compiled.as_ref().map_or(PROGRAMS[0], |program| program.size);
        meter.add_steps((size / BYTES_A_STEP) as u64);
    }
    compiled.map(|program| GoRegex { program, meter })
}

/// `regexp.QuoteMeta`.
pub(crate) fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if b"\\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}

/// A pattern in the syntax of the `regex` crate.
///
/// # Errors
/// As those of [`compile`].
pub fn translated(pattern: &str) -> Result<String, String> {
    compile(&Meter::default(), pattern.as_bytes())?;
    regexp_syntax::translate(pattern)
}

fn locked() -> MutexGuard<'static, ProgramCache> {
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgramCache {
    /// If the cache is full, it is cleared.
    fn insert(&mut self, pattern: &[u8], compiled: CompileResult) {
        let own = match &compiled {
            Ok(program) => program.size + AUTOMATA,
            Err(error) => error.len(),
        };
        let bytes = pattern.len() + CACHED + own;
        if bytes > MAX_CACHED {
            return;
        }
        if self.bytes + bytes > MAX_CACHED {
            *self = ProgramCache::default();
        }
        // Two threads may have compiled it.
        if self.known.insert(pattern.to_vec(), compiled).is_none() {
            self.bytes += bytes;
        }
    }
}

impl Program {
    fn new(meter: &Meter, pattern: &[u8]) -> Result<Self, String> {
        let pattern =
            std::str::from_utf8(pattern).map_err(|_| regexp_syntax::worded("invalid UTF-8", &runes::lossy(pattern)))?;
        let translated = regexp_syntax::translate(pattern)?;
        for size in PROGRAMS {
            if !meter.in_time() || meter.has_room(COMPILING * size as u64).is_err() {
                break;
            }
            let mut builder = RegexBuilder::new(&translated);
            match builder.size_limit(size).dfa_size_limit(MAX_AUTOMATON).build() {
                Ok(regex) => return Ok(Program { regex, size }),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(error) => {
                    // The lines before show the translated pattern.
                    let error = error.to_string();
                    let line = error.lines().last().unwrap_or_default();
                    return Err(regexp_syntax::worded(line.trim_start_matches("error: "), pattern));
                }
            }
        }
        Err(regexp_syntax::worded("expression too large", pattern))
    }
}

impl GoRegex<'_> {
    /// `MatchString`.
    pub fn is_match(&self, text: &[u8]) -> bool {
        let text = runes::lossy(text);
        self.goes_on(&text) && self.program.regex.is_match(&text)
    }

    /// Whether to search for the next match: the work is at most [`MAX_WORK`], and there is time. Otherwise the overrun
    /// is reported to the meter.
    fn goes_on(&self, text: &str) -> bool {
        if self.program.size.saturating_mul(text.len()) > MAX_WORK {
            self.meter.report(Overrun::Regex);
            return false;
        }
        self.meter.in_time()
    }

    /// `FindString`: the first match, or nothing.
    pub(crate) fn find(&self, text: &[u8]) -> String {
        let text = runes::lossy(text);
        let found = self.goes_on(&text).then(|| self.program.regex.find(&text)).flatten();
        found.map_or("", |found| found.as_str()).to_owned()
    }

    /// `FindAllString`: at most `count` matches unless that is negative; `None` if there are none.
    pub(crate) fn find_all(&self, text: &[u8], count: i64) -> Result<Option<Vec<Str>>, CallError> {
        let text = runes::lossy(text);
        let found = self.ranges(&text, count)?;
        let part = |range: Range<usize>| Str::from(text.get(range).unwrap_or_default());
        Ok((!found.is_empty()).then(|| found.into_iter().map(part).collect()))
    }

    /// `FindAllStringIndex`.
    fn ranges(&self, text: &str, count: i64) -> Result<Vec<Range<usize>>, CallError> {
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut matches = self.program.regex.find_iter(text).take(most);
        while self.goes_on(text)
            && let Some(one) = matches.next()
        {
            limit::texts(self.meter, found.len() + 1)?;
            found.push(one.range());
        }
        Ok(found)
    }

    /// `ReplaceAllString`: references to groups in `template` (`$1`, `${name}`) are replaced by what they matched.
    pub(crate) fn replace_all(&self, text: &[u8], template: &[u8]) -> Result<String, CallError> {
        let template = runes::lossy(template);
        self.replace(text, |out, found| found.expand(&template, out))
    }

    /// `ReplaceAllLiteralString`.
    pub(crate) fn replace_all_literal(&self, text: &[u8], replacement: &[u8]) -> Result<String, CallError> {
        let replacement = runes::lossy(replacement);
        self.replace(text, |out, _| out.push_str(&replacement))
    }

    /// The replacement of each match is written by `write`.
    fn replace(&self, text: &[u8], write: impl Fn(&mut String, &Captures<'_>)) -> Result<String, CallError> {
        let text = &*runes::lossy(text);
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        let mut matches = self.program.regex.captures_iter(text);
        while self.goes_on(text)
            && let Some(captures) = matches.next()
        {
            let Some(whole) = captures.get(0) else { break };
            out.push_str(text.get(done..whole.start()).unwrap_or_default());
            write(&mut out, &captures);
            limit::bytes(self.meter, out.len())?;
            done = whole.end();
        }
        out.push_str(text.get(done..).unwrap_or_default());
        Ok(out)
    }

    /// `Split`: at most `count` parts unless that is negative; `None` if it is zero.
    pub(crate) fn split(&self, text: &[u8], count: i64) -> Result<Option<Vec<Str>>, CallError> {
        let text = runes::lossy(text);
        if count == 0 {
            return Ok(None);
        }
        if text.is_empty() && !self.program.regex.as_str().is_empty() {
            return Ok(Some(vec![Str::from("")]));
        }
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let mut parts = Vec::new();
        let (mut begin, mut end) = (0, 0);
        for Range { start, end: stop } in self.ranges(&text, count)? {
            if parts.len() + 1 == most {
                break;
            }
            end = start;
            if stop != 0 {
                parts.push(Str::from(text.get(begin..end).unwrap_or_default()));
            }
            begin = stop;
        }
        if end != text.len() {
            parts.push(Str::from(text.get(begin..).unwrap_or_default()));
        }
        Ok(Some(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_patterns_are_refused() {
        for (part, times) in [("é", 400_000), (r"\pL", 20_000), ("a", 400_000), ("(", 100_000)] {
            let part = part.repeat(times);
            for pattern in [
                format!("(?i){part}"),
                format!("{part}{}", ")".repeat(times)),
                format!("[{part}"),
            ] {
                let error = compile(&Meter::default(), pattern.as_bytes()).map(drop).unwrap_err();
                assert!(error.starts_with("error parsing regexp: "), "{}", &error[..100]);
            }
        }
        for pattern in [
            r"\pL{1000}\pL{1000}\pL{1000}",
            "(((((a{1,30}){1,30}){1,30}){1,30}){1,30})",
        ] {
            let error = compile(&Meter::default(), pattern.as_bytes()).map(drop).unwrap_err();
            assert_eq!(error, regexp_syntax::worded("expression too large", pattern));
        }
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let mut cache = ProgramCache::default();
        let compiled = Program::new(&Meter::default(), b"a").map(Arc::new);
        for at in 0..500_u32 {
            let before = cache.known.len();
            cache.insert(&at.to_le_bytes(), compiled.clone());
            assert!(cache.bytes <= MAX_CACHED && cache.known.len() <= before + 1);
        }
        assert!(cache.known.len() < 400);
        let bytes = cache.bytes;
        cache.insert(&vec![0; MAX_CACHED], compiled.clone());
        assert_eq!(cache.bytes, bytes);
    }

    #[test]
    fn what_one_thread_compiled_no_other_compiles_again() {
        let work = || compile(&Meter::default(), b"only here+").unwrap().program;
        let [a, b] = [0; 2].map(|_| std::thread::scope(|scope| scope.spawn(work).join().unwrap()));
        assert!(Arc::ptr_eq(&a, &b));
    }

    #[test]
    fn a_pattern_that_time_was_too_short_for_may_compile_later() {
        let pattern = b"^no-time-for-this{3}$";
        let meter = Meter::new(u64::MAX, Some(std::time::Duration::ZERO));
        assert!(compile(&meter, pattern).is_err());
        assert_eq!(meter.take_overrun(), Some(Overrun::Time));
        assert!(compile(&Meter::default(), pattern).is_ok());
    }
}
