//! Names that `watches.yaml` makes of a custom resource, by templates: `targetNamespace`, the names in `valuesFrom`,
//! `dependsOn`, `elect` and `remediation`. The templates are the operator's own, but what they work on is the author's.

use std::cell::OnceCell;

use serde_json::Value;

use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::render::pool::off_worker;
use crate::reconcile::unit::Unit;
use helm_template::render::{Limits, render_text};

/// A custom resource as templates see it; read when the first template needs it.
pub(crate) struct NameTemplates<'a> {
    unit: &'a Unit,
    resource: &'a CustomResource,
    data: OnceCell<Value>,
}

impl<'a> NameTemplates<'a> {
    pub fn new(unit: &'a Unit, resource: &'a CustomResource) -> Self {
        NameTemplates {
            unit,
            resource,
            data: OnceCell::new(),
        }
    }

    /// Executes a template of `watches.yaml` within small limits, on no async worker. `key` stands in error texts.
    ///
    /// # Errors
    /// The template fails, or exceeds a limit.
    pub fn text(&self, key: &str, template: &str) -> Result<String, String> {
        if !template.contains("{{") {
            return Ok(template.to_owned());
        }
        off_worker(|| {
            let data = self.data.get_or_init(|| self.resource.as_data(&self.unit.resource));
            render_text(key, template, data, Limits::of_a_name())
        })
    }
}
