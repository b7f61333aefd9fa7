//! A record in parts of bounded size, for where the status can't hold it; and in which order they are written and
//! removed, so that a crash between two of them loses no entry that keeps its place. (One that moves from a part to
//! another in that very write is left to its labels.)
//!
//! Every part says of how many it is one, and bears the stamp of the whole. Parts that don't fit together were cut off in
//! the middle of a write: their entries say what to look for, and nothing of what was done.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::record::{Entry, Handled, Record, Row, VERSION};

/// The size of a part, in bytes; the API server's limit for a Secret is 1 MiB.
pub const MAX_BYTES: usize = 900 << 10;
/// More parts than any record has: what somebody forged must not make us read for ever.
const MAX_PARTS: usize = 64;

/// Where parts are kept, by their number from 0.
pub trait Store: Sync {
    type Error: Send;

    /// `None` if it isn't there.
    fn read(&self, part: usize) -> impl Future<Output = Result<Option<Vec<u8>>, Self::Error>> + Send;

    /// Writes it, whatever is there.
    fn write(&self, part: usize, bytes: Vec<u8>) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// True if it was there.
    fn remove(&self, part: usize) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// What a store holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    Nothing,
    Whole(Record, Saved),
    /// Entries without their digests, from parts of which some are missing or of another write. With the number of parts
    /// that may be there.
    Torn(Record, usize),
    /// A later program wrote it, in this version.
    Later(u64),
}

/// What is known to be in a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    pub parts: usize,
    /// Of the record that they hold; empty if that isn't known.
    pub stamp: String,
    /// The generation of the custom resource that they were written for.
    pub generation: i64,
}

/// A record, ready to be written.
pub struct Parts {
    pub stamp: String,
    generation: i64,
    bytes: Vec<Vec<u8>>,
}

#[derive(Serialize, Deserialize)]
struct Part {
    version: u64,
    /// UID of the custom resource: a copy is no record of another one.
    owner: String,
    of: usize,
    stamp: String,
    head: Head,
    entries: Vec<Row>,
}

/// Everything but the entries; in each part, since any of them may be lost.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Head {
    revision: i64,
    inputs: String,
    settled: String,
    lookups: Vec<String>,
    capabilities: Vec<String>,
    renewal: Option<jiff::Timestamp>,
    regenerated: String,
    handled: Handled,
    /// Of the custom resource, when this was written.
    generation: i64,
}

/// Reads the record of a custom resource. `known`: how many parts there should be, for the case that the first is lost.
///
/// # Errors
/// Those of the store.
pub async fn load<S: Store>(store: &S, owner: &str, known: usize) -> Result<Found, S::Error> {
    let mut parts = Vec::new();
    let mut count = known.min(MAX_PARTS);
    let mut number = 0;
    // Without knowledge of others, the first tells whether there is anything.
    while number < count.max(1) {
        let part = store.read(number).await?.map(|bytes| Part::read(&bytes, owner));
        match part {
            Some(Err(Unreadable::Later(version))) => return Ok(Found::Later(version)),
            Some(Ok(part)) => {
                count = count.max(part.of.min(MAX_PARTS));
                parts.push((number, part));
            }
            Some(Err(Unreadable::Malformed)) | None => {}
        }
        number += 1;
    }
    Ok(join(parts, count))
}

/// Writes a record over what was known to be there, and says what is there now.
///
/// # Errors
/// Those of the store.
pub async fn save<S: Store>(store: &S, parts: Parts, before: usize) -> Result<Saved, S::Error> {
    let count = parts.bytes.len();
    // The first one last: as long as it is of the former write, a record that grew is still the former one.
    for (number, bytes) in parts.bytes.into_iter().enumerate().rev() {
        store.write(number, bytes).await?;
    }
    // From the end, so that what a crash leaves follows those that are known.
    for number in (count..before).rev() {
        store.remove(number).await?;
    }
    Ok(Saved {
        parts: count,
        stamp: parts.stamp,
        generation: parts.generation,
    })
}

/// Removes all parts. The first one last, which tells that there are others.
///
/// # Errors
/// Those of the store.
pub async fn remove<S: Store>(store: &S, known: usize) -> Result<(), S::Error> {
    // One that a crash left behind those that are known.
    let mut beyond = known.max(1);
    while beyond < MAX_PARTS && store.remove(beyond).await? {
        beyond += 1;
    }
    for number in (0..known.max(1)).rev() {
        store.remove(number).await?;
    }
    Ok(())
}

fn join(parts: Vec<(usize, Part)>, count: usize) -> Found {
    let Some((_, first)) = parts.first() else {
        return Found::Nothing;
    };
    let (stamp, of) = (first.stamp.clone(), first.of);
    let whole = parts.len() >= of
        && (0..of).all(|number| {
            parts
                .iter()
                .any(|(at, part)| *at == number && part.stamp == stamp && part.of == of)
        });
    let mut record = Record::default();
    if whole {
        let parts = parts.into_iter().filter(|(number, _)| *number < of);
        let mut generation = 0;
        for (_, part) in parts {
            generation = part.head.generation;
            record = part.head.with(record.entries);
            record.entries.extend(part.entries.into_iter().map(Entry::from));
        }
        let saved = Saved {
            parts: count,
            stamp,
            generation,
        };
        return Found::Whole(record, saved);
    }
    let mut entries = BTreeMap::new();
    let mut order = Vec::new();
    let mut head = Head::default();
    for (_, part) in parts {
        if part.head.revision >= head.revision {
            head = part.head;
        }
        for entry in part.entries.into_iter().map(Entry::from) {
            let known = Entry {
                digest: String::new(),
                fingerprint: None,
                ..entry
            };
            order.extend((!entries.contains_key(&known.id)).then(|| known.id.clone()));
            entries.insert(known.id.clone(), known);
        }
    }
    head.inputs.clear();
    let entries = order.iter().filter_map(|id| entries.remove(id)).collect();
    Found::Torn(head.with(entries), count)
}

// === impl Parts ===

impl Parts {
    /// Cuts a record into parts of at most `limit` bytes ([`MAX_BYTES`] but in tests).
    pub fn of(record: &Record, owner: &str, generation: i64, limit: usize) -> Self {
        let head = Head {
            revision: record.revision,
            inputs: record.inputs.clone(),
            settled: record.settled.clone(),
            lookups: record.lookups.clone(),
            capabilities: record.capabilities.clone(),
            renewal: record.renewal,
            regenerated: record.regenerated.clone(),
            handled: record.handled.clone(),
            generation,
        };
        let mut hash = Sha256::new();
        let head_bytes = json(&head);
        hash.update(&head_bytes);
        // The frame around head and entries.
        let frame = head_bytes.len() + owner.len() + 160;
        let mut lists: Vec<Vec<Row>> = vec![Vec::new()];
        let mut size = frame;
        for row in record.entries.iter().map(Row::from) {
            let bytes = json(&row);
            hash.update(&bytes);
            size += bytes.len() + 1;
            if size > limit && lists.last().is_some_and(|list| !list.is_empty()) {
                lists.push(Vec::new());
                size = frame + bytes.len() + 1;
            }
            if let Some(list) = lists.last_mut() {
                list.push(row);
            }
        }
        let stamp = data_encoding::HEXLOWER.encode(&hash.finalize()[..16]);
        let of = lists.len();
        let part = |entries| Part {
            version: VERSION,
            owner: owner.to_owned(),
            of,
            stamp: stamp.clone(),
            head: head.clone(),
            entries,
        };
        let bytes = lists.into_iter().map(|entries| json(&part(entries))).collect();
        Parts {
            stamp,
            generation,
            bytes,
        }
    }
}

/// Our own types are all JSON.
fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

// === impl Part ===

enum Unreadable {
    Malformed,
    Later(u64),
}

impl Part {
    fn read(bytes: &[u8], owner: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let version: Version = serde_json::from_slice(bytes).map_err(|_| Unreadable::Malformed)?;
        if version.version > VERSION {
            return Err(Unreadable::Later(version.version));
        }
        let part: Part = serde_json::from_slice(bytes).map_err(|_| Unreadable::Malformed)?;
        match part.owner == owner {
            true => Ok(part),
            false => Err(Unreadable::Malformed),
        }
    }
}

// === impl Head ===

impl Head {
    fn with(self, entries: Vec<Entry>) -> Record {
        Record {
            revision: self.revision,
            inputs: self.inputs,
            settled: self.settled,
            lookups: self.lookups,
            capabilities: self.capabilities,
            renewal: self.renewal,
            regenerated: self.regenerated,
            handled: self.handled,
            entries,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt;

    use super::*;
    use crate::plan::identity::{GroupKind, ObjectId};

    /// Parts in memory; breaks down after so many writes and removals.
    #[derive(Default)]
    struct Memory {
        parts: Mutex<BTreeMap<usize, Vec<u8>>>,
        strength: Mutex<Option<usize>>,
    }

    impl Memory {
        fn work(&self) -> Result<(), ()> {
            match self.strength.lock().unwrap().as_mut() {
                Some(0) => Err(()),
                Some(left) => {
                    *left -= 1;
                    Ok(())
                }
                None => Ok(()),
            }
        }

        fn save(&self, record: &Record, before: usize) -> Result<Saved, ()> {
            save(self, Parts::of(record, "u", 1, LIMIT), before)
                .now_or_never()
                .unwrap()
        }

        fn load(&self, known: usize) -> Found {
            load(self, "u", known).now_or_never().unwrap().unwrap()
        }
    }

    impl Store for Memory {
        type Error = ();

        async fn read(&self, part: usize) -> Result<Option<Vec<u8>>, ()> {
            Ok(self.parts.lock().unwrap().get(&part).cloned())
        }

        async fn write(&self, part: usize, bytes: Vec<u8>) -> Result<(), ()> {
            self.work()?;
            assert!(bytes.len() <= LIMIT, "{}", bytes.len());
            self.parts.lock().unwrap().insert(part, bytes);
            Ok(())
        }

        async fn remove(&self, part: usize) -> Result<bool, ()> {
            self.work()?;
            Ok(self.parts.lock().unwrap().remove(&part).is_some())
        }
    }

    /// Holds about ten entries.
    const LIMIT: usize = 2000;

    fn record(revision: i64, members: usize) -> Record {
        let entry = |n: usize| Entry {
            id: ObjectId::new(GroupKind::new("apps", "Deployment"), "shop", format!("member-{n}")),
            version: "v1".into(),
            uid: format!("uid-{n}"),
            wave: 0,
            digest: format!("digest-{revision}"),
            fingerprint: Some(n as u64),
            finished: false,
        };
        Record {
            revision,
            inputs: format!("inputs-{revision}"),
            settled: "before".into(),
            lookups: vec!["v1/Secret/shop/tls".into()],
            capabilities: vec!["batch/v1".into()],
            renewal: None,
            regenerated: "once".into(),
            handled: Handled::default(),
            entries: (0..members).map(entry).collect(),
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for members in [0, 1, 5, 40, 400] {
            let store = Memory::default();
            let record = record(3, members);
            let saved = store.save(&record, 0).unwrap();
            assert_eq!(saved.parts > 1, members >= 40, "{members}: {}", saved.parts);
            assert_eq!(store.load(0), Found::Whole(record, saved.clone()));
            remove(&store, saved.parts).now_or_never().unwrap().unwrap();
            assert_eq!(store.load(saved.parts), Found::Nothing);
            assert!(store.parts.lock().unwrap().is_empty());
        }
    }

    /// After a crash at any point, the store tells of everything that was in the former record, or all of the new one.
    #[test]
    fn a_crash_at_any_point_loses_no_entry() {
        for (old, new) in [(5, 40), (40, 5), (40, 40), (40, 80), (80, 40), (0, 40)] {
            for strength in 0..20 {
                let store = Memory::default();
                let (former, next) = (record(1, old), record(2, new));
                let before = store.save(&former, 0).unwrap();
                *store.strength.lock().unwrap() = Some(strength);
                let done = store.save(&next, before.parts).is_ok();
                *store.strength.lock().unwrap() = None;
                match store.load(before.parts) {
                    Found::Whole(found, _) => {
                        assert!(found == former && !done || found == next, "{old} {new} {strength}")
                    }
                    Found::Torn(found, _) => {
                        assert!(!done);
                        let has = |entry: &Entry| found.entry(&entry.id).is_some();
                        assert!(
                            former.entries.iter().all(has) || next.entries.iter().all(has),
                            "{old} {new} {strength}"
                        );
                        assert!(found.inputs.is_empty() && found.entries.iter().all(|entry| entry.digest.is_empty()));
                        assert!(found.revision >= 1);
                    }
                    other => panic!("{old} {new} {strength}: {other:?}"),
                }
                // Whatever was left, a write and a removal make it whole, and nothing: also for whoever lost the number.
                for remembered in [before.parts, 0] {
                    let store = Memory {
                        parts: Mutex::new(store.parts.lock().unwrap().clone()),
                        ..Memory::default()
                    };
                    let known = match store.load(remembered) {
                        Found::Whole(_, saved) => saved.parts,
                        Found::Torn(_, parts) => parts,
                        _ => 0,
                    };
                    let saved = store.save(&next, known).unwrap();
                    assert_eq!(store.load(0), Found::Whole(next.clone(), saved.clone()));
                    let left = store.parts.lock().unwrap().len();
                    assert!(left == saved.parts || remembered == 0, "{old} {new} {strength}: {left}");
                    remove(&store, saved.parts).now_or_never().unwrap().unwrap();
                    assert!(store.parts.lock().unwrap().is_empty(), "{old} {new} {strength}");
                }
            }
        }
    }

    /// Its entries may have any other order then: half of it would tell of none of the former.
    #[test]
    fn a_record_that_outgrows_its_part_is_the_former_one_until_all_is_written() {
        for strength in 0..6 {
            let store = Memory::default();
            let (former, mut next) = (record(1, 5), record(2, 40));
            next.entries.reverse();
            let before = store.save(&former, 0).unwrap();
            *store.strength.lock().unwrap() = Some(strength);
            let done = store.save(&next, before.parts).is_ok();
            let Found::Whole(found, _) = store.load(before.parts) else {
                panic!("torn after {strength}");
            };
            assert_eq!(found, if done { next } else { former });
        }
    }

    #[test]
    fn a_removal_that_was_cut_off_is_found_and_ended() {
        for strength in 0..6 {
            let store = Memory::default();
            let saved = store.save(&record(1, 40), 0).unwrap();
            *store.strength.lock().unwrap() = Some(strength);
            let _ = remove(&store, saved.parts).now_or_never().unwrap();
            *store.strength.lock().unwrap() = None;
            let known = match store.load(0) {
                Found::Whole(_, saved) => saved.parts,
                Found::Torn(_, parts) => parts,
                _ => 0,
            };
            remove(&store, known).now_or_never().unwrap().unwrap();
            assert!(store.parts.lock().unwrap().is_empty(), "{strength}");
        }
    }

    #[test]
    fn what_others_made_of_it_is_not_believed() {
        let stored = |bytes: &[u8]| {
            let store = Memory::default();
            store.parts.lock().unwrap().insert(0, bytes.to_vec());
            store.load(0)
        };
        for malformed in [&b""[..], b"x", b"[]", b"{}", br#"{"version":1}"#, br#"{"version":"1"}"#] {
            assert_eq!(stored(malformed), Found::Nothing);
        }
        assert_eq!(stored(br#"{"version":2,"what":"ever"}"#), Found::Later(2));
        let foreign = Parts::of(&record(1, 2), "another", 1, LIMIT);
        assert_eq!(stored(&foreign.bytes[0]), Found::Nothing);
        // The first part is lost, and those that the status knows of are not.
        let store = Memory::default();
        let saved = store.save(&record(7, 40), 0).unwrap();
        store.parts.lock().unwrap().remove(&0);
        assert_eq!(store.load(0), Found::Nothing);
        let Found::Torn(found, parts) = store.load(saved.parts) else {
            panic!("not torn");
        };
        assert_eq!((found.revision, parts), (7, saved.parts));
        assert!(!found.entries.is_empty());
        // A number of parts that nobody could read.
        let forged = String::from_utf8(Parts::of(&record(1, 2), "u", 1, LIMIT).bytes[0].clone()).unwrap();
        let forged = forged.replace("\"of\":1", "\"of\":4000000000");
        assert!(matches!(stored(forged.as_bytes()), Found::Torn(_, MAX_PARTS)));
    }
}
