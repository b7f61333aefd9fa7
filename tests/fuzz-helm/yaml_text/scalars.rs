//! Random scalars: plain, in quotes, in blocks.

use super::Grammar;
use crate::values::SCALARS;

impl Grammar<'_> {
    pub(super) fn plain(&mut self, column: usize, flow: bool) {
        match self.random.below(8) {
            0..=4 => self.put(SCALARS),
            5..=6 => self.put(&[
                "a b c",
                "text",
                "a#b",
                "a:b",
                "http://x/y",
                "x y",
                "1 2",
                "a - b",
                "it's",
            ]),
            _ => {
                for at in 0..1 + self.random.below(4) {
                    if at > 0 {
                        self.put(&["\n", "\n", "\n\n", " \n", "\n\t", "\u{2028}", "\r\n"]);
                        self.indent_about(column, 4);
                    }
                    self.put(&["a", "b c", "d", "- e", "# f", "g:", if flow { "x" } else { "[h" }]);
                }
            }
        }
    }

    pub(super) fn single(&mut self, column: usize) {
        self.out.push('\'');
        for _ in 0..self.random.below(4) {
            self.put(&["a", " ", "''", "b c", "\\n", "\"", ": ", " #", "é", "\t", "😀"]);
            self.break_line(column);
        }
        if self.chance(97) {
            self.out.push('\'');
        }
    }

    pub(super) fn double(&mut self, column: usize) {
        self.out.push('"');
        for _ in 0..self.random.below(5) {
            self.put(&[
                "a",
                " ",
                "'",
                "b c",
                "\\n",
                "\\t",
                "\\\"",
                "\\\\",
                ": ",
                " #",
                "\\x41",
                "\\u00e9",
                "\\U0001F600",
                "\\ud83d",
                "\\0",
                "\\a",
                "\\e",
                "\\_",
                "\\N",
                "\\L",
                "\\P",
                "\\ ",
                "\\/",
                "\\x4",
                "\\u12",
                "\\U00110000",
                "\\'",
                "\t",
                "\\\t",
                "\\uFEFF",
                "\\x7f",
            ]);
            if self.chance(6) {
                self.out.push('\\');
            }
            self.break_line(column);
        }
        if self.chance(97) {
            self.out.push('"');
        }
    }

    fn break_line(&mut self, column: usize) {
        if self.chance(15) {
            self.put(&["\n", "\n", "\n\n", " \n", "\n\t", "\r\n", "\n---\n", "\u{85}", "\\\n"]);
            self.indent_about(column, 3);
        }
    }

    pub(super) fn block_scalar(&mut self, column: usize) {
        self.put(&[
            "|", ">", "|-", ">-", "|+", ">+", "|2", ">2", "|1-", "|-1", ">+3", "|0", "|9", "|--", "|a",
        ]);
        self.put(&["\n", "\n", "\n", "\n", "\n", " # c\n", " \n", "#c\n", "\t\n", "\n\n"]);
        let inside = column + 1 + self.random.below(3);
        for _ in 0..self.random.below(5) {
            match self.random.below(12) {
                0 => self.out.push('\n'),
                1 => {
                    self.indent_about(0, inside + 3);
                    self.out.push('\n');
                }
                2 => {
                    self.indent_about(inside, 3);
                    self.put(&[
                        "# c\n",
                        "\tx\n",
                        "x \n",
                        "- y\n",
                        "a: b\n",
                        "é\u{2028}z\n",
                        "---\n",
                        "\r\n",
                    ]);
                }
                3 => {
                    self.indent_about(0, inside + 1);
                    self.put(&["x\n", "#\n", "\n", "\t\n", "...\n"]);
                }
                _ => {
                    self.indent(inside);
                    self.put(&["text\n", "more text\n", "a  b\n", "key: value\n", "x"]);
                    self.out.push('\n');
                }
            }
        }
    }
}
