//! What is wrong or doubtful in a `watches.yaml`, and where.

use std::fmt;

/// One remark about a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFinding {
    /// The file as the user named it.
    pub file: String,
    /// Counted from 1; 0 where the remark is about the file as a whole.
    pub line: usize,
    /// Counted from 1; 0 as with `line`.
    pub column: usize,
    /// What is wrong and what to do, without the place.
    pub message: String,
}

/// Everything that is wrong with a file: at least one finding, in the order of the lines.
/// Displays as one line for each, `watches.yaml:12:5: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileErrors(pub Vec<FileFinding>);

// === impl FileFinding ===

impl fmt::Display for FileFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        write!(f, ": {}", self.message)
    }
}

// === impl FileErrors ===

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for FileErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_print_as_editors_read_them() {
        let finding = |line, column| FileFinding {
            file: "watches.yaml".into(),
            line,
            column,
            message: "no".into(),
        };
        assert_eq!(
            FileErrors(vec![finding(12, 5), finding(3, 0), finding(0, 0)]).to_string(),
            "watches.yaml:12:5: no\nwatches.yaml:3: no\nwatches.yaml: no"
        );
    }
}
