//! The function table: Go's built-in functions are the evaluator's, sprig's come from `sprig`, the rest is here.
//! Facts: Helm's `pkg/engine/{engine,funcs}.go`.

use std::sync::{Arc, OnceLock};

use super::context::Context;
use super::lookup::LookupKey;
use super::{NO_VALUE, convert, duration, without_no_value};
use crate::sprig;
use go_template::footprint::Frame;
use go_template::meter::{self, Overrun};
use go_template::quote::quote_go;
use go_template::{CallError, Func, FuncMap, Param, Str, Value};

/// How often one name may be included from within itself.
const MAX_INCLUDES: u32 = 1000;

/// What surrounds the text of `fail` and `required` within an error, so that it can be found again.
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

type Out = Result<Value, CallError>;

fn plain(name: &'static str, params: &'static [Param], body: fn(&mut Context, &[Value]) -> Out) -> Func<Context> {
    Func {
        name,
        params,
        variadic: None,
        body,
    }
}

#[rustfmt::skip]
fn helm() -> Vec<Func<Context>> {
    use Param::{Any, String as Text};
    vec![
        plain("include", &[Text, Any], include),
        plain("tpl", &[Text, Any], tpl),
        plain("required", &[Text, Any], required),
        plain("fail", &[Text], |_, args| Err(CallError::Text(marked(&text(args, 0))))),
        plain("lookup", &[Text, Text, Text, Text], lookup),
        plain("getHostByName", &[Text], get_host_by_name),
        plain("toYaml", &[Any], |_, args| convert::to_yaml(args)),
        plain("mustToYaml", &[Any], |_, args| convert::must_to_yaml(args)),
        plain("toYamlPretty", &[Any], |_, args| convert::to_yaml_pretty(args)),
        plain("fromYaml", &[Text], |_, args| convert::from_yaml(args)),
        plain("fromYamlArray", &[Text], |_, args| convert::from_yaml_array(args)),
        plain("toToml", &[Any], |_, args| convert::to_toml(args)),
        plain("mustToToml", &[Any], |_, args| convert::must_to_toml(args)),
        plain("fromToml", &[Text], |_, args| convert::from_toml(args)),
        plain("toJson", &[Any], |_, args| convert::to_json(args)),
        plain("mustToJson", &[Any], |_, args| convert::must_to_json(args)),
        plain("fromJson", &[Text], |_, args| convert::from_json(args)),
        plain("fromJsonArray", &[Text], |_, args| convert::from_json_array(args)),
        plain("mustToDuration", &[Any], |_, args| duration::must_to_duration(args)),
        plain("durationSeconds", &[Any], |_, args| Ok(duration::seconds(args, 1.0))),
        plain("durationMinutes", &[Any], |_, args| Ok(duration::seconds(args, 60.0))),
        plain("durationHours", &[Any], |_, args| Ok(duration::hours(args, &[]))),
        plain("durationDays", &[Any], |_, args| Ok(duration::hours(args, &[24.0]))),
        plain("durationWeeks", &[Any], |_, args| Ok(duration::hours(args, &[24.0, 7.0]))),
        plain("durationMilliseconds", &[Any], |_, args| Ok(duration::whole(args, 1_000_000))),
        plain("durationMicroseconds", &[Any], |_, args| Ok(duration::whole(args, 1_000))),
        plain("durationNanoseconds", &[Any], |_, args| Ok(duration::whole(args, 1))),
        plain("durationRoundTo", &[Any, Any], |_, args| Ok(duration::round_to(args))),
        plain("durationTruncateTo", &[Any, Any], |_, args| Ok(duration::truncate_to(args))),
    ]
}

fn text(args: &[Value], index: usize) -> String {
    match args.get(index) {
        Some(Value::String(text)) => text.to_text().into_owned(),
        _ => String::new(),
    }
}

fn argument(args: &[Value], index: usize) -> &Value {
    args.get(index).unwrap_or(&Value::Nil)
}

fn marked(text: &str) -> String {
    format!("{}{text}{}", MARKERS.0, MARKERS.1)
}

/// The first address of a host, where Helm takes any. Nothing, unless names may be asked for.
fn get_host_by_name(context: &mut Context, args: &[Value]) -> Out {
    let Some(hosts) = &context.hosts else {
        return Ok(Value::string(""));
    };
    match hosts.addresses(&text(args, 0)).into_iter().next() {
        Some(address) => Ok(Value::string(address)),
        // Sprig draws one of none, at which Go panics.
        None => Err(CallError::Text("invalid argument to Intn".to_owned())),
    }
}

fn include(context: &mut Context, args: &[Value]) -> Out {
    let Some(Value::String(name)) = args.first() else {
        return Ok(Value::string(""));
    };
    let data = argument(args, 1);
    if let Some(text) = context.includes.result(name, data) {
        return Ok(Value::String(text));
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
    // Under the set's own name, each `tpl` has its text.
    if let Some(footprint) = footprint
        && name.as_bytes() != context.set.name().as_bytes()
    {
        context.includes.keep(name, data, &text, footprint);
    }
    Ok(Value::String(text))
}

/// Executes text as a template of its own, over a copy of the set: what it defines is gone afterwards.
fn tpl(context: &mut Context, args: &[Value]) -> Out {
    let Some(Value::String(source)) = args.first() else {
        return Ok(Value::string(""));
    };
    let name = context.set.name().to_owned();
    if !meter::spend(parsed_size(source.as_bytes())) {
        return Err(CallError::Text(Overrun::Memory.to_string()));
    }
    if !source.is_empty() && memchr::memmem::find(source, b"{{").is_none() {
        // Nothing but text, as most values are that a chart allows to be templates.
        return Ok(Value::String(match memchr::memmem::find(source, NO_VALUE) {
            None => source.clone(),
            Some(_) => without_no_value(source.to_vec()).into(),
        }));
    }
    let mut set = (*context.set).clone();
    let before = set.get(&name).cloned();
    set.parse_shared(&name, source, table())
        .map_err(|e| CallError::Text(format!("cannot parse template {}: {e}", quote_go(source.as_bytes()))))?;
    let unchanged = match (&before, set.get(&name)) {
        (Some(before), Some(after)) => Arc::ptr_eq(before, after),
        _ => false,
    };
    if unchanged {
        // Text without actions that is nothing but white space never replaces the text around a nested `tpl`;
        // Go executes it all the same.
        let mut alone = go_template::Set::new(&name);
        if alone.parse_shared(&name, source, table()).is_ok() {
            set = alone;
        }
    }
    // What the text defines may have the name of a template that others know by it.
    let defines = [&b"define"[..], b"block"]
        .iter()
        .any(|word| memchr::memmem::find(source, word).is_some());
    context.texts.push(source.clone());
    let outer = std::mem::replace(&mut context.set, Arc::new(set));
    let outer_set = defines.then(|| context.includes.next_set());
    let result = context.execute(&name, argument(args, 1));
    if let Some(outer_set) = outer_set {
        context.includes.set_back(outer_set);
    }
    context.set = outer;
    context.texts.pop();
    let out = result.map_err(|error| CallError::Wrapped {
        prefix: tpl_failed(source.as_bytes()),
        error,
    })?;
    Ok(Value::string(without_no_value(out)))
}

/// The text before the error of a template within `tpl`. Nested ones have a text each, which may be long.
fn tpl_failed(source: &[u8]) -> String {
    let shown = if meter::spend(2 * source.len() as u64) {
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

fn required(_: &mut Context, args: &[Value]) -> Out {
    match argument(args, 1) {
        Value::Nil => Err(CallError::Text(marked(&text(args, 0)))),
        Value::String(value) if value.is_empty() => Err(CallError::Text(marked(&text(args, 0)))),
        value => Ok(value.clone()),
    }
}

fn lookup(context: &mut Context, args: &[Value]) -> Out {
    context.lookup(LookupKey {
        api_version: text(args, 0),
        kind: text(args, 1),
        namespace: text(args, 2),
        name: text(args, 3),
    })
}
