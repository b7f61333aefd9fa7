//! Private keys in the PEM forms that sprig prints. PrivateKey material comes from aws-lc-rs' own generator: it takes none from
//! outside.

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
};
use data_encoding::BASE64;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, PublicKeyData, RsaKeySize};
use x509_parser::der_parser::{ber::BerObjectContent, parse_der};
use x509_parser::pem::parse_x509_pem;

use crate::sprig::random::draw::RandomSource;

/// The kinds of keys that sprig generates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyKind {
    Rsa2048,
    Rsa4096,
    /// On the curve P-256.
    Ecdsa,
    Ed25519,
}

impl KeyKind {
    fn name(self) -> &'static str {
        match self {
            KeyKind::Rsa2048 => "rsa2048",
            KeyKind::Rsa4096 => "rsa4096",
            KeyKind::Ecdsa => "ecdsa",
            KeyKind::Ed25519 => "ed25519",
        }
    }
}

/// A private key with its PEM text.
pub(crate) struct PrivateKey {
    pub(crate) pair: KeyPair,
    pub(crate) pem: String,
}

impl PrivateKey {
    /// Creates a new key. The time to find primes is random.
    pub(crate) fn generate(kind: KeyKind) -> Result<Self, String> {
        let pair = match kind {
            KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
            KeyKind::Rsa4096 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_4096),
            KeyKind::Ecdsa => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            KeyKind::Ed25519 => KeyPair::generate_for(&PKCS_ED25519),
        };
        let pair = pair.map_err(|error| format!("failed to generate private key: {error}"))?;
        PrivateKey::of(pair).ok_or_else(|| "failed to generate private key".to_owned())
    }

    /// A key for a call: the shared one if keys are shared. It is an ECDSA key in place of an RSA key, because RSA keys take
    /// milliseconds to read and to sign with.
    pub(crate) fn draw(source: &RandomSource, kind: KeyKind) -> Result<Self, String> {
        match source.shared_keys() {
            Some(keys) => {
                let kind = match kind {
                    KeyKind::Rsa2048 | KeyKind::Rsa4096 => KeyKind::Ecdsa,
                    other => other,
                };
                let pem = keys.get(kind.name(), || PrivateKey::generate(kind).map(|key| key.pem))?;
                PrivateKey::parse(pem.as_bytes())
            }
            None => PrivateKey::generate(kind),
        }
    }

    /// Reads a key in PKCS#1, SEC 1 or PKCS#8.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let (_, der) = from_pem(text).ok_or("no PEM data in input")?;
        let pair = KeyPair::try_from(der).map_err(|_| "it is no private RSA, ECDSA or Ed25519 key")?;
        PrivateKey::of(pair).ok_or_else(|| "the key can't be written in PEM".to_owned())
    }

    /// The key in the form that sprig uses for its type, independent of the input's form.
    fn of(pair: KeyPair) -> Option<Self> {
        let (algorithm, der) = (pair.algorithm(), pair.serialized_der());
        let pem = if algorithm == &PKCS_RSA_SHA256 {
            to_pem("RSA PRIVATE KEY", &pkcs1(der)?)
        } else if algorithm == &PKCS_ED25519 {
            let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
            to_pem("PRIVATE KEY", key.to_pkcs8v1().ok()?.as_ref())
        } else {
            let curve = if algorithm == &PKCS_ECDSA_P256_SHA256 {
                &ECDSA_P256_SHA256_ASN1_SIGNING
            } else {
                &ECDSA_P384_SHA384_ASN1_SIGNING
            };
            let key = EcdsaKeyPair::from_private_key_der(curve, der).ok()?;
            let written = AsDer::<EcPrivateKeyRfc5915Der>::as_der(&key.private_key()).ok()?;
            to_pem("EC PRIVATE KEY", written.as_ref())
        };
        Some(PrivateKey { pair, pem })
    }

    /// The kind, if sprig generates such keys.
    pub(crate) fn kind(&self) -> Option<KeyKind> {
        let algorithm = self.pair.algorithm();
        // A public RSA key in DER is so long with the exponent that all have.
        match self.pair.der_bytes().len() {
            270 if algorithm == &PKCS_RSA_SHA256 => Some(KeyKind::Rsa2048),
            526 if algorithm == &PKCS_RSA_SHA256 => Some(KeyKind::Rsa4096),
            _ if algorithm == &PKCS_ECDSA_P256_SHA256 => Some(KeyKind::Ecdsa),
            _ if algorithm == &PKCS_ED25519 => Some(KeyKind::Ed25519),
            _ => None,
        }
    }
}

/// An RSA key in PKCS#1, from that or from PKCS#8, whose third field holds it.
fn pkcs1(der: &[u8]) -> Option<Vec<u8>> {
    let (_, outer) = parse_der(der).ok()?;
    Some(match outer.as_sequence().ok()?.get(2)?.content {
        BerObjectContent::OctetString(key) => key.to_vec(),
        _ => der.to_vec(),
    })
}

/// `pem.EncodeToMemory`.
pub(crate) fn to_pem(label: &str, der: &[u8]) -> String {
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in der.chunks(48) {
        out.push_str(&BASE64.encode(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// The label and the bytes of the first block.
pub(crate) fn from_pem(text: &[u8]) -> Option<(String, Vec<u8>)> {
    let (_, block) = parse_x509_pem(text).ok()?;
    Some((block.label, block.contents))
}
