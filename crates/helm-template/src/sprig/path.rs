//! Slash-separated paths. The `os...` functions are the same: charts are rendered as on Linux.

use super::args::{Args, Out};
use super::pure;
use go_template::func::Func;
use go_template::value::Value;

pub(super) fn table<C>() -> Vec<Func<C>> {
    vec![
        pure!("base", [String], base),
        pure!("osBase", [String], base),
        pure!("dir", [String], dir),
        pure!("osDir", [String], dir),
        pure!("clean", [String], clean),
        pure!("osClean", [String], clean),
        pure!("ext", [String], ext),
        pure!("osExt", [String], ext),
        pure!("isAbs", [String], is_abs),
        pure!("osIsAbs", [String], is_abs),
    ]
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

/// `path.Base`: the last element, `.` for nothing and `/` for slashes only.
fn base(args: &[Value]) -> Out {
    let path = args.text(0)?;
    if path.is_empty() {
        return Ok(Value::string("."));
    }
    let end = path.iter().rposition(|b| !is_slash(b)).map_or(0, |last| last + 1);
    let trimmed = path.get(..end).unwrap_or(&[]);
    let name = trimmed.rsplit(is_slash).next().unwrap_or(&[]);
    Ok(Value::string(if name.is_empty() { b"/" } else { name }))
}

/// `path.Clean`: the shortest equal path, worked out on the text alone.
fn cleaned(path: &[u8]) -> Vec<u8> {
    let rooted = path.first().is_some_and(is_slash);
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(is_slash) {
        match part {
            b"" | b"." => {}
            b".." if parts.last().is_some_and(|last| *last != b"..") => {
                parts.pop();
            }
            b".." if rooted => {}
            part => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

fn clean(args: &[Value]) -> Out {
    Ok(Value::string(cleaned(args.text(0)?)))
}

fn dir(args: &[Value]) -> Out {
    let path = args.text(0)?;
    let end = path.iter().rposition(is_slash).map_or(0, |last| last + 1);
    Ok(Value::string(cleaned(path.get(..end).unwrap_or(&[]))))
}

fn ext(args: &[Value]) -> Out {
    let path = args.text(0)?;
    let name = path.rsplit(is_slash).next().unwrap_or(&[]);
    let dot = name.iter().rposition(|b| *b == b'.');
    Ok(Value::string(dot.and_then(|dot| name.get(dot..)).unwrap_or(&[])))
}

fn is_abs(args: &[Value]) -> Out {
    Ok(Value::Bool(args.text(0)?.first().is_some_and(is_slash)))
}
