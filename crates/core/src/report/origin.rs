//! Finds the template line or the value that a message of the operator names.

/// The longest place that is returned, in bytes.
const LONGEST: usize = 200;

/// The template with its line, `app/templates/web.yaml:3:5`, or the value, `.replicas`, that a message names.
pub(super) fn origin(message: &str) -> Option<String> {
    template(message).or_else(|| value(message))
}

/// The first path of a template. The last one is where the error is; the first one is where a person has to look first.
fn template(message: &str) -> Option<String> {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ')' | '<' | '>' | ',' | ';');
    let word = message
        .split(is_end)
        .find(|word| word.contains("templates/") && word.contains('.'))?;
    let word = word.trim_end_matches([':', '.']);
    (word.len() <= LONGEST).then(|| word.to_owned())
}

/// The value of a schema's error: `at '/replicas': got string, want integer`, or `values: .replicas: ...`.
fn value(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("at '/")?;
    let (path, _) = rest.split_once('\'')?;
    (!path.is_empty() && path.len() <= LONGEST).then(|| format!("the value .{}", path.replace('/', ".")))
}
