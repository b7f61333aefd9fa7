//! Conditions over live objects in CEL, the language of Kubernetes' own validation rules. An expression may come from untrusted
//! chart values, so its cost is bounded before it is evaluated.

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, LiteralValue};
use cel::extractors::This;
use cel::objects::{Key, Map};
use cel::{Context, Env, ExecutionError, Program};
use helm_template::render::on_large_stack;
use regex::Regex;
use serde_json::Value;

use crate::text::cut;

/// Variables of conditions: the object (for a remediation rule, the custom resource), the live members, and their pods.
pub const VARIABLES: [&str; 3] = ["self", "members", "pods"];

/// Maximum length of an expression, in bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// Maximum cost of an evaluation, in steps. It takes less than a second.
const MAX_STEPS: u64 = 1_000_000;
/// Maximum length of an expression in a message, in bytes.
const MAX_SHOWN_BYTES: usize = 300;
/// Size limits of a compiled pattern of `matches`, in bytes. The smallest sufficient limit is used, so that the cost of a match is
/// known within a factor.
const PATTERN_LIMITS: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// Minimum steps of a match per 64 bytes of text, and bytes of the compiled pattern per further step. Basis: a nanosecond for each
/// pair of a state (about 30 bytes) and a byte of the text.
const MATCH: u64 = 10;
const PATTERN_BYTES_A_STEP: u64 = 400;
/// Size limit of the automata that are created while a pattern is matched, in bytes.
const AUTOMATON_BYTES: usize = 128 << 10;
/// Name of `matches` with a compiled pattern. No expression can contain it.
const MATCHES: &str = "@matches";
/// Size limit of the cache of compiled expressions, in bytes.
const CACHE_BYTES: usize = 16 << 20;
/// Estimated memory of an expression per byte of its text, and per expression, in bytes.
const NODE: usize = 64;
const ENTRY: usize = 1 << 10;
/// Allowed functions, besides operators and macros.
const FUNCTIONS: [&str; 11] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "int",
    "uint",
    "double",
    "bool",
    "type",
];
/// Names of types.
const TYPES: [&str; 8] = ["int", "uint", "double", "bool", "string", "list", "map", "null_type"];

/// A compiled expression. Cheap to clone.
#[derive(Clone)]
pub struct Expression(Arc<CompiledExpression>);

struct CompiledExpression {
    text: String,
    expression: IdedExpr,
    /// The variables that it reads.
    variables: Vec<String>,
    /// Patterns of `matches` by index, and the size of the largest.
    patterns: Arc<[Regex]>,
    largest_pattern: usize,
    /// As [`longest_literal`].
    longest_literal: u64,
    /// Estimated memory, in bytes.
    size: usize,
}

/// Results of compilation by text: many releases share their conditions, and each is evaluated often.
#[derive(Default)]
struct ExpressionCache {
    known: HashMap<String, Result<Expression, CelError>>,
    bytes: usize,
}

static COMPILED: LazyLock<Mutex<ExpressionCache>> = LazyLock::new(Mutex::default);
/// The functions that expressions may call.
static FUNCTIONS_OF_CEL: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// Reason why an expression has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CelError {
    #[error("the expression {0:?} is longer than {MAX_TEXT_BYTES} bytes")]
    TooLong(String),
    #[error("the expression {text:?} does not compile: {why}")]
    Syntax { text: String, why: String },
    #[error("the expression {0:?} would take too long with objects of this size")]
    TooCostly(String),
    #[error("the expression {text:?}: {why}")]
    Evaluation { text: String, why: String },
    #[error("the expression {text:?} is neither true nor false, but {kind}")]
    NoBool { text: String, kind: String },
}

/// The value of a variable. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CelData {
    value: cel::Value,
    sizes: DataSizes,
}

/// Sizes of the data, which determine the cost of an expression.
#[derive(Clone, Copy, Debug, Default)]
struct DataSizes {
    /// Entries of the longest list or map at the top: pods, or members of a kind.
    top: u64,
    /// Entries of the longest list or map below that.
    inner: u64,
    /// Longest text, in units of 64 bytes.
    text: u64,
    /// Total size, in values and units of 64 bytes of text.
    whole: u64,
    /// Steps of a match per 64 bytes of text.
    matching: u64,
}

impl CelData {
    pub fn from_json(value: &Value) -> Self {
        let mut sizes = DataSizes::default();
        sizes.include(value, 0);
        CelData {
            value: to_cel(value),
            sizes,
        }
    }
}

impl Expression {
    /// Compiles a text, or returns it from the cache. Compilation may take milliseconds.
    ///
    /// # Errors
    /// The text is not an expression, is too long, or has a construct whose cost is unbounded.
    pub fn compile(text: &str) -> Result<Self, CelError> {
        let text = text.trim();
        if text.len() > MAX_TEXT_BYTES {
            return Err(CelError::TooLong(cut(text, MAX_SHOWN_BYTES)));
        }
        if let Some(known) = cache().known.get(text) {
            return known.clone();
        }
        // The cache is not locked while an expression compiles.
        let compiled = catch_panic(|| CompiledExpression::new(text)).map(|compiled| Expression(Arc::new(compiled)));
        let compiled = compiled.map_err(|why| CelError::Syntax {
            text: cut(text, MAX_SHOWN_BYTES),
            why: one_line(&why),
        });
        cache().insert(text, &compiled);
        compiled
    }

    /// True if [`Expression::compile`] returns from the cache.
    pub fn is_compiled(text: &str) -> bool {
        let text = text.trim();
        text.len() > MAX_TEXT_BYTES || cache().known.contains_key(text)
    }

    /// Compiles an expression that reads these variables only.
    ///
    /// # Errors
    /// As [`Expression::compile`], or the expression reads another variable.
    pub fn compile_with(text: &str, variables: &[&str]) -> Result<Self, CelError> {
        let expression = Expression::compile(text)?;
        let CompiledExpression {
            text, expression: tree, ..
        } = &*expression.0;
        let is_known = |name: &str| variables.contains(&name) || TYPES.contains(&name) || is_bound_in(tree, name);
        let unknown = expression.0.variables.iter().find(|name| !is_known(name));
        match unknown {
            Some(name) => Err(CelError::Syntax {
                text: cut(text, MAX_SHOWN_BYTES),
                why: format!("there is no variable {name}, only {}", variables.join(", ")),
            }),
            None => Ok(expression),
        }
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// True if the expression reads this variable.
    pub fn has_variable(&self, variable: &str) -> bool {
        self.0.variables.iter().any(|name| name == variable)
    }

    /// Evaluates the condition. It may take up to a second of processor time.
    ///
    /// # Errors
    /// The evaluation fails (for example, a field is missing), or the result is not a bool.
    pub fn evaluate(&self, variables: &[(&str, &CelData)]) -> Result<bool, CelError> {
        let CompiledExpression {
            expression, patterns, ..
        } = &*self.0;
        let text = || cut(self.text(), MAX_SHOWN_BYTES);
        let mut sizes = DataSizes {
            matching: MATCH + self.0.largest_pattern as u64 / PATTERN_BYTES_A_STEP,
            ..DataSizes::default()
        };
        let read = || variables.iter().filter(|(name, _)| self.has_variable(name));
        read().for_each(|(_, data)| sizes.add(&data.sizes));
        let literals = self.0.longest_literal;
        (sizes.top, sizes.inner) = (sizes.top.max(literals), sizes.inner.max(literals));
        if cost(expression, sizes) > MAX_STEPS {
            return Err(CelError::TooCostly(text()));
        }
        let evaluated = catch_panic(|| {
            let mut context = Context::with_env(FUNCTIONS_OF_CEL.clone());
            if !patterns.is_empty() {
                let patterns = patterns.clone();
                let matches = move |This(text): This<Arc<String>>, at: i64| {
                    let pattern = usize::try_from(at).ok().and_then(|at| patterns.get(at));
                    pattern.is_some_and(|pattern| pattern.is_match(&text))
                };
                context
                    .add_function(MATCHES, matches)
                    .map_err(|error| error.to_string())?;
            }
            for (name, data) in read() {
                context.add_variable_from_value(*name, data.value.clone());
            }
            Ok(context.resolve(expression))
        });
        match evaluated {
            Ok(Ok(cel::Value::Bool(holds))) => Ok(holds),
            Ok(Ok(other)) => Err(CelError::NoBool {
                text: text(),
                kind: other.type_of().to_string(),
            }),
            Ok(Err(error)) => Err(CelError::Evaluation {
                text: text(),
                why: self.describe_error(&error),
            }),
            Err(why) => Err(CelError::Evaluation { text: text(), why }),
        }
    }

    /// Describes an error without values of the objects, which may be secret.
    fn describe_error(&self, error: &ExecutionError) -> String {
        match error {
            ExecutionError::NoSuchKey(key) if self.text().contains(key.as_str()) => format!("there is no {key}"),
            ExecutionError::NoSuchKey(_) => "there is no such key".to_owned(),
            ExecutionError::NoSuchOverload(error) => one_line(&error.to_string()),
            ExecutionError::UndeclaredReference(name) => format!("there is no {name}"),
            ExecutionError::IndexOutOfBounds(_) => "an index is out of bounds".to_owned(),
            _ => "its types don't fit, or a number is out of range".to_owned(),
        }
    }
}

impl Debug for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(self.text(), f)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Expression {}

impl CompiledExpression {
    fn new(text: &str) -> Result<Self, String> {
        let program = Program::compile(text).map_err(|errors| errors.to_string())?;
        check(program.expression())?;
        let variables = program
            .references()
            .variables()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let mut expression = program.expression().clone();
        let (mut patterns, mut sizes) = (Vec::new(), Vec::new());
        compile_patterns(&mut expression, &mut patterns, &mut sizes)?;
        let of_patterns = sizes.iter().map(|size| size + 2 * AUTOMATON_BYTES).sum::<usize>();
        Ok(CompiledExpression {
            size: ENTRY + NODE * text.len() + of_patterns,
            text: text.to_owned(),
            longest_literal: longest_literal(&expression),
            expression,
            variables,
            patterns: patterns.into(),
            largest_pattern: sizes.into_iter().max().unwrap_or_default(),
        })
    }
}

fn cache() -> MutexGuard<'static, ExpressionCache> {
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExpressionCache {
    /// Adds a result. A full cache is emptied first.
    fn insert(&mut self, text: &str, compiled: &Result<Expression, CelError>) {
        let own = compiled.as_ref().map_or(ENTRY, |compiled| compiled.0.size);
        let bytes = text.len() + own;
        if bytes > CACHE_BYTES {
            return;
        }
        if self.bytes + bytes > CACHE_BYTES {
            *self = ExpressionCache::default();
        }
        // Another thread may have added it.
        if self.known.insert(text.to_owned(), compiled.clone()).is_none() {
            self.bytes += bytes;
        }
    }
}

/// Runs the interpreter. A panic becomes an error of the expression.
fn catch_panic<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let done = on_large_stack(|| catch_unwind(AssertUnwindSafe(work)));
    done.unwrap_or_else(|_| Err("the interpreter stopped unexpectedly".to_owned()))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Converts JSON as the API server does: whole numbers become `int`.
fn to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(value) => cel::Value::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => cel::Value::Int(whole),
            None => cel::Value::Float(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(to_cel).collect::<Vec<_>>().into(),
        Value::Object(fields) => {
            let entries = fields
                .iter()
                .map(|(name, value)| (Key::from(name.as_str()), to_cel(value)));
            cel::Value::Map(Map {
                map: Arc::new(entries.collect()),
            })
        }
    }
}

impl DataSizes {
    /// Adds the sizes of a value. In `members`, two levels (kind and name) are above the objects.
    fn include(&mut self, value: &Value, depth: usize) {
        self.whole += 1;
        let mut count = |entries: usize| {
            let most = if depth < 2 { &mut self.top } else { &mut self.inner };
            *most = (*most).max(entries as u64);
        };
        match value {
            Value::String(text) => {
                let size = 1 + text.len() as u64 / 64;
                self.whole += size;
                self.text = self.text.max(size);
            }
            Value::Array(items) => {
                count(items.len());
                items.iter().for_each(|item| self.include(item, depth + 1));
            }
            Value::Object(fields) => {
                count(fields.len());
                for (name, field) in fields {
                    self.text = self.text.max(1 + name.len() as u64 / 64);
                    self.include(field, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn add(&mut self, other: &DataSizes) {
        self.top = self.top.max(other.top);
        self.inner = self.inner.max(other.inner);
        self.text = self.text.max(other.text);
        self.whole += other.whole;
    }
}

/// Rejects constructs that copy objects, or whose cost does not follow from the sizes of the data.
fn check(expression: &IdedExpr) -> Result<(), String> {
    match &expression.expr {
        // `filter` and `map` add lists of one element.
        Expr::List(list) if list.elements.len() > 1 && !list.elements.iter().all(is_constant) => {
            return Err("a list may hold constants only".to_owned());
        }
        Expr::Map(_) | Expr::Struct(_) => return Err("there are no maps and messages".to_owned()),
        Expr::Comprehension(fold) if !matches!(&fold.accu_init.expr, Expr::Literal(_) | Expr::List(_)) => {
            return Err("only the standard macros are known".to_owned());
        }
        Expr::Call(call) => check_call(call)?,
        _ => {}
    }
    parts(expression).into_iter().try_for_each(check)
}

fn check_call(call: &CallExpr) -> Result<(), String> {
    let name = call.func_name.as_str();
    let is_operator = name.starts_with(['_', '!', '-', '@']);
    if !is_operator && !FUNCTIONS.contains(&name) {
        return Err(format!("there is no function {name}, only {}", FUNCTIONS.join(", ")));
    }
    let pattern = call.args.last().map(|pattern| &pattern.expr);
    match (name, pattern) {
        ("matches", Some(Expr::Literal(LiteralValue::String(_)))) => Ok(()),
        ("matches", _) => Err("the pattern of matches must be a constant".to_owned()),
        _ => Ok(()),
    }
}

/// Replaces the patterns in calls of `matches` by indices of compiled patterns.
fn compile_patterns(
    expression: &mut IdedExpr,
    patterns: &mut Vec<Regex>,
    sizes: &mut Vec<usize>,
) -> Result<(), String> {
    if let Expr::Call(call) = &mut expression.expr
        && call.func_name == "matches"
        && let Some(last) = call.args.last_mut()
        && let Expr::Literal(LiteralValue::String(pattern)) = &last.expr
    {
        let (regex, size) = compile_pattern(pattern.inner())?;
        let at = i64::try_from(patterns.len()).unwrap_or(i64::MAX);
        last.expr = Expr::Literal(LiteralValue::Int(at.into()));
        MATCHES.clone_into(&mut call.func_name);
        patterns.push(regex);
        sizes.push(size);
    }
    let mut parts = parts_mut(expression).into_iter();
    parts.try_for_each(|part| compile_patterns(part, patterns, sizes))
}

fn compile_pattern(pattern: &str) -> Result<(Regex, usize), String> {
    let mut why = String::new();
    for size in PATTERN_LIMITS {
        let mut builder = regex::RegexBuilder::new(pattern);
        match builder.size_limit(size).dfa_size_limit(AUTOMATON_BYTES).build() {
            Ok(regex) => return Ok((regex, size)),
            Err(error) => why = format!("matches: {error}"),
        }
        if !why.contains("size limit") {
            break;
        }
    }
    Err(why)
}

/// True for the accumulator of a macro.
fn is_accumulator(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == "@result")
}

fn is_constant(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Literal(_))
}

/// Returns the length of the longest list in the text of an expression.
fn longest_literal(expression: &IdedExpr) -> u64 {
    let own = match &expression.expr {
        Expr::List(list) => list.elements.len() as u64,
        _ => 0,
    };
    parts(expression).into_iter().map(longest_literal).fold(own, u64::max)
}

/// Returns the subexpressions.
fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(fold) => {
            let ComprehensionExpr {
                iter_range,
                accu_init,
                loop_cond,
                loop_step,
                result,
                ..
            } = &**fold;
            vec![iter_range, accu_init, loop_cond, loop_step, result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Map(map) => map.entries.iter().flat_map(entry).collect(),
        Expr::Struct(fields) => fields.entries.iter().flat_map(entry).collect(),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => Vec::new(),
    }
}

/// Returns the subexpressions of a checked expression, which has no maps and messages.
fn parts_mut(expression: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut expression.expr {
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(fold) => {
            let ComprehensionExpr {
                iter_range,
                accu_init,
                loop_cond,
                loop_step,
                result,
                ..
            } = &mut **fold;
            vec![iter_range, accu_init, loop_cond, loop_step, result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Select(select) => vec![&mut select.operand],
        _ => Vec::new(),
    }
}

fn entry(entry: &IdedEntryExpr) -> Vec<&IdedExpr> {
    match &entry.expr {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}

/// True if a macro within the expression binds this name.
fn is_bound_in(expression: &IdedExpr, name: &str) -> bool {
    let is_bound = match &expression.expr {
        Expr::Comprehension(fold) => {
            fold.iter_var == name || fold.accu_var == name || fold.iter_var2.as_deref() == Some(name)
        }
        _ => false,
    };
    is_bound || parts(expression).into_iter().any(|part| is_bound_in(part, name))
}

/// Returns the maximum steps of an expression. A macro iterates over a list; a search may visit all data.
fn cost(expression: &IdedExpr, sizes: DataSizes) -> u64 {
    let of = |part: &IdedExpr| cost(part, sizes);
    let all = || parts(expression).into_iter().map(of).fold(1, u64::saturating_add);
    match &expression.expr {
        Expr::Call(call) => all().saturating_add(cost_of_call(call, sizes)),
        // The element is copied, except the variable of a macro, which counts there.
        Expr::List(list) => match &list.elements[..] {
            [element] if !is_constant(element) && !matches!(&element.expr, Expr::Ident(_)) => {
                all().saturating_add(sizes.whole)
            }
            _ => all(),
        },
        Expr::Comprehension(fold) => {
            let entries = if is_inner_range(&fold.iter_range) {
                sizes.inner
            } else {
                sizes.top.max(sizes.inner)
            };
            let once = of(&fold.loop_cond)
                .saturating_add(of(&fold.loop_step))
                .saturating_add(1);
            // `filter` copies each selected element once.
            let copied = match &fold.accu_init.expr {
                Expr::List(_) => sizes.whole,
                _ => 0,
            };
            let around = of(&fold.iter_range)
                .saturating_add(of(&fold.result))
                .saturating_add(copied);
            once.saturating_mul(entries.max(1)).saturating_add(around)
        }
        _ => all(),
    }
}

/// True if the range is a field of an object, such as a pod, and not the list of all pods.
fn is_inner_range(range: &IdedExpr) -> bool {
    let (mut depth, mut at) = (0, &range.expr);
    while let Expr::Select(select) = at {
        depth += 1;
        at = &select.operand.expr;
    }
    match at {
        Expr::Ident(name) if name == "members" => depth > 2,
        Expr::Ident(_) => depth > 1,
        _ => false,
    }
}

fn cost_of_call(call: &CallExpr, sizes: DataSizes) -> u64 {
    let compares_with_constant = match call.func_name.as_str() {
        "_==_" | "_!=_" => call.args.iter().any(is_constant),
        "@in" => call.args.get(1).is_some_and(|list| matches!(&list.expr, Expr::List(_))),
        _ => false,
    };
    match call.func_name.as_str() {
        "_&&_" | "_||_" | "!_" | "@not_strictly_false" | "-_" => 0,
        _ if compares_with_constant => sizes.text,
        "_+_" if call.args.first().is_some_and(is_accumulator) => 1,
        "_?_:_" if call.args.last().is_some_and(is_accumulator) => 1,
        "_<_" | "_<=_" | "_>_" | "_>=_" | "_[_]" | "size" => sizes.text,
        "contains" | "startsWith" | "endsWith" => sizes.text,
        MATCHES => sizes.text.saturating_mul(sizes.matching).saturating_add(MATCH),
        _ => sizes.whole,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(text: &str, object: &Value) -> Result<bool, String> {
        let expression = Expression::compile(text).map_err(|error| error.to_string())?;
        let holds = expression.evaluate(&[("self", &CelData::from_json(object))]);
        holds.map_err(|error| error.to_string())
    }

    #[test]
    fn expressions_read_objects_as_in_the_api_server() {
        let object = json!({
            "spec": {"replicas": 3},
            "status": {"ready": 2, "share": 0.5, "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        for (text, expected) in [
            ("self.status.ready >= 2", true),
            ("self.status.ready == self.spec.replicas - 1", true),
            (
                "self.status.ready * 2 > self.spec.replicas && self.status.share < 1.0",
                true,
            ),
            (
                "self.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')",
                true,
            ),
            ("self.status.conditions.all(c, c.status == 'True')", false),
            ("self.status.conditions.filter(c, c.status == 'True').size() == 1", true),
            ("has(self.status.missing) && self.status.missing == 1", false),
            ("self.status.phase in ['Running', 'Succeeded']", true),
            (
                "self.status.phase.startsWith('Run') && self.status.phase.matches('^R.*g$')",
                true,
            ),
        ] {
            assert_eq!(holds(text, &object), Ok(expected), "{text}");
        }
    }

    #[test]
    fn invalid_conditions_report_the_reason() {
        let object = json!({"status": {"ready": 2}});
        for (text, expected) in [
            ("self.status.", "does not compile"),
            ("", "does not compile"),
            ("self.status.ready", "is neither true nor false, but int"),
            ("self.status.missing > 1", "there is no missing"),
            ("other.status", "there is no other"),
            ("self.status.ready + 'x' == 'y'", "its types don't fit"),
            ("self.status.split('x') == 1", "there is no function split, only size"),
            ("[self, self].size() > 0", "a list may hold constants only"),
            ("{'a': self}.size() > 0", "there are no maps"),
            ("'a'.matches(self.status.text)", "must be a constant"),
            ("'a'.matches('\\\\w{999}')", "matches:"),
        ] {
            let error = holds(text, &object).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error:?}");
        }
        let long = format!("self.status.ready == 1{}", " || true".repeat(MAX_TEXT_BYTES));
        assert!(holds(&long, &object).unwrap_err().contains("longer than"));
    }

    #[test]
    fn compiled_expressions_are_cached() {
        let text = "self.name.matches('^only-(here|there)$')";
        assert!(!Expression::is_compiled(text));
        let [one, other] =
            [text, " self.name.matches('^only-(here|there)$')\n"].map(|text| Expression::compile(text).unwrap());
        assert!(Arc::ptr_eq(&one.0, &other.0) && Expression::is_compiled(text));
        for (name, expected) in [("only-here", true), ("only-us", false)] {
            assert_eq!(holds(text, &json!({"name": name})), Ok(expected), "{name}");
        }
        let two = "matches(self.name, 'only') && !self.name.matches('there') && self.name.matches('^o')";
        assert_eq!(holds(two, &json!({"name": "only-here"})), Ok(true));
        assert!(
            holds(two, &json!({"name": 1}))
                .unwrap_err()
                .contains("its types don't fit")
        );
        // This name is internal.
        assert!(Expression::compile("'a'.@matches(0)").is_err());
    }

    #[test]
    fn the_cache_is_bounded_in_bytes() {
        let mut cache = ExpressionCache::default();
        let compiled = Expression::compile("self.name.matches('bounded')");
        for at in 0..500 {
            let before = cache.known.len();
            cache.insert(&at.to_string(), &compiled);
            assert!(cache.bytes <= CACHE_BYTES && cache.known.len() <= before + 1);
        }
        assert!(cache.known.len() < 200);
    }

    #[test]
    fn expensive_expressions_are_rejected() {
        let many: Vec<u64> = (0..2000).collect();
        let object = json!({"list": many, "text": "x".repeat(10_000)});
        assert_eq!(holds("self.list.all(a, a >= 0)", &object), Ok(true));
        assert_eq!(
            holds("self.list.exists(a, a in [1, 5]) && self.list.all(a, a != -1)", &object),
            Ok(true)
        );
        for text in [
            "self.list.all(a, self.list.all(b, a >= b || self.list.all(c, c > a)))",
            "self.list.all(a, self.list.exists(b, self.text.contains(string(a + b))))",
            "self.list.all(a, a in self.list)",
            "self.list.all(a, 1 in self.list)",
            "self.list.map(a, self.list.map(b, self.list)).size() > 0",
            "self.list.all(a, self.text.matches('^x*$'))",
        ] {
            assert!(holds(text, &object).unwrap_err().contains("too long"), "{text}");
        }
        // Typical conditions over many pods.
        let container = json!({"name": "app", "restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let pod = json!({"metadata": {"labels": {"role": "master"}}, "status": {"containerStatuses": [container, container]}});
        let pods = CelData::from_json(&Value::Array(vec![pod; 2000]));
        for text in [
            "pods.exists(p, p.status.containerStatuses.exists(c, c.restartCount > 5))",
            "pods.filter(p, p.metadata.labels['role'] == 'master').size() > 0",
            "pods.all(p, p.status.containerStatuses.all(c, has(c.state.waiting) && c.state.waiting.reason == 'CrashLoopBackOff'))",
        ] {
            let holds = Expression::compile(text).unwrap().evaluate(&[("pods", &pods)]);
            assert_eq!(holds, Ok(true), "{text}");
        }
        let deep = format!("{}1{} == 1", "(".repeat(1500), ")".repeat(1500));
        assert!(holds(&deep, &object).is_err(), "nests too deep for the parser");
    }
}
