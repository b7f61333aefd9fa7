//! Random results that are reused in later renders: a table that the caller stores and passes to the next render.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::sprig::crypto::certs;
use crate::sprig::random::draw::{Call, CertificateIdentity, Drawn, mac};

/// The version of the stored form.
const VERSION: u64 = 1;

/// The call that a stored result belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeptKey {
    /// The path of the file that was rendered, for example `chart/templates/secret.yaml`.
    pub template: String,
    /// The function's name.
    pub function: String,
    /// An HMAC of the arguments, since they may be secret: 32 hex digits.
    pub arguments: String,
    /// The number of earlier calls with this template, function and arguments in the render.
    pub ordinal: u64,
}

/// A table of stored random results. Cheap to clone. Its JSON contains secrets; its `Debug` output does not.
#[derive(Clone)]
pub struct Kept {
    secret: [u8; 32],
    results: Arc<BTreeMap<KeptKey, Drawn>>,
    /// StoredTable results that could not be read.
    unreadable: usize,
}

/// Why stored results can't be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeptError {
    /// Not the JSON that a [`Kept`] becomes.
    #[error("the kept results can't be read: {0}")]
    Syntax(String),
    /// Written by a later version of this program.
    #[error("the kept results have version {0}, this program reads version {VERSION}")]
    Version(u64),
}

/// The results of randomness and the clock in one render. Empty if the render stored nothing.
#[derive(Debug, Clone, Default)]
pub struct Randomness {
    /// All results that the render used, new and old. Store them in place of the previous ones.
    pub kept: Kept,
    /// The results that were not stored before.
    pub missed: BTreeSet<KeptKey>,
    /// The certificates that replace a stored one after two thirds of its lifetime, or one that such a certificate had
    /// signed.
    pub renewed: BTreeSet<KeptKey>,
    /// The time at which the next certificate in `kept` is due for renewal. A render at or after that time renews it.
    pub next_renewal: Option<jiff::Timestamp>,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry<'a> {
    #[serde(flatten)]
    key: std::borrow::Cow<'a, KeptKey>,
    result: std::borrow::Cow<'a, Drawn>,
}

#[derive(Deserialize)]
struct StoredTable {
    version: u64,
    #[serde(default)]
    results: Vec<serde_json::Value>,
}

impl Kept {
    /// An empty table. `secret` keys the digests of arguments: with another secret no stored result is found.
    pub fn new(secret: [u8; 32]) -> Self {
        Kept {
            secret,
            results: Arc::default(),
            unreadable: 0,
        }
    }

    /// Reads the JSON that [`Kept`] becomes. A single result that can't be read is left out, and the next render
    /// warns of it.
    ///
    /// # Errors
    /// [`KeptError`]
    pub fn read(secret: [u8; 32], json: &[u8]) -> Result<Self, KeptError> {
        // The error contains the position but not the text, which may be secret.
        let place = |e: serde_json::Error| format!("no such JSON at line {} column {}", e.line(), e.column());
        let stored: StoredTable = serde_json::from_slice(json).map_err(|error| KeptError::Syntax(place(error)))?;
        if stored.version != VERSION {
            return Err(KeptError::Version(stored.version));
        }
        let all = stored.results.len();
        let readable = stored.results.into_iter().filter_map(|entry| {
            let entry: StoredEntry<'static> = serde_json::from_value(entry).ok()?;
            Some((entry.key.into_owned(), entry.result.into_owned()))
        });
        let results: BTreeMap<KeptKey, Drawn> = readable.collect();
        Ok(Kept {
            secret,
            unreadable: all.saturating_sub(results.len()),
            results: Arc::new(results),
        })
    }

    /// The number of results.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether there are none: then nothing needs to be stored.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }

    /// The keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &KeptKey> {
        self.results.keys()
    }

    /// The table without these results.
    pub fn without(&self, keys: &BTreeSet<KeptKey>) -> Kept {
        let left = self.results.iter().filter(|(key, _)| !keys.contains(key));
        Kept {
            results: Arc::new(left.map(|(key, drawn)| (key.clone(), drawn.clone())).collect()),
            ..self.clone()
        }
    }

    /// The table with another table's result for a call, or with none where the other has none either.
    pub fn with_result_of(&self, key: &KeptKey, other: &Kept) -> Kept {
        let mut results = (*self.results).clone();
        match other.results.get(key) {
            Some(drawn) => drop(results.insert(key.clone(), drawn.clone())),
            None => drop(results.remove(key)),
        }
        Kept {
            results: Arc::new(results),
            ..self.clone()
        }
    }

    /// The texts in it that must not appear in logs, events or status: passwords, keys, hashes. Certificates are
    /// public, numbers and times are too short to search for.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.results.values().filter_map(|drawn| match drawn {
            Drawn::Text(text) => Some(text.as_str()),
            Drawn::Certificate(pair) => Some(pair.key.as_str()),
            Drawn::Int(_) | Drawn::Time(_) => None,
        })
    }

    /// The texts that templates got for a call: one, or a certificate and its key. None for a time.
    pub fn texts(&self, key: &KeptKey) -> Vec<String> {
        match self.results.get(key) {
            Some(Drawn::Text(text)) => vec![text.clone()],
            Some(Drawn::Int(number)) => vec![number.to_string()],
            Some(Drawn::Certificate(pair)) => vec![pair.cert.clone(), pair.key.clone()],
            Some(Drawn::Time(_)) | None => Vec::new(),
        }
    }

    /// Returns the table with other texts for a call, in the order of [`Kept::texts`]. Returns `None` if they cannot be
    /// the result of that function. The next render checks whether they fit the call's arguments.
    pub fn restored(&self, key: &KeptKey, texts: &[String]) -> Option<Kept> {
        let drawn = match (self.results.get(key)?, texts) {
            (Drawn::Text(_), [text]) => Drawn::Text(text.clone()),
            (Drawn::Int(_), [text]) => Drawn::Int(text.parse().ok()?),
            (Drawn::Certificate(_), [cert, key]) => Drawn::Certificate(certs::pair(cert, key)?),
            _ => return None,
        };
        let mut results = (*self.results).clone();
        results.insert(key.clone(), drawn);
        Some(self.with(results))
    }

    /// Returns the table with the results added that only `older` has.
    pub fn and(&self, older: &Kept) -> Kept {
        let mut results = (*older.results).clone();
        results.extend(self.results.iter().map(|(key, drawn)| (key.clone(), drawn.clone())));
        self.with(results)
    }

    pub(crate) fn get(&self, key: &KeptKey) -> Option<&Drawn> {
        self.results.get(key)
    }

    pub(crate) fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// The table with these results instead.
    pub(crate) fn with(&self, results: BTreeMap<KeptKey, Drawn>) -> Kept {
        Kept {
            secret: self.secret,
            results: Arc::new(results),
            unreadable: 0,
        }
    }

    /// The digest of a call's arguments.
    pub(crate) fn digest(&self, call: &Call, issuer: Option<&CertificateIdentity>) -> String {
        let issuer: &[u8] = issuer.map_or(&[], |identity| identity);
        let mac = mac(&self.secret, &[&call.args, issuer]);
        data_encoding::HEXLOWER.encode(mac.get(..16).unwrap_or(&mac))
    }
}

/// No results, and a secret of zeros.
impl Default for Kept {
    fn default() -> Self {
        Kept::new([0; 32])
    }
}

/// Two tables are equal if they are stored alike.
impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.results == other.results
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.results.keys()).finish()
    }
}

/// `{"version": 1, "results": [...]}` in the order of the keys; the secret stays out.
impl Serialize for Kept {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = |(key, drawn)| StoredEntry {
            key: std::borrow::Cow::Borrowed(key),
            result: std::borrow::Cow::Borrowed(drawn),
        };
        let mut out = serializer.serialize_struct("Kept", 2)?;
        out.serialize_field("version", &VERSION)?;
        out.serialize_field("results", &self.results.iter().map(entry).collect::<Vec<_>>())?;
        out.end()
    }
}

impl Randomness {
    /// Adds the new results of an earlier render of the same series that are still used.
    pub fn include(&mut self, earlier: &Randomness) {
        let used = |key: &&KeptKey| self.kept.results.contains_key(*key);
        let missed: Vec<KeptKey> = earlier.missed.iter().filter(used).cloned().collect();
        let renewed: Vec<KeptKey> = earlier.renewed.iter().filter(used).cloned().collect();
        self.missed.extend(missed);
        self.renewed.extend(renewed);
    }
}

#[cfg(test)]
mod tests {
    use crate::helm::random::stored::*;
    use crate::sprig::CertificatePair;
    use go_template::{Meter, Value};

    fn key(function: &str, ordinal: u64) -> KeptKey {
        KeptKey {
            template: "c/templates/t.yaml".into(),
            function: function.into(),
            arguments: "00".into(),
            ordinal,
        }
    }

    fn table() -> Kept {
        let pair = CertificatePair {
            cert: "cert".into(),
            key: "its key".into(),
            not_before: jiff::Timestamp::UNIX_EPOCH,
            not_after: jiff::Timestamp::UNIX_EPOCH,
        };
        let results = [
            (key("randAlpha", 1), Drawn::Text("second".into())),
            (key("randAlpha", 0), Drawn::Text("first".into())),
            (key("randInt", 0), Drawn::Int(7)),
            (key("now", 0), Drawn::Time(jiff::Timestamp::UNIX_EPOCH)),
            (key("genCA", 0), Drawn::Certificate(pair)),
        ];
        Kept::new([1; 32]).with(BTreeMap::from(results))
    }

    #[test]
    fn what_is_written_is_read_back() {
        let written = serde_json::to_string(&table()).unwrap();
        assert_eq!(Kept::read([1; 32], written.as_bytes()), Ok(table()));
        let first = concat!(
            r#"{"version":1,"results":[{"template":"c/templates/t.yaml","function":"genCA","arguments":"00","#,
            r#""ordinal":0,"result":{"certificate":{"cert":"cert","key":"its key","#,
            r#""notBefore":"1970-01-01T00:00:00Z","notAfter":"1970-01-01T00:00:00Z"}}},"#,
        );
        assert!(written.starts_with(first), "{written}");
        assert!(table().len() == 5 && table().keys().is_sorted());
    }

    #[test]
    fn what_cannot_be_read_is_an_error_or_left_out() {
        let read = |json: &str| Kept::read([1; 32], json.as_bytes());
        assert_eq!(read(r#"{"version":2}"#), Err(KeptError::Version(2)));
        for json in ["", "hunter2", "[]", r#"{"results":[]}"#] {
            let error = read(json).unwrap_err();
            assert!(matches!(error, KeptError::Syntax(_)), "{json}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        let one = serde_json::to_value(table()).unwrap()["results"][1].clone();
        let stored = serde_json::json!({"version": 1, "results": [7, one, {"result": {"text": "x"}}]});
        let found = read(&stored.to_string()).unwrap();
        assert_eq!((found.len(), found.unreadable()), (1, 2));
    }

    #[test]
    fn debug_and_digests_show_no_secret() {
        let text = format!("{:?}", table());
        assert!(text.contains("randAlpha") && !text.contains("first") && !text.contains("its key"));
        let secrets: Vec<_> = table().secrets().map(str::to_owned).collect();
        assert_eq!(secrets, ["its key", "first", "second"]);
        let call = Call::new(&Meter::default(), "htpasswd", &[Value::string("hunter2")]).unwrap();
        let digest = |secret: u8| Kept::new([secret; 32]).digest(&call, None);
        assert_eq!(digest(1).len(), 32);
        assert_eq!(digest(1), digest(1));
        assert_ne!(digest(1), digest(2));
        assert_ne!(Kept::new([1; 32]).digest(&call, Some(&[0; 32])), digest(1));
    }

    #[test]
    fn results_can_be_taken_out_and_put_back() {
        let left = table().without(&BTreeSet::from([key("randInt", 0), key("unknown", 0)]));
        assert!(left.len() == 4 && left.get(&key("randInt", 0)).is_none());
        assert_eq!(left.and(&table()), table());
        let texts = |function, ordinal| table().texts(&key(function, ordinal));
        assert_eq!(texts("randAlpha", 0), ["first"]);
        assert_eq!(texts("genCA", 0), ["cert", "its key"]);
        assert!(texts("now", 0).is_empty() && texts("unknown", 0).is_empty());
        for (function, texts, fits) in [
            ("randAlpha", &["old"][..], true),
            ("randInt", &["12"], true),
            ("randInt", &["x"], false),
            ("randAlpha", &["a", "b"], false),
            ("genCA", &["no PEM", "no PEM"], false),
            ("unknown", &["a"], false),
        ] {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            let put = table().restored(&key(function, 0), &texts);
            let found = put.map(|table| table.texts(&key(function, 0)));
            assert_eq!(found, fits.then_some(texts), "{function}");
        }
    }
}
