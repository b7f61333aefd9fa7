//! What Go says of bytes that are no private key. Facts: `encoding/asn1` and `crypto/x509` of Go 1.26. A key is told by
//! the shape of its outer sequence; where that is right, the words of the library that refused it stay.

use std::fmt::Display;

use super::der::{INTEGER, OCTET_STRING, OID, SEQUENCE, read, read_all};

/// A form of keys.
struct Form {
    /// Go's type of it, and the function that reads it.
    type_name: &'static str,
    function: &'static str,
    /// The tags of the first fields, and how many there must be.
    tags: [u8; 2],
    fields: usize,
}

const PKCS1: Form = Form {
    type_name: "pkcs1PrivateKey",
    function: "ParsePKCS1PrivateKey",
    tags: [INTEGER, INTEGER],
    fields: 6,
};
const SEC1: Form = Form {
    type_name: "ecPrivateKey",
    function: "ParseECPrivateKey",
    tags: [INTEGER, OCTET_STRING],
    fields: 2,
};
const PKCS8: Form = Form {
    type_name: "pkcs8",
    function: "ParsePKCS8PrivateKey",
    tags: [INTEGER, SEQUENCE],
    fields: 3,
};

/// The curves that Go knows: P-224, P-256, P-384, P-521.
const CURVES: [&[u8]; 4] = [
    b"\x2b\x81\x04\x00\x21",
    b"\x2a\x86\x48\xce\x3d\x03\x01\x07",
    b"\x2b\x81\x04\x00\x22",
    b"\x2b\x81\x04\x00\x23",
];
const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const EC: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
const ED25519: &[u8] = b"\x2b\x65\x70";
const UNKNOWN_CURVE: &str = "x509: unknown elliptic curve";

pub(super) fn pkcs1(der: &[u8], error: &dyn Display) -> String {
    other_form(der, &[SEC1, PKCS8])
        .or_else(|| outer(der, &PKCS1))
        .unwrap_or_else(|| error.to_string())
}

pub(super) fn sec1(der: &[u8], error: &dyn Display) -> String {
    if let Some(text) = other_form(der, &[PKCS8, PKCS1]) {
        return text;
    }
    if let Some(text) = outer(der, &SEC1) {
        return format!("x509: failed to parse EC private key: {text}");
    }
    let fields = fields(der);
    let curve = fields.iter().find(|(tag, _)| *tag == 0xA0);
    match curve.and_then(|(_, content)| read(content)) {
        Some((curve, _)) if !CURVES.contains(&curve.content) => UNKNOWN_CURVE.to_owned(),
        _ => format!("x509: failed to parse EC private key: {error}"),
    }
}

pub(super) fn pkcs8(der: &[u8], error: &dyn Display) -> String {
    if let Some(text) = other_form(der, &[SEC1, PKCS1]).or_else(|| outer(der, &PKCS8)) {
        return text;
    }
    let fields = fields(der);
    let algorithm = fields.get(1).and_then(|(_, content)| read_all(content));
    let Some([algorithm, parameters @ ..]) = algorithm.as_deref() else {
        return error.to_string();
    };
    match algorithm.content {
        EC if parameters.first().is_none_or(|curve| !CURVES.contains(&curve.content)) => {
            format!("x509: failed to parse EC private key embedded in PKCS#8: {UNKNOWN_CURVE}")
        }
        RSA | EC | ED25519 => error.to_string(),
        other if algorithm.tag == OID => {
            let name = identifier(other);
            format!("x509: PKCS#8 wrapping contained private key with unknown algorithm: {name}")
        }
        _ => error.to_string(),
    }
}

pub(super) fn dsa(der: &[u8]) -> String {
    if der.len() < 2 {
        return "asn1: syntax error: truncated tag or length".to_owned();
    }
    "DSA keys sign no certificates".to_owned()
}

/// The fields of a sequence: tags and contents.
fn fields(der: &[u8]) -> Vec<(u8, &[u8])> {
    let outer = read(der).filter(|(outer, _)| outer.tag == SEQUENCE);
    let fields = outer.and_then(|(outer, _)| read_all(outer.content)).unwrap_or_default();
    fields.into_iter().map(|field| (field.tag, field.content)).collect()
}

impl Form {
    fn is_of(&self, der: &[u8]) -> bool {
        let fields = fields(der);
        let tags = fields.iter().map(|(tag, _)| tag);
        fields.len() >= self.fields && tags.take(2).eq(&self.tags)
    }
}

/// Whether it is a key in PKCS#8, whatever its label says.
pub(super) fn is_pkcs8(der: &[u8]) -> bool {
    PKCS8.is_of(der)
}

/// Go's hint at a key of another form.
fn other_form(der: &[u8], forms: &[Form]) -> Option<String> {
    let Form { function, .. } = forms.iter().find(|form| form.is_of(der))?;
    Some(format!(
        "x509: failed to parse private key (use {function} instead for this key format)"
    ))
}

/// An object identifier in numbers.
fn identifier(content: &[u8]) -> String {
    let mut numbers: Vec<u64> = Vec::new();
    let mut number = 0u64;
    for byte in content {
        number = number << 7 | u64::from(byte & 0x7f);
        if *byte < 0x80 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first);
                number -= first * 40;
            }
            numbers.push(number);
            number = 0;
        }
    }
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// Why the bytes are no sequence of that form: `asn1.Unmarshal`.
fn outer(der: &[u8], form: &Form) -> Option<String> {
    let too_short = || Some("asn1: syntax error: sequence truncated".to_owned());
    if der.is_empty() {
        return too_short();
    }
    let header = match Header::read(der) {
        Ok(header) => header,
        Err(text) => return Some(format!("asn1: {text}")),
    };
    let Header {
        class,
        compound,
        tag,
        length,
        end,
    } = header;
    if (class, compound, tag) != (0, true, 16) {
        return Some(format!(
            "asn1: structure error: tags don't match (16 vs {{class:{class} tag:{tag} length:{length} \
             isCompound:{compound}}}) {{optional:false explicit:false application:false private:false \
             defaultValue:<nil> tag:<nil> stringType:0 timeType:0 set:false omitEmpty:false}} {} @{end}",
            form.type_name
        ));
    }
    if length > der.len() - end {
        return Some("asn1: syntax error: data truncated".to_owned());
    }
    let content = der.get(end..end + length).unwrap_or_default();
    match read_all(content) {
        Some(fields) if fields.len() < form.fields => too_short(),
        _ => None,
    }
}

/// What stands before an element's content.
struct Header {
    class: u8,
    compound: bool,
    tag: usize,
    length: usize,
    /// Where it ends.
    end: usize,
}

impl Header {
    fn read(der: &[u8]) -> Result<Self, &'static str> {
        const TRUNCATED: &str = "syntax error: truncated tag or length";
        let mut bytes = der.iter().copied();
        let first = bytes.next().ok_or(TRUNCATED)?;
        let mut tag = usize::from(first & 0x1f);
        if tag == 0x1f {
            tag = base128(&mut bytes)?;
            if tag < 0x1f {
                return Err("syntax error: non-minimal tag");
            }
        }
        let short = bytes.next().ok_or(TRUNCATED)?;
        let mut length = usize::from(short);
        if short == 0x80 {
            return Err("syntax error: indefinite length found (not DER)");
        }
        if short > 0x80 {
            length = 0;
            for _ in 0..short & 0x7f {
                let byte = bytes.next().ok_or(TRUNCATED)?;
                if length >= 1 << 23 {
                    return Err("structure error: length too large");
                }
                length = length << 8 | usize::from(byte);
                if length == 0 {
                    return Err("structure error: superfluous leading zeros in length");
                }
            }
            if length < 0x80 {
                return Err("structure error: non-minimal length");
            }
        }
        Ok(Header {
            class: first >> 6,
            compound: first & 0x20 != 0,
            tag,
            length,
            end: der.len() - bytes.len(),
        })
    }
}

fn base128(bytes: &mut impl Iterator<Item = u8>) -> Result<usize, &'static str> {
    let mut number = 0usize;
    for shifted in 0.. {
        let byte = bytes.next().ok_or("syntax error: truncated base 128 integer")?;
        if shifted == 5 {
            return Err("structure error: base 128 integer too large");
        }
        if shifted == 0 && byte == 0x80 {
            return Err("syntax error: integer is not minimally encoded");
        }
        number = number << 7 | usize::from(byte & 0x7f);
        if byte < 0x80 {
            break;
        }
    }
    if number > i32::MAX as usize {
        return Err("structure error: base 128 integer too large");
    }
    Ok(number)
}
