//! The digest of a chart.

use sha2::{Digest, Sha256};

use super::Chart;

/// [`Chart::digest`]
pub(super) fn digest(chart: &Chart) -> String {
    let mut hash = Sha256::new();
    add(&mut hash, chart);
    data_encoding::HEXLOWER.encode(&hash.finalize())
}

fn add(hash: &mut Sha256, chart: &Chart) {
    part(hash, format!("{:?}", chart.metadata).as_bytes());
    part(
        hash,
        serde_json::to_string(&chart.values.to_json())
            .unwrap_or_default()
            .as_bytes(),
    );
    part(hash, chart.schema.as_ref().map_or(&[], |schema| schema.text()));
    for list in [&chart.templates, &chart.files] {
        count(hash, list.len());
        for file in list {
            part(hash, file.name.as_bytes());
            part(hash, file.data.as_bytes());
        }
    }
    count(hash, chart.dependencies.len());
    chart.dependencies.iter().for_each(|child| add(hash, child));
}

/// Lengths and counts keep two charts from hashing like one.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    count(hash, bytes.len());
    hash.update(bytes);
}

fn count(hash: &mut Sha256, count: usize) {
    hash.update((count as u64).to_le_bytes());
}
