//! Helpers for the serde attributes of stored fields.

/// True for a value that is not stored, since reading restores it.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A number of 64 bits as 16 hex digits, since JSON's numbers have fewer; what is none counts as absent.
pub(crate) mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(number: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", number.unwrap_or_default()))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(u64::from_str_radix(&text, 16).ok())
    }
}
