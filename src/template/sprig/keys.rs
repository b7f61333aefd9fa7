//! Private keys: making, reading and signing, over aws-lc-rs. Key material comes from the library's own generator:
//! it takes none from outside.

use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, Pkcs8V1Der};
use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1, ECDSA_P384_SHA384_ASN1_SIGNING,
    ECDSA_P521_SHA512_ASN1, ECDSA_P521_SHA512_ASN1_SIGNING, ED25519, EcdsaKeyPair, EcdsaSigningAlgorithm,
    EcdsaVerificationAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair,
    UnparsedPublicKey, VerificationAlgorithm,
};

use super::der::{OCTET_STRING, bit_string, from_pem, read, read_all, sequence, to_pem};
use super::key_errors;
use crate::template::go::meter;

const RSA_ALGORITHM: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
const RSA_SIGNATURE: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b\x05\x00";
const ED_ALGORITHM: &[u8] = b"\x30\x05\x06\x03\x2b\x65\x70";

/// A curve, and the hash that Go's `crypto/x509` signs with on it.
struct Curve {
    /// The `AlgorithmIdentifier` of a public key, and of a signature.
    algorithm: &'static [u8],
    signature: &'static [u8],
    signing: &'static EcdsaSigningAlgorithm,
    verification: &'static EcdsaVerificationAlgorithm,
}

static P256: Curve = Curve {
    algorithm: b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07",
    signature: b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02",
    signing: &ECDSA_P256_SHA256_ASN1_SIGNING,
    verification: &ECDSA_P256_SHA256_ASN1,
};
static P384: Curve = Curve {
    algorithm: b"\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22",
    signature: b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x03",
    signing: &ECDSA_P384_SHA384_ASN1_SIGNING,
    verification: &ECDSA_P384_SHA384_ASN1,
};
static P521: Curve = Curve {
    algorithm: b"\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23",
    signature: b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x04",
    signing: &ECDSA_P521_SHA512_ASN1_SIGNING,
    verification: &ECDSA_P521_SHA512_ASN1,
};

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair, &'static Curve),
    Ed(Ed25519KeyPair),
}

/// The kinds of keys that sprig generates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyKind {
    Rsa2048,
    Rsa4096,
    /// On the curve P-256.
    Ecdsa,
    Ed25519,
}

/// A private key with its PEM text.
pub(super) struct Key {
    pair: Pair,
    pub(super) pem: String,
}

fn failed(what: &str) -> String {
    format!("failed to generate private key: {what}")
}

impl Key {
    /// A new key. How long it takes to find primes is left to chance: the clock of a render doesn't count it.
    pub(super) fn generate(kind: KeyKind) -> Result<Self, String> {
        meter::off_the_clock(|| match kind {
            KeyKind::Rsa2048 => Self::rsa(KeySize::Rsa2048),
            KeyKind::Rsa4096 => Self::rsa(KeySize::Rsa4096),
            KeyKind::Ecdsa => Self::ecdsa(),
            KeyKind::Ed25519 => Self::ed25519(),
        })
    }

    /// The kind, if sprig generates such keys.
    pub(super) fn kind(&self) -> Option<KeyKind> {
        match &self.pair {
            Pair::Rsa(pair) => match pair.public_modulus_len() {
                256 => Some(KeyKind::Rsa2048),
                512 => Some(KeyKind::Rsa4096),
                _ => None,
            },
            Pair::Ec(_, curve) => (curve.algorithm == P256.algorithm).then_some(KeyKind::Ecdsa),
            Pair::Ed(_) => Some(KeyKind::Ed25519),
        }
    }

    /// As PKCS#1.
    fn rsa(size: KeySize) -> Result<Self, String> {
        let pair = RsaKeyPair::generate(size).map_err(|_| failed("rsa"))?;
        let pkcs8 = AsDer::<Pkcs8V1Der>::as_der(&pair).map_err(|_| failed("rsa"))?;
        let pkcs1 = pkcs8_content(pkcs8.as_ref()).ok_or_else(|| failed("rsa"))?;
        let pem = to_pem("RSA PRIVATE KEY", pkcs1);
        Ok(Key {
            pair: Pair::Rsa(pair),
            pem,
        })
    }

    /// As SEC 1.
    fn ecdsa() -> Result<Self, String> {
        let pair = EcdsaKeyPair::generate(P256.signing).map_err(|_| failed("ecdsa"))?;
        let der = AsDer::<EcPrivateKeyRfc5915Der>::as_der(&pair.private_key()).map_err(|_| failed("ecdsa"))?;
        let pem = to_pem("EC PRIVATE KEY", der.as_ref());
        Ok(Key {
            pair: Pair::Ec(pair, &P256),
            pem,
        })
    }

    /// As PKCS#8.
    fn ed25519() -> Result<Self, String> {
        let pair = Ed25519KeyPair::generate().map_err(|_| failed("ed25519"))?;
        let der = pair.to_pkcs8v1().map_err(|_| failed("ed25519"))?;
        let pem = to_pem("PRIVATE KEY", der.as_ref());
        Ok(Key {
            pair: Pair::Ed(pair),
            pem,
        })
    }

    /// Reads a key in PKCS#1, SEC 1 or PKCS#8. Errors have sprig's words; Go's for what isn't that at all.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let (label, der) = from_pem(text).ok_or("no PEM data in input")?;
        let pair = if label == "PRIVATE KEY" {
            RsaKeyPair::from_pkcs8(&der)
                .map(Pair::Rsa)
                .or_else(|_| on_a_curve(|curve| EcdsaKeyPair::from_pkcs8(curve.signing, &der)))
                .or_else(|_| Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Pair::Ed))
                .map_err(|error| format!("decoding PEM as PKCS#8: {}", key_errors::pkcs8(&der, &error)))?
        } else {
            match label.strip_suffix(" PRIVATE KEY") {
                None => return Err(format!("no private key data in PEM block of type {label}")),
                Some("RSA") => RsaKeyPair::from_der(&der).map(Pair::Rsa).map_err(|error| {
                    let reason = key_errors::pkcs1(&der, &error);
                    format!("parsing RSA private key from PEM: {reason}")
                })?,
                // aws-lc-rs takes these here, too.
                Some("EC") if key_errors::is_pkcs8(&der) => {
                    let reason = key_errors::sec1(&der, &"");
                    return Err(format!("parsing EC private key from PEM: {reason}"));
                }
                Some("EC") => on_a_curve(|curve| EcdsaKeyPair::from_private_key_der(curve.signing, &der))
                    .map_err(|error| format!("parsing EC private key from PEM: {}", key_errors::sec1(&der, &error)))?,
                Some("DSA") => {
                    let reason = key_errors::dsa(&der);
                    return Err(format!("parsing DSA private key from PEM: {reason}"));
                }
                Some(_) => return Err(format!("invalid private key type {label}")),
            }
        };
        // sprig writes a key that it was given anew, in the form that it has for the key's type.
        let label = match pair {
            Pair::Rsa(_) => "RSA PRIVATE KEY",
            Pair::Ec(..) => "EC PRIVATE KEY",
            Pair::Ed(_) => "PRIVATE KEY",
        };
        let written = match &pair {
            Pair::Rsa(rsa) => AsDer::<Pkcs8V1Der>::as_der(rsa)
                .ok()
                .and_then(|pkcs8| pkcs8_content(pkcs8.as_ref()).map(<[u8]>::to_vec)),
            Pair::Ec(ec, _) => AsDer::<EcPrivateKeyRfc5915Der>::as_der(&ec.private_key())
                .ok()
                .map(|d| d.as_ref().to_vec()),
            Pair::Ed(ed) => ed.to_pkcs8v1().ok().map(|der| der.as_ref().to_vec()),
        };
        let pem = to_pem(label, &written.ok_or("error pem-encoding key")?);
        Ok(Key { pair, pem })
    }

    /// The public key's bytes: an RSA key as PKCS#1, a point, or 32 bytes.
    pub(super) fn public_bytes(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ec(pair, _) => pair.public_key().as_ref().to_vec(),
            Pair::Ed(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    /// `SubjectPublicKeyInfo`.
    pub(super) fn public_info(&self) -> Vec<u8> {
        let algorithm = match &self.pair {
            Pair::Rsa(_) => RSA_ALGORITHM,
            Pair::Ec(_, curve) => curve.algorithm,
            Pair::Ed(_) => ED_ALGORITHM,
        };
        sequence(&[algorithm, &bit_string(&self.public_bytes())])
    }

    /// The `AlgorithmIdentifier` of [`Key::sign`].
    pub(super) fn signature_algorithm(&self) -> &'static [u8] {
        match &self.pair {
            Pair::Rsa(_) => RSA_SIGNATURE,
            Pair::Ec(_, curve) => curve.signature,
            Pair::Ed(_) => ED_ALGORITHM,
        }
    }

    /// Whether this key made the signature.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let algorithm: &dyn VerificationAlgorithm = match &self.pair {
            Pair::Rsa(_) => &RSA_PKCS1_2048_8192_SHA256,
            Pair::Ec(_, curve) => curve.verification,
            Pair::Ed(_) => &ED25519,
        };
        UnparsedPublicKey::new(algorithm, self.public_bytes())
            .verify(message, signature)
            .is_ok()
    }

    /// Signs with SHA-256, the hash of the curve, or as Ed25519 does.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |_| "error creating certificate: the key can't sign".to_owned();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
                    .map_err(failed)?;
                Ok(signature)
            }
            Pair::Ec(pair, _) => Ok(pair
                .sign(&SystemRandom::new(), message)
                .map_err(failed)?
                .as_ref()
                .to_vec()),
            Pair::Ed(pair) => Ok(pair.sign(message).as_ref().to_vec()),
        }
    }
}

/// The key on the curve that it is on.
fn on_a_curve(read: impl Fn(&Curve) -> Result<EcdsaKeyPair, KeyRejected>) -> Result<Pair, KeyRejected> {
    let on = |curve: &'static Curve| read(curve).map(|pair| Pair::Ec(pair, curve));
    on(&P256).or_else(|error| on(&P384).or_else(|_| on(&P521)).map_err(|_| error))
}

/// The octets inside a PKCS#8 key: for RSA that is PKCS#1.
fn pkcs8_content(der: &[u8]) -> Option<&[u8]> {
    let (outer, _) = read(der)?;
    read_all(outer.content)?
        .into_iter()
        .find(|element| element.tag == OCTET_STRING)
        .map(|element| element.content)
}
