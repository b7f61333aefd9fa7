//! Where values and the results of template functions come from.

pub mod lookups;
pub mod random_results;
pub mod values_from;
