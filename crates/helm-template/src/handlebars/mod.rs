//! Handlebars templates: the files of a chart that end in `.hbs`.
//!
//! The `handlebars` crate parses and walks them, strictly and without HTML escaping; Helm's functions are their
//! helpers, over the same [`Context`], so lookups, randomness and limits are those of the render. The crate has no
//! limits for nesting, steps, time and buffers; [`prepare`] adds marks to the parsed templates that enforce them.

mod compare;
mod data;
mod helpers;
mod prepare;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;

use ::handlebars::{
    Context as Data, Handlebars, Output, RenderContext, RenderError, RenderErrorReason, Renderable, Template,
    TemplateErrorReason, no_escape,
};

use send_wrapper::SendWrapper;

use crate::helm::{Context, Limit};
use crate::render::TemplatePlace;
use go_template::{Host, Value};

/// The suffix of a Handlebars template's name.
const SUFFIX: &str = ".hbs";

/// The Handlebars templates of the enabled charts.
#[derive(Default)]
pub struct Templates {
    /// Created with the first template, because most charts have none and it holds a helper for every function.
    registry: Option<Handlebars<'static>>,
    /// The files of the partials, by the partials' names.
    partials: HashMap<String, String>,
    /// Whether any template names `Files`: partials copy their data, and files are large.
    uses_files: bool,
}

/// Why a template can't be parsed or rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The template or its data are wrong.
    #[error(transparent)]
    At(#[from] TemplateProblem),
    /// The render went over a limit.
    #[error("over {0}")]
    Limit(Limit),
}

/// An error in a template or its data, with its place.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct TemplateProblem {
    pub place: TemplatePlace,
    pub message: String,
}

/// Whether the file of that name is a Handlebars template.
///
/// ```
/// assert!(helm_template::handlebars::is_handlebars("templates/service.yaml.hbs"));
/// ```
pub fn is_handlebars(path: &str) -> bool {
    path.ends_with(SUFFIX)
}

/// The path without its `.hbs`, if it has one.
pub fn without_suffix(path: &str) -> &str {
    path.strip_suffix(SUFFIX).unwrap_or(path)
}

/// The name under which other templates include the file: `labels` for `c/templates/_labels.hbs`.
fn partial_name(path: &str) -> Option<&str> {
    let base = path.rsplit('/').next()?;
    base.strip_prefix('_')?.strip_suffix(SUFFIX)
}

/// The line and column of a byte of the text, both from 1, the column in characters.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or_default();
    let line = 1 + before.matches('\n').count();
    (line, 1 + before.rsplit('\n').next().unwrap_or_default().chars().count())
}

/// A registry with all helpers and no template.
fn registry() -> Handlebars<'static> {
    let mut registry = Handlebars::new();
    registry.set_strict_mode(true);
    registry.register_escape_fn(no_escape);
    helpers::register(&mut registry);
    registry
}

impl TemplateProblem {
    fn at(file: &str, line: usize, column: usize, message: impl Into<String>) -> Self {
        TemplateProblem {
            place: TemplatePlace {
                file: file.to_owned(),
                line,
                column: Some(column),
            },
            message: message.into(),
        }
    }
}

impl Templates {
    /// Parses a file: `_name.hbs` becomes the partial `name`, which replaces an earlier one of that name, as Go's
    /// `define` does; any other file is a template under its path.
    ///
    /// # Errors
    /// Its first [`TemplateProblem`].
    pub fn parse(&mut self, path: &str, source: &[u8]) -> Result<(), TemplateProblem> {
        let at = |line, column, message: &str| TemplateProblem::at(path, line, column, message);
        let text = std::str::from_utf8(source).map_err(|e| {
            let readable = String::from_utf8_lossy(source.get(..e.valid_up_to()).unwrap_or_default());
            let (line, column) = place(&readable, readable.len());
            at(line, column, "the template is not UTF-8")
        })?;
        prepare::check_nesting(text).map_err(|(line, column, message)| at(line, column, &message))?;
        let mut template = Template::compile(text).map_err(|e| {
            let (mut line, mut column) = e.pos().unwrap_or((1, 1));
            let message = match e.reason() {
                // The crate reports no place for this error.
                TemplateErrorReason::InvalidParam(param) => {
                    (line, column) = place(text, text.find(param.as_str()).unwrap_or(0));
                    format!("{param} is not a JSON value")
                }
                TemplateErrorReason::InvalidSyntax(_) => {
                    "this is not valid Handlebars: a tag, block or string may be open or misspelt".to_owned()
                }
                TemplateErrorReason::MismatchingClosedHelper(open, close) => {
                    format!("the block {open:?} is open, but {close:?} is closed")
                }
                other => other.to_string(),
            };
            at(line, column, &message)
        })?;
        prepare::prepare(&mut template).map_err(|(line, column, message)| at(line, column, &message))?;
        let name = partial_name(path).unwrap_or(path);
        template.name = Some(name.to_owned());
        self.partials.insert(name.to_owned(), path.to_owned());
        self.registry
            .get_or_insert_with(registry)
            .register_template(name, template);
        self.uses_files |= text.contains("Files");
        Ok(())
    }

    /// Renders the file `path` with `data`, the `.` that a Go template in its place would have.
    ///
    /// # Errors
    /// [`Error::Limit`] if a limit ended the render, else [`Error::At`].
    pub fn render(&self, context: &mut Context, path: &str, data: &Value) -> Result<Vec<u8>, Error> {
        let data = data::of_template(context, data, self.uses_files).map_err(|e| TemplateProblem::at(path, 1, 1, e))?;
        context.render_as(path, |context| self.execute(context, path, data))
    }

    fn execute(&self, context: &mut Context, path: &str, data: serde_json::Value) -> Result<Vec<u8>, Error> {
        let parsed = self.registry.as_ref();
        let (registry, template) = parsed
            .and_then(|registry| Some((registry, registry.get_template(path)?)))
            .ok_or_else(|| TemplateProblem::at(path, 1, 1, "the template was not parsed"))?;
        let data = Data::from(data);
        let session = Session {
            state: SendWrapper::new(RefCell::new(SessionState {
                context,
                depth: 0,
                too_deep: None,
            })),
        };
        let mut out = BoundedOutput {
            session: &session,
            text: String::new(),
        };
        let result = {
            let mut render = RenderContext::new(None);
            render.register_local_helper(helpers::DESK, Box::new(helpers::Desk(&session)));
            template.render(registry, &data, &mut render, &mut out)
        };
        let text = out.text;
        let state = session.state.take().into_inner();
        match (result, state.too_deep.or(state.context.exceeded())) {
            (Ok(()), _) => Ok(text.into_bytes()),
            (Err(_), Some(limit)) => Err(Error::Limit(limit)),
            (Err(e), None) => Err(self.located(path, &e).into()),
        }
    }

    fn located(&self, path: &str, error: &RenderError) -> TemplateProblem {
        let name = error.template_name.as_deref();
        let file = name
            .and_then(|name| self.partials.get(name))
            .map_or(path, String::as_str);
        let (line, column) = (error.line_no.unwrap_or(1), error.column_no.unwrap_or(1));
        TemplateProblem::at(file, line, column, message(error.reason()))
    }
}

fn message(reason: &RenderErrorReason) -> String {
    match reason {
        RenderErrorReason::MissingVariable(Some(path)) => helpers::undefined(path),
        RenderErrorReason::MissingVariable(None) => "a value is not defined".to_owned(),
        RenderErrorReason::PartialNotFound(name) => {
            format!("there is no partial {name:?}: it would be the file _{name}{SUFFIX}")
        }
        RenderErrorReason::CannotIncludeSelf => "a partial includes itself without a condition".to_owned(),
        RenderErrorReason::InvalidJsonIndex(key) => format!("a list is indexed by a number, not by {key:?}"),
        other => other.to_string(),
    }
}

/// The state that the helpers of one render share.
///
/// Invariant: a render stays on one thread. The `handlebars` crate requires helpers that are `Send` and `Sync`, and a
/// context is neither, so the wrapper checks the thread at run time.
struct Session<'c> {
    state: SendWrapper<RefCell<SessionState<'c>>>,
}

struct SessionState<'c> {
    context: &'c mut Context,
    /// The number of open blocks and partials.
    depth: usize,
    too_deep: Option<Limit>,
}

impl<'c> Session<'c> {
    fn with<T>(&self, work: impl FnOnce(&mut SessionState<'c>) -> T) -> T {
        work(&mut self.state.borrow_mut())
    }
}

/// The text of a file, within the render's limit of output.
struct BoundedOutput<'s, 'c> {
    session: &'s Session<'c>,
    text: String,
}

impl Output for BoundedOutput<'_, '_> {
    fn write(&mut self, text: &str) -> Result<(), std::io::Error> {
        let bytes = self.text.len().saturating_add(text.len());
        self.session
            .with(|state| state.context.output(bytes, text.len()))
            .map_err(std::io::Error::other)?;
        self.text.push_str(text);
        Ok(())
    }
}
