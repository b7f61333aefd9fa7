//! The DER of X.509 certificates: what is read of one, and the parts that a new one is made of.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::der::{Element, OCTET_STRING, OID, element, read, read_all, sequence};
use super::time::Time;

/// The extension `subjectKeyIdentifier`.
pub(super) const SUBJECT_KEY_ID: &[u8] = b"\x55\x1d\x0e";

/// A certificate that was read, as far as signing another one or checking this one needs it.
pub(super) struct Parsed {
    /// What is signed.
    pub(super) body: Vec<u8>,
    pub(super) signature: Vec<u8>,
    pub(super) issuer: Vec<u8>,
    /// The start and the end of validity.
    pub(super) validity: Option<(Timestamp, Timestamp)>,
    pub(super) subject: Vec<u8>,
    pub(super) public_info: Vec<u8>,
    pub(super) subject_key_id: Vec<u8>,
}

impl Parsed {
    pub(super) fn read(der: &[u8]) -> Option<Self> {
        let (outer, _) = read(der)?;
        let (body, after_body) = read(outer.content)?;
        let signature = read_all(after_body)?.last()?.content.get(1..)?.to_vec();
        let mut fields = read_all(body.content)?;
        if fields.first()?.tag == 0xA0 {
            fields.remove(0);
        }
        // serial, signature, issuer, validity, subject, key; then extensions.
        let mut subject_key_id = Vec::new();
        if let Some(extensions) = fields.iter().find(|field| field.tag == 0xA3) {
            for extension in read_all(read(extensions.content)?.0.content)? {
                let parts = read_all(extension.content)?;
                if parts.first()?.content == SUBJECT_KEY_ID {
                    subject_key_id = read(parts.last()?.content)?.0.content.to_vec();
                }
            }
        }
        let times = read_all(fields.get(3)?.content)?;
        Some(Parsed {
            body: body.raw.to_vec(),
            signature,
            issuer: fields.get(2)?.raw.to_vec(),
            validity: times.first().and_then(read_time).zip(times.get(1).and_then(read_time)),
            subject: fields.get(4)?.raw.to_vec(),
            public_info: fields.get(5)?.raw.to_vec(),
            subject_key_id,
        })
    }
}

/// An extension of a certificate.
pub(super) fn extension(oid: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { b"\x01\x01\xff" } else { b"" };
    sequence(&[&element(OID, oid), critical, &element(OCTET_STRING, content)])
}

/// A time of validity: two-digit years from 1950 to 2049, else four digits.
pub(super) fn time(time: &Time) -> Vec<u8> {
    if (1950..2050).contains(&time.civil().year) {
        element(0x17, &time.format(b"060102150405Z"))
    } else {
        element(0x18, &time.format(b"20060102150405Z"))
    }
}

/// Reads what [`time`] writes.
fn read_time(element: &Element<'_>) -> Option<Timestamp> {
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let full = match (element.tag, text.len()) {
        (0x17, 12) if text < "50" => format!("20{text}"),
        (0x17, 12) => format!("19{text}"),
        (0x18, 14) => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| full.get(from..to)?.parse::<i8>().ok();
    let date = DateTime::new(
        full.get(..4)?.parse().ok()?,
        part(4, 6)?,
        part(6, 8)?,
        part(8, 10)?,
        part(10, 12)?,
        part(12, 14)?,
        0,
    );
    Some(date.ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::super::time::Zone;
    use super::*;

    #[test]
    fn validity_is_read_as_it_is_written() {
        for seconds in [0, 2_524_607_999, 2_524_608_000, -631_152_001, 4_102_444_800] {
            let written = time(&Time {
                at: i128::from(seconds) * 1_000_000_000,
                zone: Zone::Utc,
                mono: None,
            });
            let (element, _) = read(&written).expect("DER");
            assert_eq!(read_time(&element).map(Timestamp::as_second), Some(seconds));
        }
    }
}
