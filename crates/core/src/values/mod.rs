//! The values of a chart: which ones its templates read, and how lost random results are recovered.

pub mod origins;
pub mod recovery;
pub mod value_reads;
