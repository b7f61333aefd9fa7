//! Conditions in CEL, the language of Kubernetes' own validation rules, over live objects. An expression may come from
//! whoever gives values to a chart, so that what it may cost is bounded before it is evaluated.

use std::fmt::{self, Debug, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::common::ast::{ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr};
use cel::objects::{Key, Map};
use cel::{Context, Program};
use helm_template::render::on_large_stack;
use serde_json::Value;

use crate::telemetry::cut;

/// The longest text of an expression, in bytes.
const LONGEST: usize = 4096;
/// What an evaluation may cost, in steps: less than a second.
const MOST: u64 = 1_000_000;
/// Errors quote values, which may be whole objects.
const SHOWN: usize = 300;

/// An expression that can be evaluated.
#[derive(Clone)]
pub struct Expression {
    text: String,
    program: Arc<Program>,
}

/// Why an expression says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
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

/// The sizes of what is evaluated, which a cost depends on.
#[derive(Clone, Copy, Default)]
struct Sizes {
    /// Entries of the longest list or map.
    entries: u64,
    /// The whole, in units of 64 bytes of text and of values.
    whole: u64,
}

// === impl Expression ===

impl Expression {
    /// # Errors
    /// The text is no expression, or too long.
    pub fn compile(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.len() > LONGEST {
            return Err(Error::TooLong(cut(text, SHOWN)));
        }
        let compiled = guarded(|| Program::compile(text).map_err(|errors| errors.to_string()));
        match compiled {
            Ok(program) => Ok(Expression {
                text: text.to_owned(),
                program: Arc::new(program),
            }),
            Err(why) => Err(Error::Syntax {
                text: cut(text, SHOWN),
                why: one_line(&why),
            }),
        }
    }

    /// The same for an expression that is given these variables and no others.
    ///
    /// # Errors
    /// It reads another one, too.
    pub fn compile_for(text: &str, variables: &[&str]) -> Result<Self, Error> {
        let expression = Expression::compile(text)?;
        let references = expression.program.references();
        let is_known = |name: &str| variables.contains(&name) || binds(expression.program.expression(), name);
        let unknown = references.variables().into_iter().find(|name| !is_known(name));
        match unknown {
            Some(name) => Err(Error::Syntax {
                text: cut(&expression.text, SHOWN),
                why: format!("there is no variable {name}, only {}", variables.join(", ")),
            }),
            None => Ok(expression.clone()),
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// True if it reads a variable of this name.
    pub fn reads(&self, variable: &str) -> bool {
        self.program.references().has_variable(variable)
    }

    /// Whether it is true of these variables.
    ///
    /// # Errors
    /// It can't be evaluated, as where a field is missing, or is no condition.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, Error> {
        let text = || cut(&self.text, SHOWN);
        let mut sizes = Sizes::default();
        variables.iter().for_each(|(_, value)| sizes.include(value));
        sizes.entries = sizes.entries.max(self.text.len() as u64);
        if cost(self.program.expression(), sizes) > MOST {
            return Err(Error::TooCostly(text()));
        }
        let evaluated = guarded(|| {
            let mut context = Context::default();
            for (name, value) in variables {
                context.add_variable_from_value(*name, to_cel(value));
            }
            self.program.execute(&context).map_err(|error| error.to_string())
        });
        match evaluated {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(other) => Err(Error::NoBool {
                text: text(),
                kind: other.type_of().to_string(),
            }),
            Err(why) => Err(Error::Evaluation {
                text: text(),
                why: cut(&one_line(&why), SHOWN),
            }),
        }
    }
}

impl Debug for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&self.text, f)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

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

// === impl Sizes ===

impl Sizes {
    fn include(&mut self, value: &Value) {
        self.whole += 1;
        match value {
            Value::String(text) => self.whole += text.len() as u64 / 64,
            Value::Array(items) => {
                self.entries = self.entries.max(items.len() as u64);
                items.iter().for_each(|item| self.include(item));
            }
            Value::Object(fields) => {
                self.entries = self.entries.max(fields.len() as u64);
                fields.values().for_each(|field| self.include(field));
            }
            _ => {}
        }
    }
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

/// The most steps that an expression takes: a macro goes through the longest list, and what compares or searches may go
/// through everything.
fn cost(expression: &IdedExpr, sizes: Sizes) -> u64 {
    let all = parts(expression).into_iter().map(|part| cost(part, sizes));
    let all = all.fold(1, u64::saturating_add);
    match &expression.expr {
        Expr::Call(call) if !is_cheap(&call.func_name, &call.args) => all.saturating_add(sizes.whole),
        Expr::Comprehension(_) => all.saturating_mul(sizes.entries.max(1)),
        _ => all,
    }
}

/// Takes no longer the larger objects are: logic, numbers, and what compares with something in the expression.
fn is_cheap(function: &str, arguments: &[IdedExpr]) -> bool {
    const CHEAP: [&str; 12] = [
        "_&&_",
        "_||_",
        "!_",
        "_?_:_",
        "_[_]",
        "_<_",
        "_<=_",
        "_>_",
        "_>=_",
        "size",
        "@not_strictly_false",
        "-_",
    ];
    const COMPARING: [&str; 3] = ["_==_", "_!=_", "@in"];
    let is_literal = |argument: &IdedExpr| matches!(&argument.expr, Expr::Literal(_));
    let is_given = |argument: &IdedExpr| match &argument.expr {
        Expr::List(list) => list.elements.iter().all(is_literal),
        _ => is_literal(argument),
    };
    CHEAP.contains(&function) || COMPARING.contains(&function) && arguments.iter().any(is_given)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(text: &str, object: &Value) -> Result<bool, String> {
        let expression = Expression::compile(text).map_err(|error| error.to_string())?;
        expression.holds(&[("self", object)]).map_err(|error| error.to_string())
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
            ("self.status.missing > 1", "No such key: missing"),
            ("other.status", "Undeclared reference to 'other'"),
        ] {
            let error = holds(text, &object).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains('\n'), "{error:?}");
        }
        let long = format!("self.status.ready == 1{}", " || true".repeat(LONGEST));
        assert!(holds(&long, &object).unwrap_err().contains("longer than"));
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
        ] {
            assert!(holds(text, &object).unwrap_err().contains("too long"), "{text}");
        }
        let deep = format!("{}1{} == 1", "(".repeat(1500), ")".repeat(1500));
        assert!(holds(&deep, &object).is_err(), "nests too deep for the parser");
    }
}
