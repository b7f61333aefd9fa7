//! The archive of a chart, and its digest.

use anyhow::ensure;
use sha2::{Digest, Sha256};

/// The archive of a chart.
#[derive(Debug)]
pub struct Archive {
    /// Where it comes from.
    pub from: String,
    pub data: Vec<u8>,
    /// The provenance file, if it was requested.
    pub provenance: Option<Vec<u8>>,
}

/// The SHA-256 of data, in hex.
pub fn digest(data: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(data))
}

/// # Errors
/// The data isn't what it should be.
pub(super) fn check_digest(data: &[u8], want: &str) -> anyhow::Result<()> {
    let found = digest(data);
    let is_same = found.eq_ignore_ascii_case(want);
    ensure!(is_same, "the SHA-256 should be {want}, and what was sent has {found}");
    Ok(())
}
