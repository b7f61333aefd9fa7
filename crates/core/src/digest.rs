//! Keyed digests. They show whether data changed but do not reveal the data, which may hold passwords.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What a digest is for. It is the first part of what is hashed, so that digests for different uses have nothing in
/// common, though they are of the same text: one that a status shows says nothing about another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The id of the key itself.
    Id,
    /// The object of a member, and a list of members.
    Member,
    Members,
    /// Hooks that are stored for a deletion, with what permits them.
    StoredHooks,
    /// The name of a hook that has none.
    HookName,
    /// What an operation with hooks is for.
    Operation,
    /// What a render depends on: answers about capabilities, what the operator gives, what the custom resource gives.
    Capabilities,
    Given,
    Requested,
    /// The values of a release, the value that a plan runs for, and one run of a plan.
    Values,
    PlanValue,
    PlanRun,
    /// Objects that the author of a custom resource may create, and what the chart renders by default.
    Permit,
    Defaults,
    /// What a status template reads.
    StatusTemplate,
    /// The key of the digests of what random results are made from.
    KeptResults,
    /// A rendered value in whose place the live one stays.
    Pin,
    /// The rendered value of a field whose drift stays.
    Drift,
    /// Signatures: the record in a status, the content of a Secret, and who a Secret or a Lease belongs to.
    Status,
    Content,
    Mark,
    /// The path of the admission webhook, which only the API server knows.
    AdmissionPath,
}

/// An HMAC key of the operator: 32 random bytes that one Secret in the operator's namespace holds.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; 32],
    id: String,
}

/// The key that the operator uses, and those that it used before: what these have signed is still accepted.
#[derive(Clone, Debug)]
pub struct Keyring {
    current: Key,
    previous: Vec<Key>,
}
impl KeyUse {
    /// Frozen: another text makes every digest another one.
    fn as_str(self) -> &'static str {
        match self {
            KeyUse::Id => "id",
            KeyUse::Member => "member",
            KeyUse::Members => "members",
            KeyUse::StoredHooks => "stored-hooks",
            KeyUse::HookName => "hook-name",
            KeyUse::Operation => "operation",
            KeyUse::Capabilities => "capabilities",
            KeyUse::Given => "given",
            KeyUse::Requested => "asked",
            KeyUse::Values => "values",
            KeyUse::PlanValue => "plan-value",
            KeyUse::PlanRun => "plan-run",
            KeyUse::Permit => "permit",
            KeyUse::Defaults => "defaults",
            KeyUse::StatusTemplate => "status-template",
            KeyUse::KeptResults => "kept",
            KeyUse::Pin => "pin",
            KeyUse::Drift => "drift",
            KeyUse::Status => "status",
            KeyUse::Content => "content",
            KeyUse::Mark => "mark",
            KeyUse::AdmissionPath => "admission-path",
        }
    }
}
impl Key {
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut key = Key {
            bytes,
            id: String::new(),
        };
        key.id = key.digest(KeyUse::Id, &[]);
        key.id.truncate(8);
        key
    }

    /// Identifies the key among others: 8 hex digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A digest of the parts, each with its length so that no two lists of parts collide: 32 hex digits.
    pub fn digest(&self, purpose: KeyUse, parts: &[&[u8]]) -> String {
        data_encoding::HEXLOWER.encode(&self.derive(purpose, parts)[..16])
    }

    /// 32 bytes that only the holder of the key can compute.
    pub fn derive(&self, purpose: KeyUse, parts: &[&[u8]]) -> [u8; 32] {
        self.mac(purpose, parts).finalize().into_bytes().into()
    }

    fn mac(&self, purpose: KeyUse, parts: &[&[u8]]) -> Hmac<Sha256> {
        // HMAC pads a key to the hash's block of 64 bytes (RFC 2104).
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.bytes);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        for part in std::iter::once(purpose.as_str().as_bytes()).chain(parts.iter().copied()) {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac
    }
}
impl Keyring {
    pub fn new(current: Key, previous: Vec<Key>) -> Self {
        Keyring { current, previous }
    }

    pub fn current(&self) -> &Key {
        &self.current
    }

    /// The key with this id; `None` if the operator doesn't have it, or no longer.
    pub fn get(&self, id: &str) -> Option<&Key> {
        std::iter::once(&self.current)
            .chain(&self.previous)
            .find(|key| key.id == id)
    }

    /// Signs the parts with the current key: its id, and a digest.
    pub fn sign(&self, purpose: KeyUse, parts: &[&[u8]]) -> String {
        sign(&self.current, purpose, parts)
    }

    /// True if one of the keys signed these very parts.
    pub fn is_signed(&self, purpose: KeyUse, parts: &[&[u8]], signature: &str) -> bool {
        let Some((id, digest)) = signature.split_once('.') else {
            return false;
        };
        let digest = data_encoding::HEXLOWER.decode(digest.as_bytes()).unwrap_or_default();
        // Compared in constant time; a shorter one would be easier to guess.
        digest.len() == 16
            && self
                .get(id)
                .is_some_and(|key| key.mac(purpose, parts).verify_truncated_left(&digest).is_ok())
    }
}

/// Signs the parts with a key.
pub fn sign(key: &Key, purpose: KeyUse, parts: &[&[u8]]) -> String {
    format!("{}.{}", key.id, key.digest(purpose, parts))
}

/// The id of the key that made a signature.
pub fn signer(signature: &str) -> Option<&str> {
    signature.split_once('.').map(|(id, _)| id)
}

/// Never shows the key.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USE: KeyUse = KeyUse::Member;

    #[test]
    fn digests_depend_on_key_use_and_on_the_borders_of_parts() {
        let key = Key::new([1; 32]);
        assert_eq!(key.digest(USE, &[b"ab", b"c"]), key.digest(USE, &[b"ab", b"c"]));
        assert_ne!(key.digest(USE, &[b"ab", b"c"]), key.digest(USE, &[b"a", b"bc"]));
        assert_ne!(key.digest(USE, &[b"ab"]), key.digest(KeyUse::PlanValue, &[b"ab"]));
        assert_ne!(key.digest(USE, &[b"ab"]), Key::new([2; 32]).digest(USE, &[b"ab"]));
        assert_eq!(key.digest(USE, &[]).len(), 32);
        assert!(!format!("{key:?}").contains('1'));
    }

    #[test]
    fn only_keys_of_the_ring_sign() {
        let (one, two, other) = (Key::new([1; 32]), Key::new([2; 32]), Key::new([3; 32]));
        let before = Keyring::new(one.clone(), Vec::new());
        let after = Keyring::new(two.clone(), vec![one.clone()]);
        let parts: &[&[u8]] = &[b"a", b"b"];
        let signature = before.sign(USE, parts);
        assert_eq!(signer(&signature), Some(one.id()));
        assert!(before.is_signed(USE, parts, &signature) && after.is_signed(USE, parts, &signature));
        assert_eq!(signer(&after.sign(USE, parts)), Some(two.id()));
        let digest = one.digest(USE, parts);
        for forged in [
            String::new(),
            digest.clone(),
            format!("{}.{digest}", two.id()),
            format!("{}.{}", one.id(), &digest[..30]),
            format!("{}.", one.id()),
            sign(&other, USE, parts),
            before.sign(KeyUse::Mark, parts),
            before.sign(USE, &[b"ab"]),
        ] {
            assert!(!after.is_signed(USE, parts, &forged), "{forged}");
        }
        assert!(!Keyring::new(two, Vec::new()).is_signed(USE, parts, &signature));
    }
}
