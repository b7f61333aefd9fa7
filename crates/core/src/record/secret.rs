//! The record in a Secret, for releases whose status cannot hold it: compressed JSON. One Secret holds more than 10,000
//! members. Helm's release Secret also holds the manifests and the chart, so it reaches the limit much earlier.

use std::borrow::Cow;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Record, VERSION};

/// What takes more than this unpacked was not written by us, in bytes.
const MAX_UNPACKED: u64 = 16 << 20;

/// Packs what a Secret of a release keeps.
pub fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    // Writes to memory never fail.
    let _ = packed.write_all(bytes);
    packed.finish().unwrap_or_default()
}

/// Unpacks it; `None` for what is broken.
pub fn unpack(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    let read = GzDecoder::new(bytes).take(MAX_UNPACKED).read_to_end(&mut unpacked);
    read.is_ok().then_some(unpacked)
}

/// What a Secret holds.
#[derive(Clone, Debug, PartialEq)]
pub enum FoundRecord {
    /// Nothing that is the record of this custom resource.
    Nothing,
    /// `generation`: of the custom resource, when this was written.
    Record {
        record: Box<Record>,
        generation: i64,
        stamp: String,
    },
    /// A later program wrote it, in this version.
    Later(u64),
}

/// A record, ready to be written.
pub struct Packed {
    /// Of what it says: equal stamps, equal records.
    pub stamp: String,
    json: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Form<'a> {
    version: u64,
    /// UID of the custom resource: a copy is no record of another one.
    owner: String,
    generation: i64,
    record: Cow<'a, Record>,
}

fn stamp(json: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(json)[..16])
}
impl Packed {
    /// The record of the custom resource with this UID, in this generation.
    pub fn of(record: &Record, owner: &str, generation: i64) -> Self {
        let form = Form {
            version: VERSION,
            owner: owner.to_owned(),
            generation,
            record: Cow::Borrowed(record),
        };
        // Our own types are all JSON.
        let json = serde_json::to_vec(&form).unwrap_or_default();
        Packed {
            stamp: stamp(&json),
            json,
        }
    }

    /// The bytes that are stored.
    pub fn bytes(&self) -> Vec<u8> {
        pack(&self.json)
    }
}
impl FoundRecord {
    /// Reads what is stored. What is malformed, or another custom resource's, is nothing.
    pub fn read(bytes: &[u8], owner: &str) -> Self {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let Some(json) = unpack(bytes) else {
            return FoundRecord::Nothing;
        };
        match serde_json::from_slice(&json) {
            Ok(Version { version }) if version > VERSION => return FoundRecord::Later(version),
            Ok(_) => {}
            Err(_) => return FoundRecord::Nothing,
        }
        match serde_json::from_slice::<Form<'_>>(&json) {
            Ok(form) if form.owner == owner => FoundRecord::Record {
                record: Box::new(form.record.into_owned()),
                generation: form.generation,
                stamp: stamp(&json),
            },
            _ => FoundRecord::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::requests::{Handled, Request};
    use crate::testing::{entry, id};

    fn pack(json: &[u8]) -> Vec<u8> {
        let (stamp, json) = (String::new(), json.to_vec());
        Packed { stamp, json }.bytes()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut handled = Handled::default();
        handled.set(Request::Regenerate, "once");
        let mut record = Record {
            revision: 3,
            done_for: Some("inputs".into()),
            settled: "before".into(),
            lookups: vec!["v1/Secret/shop/tls".into()],
            capabilities: vec!["batch/v1".into()],
            renewal: Some("2026-02-03T04:05:06Z".parse().unwrap()),
            handled,
            history: serde_json::from_str(r#"[{"revision": 3, "kept": true}]"#).unwrap(),
            ..Record::default()
        };
        for members in [0, 1, 3000] {
            let entry = |n: usize| entry(&id("Deployment.apps", &format!("member-{n}")));
            record.entries = (0..members).map(entry).collect();
            let packed = Packed::of(&record, "u", 7);
            let (bytes, stamp) = (packed.bytes(), packed.stamp);
            assert!(bytes.len() < 600 + members * 30, "{members}: {}", bytes.len());
            let (record, generation) = (record.clone(), 7);
            assert_eq!(
                FoundRecord::read(&bytes, "u"),
                FoundRecord::Record {
                    record: Box::new(record),
                    generation,
                    stamp
                }
            );
            assert_eq!(FoundRecord::read(&bytes, "another"), FoundRecord::Nothing);
        }
    }

    #[test]
    fn what_others_made_of_it_is_not_believed() {
        let bomb = vec![b' '; 2 * MAX_UNPACKED as usize];
        for malformed in [
            b"",
            &b"x"[..],
            b"[]",
            b"{}",
            br#"{"version":1}"#,
            br#"{"version":"1"}"#,
            &bomb,
        ] {
            assert_eq!(FoundRecord::read(&pack(malformed), "u"), FoundRecord::Nothing);
        }
        let whole = Packed::of(&Record::default(), "u", 1);
        assert_eq!(FoundRecord::read(&whole.bytes()[..40], "u"), FoundRecord::Nothing);
        assert_eq!(
            FoundRecord::read(&whole.json, "u"),
            FoundRecord::Nothing,
            "it is not packed"
        );
        assert_eq!(
            FoundRecord::read(&pack(br#"{"version":2,"what":"ever"}"#), "u"),
            FoundRecord::Later(2)
        );
    }
}
