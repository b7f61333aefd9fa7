//! Numbers: conversions, whole numbers, fractions.

pub(crate) mod convert;
pub(crate) mod decimal;
pub(crate) mod floats;
pub(crate) mod integers;
