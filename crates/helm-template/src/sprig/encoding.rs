//! Base64, base32 and checksums.

use std::sync::LazyLock;

use data_encoding::{BASE32, BASE64, DecodeError, Encoding, HEXLOWER};
use sha1::Digest;

use go_template::func::Func;

pub(super) fn table<C: super::Env>() -> Vec<Func<C>> {
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

fn is_break(byte: &u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Go's `base64.StdEncoding`: line breaks are skipped, and the last bits may be any.
static STANDARD: LazyLock<Encoding> = LazyLock::new(|| {
    let mut standard = BASE64.specification();
    standard.ignore.push_str("\r\n");
    standard.check_trailing_bits = false;
    standard.encoding().unwrap_or(BASE64)
});

/// `base64.StdEncoding.DecodeString`. An error is the text of Go's error.
pub(super) fn decode_base64(text: &[u8]) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|e| {
        let is_foreign = |b: &u8| !b.is_ascii_alphanumeric() && !b"+/=\r\n".contains(b);
        let place = text.iter().position(is_foreign).unwrap_or(e.position);
        format!("illegal base64 data at input byte {place}")
    })
}
