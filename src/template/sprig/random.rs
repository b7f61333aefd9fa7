//! Random strings and numbers. All bytes come from the [`Env`], in one request per call.

use data_encoding::BASE64;

use super::args::{Args, Out};
use super::{Env, impure, limit, runes};
use crate::template::go::func::{CallError, Func, Param};
use crate::template::go::value::Value;

pub(super) fn table<C: Env>() -> Vec<Func<C>> {
    vec![
        impure!("randAlphaNum", [Param::Int], |env, args| chars(
            env,
            "randAlphaNum",
            args,
            ALPHANUMERIC
        )),
        impure!("randAlpha", [Param::Int], |env, args| chars(
            env,
            "randAlpha",
            args,
            ALPHABETIC
        )),
        impure!("randNumeric", [Param::Int], |env, args| chars(
            env,
            "randNumeric",
            args,
            NUMERIC
        )),
        impure!("randAscii", [Param::Int], rand_ascii),
        impure!("randBytes", [Param::Int], rand_bytes),
        impure!("randInt", [Param::Int, Param::Int], rand_int),
        impure!("shuffle", [Param::String], shuffle),
        impure!("uuidv4", [], uuidv4),
    ]
}

const NUMERIC: &[u8] = b"0123456789";
const ALPHABETIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// `count` numbers of 64 bits: so many that a remainder by a small number shows no bias.
fn draw<C: Env>(env: &mut C, function: &'static str, count: usize) -> Result<Vec<u64>, CallError> {
    limit::items(count)?;
    let mut bytes = vec![0u8; count * 8];
    env.random(function, &mut bytes);
    let number = |chunk: &[u8]| chunk.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    Ok(bytes.chunks_exact(8).map(number).collect())
}

/// A count below zero is an error that sprig drops, so the result is empty.
fn chars<C: Env>(env: &mut C, function: &'static str, args: &[Value], alphabet: &[u8]) -> Out {
    let count = usize::try_from(args.int(0)?).unwrap_or(0);
    let pick = |n: u64| {
        alphabet
            .get((n % alphabet.len() as u64) as usize)
            .copied()
            .unwrap_or(b'0')
    };
    Ok(Value::string(
        draw(env, function, count)?.into_iter().map(pick).collect::<Vec<u8>>(),
    ))
}

fn rand_ascii<C: Env>(env: &mut C, args: &[Value]) -> Out {
    let alphabet: Vec<u8> = (32..127).collect();
    chars(env, "randAscii", args, &alphabet)
}

/// So many random bytes in base64.
fn rand_bytes<C: Env>(env: &mut C, args: &[Value]) -> Out {
    let Ok(count) = usize::try_from(args.int(0)?) else {
        return Err(CallError::from("runtime error: makeslice: len out of range"));
    };
    limit::items(count)?;
    let mut bytes = vec![0u8; count];
    env.random("randBytes", &mut bytes);
    Ok(Value::string(BASE64.encode(&bytes)))
}

fn rand_int<C: Env>(env: &mut C, args: &[Value]) -> Out {
    let (min, max) = (args.int(0)?, args.int(1)?);
    let Ok(span @ 1..) = u64::try_from(max.wrapping_sub(min)) else {
        return Err(CallError::from("invalid argument to Intn"));
    };
    let drawn = draw(env, "randInt", 1)?.first().copied().unwrap_or(0);
    Ok(Value::Int(min.wrapping_add_unsigned(drawn % span)))
}

/// The characters in another order.
fn shuffle<C: Env>(env: &mut C, args: &[Value]) -> Out {
    let mut chars: Vec<char> = runes::runes(args.text(0)?).map(|(_, c, _)| c).collect();
    let drawn = draw(env, "shuffle", chars.len())?;
    for (last, n) in (1..chars.len()).rev().zip(drawn) {
        chars.swap(last, (n % (last as u64 + 1)) as usize);
    }
    Ok(Value::string(chars.into_iter().collect::<String>()))
}

fn uuidv4<C: Env>(env: &mut C, _args: &[Value]) -> Out {
    let mut bytes = [0u8; 16];
    env.random("uuidv4", &mut bytes);
    Ok(Value::string(
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string(),
    ))
}
