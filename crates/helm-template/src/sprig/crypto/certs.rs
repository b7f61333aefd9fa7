//! Certificates and private keys: `genCA` and its kin, with the properties that Helm's have.

use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType, date_time_ymd,
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

use crate::sprig::crypto::keys::{KeyKind, PrivateKey, from_pem, to_pem};
use crate::sprig::encoding::decode_base64;
use crate::sprig::random::draw;
use crate::sprig::random::draw::CertificateIdentity;
use crate::sprig::{Call, CertificatePair, Drawn, Env, RandomSource, text};
use go_template::func::{Args, Argument, CallError, Func, Given, Meter, Param, Signature};
use go_template::value::{Field, List, Object, Str, Value};

/// The cost of drawing, in steps of the evaluator that take about as long.
const RSA_4096: u64 = 2_000_000;
const RSA_2048: u64 = 400_000;
const SMALL_KEY: u64 = 1_000;
const SIGNATURE: u64 = 10_000;

pub(crate) fn table<C: Env>() -> Vec<Func<C>> {
    vec![
        Func::with_context("genPrivateKey", gen_private_key),
        Func::new("buildCustomCert", build_custom_cert),
        Func::with_context("genCA", |env: &mut C, given: Given, name: &Str, days: i64| {
            let call = env.call("genCA", given.0)?;
            CertificateRequest::authority(name, days).issue(env, call, None, None)
        }),
        Func::with_context(
            "genCAWithKey",
            |env: &mut C, given: Given, name: &Str, days: i64, key: &[u8]| {
                let call = env.call("genCAWithKey", given.0)?;
                CertificateRequest::authority(name, days).issue(env, call, Some(&given_key(key)?), None)
            },
        ),
        Func::with_context(
            "genSelfSignedCert",
            |env: &mut C, given: Given, name: &Str, ips: &List, names: &List, days: i64| {
                let call = env.call("genSelfSignedCert", given.0)?;
                CertificateRequest::leaf(env.meter(), name, ips, names, days)?.issue(env, call, None, None)
            },
        ),
        Func::with_context(
            "genSelfSignedCertWithKey",
            |env: &mut C, given: Given, name: &Str, ips: &List, names: &List, days: i64, key: &[u8]| {
                let (call, key) = (env.call("genSelfSignedCertWithKey", given.0)?, given_key(key)?);
                CertificateRequest::leaf(env.meter(), name, ips, names, days)?.issue(env, call, Some(&key), None)
            },
        ),
        Func::with_context(
            "genSignedCert",
            |env: &mut C, given: Given, name: &Str, ips: &List, names: &List, days: i64, ca: &Certificate| {
                let (call, issuer) = (env.call("genSignedCert", given.0)?, Issuer::of(ca)?);
                CertificateRequest::leaf(env.meter(), name, ips, names, days)?.issue(env, call, None, Some(&issuer))
            },
        ),
        Func::with_context(
            "genSignedCertWithKey",
            |env: &mut C,
             given: Given,
             name: &Str,
             ips: &List,
             names: &List,
             days: i64,
             ca: &Certificate,
             key: &[u8]| {
                let (call, key) = (env.call("genSignedCertWithKey", given.0)?, given_key(key)?);
                let issuer = Issuer::of(ca)?;
                CertificateRequest::leaf(env.meter(), name, ips, names, days)?.issue(
                    env,
                    call,
                    Some(&key),
                    Some(&issuer),
                )
            },
        ),
    ]
}

type CertResult = Result<Value, CallError>;

fn given_key(text: &[u8]) -> Result<PrivateKey, CallError> {
    Ok(PrivateKey::parse(text).map_err(|error| format!("parsing private key: {error}"))?)
}

/// sprig's `certificate`: two PEM texts.
struct Certificate {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl<'a> Argument<'a> for &Certificate {
    type Output = &'a Certificate;

    fn declare(signature: &mut Signature) {
        signature.param(Param::Named("sprig.certificate"));
    }

    fn take(args: &mut Args<'a>) -> Option<&'a Certificate> {
        Certificate::of(args.next()?)
    }
}

impl Certificate {
    fn of(value: &Value) -> Option<&Self> {
        match value {
            Value::Object(object) => object.as_any().downcast_ref(),
            _ => None,
        }
    }
}

impl Object for Certificate {
    fn type_name(&self) -> &'static str {
        "sprig.certificate"
    }

    fn kind(&self) -> &'static str {
        "struct"
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Cert" => Some(Value::string(self.cert.as_slice())),
            "Key" => Some(Value::string(self.key.as_slice())),
            _ => None,
        }
    }

    fn structure(&self) -> Option<Vec<Field>> {
        let field = |name, text: &Vec<u8>| Field {
            name,
            value: Value::string(text.as_slice()),
        };
        Some(vec![field("Cert", &self.cert), field("Key", &self.key)])
    }

    fn json_fields(&self) -> Option<Vec<Field>> {
        self.structure()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn certificate(cert: Vec<u8>, key: Vec<u8>) -> Value {
    Value::Object(Rc::new(Certificate { cert, key }))
}

/// A certificate and its key from their PEM texts. `None` if the certificate can't be read.
pub fn pair(cert: &str, key: &str) -> Option<CertificatePair> {
    let (_, der) = from_pem(cert.as_bytes())?;
    let (not_before, not_after) = validity(&parsed(&der)?)?;
    Some(CertificatePair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        not_before,
        not_after,
    })
}

/// The hash of a certificate; `None` for other values.
pub(crate) fn identity_of(value: &Value) -> Option<CertificateIdentity> {
    Certificate::of(value).map(|found| draw::identity(&found.cert, &found.key))
}

fn gen_private_key<C: Env>(env: &mut C, given: Given, kind: &[u8]) -> CertResult {
    let (kind, cost) = match kind {
        b"" | b"rsa" => (KeyKind::Rsa4096, RSA_4096),
        b"ecdsa" => (KeyKind::Ecdsa, SMALL_KEY),
        b"ed25519" => (KeyKind::Ed25519, SMALL_KEY),
        b"dsa" => return Err("genPrivateKey: DSA keys are not supported".into()),
        other => return Ok(Value::string([b"Unknown type ", other].concat())),
    };
    let fits =
        |text: &str| PrivateKey::parse(text.as_bytes()).is_ok_and(|key| key.kind() == Some(kind) && key.pem == text);
    // The key's bytes come from the library's own generator, not from the source.
    let make = |source: &mut RandomSource| Ok(PrivateKey::draw(source, kind)?.pem);
    let mut call = env.call("genPrivateKey", given.0)?.costing(cost);
    call.untimed = true;
    draw::text(env, &call, fits, make).map(Value::string)
}

fn build_custom_cert(cert: &[u8], key: &[u8]) -> CertResult {
    let cert = decode_base64(cert).map_err(|_| "unable to decode base64 certificate")?;
    let key = decode_base64(key).map_err(|_| "unable to decode base64 private key")?;
    let (_, der) = from_pem(&cert).ok_or("unable to decode certificate")?;
    parsed(&der).ok_or(MALFORMED)?;
    PrivateKey::parse(&key).map_err(|error| format!("error parsing private key: {error}"))?;
    Ok(certificate(cert, key))
}

const MALFORMED: &str = "error parsing certificate: decodedCert.Bytes: x509: malformed certificate";

/// A certificate that nothing follows.
fn parsed(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then_some(certificate)
}

/// The start and the end of a certificate's validity.
fn validity(certificate: &X509Certificate<'_>) -> Option<(Timestamp, Timestamp)> {
    let validity = certificate.validity();
    let instant = |seconds: i64| Timestamp::from_second(seconds).ok();
    instant(validity.not_before.timestamp()).zip(instant(validity.not_after.timestamp()))
}

fn has_key(certificate: &X509Certificate<'_>, key: &PrivateKey) -> bool {
    *certificate.public_key().subject_public_key.data == *key.pair.der_bytes()
}

/// The authority that signs.
struct Issuer {
    der: Vec<u8>,
    signer: rcgen::Issuer<'static, KeyPair>,
}

impl Issuer {
    fn of(ca: &Certificate) -> Result<Self, CallError> {
        let (_, der) = from_pem(&ca.cert).ok_or("unable to decode certificate")?;
        let certificate = parsed(&der).ok_or(MALFORMED)?;
        let key = PrivateKey::parse(&ca.key).map_err(|error| format!("error parsing private key: {error}"))?;
        if !has_key(&certificate, &key) {
            let text = "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey";
            return Err(CallError::from(text));
        }
        let signer = rcgen::Issuer::from_ca_cert_der(&der.as_slice().into(), key.pair).map_err(failed)?;
        Ok(Issuer { der, signer })
    }
}

#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes the error by value")]
fn failed(error: rcgen::Error) -> CallError {
    CallError::Text(format!("error creating certificate: {error}"))
}

/// The content of a certificate to create.
struct CertificateRequest {
    common_name: String,
    alternate: Vec<SanType>,
    days: i64,
    authority: bool,
}

/// The texts of a list. An error begins with what it is about.
fn texts<'l>(meter: &Meter, list: &'l List, error: &str) -> Result<Vec<Cow<'l, str>>, CallError> {
    let text = |item: &'l Value| match item {
        Value::String(text) => Ok(text.to_text()),
        other => {
            let shown = String::from_utf8_lossy(&text::display(meter, other)).into_owned();
            Err(CallError::Text(format!("{error}: {shown} is not a string")))
        }
    };
    list.items().iter().map(text).collect()
}

impl CertificateRequest {
    fn authority(name: &Str, days: i64) -> Self {
        CertificateRequest {
            common_name: name.to_text().into_owned(),
            alternate: Vec::new(),
            days,
            authority: true,
        }
    }

    fn leaf(meter: &Meter, name: &Str, ips: &List, names: &List, days: i64) -> Result<Self, CallError> {
        let mut alternate = Vec::new();
        let ips = texts(meter, ips, "error parsing ip")?;
        for name in texts(meter, names, "error processing alternate dns name")? {
            alternate.push(SanType::DnsName(name.as_ref().try_into().map_err(failed)?));
        }
        for ip in ips {
            let address = ip.parse::<IpAddr>();
            let address = address.map_err(|_| CallError::Text(format!("error parsing ip: {ip}")))?;
            alternate.push(SanType::IpAddress(address.to_canonical()));
        }
        Ok(CertificateRequest {
            common_name: name.to_text().into_owned(),
            alternate,
            days,
            authority: false,
        })
    }

    /// Returns the stored certificate or a new one. A new one gets a new key unless one is given, and is self-signed
    /// unless there is an issuer.
    fn issue<C: Env>(
        &self,
        env: &mut C,
        call: Call,
        given: Option<&PrivateKey>,
        issuer: Option<&Issuer>,
    ) -> CertResult {
        let mut call = call.costing(if given.is_some() { SIGNATURE } else { RSA_2048 });
        call.untimed = given.is_none();
        let fits = |drawn: &Drawn| match drawn {
            Drawn::Certificate(pair) => self.fits(pair, given, issuer).is_some(),
            _ => false,
        };
        let make = |source: &mut RandomSource| {
            let pair = match given {
                Some(key) => self.sign(source, key, issuer)?,
                None => {
                    let key = PrivateKey::draw(source, KeyKind::Rsa2048)?;
                    self.sign(source, &key, issuer)?
                }
            };
            Ok(Drawn::Certificate(pair))
        };
        match env.once(&call, fits, make)? {
            Drawn::Certificate(pair) => Ok(certificate(pair.cert.into_bytes(), pair.key.into_bytes())),
            _ => Err(draw::mismatch(&call)),
        }
    }

    /// Whether the pair is a possible result of this request: well-formed, for this name, with its own key, and signed
    /// by the right issuer.
    fn fits(&self, pair: &CertificatePair, given: Option<&PrivateKey>, issuer: Option<&Issuer>) -> Option<()> {
        let (label, der) = from_pem(pair.cert.as_bytes())?;
        let found = parsed(&der)?;
        let key = PrivateKey::parse(pair.key.as_bytes()).ok()?;
        let kind_fits = match given {
            Some(given) => given.pem == key.pem,
            None => key.kind() == Some(KeyKind::Rsa2048),
        };
        let authority = issuer.map_or(Some(found.clone()), |issuer| parsed(&issuer.der))?;
        let mut names = found.subject().iter_common_name().map(|name| name.as_str());
        let fits = to_pem(&label, &der) == pair.cert
            && label == "CERTIFICATE"
            && key.pem == pair.key
            && kind_fits
            && names.next().unwrap_or(Ok("")) == Ok(self.common_name.as_str())
            && names.next().is_none()
            && has_key(&found, &key)
            && found.issuer().as_raw() == authority.subject().as_raw()
            && validity(&found) == Some((pair.not_before, pair.not_after))
            && found.verify_signature(Some(authority.public_key())).is_ok();
        fits.then_some(())
    }

    fn sign(
        &self,
        source: &mut RandomSource,
        key: &PrivateKey,
        issuer: Option<&Issuer>,
    ) -> Result<CertificatePair, CallError> {
        let mut serial = vec![0u8; 16];
        source.fill(&mut serial)?;
        let not_before = Timestamp::from_second(source.clock().as_second()).unwrap_or_default();
        let not_after = self.end(not_before)?;
        let mut params = self.params();
        params.serial_number = Some(serial.into());
        params.use_authority_key_identifier_extension = issuer.is_some();
        let at = |time: Timestamp| date_time_ymd(1970, 1, 1) + Duration::from_secs(time.as_second().unsigned_abs());
        (params.not_before, params.not_after) = (at(not_before), at(not_after));
        let signed = match issuer {
            None => params.self_signed(&key.pair),
            Some(issuer) => params.signed_by(&key.pair, &issuer.signer),
        };
        let pair = CertificatePair {
            cert: to_pem("CERTIFICATE", signed.map_err(failed)?.der()),
            key: key.pem.clone(),
            not_before,
            not_after,
        };
        // rcgen keeps one part of each type of an authority's name.
        match self.fits(&pair, Some(key), issuer) {
            Some(()) => Ok(pair),
            None => Err("error creating certificate: the authority's name has several parts of one type".into()),
        }
    }

    /// The end of validity, in the years from 1970 to 9999.
    fn end(&self, start: Timestamp) -> Result<Timestamp, CallError> {
        let seconds = self
            .days
            .checked_mul(86_400)
            .and_then(|life| start.as_second().checked_add(life));
        seconds
            .filter(|seconds| *seconds >= 0)
            .and_then(|seconds| Timestamp::from_second(seconds).ok())
            .ok_or_else(|| CallError::from("error creating certificate: the years of its validity are out of range"))
    }

    fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if !self.common_name.is_empty() {
            params
                .distinguished_name
                .push(DnType::CommonName, self.common_name.as_str());
        }
        params.subject_alt_names.clone_from(&self.alternate);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.is_ca = IsCa::ExplicitNoCa;
        if self.authority {
            params.key_usages.push(KeyUsagePurpose::KeyCertSign);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }
}

#[cfg(test)]
mod tests {
    use go_template::value::ListKind;
    use x509_parser::extensions::GeneralName;

    use crate::sprig::crypto::certs::*;

    fn source() -> RandomSource {
        RandomSource::seeded(Timestamp::UNIX_EPOCH, [1; 32])
    }

    fn issuer(pair: &CertificatePair) -> Issuer {
        let (cert, key) = (pair.cert.clone().into_bytes(), pair.key.clone().into_bytes());
        Issuer::of(&Certificate { cert, key }).unwrap_or_else(|_| panic!("the CA parses"))
    }

    fn authority() -> (CertificateRequest, PrivateKey, CertificatePair) {
        let key = PrivateKey::generate(KeyKind::Rsa2048).expect("a key");
        let request = CertificateRequest::authority(&"the authority".into(), 1);
        let pair = request.sign(&mut source(), &key, None).expect("a CA");
        (request, key, pair)
    }

    fn leaf() -> CertificateRequest {
        let list = |texts: [&str; 2]| List::new(ListKind::Any, texts.map(Value::string).to_vec());
        let (ips, names) = (list(["10.0.0.1", "::1"]), list(["a.b", "*.c"]));
        CertificateRequest::leaf(&Meter::default(), &"le@f".into(), &ips, &names, 365).expect("a request")
    }

    #[test]
    fn certificates_have_the_properties_of_helms() {
        let (_, key, ca) = authority();
        let leaf = leaf().sign(&mut source(), &key, Some(&issuer(&ca))).expect("a leaf");
        let (_, der) = from_pem(leaf.cert.as_bytes()).unwrap();
        let (_, ca_der) = from_pem(ca.cert.as_bytes()).unwrap();
        let (leaf, ca) = (parsed(&der).unwrap(), parsed(&ca_der).unwrap());
        leaf.verify_signature(Some(ca.public_key()))
            .expect("the authority's signature");
        assert_eq!(leaf.issuer().as_raw(), ca.subject().as_raw());
        assert_eq!(leaf.subject().to_string(), "CN=le@f");
        assert_eq!(ca.subject().to_string(), "CN=the authority");
        assert_eq!(leaf.validity().not_before.timestamp(), 0);
        assert_eq!(leaf.validity().not_after.timestamp(), 365 * 86_400);
        let names = &leaf.subject_alternative_name().unwrap().unwrap().value.general_names;
        assert_eq!(
            names[..],
            [
                GeneralName::DNSName("a.b"),
                GeneralName::DNSName("*.c"),
                GeneralName::IPAddress(&[10, 0, 0, 1]),
                GeneralName::IPAddress(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            ]
        );
        for (found, flags) in [(&leaf, 0b101), (&ca, 0b10_0101)] {
            let usage = found.key_usage().unwrap().unwrap();
            assert_eq!((usage.critical, usage.value.flags), (true, flags));
            let extended = found.extended_key_usage().unwrap().unwrap().value;
            assert!(extended.server_auth && extended.client_auth);
        }
        let constraints = leaf.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && !constraints.value.ca);
        let constraints = ca.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca && constraints.value.path_len_constraint.is_none());
        assert_eq!((leaf.extensions().len(), ca.extensions().len()), (6, 4));
    }

    #[test]
    fn lives_that_no_certificate_states_are_refused() {
        for days in [i64::MAX, i64::MIN, 4_000_000, -100_000] {
            let request = CertificateRequest::authority(&"x".into(), days);
            assert!(request.end(Timestamp::UNIX_EPOCH).is_err(), "{days}");
        }
    }

    #[test]
    fn a_kept_certificate_must_be_what_was_asked_for() {
        let (request, key, ca) = authority();
        let (_, other_key, other_ca) = authority();
        let (ca_issuer, other_issuer) = (issuer(&ca), issuer(&other_ca));
        let signed = leaf().sign(&mut source(), &other_key, Some(&ca_issuer));
        let leaf_pair = signed.expect("a leaf");
        let fits = |request: &CertificateRequest, pair: &CertificatePair, key, issuer| {
            request.fits(pair, key, issuer).is_some()
        };
        assert!(fits(&request, &ca, None, None));
        assert!(fits(&request, &ca, Some(&key), None));
        assert!(fits(&leaf(), &leaf_pair, None, Some(&ca_issuer)));
        assert!(!fits(&request, &ca, Some(&other_key), None), "another key");
        assert!(!fits(&leaf(), &leaf_pair, None, Some(&other_issuer)), "another issuer");
        assert!(!fits(&leaf(), &leaf_pair, None, None), "not signed by itself");
        assert!(!fits(&leaf(), &ca, None, None), "another name");
        let (_, mut changed) = from_pem(ca.cert.as_bytes()).expect("PEM");
        changed[40] ^= 1;
        let mut wrong = vec![CertificatePair {
            not_after: ca.not_before,
            ..ca.clone()
        }];
        for key in [other_ca.key, "a: b".to_owned()] {
            wrong.push(CertificatePair { key, ..ca.clone() });
        }
        let with_more = format!("{}a: b\n", ca.cert);
        for cert in ["a: b".to_owned(), with_more, to_pem("CERTIFICATE", &changed)] {
            wrong.push(CertificatePair { cert, ..ca.clone() });
        }
        for pair in wrong {
            assert!(!fits(&request, &pair, None, None), "{pair:?} {}", pair.cert);
        }
    }
}
