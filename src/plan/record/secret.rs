//! The record as a Secret holds it, for where the status can't: JSON, packed. One Secret has room for more than 10,000
//! members. Helm's own release Secret, which holds their manifests and the chart besides, is full long before.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Entry, Record, VERSION};
use crate::plan::request::Request;

/// What takes more than this unpacked is no record of ours, in bytes.
const MAX_UNPACKED: u64 = 16 << 20;
/// The first bytes of what is packed (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What a Secret holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Nothing that is the record of this custom resource.
    Nothing,
    /// `generation`: of the custom resource, when this was written.
    Record {
        record: Record,
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
struct Form {
    version: u64,
    /// UID of the custom resource: a copy is no record of another one.
    owner: String,
    /// An earlier version cut a long record into several Secrets. Such a part is no record.
    #[serde(default = "whole", skip_serializing)]
    of: usize,
    head: Head,
    entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(flatten)]
    record: Record,
    #[serde(default)]
    generation: i64,
    /// Where an earlier version kept the text of [`Request::Regenerate`].
    #[serde(default, skip_serializing)]
    regenerated: String,
}

fn whole() -> usize {
    1
}

fn stamp(json: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(json)[..16])
}

// === impl Packed ===

impl Packed {
    /// The record of the custom resource with this UID, in this generation.
    pub fn of(record: &Record, owner: &str, generation: i64) -> Self {
        let mut record = record.clone();
        let form = Form {
            version: VERSION,
            owner: owner.to_owned(),
            of: whole(),
            entries: std::mem::take(&mut record.entries),
            head: Head {
                record,
                generation,
                regenerated: String::new(),
            },
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
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        // Memory takes whatever is written.
        let _ = packed.write_all(&self.json);
        packed.finish().unwrap_or_default()
    }
}

// === impl Found ===

impl Found {
    /// Reads what is stored, packed or (from an earlier version) as it is. What is malformed, or another custom resource's,
    /// is nothing.
    pub fn read(bytes: &[u8], owner: &str) -> Self {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let mut unpacked = Vec::new();
        let json = match bytes.starts_with(&GZIP) {
            true => match GzDecoder::new(bytes).take(MAX_UNPACKED).read_to_end(&mut unpacked) {
                Ok(_) => &unpacked,
                Err(_) => return Found::Nothing,
            },
            false => bytes,
        };
        match serde_json::from_slice(json) {
            Ok(Version { version }) if version > VERSION => return Found::Later(version),
            Ok(_) => {}
            Err(_) => return Found::Nothing,
        }
        match serde_json::from_slice::<Form>(json) {
            Ok(form) if form.owner == owner && form.of == whole() => {
                let Head {
                    mut record,
                    generation,
                    regenerated,
                } = form.head;
                record.entries = form.entries;
                if !regenerated.is_empty() {
                    record.handled.set(Request::Regenerate, &regenerated);
                }
                Found::Record {
                    record,
                    generation,
                    stamp: stamp(json),
                }
            }
            _ => Found::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Completion;
    use super::*;
    use crate::plan::request::Handled;
    use crate::plan::testing::{entry, id};

    fn record(members: usize) -> Record {
        let entry = |n: usize| entry(&id("Deployment.apps", &format!("member-{n}")));
        let mut handled = Handled::default();
        for (request, text) in Request::ALL.into_iter().zip(["once", "1", "2", "3"]) {
            handled.set(request, text);
        }
        Record {
            revision: 3,
            completion: Completion::Done("inputs".into()),
            settled: "before".into(),
            lookups: vec!["v1/Secret/shop/tls".into()],
            capabilities: vec!["batch/v1".into()],
            renewal: Some("2026-02-03T04:05:06Z".parse().unwrap()),
            handled,
            entries: (0..members).map(entry).collect(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for members in [0, 1, 3000] {
            let record = record(members);
            let packed = Packed::of(&record, "u", 7);
            let (bytes, stamp) = (packed.bytes(), packed.stamp);
            assert!(bytes.len() < 600 + members * 30, "{members}: {}", bytes.len());
            let expected = Found::Record {
                record,
                generation: 7,
                stamp,
            };
            assert_eq!(Found::read(&bytes, "u"), expected);
            assert_eq!(Found::read(&bytes, "another"), Found::Nothing);
        }
    }

    #[test]
    fn what_an_earlier_version_wrote_is_read() {
        let stored = |of: usize| {
            json!({
                "version": 1, "owner": "u", "of": of, "stamp": "5e",
                "head": {
                    "revision": 3, "inputs": "inputs", "settled": "before", "lookups": ["v1/Secret/shop/tls"],
                    "capabilities": ["batch/v1"], "renewal": "2026-02-03T04:05:06Z", "regenerated": "once",
                    "handled": {"reconcile": "1", "force": "2", "reset": "3"}, "generation": 7,
                },
                "entries": [{
                    "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "member-0",
                    "uid": "o1", "wave": 0, "digest": "d", "fingerprint": "0000000000000007",
                }],
            })
            .to_string()
        };
        let Found::Record {
            record: found,
            generation,
            ..
        } = Found::read(stored(1).as_bytes(), "u")
        else {
            panic!("it is not read");
        };
        assert_eq!((found, generation), (record(1), 7));
        assert_eq!(Found::read(stored(2).as_bytes(), "u"), Found::Nothing, "a part");
    }

    #[test]
    fn what_others_made_of_it_is_not_believed() {
        let cut = &Packed::of(&record(1), "u", 1).bytes()[..40];
        for malformed in [
            b"",
            &b"x"[..],
            b"[]",
            b"{}",
            br#"{"version":1}"#,
            br#"{"version":"1"}"#,
            cut,
        ] {
            assert_eq!(Found::read(malformed, "u"), Found::Nothing);
        }
        let later = br#"{"version":2,"what":"ever"}"#;
        assert_eq!(Found::read(later, "u"), Found::Later(2));
        let bomb = Packed {
            stamp: String::new(),
            json: vec![b' '; 2 * MAX_UNPACKED as usize],
        };
        assert_eq!(Found::read(&bomb.bytes(), "u"), Found::Nothing);
    }
}
