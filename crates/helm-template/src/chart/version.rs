//! Versions of charts and of Kubernetes.

use crate::sprig::semver::{Constraints, Version};

/// Whether Helm accepts `text` as a chart's version (Masterminds/semver, loose).
pub fn is_valid(text: &str) -> bool {
    Version::parse(text).is_ok()
}

/// Whether `version` lies in the range `constraint`; false when either can't be parsed
/// (Helm's `IsCompatibleRange`).
pub fn compatible(constraint: &str, version: &str) -> bool {
    match (Constraints::parse(constraint), Version::parse(version)) {
        (Ok(constraint), Ok(version)) => constraint.check(&version),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert!(compatible("1.x.x", "1.2.3") && compatible("^1.0", "v1.2") && compatible(">=1.19-0", "v1.20.3-gke.1"));
        assert!(!compatible("", "1.0.0") && !compatible("~1.1", "1.2.0") && !compatible("1", "x"));
        assert!(is_valid("1.2") && !is_valid("latest"));
    }
}
