//! `urlParse` and `urlJoin`: a URL as a map of its parts.

use crate::gostd::NIL_POINTER;
use crate::gostd::url::Url;
use go_template::func::{CallError, Func};
use go_template::value::{Map, Str, Value};

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
    vec![Func::new("urlParse", url_parse), Func::new("urlJoin", url_join)]
}

fn url_parse(text: &Str) -> Result<Value, String> {
    let url = Url::parse(&text.to_text()).map_err(|error| format!("unable to parse url: {error}"))?;
    let hostname = url.hostname().to_owned();
    let parts = [
        ("scheme", url.scheme),
        ("host", url.host),
        ("hostname", hostname),
        ("path", url.path),
        ("query", url.query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", url.userinfo.unwrap_or_default()),
    ];
    let entries = parts.map(|(key, part)| (Str::from(key), Value::string(part)));
    Ok(Value::map(entries.into_iter().collect()))
}

fn part(map: &Map, key: &str) -> Result<String, CallError> {
    match map.get(key.as_bytes()) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.to_text().into_owned()),
        Some(Value::Nil) => Err(CallError::from(NIL_POINTER)),
        Some(other) => {
            let found = other.kind();
            Err(CallError::Text(format!(
                "unable to parse {key} key, must be of type string, but {found} found"
            )))
        }
    }
}

fn url_join(map: &Map) -> Result<String, CallError> {
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
        url.userinfo = Url::parse(&format!("proto://{userinfo}@host"))
            .map_err(|error| format!("unable to parse userinfo in dict: {error}"))?
            .userinfo;
    }
    Ok(url.text())
}
