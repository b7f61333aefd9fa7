//! Certificates, keys and passwords.

#[cfg(feature = "crypto")]
pub(crate) mod certs;
#[cfg(feature = "crypto")]
pub(crate) mod keys;
#[cfg(feature = "crypto")]
pub(crate) mod passwords;

/// Without the feature there are no certificates.
#[cfg(not(feature = "crypto"))]
pub mod certs {
    use go_template::Value;

    use crate::sprig::random::draw::{CertificateIdentity, CertificatePair};

    pub fn pair(_cert: &str, _key: &str) -> Option<CertificatePair> {
        None
    }

    pub(crate) fn identity_of(_value: &Value) -> Option<CertificateIdentity> {
        None
    }
}
