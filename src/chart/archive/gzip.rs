//! Gzipped data, unpacked piece by piece. Facts: Go's `compress/gzip`.

use flate2::Crc;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags as flags};

use super::broken::Broken;

/// How far back deflated data refers.
const REACH: usize = 32 << 10;
/// In a buffer that doesn't wrap around, data that refers to what is before its beginning is refused, as by Go; `flate2`
/// has one that does. All input is there, but only so is its end told from what is corrupt.
const FLAGS: u32 = flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | flags::TINFL_FLAG_HAS_MORE_INPUT;

/// What every member begins with.
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// The length of a header without its optional parts.
const HEADER: usize = 10;
/// The longest name or comment, with the zero that ends it.
const LONGEST_TEXT: usize = 512;

// The flags of a header. Others mean nothing.
const HAS_CRC: u8 = 1 << 1;
const HAS_EXTRA: u8 = 1 << 2;
const HAS_NAME: u8 = 1 << 3;
const HAS_COMMENT: u8 = 1 << 4;

/// A reader of gzipped data: one member after the other, as if they were one.
pub(super) struct Gunzip<'d> {
    packed: &'d [u8],
    inflate: Box<DecompressorOxide>,
    /// How much it took of the member.
    taken: usize,
    crc: Crc,
    /// What was unpacked of the member last; `from..to` wasn't read yet.
    unpacked: Vec<u8>,
    from: usize,
    to: usize,
    /// What follows.
    then: Then,
}

enum Then {
    More,
    EndOfMember,
    Broken(Broken),
}

impl<'d> Gunzip<'d> {
    /// # Errors
    /// Data that doesn't begin with a header; [`Broken::Eof`] if there is none.
    pub fn new(packed: &'d [u8]) -> Result<Self, Broken> {
        Ok(Gunzip {
            packed: after_header(packed)?,
            inflate: Box::default(),
            taken: 0,
            crc: Crc::new(),
            unpacked: vec![0; 2 * REACH],
            from: 0,
            to: 0,
            then: Then::More,
        })
    }

    /// The next bytes: at least one, at most `most`.
    ///
    /// # Errors
    /// Broken data, as soon as all before it was read; [`Broken::Eof`] at the end.
    pub fn read(&mut self, most: usize) -> Result<&[u8], Broken> {
        while self.from == self.to {
            match self.then {
                Then::More => self.unpack(),
                Then::EndOfMember => self.next_member()?,
                Then::Broken(broken) => return Err(broken),
            }
        }
        let from = self.from;
        self.from = self.to.min(from.saturating_add(most));
        Ok(&self.unpacked[from..self.from])
    }

    /// Unpacks more, when all was read.
    fn unpack(&mut self) {
        if self.to == self.unpacked.len() {
            self.unpacked.copy_within(self.to - REACH.., 0);
            self.to = REACH;
        }
        self.from = self.to;
        let (status, taken, put) = decompress(&mut self.inflate, self.packed, &mut self.unpacked, self.from, FLAGS);
        self.packed = &self.packed[taken..];
        self.taken += taken;
        self.to += put;
        self.crc.update(&self.unpacked[self.from..self.to]);
        self.then = match status {
            TINFLStatus::HasMoreOutput => Then::More,
            TINFLStatus::Done => Then::EndOfMember,
            TINFLStatus::NeedsMoreInput => Then::Broken(Broken::UnexpectedEof),
            _ => Then::Broken(Broken::Deflate(self.taken)),
        };
    }

    /// Checks what was unpacked of a member, and begins with the one after it.
    fn next_member(&mut self) -> Result<(), Broken> {
        let (trailer, rest) = self.packed.split_first_chunk::<8>().ok_or(Broken::UnexpectedEof)?;
        let told = u64::from_le_bytes(*trailer);
        if told != u64::from(self.crc.sum()) | u64::from(self.crc.amount()) << 32 {
            return Err(Broken::GzipChecksum);
        }
        self.packed = after_header(rest)?;
        self.inflate.init();
        self.taken = 0;
        self.crc.reset();
        (self.from, self.to) = (0, 0);
        self.then = Then::More;
        Ok(())
    }
}

/// The data after a member's header.
fn after_header(packed: &[u8]) -> Result<&[u8], Broken> {
    let Some((header, mut rest)) = packed.split_first_chunk::<HEADER>() else {
        return Err(match packed {
            [] => Broken::Eof,
            _ => Broken::UnexpectedEof,
        });
    };
    if !header.starts_with(&MAGIC) {
        return Err(Broken::GzipHeader);
    }
    let has = |flag: u8| header[3] & flag != 0;
    if has(HAS_EXTRA) {
        let (length, extra) = rest.split_first_chunk().ok_or(Broken::UnexpectedEof)?;
        let length = usize::from(u16::from_le_bytes(*length));
        rest = extra.get(length..).ok_or(Broken::UnexpectedEof)?;
    }
    for flag in [HAS_NAME, HAS_COMMENT] {
        if has(flag) {
            rest = after_text(rest)?;
        }
    }
    if has(HAS_CRC) {
        let mut crc = Crc::new();
        crc.update(&packed[..packed.len() - rest.len()]);
        let (told, data) = rest.split_first_chunk().ok_or(Broken::UnexpectedEof)?;
        if u32::from(u16::from_le_bytes(*told)) != crc.sum() & 0xffff {
            return Err(Broken::GzipHeader);
        }
        rest = data;
    }
    Ok(rest)
}

/// The data after a text and the zero that ends it.
fn after_text(data: &[u8]) -> Result<&[u8], Broken> {
    let head = &data[..data.len().min(LONGEST_TEXT)];
    match head.iter().position(|b| *b == 0) {
        Some(end) => Ok(&data[end + 1..]),
        None if head.len() < LONGEST_TEXT => Err(Broken::UnexpectedEof),
        None => Err(Broken::GzipHeader),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn members_of_any_length_are_read_in_pieces() {
        // Noise that repeats itself about as far back as can be referred to.
        let noise = |n: u32| (n.wrapping_mul(0x9e37_79b9) ^ n.wrapping_mul(n)) >> 24;
        let block: Vec<u8> = (0..32_000).map(|n| noise(n) as u8).collect();
        let data = [block.repeat(4).as_slice(), b"end"].concat();
        let pack = |data: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(data).unwrap();
            gzip.finish().unwrap()
        };
        let packed = [pack(&data), pack(b""), pack(b"more")].concat();
        let mut gunzip = Gunzip::new(&packed).unwrap();
        let mut read = Vec::new();
        let end = loop {
            match gunzip.read(777) {
                Ok(part) => read.extend_from_slice(part),
                Err(end) => break end,
            }
        };
        assert_eq!(end, Broken::Eof);
        assert!(read == [data.as_slice(), b"more"].concat());
    }
}
