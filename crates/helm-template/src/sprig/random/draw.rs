//! Random results: the values that template functions get from randomness or the clock. They all have one type and one
//! way in.
//!
//! A renderer that keeps results answers a [`Call`] with what it has, if that fits; else the function draws from a
//! [`RandomSource`]. Pure functions never come here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::limit::Budget;
use crate::sprig::Env;
use crate::sprig::crypto::certs;
use go_template::func::{CallError, Meter};
use go_template::value::Value;

/// A random result in its stored form: as a template sees it, except for `htpasswd` (only its hash).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Drawn {
    /// A string or a key in PEM.
    Text(String),
    /// `randInt`
    Int(i64),
    /// The time of the clock: for `now`, `ago`, and dates of a value that is no time.
    Time(Timestamp),
    /// A certificate with its key.
    Certificate(CertificatePair),
}

/// A generated certificate: two PEM texts, and the validity that the certificate states.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificatePair {
    pub cert: String,
    pub key: String,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// The hash of a certificate: SHA-256 over both texts.
pub type CertificateIdentity = [u8; 32];

/// A call of a random function.
pub struct Call {
    /// The function's name.
    pub function: &'static str,
    /// The arguments without the issuer, so encoded that different arguments differ.
    pub args: Vec<u8>,
    /// The certificate among the arguments, by its contents: the authority that signs.
    pub issuer: Option<CertificateIdentity>,
    /// The cost of drawing, in steps of the template's evaluator.
    pub cost: u64,
    /// Whether drawing takes a random time. A render's time limit then does not count it.
    pub untimed: bool,
}

/// The source of new results: random bytes and the time.
pub struct RandomSource {
    clock: Timestamp,
    stream: Option<KeyStream>,
    /// What private keys are taken from. `None`: each is new.
    keys: Option<Arc<SharedKeys>>,
}

/// Private keys that stand for new ones, one of each kind, as PEM: to find primes takes up to a second. They are for renders
/// whose keys have no use.
#[derive(Default)]
pub struct SharedKeys(Mutex<HashMap<&'static str, String>>);

/// Bytes that are a function of a key.
struct KeyStream {
    key: [u8; 32],
    block: u64,
}

impl Drawn {
    /// The number of bytes in it.
    pub fn size(&self) -> usize {
        match self {
            Drawn::Text(text) => text.len(),
            Drawn::Int(_) | Drawn::Time(_) => 8,
            Drawn::Certificate(pair) => pair.cert.len() + pair.key.len(),
        }
    }
}

/// Never shows the result: it may be a password.
impl std::fmt::Debug for Drawn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Drawn(..)")
    }
}

impl CertificatePair {
    pub fn identity(&self) -> CertificateIdentity {
        identity(self.cert.as_bytes(), self.key.as_bytes())
    }

    /// The time at which two thirds of its lifetime are over. `None` if its lifetime is zero: a new one would be no
    /// better.
    pub fn renewal(&self) -> Option<Timestamp> {
        let (start, end) = (self.not_before.as_second(), self.not_after.as_second());
        let third = end.checked_sub(start).filter(|life| *life > 0)?.div_euclid(3);
        Timestamp::from_second(end.checked_sub(third)?).ok()
    }
}

impl std::fmt::Debug for CertificatePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pair({} to {})", self.not_before, self.not_after)
    }
}

/// The [`CertificateIdentity`] of a certificate and its key.
pub(crate) fn identity(cert: &[u8], key: &[u8]) -> CertificateIdentity {
    let mut hash = Sha256::new();
    hash.update((cert.len() as u64).to_be_bytes());
    hash.update(cert);
    hash.update(key);
    hash.finalize().into()
}

impl Call {
    /// A call that is cheap to draw for.
    ///
    /// # Errors
    /// Arguments that are nested too deep.
    pub fn new(meter: &Meter, function: &'static str, args: &[Value]) -> Result<Self, CallError> {
        let mut call = Call {
            function,
            args: Vec::new(),
            issuer: None,
            cost: 1,
            untimed: false,
        };
        let mut budget = Budget::new(meter, function);
        for arg in args {
            match certs::identity_of(arg) {
                Some(issuer) => call.issuer = Some(issuer),
                None => encode(arg, &mut call.args, &mut budget, 0)?,
            }
        }
        Ok(call)
    }

    /// Sets the cost of the call.
    pub fn costing(mut self, steps: u64) -> Self {
        self.cost = steps;
        self
    }
}

/// Appends a value with its kind and its lengths.
fn encode(value: &Value, out: &mut Vec<u8>, budget: &mut Budget<'_>, depth: usize) -> Result<(), CallError> {
    budget.visit(depth)?;
    let mut text = |tag: u8, bytes: &[u8]| {
        out.push(tag);
        out.extend((bytes.len() as u64).to_be_bytes());
        out.extend(bytes);
    };
    match value {
        Value::Nil => text(b'n', &[]),
        Value::Bool(b) => text(b'b', &[u8::from(*b)]),
        Value::Int(n) | Value::Int64(n) => text(b'i', &n.to_be_bytes()),
        Value::Uint8(n) => text(b'i', &i64::from(*n).to_be_bytes()),
        Value::Uint64(n) => text(b'u', &n.to_be_bytes()),
        Value::Float64(n) => text(b'f', &n.to_bits().to_be_bytes()),
        Value::String(s) => text(b's', s.as_bytes()),
        Value::Object(object) => {
            text(b'o', object.type_name().as_bytes());
            text(b's', object.display().as_bytes());
        }
        Value::List(list) => {
            text(b'l', &(list.items().len() as u64).to_be_bytes());
            for item in list.items() {
                encode(item, out, budget, depth + 1)?;
            }
        }
        Value::Map(map) => {
            text(b'm', &(map.len() as u64).to_be_bytes());
            for (key, item) in map.snapshot() {
                encode(&Value::String(key), out, budget, depth + 1)?;
                encode(&item, out, budget, depth + 1)?;
            }
        }
    }
    Ok(())
}

impl SharedKeys {
    /// The key of a kind, which is generated when it is first needed.
    ///
    /// # Errors
    /// Those of `generate`.
    #[cfg_attr(not(feature = "crypto"), allow(dead_code))]
    pub(crate) fn get(
        &self,
        kind: &'static str,
        generate: impl FnOnce() -> Result<String, String>,
    ) -> Result<String, String> {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pem) = keys.get(kind) {
            return Ok(pem.clone());
        }
        let pem = generate()?;
        keys.insert(kind, pem.clone());
        Ok(pem)
    }
}

impl RandomSource {
    /// The operating system's randomness.
    pub fn system(clock: Timestamp) -> Self {
        RandomSource {
            clock,
            stream: None,
            keys: None,
        }
    }

    /// Bytes that depend on the key alone, which serves one call.
    pub fn seeded(clock: Timestamp, key: [u8; 32]) -> Self {
        RandomSource {
            clock,
            stream: Some(KeyStream { key, block: 0 }),
            keys: None,
        }
    }

    /// The same with private keys that are used many times.
    pub fn with_keys(self, keys: Option<Arc<SharedKeys>>) -> Self {
        RandomSource { keys, ..self }
    }

    /// The private keys that calls share, if they share any.
    #[cfg_attr(not(feature = "crypto"), allow(dead_code))]
    pub(crate) fn shared_keys(&self) -> Option<&SharedKeys> {
        self.keys.as_deref()
    }

    /// The time of the render.
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Fills `out` with random bytes.
    ///
    /// # Errors
    /// The operating system has none. The call must then fail, because its result should be secret.
    pub fn fill(&mut self, out: &mut [u8]) -> Result<(), CallError> {
        let Some(stream) = &mut self.stream else {
            return getrandom::fill(out)
                .map_err(|error| CallError::Text(format!("the operating system gives no randomness: {error}")));
        };
        for chunk in out.chunks_mut(32) {
            let block = mac(&stream.key, &[&stream.block.to_be_bytes()]);
            stream.block += 1;
            for (to, from) in chunk.iter_mut().zip(block) {
                *to = from;
            }
        }
        Ok(())
    }
}

/// HMAC-SHA-256 over the parts, each with its length.
pub fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC pads a key to the hash's block of 64 bytes (RFC 2104).
    let mut block = [0; 64];
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// A random text: the kept one if it `fits`, else a new one.
pub(crate) fn text<C: Env>(
    env: &mut C,
    call: &Call,
    fits: impl Fn(&str) -> bool,
    make: impl FnOnce(&mut RandomSource) -> Result<String, CallError>,
) -> Result<String, CallError> {
    let fits = |drawn: &Drawn| matches!(drawn, Drawn::Text(text) if fits(text));
    match env.once(call, fits, |source| make(source).map(Drawn::Text))? {
        Drawn::Text(text) => Ok(text),
        _ => Err(mismatch(call)),
    }
}

/// The time for one call of `function`. The arguments are ignored: another format does not need another time.
pub(crate) fn clock<C: Env>(env: &mut C, function: &'static str) -> Result<Timestamp, CallError> {
    let call = env.call(function, &[])?;
    let fits = |drawn: &Drawn| matches!(drawn, Drawn::Time(_));
    match env.once(&call, fits, |source| Ok(Drawn::Time(source.clock())))? {
        Drawn::Time(time) => Ok(time),
        _ => Err(mismatch(&call)),
    }
}

/// The error for an [`Env`] that breaks its contract.
pub(crate) fn mismatch(call: &Call) -> CallError {
    CallError::Text(format!("{}: a kept result has another kind", call.function))
}

#[cfg(test)]
mod tests {
    use crate::sprig::random::draw::*;

    fn bytes(source: &mut RandomSource) -> [u8; 80] {
        let mut out = [0; 80];
        source.fill(&mut out).expect("there is randomness");
        out
    }

    #[test]
    fn a_seeded_source_is_a_function_of_its_key() {
        let seeded = |key: u8| RandomSource::seeded(Timestamp::UNIX_EPOCH, [key; 32]);
        let mut one = seeded(1);
        let first = bytes(&mut one);
        assert_eq!(first, bytes(&mut seeded(1)));
        assert_ne!(first, bytes(&mut one));
        assert_ne!(first, bytes(&mut seeded(2)));
        assert_ne!(first[..32], first[32..64]);
        let mut system = RandomSource::system(Timestamp::UNIX_EPOCH);
        assert_ne!(bytes(&mut system), bytes(&mut system));
    }

    #[test]
    fn arguments_are_told_apart() {
        let list = |items: &[&str]| Value::list(items.iter().map(|text| Value::string(*text)).collect());
        let table = [
            vec![],
            vec![Value::Nil],
            vec![Value::string("ab"), Value::string("c")],
            vec![Value::string("a"), Value::string("bc")],
            vec![list(&["a", "b"])],
            vec![list(&["a"]), Value::string("b")],
            vec![Value::Int(1)],
            vec![Value::Float64(1.0)],
            vec![Value::Bool(true)],
            vec![Value::from_json(&serde_json::json!({"a": 1}))],
        ];
        let encoded: std::collections::BTreeSet<Vec<u8>> = table
            .iter()
            .map(|args| Call::new(&Meter::default(), "f", args).expect("a call").args)
            .collect();
        assert_eq!(encoded.len(), table.len());
    }

    #[test]
    fn renewal_is_at_two_thirds_of_a_life() {
        let pair = |start: i64, end: i64| CertificatePair {
            cert: String::new(),
            key: String::new(),
            not_before: Timestamp::from_second(start).unwrap(),
            not_after: Timestamp::from_second(end).unwrap(),
        };
        let table = [(0, 300, Some(200)), (100, 103, Some(102)), (5, 5, None), (10, 5, None)];
        for (start, end, want) in table {
            let renewal = pair(start, end).renewal().map(Timestamp::as_second);
            assert_eq!(renewal, want, "{start} to {end}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", Drawn::Text("hunter2".into())), "Drawn(..)");
    }
}
