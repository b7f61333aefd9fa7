//! Tables for people: columns as wide as their widest cell.

/// Pads the cells of each column to one width, counted in characters, with two spaces between columns.
pub(super) fn align_columns<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = ColumnWidths::<N>::default();
    rows.iter().for_each(|row| widths.widen(row));
    rows.iter().map(|row| widths.line(row)).collect()
}

/// The width of each column, in characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct ColumnWidths<const N: usize>([usize; N]);

impl<const N: usize> Default for ColumnWidths<N> {
    fn default() -> Self {
        ColumnWidths([0; N])
    }
}

impl<const N: usize> ColumnWidths<N> {
    /// Makes each column wide enough for a row.
    pub(super) fn widen(&mut self, row: &[String; N]) {
        for (width, cell) in self.0.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }

    /// The line of a row.
    pub(super) fn line(&self, row: &[String; N]) -> String {
        let cells = row.iter().zip(self.0).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    }
}
