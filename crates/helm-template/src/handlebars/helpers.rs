//! The helpers: Helm's functions under their names, with their arguments in Helm's order, and what Handlebars needs
//! besides.

use ::handlebars::{
    Context as Data, Handlebars, Helper, HelperDef, HelperResult, JsonTruthy, Output, RenderContext, RenderError,
    RenderErrorReason, Renderable, ScopedJson,
};
use serde_json::Value as Json;

use super::compare::{compare, sort};
use super::{Session, SessionState, data};
use crate::helm::{Context, Limit, table};
use go_template::{CallError, Func, Host, List, ListKind, Param, Value};

/// Put at the start and the end of every body by [`prepare`](super::prepare).
pub(super) const ENTER: &str = "__enter";
pub(super) const LEAVE: &str = "__leave";
/// Writes its argument.
pub(super) const VALUE: &str = "__value";
/// The local helper name of a render's [`Desk`].
pub(super) const DESK: &str = "__desk";

/// The maximum number of open blocks and partials. Each partial has a copy of its data.
const MAX_DEPTH: usize = 100;

/// Helpers that aren't functions of Helm's table, or not with this meaning.
const OWN: [&str; 14] = [
    ENTER, LEAVE, VALUE, "eq", "ne", "lt", "le", "lte", "gt", "ge", "gte", "and", "or", "not",
];
/// The helpers of the crate that stay.
const BUILTIN: [&str; 6] = ["if", "unless", "each", "with", "raw", "len"];
/// Functions that work on Go templates.
const GO_ONLY: [&str; 2] = ["include", "tpl"];
/// Helpers that accept an undefined value as null.
const TOLERANT: [&str; 7] = ["default", "coalesce", "empty", "required", "and", "or", "not"];

/// A function of Helm's table, if Handlebars templates can call it: those that take certificates and other structs
/// can't be, since between helpers all is JSON.
fn function(name: &str) -> Option<&'static Func<Context>> {
    let func = table().get(name).filter(|_| !GO_ONLY.contains(&name))?;
    let by_name = |param: &Param| matches!(param, Param::Named(_));
    (!func.params.iter().any(by_name)).then_some(func)
}

/// Whether there is a helper of that name.
pub(super) fn exists(name: &str) -> bool {
    BUILTIN.contains(&name) || OWN.contains(&name) || function(name).is_some()
}

/// Whether the bare name is a call, and not a value of the data: only if the function takes no arguments at all.
pub(super) fn is_call_alone(name: &str) -> bool {
    function(name).is_some_and(|func| func.params.is_empty() && func.variadic.is_none())
}

pub(super) fn register(registry: &mut Handlebars<'static>) {
    registry.unregister_helper("log");
    for name in table().names().filter(|name| function(name).is_some()).chain(OWN) {
        registry.register_helper(name, Box::new(Relay));
    }
}

/// The error text for an undefined value.
pub(super) fn undefined(path: &str) -> String {
    format!("{path} is not defined")
}

fn fail(text: impl Into<String>) -> RenderError {
    RenderErrorReason::Other(text.into()).into()
}

/// Every helper in the registry, which knows no render: it hands calls to the render's [`Desk`].
struct Relay;

impl HelperDef for Relay {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        call: &Helper<'rc>,
        registry: &'reg Handlebars<'reg>,
        data: &'rc Data,
        render: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        let desk = render
            .get_local_helper(DESK)
            .ok_or_else(|| fail("helpers need a render"))?;
        desk.call_inner(call, registry, data, render)
    }

    fn call<'reg: 'rc, 'rc>(
        &self,
        call: &Helper<'rc>,
        registry: &'reg Handlebars<'reg>,
        data: &'rc Data,
        render: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        if !call.is_block() {
            return Written.call(call, registry, data, render, out);
        }
        let truth = self
            .call_inner(call, registry, data, render)?
            .as_json()
            .is_truthy(false);
        let body = if truth { call.template() } else { call.inverse() };
        body.map_or(Ok(()), |body| body.render(registry, data, render, out))
    }
}

/// A [`Relay`] whose result is written: the crate's own `call` does it, which knows the indentation of partials.
struct Written;

impl HelperDef for Written {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        call: &Helper<'rc>,
        registry: &'reg Handlebars<'reg>,
        data: &'rc Data,
        render: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        let value = Relay.call_inner(call, registry, data, render)?;
        if let (true, Some(path)) = (
            value.is_missing(),
            call.param(0).and_then(|param| param.relative_path()),
        ) {
            return Err(fail(undefined(path)));
        }
        match value.as_json() {
            // The crate would write [object].
            json @ (Json::Array(_) | Json::Object(_)) => Err(fail(format!(
                "{} has no text of its own: write it with toYaml or toJson",
                sort(json)
            ))),
            _ => Ok(value),
        }
    }
}

/// Calls the helpers of one render.
pub(super) struct Desk<'s, 'c>(pub(super) &'s Session<'c>);

impl HelperDef for Desk<'_, '_> {
    fn call_inner<'reg: 'rc, 'rc>(
        &self,
        call: &Helper<'rc>,
        _: &'reg Handlebars<'reg>,
        _: &'rc Data,
        _: &mut RenderContext<'reg, 'rc>,
    ) -> Result<ScopedJson<'rc>, RenderError> {
        let name = call.name();
        match name {
            ENTER => {
                return self
                    .0
                    .with(enter)
                    .map(|()| ScopedJson::Constant(&Json::Null))
                    .map_err(fail);
            }
            LEAVE => {
                self.0.with(|state| state.depth = state.depth.saturating_sub(1));
                return Ok(ScopedJson::Constant(&Json::Null));
            }
            _ => {}
        }
        if let Some(key) = call.hash().keys().next() {
            return Err(fail(format!("{name} takes no named argument {key}")));
        }
        let mut args = Vec::with_capacity(call.params().len());
        for param in call.params() {
            if param.is_value_missing() && !TOLERANT.contains(&name) {
                let path = param.relative_path().map_or("an argument", String::as_str);
                return Err(fail(undefined(path)));
            }
            args.push(param.value());
        }
        let result = match (name, args.as_slice()) {
            (VALUE, [value]) => Ok((*value).clone()),
            // Handlebars' own: an element of a list or map by a computed key.
            ("lookup", [collection, key]) => match element(collection, key) {
                Some(found) => Ok(found.clone()),
                None => return Ok(ScopedJson::Missing),
            },
            ("eq" | "ne" | "lt" | "le" | "lte" | "gt" | "ge" | "gte", [a, b]) => compare(name, a, b).map(Json::Bool),
            ("eq" | "ne" | "lt" | "le" | "lte" | "gt" | "ge" | "gte", _) => {
                Err(wanted(name, "2 arguments", args.len()))
            }
            ("not", [value]) => Ok(Json::Bool(!value.is_truthy(false))),
            ("and", [.., last]) => Ok((*args.iter().find(|arg| !arg.is_truthy(false)).unwrap_or(last)).clone()),
            ("or", [.., last]) => Ok((*args.iter().find(|arg| arg.is_truthy(false)).unwrap_or(last)).clone()),
            ("and" | "or" | "not", _) => Err(wanted(name, "an argument", args.len())),
            ("fail", [Json::String(text)]) => Err(text.clone()),
            ("required", [Json::String(text), value]) => match value {
                Json::Null => Err(text.clone()),
                Json::String(value) if value.is_empty() => Err(text.clone()),
                value => Ok((*value).clone()),
            },
            _ => self.0.with(|state| apply(state, name, &args)),
        };
        result.map(ScopedJson::Derived).map_err(fail)
    }
}

fn enter(state: &mut SessionState<'_>) -> Result<(), String> {
    state.context.step()?;
    state.depth += 1;
    let most = MAX_DEPTH.min(state.context.max_depth());
    if state.depth > most {
        let limit = Limit::Depth(most);
        state.too_deep = Some(limit);
        return Err(format!("over {limit}"));
    }
    Ok(())
}

fn element<'v>(collection: &'v Json, key: &Json) -> Option<&'v Json> {
    match (collection, key) {
        (Json::Array(items), Json::Number(index)) => items.get(usize::try_from(index.as_u64()?).ok()?),
        (Json::Object(entries), Json::String(key)) => entries.get(key),
        _ => None,
    }
}

fn wanted(name: &str, what: &str, got: usize) -> String {
    format!("{name} wants {what}, and has {got}")
}

/// Calls a function of Helm's table.
fn apply(state: &mut SessionState<'_>, name: &str, args: &[&Json]) -> Result<Json, String> {
    let func = function(name).ok_or_else(|| format!("there is no helper {name:?}"))?;
    state.context.step()?;
    let fixed = func.params.len();
    if args.len() < fixed || (args.len() > fixed && func.variadic.is_none()) {
        let least = if func.variadic.is_some() { "at least " } else { "" };
        let plural = if fixed == 1 { "" } else { "s" };
        return Err(wanted(name, &format!("{least}{fixed} argument{plural}"), args.len()));
    }
    let mut values = Vec::with_capacity(args.len());
    for (at, arg) in args.iter().enumerate() {
        let param = func.params.get(at).copied().or(func.variadic).unwrap_or(Param::Any);
        let value = converted(arg, param).ok_or_else(|| {
            format!(
                "argument {} of {name} is {}: it wants a {}",
                at + 1,
                sort(arg),
                kind(param)
            )
        })?;
        values.push(value);
    }
    let result = (func.body)(state.context, &values).map_err(|e| match e {
        CallError::Text(text) => format!("{name}: {text}"),
        CallError::Exec(error) => format!("{name}: {error}"),
        CallError::Wrapped { prefix, error } => format!("{name}: {prefix}: {error}"),
    })?;
    state.context.called(0, result.shallow_size(), result.fresh_size())?;
    data::of_value(state.context, &result).map_err(|e| format!("{name}: {e}"))
}

fn kind(param: Param) -> &'static str {
    match param {
        Param::Any => "value",
        Param::String => "string",
        Param::Int | Param::Int64 | Param::Uint32 => "whole number",
        Param::Float64 => "number",
        Param::Bool => "bool",
        Param::Map => "map",
        Param::List => "list",
        Param::Strings => "list of strings",
        Param::Named(name) | Param::NamedInt(name) => name,
    }
}

/// An argument as the function's parameter has it. Numbers and bools convert to text where text is required, which Go
/// refuses: in Handlebars, `"1"` and `1` print the same.
fn converted(arg: &Json, param: Param) -> Option<Value> {
    Some(match (param, arg) {
        (Param::Any, arg) => Value::from_json(arg),
        (Param::String, Json::String(text)) => Value::string(text.as_str()),
        (Param::String, Json::Number(n)) => Value::string(n.to_string()),
        (Param::String, Json::Bool(b)) => Value::string(b.to_string()),
        (Param::Int, Json::Number(n)) => Value::Int(n.as_i64()?),
        (Param::Int64, Json::Number(n)) => Value::Int64(n.as_i64()?),
        (Param::Float64, Json::Number(n)) => Value::Float64(n.as_f64()?),
        (Param::Bool, Json::Bool(b)) => Value::Bool(*b),
        (Param::Map, Json::Object(_)) | (Param::List, Json::Array(_)) => Value::from_json(arg),
        (Param::Strings, Json::Array(items)) => {
            let texts = items.iter().map(|item| converted(item, Param::String));
            Value::List(List::new(ListKind::String, texts.collect::<Option<_>>()?))
        }
        _ => return None,
    })
}
