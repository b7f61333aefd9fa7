//! Random templates, by a grammar: mostly what charts say, now and then nonsense.

use std::fmt::Write;

use crate::functions::{Function, samples, table};
use crate::random::Random;

/// A chart's own text: the file that is rendered, and one with definitions.
pub struct Templates {
    pub file: String,
    pub helpers: String,
}

struct Grammar<'r> {
    random: &'r mut Random,
    functions: &'r [Function],
    out: String,
    /// Variables in scope.
    variables: Vec<String>,
    /// What dot is: the chart's data, or something else.
    at_root: bool,
    in_loop: bool,
    /// How many `define`s there are that may be called from here.
    callable: std::ops::Range<usize>,
    budget: usize,
    /// Levels of `tpl` within `tpl`.
    nested: usize,
}

const DEFINES: usize = 3;

pub fn templates(random: &mut Random) -> Templates {
    thread_local! { static FUNCTIONS: Vec<Function> = table(); }
    FUNCTIONS.with(|functions| {
        let mut helpers = String::new();
        for name in 0..DEFINES {
            let mut grammar = Grammar::new(random, functions, 3, name + 1..DEFINES);
            grammar.list(2);
            let _ = writeln!(helpers, "{{{{- define \"h{name}\" -}}}}{}{{{{ end }}}}", grammar.out);
        }
        // An error hides what comes after it, so most templates are short.
        let short = random.chance(60);
        let budget = if short { 1 } else { 1 + random.below(8) };
        let mut grammar = Grammar::new(random, functions, budget, 0..DEFINES);
        if short {
            grammar.node(1);
        } else {
            grammar.list(3);
        }
        let mut file = grammar.out;
        if random.chance(6) {
            break_it(random, &mut file);
        }
        Templates { file, helpers }
    })
}

/// Changes a few characters, so that most results don't parse.
fn break_it(random: &mut Random, text: &mut String) {
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(2) {
        let at = random.below(chars.len() + 1);
        match random.below(3) {
            0 if at < chars.len() => drop(chars.remove(at)),
            1 => chars.truncate(at),
            _ => {
                let more = random.pick(&[
                    "{{", "}}", "\"", "`", "'", "(", ")", "|", ".", "$", "-", " ", ",", "{{-", "-}}", "/*", "*/", "\\",
                    "=", ":=", "\n", "end", "#", "0", "é",
                ]);
                chars.splice(at..at, more.chars());
            }
        }
    }
    *text = chars.into_iter().collect();
}

impl<'r> Grammar<'r> {
    fn new(random: &'r mut Random, functions: &'r [Function], budget: usize, callable: std::ops::Range<usize>) -> Self {
        Grammar {
            random,
            functions,
            out: String::new(),
            variables: vec!["$".to_owned()],
            at_root: true,
            in_loop: false,
            callable,
            budget,
            nested: 0,
        }
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.random.chance(percent)
    }

    fn open(&mut self) {
        let text = self.random.pick(&["{{ ", "{{ ", "{{ ", "{{- ", "{{- ", "{{", "{{-\n"]);
        self.out.push_str(text);
    }

    fn close(&mut self) {
        let text = self.random.pick(&[" }}", " }}", " }}", " -}}", "}}", "\n}}"]);
        self.out.push_str(text);
    }

    fn text(&mut self) {
        let text = self.random.pick(&[
            "",
            "",
            "x",
            " ",
            "\n",
            "\n  ",
            "a: ",
            "  b:\n",
            "- ",
            "text ",
            "\t",
            "<no value>",
            "é",
            "}}",
            "{ { ",
            "# c\n",
        ]);
        self.out.push_str(text);
    }

    fn list(&mut self, depth: usize) {
        for _ in 0..1 + self.random.below(3) {
            self.text();
            self.node(depth);
        }
        self.text();
    }

    fn block(&mut self, depth: usize) {
        let variables = self.variables.len();
        self.list(depth);
        self.variables.truncate(variables);
    }

    fn node(&mut self, depth: usize) {
        self.budget = self.budget.saturating_sub(1);
        let kind = if depth == 0 || self.budget == 0 {
            self.random.below(11)
        } else {
            self.random.below(20)
        };
        match kind {
            0..=7 => {
                self.open();
                self.pipeline('a', 3);
                self.close();
            }
            8..=9 => {
                self.open();
                let name = self.random.pick(&["$x", "$y", "$z"]).to_owned();
                let known = self.variables.contains(&name);
                let assign = if known && self.random.chance(50) || self.random.chance(2) {
                    " = "
                } else {
                    " := "
                };
                self.out.push_str(&name);
                self.out.push_str(assign);
                self.pipeline('a', 3);
                self.variables.push(name);
                self.close();
            }
            10 => {
                let comment = self.random.pick(&[
                    "{{/* c */}}",
                    "{{- /* c */ -}}",
                    "{{/* a\nb */}}",
                    "{{- /* {{ x }} */}}",
                ]);
                self.out.push_str(comment);
            }
            11..=13 => self.condition(depth, "if"),
            14..=15 => self.condition(depth, "with"),
            16..=18 => self.range(depth),
            _ => self.call(depth),
        }
    }

    fn end(&mut self) {
        self.open();
        self.out.push_str("end");
        self.close();
    }

    fn declaration(&mut self) -> Option<String> {
        self.chance(20).then(|| {
            let name = self.random.pick(&["$x", "$y", "$v"]).to_owned();
            let _ = write!(self.out, "{name} := ");
            name
        })
    }

    fn condition(&mut self, depth: usize, keyword: &str) {
        let (variables, at_root) = (self.variables.len(), self.at_root);
        self.open();
        let _ = write!(self.out, "{keyword} ");
        let declared = self.declaration();
        self.pipeline(if keyword == "if" { 'b' } else { 'a' }, 3);
        self.variables.extend(declared);
        self.close();
        self.at_root = at_root && keyword == "if";
        self.block(depth - 1);
        self.at_root = at_root;
        for _ in 0..2 {
            if self.chance(25) {
                self.open();
                if self.chance(50) {
                    let _ = write!(self.out, "else {keyword} ");
                    self.pipeline('b', 2);
                    self.close();
                    self.at_root = at_root && keyword == "if";
                    self.block(depth - 1);
                    self.at_root = at_root;
                    continue;
                }
                self.out.push_str("else");
                self.close();
                self.block(depth - 1);
            }
            break;
        }
        self.end();
        self.variables.truncate(variables);
    }

    fn range(&mut self, depth: usize) {
        let (variables, at_root, in_loop) = (self.variables.len(), self.at_root, self.in_loop);
        self.open();
        self.out.push_str("range ");
        let declared: &[&str] = match self.random.below(4) {
            0 => &["$i"],
            1..=2 => &["$k", "$e"],
            _ => &[],
        };
        if !declared.is_empty() {
            let _ = write!(self.out, "{} := ", declared.join(", "));
        }
        let sort = self
            .random
            .pick(&["l", "t", "m", "n", "a"])
            .chars()
            .next()
            .unwrap_or('l');
        self.pipeline(sort, 2);
        self.close();
        self.variables.extend(declared.iter().map(|name| (*name).to_owned()));
        self.at_root = false;
        self.in_loop = true;
        self.block(depth - 1);
        if self.chance(10) {
            let word = self.random.pick(&[
                "{{ break }}",
                "{{ continue }}",
                "{{ if eq $.Values.s \"x\" }}{{ break }}{{ end }}",
            ]);
            self.out.push_str(word);
        }
        (self.at_root, self.in_loop) = (at_root, in_loop);
        if self.chance(20) {
            self.open();
            self.out.push_str("else");
            self.close();
            self.block(depth - 1);
        }
        self.end();
        self.variables.truncate(variables);
    }

    fn call(&mut self, depth: usize) {
        if self.chance(20) {
            let at_root = std::mem::replace(&mut self.at_root, false);
            self.out.push_str("{{ block \"blk\" ");
            self.pipeline('a', 1);
            self.out.push_str(" }}");
            let variables = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
            let callable = std::mem::replace(&mut self.callable, 0..0);
            self.block(depth - 1);
            (self.variables, self.at_root, self.callable) = (variables, at_root, callable);
            return self.end();
        }
        self.open();
        let name = self.define();
        let _ = write!(self.out, "template {name}");
        match self.random.below(10) {
            0 => {}
            1..=2 => {
                self.out.push(' ');
                self.pipeline('a', 2);
            }
            _ => self.out.push_str(if self.at_root { " ." } else { " $" }),
        }
        self.close();
    }

    /// The name of a template that doesn't call this one.
    fn define(&mut self) -> String {
        if self.callable.is_empty() || self.chance(4) {
            return "\"nope\"".to_owned();
        }
        let name = self.callable.start + self.random.below(self.callable.len());
        format!("\"h{name}\"")
    }

    /// Commands with pipes between them; the last one gives what is wanted.
    fn pipeline(&mut self, sort: char, depth: usize) {
        if depth > 0 && self.chance(35) {
            // The value goes to the last argument of the next function.
            let functions = self.functions;
            let fitting: Vec<&Function> = functions
                .iter()
                .filter(|f| (sort == 'a' || f.result == sort || f.result == 'a') && f.name != "fromToml")
                .collect();
            if let Some(function) = (!fitting.is_empty()).then(|| fitting[self.random.below(fitting.len())]) {
                let last = function.arguments.last().map_or('a', |(sort, _)| *sort);
                self.pipeline(last, depth - 1);
                let pipe = self.random.pick(&[" | ", " | ", "|", " |\n  "]);
                self.out.push_str(pipe);
                self.out.push_str(function.name);
                for (sort, _) in function.arguments.iter().rev().skip(1).rev() {
                    self.out.push(' ');
                    self.argument(*sort, depth - 1);
                }
                return;
            }
        }
        self.command(sort, depth);
    }

    fn command(&mut self, sort: char, depth: usize) {
        if depth > 0 && self.chance(60) {
            return self.function(sort, depth);
        }
        self.operand(sort);
    }

    fn function(&mut self, sort: char, depth: usize) {
        let functions = self.functions;
        let wanted = if self.chance(3) { 'a' } else { sort };
        let fitting: Vec<&Function> = functions
            .iter()
            .filter(|f| wanted == 'a' || f.result == wanted)
            .collect();
        if fitting.is_empty() {
            return self.operand(sort);
        }
        let function = fitting[self.random.below(fitting.len())];
        self.out.push_str(function.name);
        for (sort, repeated) in &function.arguments {
            let count = if *repeated { self.random.below(4) } else { 1 };
            for _ in 0..count {
                self.out.push(' ');
                if matches!(function.name, "include" | "tpl") && *sort == 'a' && self.chance(80) {
                    self.out.push_str(if self.at_root { "." } else { "$" });
                    continue;
                }
                self.argument(*sort, depth - 1);
            }
        }
        if self.chance(2) {
            self.out.push(' ');
            self.argument('a', 0);
        }
    }

    fn argument(&mut self, sort: char, depth: usize) {
        let sort = if self.chance(2) && !"nT".contains(sort) {
            'a'
        } else {
            sort
        };
        if sort == 'N' {
            let name = self.define();
            self.out.push_str(&name);
        } else if sort == 'G' {
            self.template();
        } else if depth > 0 && self.chance(35) && !"nT".contains(sort) {
            self.out.push('(');
            self.pipeline(sort, depth);
            self.out.push(')');
            if sort == 'a' && self.chance(8) {
                self.out.push_str(".a");
            }
        } else {
            self.operand(sort);
        }
    }

    /// A template as text, for `tpl`.
    fn template(&mut self) {
        if self.nested > 1 || self.chance(20) {
            return self.out.push_str("\"{{ .Values.s }}\"");
        }
        let callable = self.callable.clone();
        let budget = 2;
        let mut inner = Grammar::new(self.random, self.functions, budget, callable);
        inner.nested = self.nested + 1;
        inner.at_root = self.at_root;
        inner.list(1);
        let text = inner.out;
        self.quote(&text);
    }

    fn quote(&mut self, text: &str) {
        if !text.contains('`') && self.chance(25) {
            let _ = write!(self.out, "`{text}`");
            return;
        }
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                '\n' => self.out.push_str("\\n"),
                '\0' => self.out.push_str("\\x00"),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn operand(&mut self, sort: char) {
        if sort == 'n' {
            let number = self.random.pick(&[
                "0", "1", "2", "3", "4", "5", "-1", "7", "-2", "10", "16", "0x3", "'\\x04'",
            ]);
            return self.out.push_str(number);
        }
        // The wording of TOML's errors is a parser's own.
        if sort == 'T' || "srpvcdyjuBDLPK".contains(sort) && self.chance(55) {
            let text = self.random.pick(samples(sort));
            return self.quote(text);
        }
        if self.variables.len() > 1 && self.chance(if sort == 'a' { 25 } else { 3 }) {
            let name = self.variables[self.random.below(self.variables.len())].clone();
            return self.out.push_str(&name);
        }
        let literal: &[&str] = match sort {
            'i' => &[
                "0",
                "1",
                "-1",
                "2",
                "42",
                "0x10",
                "1_000",
                "'a'",
                "017",
                "0b11",
                "9223372036854775807",
                "-9223372036854775808",
                "5",
                "100",
            ],
            'f' => &[
                "0.0", "1.5", "-2.5", "1e3", "0.1", "3.14159", "1e21", "-0.0", "1e-7", "2.5", "0x1p-2", "1.0",
            ],
            'b' => &["true", "false"],
            'l' => &[
                "(list 1 2 3)",
                "(list)",
                "(list \"a\" nil true)",
                "(list 1 1.0 \"1\" 1)",
                "(until 3)",
                "(list (list 1) (list))",
            ],
            't' => &[
                "(list \"b\" \"a\" \"c\")",
                "(splitList \",\" \"a,b,,c\")",
                "(list \"x\")",
                "(tuple \"é\" \"\")",
            ],
            'm' => &[
                "(dict)",
                "(dict \"a\" 1 \"b\" \"x\")",
                "(dict \"a\" (dict \"b\" nil))",
                "(dict \"c\" (list 1 2))",
            ],
            _ => &[
                "nil",
                "true",
                "1",
                "\"x\"",
                "0",
                "\"\"",
                "1.5",
                "(dict \"a\" 1)",
                "(list 1 \"a\")",
                "'x'",
            ],
        };
        let name: &[&str] = match sort {
            // A number of the values is a float, and no function takes one for an int.
            'i' if self.at_root && self.chance(30) => return self.out.push_str("(int .Values.n)"),
            'i' => return self.out.push('3'),
            'f' => &["n", "f"],
            'b' => &["b", "z", "s", "any", "null"],
            'l' => &["l", "ls", "lm", "el"],
            't' => &["ls", "ls", "el"],
            'm' => &["m", "k", "em", "m.a"],
            'a' => &[
                "s", "n", "b", "l", "m", "null", "any", "e", "zz", "m.a", "m.b", "m.zz", "lm", "k.c", "zz.y", "any.a.b",
            ],
            _ => &["s", "t", "u", "e", "ver", "m.b"],
        };
        if self.chance(35) {
            let text = self.random.pick(literal);
            self.out.push_str(text);
        } else if sort != 'a' || self.chance(70) {
            let root = if self.at_root {
                self.random.pick(&[".", ".", ".", "$."])
            } else {
                "$."
            };
            let name = self.random.pick(name);
            let _ = write!(self.out, "{root}Values.{name}");
        } else {
            let text = self.random.pick(&[
                ".Values.any",
                ".Values.lm",
                ".Values.k",
                ".a",
                ".Values",
                "$.Values",
                ".Release.Name",
                ".Chart.Name",
                ".Chart.Version",
                ".Template.Name",
                ".Capabilities.KubeVersion.Major",
                ".Files.Get \"x\"",
                ".Values.AsMap",
                ".Release",
                ".Chart.Maintainers",
                ".Capabilities.APIVersions.Has \"v1\"",
                ".Template.BasePath",
                ".Files",
                "$.Release.Service",
                ".zz",
            ]);
            if text.contains(' ') {
                let _ = write!(self.out, "({text})");
            } else {
                self.out.push_str(text);
            }
        }
    }
}
