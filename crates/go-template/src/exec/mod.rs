//! The evaluator: walks a tree over a value, as Go's `text/template/exec.go` does.
//!
//! Error positions are part of the contract. The state therefore records the current node exactly where Go does, also
//! where Go's choice is surprising: a bad piped argument is reported at the last operand evaluated.
//!
//! Functions that are not generic over the host have `#[inline]` where the evaluator runs them often: the evaluator is
//! compiled in the crate that has the host.

mod args;
pub(crate) mod builtins;
mod call;
mod fields;
mod metered_host;
mod pipeline;
mod place;
mod variables;
mod walk;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_host;

use super::error::ExecError;
use super::func::FuncMap;
use super::host::{Host, MissingKey};
use super::set::Set;
use super::value::Value;
use metered_host::MeteredHost;
use place::{CurrentNode, ExecPlace};
use variables::VariableStack;

/// Executes the template `name` of `set` over `data` and appends what it prints to `out`.
///
/// `funcs` are the functions beyond Go's built-in ones (and before them, if names are the same); their bodies get
/// `ctx` and may call `exec` again.
///
/// ```
/// use go_template::{FuncMap, Set, Value, exec, host::Plain};
///
/// let funcs = FuncMap::<Plain>::new();
/// let mut set = Set::new("t");
/// set.parse("t", "{{ .a.b }}", &funcs).unwrap();
/// let mut out = Vec::new();
/// let error = exec(&set, "t", &Value::Int(1), &funcs, &mut Plain::default(), &mut out).unwrap_err();
/// assert!(error.to_string().starts_with("template: t:1:"));
/// ```
///
/// # Errors
/// Go's error, with its position; `out` has what was printed until then.
pub fn exec<C: Host>(
    set: &Set,
    name: &str,
    data: &Value,
    funcs: &FuncMap<C>,
    ctx: &mut C,
    out: &mut Vec<u8>,
) -> Result<(), Box<ExecError>> {
    let Some(tree) = set.get(name) else {
        return Err(Box::new(ExecError::no_template(name, set.name())));
    };
    let missing_key = ctx.missing_key();
    let depth = ctx.meter().depth();
    let mut state = ExecState {
        set,
        funcs,
        host: MeteredHost::new(&mut *ctx, out),
        missing_key,
        place: ExecPlace {
            tree,
            node: CurrentNode::Start,
        },
        vars: VariableStack::new(),
        args: Vec::new(),
    };
    let done = state.execute(&Reflected::concrete(data.clone()));
    // An error leaves levels open.
    ctx.meter().set_depth(depth);
    done
}

/// A value with what Go's reflection knows beyond it: whether it came as an `interface {}`, such as a map's element,
/// or as its concrete type. A nil that is no interface is Go's invalid `reflect.Value`: no value at all.
#[derive(Clone)]
pub(super) struct Reflected {
    pub(super) value: Value,
    pub(super) interface: bool,
}

impl Reflected {
    pub(super) const INVALID: Self = Reflected {
        value: Value::Nil,
        interface: false,
    };

    pub(super) fn concrete(value: Value) -> Self {
        Reflected {
            value,
            interface: false,
        }
    }

    /// The static type.
    fn type_name(&self) -> &'static str {
        if self.interface {
            "interface {}"
        } else {
            self.value.type_name()
        }
    }

    /// The value inside the interface.
    fn elem(self) -> Self {
        Reflected {
            interface: false,
            ..self
        }
    }
}

type ExecFailure = Box<ExecError>;

/// The way a list of nodes ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// An execution under way. Its methods walk nodes (`walk`), evaluate pipelines (`pipeline`) and call functions (`call`).
struct ExecState<'a, 'c, C> {
    set: &'a Set,
    funcs: &'a FuncMap<C>,
    host: MeteredHost<'c, C>,
    missing_key: MissingKey,
    place: ExecPlace<'a>,
    vars: VariableStack<'a>,
    /// The arguments of the calls under way.
    args: Vec<Value>,
}
