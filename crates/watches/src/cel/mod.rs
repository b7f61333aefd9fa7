//! Conditions in CEL, the language of Kubernetes' own validation rules, over live objects. An expression may come from
//! whoever gives values to a chart, so that what it may cost is bounded before it is evaluated.

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

/// What conditions of members and rules may read: the object that they are of (of a rule, the custom resource), the live members,
/// and their pods.
pub const VARIABLES: [&str; 3] = ["self", "members", "pods"];

/// The longest text of an expression, in bytes.
const LONGEST: usize = 4096;
/// What an evaluation may cost, in steps: less than a second.
const MOST: u64 = 1_000_000;
/// Of an expression in a message, in bytes.
const SHOWN: usize = 300;
/// What a pattern of `matches` may be compiled to, in bytes: the least of these that is enough, so that what a match costs
/// is known to within a factor.
const PATTERNS: [usize; 4] = [1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// A match takes so many steps for 64 bytes of text at least; and a step more for so many bytes of the compiled pattern: a
/// nanosecond for each pair of a state, of some 30 bytes, and a byte of the text.
const MATCH: u64 = 10;
const PATTERN_BYTES_A_STEP: u64 = 400;
/// What the automata of a pattern may take that are made while it is matched, in bytes.
const AUTOMATON: usize = 128 << 10;
/// The name of `matches` once its pattern is compiled: no expression can have it.
const MATCHES: &str = "@matches";
/// What the process keeps of compiled expressions, in bytes.
const CACHED: usize = 16 << 20;
/// What an expression takes for a byte of its text, and besides.
const NODE: usize = 64;
const ENTRY: usize = 1 << 10;
/// The functions that there are, besides operators and macros.
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
/// Names that are types.
const TYPES: [&str; 8] = ["int", "uint", "double", "bool", "string", "list", "map", "null_type"];

/// An expression that can be evaluated. Cheap to clone.
#[derive(Clone)]
pub struct Expression(Arc<CompiledExpression>);

struct CompiledExpression {
    text: String,
    expression: IdedExpr,
    /// The variables that it reads.
    variables: Vec<String>,
    /// The patterns of `matches`, by their place; and the size of the largest.
    patterns: Arc<[Regex]>,
    largest_pattern: usize,
    /// As [`longest_literal`].
    longest_literal: u64,
    /// About what it takes, in bytes.
    size: usize,
}

/// What was compiled, by text: many releases have the same conditions, and each is looked at often.
#[derive(Default)]
struct ExpressionCache {
    known: HashMap<String, Result<Expression, CelError>>,
    bytes: usize,
}

static COMPILED: LazyLock<Mutex<ExpressionCache>> = LazyLock::new(Mutex::default);
/// The functions that expressions may call.
static FUNCTIONS_OF_CEL: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// Why an expression says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CelError {
    #[error("the expression {0:?} is longer than {LONGEST} bytes")]
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

/// A value of a variable, as it is evaluated. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CelData {
    value: cel::Value,
    sizes: DataSizes,
}

/// The sizes of what is evaluated, which a cost depends on.
#[derive(Clone, Copy, Debug, Default)]
struct DataSizes {
    /// Entries of the longest list or map at the top: the pods, the members of a kind.
    top: u64,
    /// The same of what lies further within.
    inner: u64,
    /// The longest text, in units of 64 bytes.
    text: u64,
    /// The whole, in values and units of 64 bytes of text.
    whole: u64,
    /// What a match costs for each unit of 64 bytes of text.
    matching: u64,
}

// === impl CelData ===

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

// === impl Expression ===

impl Expression {
    /// Compiles a text, or takes it from the cache. It may take some milliseconds.
    ///
    /// # Errors
    /// The text is no expression, too long, or of a kind whose cost has no bound.
    pub fn compile(text: &str) -> Result<Self, CelError> {
        let text = text.trim();
        if text.len() > LONGEST {
            return Err(CelError::TooLong(cut(text, SHOWN)));
        }
        if let Some(known) = cache().known.get(text) {
            return known.clone();
        }
        // Others need not wait for that.
        let compiled = guarded(|| CompiledExpression::new(text)).map(|compiled| Expression(Arc::new(compiled)));
        let compiled = compiled.map_err(|why| CelError::Syntax {
            text: cut(text, SHOWN),
            why: one_line(&why),
        });
        cache().insert(text, &compiled);
        compiled
    }

    /// Whether [`Expression::compile`] answers from the cache.
    pub fn is_compiled(text: &str) -> bool {
        let text = text.trim();
        text.len() > LONGEST || cache().known.contains_key(text)
    }

    /// The same for an expression that is given these variables and no others.
    ///
    /// # Errors
    /// It reads another one, too.
    pub fn compile_with(text: &str, variables: &[&str]) -> Result<Self, CelError> {
        let expression = Expression::compile(text)?;
        let CompiledExpression {
            text, expression: tree, ..
        } = &*expression.0;
        let is_known = |name: &str| variables.contains(&name) || TYPES.contains(&name) || binds(tree, name);
        let unknown = expression.0.variables.iter().find(|name| !is_known(name));
        match unknown {
            Some(name) => Err(CelError::Syntax {
                text: cut(text, SHOWN),
                why: format!("there is no variable {name}, only {}", variables.join(", ")),
            }),
            None => Ok(expression),
        }
    }

    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// True if it reads a variable of this name.
    pub fn has_variable(&self, variable: &str) -> bool {
        self.0.variables.iter().any(|name| name == variable)
    }

    /// Whether it is true of these variables. It may take the better part of a second of a processor.
    ///
    /// # Errors
    /// It can't be evaluated, as where a field is missing, or is no condition.
    pub fn evaluate(&self, variables: &[(&str, &CelData)]) -> Result<bool, CelError> {
        let CompiledExpression {
            expression, patterns, ..
        } = &*self.0;
        let text = || cut(self.text(), SHOWN);
        let mut sizes = DataSizes {
            matching: MATCH + self.0.largest_pattern as u64 / PATTERN_BYTES_A_STEP,
            ..DataSizes::default()
        };
        let read = || variables.iter().filter(|(name, _)| self.has_variable(name));
        read().for_each(|(_, data)| sizes.add(&data.sizes));
        let literals = self.0.longest_literal;
        (sizes.top, sizes.inner) = (sizes.top.max(literals), sizes.inner.max(literals));
        if cost(expression, sizes) > MOST {
            return Err(CelError::TooCostly(text()));
        }
        let evaluated = guarded(|| {
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
                why: self.why(&error),
            }),
            Err(why) => Err(CelError::Evaluation { text: text(), why }),
        }
    }

    /// What is wrong, without values of the objects: they may be secret.
    fn why(&self, error: &ExecutionError) -> String {
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

// === impl CompiledExpression ===

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
        let of_patterns = sizes.iter().map(|size| size + 2 * AUTOMATON).sum::<usize>();
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

// === impl ExpressionCache ===

fn cache() -> MutexGuard<'static, ExpressionCache> {
    COMPILED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExpressionCache {
    /// Where there is no room left, all that was kept goes.
    fn insert(&mut self, text: &str, compiled: &Result<Expression, CelError>) {
        let own = compiled.as_ref().map_or(ENTRY, |compiled| compiled.0.size);
        let bytes = text.len() + own;
        if bytes > CACHED {
            return;
        }
        if self.bytes + bytes > CACHED {
            *self = ExpressionCache::default();
        }
        // Two threads may have compiled it.
        if self.known.insert(text.to_owned(), compiled.clone()).is_none() {
            self.bytes += bytes;
        }
    }
}

/// A defect of the interpreter is an error of this expression.
fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let done = on_large_stack(|| catch_unwind(AssertUnwindSafe(work)));
    done.unwrap_or_else(|_| Err("the interpreter stopped unexpectedly".to_owned()))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// As the API server gives JSON to CEL: whole numbers are `int`.
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

// === impl DataSizes ===

impl DataSizes {
    /// `members` has kinds, and names within these, above the objects.
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

/// What an expression may not do: make copies of objects, or anything else whose cost isn't known from their sizes.
fn check(expression: &IdedExpr) -> Result<(), String> {
    match &expression.expr {
        // One element is what filter and map add to a list.
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

/// Puts compiled patterns in the place of those in the calls of `matches`.
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
    for size in PATTERNS {
        let mut builder = regex::RegexBuilder::new(pattern);
        match builder.size_limit(size).dfa_size_limit(AUTOMATON).build() {
            Ok(regex) => return Ok((regex, size)),
            Err(error) => why = format!("matches: {error}"),
        }
        if !why.contains("size limit") {
            break;
        }
    }
    Err(why)
}

/// True of what a macro has collected so far.
fn is_collected(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Ident(name) if name == "@result")
}

fn is_constant(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::Literal(_))
}

/// The most elements of a list that stands in an expression.
fn longest_literal(expression: &IdedExpr) -> u64 {
    let own = match &expression.expr {
        Expr::List(list) => list.elements.len() as u64,
        _ => 0,
    };
    parts(expression).into_iter().map(longest_literal).fold(own, u64::max)
}

/// The parts of an expression.
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

/// The same, of an expression that was checked: there are no maps and messages.
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

/// True if a macro within the expression gives this name to what it goes through.
fn binds(expression: &IdedExpr, name: &str) -> bool {
    let is_bound = match &expression.expr {
        Expr::Comprehension(fold) => {
            fold.iter_var == name || fold.accu_var == name || fold.iter_var2.as_deref() == Some(name)
        }
        _ => false,
    };
    is_bound || parts(expression).into_iter().any(|part| binds(part, name))
}

/// The most steps that an expression takes: a macro goes through a list, and what searches may go through everything.
fn cost(expression: &IdedExpr, sizes: DataSizes) -> u64 {
    let of = |part: &IdedExpr| cost(part, sizes);
    let all = || parts(expression).into_iter().map(of).fold(1, u64::saturating_add);
    match &expression.expr {
        Expr::Call(call) => all().saturating_add(cost_of_call(call, sizes)),
        // It is copied; but for what a macro goes through, which counts there.
        Expr::List(list) => match &list.elements[..] {
            [element] if !is_constant(element) && !matches!(&element.expr, Expr::Ident(_)) => {
                all().saturating_add(sizes.whole)
            }
            _ => all(),
        },
        Expr::Comprehension(fold) => {
            let entries = match is_within(&fold.iter_range) {
                true => sizes.inner,
                false => sizes.top.max(sizes.inner),
            };
            let once = of(&fold.loop_cond)
                .saturating_add(of(&fold.loop_step))
                .saturating_add(1);
            // Each element that filter keeps is copied once.
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

/// True of fields of an object, as those of a pod: what is gone through isn't the list of all pods.
fn is_within(range: &IdedExpr) -> bool {
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
        "_+_" if call.args.first().is_some_and(is_collected) => 1,
        "_?_:_" if call.args.last().is_some_and(is_collected) => 1,
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
    fn expressions_see_objects_as_the_api_server_shows_them() {
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
    fn what_is_no_condition_says_why() {
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
        let long = format!("self.status.ready == 1{}", " || true".repeat(LONGEST));
        assert!(holds(&long, &object).unwrap_err().contains("longer than"));
    }

    #[test]
    fn what_was_compiled_is_not_compiled_again() {
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
        // A name that only the compiler gives.
        assert!(Expression::compile("'a'.@matches(0)").is_err());
    }

    #[test]
    fn what_is_kept_of_expressions_is_bounded_in_bytes() {
        let mut cache = ExpressionCache::default();
        let compiled = Expression::compile("self.name.matches('bounded')");
        for at in 0..500 {
            let before = cache.known.len();
            cache.insert(&at.to_string(), &compiled);
            assert!(cache.bytes <= CACHED && cache.known.len() <= before + 1);
        }
        assert!(cache.known.len() < 200);
    }

    #[test]
    fn an_expression_costs_no_more_than_it_may() {
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
        // What people write, of as many pods as there may be.
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
