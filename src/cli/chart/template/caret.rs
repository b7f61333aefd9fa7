//! The source line of an error in a template, with a caret below, for standard error.

use helm_template::Chart;
use helm_template::render::TemplatePlace;

/// Maximum length of a printed source line, in characters.
const WIDTH: usize = 120;

/// Formats the source line of a place. Returns `None` if the place is in no template of the chart. Does not resolve chart aliases.
///
/// Shows template sources only, never values.
pub fn format_excerpt(chart: &Chart, place: &TemplatePlace) -> Option<String> {
    let source = chart.template(&place.file)?.data.to_text();
    let shown = source.lines().nth(place.line.checked_sub(1)?)?.trim_end();
    let column = place.column;
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let mut out = format!("{margin} --> {place}\n{margin} |\n{number} | ");
    // Columns are byte offsets, as in Go.
    let at = column.map(|column| shown.char_indices().take_while(|(byte, _)| *byte < column).count());
    let start = at.map_or(0, |at| at.saturating_sub(WIDTH * 2 / 3));
    let part: String = shown.chars().skip(start).take(WIDTH).map(replace_control).collect();
    out.push_str(part.trim_end());
    out.push('\n');
    if let Some(at) = at {
        out.push_str(&format!("{margin} | {}^\n", " ".repeat(at - start)));
    }
    Some(out)
}

/// Replaces tabs and control characters, which would move the caret or control the terminal.
fn replace_control(c: char) -> char {
    if c.is_control() { ' ' } else { c }
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

    fn place(file: &str, line: usize, column: Option<usize>) -> TemplatePlace {
        let file = file.to_owned();
        TemplatePlace { file, line, column }
    }

    #[test]
    fn the_line_is_shown_with_a_caret() {
        let table = [
            (
                "web/templates/a.yaml",
                (2, None),
                Some("  --> web/templates/a.yaml:2\n  |\n2 | b: {{ .Values.x. }}\n"),
            ),
            (
                "web/charts/sub/templates/_x.tpl",
                (2, Some(8)),
                Some("  --> web/charts/sub/templates/_x.tpl:2:8\n  |\n2 |  é: {{ fail \"no\" }}\n  |        ^\n"),
            ),
            ("web/templates/none.yaml", (1, Some(1)), None),
            ("web/templates/a.yaml", (99, Some(1)), None),
        ];
        for (file, (line, column), want) in table {
            assert_eq!(
                format_excerpt(&chart(), &place(file, line, column)).as_deref(),
                want,
                "{file}"
            );
        }
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let shown = format_excerpt(&chart(), &place("web/templates/b.yaml", 1, Some(506))).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH + 4), "{shown}");
        let at = lines[3].find('^').unwrap();
        assert!(lines[2][at..].starts_with("nope }}"), "{shown}");
    }
}
