//! The random results of one render: kept ones, and new ones from the host or from the operating system.

pub(crate) mod stored;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use crate::helm::random::stored::{Kept, KeptKey, Randomness};
use crate::sprig::random::draw::{Call, Drawn, Identity, Source, mac};

/// The most that the results of one render may take, in bytes: they are stored in Secrets.
pub const MAX_KEPT: usize = 4 << 20;
/// What a result takes besides itself, in bytes, at the least.
const ENTRY: usize = 200;

/// Decides what new random results are. Without one they come from the operating system.
pub trait Random: Send + Sync {
    /// What the results of a call are made from: equal seeds make equal results, but for private keys (and so certificates),
    /// which always come from the crypto library's own generator.
    fn seed(&self, call: &KeptKey) -> [u8; 32];
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

/// What one render has drawn so far.
#[derive(Default)]
pub struct Draws {
    random: Option<Arc<dyn Random>>,
    /// `None`: nothing is kept.
    kept: Option<Kept>,
    /// How many calls there were with a template, a function and arguments.
    ordinals: HashMap<(String, &'static str, String), u64>,
    used: BTreeMap<KeptKey, Drawn>,
    missed: BTreeSet<KeptKey>,
    renewed: BTreeSet<KeptKey>,
    /// From renewed certificates to those that they replace.
    replaced: HashMap<Identity, Identity>,
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

/// Where a new result belongs.
#[derive(Default)]
pub struct Slot {
    /// `None` where nothing is kept and the operating system decides.
    key: Option<KeptKey>,
    /// Whether it replaces a kept result that was good.
    renews: bool,
    /// The certificate that it replaces.
    replaces: Option<Identity>,
}

impl Draws {
    /// Without a host's randomness new results come from the operating system; without a table none is kept.
    pub fn new(random: Option<Arc<dyn Random>>, kept: Option<&Kept>) -> Self {
        let mut warnings = Vec::new();
        if let Some(count) = kept.map(Kept::unreadable).filter(|count| *count > 0) {
            warnings.push(format!(
                "{count} kept random results can't be read: they are drawn anew"
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
        match table.get(&key) {
            Some(drawn) if !fits(drawn) => self.warnings.push(format!(
                "the kept result of {} in {} is not one that this call could have had: it is drawn anew",
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
                // What a renewed authority signed is renewed with it.
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

    /// Where the new result for a slot comes from.
    pub fn source(&self, slot: &Slot, clock: Timestamp) -> Source {
        match (&self.random, &slot.key) {
            (Some(random), Some(key)) => Source::seeded(clock, random.seed(key)),
            _ => Source::system(clock),
        }
    }

    /// Takes in a new result. Fails when there are more than [`MAX_KEPT`] allows.
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

    fn note(&mut self, key: KeptKey, drawn: &Drawn) {
        if let Drawn::Certificate(pair) = drawn
            && let Some(renewal) = pair.renewal()
        {
            self.next_renewal = Some(self.next_renewal.map_or(renewal, |next| next.min(renewal)));
        }
        self.used.insert(key, drawn.clone());
    }

    /// What the render took, and what is to be said about it.
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
