//! A header of a tar archive: a block of fields at fixed places. Facts: Go's `archive/tar`.

use std::ops::Range;

use super::broken::Broken;

/// The size of a header, and what everything in an archive is filled up to a multiple of.
pub(super) const BLOCK: usize = 512;

pub(super) type Block = [u8; BLOCK];

// The types of entries that mean more than data.
pub(super) const HARD_LINK: u8 = b'1';
pub(super) const SYMLINK: u8 = b'2';
pub(super) const CHARACTERS: u8 = b'3';
pub(super) const BLOCKS: u8 = b'4';
pub(super) const FOLDER: u8 = b'5';
pub(super) const FIFO: u8 = b'6';
pub(super) const GLOBAL_RECORDS: u8 = b'g';
pub(super) const RECORDS: u8 = b'x';
pub(super) const LONG_NAME: u8 = b'L';
pub(super) const LONG_LINK: u8 = b'K';
pub(super) const SPARSE: u8 = b'S';

// What all variants have.
const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MODIFIED: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const KIND: usize = 156;
// What all but the oldest have.
const MAGIC: Range<usize> = 257..265;
const DEVICE_MAJOR: Range<usize> = 329..337;
const DEVICE_MINOR: Range<usize> = 337..345;
// What one has.
const USTAR_PREFIX: Range<usize> = 345..500;
const STAR_PREFIX: Range<usize> = 345..476;
const STAR_ACCESSED: Range<usize> = 476..488;
const STAR_CHANGED: Range<usize> = 488..500;
const STAR_TRAILER: Range<usize> = 508..512;
const GNU_ACCESSED: Range<usize> = 345..357;
const GNU_CHANGED: Range<usize> = 357..369;

/// The bits of a mode that say what sort of file it is, and what they are for a folder.
const SORT: u32 = !0o7777;
const SORT_FOLDER: u32 = 0o40000;

/// The variants of the format. That of pax is ustar's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variant {
    V7,
    Ustar,
    Gnu,
    Star,
}

/// What counts of a header.
pub(super) struct Header {
    pub name: Vec<u8>,
    /// Its type; 0 for a file of the oldest archives.
    pub kind: u8,
    pub size: i64,
    mode: i64,
}

impl Header {
    /// # Errors
    /// A checksum or a number that is wrong.
    pub fn read(block: &Block) -> Result<Self, Broken> {
        let variant = variant(block)?;
        for field in [UID, GID, MODIFIED] {
            number(&block[field])?;
        }
        let mut name = text(&block[NAME]).to_vec();
        if let Some(prefix) = prefix(block, variant)? {
            name = [prefix, name.as_slice()].join(&b'/');
        }
        Ok(Header {
            name,
            kind: block[KIND],
            size: number(&block[SIZE])?,
            mode: number(&block[MODE])?,
        })
    }

    /// Whether it is a folder, by its type or by its mode.
    pub fn is_folder(&self) -> bool {
        // Go's mode has 32 bits.
        self.kind == FOLDER || self.mode as u32 & SORT == SORT_FOLDER
    }

    /// Whether no data follows, whatever its size.
    pub fn is_alone(&self) -> bool {
        matches!(self.kind, HARD_LINK | SYMLINK | CHARACTERS | BLOCKS | FOLDER | FIFO)
    }
}

/// The variant of a header whose checksum is right.
pub(super) fn variant(block: &Block) -> Result<Variant, Broken> {
    let told = octal(&block[CHECKSUM])?;
    // Of bytes that have a sign, to some: Sun's tar.
    let (mut plain, mut signed) = (0_i64, 0_i64);
    for (at, byte) in block.iter().enumerate() {
        let byte = if CHECKSUM.contains(&at) { b' ' } else { *byte };
        plain += i64::from(byte);
        signed += i64::from(byte.cast_signed());
    }
    if told != plain && told != signed {
        return Err(Broken::TarHeader);
    }
    Ok(match &block[MAGIC] {
        b"ustar  \0" => Variant::Gnu,
        magic if magic.starts_with(b"ustar\0") => match &block[STAR_TRAILER] {
            b"tar\0" => Variant::Star,
            _ => Variant::Ustar,
        },
        _ => Variant::V7,
    })
}

/// What stands before the name, if anything does. All fields that a variant has must be right.
fn prefix(block: &Block, variant: Variant) -> Result<Option<&[u8]>, Broken> {
    if variant == Variant::V7 {
        return Ok(None);
    }
    number(&block[DEVICE_MAJOR])?;
    number(&block[DEVICE_MINOR])?;
    let prefix = match variant {
        Variant::Star => {
            number(&block[STAR_ACCESSED])?;
            number(&block[STAR_CHANGED])?;
            text(&block[STAR_PREFIX])
        }
        // Old versions of Go wrote a prefix over GNU's times.
        Variant::Gnu if is_time(&block[GNU_ACCESSED]) && is_time(&block[GNU_CHANGED]) => b"",
        Variant::Gnu => Some(text(&block[USTAR_PREFIX]))
            .filter(|prefix| prefix.is_ascii())
            .unwrap_or_default(),
        _ => text(&block[USTAR_PREFIX]),
    };
    Ok(Some(prefix).filter(|prefix| !prefix.is_empty()))
}

fn is_time(field: &[u8]) -> bool {
    field.first() == Some(&0) || number(field).is_ok()
}

/// A text, which a zero ends if it is shorter than its field.
pub(super) fn text(field: &[u8]) -> &[u8] {
    field.split(|b| *b == 0).next().unwrap_or_default()
}

/// A number: octal digits, or bytes after a first one of 0x80 or more.
pub(super) fn number(field: &[u8]) -> Result<i64, Broken> {
    match field.first() {
        Some(first) if first & 0x80 != 0 => binary(field),
        _ => octal(field),
    }
}

/// Two's complement without the first bit.
fn binary(field: &[u8]) -> Result<i64, Broken> {
    let negative = field.first().is_some_and(|first| first & 0x40 != 0);
    let inverted = if negative { 0xff } else { 0 };
    let mut value = 0_u64;
    for (at, byte) in field.iter().enumerate() {
        let mask = if at == 0 { 0x7f } else { 0xff };
        if value >> 56 != 0 {
            return Err(Broken::TarHeader);
        }
        value = value << 8 | u64::from((byte ^ inverted) & mask);
    }
    let value = i64::try_from(value).map_err(|_| Broken::TarHeader)?;
    Ok(if negative { !value } else { value })
}

/// Octal digits among blanks and zeros. There may be none.
fn octal(field: &[u8]) -> Result<i64, Broken> {
    let is_blank = |b: &u8| matches!(b, b' ' | 0);
    let start = field.iter().position(|b| !is_blank(b)).unwrap_or(field.len());
    let end = field.iter().rposition(|b| !is_blank(b)).map_or(start, |at| at + 1);
    let mut value = 0_u64;
    for digit in text(&field[start..end]) {
        if !matches!(digit, b'0'..=b'7') || value >> 61 != 0 {
            return Err(Broken::TarHeader);
        }
        value = value << 3 | u64::from(digit - b'0');
    }
    Ok(value.cast_signed())
}
