//! The random results of one render: stored ones, and new ones from the host or from the operating system.

pub(crate) mod stored;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::helm::random::stored::{Kept, KeptKey, Randomness};
use crate::sprig::random::draw::{Call, CertificateIdentity, Drawn, RandomSource, SharedKeys, mac};

/// The most that the results of one render may take, in bytes: they are stored in Secrets.
pub const MAX_KEPT: usize = 4 << 20;
/// The minimum overhead of a stored result, in bytes.
const ENTRY: usize = 200;

/// A source of new random results. Without one they come from the operating system.
pub trait Random: Send + Sync {
    /// Returns the seed for the results of a call. Equal seeds give equal results, except for private keys and
    /// certificates, which always come from the crypto library's own generator.
    fn seed(&self, call: &KeptKey) -> [u8; 32];

    /// Private keys that calls get instead of new ones. `None`: each key is new.
    fn shared_keys(&self) -> Option<Arc<SharedKeys>> {
        None
    }
}

/// Random results that are good for nothing but to see what a chart makes: equal calls get equal results, and calls share private
/// keys.
pub struct StandIns {
    seed: [u8; 32],
    keys: Arc<SharedKeys>,
}

impl StandIns {
    /// Those of a number. Those of other numbers are different ones.
    pub fn new(number: u8) -> Self {
        StandIns {
            seed: [number; 32],
            keys: Arc::default(),
        }
    }
}

impl Random for StandIns {
    fn seed(&self, call: &KeptKey) -> [u8; 32] {
        self.seed.seed(call)
    }

    fn shared_keys(&self) -> Option<Arc<SharedKeys>> {
        Some(Arc::clone(&self.keys))
    }
}

/// Renders that can be repeated: seeds are a keyed function of the template, the function, its arguments and the ordinal of
/// the call.
impl Random for [u8; 32] {
    fn seed(&self, call: &KeptKey) -> [u8; 32] {
        let parts = [
            call.template.as_bytes(),
            call.function.as_bytes(),
            call.arguments.as_bytes(),
            &call.ordinal.to_be_bytes(),
        ];
        mac(self, &parts)
    }
}

/// The results that one render has drawn so far.
#[derive(Default)]
pub struct Draws {
    random: Option<Arc<dyn Random>>,
    /// `None`: nothing is stored.
    kept: Option<Kept>,
    /// The number of calls by template, function and arguments.
    ordinals: HashMap<(String, &'static str, String), u64>,
    used: BTreeMap<KeptKey, Drawn>,
    missed: BTreeSet<KeptKey>,
    renewed: BTreeSet<KeptKey>,
    /// From renewed certificates to those that they replace.
    replaced: HashMap<CertificateIdentity, CertificateIdentity>,
    next_renewal: Option<Timestamp>,
    warnings: Vec<String>,
    bytes: usize,
}

/// The answer to a call.
pub enum Recall {
    /// A kept result.
    Kept(Drawn),
    /// There is none.
    Draw(Slot),
}

/// The place of a new result.
#[derive(Default)]
pub struct Slot {
    /// `None` where nothing is kept and the operating system decides.
    key: Option<KeptKey>,
    /// Whether it replaces a valid stored result.
    renews: bool,
    /// The certificate that it replaces.
    replaces: Option<CertificateIdentity>,
}

impl Draws {
    /// Without a host's randomness new results come from the operating system; without a table none is kept.
    pub fn new(random: Option<Arc<dyn Random>>, kept: Option<&Kept>) -> Self {
        let mut warnings = Vec::new();
        if let Some(count) = kept.map(Kept::unreadable).filter(|count| *count > 0) {
            warnings.push(format!(
                "{count} stored random results can't be read: they are generated again"
            ));
        }
        Draws {
            random,
            kept: kept.cloned(),
            warnings,
            ..Draws::default()
        }
    }

    /// Looks for the kept result of a call that `template` (a file's path) makes at the time `clock`.
    pub fn recall(&mut self, template: &str, call: &Call, fits: impl Fn(&Drawn) -> bool, clock: Timestamp) -> Recall {
        let mut slot = Slot::default();
        if self.random.is_none() && self.kept.is_none() {
            return Recall::Draw(slot);
        }
        let no_table = Kept::default();
        let table = self.kept.as_ref().unwrap_or(&no_table);
        let mut key = KeptKey {
            template: template.to_owned(),
            function: call.function.to_owned(),
            arguments: table.digest(call, call.issuer.as_ref()),
            ordinal: 0,
        };
        let ordinal = self
            .ordinals
            .entry((template.to_owned(), call.function, key.arguments.clone()))
            .or_insert(0);
        key.ordinal = *ordinal;
        *ordinal += 1;
        // Stand-ins come from this process, not from a Secret.
        let is_trusted = self
            .random
            .as_ref()
            .is_some_and(|random| random.shared_keys().is_some());
        match table.get(&key) {
            Some(drawn) if !is_trusted && !fits(drawn) => self.warnings.push(format!(
                "the stored result of {} in {} does not fit the call: it is generated again",
                call.function, template
            )),
            Some(Drawn::Certificate(pair)) if pair.renewal().is_some_and(|renewal| renewal <= clock) => {
                slot.renews = true;
                slot.replaces = Some(pair.identity());
            }
            Some(drawn) => {
                let drawn = drawn.clone();
                self.note(key, &drawn);
                return Recall::Kept(drawn);
            }
            None => {
                // A certificate that a renewed authority signed is renewed with it.
                let former = call.issuer.and_then(|issuer| self.replaced.get(&issuer));
                let before = former.map(|issuer| KeptKey {
                    arguments: table.digest(call, Some(issuer)),
                    ..key.clone()
                });
                if let Some(Drawn::Certificate(pair)) = before.and_then(|key| table.get(&key)) {
                    slot.renews = true;
                    slot.replaces = Some(pair.identity());
                }
            }
        }
        slot.key = Some(key);
        Recall::Draw(slot)
    }

    /// The source of the new result for a slot.
    pub fn source(&self, slot: &Slot, clock: Timestamp) -> RandomSource {
        match (&self.random, &slot.key) {
            (Some(random), Some(key)) => RandomSource::seeded(clock, random.seed(key)).with_keys(random.shared_keys()),
            _ => RandomSource::system(clock),
        }
    }

    /// Stores a new result. Fails if the results exceed [`MAX_KEPT`].
    pub fn store(&mut self, slot: Slot, drawn: &Drawn) -> Result<(), String> {
        let (Some(key), Some(_)) = (slot.key, &self.kept) else {
            return Ok(());
        };
        self.bytes += ENTRY + key.template.len() + drawn.size();
        if self.bytes > MAX_KEPT {
            return Err(format!(
                "the random results of one render are over the limit of {MAX_KEPT} bytes"
            ));
        }
        let list = if slot.renews {
            &mut self.renewed
        } else {
            &mut self.missed
        };
        list.insert(key.clone());
        if let (Drawn::Certificate(pair), Some(former)) = (drawn, slot.replaces) {
            self.replaced.insert(pair.identity(), former);
        }
        self.note(key, drawn);
        Ok(())
    }

    /// The results that a file has used. `None` if one of them is a renewed certificate.
    pub fn of_file(&self, name: &str) -> Option<Vec<(KeptKey, Drawn)>> {
        let used = self.used.iter().filter(|(key, _)| key.template == name);
        let is_new = |(key, drawn): (&KeptKey, &Drawn)| {
            let is_renewed = self.renewed.contains(key);
            (!is_renewed).then(|| (key.clone(), drawn.clone()))
        };
        used.map(is_new).collect()
    }

    /// Whether results are kept at all.
    pub fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether a call would get this result, since it is kept.
    pub fn has_kept(&self, key: &KeptKey, drawn: &Drawn) -> bool {
        self.kept.as_ref().and_then(|kept| kept.get(key)) == Some(drawn)
    }

    /// Uses kept results as the calls do that they belong to.
    pub fn use_kept(&mut self, results: &[(KeptKey, Drawn)]) {
        for (key, drawn) in results {
            self.note(key.clone(), drawn);
        }
    }

    fn note(&mut self, key: KeptKey, drawn: &Drawn) {
        if let Drawn::Certificate(pair) = drawn
            && let Some(renewal) = pair.renewal()
        {
            self.next_renewal = Some(self.next_renewal.map_or(renewal, |next| next.min(renewal)));
        }
        self.used.insert(key, drawn.clone());
    }

    /// Returns the results of the render and warnings about them.
    pub fn finish(self) -> (Randomness, Vec<String>) {
        let Some(kept) = self.kept else {
            return (Randomness::default(), self.warnings);
        };
        let randomness = Randomness {
            kept: kept.with(self.used),
            missed: self.missed,
            renewed: self.renewed,
            next_renewal: self.next_renewal,
        };
        (randomness, self.warnings)
    }
}
