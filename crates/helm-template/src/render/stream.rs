//! A render as `helm template` prints it. Facts: Helm's `pkg/cmd/template.go`.

use super::bytes;
use super::documents::split;
use super::{BadManifest, Hook, HookEvent, Rendered};
use crate::chart::ignore::path_match;

/// More than what is printed around a document, in bytes.
const AROUND: usize = 32;

/// What of a render is printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamOptions {
    /// Leave the hooks out.
    pub no_hooks: bool,
    /// Leave those hooks out that run at `test`.
    pub skip_tests: bool,
}

impl StreamOptions {
    /// Whether a hook is part of it.
    pub fn has(self, hook: &Hook) -> bool {
        !(self.no_hooks || self.skip_tests && hook.events.contains(&HookEvent::Test))
    }
}

/// The stream that `helm template` prints: CRDs if the render has them, which may be any bytes, manifests, hooks.
pub fn to_stream(rendered: &Rendered, options: StreamOptions) -> Vec<u8> {
    let crds = rendered.crds.iter().map(|crd| crd.name.len() + crd.data.len());
    let hooks = rendered.hooks.iter().map(|hook| &hook.manifest);
    let manifests = rendered.objects.iter().chain(hooks);
    let sizes = crds.chain(manifests.map(|manifest| manifest.source.len() + manifest.text.len()));
    let mut out = Vec::with_capacity(sizes.map(|size| size + AROUND).sum());
    for crd in &rendered.crds {
        document(&mut out, &crd.name, &crd.data);
    }
    for manifest in &rendered.objects {
        document(&mut out, &manifest.source, &bytes::of_text(&manifest.text));
    }
    with_hooks(out, &rendered.hooks, options)
}

/// What Helm prints with `--debug` of a render of which a document isn't YAML: the files as they are, and the hooks
/// that were found before. Helm prints the files in a random order, here it is that of their names.
pub fn bad_stream(bad: &BadManifest, options: StreamOptions) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, text) in bad.files.iter().filter(|(_, text)| !text.trim().is_empty()) {
        document(&mut out, name, &bytes::of_text(text));
    }
    with_hooks(out, &bad.hooks, options)
}

/// The hooks behind the documents. None of those starts with white space.
fn with_hooks(mut out: Vec<u8>, hooks: &[Hook], options: StreamOptions) -> Vec<u8> {
    while let Some(width) = last_space(&out) {
        out.truncate(out.len() - width);
    }
    out.push(b'\n');
    for hook in hooks.iter().filter(|hook| options.has(hook)) {
        document(&mut out, &hook.manifest.source, &bytes::of_text(&hook.manifest.text));
    }
    out
}

/// How many bytes the white space takes that is the last character.
fn last_space(bytes: &[u8]) -> Option<usize> {
    let width = |width: &usize| {
        let last = bytes.len().checked_sub(*width).and_then(|at| bytes.get(at..));
        last.is_some_and(|last| std::str::from_utf8(last).is_ok_and(|text| text.trim().is_empty()))
    };
    (1..=3).find(width)
}

/// A document with its template, as Helm separates them.
pub fn document(out: &mut Vec<u8>, source: &str, text: &[u8]) {
    for part in [b"---\n# Source: ", source.as_bytes(), b"\n", text, b"\n"] {
        out.extend_from_slice(part);
    }
}

/// Those documents of a stream that come from the given templates (patterns relative to the chart), in their order.
///
/// # Errors
/// The first pattern that no document matches.
pub fn show_only<'p>(stream: &[u8], patterns: &'p [String]) -> Result<Vec<u8>, &'p str> {
    if let Ok(stream) = std::str::from_utf8(stream) {
        return shown(stream, patterns).map(String::into_bytes);
    }
    // Each byte as a character: what separates documents and names them is ASCII.
    let stream: String = stream.iter().map(|byte| char::from(*byte)).collect();
    shown(&stream, patterns).map(|shown| shown.chars().filter_map(|c| u8::try_from(c).ok()).collect())
}

fn shown<'p>(stream: &str, patterns: &'p [String]) -> Result<String, &'p str> {
    let documents: Vec<(&str, &str)> = split(stream)
        .into_iter()
        .filter_map(|(text, _)| Some((source(text)?, text)))
        .collect();
    let mut out = String::new();
    for pattern in patterns {
        let matching = documents
            .iter()
            .filter(|(source, _)| path_match(pattern, source).unwrap_or(false));
        let before = out.len();
        for (_, text) in matching {
            out.push_str("---\n");
            out.push_str(text);
            out.push('\n');
        }
        if out.len() == before {
            return Err(pattern);
        }
    }
    Ok(out)
}

/// The path after the chart's name in a document's `# Source:` line.
fn source(text: &str) -> Option<&str> {
    text.split("# Source: ").skip(1).find_map(|rest| {
        let line = rest.split('\n').next()?;
        let (chart, path) = line.split_once('/')?;
        (!chart.is_empty() && !path.is_empty()).then_some(path)
    })
}
