//! Slash-separated paths. The `os...` functions are the same: charts are rendered as on Linux.

use go_template::func::Func;
use go_template::value::Str;

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
    let is_abs = |path: &[u8]| path.starts_with(b"/");
    vec![
        Func::new("base", base),
        Func::new("osBase", base),
        Func::new("dir", dir),
        Func::new("osDir", dir),
        Func::new("clean", clean),
        Func::new("osClean", clean),
        Func::new("ext", ext),
        Func::new("osExt", ext),
        Func::new("isAbs", is_abs),
        Func::new("osIsAbs", is_abs),
    ]
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

/// `path.Base`: the last element, `.` for nothing and `/` for slashes only.
fn base(path: &[u8]) -> Str {
    if path.is_empty() {
        return Str::from(".");
    }
    let end = path.iter().rposition(|b| !is_slash(b)).map_or(0, |last| last + 1);
    let trimmed = path.get(..end).unwrap_or(&[]);
    let name = trimmed.rsplit(is_slash).next().unwrap_or(&[]);
    Str::from(if name.is_empty() { b"/" } else { name })
}

/// `path.Clean`: the shortest equal path, worked out on the text alone.
fn clean(path: &[u8]) -> Vec<u8> {
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

fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(is_slash).map_or(0, |last| last + 1);
    clean(path.get(..end).unwrap_or(&[]))
}

fn ext(path: &[u8]) -> Str {
    let name = path.rsplit(is_slash).next().unwrap_or(&[]);
    let dot = name.iter().rposition(|b| *b == b'.');
    Str::from(dot.and_then(|dot| name.get(dot..)).unwrap_or(&[]))
}
