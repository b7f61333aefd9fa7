//! A tar archive, entry by entry. Facts: Go's `archive/tar`, which reads all variants and is strict in what it refuses.

use super::broken::Broken;
use super::budget::Budget;
use super::gzip::Gunzip;
use super::header::{self, BLOCK, Block, Header};
use super::pax::{self, Records};
use super::sparse::Region;

/// The largest entry that says something of the next, in bytes.
pub(super) const MAX_SPECIAL: usize = 1 << 20;

/// A reader of a gzipped tar archive.
pub(super) struct Archive<'d> {
    data: Gunzip<'d>,
    budget: &'d mut Budget,
    /// How much of the entry's data wasn't read yet, and what it is filled up with.
    left: u64,
    padding: usize,
}

/// A file, a link or a device.
pub(super) struct Entry {
    pub name: Vec<u8>,
    /// What its header says. Links and devices have no data all the same.
    pub size: i64,
    /// Where its data belongs, with zeros between, if it isn't all there.
    sparse: Option<Vec<Region>>,
}

impl<'d> Archive<'d> {
    /// # Errors
    /// Data that isn't gzipped.
    pub fn new(packed: &'d [u8], budget: &'d mut Budget) -> Result<Self, Broken> {
        Ok(Archive {
            data: Gunzip::new(packed)?,
            budget,
            left: 0,
            padding: 0,
        })
    }

    /// The next entry, or none at the archive's end.
    ///
    /// # Errors
    /// A broken archive.
    pub fn next(&mut self) -> Result<Option<Entry>, Broken> {
        loop {
            match self.entry() {
                Ok(None) => {}
                Err(Broken::Eof) => return Ok(None),
                entry => return entry,
            }
        }
    }

    /// Adds the data of the entry that was read last.
    ///
    /// # Errors
    /// Broken data, or more or less of it than a sparse file has.
    pub fn read(&mut self, entry: &Entry, into: &mut Vec<u8>) -> Result<(), Broken> {
        match &entry.sparse {
            Some(regions) => self.read_sparse(regions, entry.size, into),
            None => self.read_data(self.left, into),
        }
    }

    /// Has memory that is kept for an entry count as if it were unpacked.
    ///
    /// # Errors
    /// More than the archive may take.
    pub fn count(&mut self, bytes: usize) -> Result<(), Broken> {
        self.budget.take(bytes)
    }

    /// The next bytes of all that is unpacked: at least one, at most `most`.
    fn unpacked(&mut self, most: usize) -> Result<&[u8], Broken> {
        let part = self.data.read(most)?;
        self.budget.take(part.len())?;
        Ok(part)
    }

    /// The next entry, with what the special ones before it say of it; none for a folder and for what is said of all.
    fn entry(&mut self) -> Result<Option<Entry>, Broken> {
        let mut records = Records::default();
        let mut long_name = Vec::new();
        loop {
            self.skip()?;
            let block = self.header()?;
            let mut header = Header::read(&block)?;
            self.expect(&header)?;
            match header.kind {
                header::RECORDS => records = Records::read(&self.special()?)?,
                header::GLOBAL_RECORDS => {
                    Records::read(&self.special()?)?;
                    return Ok(None);
                }
                header::LONG_NAME => long_name = header::text(&self.special()?).to_vec(),
                header::LONG_LINK => drop(self.special()?),
                _ => {
                    merge(&mut header, &records, &long_name)?;
                    self.expect(&header)?;
                    let sparse = self.sparse_map(&mut header, &records, block)?;
                    let is_folder = header.is_folder();
                    let Header { name, size, .. } = header;
                    return Ok((!is_folder).then_some(Entry { name, size, sparse }));
                }
            }
        }
    }

    /// Takes note of the data that follows a header.
    fn expect(&mut self, header: &Header) -> Result<(), Broken> {
        let size = if header.is_alone() { 0 } else { header.size };
        self.left = u64::try_from(size).map_err(|_| Broken::TarHeader)?;
        self.padding = (self.left.wrapping_neg() % BLOCK as u64) as usize;
        Ok(())
    }

    /// Skips what is left of an entry. An archive may end before it is filled up.
    fn skip(&mut self) -> Result<(), Broken> {
        while self.left > 0 {
            let most = usize::try_from(self.left).unwrap_or(usize::MAX);
            self.left -= self.unpacked(most).map_err(Broken::within)?.len() as u64;
        }
        while self.padding > 0 {
            self.padding -= self.unpacked(self.padding)?.len();
        }
        Ok(())
    }

    /// The block of the next header. Two blocks of zeros end an archive, and so does its end, with one of them or none.
    fn header(&mut self) -> Result<Block, Broken> {
        let first = self.block()?;
        if first != [0; BLOCK] {
            return Ok(first);
        }
        match self.block()? == first {
            true => Err(Broken::Eof),
            false => Err(Broken::TarHeader),
        }
    }

    /// A block that is no entry's data: whole, or [`Broken::Eof`] if nothing is left.
    pub(super) fn block(&mut self) -> Result<Block, Broken> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            let part = match self.unpacked(BLOCK - filled) {
                Ok(part) => part,
                Err(end) if filled == 0 => return Err(end),
                Err(end) => return Err(end.within()),
            };
            block[filled..filled + part.len()].copy_from_slice(part);
            filled += part.len();
        }
        Ok(block)
    }

    /// The data of an entry that says something of the next.
    fn special(&mut self) -> Result<Vec<u8>, Broken> {
        let mut body = Vec::new();
        self.read_data(self.left.min(MAX_SPECIAL as u64 + 1), &mut body)?;
        match body.len() > MAX_SPECIAL {
            true => Err(Broken::FieldTooLong),
            false => Ok(body),
        }
    }

    /// Adds the next bytes of an entry's data, of which there are as many.
    pub(super) fn read_data(&mut self, mut count: u64, into: &mut Vec<u8>) -> Result<(), Broken> {
        while count > 0 {
            let most = usize::try_from(count).unwrap_or(usize::MAX);
            let part = self.unpacked(most).map_err(Broken::within)?;
            into.extend_from_slice(part);
            let read = part.len() as u64;
            count -= read;
            self.left -= read;
        }
        Ok(())
    }

    /// How much of the entry's data is left.
    pub(super) fn left(&self) -> u64 {
        self.left
    }
}

/// Has a header say what the entries before it say.
fn merge(header: &mut Header, records: &Records, long_name: &[u8]) -> Result<(), Broken> {
    records.check()?;
    if let Some(path) = records.get(pax::PATH) {
        header.name = path.to_vec();
    }
    if let Some(size) = records.number(pax::SIZE)? {
        header.size = size;
    }
    if !long_name.is_empty() {
        header.name = long_name.to_vec();
    }
    // Archives from before POSIX mark folders by their names only.
    if header.kind == 0 && header.name.ends_with(b"/") {
        header.kind = header::FOLDER;
    }
    Ok(())
}
