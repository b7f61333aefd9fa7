//! Regular expressions: Go's `regexp` over the `regex` crate.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::syntax;

use super::args::{Args, Out};
use super::{limit, pure, regex_syntax, runes, text};
use crate::template::go::func::{CallError, Func};
use crate::template::go::meter;
use crate::template::go::quote::quote_go;
use crate::template::go::room::Room;
use crate::template::go::unicode::is_letter_or_digit;
use crate::template::go::value::{List, ListKind, Str, Value};

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("regexMatch", [String, String], regex_match),
        pure!("mustRegexMatch", [String, String], must_regex_match),
        pure!("regexFind", [String, String], regex_find),
        pure!("mustRegexFind", [String, String], must_regex_find),
        pure!("regexFindAll", [String, String, Int], regex_find_all),
        pure!("mustRegexFindAll", [String, String, Int], must_regex_find_all),
        pure!("regexReplaceAll", [String, String, String], regex_replace_all),
        pure!("mustRegexReplaceAll", [String, String, String], must_regex_replace_all),
        pure!(
            "regexReplaceAllLiteral",
            [String, String, String],
            regex_replace_all_literal
        ),
        pure!(
            "mustRegexReplaceAllLiteral",
            [String, String, String],
            must_regex_replace_all_literal
        ),
        pure!("regexSplit", [String, String, Int], regex_split),
        pure!("mustRegexSplit", [String, String, Int], must_regex_split),
        pure!("regexQuoteMeta", [String], regex_quote_meta),
    ]
}

/// The memory that one compiled pattern may take: 64 MiB, enough for a class of all letters a thousand times over, which
/// is as often as Go lets anything be repeated.
const MAX_PROGRAM: usize = 64 << 20;
/// How large a program may be in the first attempts, in bytes: what it took is then known to within a factor.
const PROGRAMS: [usize; 4] = [64 << 10, 1 << 20, 10 << 20, MAX_PROGRAM];
/// What compiling takes, in sizes of the program.
const COMPILING: u64 = 3;
/// What each of the two automata may take that a pattern makes while it is matched, in bytes.
const MAX_AUTOMATON: usize = 256 << 10;
/// About what they take.
const AUTOMATA: usize = 128 << 10;
/// The size of a program times the length of a text, in bytes both: in the worst case a match takes a nanosecond or
/// more for each pair of a state (some 30 bytes) and a byte.
const MAX_WORK: usize = 1 << 38;
/// Texts that every pattern may be matched with.
const SMALL_TEXT: usize = 1 << 14;
/// Patterns that [`check`] may not need to compile, in bytes.
const SMALL_PATTERN: usize = 256;
/// Texts that are short enough for the slowest engine, in bytes.
const SHORT_TEXT: usize = 256;
/// How deep patterns may nest.
const MAX_NESTING: u32 = 2000;
/// By how many bytes U+FFFD is longer than the byte that it stands for.
const WIDENED: usize = 2;
/// What the process keeps of compiled patterns, in bytes, and of those of [`is_match`]. Charts use few, and the same ones in
/// each render.
const MAX_CACHED: usize = 16 << 20;
const MAX_SMALL: usize = 2 << 20;
/// What an entry of a cache takes besides, in bytes.
const CACHED: usize = 128;

/// A compiled Go regular expression.
#[derive(Debug)]
pub struct GoRegex {
    regex: regex::bytes::Regex,
    names: Vec<String>,
    /// More than its program takes, in bytes.
    most: usize,
    /// About the memory that it takes, found out for the first long text.
    size: OnceLock<usize>,
}

/// What was compiled, by pattern. It is the process's and not a chart's: many charts share what there is room for, and a
/// result depends on nothing but the pattern.
struct Cache<T> {
    known: HashMap<Vec<u8>, T>,
    /// What the entries take.
    bytes: usize,
    /// What they may take.
    most: usize,
}

/// A pattern, or what is wrong with it.
type Compiled = Result<Arc<GoRegex>, String>;

static COMPILED: LazyLock<Mutex<Cache<Compiled>>> = LazyLock::new(|| Cache::of(MAX_CACHED));
static SMALL: LazyLock<Mutex<Cache<Option<Arc<PikeVM>>>>> = LazyLock::new(|| Cache::of(MAX_SMALL));

/// Compiles a pattern in Go's syntax, or takes it from the cache. An error is the text of Go's error.
pub fn compile(pattern: &[u8]) -> Result<Arc<GoRegex>, String> {
    let size = |compiled: &Compiled| match compiled {
        Ok(regex) => regex.most + AUTOMATA,
        Err(error) => error.len(),
    };
    cached(&COMPILED, pattern, || GoRegex::new(pattern).map(Arc::new), size)
}

fn cached<T: Clone>(
    cache: &Mutex<Cache<T>>,
    pattern: &[u8],
    compile: impl FnOnce() -> T,
    size: impl Fn(&T) -> usize,
) -> T {
    if let Some(known) = locked(cache).known.get(pattern) {
        return known.clone();
    }
    // Others need not wait for that.
    let compiled = compile();
    // What ran out of time or memory says nothing of the pattern.
    if !meter::has_overrun() {
        let bytes = pattern.len() + CACHED + size(&compiled);
        locked(cache).insert(pattern, compiled.clone(), bytes);
    }
    compiled
}

fn locked<T>(cache: &Mutex<Cache<T>>) -> MutexGuard<'_, Cache<T>> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Cache<T> {
    fn of(most: usize) -> Mutex<Self> {
        Mutex::new(Cache {
            known: HashMap::new(),
            bytes: 0,
            most,
        })
    }

    /// Where there is no room left, all that was kept goes.
    fn insert(&mut self, pattern: &[u8], compiled: T, bytes: usize) {
        if bytes > self.most {
            return;
        }
        if self.bytes + bytes > self.most {
            self.known = HashMap::new();
            self.bytes = 0;
        }
        // Two threads may have compiled it.
        if self.known.insert(pattern.to_vec(), compiled).is_none() {
            self.bytes += bytes;
        }
    }
}

/// Finds out whether [`compile`] accepts a pattern, with its error if not. Nothing is compiled for a short one, whose
/// program can't be too large.
pub fn check(pattern: &[u8]) -> Result<(), String> {
    if is_small(pattern) {
        regex_syntax::translate(pattern).map(drop)
    } else {
        compile(pattern).map(drop)
    }
}

/// Whether a text matches a pattern; never if [`check`] doesn't accept that. For those of schemas, which are many and mostly
/// meet one short text in a render: the engine for these takes a tenth of the memory of [`compile`]'s, and a quarter of
/// the time to build.
pub fn is_match(pattern: &str, text: &str) -> bool {
    if text.len() > SHORT_TEXT || !text.is_ascii() || !is_small(pattern.as_bytes()) {
        return compile(pattern.as_bytes()).is_ok_and(|regex| regex.is_match(text.as_bytes()));
    }
    let size = |engine: &Option<Arc<PikeVM>>| engine.as_ref().map_or(0, |engine| engine.get_nfa().memory_usage());
    let engine = cached(&SMALL, pattern.as_bytes(), || small_engine(pattern.as_bytes()), size);
    engine.is_some_and(|engine| engine.is_match(&mut engine.create_cache(), text))
}

/// What [`is_match`] takes for ASCII texts.
fn small_engine(pattern: &[u8]) -> Option<Arc<PikeVM>> {
    let translated = regex_syntax::translate(pattern).ok()?;
    let engine = PikeVM::builder()
        .syntax(syntax::Config::new().utf8(false).nest_limit(MAX_NESTING))
        .thompson(thompson::Config::new().utf8(false).which_captures(WhichCaptures::None))
        .build(&translated.pattern);
    engine.ok().map(Arc::new)
}

/// Whether the program of a pattern is sure to be far smaller than [`MAX_PROGRAM`]: nothing in it is repeated by count, and
/// no class is one of Unicode's, which have hundreds of ranges.
fn is_small(pattern: &[u8]) -> bool {
    let is_unicode = |pair: &[u8]| matches!(pair, b"\\p" | b"\\P");
    pattern.len() <= SMALL_PATTERN && !pattern.contains(&b'{') && !pattern.windows(2).any(is_unicode)
}

/// A program of at most `most` bytes.
fn build(pattern: &str, most: usize) -> Option<regex::bytes::Regex> {
    let mut builder = regex::bytes::RegexBuilder::new(pattern);
    builder.size_limit(most).dfa_size_limit(MAX_AUTOMATON);
    builder.nest_limit(MAX_NESTING).build().ok()
}

/// About the memory that the program of a pattern takes.
fn program_size(pattern: &str) -> usize {
    let program = thompson::NFA::compiler()
        .syntax(syntax::Config::new().utf8(false).nest_limit(MAX_NESTING))
        .configure(thompson::Config::new().utf8(false).nfa_size_limit(Some(MAX_PROGRAM)))
        .build(pattern);
    program.map_or(MAX_PROGRAM, |program| program.memory_usage())
}

impl GoRegex {
    fn new(pattern: &[u8]) -> Result<Self, String> {
        let translated = regex_syntax::translate(pattern)?;
        for most in PROGRAMS {
            if !meter::in_time() || !meter::has_room(COMPILING * most as u64) {
                break;
            }
            if let Some(regex) = build(&translated.pattern, most) {
                return Ok(GoRegex {
                    regex,
                    names: translated.names,
                    most,
                    size: OnceLock::new(),
                });
            }
        }
        Err(regex_syntax::worded(regex_syntax::TOO_LARGE, &runes::lossy(pattern)))
    }

    /// `MatchString`.
    pub fn is_match(&self, text: &[u8]) -> bool {
        let subject = Subject::new(text);
        // An empty match inside a character, as `\B` can have one, doesn't count.
        self.fits(&subject.text)
            && self.regex.is_match(&subject.text)
            && (text.is_ascii() || self.find_at(&subject.text, 0).is_some())
    }

    /// `FindString`.
    fn find<'t>(&self, text: &'t [u8]) -> Option<&'t [u8]> {
        let subject = Subject::new(text);
        let (start, end) = self.find_at(&subject.text, 0)?;
        Some(subject.part(start, end))
    }

    /// Whether matching the text takes no more than [`MAX_WORK`]; if not, the [`meter`] knows.
    fn fits(&self, text: &[u8]) -> bool {
        if text.len() <= SMALL_TEXT {
            return true;
        }
        let size = *self.size.get_or_init(|| program_size(self.regex.as_str()));
        let fits = size.saturating_mul(text.len()) <= MAX_WORK;
        if !fits {
            meter::report(meter::Overrun::Regex);
        }
        fits
    }

    /// The leftmost match at or after `from` in a [`Subject`]'s text. An empty one inside a character is no match to Go.
    fn find_at(&self, text: &[u8], mut from: usize) -> Option<(usize, usize)> {
        loop {
            // What is cut short here is not used: the evaluator fails the call.
            if !self.fits(text) || !meter::in_time() {
                return None;
            }
            let found = self.regex.find_at(text, from)?;
            if !found.is_empty() || is_boundary(text, found.start()) {
                return Some((found.start(), found.end()));
            }
            from = found.start() + 1;
        }
    }

    /// `FindAllStringIndex`: at most `count` matches unless that is negative. An empty match right after a match
    /// doesn't count.
    fn find_all(&self, text: &[u8], count: i64) -> Result<Vec<(usize, usize)>, CallError> {
        let subject = Subject::new(text);
        let text = &*subject.text;
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut at = 0;
        let mut previous_end = None;
        while found.len() < most && at <= text.len() {
            let Some((start, end)) = self.find_at(text, at) else {
                break;
            };
            let adjoins = end == at && Some(start) == previous_end;
            if end == at {
                at += width_at(text, at).max(1);
            } else {
                at = end;
            }
            previous_end = Some(end);
            if !adjoins {
                limit::items(found.len() + 1)?;
                found.push((subject.offset(start), subject.offset(end)));
            }
        }
        Ok(found)
    }

    /// `ReplaceAllString` with the replacement of each match written by `write`.
    fn replace_all(
        &self,
        text: &[u8],
        mut write: impl FnMut(&mut Vec<u8>, &Match<'_, '_>),
    ) -> Result<Vec<u8>, CallError> {
        let subject = Subject::new(text);
        let text = &*subject.text;
        let mut out = Vec::with_capacity(text.len());
        let (mut done, mut at) = (0, 0);
        while at <= text.len() {
            let Some((start, end)) = self.find_at(text, at) else {
                break;
            };
            let Some(captures) = self.regex.captures_at(text, start) else {
                break;
            };
            out.extend_from_slice(subject.part(done, start));
            if end > done || start == 0 {
                let subject = &subject;
                write(&mut out, &Match { subject, captures });
            }
            limit::bytes(out.len())?;
            done = end;
            at = (at + width_at(text, at).max(1)).max(end);
        }
        out.extend_from_slice(subject.part(done, text.len()));
        Ok(out)
    }

    /// `Regexp.Expand`: `$1`, `$name`, `${name}` and `$$`; a reference takes the longest name that it can.
    fn expand(&self, out: &mut Vec<u8>, template: &[u8], found: &Match<'_, '_>) {
        let mut rest = template;
        while let Some(dollar) = rest.iter().position(|b| *b == b'$') {
            out.extend_from_slice(rest.get(..dollar).unwrap_or(&[]));
            rest = rest.get(dollar + 1..).unwrap_or(&[]);
            if let Some(after) = rest.strip_prefix(b"$") {
                out.push(b'$');
                rest = after;
                continue;
            }
            let Some((name, after)) = reference(rest) else {
                out.push(b'$');
                continue;
            };
            rest = after;
            let group = match group_number(name) {
                Some(number) => found.group(number),
                None => self.named(name, found),
            };
            out.extend_from_slice(group.unwrap_or_default());
        }
        out.extend_from_slice(rest);
    }

    /// The first group of this name that matched something.
    fn named<'t>(&self, name: &[u8], found: &Match<'_, 't>) -> Option<&'t [u8]> {
        let groups = self.names.iter().enumerate();
        groups
            .filter(|(_, known)| known.as_bytes() == name)
            .find_map(|(number, _)| found.group(number))
    }
}

/// A text as Go reads it: U+FFFD for each byte that is no UTF-8.
struct Subject<'t> {
    original: &'t [u8],
    text: Cow<'t, [u8]>,
    /// Where characters stand in `text` for such bytes.
    replaced: Vec<usize>,
}

impl<'t> Subject<'t> {
    fn new(original: &'t [u8]) -> Self {
        let mut replaced = Vec::new();
        let text = match runes::lossy(original) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => {
                let widened = runes::runes(original).filter(|(_, c, width)| c.len_utf8() != *width);
                replaced.extend(widened.zip(0..).map(|((at, ..), before)| at + before * WIDENED));
                Cow::Owned(text.into_bytes())
            }
        };
        Subject {
            original,
            text,
            replaced,
        }
    }

    /// Where something that starts or ends at `at` does so in the original text.
    fn offset(&self, at: usize) -> usize {
        at - self.replaced.partition_point(|replaced| *replaced < at) * WIDENED
    }

    fn part(&self, start: usize, end: usize) -> &'t [u8] {
        let original = self.original.get(self.offset(start)..self.offset(end));
        original.unwrap_or_default()
    }
}

/// A match with its groups.
struct Match<'s, 't> {
    subject: &'s Subject<'t>,
    captures: regex::bytes::Captures<'s>,
}

impl<'t> Match<'_, 't> {
    fn group(&self, number: usize) -> Option<&'t [u8]> {
        let group = self.captures.get(number)?;
        Some(self.subject.part(group.start(), group.end()))
    }
}

fn width_at(text: &[u8], at: usize) -> usize {
    text.get(at..).and_then(runes::decode).map_or(0, |(_, width)| width)
}

/// Whether a character starts or ends at this offset of a text in UTF-8.
fn is_boundary(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| byte & 0xC0 != 0x80)
}

/// The name of a reference that follows a `$`, and what comes after it.
fn reference(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (braced, body) = text.strip_prefix(b"{").map_or((false, text), |body| (true, body));
    let is_word = |c: &char| *c == '_' || is_letter_or_digit(*c);
    let len = runes::runes(body)
        .take_while(|(_, c, _)| is_word(c))
        .map(|(_, _, width)| width)
        .sum::<usize>();
    let (name, rest) = body.split_at_checked(len)?;
    let rest = if braced { rest.strip_prefix(b"}")? } else { rest };
    (!name.is_empty()).then_some((name, rest))
}

/// A group's number; a leading zero makes it a name.
fn group_number(name: &[u8]) -> Option<usize> {
    if !name.iter().all(u8::is_ascii_digit) || (name.len() > 1 && name.first() == Some(&b'0')) || name.len() > 8 {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok()
}

/// `regexp.MustCompile`, which panics with the pattern in its text.
fn compile_or_panic(args: &[Value]) -> Result<Arc<GoRegex>, CallError> {
    let pattern = args.text(0)?;
    compile(pattern).map_err(|error| {
        let source = runes::lossy(pattern);
        let can_backquote = !pattern.contains(&b'`')
            && std::str::from_utf8(pattern)
                .is_ok_and(|s| s.chars().all(|c| c == '\t' || (!c.is_control() && c != '\u{feff}')));
        let quoted = if can_backquote {
            format!("`{source}`")
        } else {
            quote_go(pattern)
        };
        CallError::Text(format!("regexp: Compile({quoted}): {error}"))
    })
}

fn compile_or_fail(args: &[Value]) -> Result<Arc<GoRegex>, CallError> {
    Ok(compile(args.text(0)?)?)
}

/// A bad pattern matches nothing, without a word.
fn regex_match(args: &[Value]) -> Out {
    let text = args.text(1)?;
    Ok(Value::Bool(
        compile(args.text(0)?).is_ok_and(|regex| regex.is_match(text)),
    ))
}

fn must_regex_match(args: &[Value]) -> Out {
    Ok(Value::Bool(compile_or_fail(args)?.is_match(args.text(1)?)))
}

fn find(regex: &GoRegex, args: &[Value]) -> Out {
    Ok(Value::string(regex.find(args.text(1)?).unwrap_or_default()))
}

fn regex_find(args: &[Value]) -> Out {
    find(&*compile_or_panic(args)?, args)
}

fn must_regex_find(args: &[Value]) -> Out {
    find(&*compile_or_fail(args)?, args)
}

/// No match is Go's nil slice.
fn find_all(regex: &GoRegex, args: &[Value]) -> Out {
    let text = args.text(1)?;
    let found = regex.find_all(text, args.int(2)?)?;
    if found.is_empty() {
        return Ok(Value::List(List::nil(ListKind::String)));
    }
    Ok(text::string_list(
        found
            .iter()
            .map(|(s, e)| Str::from(text.get(*s..*e).unwrap_or(&[])))
            .collect(),
        // Go makes room for the first matches before it looks for them.
        Room::Appended(10),
    ))
}

fn regex_find_all(args: &[Value]) -> Out {
    find_all(&*compile_or_panic(args)?, args)
}

fn must_regex_find_all(args: &[Value]) -> Out {
    find_all(&*compile_or_fail(args)?, args)
}

fn replace_all(regex: &GoRegex, args: &[Value]) -> Out {
    let (text, template) = (args.text(1)?, args.text(2)?);
    Ok(Value::string(
        regex.replace_all(text, |out, found| regex.expand(out, template, found))?,
    ))
}

fn regex_replace_all(args: &[Value]) -> Out {
    replace_all(&*compile_or_panic(args)?, args)
}

fn must_regex_replace_all(args: &[Value]) -> Out {
    replace_all(&*compile_or_fail(args)?, args)
}

fn replace_all_literal(regex: &GoRegex, args: &[Value]) -> Out {
    let (text, replacement) = (args.text(1)?, args.text(2)?);
    Ok(Value::string(
        regex.replace_all(text, |out, _| out.extend_from_slice(replacement))?,
    ))
}

fn regex_replace_all_literal(args: &[Value]) -> Out {
    replace_all_literal(&*compile_or_panic(args)?, args)
}

fn must_regex_replace_all_literal(args: &[Value]) -> Out {
    replace_all_literal(&*compile_or_fail(args)?, args)
}

/// `Regexp.Split`.
fn split(regex: &GoRegex, args: &[Value]) -> Out {
    let (pattern, text, count) = (args.text(0)?, args.text(1)?, args.int(2)?);
    if count == 0 {
        return Ok(Value::List(List::nil(ListKind::String)));
    }
    if !pattern.is_empty() && text.is_empty() {
        return Ok(text::string_list(vec![Str::from("")], Room::Full));
    }
    let most = usize::try_from(count).unwrap_or(usize::MAX);
    let matches = regex.find_all(text, count)?;
    let mut parts = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for &(start, stop) in &matches {
        if parts.len() + 1 == most {
            break;
        }
        end = start;
        if stop != 0 {
            parts.push(Str::from(text.get(begin..end).unwrap_or(&[])));
        }
        begin = stop;
    }
    if end != text.len() {
        parts.push(Str::from(text.get(begin..).unwrap_or(&[])));
    }
    // Go makes room for as many parts as there are matches.
    Ok(text::string_list(parts, Room::Appended(matches.len())))
}

fn regex_split(args: &[Value]) -> Out {
    split(&*compile_or_panic(args)?, args)
}

fn must_regex_split(args: &[Value]) -> Out {
    split(&*compile_or_fail(args)?, args)
}

fn regex_quote_meta(args: &[Value]) -> Out {
    let text = args.text(0)?;
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if b"\\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    Ok(Value::string(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_pattern_of_a_large_program_is_refused_without_a_match_too() {
        for (pattern, is_fine) in [
            (r"\pL{1000}\pL{1000}", false),
            ("^([0-9]+(ms|[smhd]))+$", true),
            ("(", false),
        ] {
            let compiled = compile(pattern.as_bytes()).map(drop);
            assert_eq!(compiled.is_ok(), is_fine, "{pattern}");
            assert_eq!(check(pattern.as_bytes()), compiled, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_is_long_to_translate_is_refused() {
        for (part, times) in [("é", 400_000), (r"\pL", 20_000), ("a", 400_000)] {
            let pattern = format!("(?i){}", part.repeat(times));
            let error = compile(pattern.as_bytes()).map(drop).unwrap_err();
            assert_eq!(error, regex_syntax::worded(regex_syntax::TOO_LARGE, &pattern));
        }
    }

    #[test]
    fn what_is_kept_is_bounded_in_bytes() {
        let mut cache = Cache {
            known: HashMap::new(),
            bytes: 0,
            most: 100,
        };
        for (pattern, bytes, kept) in [("a", 40, 1), ("a", 40, 1), ("b", 60, 2), ("c", 1, 1), ("d", 101, 1)] {
            cache.insert(pattern.as_bytes(), (), bytes);
            assert_eq!(cache.known.len(), kept, "{pattern}");
            assert!(cache.bytes <= cache.most);
        }
    }

    #[test]
    fn what_one_thread_compiled_no_other_compiles_again() {
        let cache = Cache::of(1 << 10);
        let compiled = std::sync::atomic::AtomicUsize::new(0);
        let work = || {
            let compile = || compiled.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            cached(&cache, b"a+", compile, |_| 10);
        };
        for _ in 0..3 {
            std::thread::scope(|scope| scope.spawn(work).join().unwrap());
        }
        assert_eq!(compiled.into_inner(), 1);
    }

    #[test]
    fn a_pattern_that_time_was_too_short_for_may_compile_later() {
        let pattern = b"^no-time-for-this{3}$";
        let meter = meter::Meter::open(u64::MAX, Some(std::time::Duration::ZERO));
        assert!(compile(pattern).is_err());
        assert_eq!(meter::take_overrun(), Some(meter::Overrun::Time));
        drop(meter);
        assert!(compile(pattern).is_ok());
    }
}
