//! Whole numbers: each operand is converted to an int64 first, and results wrap around as Go's do.

use super::args::{Args, Out};
use super::convert::to_int64;
use super::pure;
use crate::limit;
use go_template::func::{CallError, Func};
use go_template::value::{List, ListKind, Value};

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("add1", [Any], add1),
        pure!("add", [], Any.., add),
        pure!("sub", [Any, Any], sub),
        pure!("mul", [Any], Any.., mul),
        pure!("div", [Any, Any], div),
        pure!("mod", [Any, Any], modulo),
        pure!("max", [Any], Any.., max),
        pure!("biggest", [Any], Any.., max),
        pure!("min", [Any], Any.., min),
        pure!("until", [Int], until),
        pure!("untilStep", [Int, Int, Int], until_step),
        pure!("seq", [], Int.., seq),
    ]
}

fn add1(args: &[Value]) -> Out {
    Ok(Value::Int64(to_int64(args.any(0)).wrapping_add(1)))
}

fn add(args: &[Value]) -> Out {
    Ok(Value::Int64(args.iter().map(to_int64).fold(0, i64::wrapping_add)))
}

fn sub(args: &[Value]) -> Out {
    Ok(Value::Int64(to_int64(args.any(0)).wrapping_sub(to_int64(args.any(1)))))
}

fn mul(args: &[Value]) -> Out {
    Ok(Value::Int64(args.iter().map(to_int64).fold(1, i64::wrapping_mul)))
}

fn divisor(args: &[Value]) -> Result<i64, CallError> {
    match to_int64(args.any(1)) {
        0 => Err(CallError::from("runtime error: integer divide by zero")),
        n => Ok(n),
    }
}

fn div(args: &[Value]) -> Out {
    Ok(Value::Int64(to_int64(args.any(0)).wrapping_div(divisor(args)?)))
}

fn modulo(args: &[Value]) -> Out {
    Ok(Value::Int64(to_int64(args.any(0)).wrapping_rem(divisor(args)?)))
}

fn max(args: &[Value]) -> Out {
    Ok(Value::Int64(args.iter().map(to_int64).max().unwrap_or(0)))
}

fn min(args: &[Value]) -> Out {
    Ok(Value::Int64(args.iter().map(to_int64).min().unwrap_or(0)))
}

/// The numbers from `start` to before `stop`; none if `step` leads away from it.
fn range(start: i64, stop: i64, step: i64) -> Result<Vec<i64>, CallError> {
    let (from, to, by) = (i128::from(start), i128::from(stop), i128::from(step));
    if (to < from && by >= 0) || (to >= from && by <= 0) {
        return Ok(Vec::new());
    }
    let distance = (to - from).unsigned_abs();
    let count = usize::try_from(distance.div_ceil(by.unsigned_abs())).unwrap_or(usize::MAX);
    limit::items(count)?;
    Ok((0..count)
        .map(|n| start.wrapping_add(step.wrapping_mul(n as i64)))
        .collect())
}

fn int_list(numbers: Vec<i64>) -> Value {
    Value::List(List::new(ListKind::Int, numbers.into_iter().map(Value::Int).collect()))
}

fn until(args: &[Value]) -> Out {
    let count = args.int(0)?;
    Ok(int_list(range(0, count, if count < 0 { -1 } else { 1 })?))
}

fn until_step(args: &[Value]) -> Out {
    Ok(int_list(range(args.int(0)?, args.int(1)?, args.int(2)?)?))
}

/// The numbers of `end`, `start end` or `start step end`, ends included, as text; anything else is empty.
fn seq(args: &[Value]) -> Out {
    let (start, step, end) = match args.len() {
        1 => (1, None, args.int(0)?),
        2 => (args.int(0)?, None, args.int(1)?),
        3 => (args.int(0)?, Some(args.int(1)?), args.int(2)?),
        _ => return Ok(Value::string("")),
    };
    let toward = if end < start { -1 } else { 1 };
    if end < start && step.is_some_and(|step| step > 0) {
        return Ok(Value::string(""));
    }
    let numbers = range(start, end.wrapping_add(toward), step.unwrap_or(toward))?;
    let words: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(Value::string(words.join(" ")))
}
