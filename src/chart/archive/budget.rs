//! What archives may take, unpacked. Helm bounds the files of each archive only, not what is said of them nor all together.

use super::broken::Broken;

/// What an archive may take with all that stands in it: twice as much beside the files as the files.
const OF_ONE: u64 = 300 << 20;
/// What all archives within a chart may take together.
const OF_ALL: u64 = 1 << 30;

/// How many bytes may be unpacked yet. A file's name counts twice: where it stands, and as it is kept.
pub(in crate::chart) struct Budget {
    limit: u64,
    left: Option<u64>,
}

impl Budget {
    /// For the archive that a chart is.
    pub fn of_one() -> Self {
        Self::new(OF_ONE)
    }

    /// For the archives within a chart, whatever their depth.
    pub fn of_all() -> Self {
        Self::new(OF_ALL)
    }

    pub fn new(limit: u64) -> Self {
        Budget {
            limit,
            left: Some(limit),
        }
    }

    /// # Errors
    /// More than is left.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Broken> {
        self.left = self.left.and_then(|left| left.checked_sub(bytes as u64));
        match self.left {
            Some(_) => Ok(()),
            None => Err(Broken::OverBudget(self.limit)),
        }
    }

    /// Whether more was asked for than there was.
    pub(super) fn is_exceeded(&self) -> bool {
        self.left.is_none()
    }
}
