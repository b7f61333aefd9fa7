//! The place in a template that an error is about: the source line with a caret below, for standard error.

use helm_template::chart::Chart;

/// The most that is shown of a source line, in characters.
const WIDTH: usize = 120;

/// The excerpt for the deepest place that an error text names, ready to be printed; nothing if it names none.
///
/// Only template sources are shown, never values.
pub fn excerpt(chart: &Chart, text: &str) -> Option<String> {
    let (name, line, column) = places(text).last()?;
    let source = template(chart, chart.name(), &name)?;
    let source = String::from_utf8_lossy(source);
    let shown = source.lines().nth(line.checked_sub(1)?)?.trim_end();
    let place = column.map_or_else(String::new, |column| format!(":{column}"));
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let mut out = format!("{margin} --> {name}:{line}{place}\n{margin} |\n{number} | ");
    // Go counts bytes.
    let at = column.map(|column| shown.char_indices().take_while(|(byte, _)| *byte < column).count());
    let start = at.map_or(0, |at| at.saturating_sub(WIDTH * 2 / 3));
    let part: String = shown.chars().skip(start).take(WIDTH).map(plain).collect();
    out.push_str(part.trim_end());
    out.push('\n');
    if let Some(at) = at {
        out.push_str(&format!("{margin} | {}^\n", " ".repeat(at - start)));
    }
    Some(out)
}

/// Tabs and control characters would move the caret, or do worse to a terminal.
fn plain(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// All `name:line` and `name:line:column` in a text, in their order.
fn places(text: &str) -> impl DoubleEndedIterator<Item = (String, usize, Option<usize>)> {
    text.split([' ', '(', ')', '\n', '"', ','])
        .filter_map(|word| {
            let mut parts = word.trim_end_matches(':').split(':');
            let name = parts.next().filter(|name| name.contains("/templates/"))?;
            let line = parts.next()?.parse().ok()?;
            let column = parts.next().and_then(|column| column.parse().ok());
            Some((name.to_owned(), line, column))
        })
        .collect::<Vec<_>>()
        .into_iter()
}

/// The source of a template, by the name that errors have for it. Aliases of charts are not followed.
fn template<'c>(chart: &'c Chart, path: &str, name: &str) -> Option<&'c [u8]> {
    let rest = name.strip_prefix(path)?.strip_prefix('/')?;
    if let Some(file) = chart.templates.iter().find(|file| file.name == rest) {
        return Some(&file.data);
    }
    chart
        .dependencies
        .iter()
        .find_map(|child| template(child, &format!("{path}/charts/{}", child.name()), name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helm_template::chart::File;

    fn chart() -> Chart {
        let mut child = Chart::default();
        child.metadata.name = "sub".to_owned();
        let file = |name: &str, data: &str| File {
            name: name.to_owned(),
            data: data.as_bytes().into(),
        };
        child.templates = vec![file("templates/_x.tpl", "{{ define \"x\" }}\n\té: {{ fail \"no\" }}\n")];
        let mut chart = Chart::default();
        chart.metadata.name = "web".to_owned();
        let long = format!("a: {}{{{{ nope }}}}{}", "x".repeat(500), "y".repeat(500));
        chart.templates = vec![
            file("templates/a.yaml", "a: 1\nb: {{ .Values.x. }}\n"),
            file("templates/b.yaml", &long),
        ];
        chart.dependencies = vec![child];
        chart
    }

    #[test]
    fn the_deepest_place_is_shown() {
        let table = [
            (
                "parse error at (web/templates/a.yaml:2): bad character",
                Some("  --> web/templates/a.yaml:2\n  |\n2 | b: {{ .Values.x. }}\n"),
            ),
            (
                "web/templates/a.yaml:1:3\n  executing \"web/templates/a.yaml\" at <include>:\n    error calling include:\n\
                 web/charts/sub/templates/_x.tpl:2:8\n  no",
                Some("  --> web/charts/sub/templates/_x.tpl:2:8\n  |\n2 |  é: {{ fail \"no\" }}\n  |        ^\n"),
            ),
            ("execution error at (web/templates/none.yaml:1:1): x", None),
            ("web/templates/a.yaml:99:1: x", None),
            ("no place at all", None),
        ];
        for (text, want) in table {
            assert_eq!(excerpt(&chart(), text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let shown = excerpt(&chart(), "web/templates/b.yaml:1:506").unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH + 4), "{shown}");
        let at = lines[3].find('^').unwrap();
        assert!(lines[2][at..].starts_with("nope }}"), "{shown}");
    }
}
