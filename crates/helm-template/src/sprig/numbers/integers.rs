//! WholeNumber numbers: each operand is converted to an int64 first, and results wrap around as Go's do.

use crate::limit;
use crate::sprig::numbers::convert::WholeNumber;
use go_template::func::{CallError, Func, Meter, Rest};
use go_template::value::{List, ListKind, Value};

pub(crate) fn table<C: crate::sprig::Env>() -> Vec<Func<C>> {
    vec![
        Func::new("add1", |n: WholeNumber| Value::Int64(n.0.wrapping_add(1))),
        Func::new("add", |all: Rest<WholeNumber>| folded(0, &all, i64::wrapping_add)),
        Func::new("sub", |a: WholeNumber, b: WholeNumber| {
            Value::Int64(a.0.wrapping_sub(b.0))
        }),
        Func::new("mul", |n: WholeNumber, rest: Rest<WholeNumber>| {
            folded(n.0, &rest, i64::wrapping_mul)
        }),
        Func::new("div", |a: WholeNumber, b: WholeNumber| divided(a, b, i64::wrapping_div)),
        Func::new("mod", |a: WholeNumber, b: WholeNumber| divided(a, b, i64::wrapping_rem)),
        Func::new("max", |n: WholeNumber, rest: Rest<WholeNumber>| {
            folded(n.0, &rest, i64::max)
        }),
        Func::new("biggest", |n: WholeNumber, rest: Rest<WholeNumber>| {
            folded(n.0, &rest, i64::max)
        }),
        Func::new("min", |n: WholeNumber, rest: Rest<WholeNumber>| {
            folded(n.0, &rest, i64::min)
        }),
        Func::new("until", |meter: &Meter, count: i64| {
            range(meter, 0, count, if count < 0 { -1 } else { 1 }).map(int_list)
        }),
        Func::new("untilStep", |meter: &Meter, start: i64, stop: i64, step: i64| {
            range(meter, start, stop, step).map(int_list)
        }),
        Func::new("seq", seq),
    ]
}

fn folded(first: i64, rest: &Rest<'_, WholeNumber>, with: fn(i64, i64) -> i64) -> Value {
    Value::Int64(rest.iter().map(|n| n.0).fold(first, with))
}

fn divided(a: WholeNumber, b: WholeNumber, with: fn(i64, i64) -> i64) -> Result<Value, CallError> {
    match b.0 {
        0 => Err(CallError::from("runtime error: integer divide by zero")),
        divisor => Ok(Value::Int64(with(a.0, divisor))),
    }
}

/// The numbers from `start` to before `stop`; none if `step` leads away from it.
fn range(meter: &Meter, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, CallError> {
    let (from, to, by) = (i128::from(start), i128::from(stop), i128::from(step));
    if (to < from && by >= 0) || (to >= from && by <= 0) {
        return Ok(Vec::new());
    }
    let distance = (to - from).unsigned_abs();
    let count = usize::try_from(distance.div_ceil(by.unsigned_abs())).unwrap_or(usize::MAX);
    limit::items(meter, count)?;
    Ok((0..count)
        .map(|n| start.wrapping_add(step.wrapping_mul(n as i64)))
        .collect())
}

fn int_list(numbers: Vec<i64>) -> List {
    List::new(ListKind::Int, numbers.into_iter().map(Value::Int).collect())
}

/// The numbers of `end`, `start end` or `start step end`, ends included, as text; anything else is empty.
fn seq(meter: &Meter, all: Rest<i64>) -> Result<String, CallError> {
    let (start, step, end) = match *all.iter().collect::<Vec<_>>() {
        [end] => (1, None, end),
        [start, end] => (start, None, end),
        [start, step, end] => (start, Some(step), end),
        _ => return Ok(String::new()),
    };
    let toward = if end < start { -1 } else { 1 };
    if end < start && step.is_some_and(|step| step > 0) {
        return Ok(String::new());
    }
    let numbers = range(meter, start, end.wrapping_add(toward), step.unwrap_or(toward))?;
    let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(words.join(" "))
}
