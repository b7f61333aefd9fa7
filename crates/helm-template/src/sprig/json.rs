//! JSON, in both directions.

use super::args::{Args, Out};
use super::pure;
use crate::gostd::json::{COMPACT, PRETTY, RAW, Style, marshal, unmarshal};
use go_template::func::{CallError, Func};
use go_template::value::Value;

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("toJson", [Any], to_json),
        pure!("mustToJson", [Any], must_to_json),
        pure!("toPrettyJson", [Any], to_pretty_json),
        pure!("mustToPrettyJson", [Any], must_to_pretty_json),
        pure!("toRawJson", [Any], must_to_raw_json),
        pure!("mustToRawJson", [Any], must_to_raw_json),
        pure!("fromJson", [String], from_json),
        pure!("mustFromJson", [String], must_from_json),
    ]
}

fn written(args: &[Value], style: Style) -> Out {
    Ok(Value::string(marshal(args.any(0), style)?))
}

fn to_json(args: &[Value]) -> Out {
    Ok(written(args, COMPACT).unwrap_or_else(|_| Value::string("")))
}

fn must_to_json(args: &[Value]) -> Out {
    written(args, COMPACT)
}

fn to_pretty_json(args: &[Value]) -> Out {
    Ok(written(args, PRETTY).unwrap_or_else(|_| Value::string("")))
}

fn must_to_pretty_json(args: &[Value]) -> Out {
    written(args, PRETTY)
}

fn must_to_raw_json(args: &[Value]) -> Out {
    written(args, RAW)
}

fn from_json(args: &[Value]) -> Out {
    Ok(unmarshal(args.text(0)?).unwrap_or(Value::Nil))
}

fn must_from_json(args: &[Value]) -> Out {
    unmarshal(args.text(0)?).map_err(CallError::Text)
}
