//! JSON, in both directions.

use crate::gostd::json::{JsonStyle, marshal, unmarshal};
use go_template::func::{Func, Meter};
use go_template::value::Value;

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
    let raw = |meter: &Meter, value: &Value| marshal(meter, value, JsonStyle::Raw);
    let mut all = vec![
        Func::new("toRawJson", raw),
        Func::new("mustToRawJson", raw),
        Func::new("fromJson", |meter: &Meter, text: &[u8]| {
            unmarshal(meter, text).unwrap_or(Value::Nil)
        }),
        Func::new("mustFromJson", unmarshal),
    ];
    for (name, must, style) in [
        ("toJson", "mustToJson", JsonStyle::Compact),
        ("toPrettyJson", "mustToPrettyJson", JsonStyle::Pretty),
    ] {
        let write = move |meter: &Meter, value: &Value| marshal(meter, value, style);
        all.push(Func::new(name, move |meter: &Meter, value: &Value| {
            write(meter, value).unwrap_or_default()
        }));
        all.push(Func::new(must, write));
    }
    all
}
