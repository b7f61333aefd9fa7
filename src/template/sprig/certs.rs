//! Certificates and private keys: `genCA` and its kin, laid out as Go's `x509.CreateCertificate` does.

use std::any::Any;
use std::net::IpAddr;
use std::rc::Rc;

use jiff::Timestamp;
use sha1::Digest;

use super::args::{Args, Out};
use super::der::{OCTET_STRING, OID, SET, bit_string, element, from_pem, integer, sequence, to_pem};
use super::draw::Identity;
use super::encoding::decode_base64;
use super::keys::{Key, KeyKind};
use super::time::{Time, Zone};
use super::x509::{Parsed, SUBJECT_KEY_ID, extension, time};
use super::{Call, Env, Pair, Source, draw, dsa, impure, pure, text};
use crate::template::go::func::{CallError, Func, Param};
use crate::template::go::quote;
use crate::template::go::value::{Field, List, Object, Value};

const CERTIFICATE: Param = Param::Named("sprig.certificate");

/// What drawing costs, in steps of the evaluator: about as long as so many steps take.
const RSA_4096: u64 = 2_000_000;
const RSA_2048: u64 = 400_000;
const DSA: u64 = 5_000_000;
const SMALL_KEY: u64 = 1_000;
const SIGNATURE: u64 = 10_000;

pub(super) fn table<C: Env>() -> Vec<Func<C>> {
    use Param::{Int, List, String};
    vec![
        impure!("genPrivateKey", [String], gen_private_key),
        pure!("buildCustomCert", [String, String], build_custom_cert),
        impure!("genCA", [String, Int], |env, args| {
            Request::authority(args)?.issue(env, "genCA", args, None, None)
        }),
        impure!("genCAWithKey", [String, Int, String], |env, args| {
            let key = given_key(args, 2, true)?;
            Request::authority(args)?.issue(env, "genCAWithKey", args, Some(key), None)
        }),
        impure!("genSelfSignedCert", [String, List, List, Int], |env, args| {
            Request::leaf(args)?.issue(env, "genSelfSignedCert", args, None, None)
        }),
        impure!(
            "genSelfSignedCertWithKey",
            [String, List, List, Int, String],
            |env, args| {
                let key = given_key(args, 4, true)?;
                Request::leaf(args)?.issue(env, "genSelfSignedCertWithKey", args, Some(key), None)
            }
        ),
        impure!("genSignedCert", [String, List, List, Int, CERTIFICATE], |env, args| {
            let issuer = Issuer::of(args.any(4))?;
            Request::leaf(args)?.issue(env, "genSignedCert", args, None, Some(&issuer))
        }),
        impure!(
            "genSignedCertWithKey",
            [String, List, List, Int, CERTIFICATE, String],
            |env, args| {
                let key = given_key(args, 5, false)?;
                let issuer = Issuer::of(args.any(4))?;
                Request::leaf(args)?.issue(env, "genSignedCertWithKey", args, Some(key), Some(&issuer))
            }
        ),
    ]
}

/// The key at `index`. DSA keys are read, but Go signs nothing with them, nor for them.
fn given_key(args: &[Value], index: usize, signs: bool) -> Result<Key, CallError> {
    if std::str::from_utf8(args.text(index)?).is_ok_and(dsa::is_key) {
        return Err(CallError::from(if signs {
            "error creating certificate: x509: certificate private key does not implement crypto.Signer"
        } else {
            "error creating certificate: x509: unsupported public key type: *dsa.PublicKey"
        }));
    }
    Ok(Key::parse(args.text(index)?).map_err(|error| format!("parsing private key: {error}"))?)
}

/// sprig's `certificate`: two PEM texts.
struct Certificate {
    cert: Vec<u8>,
    key: Vec<u8>,
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

    fn display(&self) -> String {
        format!(
            "{{{} {}}}",
            String::from_utf8_lossy(&self.cert),
            String::from_utf8_lossy(&self.key)
        )
    }

    fn to_json(&self) -> Result<serde_json::Value, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(serde_json::json!({ "Cert": text(&self.cert), "Key": text(&self.key) }))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn certificate(cert: Vec<u8>, key: Vec<u8>) -> Value {
    Value::Object(Rc::new(Certificate { cert, key }))
}

/// A certificate and its key from their PEM texts. `None` if the certificate can't be read.
pub fn pair(cert: &str, key: &str) -> Option<Pair> {
    let (_, der) = from_pem(cert.as_bytes())?;
    let (not_before, not_after) = Parsed::read(&der)?.validity?;
    Some(Pair {
        cert: cert.to_owned(),
        key: key.to_owned(),
        not_before,
        not_after,
    })
}

/// The contents of a certificate, by their hash; `None` for other values.
pub(super) fn identity_of(value: &Value) -> Option<Identity> {
    let Value::Object(object) = value else {
        return None;
    };
    let found = object.as_any().downcast_ref::<Certificate>()?;
    Some(draw::identity(&found.cert, &found.key))
}

fn gen_private_key<C: Env>(env: &mut C, args: &[Value]) -> Out {
    let (kind, cost) = match args.text(0)? {
        b"" | b"rsa" => (KeyKind::Rsa4096, RSA_4096),
        b"ecdsa" => (KeyKind::Ecdsa, SMALL_KEY),
        b"ed25519" => (KeyKind::Ed25519, SMALL_KEY),
        b"dsa" => {
            let call = Call::new("genPrivateKey", args)?.costing(DSA);
            return draw::text(env, &call, dsa::is_key, dsa::generate).map(Value::string);
        }
        other => return Ok(Value::string([b"Unknown type ", other].concat())),
    };
    let fits = |text: &str| Key::parse(text.as_bytes()).is_ok_and(|key| key.kind() == Some(kind) && key.pem == text);
    // The key's bytes come from the library's own generator, not from the source.
    let make = |_: &mut Source| Ok(Key::generate(kind)?.pem);
    let call = Call::new("genPrivateKey", args)?.costing(cost);
    draw::text(env, &call, fits, make).map(Value::string)
}

fn build_custom_cert(args: &[Value]) -> Out {
    let cert = decode_base64(args.text(0)?).map_err(|_| "unable to decode base64 certificate")?;
    let key = decode_base64(args.text(1)?).map_err(|_| "unable to decode base64 private key")?;
    let (_, der) = from_pem(&cert).ok_or("unable to decode certificate")?;
    Parsed::read(&der).ok_or_else(|| CallError::Text(malformed()))?;
    Key::parse(&key).map_err(|error| format!("error parsing private key: {error}"))?;
    Ok(certificate(cert, key))
}

fn malformed() -> String {
    "error parsing certificate: decodedCert.Bytes: x509: malformed certificate".to_owned()
}

struct Issuer {
    certificate: Parsed,
    key: Key,
}

impl Issuer {
    fn of(value: &Value) -> Result<Self, CallError> {
        let found = match value {
            Value::Object(object) => object.as_any().downcast_ref::<Certificate>(),
            _ => None,
        };
        let ca = found.ok_or("expected an argument of type sprig.certificate")?;
        let (_, der) = from_pem(&ca.cert).ok_or("unable to decode certificate")?;
        let certificate = Parsed::read(&der).ok_or_else(|| CallError::Text(malformed()))?;
        let key = Key::parse(&ca.key).map_err(|error| format!("error parsing private key: {error}"))?;
        if key.public_info() != certificate.public_info {
            let text = "error creating certificate: x509: provided PrivateKey doesn't match parent's PublicKey";
            return Err(CallError::from(text));
        }
        Ok(Issuer { certificate, key })
    }
}

/// What is to be certified.
struct Request {
    common_name: Vec<u8>,
    addresses: Vec<IpAddr>,
    names: Vec<Vec<u8>>,
    days: i64,
    authority: bool,
}

fn addresses(list: &List) -> Result<Vec<IpAddr>, CallError> {
    let address = |item: &Value| {
        let Value::String(name) = item else {
            let shown = String::from_utf8_lossy(&text::display(item)).into_owned();
            return Err(CallError::Text(format!("error parsing ip: {shown} is not a string")));
        };
        name.to_text()
            .parse()
            .map_err(|_| CallError::Text(format!("error parsing ip: {}", name.to_text())))
    };
    list.items().iter().map(address).collect()
}

fn names(list: &List) -> Result<Vec<Vec<u8>>, CallError> {
    let name = |item: &Value| match item {
        Value::String(name) => Ok(name.as_bytes().to_vec()),
        other => {
            let shown = String::from_utf8_lossy(&text::display(other)).into_owned();
            Err(CallError::Text(format!(
                "error processing alternate dns name: {shown} is not a string"
            )))
        }
    };
    list.items().iter().map(name).collect()
}

impl Request {
    fn authority(args: &[Value]) -> Result<Self, CallError> {
        let common_name = args.text(0)?.to_vec();
        Ok(Request {
            common_name,
            addresses: Vec::new(),
            names: Vec::new(),
            days: args.int(1)?,
            authority: true,
        })
    }

    fn leaf(args: &[Value]) -> Result<Self, CallError> {
        Ok(Request {
            common_name: args.text(0)?.to_vec(),
            addresses: addresses(&args.list(1)?)?,
            names: names(&args.list(2)?)?,
            days: args.int(3)?,
            authority: false,
        })
    }

    fn subject(&self) -> Vec<u8> {
        if self.common_name.is_empty() {
            return sequence(&[]);
        }
        let printable = |b: &u8| b.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(b);
        let tag = if self.common_name.iter().all(printable) {
            0x13
        } else {
            0x0C
        };
        let attribute = sequence(&[&element(OID, b"\x55\x04\x03"), &element(tag, &self.common_name)]);
        sequence(&[&element(SET, &attribute)])
    }

    /// The kept certificate, or a new one: with a new key unless one is given, signed by itself unless there is an
    /// issuer.
    fn issue<C: Env>(
        &self,
        env: &mut C,
        function: &'static str,
        args: &[Value],
        given: Option<Key>,
        issuer: Option<&Issuer>,
    ) -> Out {
        self.check_names()?;
        let cost = if given.is_some() { SIGNATURE } else { RSA_2048 };
        let call = Call::new(function, args)?.costing(cost);
        let fits = |pair: &Pair| self.fits(pair, given.as_ref(), issuer).is_some();
        let make = |source: &mut Source| match &given {
            Some(key) => self.sign(source, key, issuer),
            None => self.sign(source, &Key::generate(KeyKind::Rsa2048)?, issuer),
        };
        let pair = draw::certificate(env, &call, fits, make)?;
        Ok(certificate(pair.cert.into_bytes(), pair.key.into_bytes()))
    }

    /// Go's errors for names that the certificate can't hold.
    fn check_names(&self) -> Result<(), CallError> {
        if let Some(name) = self.names.iter().find(|name| !name.is_ascii()) {
            return Err(CallError::Text(format!(
                "error creating certificate: x509: {} cannot be encoded as an IA5String",
                quote::quote_go(name)
            )));
        }
        if std::str::from_utf8(&self.common_name).is_err() {
            return Err(CallError::from(
                "error creating certificate: asn1: string not valid UTF-8",
            ));
        }
        Ok(())
    }

    /// Whether the pair is what this request could have led to: well-formed, for this name, with a key that is its
    /// own, and signed by the one who should have signed.
    fn fits(&self, pair: &Pair, given: Option<&Key>, issuer: Option<&Issuer>) -> Option<()> {
        let (label, der) = from_pem(pair.cert.as_bytes())?;
        let parsed = Parsed::read(&der)?;
        let key = Key::parse(pair.key.as_bytes()).ok()?;
        let kind_fits = match given {
            Some(given) => given.pem == key.pem,
            None => key.kind() == Some(KeyKind::Rsa2048),
        };
        let (signer, name) = match issuer {
            Some(issuer) => (&issuer.key, &issuer.certificate.subject),
            None => (&key, &parsed.subject),
        };
        let fits = to_pem(&label, &der) == pair.cert
            && label == "CERTIFICATE"
            && key.pem == pair.key
            && kind_fits
            && parsed.subject == self.subject()
            && parsed.public_info == key.public_info()
            && parsed.issuer == *name
            && parsed.validity == Some((pair.not_before, pair.not_after))
            && signer.verify(&parsed.body, &parsed.signature);
        fits.then_some(())
    }

    fn sign(&self, source: &mut Source, key: &Key, issuer: Option<&Issuer>) -> Result<Pair, CallError> {
        let subject = self.subject();
        let (signer, issuer_name, authority_id): (&Key, &[u8], &[u8]) = match issuer {
            None => (key, &subject, &[]),
            // A certificate with its issuer's name counts as signed by itself.
            Some(issuer) if issuer.certificate.subject == subject => (&issuer.key, &subject, &[]),
            Some(issuer) => (
                &issuer.key,
                &issuer.certificate.subject,
                &issuer.certificate.subject_key_id,
            ),
        };
        let mut serial = [0u8; 16];
        source.fill(&mut serial)?;
        let start = Time {
            at: i128::from(source.clock().as_second()) * 1_000_000_000,
            zone: Zone::Utc,
            mono: None,
        };
        let end = start.add(self.days.wrapping_mul(24 * 3_600 * 1_000_000_000));
        let body = sequence(&[
            &element(0xA0, &integer(&[2])),
            &integer(&serial),
            signer.signature_algorithm(),
            issuer_name,
            &sequence(&[&time(&start), &time(&end)]),
            &subject,
            &key.public_info(),
            &element(0xA3, &self.extensions(key, authority_id)),
        ]);
        let signature = signer.sign(&body)?;
        let der = sequence(&[&body, signer.signature_algorithm(), &bit_string(&signature)]);
        let instant = |time: &Time| {
            Timestamp::from_second(time.unix_seconds())
                .map_err(|error| CallError::Text(format!("error creating certificate: {error}")))
        };
        Ok(Pair {
            cert: to_pem("CERTIFICATE", &der),
            key: key.pem.clone(),
            not_before: instant(&start)?,
            not_after: instant(&end)?,
        })
    }

    /// In Go's order: key usage, extended usage, basic constraints, key ids, alternative names.
    fn extensions(&self, key: &Key, authority_id: &[u8]) -> Vec<u8> {
        let usage: &[u8] = if self.authority {
            b"\x03\x02\x02\xa4"
        } else {
            b"\x03\x02\x05\xa0"
        };
        let server_and_client: [&[u8]; 2] = [b"\x2b\x06\x01\x05\x05\x07\x03\x01", b"\x2b\x06\x01\x05\x05\x07\x03\x02"];
        let [server, client] = server_and_client.map(|oid| element(OID, oid));
        let constraints: &[u8] = if self.authority { b"\x01\x01\xff" } else { b"" };
        let mut all = vec![
            extension(b"\x55\x1d\x0f", true, usage),
            extension(b"\x55\x1d\x25", false, &sequence(&[&server, &client])),
            extension(b"\x55\x1d\x13", true, &sequence(&[constraints])),
        ];
        if self.authority {
            // The leading 160 bits of the key's SHA-256, as Go does since 1.25 (RFC 7093, method 1).
            let hash = sha2::Sha256::digest(key.public_bytes());
            let id = hash.get(..20).unwrap_or(&hash);
            all.push(extension(SUBJECT_KEY_ID, false, &element(OCTET_STRING, id)));
        }
        if !authority_id.is_empty() {
            all.push(extension(
                b"\x55\x1d\x23",
                false,
                &sequence(&[&element(0x80, authority_id)]),
            ));
        }
        if !self.names.is_empty() || !self.addresses.is_empty() {
            let names = self.names.iter().map(|name| element(0x82, name));
            let addresses = self.addresses.iter().map(|address| match address.to_canonical() {
                IpAddr::V4(address) => element(0x87, &address.octets()),
                IpAddr::V6(address) => element(0x87, &address.octets()),
            });
            let all_names: Vec<u8> = names.chain(addresses).flatten().collect();
            all.push(extension(
                b"\x55\x1d\x11",
                self.common_name.is_empty(),
                &sequence(&[&all_names]),
            ));
        }
        sequence(&[&all.concat()])
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use super::super::der::{read, read_all};
    use super::*;

    fn source() -> Source {
        Source::seeded(Timestamp::UNIX_EPOCH, [1; 32])
    }

    fn issuer(pair: &Pair) -> Issuer {
        let ca = certificate(pair.cert.clone().into_bytes(), pair.key.clone().into_bytes());
        Issuer::of(&ca).unwrap_or_else(|_| panic!("the CA parses"))
    }

    fn authority() -> (Request, Key, Pair) {
        let key = Key::generate(KeyKind::Rsa2048).expect("a key");
        let request = Request::authority(&[Value::string("the authority"), Value::Int(1)]).expect("a request");
        let pair = request.sign(&mut source(), &key, None).expect("a CA");
        (request, key, pair)
    }

    fn leaf() -> Request {
        let names = Value::list(vec![Value::string("a.b")]);
        Request::leaf(&[Value::string("leaf"), Value::Nil, names, Value::Int(1)]).expect("a request")
    }

    #[test]
    fn a_certificate_is_signed_by_its_authority_and_names_it() {
        let (_, key, ca) = authority();
        let leaf = leaf().sign(&mut source(), &key, Some(&issuer(&ca))).expect("a leaf");
        let (_, der) = from_pem(leaf.cert.as_bytes()).expect("it is PEM");
        let (outer, rest) = read(&der).expect("DER");
        assert!(rest.is_empty());
        let parts = read_all(outer.content).expect("three parts");
        let signature = parts[2].content.get(1..).expect("a bit string");
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_bytes());
        public
            .verify(parts[0].raw, signature)
            .expect("the authority's signature");
        let fields = read_all(parts[0].content).expect("fields");
        let (_, ca_der) = from_pem(ca.cert.as_bytes()).expect("it is PEM");
        assert_eq!(
            fields[3].raw,
            Parsed::read(&ca_der).expect("parses").subject,
            "the issuer's name"
        );
        assert!(
            der.windows(5).any(|window| window == b"\x82\x03a.b"),
            "the alternative name"
        );
        assert!(
            der.windows(15).any(|window| window == b"\x17\x0d700101000000Z"),
            "the start of validity"
        );
    }

    #[test]
    fn a_kept_certificate_must_be_what_was_asked_for() {
        let (request, key, ca) = authority();
        let (_, other_key, other_ca) = authority();
        let (ca_issuer, other_issuer) = (issuer(&ca), issuer(&other_ca));
        let leaf_pair = leaf()
            .sign(&mut source(), &other_key, Some(&ca_issuer))
            .expect("a leaf");
        assert!(request.fits(&ca, None, None).is_some());
        assert!(request.fits(&ca, Some(&key), None).is_some());
        assert!(leaf().fits(&leaf_pair, None, Some(&ca_issuer)).is_some());
        assert!(request.fits(&ca, Some(&other_key), None).is_none(), "another key");
        assert!(
            leaf().fits(&leaf_pair, None, Some(&other_issuer)).is_none(),
            "another issuer"
        );
        assert!(leaf().fits(&leaf_pair, None, None).is_none(), "not signed by itself");
        assert!(leaf().fits(&ca, None, None).is_none(), "another name");
        let (_, mut changed) = from_pem(ca.cert.as_bytes()).expect("PEM");
        changed[40] ^= 1;
        let others_key = Pair {
            key: other_ca.key,
            ..ca.clone()
        };
        let others_end = Pair {
            not_after: ca.not_before,
            ..ca.clone()
        };
        let broken_key = Pair {
            key: "a: b".into(),
            ..ca.clone()
        };
        for pair in [others_key, others_end, broken_key] {
            assert!(request.fits(&pair, None, None).is_none(), "{pair:?}");
        }
        let texts = [
            "a: b".to_owned(),
            format!("{}a: b\n", ca.cert),
            to_pem("CERTIFICATE", &changed),
        ];
        for cert in texts {
            let pair = Pair { cert, ..ca.clone() };
            assert!(request.fits(&pair, None, None).is_none(), "{}", pair.cert);
        }
    }
}
