//! JSON, in both directions.

use crate::gostd::json::{Style, marshal, unmarshal};
use go_template::func::Func;
use go_template::value::Value;

pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    vec![
        Func::new("toJson", |value: &Value| {
            marshal(value, Style::Compact).unwrap_or_default()
        }),
        Func::new("mustToJson", |value: &Value| marshal(value, Style::Compact)),
        Func::new("toPrettyJson", |value: &Value| {
            marshal(value, Style::Pretty).unwrap_or_default()
        }),
        Func::new("mustToPrettyJson", |value: &Value| marshal(value, Style::Pretty)),
        Func::new("toRawJson", |value: &Value| marshal(value, Style::Raw)),
        Func::new("mustToRawJson", |value: &Value| marshal(value, Style::Raw)),
        Func::new("fromJson", |text: &[u8]| unmarshal(text).unwrap_or(Value::Nil)),
        Func::new("mustFromJson", |text: &[u8]| unmarshal(text)),
    ]
}
