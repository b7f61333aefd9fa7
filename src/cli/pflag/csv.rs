//! One record of comma-separated values, as Go's `encoding/csv` reads it.

/// The fields of the first record. An empty text has none.
///
/// # Errors
/// Go's text, with line and column (in bytes, from 1).
pub fn record(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let text = text.replace("\r\n", "\n");
    // `readLine` drops a carriage return at the end of the input.
    let text = text.strip_suffix('\r').unwrap_or(&text);
    let body = text.trim_start_matches('\n');
    let start = text.len() - body.len();
    if body.is_empty() {
        return Err("EOF".to_owned());
    }
    let mut fields = Vec::new();
    let mut position = start;
    loop {
        let rest = text.get(position..).unwrap_or_default();
        let (field, end) = match rest.strip_prefix('"') {
            Some(_) => quoted(text, position)?,
            None => {
                let end = rest.find([',', '\n']).unwrap_or(rest.len());
                let field = rest.get(..end).unwrap_or_default();
                if let Some(quote) = field.find('"') {
                    return Err(at(text, position + quote, "bare \" in non-quoted-field"));
                }
                (field.to_owned(), position + end)
            }
        };
        fields.push(field);
        match text.as_bytes().get(end) {
            Some(b',') => position = end + 1,
            _ => return Ok(fields),
        }
    }
}

/// The field whose opening quote is at `start`, and where what follows it begins.
fn quoted(text: &str, start: usize) -> Result<(String, usize), String> {
    const WRONG: &str = "extraneous or missing \" in quoted-field";
    let mut field = String::new();
    let mut position = start + 1;
    loop {
        let rest = text.get(position..).unwrap_or_default();
        let Some(quote) = rest.find('"') else {
            return Err(at(text, text.len(), WRONG));
        };
        field.push_str(rest.get(..quote).unwrap_or_default());
        position += quote + 1;
        match text.as_bytes().get(position) {
            Some(b'"') => {
                field.push('"');
                position += 1;
            }
            None | Some(b',' | b'\n') => return Ok((field, position)),
            Some(_) => return Err(at(text, position - 1, WRONG)),
        }
    }
}

fn at(text: &str, offset: usize, problem: &str) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count();
    let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
    let started = text.trim_start_matches('\n');
    let first = text.len() - started.len();
    if line == first {
        return format!("parse error on line {}, column {column}: {problem}", line + 1);
    }
    format!(
        "record on line {}; parse error on line {}, column {column}: {problem}",
        first + 1,
        line + 1
    )
}

#[cfg(test)]
mod tests {
    use super::record;

    #[test]
    fn fields_are_split_and_unquoted() {
        let table: [(&str, &[&str]); 7] = [
            ("a", &["a"]),
            ("a,,b ", &["a", "", "b "]),
            ("\"a,b\",\"c\"\"d\"", &["a,b", "c\"d"]),
            ("\"a\nb\"", &["a\nb"]),
            ("\n\na,b\nc", &["a", "b"]),
            (",", &["", ""]),
            ("", &[]),
        ];
        for (text, want) in table {
            assert_eq!(record(text).unwrap(), want, "{text:?}");
        }
    }

    #[test]
    fn stray_quotes_are_errors() {
        let table = [
            (
                "\"",
                "parse error on line 1, column 2: extraneous or missing \" in quoted-field",
            ),
            ("a,b\"c", "parse error on line 1, column 4: bare \" in non-quoted-field"),
            (
                "\"a\"b",
                "parse error on line 1, column 3: extraneous or missing \" in quoted-field",
            ),
            (
                "\"a\nb",
                "record on line 1; parse error on line 2, column 2: extraneous or missing \" in quoted-field",
            ),
        ];
        for (text, want) in table {
            assert_eq!(record(text).unwrap_err(), want, "{text:?}");
        }
    }
}
