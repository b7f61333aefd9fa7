//! The function table: Go's built-in functions are the evaluator's, sprig's come from `sprig`, the rest is here.
//! Facts: Helm's `pkg/engine/{engine,funcs}.go`.

pub mod convert;
mod duration;
mod toml_read;
mod toml_write;

use std::sync::{Arc, OnceLock};

use super::context::Context;
use super::lookup::LookupKey;
use crate::helm::{NO_VALUE, without_no_value};
use crate::sprig;
use go_template::footprint::Frame;
use go_template::quote::quote_go;
use go_template::{CallError, Func, FuncMap, Meter, Str, Value};

/// The maximum nesting of includes of one name.
const MAX_INCLUDES: u32 = 1000;

/// The markers around the text of `fail` and `required` within an error, so that it can be extracted.
pub(super) const MARKERS: (&str, &str) = ("HELM_ERR_START", "HELM_ERR_END");

/// Every function that a chart's templates can call.
pub fn table() -> &'static FuncMap<Context> {
    static TABLE: OnceLock<FuncMap<Context>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table: FuncMap<Context> = sprig::functions().into_iter().collect();
        table.extend(helm());
        table
    })
}

type CallResult = Result<Value, CallError>;

fn helm() -> Vec<Func<Context>> {
    let mut all = vec![
        Func::with_context("include", include),
        Func::with_context("tpl", tpl),
        Func::new("required", required),
        Func::new("fail", |why: &Str| Err::<Value, _>(marked(why))),
        Func::with_context("lookup", lookup),
        Func::with_context("getHostByName", get_host_by_name),
    ];
    all.extend(convert::table());
    all.extend(duration::table());
    all
}

fn marked(text: &Str) -> String {
    format!("{}{}{}", MARKERS.0, text.to_text(), MARKERS.1)
}

/// The first address of a host, where Helm takes any of them. Empty if there is no resolver.
fn get_host_by_name(context: &mut Context, host: &Str) -> Result<String, CallError> {
    let Some(hosts) = &context.hosts else {
        return Ok(String::new());
    };
    // Sprig draws one of none, at which Go panics.
    let first = hosts(&host.to_text()).into_iter().next();
    first.ok_or_else(|| CallError::from("invalid argument to Intn"))
}

fn include(context: &mut Context, name: &Str, data: &Value) -> Result<Str, CallError> {
    if let Some(text) = context.includes.result(name, data) {
        return Ok(text);
    }
    if context.includes.open(name, MAX_INCLUDES).is_none() {
        return Err(CallError::Text(format!(
            "rendering template has a nested reference name: {}: unable to execute template",
            name.to_text()
        )));
    }
    let frame = Frame::open();
    let result = context.execute(&name.to_text(), data);
    let footprint = frame.close();
    context.includes.close(name);
    let text = Str::from(result?);
    // Each `tpl` has its text under the set's own name.
    if let Some(footprint) = footprint
        && name.as_bytes() != context.set.name().as_bytes()
    {
        context.includes.store(name, data, &text, footprint);
    }
    Ok(text)
}

/// Executes text as a template of its own, over a copy of the set: what it defines is gone afterwards.
fn tpl(context: &mut Context, source: &Str, data: &Value) -> CallResult {
    let name = context.set.name().to_owned();
    context.budget.meter.spend(parsed_size(source.as_bytes()))?;
    if !source.is_empty() && memchr::memmem::find(source, b"{{").is_none() {
        // Nothing but text, as most values are that a chart allows to be templates.
        return Ok(Value::String(match memchr::memmem::find(source, NO_VALUE) {
            None => source.clone(),
            Some(_) => without_no_value(source.to_vec()).into(),
        }));
    }
    let mut set = (*context.set).clone();
    let before = set.get(&name).cloned();
    set.parse(&name, source.clone(), table())
        .map_err(|e| CallError::Text(format!("cannot parse template {}: {e}", quote_go(source.as_bytes()))))?;
    let unchanged = match (&before, set.get(&name)) {
        (Some(before), Some(after)) => Arc::ptr_eq(before, after),
        _ => false,
    };
    if unchanged {
        // Text without actions that is nothing but white space never replaces the text around a nested `tpl`;
        // Go executes it all the same.
        let mut alone = go_template::Set::new(&name);
        if alone.parse(&name, source.clone(), table()).is_ok() {
            set = alone;
        }
    }
    // The text may define a template with the name of another one.
    let defines = [&b"define"[..], b"block"]
        .iter()
        .any(|word| memchr::memmem::find(source, word).is_some());
    context.texts.push(source.clone());
    let outer = std::mem::replace(&mut context.set, Arc::new(set));
    let outer_template_set = defines.then(|| context.includes.next_template_set());
    let result = context.execute(&name, data);
    if let Some(outer_template_set) = outer_template_set {
        context.includes.restore_template_set(outer_template_set);
    }
    context.set = outer;
    context.texts.pop();
    let out = result.map_err(|error| CallError::Wrapped {
        prefix: tpl_failed(&context.budget.meter, source.as_bytes()),
        error,
    })?;
    Ok(Value::string(without_no_value(out)))
}

/// The text before the error of a template within `tpl`. Nested ones have a text each, which may be long.
fn tpl_failed(meter: &Meter, source: &[u8]) -> String {
    let shown = if meter.spend(2 * source.len() as u64).is_ok() {
        quote_go(source)
    } else {
        "a template that is not shown, as there is no memory left for it".to_owned()
    };
    format!("error during tpl function execution for {shown}")
}

/// About the bytes that the tree of a template takes: its text, and up to a node for every two bytes of its actions.
fn parsed_size(source: &[u8]) -> u64 {
    const NODE: u64 = 48;
    let mut size = source.len() as u64;
    let mut rest = source;
    while let Some(open) = rest.windows(2).position(|pair| pair == b"{{") {
        rest = rest.get(open + 2..).unwrap_or_default();
        let close = rest.windows(2).position(|pair| pair == b"}}").unwrap_or(rest.len());
        size += NODE * (4 + close as u64 / 2);
        rest = rest.get(close..).unwrap_or_default();
    }
    size
}

fn required(why: &Str, value: &Value) -> CallResult {
    match value {
        Value::Nil => Err(marked(why).into()),
        Value::String(text) if text.is_empty() => Err(marked(why).into()),
        value => Ok(value.clone()),
    }
}

fn lookup(context: &mut Context, api_version: &Str, kind: &Str, namespace: &Str, name: &Str) -> CallResult {
    let text = |text: &Str| text.to_text().into_owned();
    context.lookup(LookupKey {
        api_version: text(api_version),
        kind: text(kind),
        namespace: text(namespace),
        name: text(name),
    })
}
