//! Certificates and private keys: `genCA` and its kin, laid out as Go's `x509.CreateCertificate` does.

use std::any::Any;
use std::net::IpAddr;
use std::rc::Rc;

use sha1::Digest;

use super::args::{Args, Out};
use super::der::{OCTET_STRING, OID, SET, bit_string, element, from_pem, integer, read, read_all, sequence, to_pem};
use super::encoding::decode_base64;
use super::keys::Key;
use super::time::{Time, Zone};
use super::{Env, impure, pure, text};
use crate::template::go::func::{CallError, Func, Param};
use crate::template::go::value::{List, Object, Value};

const CERTIFICATE: Param = Param::Named("sprig.certificate");
const SUBJECT_KEY_ID: &[u8] = b"\x55\x1d\x0e";

pub(super) fn table<C: Env>() -> Vec<Func<C>> {
    use Param::{Int, List, String};
    vec![
        impure!("genPrivateKey", [String], |env, args| {
            // The key's bytes come from elsewhere, but the environment sees each call of a random function.
            env.random("genPrivateKey", &mut []);
            gen_private_key(args)
        }),
        pure!("buildCustomCert", [String, String], build_custom_cert),
        impure!("genCA", [String, Int], |env, args| {
            let key = Key::rsa(2048)?;
            Request::authority(args)?.signed_by_itself(env, "genCA", &key)
        }),
        impure!("genCAWithKey", [String, Int, String], |env, args| {
            let key = given_key(args, 2)?;
            Request::authority(args)?.signed_by_itself(env, "genCAWithKey", &key)
        }),
        impure!("genSelfSignedCert", [String, List, List, Int], |env, args| {
            Request::leaf(args)?.signed_by_itself(env, "genSelfSignedCert", &Key::rsa(2048)?)
        }),
        impure!(
            "genSelfSignedCertWithKey",
            [String, List, List, Int, String],
            |env, args| {
                let key = given_key(args, 4)?;
                Request::leaf(args)?.signed_by_itself(env, "genSelfSignedCertWithKey", &key)
            }
        ),
        impure!("genSignedCert", [String, List, List, Int, CERTIFICATE], |env, args| {
            let issuer = Issuer::of(args.any(4))?;
            Request::leaf(args)?.signed(env, "genSignedCert", &Key::rsa(2048)?, &issuer)
        }),
        impure!(
            "genSignedCertWithKey",
            [String, List, List, Int, CERTIFICATE, String],
            |env, args| {
                let key = given_key(args, 5)?;
                let issuer = Issuer::of(args.any(4))?;
                Request::leaf(args)?.signed(env, "genSignedCertWithKey", &key, &issuer)
            }
        ),
    ]
}

fn given_key(args: &[Value], index: usize) -> Result<Key, CallError> {
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

fn gen_private_key(args: &[Value]) -> Out {
    let kind = args.text(0)?;
    let key = match kind {
        b"" | b"rsa" => Key::rsa(4096)?,
        b"ecdsa" => Key::ecdsa()?,
        b"ed25519" => Key::ed25519()?,
        b"dsa" => return Err(CallError::from("DSA keys are not supported; use rsa, ecdsa or ed25519")),
        other => return Ok(Value::string([b"Unknown type ", other].concat())),
    };
    Ok(Value::string(key.pem))
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

/// The parts of a certificate that signing another one needs.
struct Parsed {
    subject: Vec<u8>,
    public_info: Vec<u8>,
    subject_key_id: Vec<u8>,
}

impl Parsed {
    fn read(der: &[u8]) -> Option<Self> {
        let (outer, _) = read(der)?;
        let (body, _) = read(outer.content)?;
        let mut fields = read_all(body.content)?;
        if fields.first()?.tag == 0xA0 {
            fields.remove(0);
        }
        // serial, signature, issuer, validity, subject, key; then extensions.
        let subject = fields.get(4)?.raw.to_vec();
        let public_info = fields.get(5)?.raw.to_vec();
        let mut subject_key_id = Vec::new();
        if let Some(extensions) = fields.iter().find(|field| field.tag == 0xA3) {
            for extension in read_all(read(extensions.content)?.0.content)? {
                let parts = read_all(extension.content)?;
                if parts.first()?.content == SUBJECT_KEY_ID {
                    subject_key_id = read(parts.last()?.content)?.0.content.to_vec();
                }
            }
        }
        Some(Parsed {
            subject,
            public_info,
            subject_key_id,
        })
    }
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

    fn signed_by_itself<C: Env>(&self, env: &mut C, function: &'static str, key: &Key) -> Out {
        self.issue(env, function, key, &self.subject(), key, &[])
    }

    fn signed<C: Env>(&self, env: &mut C, function: &'static str, key: &Key, issuer: &Issuer) -> Out {
        let parent = &issuer.certificate;
        // A certificate with its issuer's name counts as signed by itself.
        let authority_id: &[u8] = if parent.subject == self.subject() {
            &[]
        } else {
            &parent.subject_key_id
        };
        self.issue(env, function, key, &parent.subject, &issuer.key, authority_id)
    }

    fn issue<C: Env>(
        &self,
        env: &mut C,
        function: &'static str,
        key: &Key,
        issuer: &[u8],
        signer: &Key,
        authority_id: &[u8],
    ) -> Out {
        if std::str::from_utf8(&self.common_name).is_err() || !self.names.iter().all(|name| name.is_ascii()) {
            let text = "error creating certificate: x509: a name is no valid text (IA5String, UTF8String)";
            return Err(CallError::from(text));
        }
        let mut serial = [0u8; 16];
        env.random(function, &mut serial);
        let start = Time {
            at: env.now().as_nanosecond(),
            zone: Zone::Utc,
        };
        let end = start.add(self.days.wrapping_mul(24 * 3_600 * 1_000_000_000));
        let body = sequence(&[
            &element(0xA0, &integer(&[2])),
            &integer(&serial),
            signer.signature_algorithm(),
            issuer,
            &sequence(&[&time(&start), &time(&end)]),
            &self.subject(),
            &key.public_info(),
            &element(0xA3, &self.extensions(key, authority_id)),
        ]);
        let signature = signer.sign(&body)?;
        let der = sequence(&[&body, signer.signature_algorithm(), &bit_string(&signature)]);
        Ok(certificate(
            to_pem("CERTIFICATE", &der).into_bytes(),
            key.pem.clone().into_bytes(),
        ))
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

fn extension(oid: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { b"\x01\x01\xff" } else { b"" };
    sequence(&[&element(OID, oid), critical, &element(OCTET_STRING, content)])
}

/// A time of validity: two-digit years from 1950 to 2049, else four digits.
fn time(time: &Time) -> Vec<u8> {
    if (1950..2050).contains(&time.civil().year) {
        element(0x17, &time.format(b"060102150405Z"))
    } else {
        element(0x18, &time.format(b"20060102150405Z"))
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};

    use super::*;

    struct Zeros;

    impl Env for Zeros {
        fn random(&mut self, _function: &'static str, out: &mut [u8]) {
            out.fill(1);
        }

        fn now(&mut self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }
    }

    fn der_of(value: &Value) -> Vec<u8> {
        let Value::Object(object) = value else {
            panic!("a certificate is an object")
        };
        let Some(Value::String(pem)) = object.field("Cert") else {
            panic!("a certificate has a field Cert")
        };
        from_pem(pem.as_bytes()).expect("it is PEM").1
    }

    #[test]
    fn a_certificate_is_signed_by_its_authority_and_names_it() {
        let key = Key::rsa(2048).expect("a key");
        let authority = [Value::string("the authority"), Value::Int(1)];
        let ca = Request::authority(&authority)
            .and_then(|r| r.signed_by_itself(&mut Zeros, "genCA", &key))
            .expect("a CA");
        let names = Value::list(vec![Value::string("a.b")]);
        let leaf = [Value::string("leaf"), Value::Nil, names, Value::Int(1)];
        let issuer = Issuer::of(&ca).unwrap_or_else(|_| panic!("the CA parses"));
        let leaf = Request::leaf(&leaf)
            .and_then(|r| r.signed(&mut Zeros, "genSignedCert", &key, &issuer))
            .expect("a leaf");
        let der = der_of(&leaf);
        let (outer, rest) = read(&der).expect("DER");
        assert!(rest.is_empty());
        let parts = read_all(outer.content).expect("three parts");
        let signature = parts[2].content.get(1..).expect("a bit string");
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_bytes());
        public
            .verify(parts[0].raw, signature)
            .expect("the authority's signature");
        let fields = read_all(parts[0].content).expect("fields");
        assert_eq!(
            fields[3].raw,
            Parsed::read(&der_of(&ca)).expect("parses").subject,
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
}
