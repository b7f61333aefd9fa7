//! Shortens long texts and lists.

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

/// Returns the first `most` items, separated by commas, and how many more there are.
pub fn first_items<T: ToString>(most: usize, items: impl IntoIterator<Item = T>) -> String {
    let mut items = items.into_iter();
    let shown: Vec<String> = items.by_ref().take(most).map(|item| item.to_string()).collect();
    match items.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_counted() {
        for (items, expected) in [
            (&[][..], ""),
            (&["a"], "a"),
            (&["a", "b"], "a, b"),
            (&["a", "b", "c", "d"], "a, b and 2 more"),
        ] {
            assert_eq!(first_items(2, items), expected);
        }
    }
}
