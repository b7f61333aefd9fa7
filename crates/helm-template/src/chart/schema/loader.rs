//! Where schema documents come from: what is built in, files, and what a [`Fetch`] fetches; and what schemas of schemas
//! say of the documents that name them.
//!
//! Facts: `defaultLoader` of santhosh-tekuri/jsonschema v6, and the loaders that Helm gives it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use super::dialect::{Draft, Vocabularies};
use super::documents::Place;
use super::json::Json;
use super::metaschemas;
use super::urls::unparsed;
use crate::chart::Fetch;
use crate::sprig::url_parse::Url;
use go_template::quote::quote_go;

/// The largest schema file that is read, in bytes.
const MAX_FILE: u64 = 5 * 1024 * 1024;

/// How many schemas of schemas may lead to a draft.
const MAX_CHAIN: usize = 100;

/// Loads documents, each once.
pub(super) struct Loader<'f> {
    loaded: BTreeMap<String, Arc<Json>>,
    /// Files are read, and fetched what can be.
    fetch: Option<&'f Fetch>,
    /// The `urn:`s that were asked for, for which there is no document.
    pub urns: Vec<String>,
}

impl<'f> Loader<'f> {
    pub fn new(fetch: Option<&'f Fetch>) -> Self {
        Loader {
            loaded: BTreeMap::new(),
            fetch,
            urns: Vec::new(),
        }
    }

    /// The document at `url` is this one.
    pub fn add(&mut self, url: &str, document: Json) {
        self.loaded.insert(url.to_owned(), Arc::new(document));
    }

    /// The document at `url`.
    pub fn load(&mut self, url: &str) -> Result<Arc<Json>, String> {
        if let Some(document) = self.loaded.get(url) {
            return Ok(Arc::clone(document));
        }
        if let Some(folder) = metaschemas::folder(url) {
            return Err(format!("read metaschemas/{folder}/: is a directory"));
        }
        let document = match metaschemas::document(url) {
            Some(document) => document,
            None => self
                .fetch(url)
                .map_err(|problem| format!("failing loading {}: {problem}", quote_go(url)))?,
        };
        let document = Arc::new(document);
        self.loaded.insert(url.to_owned(), Arc::clone(&document));
        Ok(document)
    }

    /// A document that isn't built in.
    fn fetch(&mut self, text: &str) -> Result<Json, String> {
        let url = Url::parse(text.as_bytes())?;
        match url.scheme.as_slice() {
            b"file" => read(&String::from_utf8_lossy(&url.path)),
            b"urn" => {
                self.urns.push(text.to_owned());
                Ok(Json::Bool(true))
            }
            b"http" | b"https" => match self.fetch {
                Some(network) => Json::parse(&network.get(text)?),
                None => Err("schemas on the network are not fetched: put a copy into the schema's $defs".to_owned()),
            },
            _ => Err(format!("no URLLoader registered for {}", quote_go(url.text()))),
        }
    }

    /// The draft of the schema at a place: what its `$schema` names, which may be a schema of another draft.
    pub fn draft(&mut self, place: &Place, schema: &Json, default: Draft) -> Result<Draft, String> {
        let named = |schema: &Json| schema.get("$schema").and_then(Json::text).map(str::to_owned);
        let mut next = named(schema);
        let mut at = place.to_string();
        let mut root = place.pointer.is_empty().then(|| place.url.to_string());
        let mut passed = BTreeSet::new();
        while let Some(text) = next {
            if let Some(draft) = Draft::from_url(&text) {
                return Ok(draft);
            }
            let url = text.split('#').next().unwrap_or_default();
            Url::parse(url.as_bytes()).map_err(|e| format!("invalid $schema in {}: {e}", quote_go(&at)))?;
            if root.as_deref() == Some(url) {
                return Err(format!("draft {} is not supported", quote_go(url)));
            }
            if !passed.insert(url.to_owned()) {
                return Err(format!("cycle in resolving $schema in {}", quote_go(url)));
            }
            if passed.len() > MAX_CHAIN {
                return Err(format!(
                    "$schema in {} leads through more than {MAX_CHAIN} documents",
                    quote_go(place.to_string())
                ));
            }
            next = named(&*self.load(url)?);
            at = format!("{url}#");
            root = Some(url.to_owned());
        }
        Ok(default)
    }

    /// The vocabularies that count in a schema of a draft, by its `$schema`.
    pub fn vocabularies(&mut self, schema: &Json, draft: Draft) -> Result<Option<Vocabularies>, String> {
        let named = schema.get("$schema").and_then(Json::text).unwrap_or_default();
        if Draft::from_url(named).is_some() {
            return Ok(None);
        }
        let url = named.split('#').next().unwrap_or_default();
        Url::parse(url.as_bytes()).map_err(|e| unparsed(url, &e))?;
        Vocabularies::of(draft, url, &*self.load(url)?)
    }
}

fn read(path: &str) -> Result<Json, String> {
    let io = |op: &str| {
        let op = op.to_owned();
        move |e: std::io::Error| format!("{op} {path}: {}", crate::chart::io_text(&e))
    };
    let file = std::fs::File::open(path).map_err(io("open"))?;
    let mut text = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut text).map_err(io("read"))?;
    Json::parse(&text)
}
