//! IP addresses by the rules of Go 1.26's `net/netip`.

use crate::template::go::quote::quote_go;

/// What kind of address a text is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    V4,
    V6,
    /// An IPv6 address with a zone.
    Zoned,
}

/// Why a text is no address, and from where on.
struct Problem<'a> {
    why: &'static str,
    at: &'a [u8],
}

type Checked<'a> = Result<(), Problem<'a>>;

fn problem<'a, T>(why: &'static str, at: &'a [u8]) -> Result<T, Problem<'a>> {
    Err(Problem { why, at })
}

/// `netip.ParseAddr`. An error is the text of Go's error.
pub fn parse(text: &[u8]) -> Result<Kind, String> {
    find_kind(text).map_err(|Problem { why, at }| {
        let place = match at {
            [] => String::new(),
            at => format!(" (at {})", quote_go(at)),
        };
        format!("ParseAddr({}): {why}{place}", quote_go(text))
    })
}

fn find_kind(text: &[u8]) -> Result<Kind, Problem<'_>> {
    match text.iter().find(|byte| b".:%".contains(byte)) {
        Some(b'.') => v4(text).map(|()| Kind::V4),
        Some(b':') => v6(text),
        Some(_) => problem("missing IPv6 address", b""),
        None => problem("unable to parse IP", b""),
    }
}

fn v4(text: &[u8]) -> Checked<'_> {
    let (mut value, mut digits, mut dots) = (0, 0, 0);
    for (at, byte) in text.iter().enumerate() {
        let rest = text.get(at..).unwrap_or_default();
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return problem("IPv4 field has octet with leading zero", b"");
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return problem("IPv4 field has value >255", b"");
                }
            }
            b'.' if digits == 0 || rest.len() == 1 => {
                return problem("IPv4 field must have at least one digit", rest);
            }
            b'.' if dots == 3 => return problem("IPv4 address too long", b""),
            b'.' => {
                dots += 1;
                (value, digits) = (0, 0);
            }
            _ => return problem("unexpected character", rest),
        }
    }
    if dots < 3 {
        return problem("IPv4 address too short", b"");
    }
    Ok(())
}

fn v6(text: &[u8]) -> Result<Kind, Problem<'_>> {
    let zone = text.iter().position(|byte| *byte == b'%');
    let (address, zone) = text.split_at(zone.unwrap_or(text.len()));
    if zone == b"%" {
        return problem("zone must be a non-empty string", b"");
    }
    groups(address)?;
    Ok(if zone.is_empty() { Kind::V6 } else { Kind::Zoned })
}

/// The groups of an IPv6 address without its zone.
fn groups(address: &[u8]) -> Checked<'_> {
    let mut has_ellipsis = address.starts_with(b"::");
    let mut rest = address.strip_prefix(b"::").unwrap_or(address);
    let mut groups = 0;
    while groups < 8 && !(rest.is_empty() && has_ellipsis) {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits > 4 {
            return problem("each group must have 4 or less digits", rest);
        }
        if digits == 0 {
            return problem("each colon-separated field must have at least one digit", rest);
        }
        let after = rest.get(digits..).unwrap_or_default();
        if after.starts_with(b".") {
            if !has_ellipsis && groups != 6 {
                return problem(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                );
            }
            if groups > 6 {
                return problem(
                    "too many hex fields to fit an embedded IPv4 at the end of the address",
                    rest,
                );
            }
            v4(rest)?;
            rest = b"";
            groups += 2;
            break;
        }
        groups += 1;
        rest = match after {
            [] => b"",
            b":" => return problem("colon must be followed by more characters", after),
            [b':', b':', ..] if has_ellipsis => {
                return problem("multiple :: in address", after.get(1..).unwrap_or_default());
            }
            [b':', b':', rest @ ..] => {
                has_ellipsis = true;
                rest
            }
            [b':', rest @ ..] => rest,
            _ => return problem("unexpected character, want colon", after),
        };
        if after.is_empty() {
            break;
        }
    }
    match (rest.is_empty(), has_ellipsis) {
        (false, _) => problem("trailing garbage after address", rest),
        (true, false) if groups < 8 => problem("address string too short", b""),
        (true, true) if groups == 8 => problem("the :: must expand to at least one field of zeros", b""),
        (true, _) => Ok(()),
    }
}
