//! Base64, base32 and checksums.

use data_encoding::{BASE32, BASE64, DecodeError, HEXLOWER};
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
            let text: Vec<u8> = text.iter().copied().filter(|byte| !is_break(byte)).collect();
            let wrong = |e: DecodeError| format!("illegal base32 data at input byte {}", e.position).into_bytes();
            BASE32.decode(&text).unwrap_or_else(wrong)
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

fn corrupt<T>(offset: usize) -> Result<T, String> {
    Err(format!("illegal base64 data at input byte {offset}"))
}

fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Go's `base64.StdEncoding.DecodeString`: padding is required, line breaks are skipped, and an error names the
/// offset at which Go noticed it.
pub(super) fn decode_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
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
            return corrupt(at - 1);
        }
        let skip_breaks = |at: usize| at + text.iter().skip(at).take_while(|b| is_break(b)).count();
        if count == 2 {
            at = skip_breaks(at);
            match text.get(at) {
                None => return corrupt(text.len()),
                Some(b'=') => at += 1,
                Some(_) => return corrupt(at - 1),
            }
        }
        at = skip_breaks(at);
        if at < text.len() {
            return corrupt(at);
        }
        let bytes = (bits << (6 * (4 - count))).to_be_bytes();
        out.extend_from_slice(bytes.get(1..count).unwrap_or(&[]));
        return Ok(out);
    }
    if count > 0 {
        return corrupt(at - count);
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
