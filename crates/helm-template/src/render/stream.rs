//! A render as `helm template` prints it. Facts: Helm's `pkg/cmd/template.go`.

use super::documents::split;
use super::{BadManifest, HookEvent, HookManifest, Rendered};
use crate::chart::load::ignore::path_match;

/// More than what is printed around a document, in bytes.
const AROUND: usize = 32;

/// The parts of a render that are printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamOptions {
    /// Leave the hooks out.
    pub no_hooks: bool,
    /// Leave those hooks out that run at `test`.
    pub skip_tests: bool,
}

impl StreamOptions {
    /// Whether a hook is part of it.
    pub fn has(self, hook: &HookManifest) -> bool {
        !(self.no_hooks || self.skip_tests && hook.events.contains(&HookEvent::Test))
    }
}

/// The stream that `helm template` prints: CRDs if the render has them, manifests, hooks.
pub fn to_stream(rendered: &Rendered, options: StreamOptions) -> String {
    let crds = rendered.crds.iter().map(|crd| crd.name.len() + crd.data.len());
    let hooks = rendered.hooks.iter().map(|hook| &hook.manifest);
    let manifests = rendered.objects.iter().chain(hooks);
    let sizes = crds.chain(manifests.map(|manifest| manifest.source.len() + manifest.text.len()));
    let mut out = String::with_capacity(sizes.map(|size| size + AROUND).sum());
    for crd in &rendered.crds {
        document(&mut out, &crd.name, &crd.data.to_text());
    }
    for manifest in &rendered.objects {
        document(&mut out, &manifest.source, &manifest.text);
    }
    with_hooks(out, &rendered.hooks, options)
}

/// The output of Helm with `--debug` if a document is not YAML: the files as they are, and the hooks found before the
/// error. Helm prints the files in a random order, here it is that of their names.
pub fn bad_stream(bad: &BadManifest, options: StreamOptions) -> String {
    let mut out = String::new();
    for (name, text) in bad.files.iter().filter(|(_, text)| !text.trim().is_empty()) {
        document(&mut out, name, text);
    }
    with_hooks(out, &bad.hooks, options)
}

/// The hooks behind the documents. None of those starts with white space.
fn with_hooks(mut out: String, hooks: &[HookManifest], options: StreamOptions) -> String {
    out.truncate(out.trim_end().len());
    out.push('\n');
    for hook in hooks.iter().filter(|hook| options.has(hook)) {
        document(&mut out, &hook.manifest.source, &hook.manifest.text);
    }
    out
}

/// A document with its template, as Helm separates them.
pub fn document(out: &mut String, source: &str, text: &str) {
    for part in ["---\n# Source: ", source, "\n", text, "\n"] {
        out.push_str(part);
    }
}

/// Those documents of a stream that come from the given templates (patterns relative to the chart), in their order.
///
/// # Errors
/// The first pattern that no document matches.
pub fn show_only<'p>(stream: &str, patterns: &'p [String]) -> Result<String, &'p str> {
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
