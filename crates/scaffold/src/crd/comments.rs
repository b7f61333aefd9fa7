//! What the comments of a `values.yaml` say of its keys: plain ones above a key or behind its value, helm-docs' `# --`,
//! bitnami's `## @param`.

use std::collections::HashMap;

/// What is said of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comment {
    pub text: String,
    /// `string`, `array` and so on, where the author names a type.
    pub kind: Option<String>,
}

/// The comments of one file.
pub struct Comments<'t> {
    lines: Vec<&'t str>,
    /// Those that name their key, by its dotted path.
    by_path: HashMap<String, Comment>,
}

/// What begins a line that is example or reference, not description.
const ASIDES: [&str; 9] = [
    "ref:", "e.g", "example", "ref.", "refs:", "see:", "@schema", "@ignored", "@section",
];

impl<'t> Comments<'t> {
    pub fn read(text: &'t str) -> Self {
        let lines: Vec<&str> = text.lines().collect();
        let mut by_path = HashMap::new();
        for (number, line) in lines.iter().enumerate() {
            if let Some((path, comment)) = param(line).or_else(|| detached(&lines, number)) {
                by_path.entry(path).or_insert(comment);
            }
        }
        Comments { lines, by_path }
    }

    /// What is said of the key at a line, counted from 1, and a dotted path.
    pub fn of(&self, path: &str, line: usize) -> Comment {
        if let Some(comment) = self.by_path.get(path) {
            return comment.clone();
        }
        let above = self.above(line);
        if above.text.is_empty() {
            Comment {
                text: self.behind(line),
                ..above
            }
        } else {
            above
        }
    }

    /// The comment whose lines end right above a key, with its indentation.
    fn above(&self, line: usize) -> Comment {
        let own = self.lines.get(line - 1).copied().unwrap_or_default();
        let indent = |line: &str| line.len() - line.trim_start().len();
        let block: Vec<&str> = self.lines[..line - 1]
            .iter()
            .rev()
            .take_while(|above| above.trim_start().starts_with('#') && indent(above) == indent(own))
            .map(|above| above.trim())
            .collect();
        let block: Vec<&str> = block.into_iter().rev().collect();
        match block.iter().rposition(|line| helm_docs(line).is_some()) {
            // A detached one is another key's.
            Some(start) => match helm_docs(block[start]) {
                Some(("", _)) => attached(&block[start..]),
                _ => Comment::default(),
            },
            None if block
                .iter()
                .any(|line| line.contains("@param") || line.contains("@extra")) =>
            {
                Comment::default()
            }
            None => plain(&block),
        }
    }

    /// The comment behind a value.
    fn behind(&self, line: usize) -> String {
        let own = self.lines.get(line - 1).copied().unwrap_or_default();
        let mut quote = None;
        let mut before = ' ';
        for (at, c) in own.char_indices() {
            match (c, quote) {
                ('"' | '\'', None) if before == ' ' => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                ('#', None) if before.is_whitespace() && at > 0 => {
                    let text = own[at..].trim_start_matches('#').trim();
                    return text.trim_start_matches("-- ").to_owned();
                }
                _ => {}
            }
            before = c;
        }
        String::new()
    }
}

/// `## @param path [modifiers] Text`.
fn param(line: &str) -> Option<(String, Comment)> {
    let rest = line
        .trim_start()
        .strip_prefix('#')?
        .trim_start_matches('#')
        .trim_start();
    let rest = rest
        .strip_prefix("@param ")
        .or_else(|| rest.strip_prefix("@extra "))?
        .trim_start();
    let (path, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let rest = rest.trim();
    let (modifiers, text) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((modifiers, text)) => (modifiers, text.trim()),
        None => ("", rest),
    };
    let kinds = ["string", "array", "object", "boolean", "number", "integer"];
    let kind = modifiers.split(',').map(str::trim).find(|word| kinds.contains(word));
    let comment = Comment {
        text: text.to_owned(),
        kind: kind.map(str::to_owned),
    };
    Some((path.to_owned(), comment))
}

/// The path, if there is one, and the text of a line of helm-docs: `# -- text`, `# path -- text`.
fn helm_docs(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start_matches('#');
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    if rest == "--" {
        return Some(("", ""));
    }
    if let Some(text) = rest.strip_prefix("-- ") {
        return Some(("", text.trim()));
    }
    let (path, text) = rest.split_once(" -- ")?;
    let is_path = !path.is_empty() && path.chars().all(|c| c.is_alphanumeric() || "._-\"/".contains(c));
    is_path.then(|| (path, text.trim()))
}

/// A comment of helm-docs that names its key: `# path -- text`, with the lines below it.
fn detached(lines: &[&str], number: usize) -> Option<(String, Comment)> {
    let (path, _) = helm_docs(lines[number]).filter(|(path, _)| !path.is_empty())?;
    let is_comment = |line: &&&str| line.trim_start().starts_with('#');
    let block: Vec<&str> = lines[number..].iter().take_while(is_comment).copied().collect();
    let following = block[1..].iter().take_while(|line| helm_docs(line).is_none()).count();
    Some((path.replace('"', ""), attached(&block[..=following])))
}

/// The text of a comment of helm-docs that begins with this line, and its type: `# -- (string) text`.
fn attached(block: &[&str]) -> Comment {
    let Some((first, rest)) = block.split_first() else {
        return Comment::default();
    };
    let mut text = helm_docs(first).map(|(_, text)| text).unwrap_or_default().to_owned();
    let mut kind = None;
    if let Some((named, after)) = text.strip_prefix('(').and_then(|text| text.split_once(')'))
        && named.chars().all(|c| c.is_alphanumeric() || "/_-".contains(c))
    {
        kind = Some(named.to_owned());
        text = after.trim().to_owned();
    }
    for line in rest {
        let line = bare(line);
        if line.starts_with('@') {
            continue;
        }
        if is_aside(line) {
            break;
        }
        text = format!("{text} {line}").trim().to_owned();
    }
    Comment { text, kind }
}

/// The text of a comment without a form: its paragraph that stands last, up to where examples begin.
fn plain(block: &[&str]) -> Comment {
    let lines: Vec<&str> = block.iter().map(|line| bare(line)).collect();
    let is_rule = |line: &str| line.is_empty() || line.chars().all(|c| "-=*#~_+".contains(c));
    let is_text = |line: &&&str| !is_rule(line) && !is_aside(line) && !line.starts_with('@');
    let mut paragraphs = lines.split(|line| is_rule(line)).filter(|lines| !lines.is_empty());
    let text = paragraphs.find_map(|lines| {
        let text: Vec<&str> = lines.iter().take_while(is_text).copied().collect();
        (!text.is_empty()).then(|| text.join(" "))
    });
    Comment {
        text: text.unwrap_or_default(),
        kind: None,
    }
}

fn bare(line: &str) -> &str {
    line.trim().trim_start_matches('#').trim()
}

/// A line that is an example or a reference: values that are commented out, links, annotations of other tools.
fn is_aside(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    if ASIDES.iter().any(|word| lower.starts_with(word)) || line.starts_with("- ") || line.starts_with("http") {
        return true;
    }
    let Some((key, rest)) = line.split_once(':') else {
        return false;
    };
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "._-/\"'".contains(c));
    let is_word = [
        "note",
        "default",
        "warning",
        "important",
        "todo",
        "caution",
        "deprecated",
        "optional",
        "required",
    ];
    is_key && (rest.is_empty() || rest.starts_with(' ')) && !is_word.contains(&key.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_in_all_their_forms() {
        let text = "\
# Number of servers, 1 to 5.
# Clients spread their keys.
size: 1
# -- (int) The port
# that is listened on.
# @default -- 80
port: 80
## @param auth.password [string, default: x] The password
## @param auth.user The user
## ref: https://example.com
##
auth:
  password: ''
  user: # the name
  tls: true # Use TLS

# image.tag -- Another tag
image:
  # repository: other
  tag: 'a # b'
  # ------
  # Pull policy
  # ref: https://x
  # a: b
  policy: x
";
        let comments = Comments::read(text);
        let line = |start: &str| {
            1 + text
                .lines()
                .position(|line| line.trim_start().starts_with(start))
                .unwrap()
        };
        for (path, key, expected, kind) in [
            (
                "size",
                "size:",
                "Number of servers, 1 to 5. Clients spread their keys.",
                None,
            ),
            ("port", "port:", "The port that is listened on.", Some("int")),
            ("auth.password", "password:", "The password", Some("string")),
            ("auth.user", "user:", "The user", None),
            ("auth", "auth:", "", None),
            ("auth.tls", "tls:", "Use TLS", None),
            ("image", "image:", "", None),
            ("image.tag", "tag:", "Another tag", None),
            ("x.tag", "tag:", "", None),
            ("image.policy", "policy:", "Pull policy", None),
        ] {
            let comment = comments.of(path, line(key));
            assert_eq!(
                (comment.text.as_str(), comment.kind.as_deref()),
                (expected, kind),
                "{path}"
            );
        }
    }
}
