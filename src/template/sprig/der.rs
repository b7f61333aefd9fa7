//! As much DER (X.690) and PEM as certificates and keys need.

use data_encoding::BASE64;

use super::encoding::decode_base64;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// One element: tag, length, content.
pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let len = content.len();
    if len < 0x80 {
        out.push(len as u8);
    } else {
        let bytes: Vec<u8> = len.to_be_bytes().into_iter().skip_while(|b| *b == 0).collect();
        out.push(0x80 | bytes.len() as u8);
        out.extend(bytes);
    }
    out.extend_from_slice(content);
    out
}

pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    element(SEQUENCE, &parts.concat())
}

/// A positive integer of big-endian bytes.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let start = bytes
        .iter()
        .position(|b| *b != 0)
        .unwrap_or(bytes.len().saturating_sub(1));
    let digits = bytes.get(start..).unwrap_or(&[]);
    let pad: &[u8] = if digits.first().is_none_or(|b| *b >= 0x80) {
        &[0]
    } else {
        &[]
    };
    element(INTEGER, &[pad, digits].concat())
}

/// A bit string of whole bytes.
pub(super) fn bit_string(bytes: &[u8]) -> Vec<u8> {
    element(0x03, &[&[0], bytes].concat())
}

/// An element that was read: its tag, its content, and all its bytes.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    pub(super) raw: &'a [u8],
}

/// Reads the first element, and returns what follows it.
pub(super) fn read(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (tag, after_tag) = bytes.split_first()?;
    let (first, mut rest) = after_tag.split_first()?;
    let mut len = usize::from(*first);
    if len >= 0x80 {
        let (digits, after) = rest
            .split_at_checked(len - 0x80)
            .filter(|(digits, _)| (1..=4).contains(&digits.len()))?;
        len = digits.iter().fold(0, |n, byte| n << 8 | usize::from(*byte));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(len)?;
    let raw = bytes.get(..bytes.len() - after.len())?;
    Some((
        Element {
            tag: *tag,
            content,
            raw,
        },
        after,
    ))
}

/// All elements of a content.
pub(super) fn read_all(mut bytes: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (element, rest) = read(bytes)?;
        found.push(element);
        bytes = rest;
    }
    Some(found)
}

/// `pem.EncodeToMemory`.
pub(super) fn to_pem(label: &str, der: &[u8]) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        out.push_str(&BASE64.encode(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// The label and the bytes of the first block, as `pem.Decode` finds it: lines that begin and end a block are whole, and
/// what is broken is passed over. Headers are left out.
pub(super) fn from_pem(text: &[u8]) -> Option<(String, Vec<u8>)> {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "\n-----END ";
    let text = String::from_utf8_lossy(text);
    let mut rest: &str = &text;
    loop {
        let (before, after) = rest.split_once(END)?;
        let block = before
            .rfind(BEGIN)
            .filter(|at| *at == 0 || before.get(..*at).is_some_and(|b| b.ends_with('\n')));
        // An empty block's end begins with the line feed that ends its first line.
        let lines = block.and_then(|at| rest.get(at + BEGIN.len()..before.len() + 1));
        rest = after;
        let Some((line, mut body)) = lines.and_then(|lines| lines.split_once('\n')) else {
            continue;
        };
        let Some(label) = line.trim_end_matches([' ', '\t', '\r']).strip_suffix("-----") else {
            continue;
        };
        while let Some((_, next)) = body.split_once('\n').filter(|(line, _)| line.contains(':')) {
            body = next;
        }
        let end = after.split_once('\n').map_or(after, |(line, _)| line);
        let end = end.strip_prefix(label).and_then(|end| end.strip_prefix("-----"));
        if !end.is_some_and(|end| end.trim_end_matches([' ', '\t', '\r']).is_empty()) {
            continue;
        }
        let digits: Vec<u8> = body.bytes().filter(|b| !matches!(b, b' ' | b'\t')).collect();
        if let Ok(der) = decode_base64(&digits) {
            return Some((label.to_owned(), der));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go's `encoding/pem` and `base64.StdEncoding`.
    #[test]
    fn pem_may_have_bits_over_but_no_other_blanks() {
        let block = |digits: &str| from_pem(format!("-----BEGIN X-----\n{digits}\n-----END X-----\n").as_bytes());
        assert_eq!(block("Q\t R\r\n=="), Some(("X".to_owned(), b"A".to_vec())));
        for digits in ["QQ\x0c==", "QQ\x0b==", "QQ", "QQ==QQ=="] {
            assert_eq!(block(digits), None, "{digits:?}");
        }
    }
}
