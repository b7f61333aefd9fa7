//! Why an archive can't be read, in Go's words where they are Go's.

/// An error of Go's `io`, `compress/gzip`, `compress/flate` or `archive/tar`, or a limit of our own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    /// There is nothing more, where an archive may end.
    #[error("EOF")]
    Eof,
    #[error("unexpected EOF")]
    UnexpectedEof,
    #[error("gzip: invalid header")]
    GzipHeader,
    #[error("gzip: invalid checksum")]
    GzipChecksum,
    #[error("flate: corrupt input before offset {0}")]
    Deflate(usize),
    #[error("archive/tar: invalid tar header")]
    TarHeader,
    #[error("archive/tar: header field too long")]
    FieldTooLong,
    #[error("archive/tar: sparse map too long")]
    SparseTooLong,
    #[error("archive/tar: sparse file references non-existent data")]
    SparseLacksData,
    #[error("archive/tar: sparse file contains unreferenced data")]
    SparseLeavesData,
    #[error("archives take more than the limit of {0} bytes when they are unpacked, names and headers included")]
    OverBudget(u64),
}

impl Broken {
    /// The same, where an archive may not end.
    pub fn within(self) -> Self {
        match self {
            Broken::Eof => Broken::UnexpectedEof,
            other => other,
        }
    }
}
