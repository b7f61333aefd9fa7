//! Handlebars templates: the files of a chart that end in `.hbs`.
//!
//! The `handlebars` crate parses and walks them, strictly and without HTML escaping; Helm's functions are their
//! helpers, over the same [`Context`], so lookups, randomness and limits are those of the render. What the crate has
//! no bounds for (nesting, steps, time, buffers) is bounded by what [`prepare`] puts into the parsed templates.

mod compare;
mod data;
mod helpers;
mod prepare;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use ::handlebars::{
    Context as Data, Handlebars, Output, RenderContext, RenderError, RenderErrorReason, Renderable, Template,
    TemplateErrorReason, no_escape,
};

use crate::helm::{Context, Limit};
use crate::render::Place;
use go_template::{Host, Value};

/// What ends the name of a Handlebars template.
const SUFFIX: &str = ".hbs";

/// The Handlebars templates of the charts that take part in a render.
#[derive(Default)]
pub struct Templates {
    /// Made with the first template: most charts have none, and it holds a helper for every function.
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
    At(#[from] Problem),
    /// The render went over a limit.
    #[error("over {0}")]
    Limit(Limit),
}

/// What is wrong with a template or its data, and where.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Problem {
    pub place: Place,
    pub message: String,
}

/// Whether the file of that name is a Handlebars template.
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

// === impl Problem ===

impl Problem {
    fn at(file: &str, line: usize, column: usize, message: impl Into<String>) -> Self {
        Problem {
            place: Place {
                file: file.to_owned(),
                line,
                column: Some(column),
            },
            message: message.into(),
        }
    }
}

// === impl Templates ===

impl Templates {
    /// Parses a file: `_name.hbs` becomes the partial `name`, which replaces an earlier one of that name, as Go's
    /// `define` does; any other file is a template under its path.
    ///
    /// # Errors
    /// Its first [`Problem`].
    pub fn parse(&mut self, path: &str, source: &[u8]) -> Result<(), Problem> {
        let at = |line, column, message: &str| Problem::at(path, line, column, message);
        let text = std::str::from_utf8(source).map_err(|e| {
            let readable = String::from_utf8_lossy(source.get(..e.valid_up_to()).unwrap_or_default());
            let (line, column) = place(&readable, readable.len());
            at(line, column, "the template is not UTF-8")
        })?;
        prepare::check_nesting(text).map_err(|(line, column, message)| at(line, column, &message))?;
        let mut template = Template::compile(text).map_err(|e| {
            let (mut line, mut column) = e.pos().unwrap_or((1, 1));
            let message = match e.reason() {
                // The crate says no place for this one.
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
        let data = data::of_template(context, data, self.uses_files).map_err(|e| Problem::at(path, 1, 1, e))?;
        context.render_as(path, |context| self.execute(context, path, data))
    }

    fn execute(&self, context: &mut Context, path: &str, data: serde_json::Value) -> Result<Vec<u8>, Error> {
        let parsed = self.registry.as_ref();
        let (registry, template) = parsed
            .and_then(|registry| Some((registry, registry.get_template(path)?)))
            .ok_or_else(|| Problem::at(path, 1, 1, "the template was not parsed"))?;
        let data = Data::from(data);
        let session = Session {
            state: Mutex::new(State {
                context,
                depth: 0,
                too_deep: None,
            }),
        };
        let mut out = Bounded {
            session: &session,
            text: String::new(),
        };
        let result = {
            let mut render = RenderContext::new(None);
            render.register_local_helper(helpers::DESK, Box::new(helpers::Desk(&session)));
            template.render(registry, &data, &mut render, &mut out)
        };
        let text = out.text;
        let state = session.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        match (result, state.too_deep.or(state.context.exceeded())) {
            (Ok(()), _) => Ok(text.into_bytes()),
            (Err(_), Some(limit)) => Err(Error::Limit(limit)),
            (Err(e), None) => Err(self.located(path, &e).into()),
        }
    }

    fn located(&self, path: &str, error: &RenderError) -> Problem {
        let name = error.template_name.as_deref();
        let file = name
            .and_then(|name| self.partials.get(name))
            .map_or(path, String::as_str);
        let (line, column) = (error.line_no.unwrap_or(1), error.column_no.unwrap_or(1));
        Problem::at(file, line, column, message(error.reason()))
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

/// What the helpers of one render share. The crate asks for helpers that could cross threads, hence the lock.
struct Session<'c> {
    state: Mutex<State<'c>>,
}

struct State<'c> {
    context: &'c mut Context,
    /// Blocks and partials that are open.
    depth: usize,
    too_deep: Option<Limit>,
}

impl<'c> Session<'c> {
    fn with<T>(&self, work: impl FnOnce(&mut State<'c>) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The text of a file, within the render's limit of output.
struct Bounded<'s, 'c> {
    session: &'s Session<'c>,
    text: String,
}

impl Output for Bounded<'_, '_> {
    fn write(&mut self, text: &str) -> Result<(), std::io::Error> {
        let bytes = self.text.len().saturating_add(text.len());
        self.session
            .with(|state| state.context.output(bytes, text.len()))
            .map_err(std::io::Error::other)?;
        self.text.push_str(text);
        Ok(())
    }
}
