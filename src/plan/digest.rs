//! Keyed digests: they tell whether something changed without telling what it was, though it may hold passwords.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The operator's HMAC key; 32 random bytes that one Secret in the operator's namespace holds.
#[derive(Clone)]
pub struct Key {
    bytes: [u8; 32],
    id: String,
}

impl Key {
    pub fn new(bytes: [u8; 32]) -> Self {
        let mut key = Key {
            bytes,
            id: String::new(),
        };
        key.id = key.digest(&[b"id"]);
        key.id.truncate(8);
        key
    }

    /// Tells it from other keys: 8 hex digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A digest of the parts, each with its length so that no two lists of parts collide: 32 hex digits.
    pub fn digest(&self, parts: &[&[u8]]) -> String {
        data_encoding::HEXLOWER.encode(&self.derive(parts)[..16])
    }

    /// 32 bytes that only the holder of the key can compute: the seed of a release's random results.
    pub fn derive(&self, parts: &[&[u8]]) -> [u8; 32] {
        // HMAC pads a key to the hash's block of 64 bytes (RFC 2104).
        let mut block = [0; 64];
        block[..32].copy_from_slice(&self.bytes);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        for part in parts {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }
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

    #[test]
    fn digests_depend_on_key_and_on_the_borders_of_parts() {
        let key = Key::new([1; 32]);
        assert_eq!(key.digest(&[b"ab", b"c"]), key.digest(&[b"ab", b"c"]));
        assert_ne!(key.digest(&[b"ab", b"c"]), key.digest(&[b"a", b"bc"]));
        assert_ne!(key.digest(&[b"ab"]), Key::new([2; 32]).digest(&[b"ab"]));
        assert_eq!(key.digest(&[]).len(), 32);
        assert!(!format!("{key:?}").contains('1'));
    }
}
