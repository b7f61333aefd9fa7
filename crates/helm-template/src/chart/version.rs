//! Versions of charts and of Kubernetes.

use crate::sprig::semver::{Constraints, Version};

/// Whether `version` lies in the range `constraint`; false when either can't be parsed
/// (Helm's `IsCompatibleRange`).
pub fn compatible(constraint: &str, version: &str) -> bool {
    match (Constraints::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.check(&version),
        _ => false,
    }
}
