//! Errors and warnings about a file, with their places.

use std::fmt;

/// An error or a warning about a file. Displays as `watches.yaml:12:5: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFinding {
    /// Path of the file as the user wrote it.
    pub file: String,
    /// Counted from 1. 0: the finding is about the complete file.
    pub line: usize,
    /// Counted from 1. 0: the finding is about the complete line or file.
    pub column: usize,
    /// What is wrong and what to do, without the place.
    pub message: String,
}

/// All errors of a file, at least one, in the order of the lines. Displays as one line per error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileErrors(pub Vec<FileFinding>);

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
    fn places_are_printed_as_file_line_and_column() {
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
