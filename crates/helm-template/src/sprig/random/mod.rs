//! Random strings and numbers.

pub(crate) mod draw;

use data_encoding::BASE64;

use crate::gostd::runes;
use crate::limit;
use crate::sprig::{Drawn, Env, RandomSource};
use go_template::func::{CallError, Func, Given};
use go_template::value::Value;

pub(super) fn table<C: Env>() -> Vec<Func<C>> {
    let chars = |name, alphabet: &'static [u8]| {
        Func::with_context(name, move |env: &mut C, count: i64| chars(env, name, count, alphabet))
    };
    vec![
        chars("randAlphaNum", ALPHANUMERIC),
        chars("randAlpha", ALPHABETIC),
        chars("randNumeric", NUMERIC),
        chars("randAscii", ASCII),
        Func::with_context("randBytes", rand_bytes),
        Func::with_context("randInt", rand_int),
        Func::with_context("shuffle", shuffle),
        Func::with_context("uuidv4", uuidv4),
    ]
}

const NUMERIC: &[u8] = b"0123456789";
const ALPHABETIC: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const ASCII: &[u8] =
    b" !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~";

/// `count` numbers of 64 bits: so many that a remainder by a small number shows no bias.
fn numbers(source: &mut RandomSource, count: usize) -> Result<Vec<u64>, CallError> {
    let mut bytes = vec![0u8; count * 8];
    source.fill(&mut bytes)?;
    let number = |chunk: &[u8]| chunk.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
    Ok(bytes.chunks_exact(8).map(number).collect())
}

/// A count below zero is an error that sprig drops, so the result is empty.
fn chars<C: Env>(env: &mut C, function: &'static str, count: i64, alphabet: &[u8]) -> Result<String, CallError> {
    let given = [Value::Int(count)];
    let count = usize::try_from(count).unwrap_or(0);
    limit::items(env.meter(), count)?;
    if count == 0 {
        return Ok(String::new());
    }
    let fits = |text: &str| text.len() == count && text.bytes().all(|byte| alphabet.contains(&byte));
    let pick = |n: u64| alphabet.get((n % alphabet.len() as u64) as usize).copied();
    let make = |source: &mut RandomSource| {
        let picked = numbers(source, count)?.into_iter().filter_map(pick);
        Ok(picked.map(char::from).collect())
    };
    let call = env.call(function, &given)?.costing(count as u64);
    draw::text(env, &call, fits, make)
}

/// So many random bytes in base64.
fn rand_bytes<C: Env>(env: &mut C, given: Given, count: i64) -> Result<String, CallError> {
    let Ok(count) = usize::try_from(count) else {
        return Err(CallError::from("runtime error: makeslice: len out of range"));
    };
    limit::items(env.meter(), count)?;
    if count == 0 {
        return Ok(String::new());
    }
    let fits = |text: &str| BASE64.decode(text.as_bytes()).is_ok_and(|bytes| bytes.len() == count);
    let make = |source: &mut RandomSource| {
        let mut bytes = vec![0u8; count];
        source.fill(&mut bytes)?;
        Ok(BASE64.encode(&bytes))
    };
    let call = env.call("randBytes", given.0)?.costing(count as u64);
    draw::text(env, &call, fits, make)
}

fn rand_int<C: Env>(env: &mut C, given: Given, min: i64, max: i64) -> Result<Value, CallError> {
    let Ok(span @ 1..) = u64::try_from(max.wrapping_sub(min)) else {
        return Err(CallError::from("invalid argument to Intn"));
    };
    let fits = |drawn: &Drawn| matches!(drawn, Drawn::Int(n) if (min..max).contains(n));
    let make = |source: &mut RandomSource| {
        let drawn = numbers(source, 1)?.first().copied().unwrap_or(0);
        Ok(Drawn::Int(min.wrapping_add_unsigned(drawn % span)))
    };
    let call = env.call("randInt", given.0)?;
    match env.once(&call, fits, make)? {
        Drawn::Int(n) => Ok(Value::Int(n)),
        _ => Err(draw::mismatch(&call)),
    }
}

/// The characters in another order.
fn shuffle<C: Env>(env: &mut C, given: Given, text: &[u8]) -> Result<String, CallError> {
    let mut chars: Vec<char> = runes::runes(text).map(|(_, c, _)| c).collect();
    limit::items(env.meter(), chars.len())?;
    if chars.len() < 2 {
        return Ok(chars.into_iter().collect());
    }
    let mut sorted = chars.clone();
    sorted.sort_unstable();
    let fits = |text: &str| {
        let mut found: Vec<char> = text.chars().collect();
        found.sort_unstable();
        found == sorted
    };
    let call = env.call("shuffle", given.0)?.costing(chars.len() as u64);
    let make = |source: &mut RandomSource| {
        let drawn = numbers(source, chars.len())?;
        for (last, n) in (1..chars.len()).rev().zip(drawn) {
            chars.swap(last, (n % (last as u64 + 1)) as usize);
        }
        Ok(chars.into_iter().collect())
    };
    draw::text(env, &call, fits, make)
}

fn uuidv4<C: Env>(env: &mut C) -> Result<String, CallError> {
    let fits = |text: &str| {
        uuid::Uuid::parse_str(text).is_ok_and(|uuid| uuid.get_version_num() == 4 && uuid.to_string() == text)
    };
    let make = |source: &mut RandomSource| {
        let mut bytes = [0u8; 16];
        source.fill(&mut bytes)?;
        Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
    };
    let call = env.call("uuidv4", &[])?;
    draw::text(env, &call, fits, make)
}
