//! The ServiceAccount with whose rights a release reads and writes.

use crate::cluster::connection::impersonation::ServiceAccount;
use crate::reconcile::custom_resource::CustomResource;
use crate::reconcile::unit::Unit;
use crate::reconcile::values::error::ValuesError;
use crate::reconcile::values::name_templates::NameTemplates;
use crate::reconcile::values::release_namespace::release_namespace;
use chartwright_watches::names::is_dns_subdomain;

/// The account that the watch names, in the namespace of the custom resource; of a cluster-scoped one in the namespace of its release.
/// `None`: the operator's own rights.
///
/// # Errors
/// If the template fails or makes no valid name.
pub(crate) fn service_account(unit: &Unit, resource: &CustomResource) -> Result<Option<ServiceAccount>, ValuesError> {
    let Some(template) = &unit.watch.service_account_name else {
        return Ok(None);
    };
    let error = |message: String| ValuesError::ServiceAccount {
        template: template.clone(),
        message,
    };
    let name = NameTemplates::new(unit, resource)
        .text("serviceAccountName", template)
        .map_err(error)?;
    let name = name.trim();
    if !is_dns_subdomain(name) {
        return Err(error(format!("{name:?} is no name of a ServiceAccount")));
    }
    let namespace = match resource.key.namespace.as_str() {
        "" => release_namespace(unit, resource)?,
        own => own.to_owned(),
    };
    Ok(Some(ServiceAccount {
        namespace,
        name: name.to_owned(),
    }))
}
