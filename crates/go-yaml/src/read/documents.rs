//! The documents of a text, one after the other. Facts: the `YAMLReader` of k8s.io/apimachinery.

use crate::Error;

const DASHES: &[u8] = b"---";

/// The documents of a text that may not be UTF-8, up to the first error: see [`documents`](crate::read::documents).
pub struct Documents<'t> {
    text: &'t [u8],
    /// The start of the next document.
    start: usize,
    /// The position from which the next line with dashes is searched.
    seek: usize,
}

impl<'t> Documents<'t> {
    /// All documents of `text`.
    pub fn new(text: &'t [u8]) -> Self {
        Documents {
            text,
            start: 0,
            seek: 0,
        }
    }

    /// Returns the start of the next line that begins with dashes.
    fn separator(&mut self) -> Option<usize> {
        let at = match self.seek {
            0 if self.text.starts_with(DASHES) => 0,
            seek => seek + memchr::memmem::find(self.text.get(seek..)?, b"\n---")? + 1,
        };
        self.seek = at + DASHES.len();
        Some(at)
    }

    fn end(&mut self) {
        (self.start, self.seek) = (self.text.len(), self.text.len());
    }
}

impl<'t> Iterator for Documents<'t> {
    type Item = Result<&'t [u8], Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(at) = self.separator() {
            let line = self.text.get(at..)?.split_inclusive(|byte| *byte == b'\n').next()?;
            let rest = String::from_utf8_lossy(line.get(DASHES.len()..)?);
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                self.end();
                let text = format!("invalid Yaml document separator: {rest}");
                return Some(Err(Error::new("", None, text)));
            }
            if at > self.start {
                let document = self.text.get(self.start..at)?;
                self.start = at + line.len();
                return Some(Ok(document));
            }
        }
        let last = self.text.get(self.start..).filter(|text| !text.is_empty());
        self.end();
        last.map(Ok)
    }
}
