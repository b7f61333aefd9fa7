//! How a file at an `http:` or `https:` URL comes here. Charts ask for values and schemas that way; only the command line
//! has a client: what an operator renders must not depend on servers elsewhere.

use std::fmt;
use std::sync::Arc;

/// Fetches what stands at a URL.
#[derive(Clone)]
pub struct Fetch(Arc<Get>);

type Get = dyn Fn(&str) -> Result<Vec<u8>, String> + Send + Sync;

impl Fetch {
    /// `get` answers the content at a URL, or why there is none, in Helm's words.
    pub fn new(get: impl Fn(&str) -> Result<Vec<u8>, String> + Send + Sync + 'static) -> Self {
        Fetch(Arc::new(get))
    }

    /// The content at `url`.
    ///
    /// # Errors
    /// The client's text.
    pub fn get(&self, url: &str) -> Result<Vec<u8>, String> {
        (self.0)(url)
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fetch")
    }
}
