//! `.Release.Namespace` of a custom resource.

use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::unit::Unit;
use crate::reconcile::values::error::ValuesError;
use crate::reconcile::values::name_templates::NameTemplates;
use chartwright_core::grants;
use chartwright_watches::names::is_dns_label;

/// `.Release.Namespace`: the watch's `targetNamespace`, or the custom resource's own.
///
/// # Errors
/// If there is none, the template fails or makes no valid name, or it is not for the custom resource's author to choose.
pub fn release_namespace(unit: &Unit, resource: &CustomResource) -> Result<String, ValuesError> {
    let Some(template) = &unit.watch.target_namespace else {
        let kind = &unit.group_kind;
        let is_namespace = kind.group.is_empty() && kind.kind == "Namespace";
        if is_namespace && resource.decorator.is_some() {
            return Ok(resource.key.name.clone());
        }
        return if resource.key.namespace.is_empty() {
            Err(ValuesError::NoNamespace)
        } else {
            Ok(resource.key.namespace.clone())
        };
    };
    let error = |message: String| ValuesError::TargetNamespace {
        template: template.clone(),
        message,
    };
    let name = NameTemplates::new(unit, resource)
        .text("targetNamespace", template)
        .map_err(error)?;
    let name = name.trim();
    if !is_dns_label(name) {
        return Err(error(format!(
            "{name:?} is not a namespace name: at most 63 of a-z, 0-9 and -, beginning and ending with a letter or digit"
        )));
    }
    grants::may_settle(template, name, &resource.key.namespace, &unit.watch.allow)?;
    Ok(name.to_owned())
}
