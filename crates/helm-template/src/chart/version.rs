//! Versions of charts and of Kubernetes.

use crate::sprig::semver::{Constraints, Version};

/// Whether `version` lies in the range `constraint`; false when either can't be parsed
/// (Helm's `IsCompatibleRange`).
///
/// ```
/// use helm_template::chart::version::compatible;
///
/// assert!(compatible(">=1.30.0-0", "v1.33.4"));
/// assert!(!compatible("<1.30", "v1.33.4"));
/// ```
pub fn compatible(constraint: &str, version: &str) -> bool {
    match (Constraints::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.check(&version),
        _ => false,
    }
}
