//! Where values and the results of template functions come from.

pub mod lookups;
pub mod random_results;
mod release_names;
pub mod values_from;
