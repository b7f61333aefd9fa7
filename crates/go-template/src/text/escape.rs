//! The escapers behind `html`, `js` and `urlquery`.

use crate::text::unicode::{decode_lossy, is_print};

/// `template.HTMLEscapeString`.
pub fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    for byte in text {
        match byte {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            other => out.push(*other),
        }
    }
    out
}

/// `template.JSEscapeString`.
pub fn js(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    while let Some((c, width)) = decode_lossy(text) {
        match c {
            '\\' => out.extend_from_slice(b"\\\\"),
            '\'' => out.extend_from_slice(b"\\'"),
            '"' => out.extend_from_slice(b"\\\""),
            '\0'..' ' | '<' | '>' | '&' | '=' => out.extend_from_slice(format!("\\u{:04X}", u32::from(c)).as_bytes()),
            _ if c.is_ascii() || is_print(c) => out.extend_from_slice(text.get(..width).unwrap_or_default()),
            _ => out.extend_from_slice(format!("\\u{:04X}", u32::from(c)).as_bytes()),
        }
        text = text.get(width..).unwrap_or_default();
    }
    out
}

/// `url.QueryEscape`.
pub fn urlquery(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16);
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b' ' => out.push(b'+'),
            other => out.extend_from_slice(format!("%{other:02X}").as_bytes()),
        }
    }
    out
}
