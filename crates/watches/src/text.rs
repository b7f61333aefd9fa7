//! Shortens long texts.

/// Returns at most the first `bytes` bytes of a text, cut between characters. A cut text ends with its full length in bytes, or
/// with `...` where `bytes` is below 256.
pub fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = match bytes {
        ..3 => String::new(),
        3..256 => "...".to_owned(),
        _ => format!("... (the first of {} bytes)", text.len()),
    };
    let room = bytes.saturating_sub(end.len());
    let mut out = text[..text.floor_char_boundary(room)].to_owned();
    out.push_str(&end);
    out
}
