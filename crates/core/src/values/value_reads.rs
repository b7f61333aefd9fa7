//! Finds the values that a chart's templates read. When in doubt, a value counts as read.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use go_template::commands::{self, TemplateCommand, Word};
use regex::Regex;

use crate::pattern;
use helm_template::chart::{Chart, File};
use helm_template::handlebars::is_handlebars;

/// Functions that take something and the name of what is in it.
const GETTERS: [&str; 6] = ["index", "get", "hasKey", "set", "unset", "required"];

/// What is read.
#[derive(Debug, Default)]
pub struct ValueReads {
    /// All of them: they are passed on completely.
    everything: bool,
    /// What lies there, and all below.
    paths: BTreeSet<Vec<String>>,
    /// Words in Handlebars templates, each of which may be a name.
    words: BTreeSet<String>,
}
impl ValueReads {
    /// What a chart reads. `None` if a template can't be parsed.
    pub fn of(chart: &Chart) -> Option<Self> {
        let mut reads = ValueReads::default();
        reads.add_chart(chart, true)?;
        for dependency in &chart.metadata.dependencies {
            for condition in dependency.condition.split(',') {
                reads
                    .paths
                    .insert(condition.trim().split('.').map(str::to_owned).collect());
            }
        }
        Some(reads)
    }

    fn add_chart(&mut self, chart: &Chart, is_root: bool) -> Option<()> {
        for file in &chart.templates {
            self.add_template(file, is_root)?;
        }
        // Of a subchart, only what it defines may be called with these values.
        let is_read = |file: &&File| is_root && !file.name.ends_with(".md");
        for file in chart.files.iter().filter(is_read) {
            self.add_text(&String::from_utf8_lossy(file.data.as_bytes()));
        }
        if is_root {
            self.add_texts(&serde_json::Value::Object(chart.values.to_json()));
        }
        chart
            .dependencies
            .iter()
            .try_for_each(|chart| self.add_chart(chart, false))
    }

    fn add_template(&mut self, file: &File, is_root: bool) -> Option<()> {
        if is_handlebars(&file.name) {
            static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Za-z_][A-Za-z0-9_-]*"));
            let text = String::from_utf8_lossy(file.data.as_bytes());
            self.words
                .extend(WORD.find_iter(&text).map(|word| word.as_str().to_owned()));
            return Some(());
        }
        for command in commands::commands(&file.name, &file.data).ok()? {
            let is_global = |path: &Vec<String>| path.first().is_some_and(|first| first == "global");
            let mut found = ValueReads::default();
            found.add_command(&command);
            if !is_root && !command.is_defined {
                found.everything = false;
                found.paths.retain(is_global);
            }
            self.everything |= found.everything;
            self.paths.extend(found.paths);
        }
        Some(())
    }

    fn add_command(&mut self, command: &TemplateCommand) {
        for (at, word) in command.words.iter().enumerate() {
            match word {
                Word::Path(names) => {
                    let Some(start) = names.iter().position(|name| name == "Values") else {
                        continue;
                    };
                    let mut path = names[start + 1..].to_vec();
                    path.extend(keys(&command.words, at));
                    self.add(path);
                }
                Word::Text(text) if text == "Values" => self.everything = true,
                Word::Text(text) => self.add_text(text),
                Word::Function(_) | Word::Other => {}
            }
        }
    }

    fn add(&mut self, path: Vec<String>) {
        if path.is_empty() {
            self.everything = true
        } else {
            self.paths.insert(path);
        }
    }

    /// A text that may become a template.
    fn add_text(&mut self, text: &str) {
        static READ: LazyLock<Regex> = LazyLock::new(|| pattern(r"\.Values((?:\.[A-Za-z0-9_]+)*)"));
        if !text.contains("{{") {
            return;
        }
        for found in READ.captures_iter(text) {
            let path = found.get(1).map_or("", |path| path.as_str());
            self.add(path.split('.').skip(1).map(str::to_owned).collect());
        }
    }

    fn add_texts(&mut self, value: &serde_json::Value) {
        match value {
            serde_json::Value::String(text) => self.add_text(text),
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.add_texts(item)),
            serde_json::Value::Object(fields) => fields.values().for_each(|field| self.add_texts(field)),
            _ => {}
        }
    }

    /// Whether something reads what lies at this path, or around it.
    pub fn whole(&self, path: &[String]) -> bool {
        let is_word = path.last().is_some_and(|last| self.words.contains(last));
        let mut around = (1..=path.len()).map(|length| &path[..length]);
        self.everything || is_word || around.any(|path| self.paths.contains(path))
    }

    /// Whether something reads a part of what lies at this path.
    pub fn part(&self, path: &[String]) -> bool {
        let mut following = self.paths.range(path.to_vec()..);
        following.next().is_some_and(|read| read.starts_with(path))
    }
}

/// The names that a function takes out of its argument at `at`.
fn keys(words: &[Word], at: usize) -> Vec<String> {
    let texts = |words: &[Word]| {
        let texts = words.iter().map_while(|word| match word {
            Word::Text(text) => Some(text.clone()),
            _ => None,
        });
        texts.collect::<Vec<String>>()
    };
    match words.first() {
        Some(Word::Function(name)) if name == "index" && at == 1 => texts(&words[2..]),
        Some(Word::Function(name)) if GETTERS.contains(&name.as_str()) && at == 1 => {
            texts(&words[2..]).into_iter().take(1).collect()
        }
        // The last of the texts may be the default.
        Some(Word::Function(name)) if name == "dig" && at + 1 == words.len() && at > 2 => texts(&words[1..at - 1]),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(template: &str) -> ValueReads {
        let mut reads = ValueReads::default();
        let file = File {
            name: "templates/a.yaml".to_owned(),
            data: template.into(),
        };
        reads.add_template(&file, true).unwrap();
        reads
    }

    fn path(text: &str) -> Vec<String> {
        text.split('.').map(str::to_owned).collect()
    }

    #[test]
    fn a_path_counts_for_all_below_it() {
        let found = reads(
            "{{ .Values.a.b }}{{ with $.Values.c }}{{ .d }}{{ end }}{{ index .Values \"e\" \"f\" }}{{ dig \"g\" \"h\" \"\" .Values }}\
             {{ get .Values.i \"j\" }}{{ tpl \"{{ .Values.k }}\" . }}{{ ((.Values.l).m).n }}",
        );
        for whole in ["a.b", "a.b.x", "c.d", "e.f", "g.h", "i.j", "k", "l.m.n"] {
            assert!(found.whole(&path(whole)), "{whole}: {found:?}");
        }
        for other in ["a", "a.c", "e", "e.x", "g.x", "i.x", "l.x", "x"] {
            assert!(!found.whole(&path(other)), "{other}: {found:?}");
        }
        assert!(found.part(&path("a")) && found.part(&path("e")) && !found.part(&path("x")));
    }

    #[test]
    fn what_is_handed_on_is_read() {
        for template in [
            "{{ toYaml .Values }}",
            "{{ $v := .Values }}{{ $v.a }}",
            "{{ index .Values .x }}",
            "{{ range $k, $v := .Values }}{{ end }}",
            "{{ index . \"Values\" \"a\" }}",
            "{{ tpl \"{{ toYaml .Values }}\" . }}",
        ] {
            assert!(reads(template).whole(&path("x")), "{template}");
        }
    }
}
