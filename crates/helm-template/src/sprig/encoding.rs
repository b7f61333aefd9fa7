//! Base64, base32 and checksums.

use data_encoding::{BASE32, BASE64, HEXLOWER};
use sha1::Digest;

use go_template::func::Func;

pub(super) fn table<C: 'static>() -> Vec<Func<C>> {
    // sprig returns the text of a decoding error as if it were the result.
    vec![
        Func::new("b64enc", |text: &[u8]| BASE64.encode(text)),
        Func::new("b64dec", |text: &[u8]| {
            decode_base64(text).unwrap_or_else(String::into_bytes)
        }),
        Func::new("b32enc", |text: &[u8]| BASE32.encode(text)),
        Func::new("b32dec", |text: &[u8]| {
            decode_base32(text).unwrap_or_else(String::into_bytes)
        }),
        Func::new("sha1sum", |text: &[u8]| HEXLOWER.encode(&sha1::Sha1::digest(text))),
        Func::new("sha256sum", |text: &[u8]| HEXLOWER.encode(&sha2::Sha256::digest(text))),
        Func::new("sha512sum", |text: &[u8]| HEXLOWER.encode(&sha2::Sha512::digest(text))),
        // As a decimal number.
        Func::new("adler32sum", |text: &[u8]| {
            let mut sum = adler2::Adler32::new();
            sum.write_slice(text);
            sum.checksum().to_string()
        }),
    ]
}

fn corrupt<T>(encoding: &str, offset: usize) -> Result<T, String> {
    Err(format!("illegal {encoding} data at input byte {offset}"))
}

/// Go's `base64.StdEncoding.DecodeString`: padding is required, line breaks are skipped, and an error names the
/// offset at which Go noticed it.
pub(super) fn decode_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let is_break = |b: &u8| matches!(b, b'\n' | b'\r');
    let (mut bits, mut count) = (0u32, 0usize);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        at += 1;
        if is_break(byte) {
            continue;
        }
        if let Some(value) = sextet(*byte) {
            bits = bits << 6 | u32::from(value);
            count += 1;
            if count == 4 {
                out.extend_from_slice(&bits.to_be_bytes()[1..]);
                (bits, count) = (0, 0);
            }
            continue;
        }
        if *byte != b'=' || count < 2 {
            return corrupt("base64", at - 1);
        }
        let skip_breaks = |at: usize| at + text.iter().skip(at).take_while(|b| is_break(b)).count();
        if count == 2 {
            at = skip_breaks(at);
            match text.get(at) {
                None => return corrupt("base64", text.len()),
                Some(b'=') => at += 1,
                Some(_) => return corrupt("base64", at - 1),
            }
        }
        at = skip_breaks(at);
        if at < text.len() {
            return corrupt("base64", at);
        }
        let bytes = (bits << (6 * (4 - count))).to_be_bytes();
        out.extend_from_slice(bytes.get(1..count).unwrap_or(&[]));
        return Ok(out);
    }
    if count > 0 {
        return corrupt("base64", at - count);
    }
    Ok(out)
}

fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Go's `base32.StdEncoding.DecodeString`; offsets don't count line breaks.
fn decode_base32(text: &[u8]) -> Result<Vec<u8>, String> {
    let text: Vec<u8> = text.iter().copied().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let (mut bits, mut count) = (0u64, 0usize);
    for (at, byte) in text.iter().enumerate() {
        let left = text.len() - at - 1;
        if *byte == b'=' && count >= 2 && left < 8 {
            if left + count < 7 {
                return corrupt("base32", text.len());
            }
            let padding = text.get(at + 1..).unwrap_or(&[]).iter().take(7 - count);
            if let Some(wrong) = padding.clone().position(|b| *b != b'=') {
                return corrupt("base32", at + wrong);
            }
            if matches!(count, 1 | 3 | 6) {
                return corrupt("base32", at);
            }
            let bytes = (bits << (5 * (8 - count))).to_be_bytes();
            out.extend_from_slice(bytes.get(3..3 + count * 5 / 8).unwrap_or(&[]));
            return Ok(out);
        }
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'2'..=b'7' => byte - b'2' + 26,
            _ => return corrupt("base32", at),
        };
        bits = bits << 5 | u64::from(value);
        count += 1;
        if count == 8 {
            out.extend_from_slice(&bits.to_be_bytes()[3..]);
            (bits, count) = (0, 0);
        }
    }
    if count > 0 {
        return corrupt("base32", text.len() - count);
    }
    Ok(out)
}
