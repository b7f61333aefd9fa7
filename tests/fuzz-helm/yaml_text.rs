//! Random YAML text: made by a grammar, made of tokens at random, or a document of ours with random changes.

mod scalars;

use crate::random::Random;
use crate::values::{self, SCALARS};

const TOKENS: &[&str] = &[
    "a",
    "b",
    "- ",
    "-",
    ": ",
    ":",
    "\n",
    "\n",
    "\n  ",
    "\n    ",
    "\n ",
    " ",
    "  ",
    "\t",
    "[",
    "]",
    "{",
    "}",
    ",",
    ", ",
    "?",
    "? ",
    "&a ",
    "&a",
    "*a",
    "*a ",
    "*b",
    "!",
    "! ",
    "!!int ",
    "!!str ",
    "!!float ",
    "!!bool ",
    "!!null ",
    "!!binary ",
    "!!map ",
    "!!seq ",
    "!!merge ",
    "!!timestamp ",
    "!x ",
    "!<a> ",
    "!a!b ",
    "|",
    "|\n",
    "|2\n",
    "|-\n",
    "|+\n",
    ">",
    ">-\n",
    ">1+\n",
    "'",
    "''",
    "\"",
    "\\",
    "\\u00e9",
    "\\x41",
    "\\\n",
    "\\ ",
    "\\q",
    "#",
    " #",
    " # c\n",
    "%",
    "%TAG ! x\n",
    "%YAML 1.1\n",
    "%YAML 1.2\n",
    "---",
    "---\n",
    "\n---\n",
    "...",
    "\n...\n",
    "<<: ",
    "<<: *a",
    "\u{85}",
    "\u{2028}",
    "\u{feff}",
    "😀",
    "é",
    "\r",
    "\r\n",
    "0",
    "1",
    "~",
    "null",
    "true",
    "yes",
    "1.5",
    "0x1",
    ".inf",
    "@",
    "`",
    "=",
    "key: value\n",
    "- item\n",
    "a: b",
    "\u{1}",
    "\u{7f}",
    "\u{a0}",
];

const TAGS: &[&str] = &[
    "!!str",
    "!!int",
    "!!float",
    "!!bool",
    "!!null",
    "!!binary",
    "!!timestamp",
    "!!merge",
    "!!map",
    "!!seq",
    "!",
    "!local",
    "!<tag:yaml.org,2002:str>",
    "!<!x>",
    "!e!x",
    "!!",
    "!a%20b",
];

/// The bytes of one text.
pub fn text(random: &mut Random, documents: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = match random.below(10) {
        0..=2 => (0..1 + random.below(14))
            .map(|_| random.pick(TOKENS))
            .collect::<String>()
            .into_bytes(),
        3..=4 if !documents.is_empty() => {
            let mut bytes = documents[random.below(documents.len())].clone();
            for _ in 0..1 + random.below(3) {
                mutate(random, &mut bytes);
            }
            return bytes;
        }
        _ => grammar(random).into_bytes(),
    };
    for _ in 0..if random.chance(35) { 1 + random.below(3) } else { 0 } {
        mutate(random, &mut bytes);
    }
    if random.chance(4) {
        bytes = String::from_utf8_lossy(&bytes)
            .replace('\n', random.pick(&["\r\n", "\r", "\u{85}", "\u{2028}"]))
            .into_bytes();
    }
    if random.chance(2) {
        bytes.splice(
            0..0,
            random
                .pick(&[
                    &b"\xEF\xBB\xBF"[..],
                    b"\xEF\xBB\xBF\xEF\xBB\xBF",
                    b"\xFF\xFE",
                    b"\xFE\xFF",
                ])
                .iter()
                .copied(),
        );
    }
    bytes
}

fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len() + 1);
    let length = random.below(4).min(bytes.len() - at);
    match random.below(6) {
        0 | 1 => drop(bytes.splice(at..at, random.pick(TOKENS).bytes())),
        2 => drop(bytes.drain(at..at + length)),
        3 => drop(bytes.splice(at..at + length, random.pick(TOKENS).bytes())),
        4 => {
            let copied: Vec<u8> = bytes[at..at + random.below(30).min(bytes.len() - at)].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, copied);
        }
        _ => {
            if random.chance(20) {
                bytes.insert(at, random.below(256) as u8);
            } else {
                bytes.truncate(at);
            }
        }
    }
}

struct Grammar<'r> {
    random: &'r mut Random,
    out: String,
    anchors: usize,
    budget: usize,
}

fn grammar(random: &mut Random) -> String {
    let budget = 1 + random.below(25);
    let mut grammar = Grammar {
        random,
        out: String::new(),
        anchors: 0,
        budget,
    };
    grammar.stream();
    grammar.out
}

impl Grammar<'_> {
    fn chance(&mut self, percent: usize) -> bool {
        self.random.chance(percent)
    }

    fn put(&mut self, options: &[&str]) {
        let text = self.random.pick(options);
        self.out.push_str(text);
    }

    fn stream(&mut self) {
        if self.chance(4) {
            self.put(&[
                "%YAML 1.1\n---\n",
                "%TAG !e! tag:e,2000:\n---\n",
                "%TAG ! !x\n---\n",
                "%YAML 1.1 # c\n%TAG !e! x\n--- ",
                "%FOO\n---\n",
            ]);
        } else if self.chance(12) {
            self.put(&["---\n", "--- ", "---\t", "# c\n---\n", "--- # c\n"]);
        }
        self.block(0);
        if self.chance(8) {
            self.put(&["...\n", "\n...\n", "\n---\n", "---\nb: 1\n", "... # c\n", "# end"]);
            if self.chance(50) {
                self.block(0);
            }
        }
    }

    fn line_end(&mut self) {
        if self.chance(90) {
            self.out.push('\n');
        } else {
            self.put(&[
                " # c\n",
                "\t# c\n",
                "  \n",
                "\t\n",
                "\n\n",
                "\n# c\n",
                "\n   # c\n",
                "#c\n",
            ]);
        }
    }

    /// Up to `more` columns more than `by`.
    fn indent_about(&mut self, by: usize, more: usize) {
        let more = self.random.below(more);
        self.indent(by + more);
    }

    fn indent(&mut self, by: usize) {
        self.out.extend(std::iter::repeat_n(' ', by));
        if self.chance(1) {
            self.put(&["\t", " "]);
        }
    }

    /// Anchor and tag, with the space behind them.
    fn properties(&mut self) {
        if self.chance(8) {
            self.anchors += 1;
            self.out.push_str(&format!("&x{} ", self.anchors));
        }
        if self.chance(8) {
            self.put(TAGS);
            self.out.push(' ');
        }
        if self.chance(1) {
            self.put(&["&y ", "!!str "]);
        }
    }

    fn alias(&mut self) -> bool {
        if self.anchors == 0 || !self.chance(12) {
            return false;
        }
        let unknown = usize::from(self.random.chance(3));
        let name = 1 + self.random.below(self.anchors + unknown);
        self.out.push_str(&format!("*x{name}"));
        true
    }

    /// A node in block context, from the start of a line, at column `column`; ends its last line.
    fn block(&mut self, column: usize) {
        self.budget = self.budget.saturating_sub(1);
        let kind = if self.budget == 0 { 9 } else { self.random.below(10) };
        match kind {
            0..=4 => {
                for _ in 0..1 + self.random.below(4) {
                    self.indent(column);
                    self.entry(column);
                }
            }
            5..=7 => {
                for _ in 0..1 + self.random.below(3) {
                    self.indent(column);
                    self.out.push('-');
                    self.item(column, true);
                }
            }
            _ => {
                self.indent(column);
                self.properties();
                self.inline(column);
            }
        }
    }

    fn entry(&mut self, column: usize) {
        if self.chance(5) {
            self.out.push_str("? ");
            self.value(column, false);
            if self.chance(20) {
                return;
            }
            self.indent(column);
            self.out.push(':');
            self.item(column, false);
            return;
        }
        if self.chance(5) && self.anchors > 0 {
            self.out.push_str("<<");
        } else {
            self.properties();
            if !self.alias() {
                self.key();
            } else if self.chance(80) {
                self.out.push(' ');
            }
        }
        self.put(&[":", ":", ":", ":", ":", ":", ":", " :", ""]);
        self.item(column, false);
    }

    /// What follows `-` or `:`.
    fn item(&mut self, column: usize, compact: bool) {
        match self.random.below(20) {
            0 => self.line_end(),
            1..=11 => {
                self.put(&[" ", " ", " ", " ", " ", "  ", "\t"]);
                self.value(column, compact);
            }
            _ => {
                if self.chance(20) {
                    self.out.push(' ');
                    self.properties();
                }
                self.line_end();
                let deeper = match self.random.below(12) {
                    0 => 0,
                    1 => 1,
                    2 => 4,
                    _ => 2,
                };
                self.block(column + deeper);
            }
        }
    }

    fn value(&mut self, column: usize, compact: bool) {
        if self.alias() {
            return self.line_end();
        }
        self.properties();
        if compact && self.budget > 0 && self.chance(30) {
            // A mapping or sequence that starts on the line of its dash.
            self.budget -= 1;
            for at in 0..1 + self.random.below(3) {
                if at > 0 {
                    self.indent(column + 2);
                }
                if self.chance(20) {
                    self.out.push_str("- ");
                    self.value(column + 2, true);
                } else {
                    self.entry(column + 2);
                }
            }
            return;
        }
        self.inline(column);
    }

    /// A scalar or flow collection; ends its line.
    fn inline(&mut self, column: usize) {
        match self.random.below(10) {
            0..=3 => self.plain(column, false),
            4 => self.single(column),
            5 => self.double(column),
            6..=7 => return self.block_scalar(column),
            _ => self.flow(3, column),
        }
        self.line_end();
    }

    fn key(&mut self) {
        match self.random.below(14) {
            0 => self.single(0),
            1 => self.double(0),
            2 => self.flow(1, 0),
            3..=5 => self.put(SCALARS),
            _ => self.put(&[
                "a",
                "b",
                "c",
                "d",
                "1",
                "1.50",
                "y",
                "true",
                "null",
                "~",
                "key with space",
                "0x10",
                "1e3",
                "2001-01-01",
                "<<",
                "é",
                ".inf",
                "18446744073709551615",
            ]),
        }
    }

    fn flow(&mut self, depth: usize, column: usize) {
        if depth == 0 || self.chance(30) {
            if self.alias() {
                return;
            }
            self.properties();
            match self.random.below(6) {
                0 => self.single(column),
                1 => self.double(column),
                2..=4 => self.put(SCALARS),
                _ => self.plain(column, true),
            }
            return;
        }
        self.properties();
        let map = self.chance(50);
        self.out.push(if map { '{' } else { '[' });
        for at in 0..self.random.below(4) {
            if at > 0 {
                self.put(&[", ", ", ", ",", " , ", ",\n  ", ", # c\n ", "\n,", ",,"]);
            }
            if map || self.chance(15) {
                if self.chance(5) {
                    self.out.push_str("? ");
                }
                if self.chance(8) && self.anchors > 0 {
                    self.out.push_str("<<");
                } else {
                    self.flow(depth - 1, column);
                }
                if self.chance(90) {
                    self.put(&[": ", ": ", ": ", ":", " : ", ":\n "]);
                    if self.chance(90) {
                        self.flow(depth - 1, column);
                    }
                }
            } else {
                self.flow(depth - 1, column);
            }
        }
        if self.chance(8) {
            self.put(&[",", " ", "\n", "\n  "]);
        }
        if self.chance(97) {
            self.out.push(if map { '}' } else { ']' });
        }
    }
}

/// A document that uses its anchors often, up to the point where the library says that it is too much.
pub fn aliases(random: &mut Random) -> Vec<u8> {
    let mut text = String::from("a0: &a0 [x, y]\n");
    let width = 1 + random.below(12);
    for level in 1..1 + random.below(7) {
        let aliases = vec![format!("*a{}", random.below(level)); width].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    if random.chance(30) {
        text.push_str(&format!("s: {}\n", values::string(random).replace('\n', " ")));
    }
    text.into_bytes()
}
