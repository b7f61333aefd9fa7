//! Integers in texts, as Go's `strconv` reads them.

use crate::text::quote::quote_go;

/// Why a text is no integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntegerError {
    Syntax,
    /// Out of range; holds the nearest integer, which is what Go returns along with its error.
    Range(i64),
}

impl std::fmt::Display for IntegerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            IntegerError::Syntax => "invalid syntax",
            IntegerError::Range(_) => "value out of range",
        })
    }
}

/// `strconv.Atoi`, with its text.
pub fn atoi(text: &str) -> Result<i64, String> {
    decimal("Atoi", text, 64)
}

/// A decimal integer of as many bits, with the text of the function of `strconv`.
pub fn decimal(function: &str, text: &str, bits: u32) -> Result<i64, String> {
    parse_int(text.as_bytes(), 10, bits)
        .map_err(|problem| format!("strconv.{function}: parsing {}: {problem}", quote_go(text)))
}

/// `strconv.ParseInt`. Base 0 reads Go's prefixes `0x`, `0o`, `0`, `0b` and underscores.
pub fn parse_int(text: &[u8], base: u32, bits: u32) -> Result<i64, IntegerError> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let most = i64::MAX >> (64 - bits);
    let nearest = if negative { -most - 1 } else { most };
    match parse_uint(digits, base, bits) {
        Err(IntegerError::Syntax) => Err(IntegerError::Syntax),
        Ok(magnitude) if magnitude <= nearest.unsigned_abs() => Ok(if negative {
            0_i64.wrapping_sub_unsigned(magnitude)
        } else {
            magnitude.cast_signed()
        }),
        _ => Err(IntegerError::Range(nearest)),
    }
}

/// `strconv.ParseUint`. Its nearest integer is that of a signed one.
pub fn parse_uint(text: &[u8], base: u32, bits: u32) -> Result<u64, IntegerError> {
    let (radix, digits) = match text {
        _ if base != 0 => (base, text),
        [b'0', b'x' | b'X', rest @ ..] if !rest.is_empty() => (16, rest),
        [b'0', b'o' | b'O', rest @ ..] if !rest.is_empty() => (8, rest),
        [b'0', b'b' | b'B', rest @ ..] if !rest.is_empty() => (2, rest),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        _ => (10, text),
    };
    if digits.is_empty() {
        return Err(IntegerError::Syntax);
    }
    let most = u64::MAX >> (64 - bits);
    let mut value: u64 = 0;
    for byte in digits.iter().filter(|byte| base != 0 || **byte != b'_') {
        let digit = char::from(*byte).to_digit(radix).ok_or(IntegerError::Syntax)?;
        // Go reads no further, so that it doesn't matter what follows.
        value = value
            .checked_mul(u64::from(radix))
            .and_then(|n| n.checked_add(u64::from(digit)))
            .filter(|n| *n <= most)
            .ok_or(IntegerError::Range(i64::MAX))?;
    }
    if base == 0 && digits.contains(&b'_') && !underscores_fit(text) {
        Err(IntegerError::Syntax)
    } else {
        Ok(value)
    }
}

/// Whether each underscore stands between two digits or between a base prefix and a digit.
pub fn underscores_fit(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"+").or(text.strip_prefix(b"-")).unwrap_or(text);
    let (mut digit, hex, rest) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (true, true, rest),
        [b'0', b'o' | b'O' | b'b' | b'B', rest @ ..] => (true, false, rest),
        rest => (false, false, rest),
    };
    // The kind of the last character: a digit (or a prefix), an underscore, or neither.
    let mut underscore = false;
    for byte in rest {
        let is_digit = byte.is_ascii_digit() || hex && byte.is_ascii_hexdigit();
        let is_underscore = *byte == b'_';
        if !is_digit && (is_underscore && !digit || !is_underscore && underscore) {
            return false;
        }
        (digit, underscore) = (is_digit, is_underscore);
    }
    !underscore
}

#[cfg(test)]
mod tests {
    use crate::text::integer::*;

    #[test]
    fn what_is_read_before_the_end_decides() {
        let level = |text| parse_int(text, 10, 32);
        assert_eq!(level(b"-2147483648"), Ok(-2_147_483_648));
        assert_eq!(level(b"2147483648"), Err(IntegerError::Range(2_147_483_647)));
        assert_eq!(level(b"3000000000x"), Err(IntegerError::Syntax));
        assert_eq!(level(b"99999999999x"), Err(IntegerError::Range(2_147_483_647)));
        assert_eq!(parse_int(b"-9223372036854775808", 10, 64), Ok(i64::MIN));
        let size = |text| parse_uint(text, 0, 64);
        assert_eq!((size(b"0x_1"), size(b"0_7"), size(b"0")), (Ok(1), Ok(7), Ok(0)));
        for text in [b"+1".as_slice(), b"_1", b"1_", b"0x", b"0_8", b"1__0", b""] {
            assert_eq!(size(text), Err(IntegerError::Syntax), "{text:?}");
        }
    }
}
