//! Prepares a parsed template for rendering: early checks, and marks that enforce a render's limits.

use ::handlebars::Template;
use ::handlebars::template::{DecoratorTemplate, HelperTemplate, Parameter, TemplateElement};

use super::helpers;

/// The maximum number of open blocks, brackets and parentheses in a template's text: the parser is recursive.
const MAX_NESTING: usize = 100;

/// A problem with its line and column, both from 1.
pub(super) type PrepareProblem = (usize, usize, String);

/// Refuses text that would need a deep stack to be parsed.
pub(super) fn check_nesting(text: &str) -> Result<(), PrepareProblem> {
    let (mut blocks, mut brackets, mut in_tag) = (0_usize, 0_usize, false);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let mut step = first.len_utf8();
        if rest.starts_with("{{") {
            in_tag = true;
            brackets = 0;
            let tag = rest
                .trim_start_matches('{')
                .trim_start_matches(['~', ' ', '\t', '\r', '\n']);
            match tag.chars().next() {
                Some('#' | '^') => blocks += 1,
                Some('/') => blocks = blocks.saturating_sub(1),
                _ => {}
            }
            step = 2;
        } else if rest.starts_with("}}") {
            in_tag = false;
            step = 2;
        } else if in_tag {
            match first {
                '(' | '[' | '{' => brackets += 1,
                ')' | ']' | '}' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
        }
        if blocks > MAX_NESTING || brackets > MAX_NESTING {
            let (line, column) = super::place(text, text.len() - rest.len());
            let message = format!("more than {MAX_NESTING} nested blocks or parentheses");
            return Err((line, column, message));
        }
        rest = rest.get(step..).unwrap_or_default();
    }
    Ok(())
}

/// Checks the names of helpers, passes every written value through one of our helpers, and marks the start and the end
/// of bodies.
pub(super) fn prepare(template: &mut Template) -> Result<(), PrepareProblem> {
    body(template, (1, 1))
}

type LineColumn = (usize, usize);

fn body(template: &mut Template, outer: LineColumn) -> Result<(), PrepareProblem> {
    for (at, element) in template.elements.iter_mut().enumerate() {
        let place = template.mapping.get(at).map_or(outer, |mapping| (mapping.0, mapping.1));
        visit(element, place).map_err(|e| match e {
            NestingStop::Here(message) => (place.0, place.1, message),
            NestingStop::Inside(problem) => problem,
        })?;
    }
    if let (Some(enter), Some(leave)) = (marker(helpers::ENTER), marker(helpers::LEAVE)) {
        template.elements.insert(0, enter);
        template.elements.push(leave);
        // Places go by index.
        if let Some(first) = template.mapping.first().cloned() {
            template.mapping.insert(0, first);
        }
    }
    Ok(())
}

enum NestingStop {
    Here(String),
    Inside(PrepareProblem),
}

fn visit(element: &mut TemplateElement, place: LineColumn) -> Result<(), NestingStop> {
    match element {
        TemplateElement::Expression(call) | TemplateElement::HtmlExpression(call) => {
            if call.params.is_empty() && call.hash.is_empty() {
                return alone(call);
            }
            check_call(call)
        }
        TemplateElement::HelperBlock(block) => {
            check_call(block)?;
            if block.inverse.is_none() {
                // Without it the crate refuses empty and null values, which Helm's coalescing makes undefined.
                block.inverse = Some(Template::new());
            }
            let bodies = block.template.iter_mut().chain(&mut block.inverse);
            bodies
                .into_iter()
                .try_for_each(|inner| body(inner, place))
                .map_err(NestingStop::Inside)
        }
        TemplateElement::PartialExpression(partial) => {
            if partial.name.as_name() == Some("@partial-block") {
                return Err(no_block_partials());
            }
            check_decorator(partial)
        }
        TemplateElement::PartialBlock(_) => Err(no_block_partials()),
        TemplateElement::DecoratorBlock(inline) if inline.name.as_name() == Some("inline") => {
            check_decorator(inline)?;
            inline
                .template
                .iter_mut()
                .try_for_each(|inner| body(inner, place))
                .map_err(NestingStop::Inside)
        }
        TemplateElement::DecoratorExpression(other) | TemplateElement::DecoratorBlock(other) => {
            Err(NestingStop::Here(format!(
                "there is no decorator {:?}: only blocks of inline",
                other.name.as_name().unwrap_or_default()
            )))
        }
        _ => Ok(()),
    }
}

/// Their bodies are rendered into buffers that no limit of ours reaches.
fn no_block_partials() -> NestingStop {
    NestingStop::Here("partials with a block ({{#> name}}) are not supported: use {{> name}} with arguments".to_owned())
}

/// `{{x}}`: a value, unless `x` is a function without arguments.
fn alone(call: &mut HelperTemplate) -> Result<(), NestingStop> {
    if call.name.as_name().is_some_and(helpers::is_call_alone) {
        return Ok(());
    }
    check_parameter(&call.name)?;
    let value = std::mem::replace(&mut call.name, Parameter::Name(helpers::VALUE.to_owned()));
    call.params.push(value);
    Ok(())
}

fn check_call(call: &HelperTemplate) -> Result<(), NestingStop> {
    match call.name.as_name() {
        Some(name) if helpers::exists(name) => {}
        Some(name) => return Err(NestingStop::Here(format!("there is no helper {name:?}"))),
        None => return Err(NestingStop::Here("a helper's name can't be computed".to_owned())),
    }
    call.params
        .iter()
        .chain(call.hash.values())
        .try_for_each(check_parameter)
}

fn check_decorator(decorator: &DecoratorTemplate) -> Result<(), NestingStop> {
    check_parameter(&decorator.name)?;
    let arguments = decorator.params.iter().chain(decorator.hash.values());
    arguments.into_iter().try_for_each(check_parameter)
}

fn check_parameter(parameter: &Parameter) -> Result<(), NestingStop> {
    let Parameter::Subexpression(inner) = parameter else {
        return Ok(());
    };
    match inner.as_element() {
        TemplateElement::Expression(call) => check_call(call),
        _ => Ok(()),
    }
}

fn marker(name: &str) -> Option<TemplateElement> {
    let mut template = Template::compile(&format!("{{{{{name}}}}}")).ok()?;
    template.elements.pop()
}
