//! `fromToml`, over the crate `toml`.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::gostd::time::RFC3339;
use crate::gostd::time_parse;
use go_template::meter::Meter;
use go_template::value::{Entries, Str, Value};

/// The most memory that a byte of a document takes while it is read: a short table is a node of a B-tree.
const BYTE: u64 = 400;
/// The memory of a value.
const NODE: u64 = 80;

/// The layouts of dates and times. Those without an offset are in the local zone.
const LAYOUTS: [&str; 4] = [RFC3339, "2006-01-02T15:04:05", "2006-01-02", "15:04:05"];

/// Reads a document: whole numbers are `int64`, dates and times are times.
///
/// # Errors
/// The error and its line.
pub(crate) fn read(meter: &Meter, input: &[u8]) -> Result<Value, String> {
    meter.has_room(input.len() as u64 * BYTE)?;
    let text = std::str::from_utf8(input).map_err(|_| "toml: the text is not UTF-8")?;
    let flaw = |at: usize, what: &str| {
        let line = 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        format!("toml: line {line}: {what}")
    };
    let document = DeTable::parse(text).map_err(|e| flaw(e.span().map_or(0, |span| span.start), e.message()))?;
    table(meter, document.get_ref()).map_err(|(at, what)| flaw(at, what))
}

/// The place of an error in the text, and the error.
type Flaw = (usize, &'static str);

fn table(meter: &Meter, table: &DeTable<'_>) -> Result<Value, Flaw> {
    let mut entries = Entries::new();
    for (key, item) in table {
        let _ = meter.spend(NODE + key.get_ref().len() as u64);
        entries.insert(Str::from(key.get_ref().as_ref()), value(meter, item)?);
    }
    Ok(Value::map(entries))
}

fn value(meter: &Meter, found: &Spanned<DeValue<'_>>) -> Result<Value, Flaw> {
    let _ = meter.spend(NODE);
    let at = found.span().start;
    Ok(match found.get_ref() {
        DeValue::String(text) => {
            let _ = meter.spend(text.len() as u64);
            Value::string(text.as_ref())
        }
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix());
            Value::Int64(number.map_err(|_| (at, "the number is out of range for int64"))?)
        }
        DeValue::Float(number) => {
            let parsed: f64 = number.as_str().parse().map_err(|_| (at, "invalid float"))?;
            if parsed.is_infinite() && !number.as_str().contains("inf") {
                return Err((at, "the number is out of range for float64"));
            }
            Value::Float64(parsed)
        }
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(time) => {
            let text = time.to_string();
            let mut layouts = LAYOUTS.iter();
            let read = layouts.find_map(|layout| time_parse::parse(layout.as_bytes(), text.as_bytes()).ok());
            read.ok_or((at, "the date is out of range"))?.into_value()
        }
        DeValue::Array(items) => Value::list(items.iter().map(|item| value(meter, item)).collect::<Result<_, _>>()?),
        DeValue::Table(inner) => table(meter, inner)?,
    })
}

#[cfg(test)]
mod tests {
    use crate::helm::functions::toml_read::*;
    use go_template::meter::Overrun;

    #[test]
    fn says_in_which_line_it_is_broken() {
        for (text, line) in [
            ("a = ", 1),
            ("a = 1\na = 2\n", 2),
            ("\n\nb = 99999999999999999999", 3),
            ("[a", 1),
        ] {
            let found = read(&Meter::default(), text.as_bytes()).err().unwrap();
            assert!(found.starts_with(&format!("toml: line {line}: ")), "{text:?}: {found}");
        }
        assert!(read(&Meter::default(), b"a = \"\xff\"").is_err());
    }

    #[test]
    fn deep_texts_and_large_ones_are_refused() {
        for deep in ["a=".to_owned() + &"[".repeat(100_000), "a.".repeat(100_000) + "b=1"] {
            assert!(read(&Meter::default(), deep.as_bytes()).is_err());
        }
        let meter = Meter::new(1 << 20, None);
        assert!(read(&meter, b"a = 1").is_ok());
        assert!(read(&meter, &b"a.b = 1\n".repeat(1_000)).is_err_and(|text| text == String::from(Overrun::Memory)));
    }
}
