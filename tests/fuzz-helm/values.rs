//! Random values: strings with every trap that YAML knows, numbers at the edges of their forms, empty and odd keys.

use serde_json::{Map, Number, Value};

use crate::random::Random;

/// What is more than text to some YAML reader, or nearly so.
pub const SCALARS: &[&str] = &[
    "",
    " ",
    "a",
    "abc",
    "y",
    "Y",
    "n",
    "N",
    "yes",
    "No",
    "on",
    "Off",
    "OFF",
    "oN",
    "true",
    "True",
    "tRUE",
    "false",
    "null",
    "Null",
    "NULL",
    "nUll",
    "~",
    "0",
    "1",
    "-1",
    "+1",
    "007",
    "08",
    "0o17",
    "0O17",
    "-0o7",
    "+0o7",
    "0x1F",
    "0X1f",
    "-0x1",
    "0b101",
    "0B1",
    "-0b11",
    "0b-1",
    "1_000",
    "_1",
    "1_",
    "1__0",
    "0_7",
    "0x_f",
    "1.5",
    "1.",
    ".5",
    "-.5",
    "+.5",
    ".",
    "..",
    "...",
    "-",
    "--",
    "---",
    "--- a",
    "... b",
    "+",
    "1e3",
    "1E3",
    "1e+3",
    "1e-3",
    "12e03",
    "1e",
    "e3",
    "1e400",
    "-1e400",
    "1e-400",
    "0.1e-6",
    "1.2.3",
    "0.0.0.0",
    "1:20",
    "1:2",
    "12:30:45",
    "-190:20:30",
    "190:20:30.15",
    "1:60",
    "0:0",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "-9223372036854775809",
    "0x8000000000000000",
    "01777777777777777777777",
    ".inf",
    "-.inf",
    "+.Inf",
    ".INF",
    ".nan",
    ".NaN",
    "NaN",
    "inf",
    "Infinity",
    "+Inf",
    "0x1p4",
    "0x1.8p1",
    "1_0.5",
    "._5",
    "1e1_0",
    ".1_0",
    "2001-01-01",
    "2001-1-1",
    "2001-13-01",
    "2001-02-30",
    "2001-12-14t21:59:43.10-05:00",
    "2001-12-14 21:59:43",
    "2001-12-15T02:59:43Z",
    "2001-12-14 21:59:43.10 -5",
    "2001-01-01T00:00:00.123456789Z",
    "<<",
    "=",
    "!",
    "!!str",
    "!a",
    "&a",
    "*a",
    "%a",
    "@a",
    "`a",
    "|",
    ">",
    "|-",
    "#",
    "# a",
    "a # b",
    "a #b",
    "a# b",
    ":",
    ": a",
    "a:",
    "a: b",
    "a:b",
    "::",
    "-a",
    "- a",
    "?",
    "? a",
    "?a",
    "[",
    "]",
    "{",
    "}",
    "[a]",
    "{a}",
    "[a",
    "a]",
    ",",
    ",a",
    "a,b",
    "a, b",
    "'",
    "''",
    "'a'",
    "it's",
    "\"",
    "\"a\"",
    "a\"b",
    "\\",
    "a\\b",
    "\\n",
    "a\\",
    "\t",
    "\ta",
    "a\t",
    "a\tb",
    "a\t# b",
    "\n",
    "\n\n",
    "a\n",
    "a\nb",
    "\na",
    " a",
    "a ",
    "  a  ",
    "a  b",
    " \n",
    "\n ",
    "a \nb",
    "a\n b",
    " a\nb",
    "a\n\nb",
    "a\nb\n",
    "a\nb\n\n",
    "a\n\tb",
    "\ta\nb",
    "a\n\n\n",
    "a\n ",
    "a\r\nb",
    "a\rb",
    "\r",
    "\r\n",
    "\0",
    "\x01",
    "\x07",
    "\x08",
    "\x0b",
    "\x0c",
    "\x1b",
    "\x1f",
    "\x7f",
    "\u{80}",
    "\u{85}",
    "a\u{85}b",
    "\u{a0}",
    "a\u{a0}b",
    "\u{ad}",
    "é",
    "ß",
    "ж",
    "日本語",
    "\u{200b}",
    "\u{200d}",
    "\u{2028}",
    "a\u{2028}b",
    "\u{2029}",
    "a\u{2029}",
    "\u{d7ff}",
    "\u{e000}",
    "\u{feff}",
    "\u{feff}a",
    "a\u{feff}b",
    "\u{fffd}",
    "\u{fffe}",
    "\u{ffff}",
    "😀",
    "a😀b",
    "😀\nb",
    "\u{10ffff}",
    "e\u{301}",
    "{{ .Values.a }}",
    "{{",
    "$(FOO)",
    "<tag>",
    "a & b",
    "http://a/b?c=d&e",
    "a=b",
    "key: [1, 2]",
    "100m",
    "1Gi",
    "1.10",
    "v1.2.3",
    "0644",
    "nginx:1.25",
    "a/b",
    "*",
    "/*",
    "5 * * * *",
    "@daily",
    "-n",
    "--flag=x",
    "#!/bin/sh\nset -e\n",
    "line one\n  indented\nlast",
    "٣",
    "１２",
    "1e５",
];

/// Pieces that keys are made of, where the order of keys has its traps.
const KEY_PARTS: &[&str] = &[
    "a",
    "b",
    "A",
    "Z",
    "0",
    "1",
    "2",
    "9",
    "10",
    "00",
    "01",
    "-",
    "_",
    ".",
    "/",
    " ",
    "é",
    "٣",
    "x",
    "日",
    "~",
    "1000000000000000000000",
];

const WORDS: &[&str] = &[
    "a",
    "the",
    "word",
    "longer",
    "something-else",
    "x:",
    "#1",
    "it's",
    "\"q\"",
    "é",
    "日本",
    "a\u{a0}b",
    "-",
    "--flag=1",
    "{{",
    "}}",
    "'",
    "\\",
    "😀",
    "verylongwordwithoutanyspaceinside",
];

pub fn string(random: &mut Random) -> String {
    match random.below(12) {
        0..=5 => random.pick(SCALARS).to_owned(),
        6..=7 => {
            let mut text = String::new();
            for _ in 0..1 + random.below(4) {
                text.push_str(random.pick(SCALARS));
            }
            text
        }
        8..=9 => prose(random),
        10 => {
            let lines = 1 + random.below(4);
            let mut text = String::new();
            for _ in 0..lines {
                text.push_str(&" ".repeat(if random.chance(70) { 0 } else { random.below(4) }));
                text.push_str(&prose(random));
                text.push_str(random.pick(&["\n", "\n", "\n\n", " \n", "\r\n", ""]));
            }
            text
        }
        _ => (0..random.below(6)).map(|_| character(random)).collect(),
    }
}

/// Words, often beyond the column where lines are folded.
fn prose(random: &mut Random) -> String {
    let mut text = String::new();
    let length = random.below(30);
    for at in 0..length {
        if at > 0 {
            text.push_str(if random.chance(92) {
                " "
            } else {
                random.pick(&["  ", "   ", "\t", "\u{2028}", "\u{85}"])
            });
        }
        text.push_str(if random.chance(70) {
            random.pick(&WORDS[..5])
        } else {
            random.pick(WORDS)
        });
    }
    text
}

fn character(random: &mut Random) -> char {
    let code = match random.below(10) {
        0..=4 => 0x20 + random.below(0x60),
        5 => random.below(0x20),
        6 => 0x7f + random.below(0x40),
        7 => 0x2000 + random.below(0x80),
        8 => random.below(0x1_0000),
        _ => random.below(0x11_0000),
    };
    char::from_u32(code as u32).unwrap_or('x')
}

fn key(random: &mut Random) -> String {
    match random.below(10) {
        0..=3 => (0..random.below(4)).map(|_| random.pick(KEY_PARTS)).collect(),
        4..=6 => random
            .pick(&["name", "image", "port", "a", "b", "c", "item1", "item2", "item10"])
            .to_owned(),
        7 => format!("{}{}", random.pick(KEY_PARTS), "k".repeat(random.below(140))),
        _ => string(random),
    }
}

pub fn number(random: &mut Random) -> Number {
    let float = match random.below(8) {
        0 => random.below(100) as f64,
        1 => -(random.below(1_000_000_000) as f64),
        2 => (random.below(2_000_000) as f64 - 1_000_000.0) / 8.0,
        3 => 10f64.powi(random.below(50) as i32 - 20),
        4 => random.below(1000) as f64 * 10f64.powi(random.below(30) as i32 - 12),
        5 => f64::from_bits(random.bits()),
        6 => (random.bits() >> random.below(64)) as f64,
        _ => [
            0.0,
            -0.0,
            0.1,
            1e6,
            1e5,
            999_999.5,
            1e21,
            1e20,
            9.2e18,
            9_223_372_036_854_775_807.0,
            1e-5,
            1e-7,
            5e-324,
            f64::MAX,
        ][random.below(14)],
    };
    Number::from_f64(float).unwrap_or_else(|| Number::from_f64(1.5).unwrap())
}

/// A value of at most `depth` levels; numbers are floats, as Helm has them.
pub fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 8 } else { 14 }) {
        0 => Value::Null,
        1 => Value::Bool(random.chance(50)),
        2 => Value::Number(number(random)),
        3..=7 => Value::String(string(random)),
        8..=10 => {
            let count = if random.chance(15) { 0 } else { random.below(5) };
            Value::Array((0..count).map(|_| value(random, depth - 1)).collect())
        }
        _ => {
            let count = if random.chance(10) {
                random.below(30)
            } else {
                random.below(5)
            };
            let depth = if count > 8 { 0 } else { depth - 1 };
            Value::Object((0..count).map(|_| (key(random), value(random, depth))).collect())
        }
    }
}

/// Values for a chart: each key that the templates of this program use, of its kind most of the time.
pub fn chart_values(random: &mut Random) -> Map<String, Value> {
    let mut values = Map::new();
    let text = |random: &mut Random| {
        Value::String(if random.chance(60) {
            string(random)
        } else {
            random.pick(&["x", "foo", "Foo Bar", "a-b_c", "b"]).to_owned()
        })
    };
    for name in ["s", "t", "u"] {
        values.insert(name.to_owned(), text(random));
    }
    for name in ["n", "f"] {
        let small = random
            .chance(50)
            .then(|| Number::from_f64(random.below(9) as f64).unwrap());
        values.insert(name.to_owned(), Value::Number(small.unwrap_or_else(|| number(random))));
    }
    values.insert("b".to_owned(), Value::Bool(random.chance(70)));
    values.insert("z".to_owned(), Value::Bool(false));
    values.insert("null".to_owned(), Value::Null);
    values.insert("e".to_owned(), Value::String(String::new()));
    values.insert("el".to_owned(), Value::Array(Vec::new()));
    values.insert("em".to_owned(), Value::Object(Map::new()));
    let strings = (0..random.below(5)).map(|_| text(random)).collect();
    values.insert("ls".to_owned(), Value::Array(strings));
    let list = (0..random.below(5)).map(|_| value(random, 1)).collect();
    values.insert("l".to_owned(), Value::Array(list));
    let entry = |random: &mut Random| {
        let pairs = [("a", value(random, 1)), ("b", text(random)), ("c", value(random, 0))];
        Value::Object(
            pairs
                .into_iter()
                .filter(|_| random.chance(75))
                .map(|(k, v)| (k.to_owned(), v))
                .collect(),
        )
    };
    values.insert("m".to_owned(), entry(random));
    values.insert("k".to_owned(), entry(random));
    let maps = (0..random.below(4)).map(|_| entry(random)).collect();
    values.insert("lm".to_owned(), Value::Array(maps));
    values.insert("any".to_owned(), value(random, 3));
    values.insert(
        "ver".to_owned(),
        Value::String(
            random
                .pick(&["1.2.3", "v1.29.0-gke.1", "1.2", "0.0.1-alpha.1+b", "x", ""])
                .to_owned(),
        ),
    );
    values
}
