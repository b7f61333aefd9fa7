//! As much DER (X.690) and PEM as certificates and keys need.

use data_encoding::BASE64;

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

/// The label and the bytes of the first block. Blocks with headers (encrypted keys) aren't read.
pub(super) fn from_pem(text: &[u8]) -> Option<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(text);
    let (_, after) = text.split_once("-----BEGIN ")?;
    let (label, after) = after.split_once("-----")?;
    let (body, _) = after.split_once(&format!("-----END {label}-----"))?;
    let digits: String = body.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    Some((label.to_owned(), BASE64.decode(digits.as_bytes()).ok()?))
}
