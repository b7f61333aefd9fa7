//! Files with holes, as GNU's tar writes them in four ways. Facts: Go's `archive/tar`.

use super::broken::Broken;
use super::header::{self, BLOCK, Block, Header, Variant};
use super::pax::{self, Records};
use super::tar::{Archive, MAX_SPECIAL};

/// The oldest map: entries of two numbers in the header and in blocks after it, and whether another such block follows.
const HEADER_MAP: usize = 386;
const HEADER_ENTRIES: usize = 4;
const BLOCK_ENTRIES: usize = BLOCK / ENTRY;
const ENTRY: usize = 24;
const REAL_SIZE: std::ops::Range<usize> = 483..495;

/// Where a part of the data belongs in the file.
pub(super) struct Region {
    offset: i64,
    length: i64,
}

impl Archive<'_> {
    /// Where the data belongs that follows a header, if the file has holes.
    ///
    /// # Errors
    /// A map that is none.
    pub fn sparse_map(
        &mut self,
        header: &mut Header,
        records: &Records,
        block: Block,
    ) -> Result<Option<Vec<Region>>, Broken> {
        let map = match header.kind {
            header::SPARSE => Some(self.map_of_blocks(header, block)?),
            _ => self.map_of_records(header, records)?,
        };
        match &map {
            Some(map) if header.is_alone() || !is_map_of(map, header.size) => Err(Broken::TarHeader),
            _ => Ok(map),
        }
    }

    /// Adds a file's data with its holes.
    ///
    /// # Errors
    /// More or less data than the regions have.
    pub fn read_sparse(&mut self, regions: &[Region], size: i64, into: &mut Vec<u8>) -> Result<(), Broken> {
        let start = into.len();
        let place = |offset: i64| start.saturating_add(usize::try_from(offset).unwrap_or(usize::MAX));
        for region in regions.iter().filter(|region| region.length > 0) {
            into.resize(place(region.offset), 0);
            let length = region.length.unsigned_abs();
            self.read_data(length.min(self.left()), into)?;
            if into.len() < place(region.offset + region.length) {
                return Err(Broken::SparseLacksData);
            }
        }
        into.resize(place(size), 0);
        match self.left() {
            0 => Ok(()),
            _ => Err(Broken::SparseLeavesData),
        }
    }

    /// The map of old GNU archives.
    fn map_of_blocks(&mut self, header: &mut Header, mut block: Block) -> Result<Vec<Region>, Broken> {
        if header::variant(&block)? != Variant::Gnu {
            return Err(Broken::TarHeader);
        }
        header.size = header::number(&block[REAL_SIZE])?;
        let mut map = Vec::new();
        let mut entries = HEADER_MAP..HEADER_MAP + HEADER_ENTRIES * ENTRY;
        // Go counts the map's bytes.
        let mut read = HEADER_ENTRIES * ENTRY + 1;
        while read < MAX_SPECIAL {
            for entry in block[entries.clone()].chunks(ENTRY).take_while(|entry| entry[0] != 0) {
                let (offset, length) = entry.split_at(ENTRY / 2);
                map.push(Region {
                    offset: header::number(offset)?,
                    length: header::number(length)?,
                });
            }
            if block[entries.end] == 0 {
                return Ok(map);
            }
            block = self.block().map_err(Broken::within)?;
            entries = 0..BLOCK_ENTRIES * ENTRY;
            read += BLOCK;
        }
        Err(Broken::SparseTooLong)
    }

    /// The map of versions 0.0, 0.1 and 1.0, if the records say that there is one.
    fn map_of_records(&mut self, header: &mut Header, records: &Records) -> Result<Option<Vec<Region>>, Broken> {
        let version = [pax::SPARSE_MAJOR, pax::SPARSE_MINOR].map(|key| records.get(key));
        let is_in_data = match version {
            [Some(b"0"), Some(b"0" | b"1")] => false,
            [Some(b"1"), Some(b"0")] => true,
            [None, None] if records.get(pax::SPARSE_MAP).is_some() => false,
            _ => return Ok(None),
        };
        if let Some(name) = records.get(pax::SPARSE_NAME) {
            header.name = name.to_vec();
        }
        let size = records.get(pax::SPARSE_SIZE);
        if let Some(size) = size.or_else(|| records.get(pax::SPARSE_REAL_SIZE)) {
            header.size = pax::number(size)?;
        }
        match is_in_data {
            true => self.map_in_data().map(Some),
            false => map_in_record(records).map(Some),
        }
    }

    /// The map of version 1.0: numbers in lines, how many regions there are first, up to the end of a block.
    fn map_in_data(&mut self) -> Result<Vec<Region>, Broken> {
        let mut text = Vec::new();
        self.read_lines(1, &mut text)?;
        let count = pax::number(lines(&text).next().unwrap_or_default())?;
        let numbers = count.checked_mul(2).and_then(|count| usize::try_from(count).ok());
        let numbers = numbers.ok_or(Broken::TarHeader)?;
        self.read_lines(numbers.saturating_add(1), &mut text)?;
        regions(lines(&text).skip(1).take(numbers))
    }

    /// Reads blocks of the data until there are as many lines.
    fn read_lines(&mut self, count: usize, text: &mut Vec<u8>) -> Result<(), Broken> {
        let mut found = text.iter().filter(|b| **b == b'\n').count();
        while found < count {
            let start = text.len();
            if start + BLOCK > MAX_SPECIAL {
                return Err(Broken::SparseTooLong);
            }
            self.read_data(self.left().min(BLOCK as u64), text)?;
            if text.len() < start + BLOCK {
                return Err(Broken::UnexpectedEof);
            }
            found += text[start..].iter().filter(|b| **b == b'\n').count();
        }
        Ok(())
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n')
}

/// The map of versions 0.0 and 0.1: numbers in a record, how many regions there are in another.
fn map_in_record(records: &Records) -> Result<Vec<Region>, Broken> {
    let count = records.number(pax::SPARSE_COUNT)?.ok_or(Broken::TarHeader)?;
    let numbers: Vec<&[u8]> = match records.get(pax::SPARSE_MAP) {
        Some(map) => map.split(|b| *b == b',').collect(),
        None => Vec::new(),
    };
    match i64::try_from(numbers.len()).ok() == count.checked_mul(2) {
        true => regions(numbers.into_iter()),
        false => Err(Broken::TarHeader),
    }
}

/// Regions of pairs of numbers.
fn regions<'t>(mut numbers: impl Iterator<Item = &'t [u8]>) -> Result<Vec<Region>, Broken> {
    let mut regions = Vec::new();
    while let (Some(offset), Some(length)) = (numbers.next(), numbers.next()) {
        regions.push(Region {
            offset: pax::number(offset)?,
            length: pax::number(length)?,
        });
    }
    Ok(regions)
}

/// Whether regions are in order, don't overlap, and lie within a file.
fn is_map_of(regions: &[Region], size: i64) -> bool {
    let mut end = 0;
    size >= 0
        && regions.iter().all(|region| {
            let start = std::mem::replace(&mut end, region.offset.saturating_add(region.length));
            region.length >= 0 && region.offset >= start && end <= size
        })
}
