//! `urlParse` and `urlJoin`: a URL as a map of its parts.

use crate::gostd::NIL_POINTER;
use crate::gostd::url::Url;
use go_template::func::{CallError, Func};
use go_template::value::{Entries, Map, Str, Value};

pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    vec![Func::new("urlParse", url_parse), Func::new("urlJoin", url_join)]
}

fn url_parse(text: &[u8]) -> Result<Value, String> {
    let url = Url::parse(text).map_err(|error| format!("unable to parse url: {error}"))?;
    let userinfo = url.user.as_ref().map(|user| user.text()).unwrap_or_default();
    let hostname = url.hostname().to_vec();
    let parts = [
        ("scheme", url.scheme),
        ("host", url.host),
        ("hostname", hostname),
        ("path", url.path),
        ("query", url.query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", userinfo),
    ];
    let entries: Entries = parts
        .into_iter()
        .map(|(key, part)| (Str::from(key), Value::string(part)))
        .collect();
    Ok(Value::map(entries))
}

fn part(map: &Map, key: &str) -> Result<Vec<u8>, CallError> {
    match map.get(key.as_bytes()) {
        None => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(text.as_bytes().to_vec()),
        Some(Value::Nil) => Err(CallError::from(NIL_POINTER)),
        Some(other) => {
            let found = other.kind();
            Err(CallError::Text(format!(
                "unable to parse {key} key, must be of type string, but {found} found"
            )))
        }
    }
}

fn url_join(map: &Map) -> Result<Vec<u8>, CallError> {
    let mut url = Url {
        scheme: part(map, "scheme")?,
        host: part(map, "host")?,
        path: part(map, "path")?,
        query: part(map, "query")?,
        opaque: part(map, "opaque")?,
        fragment: part(map, "fragment")?,
        ..Url::default()
    };
    let userinfo = part(map, "userinfo")?;
    if !userinfo.is_empty() {
        let text = [b"proto://", userinfo.as_slice(), b"@host"].concat();
        url.user = Url::parse(&text)
            .map_err(|error| format!("unable to parse userinfo in dict: {error}"))?
            .user;
    }
    Ok(url.text())
}
