//! Applies the ValidatingWebhookConfiguration.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};

use super::{Connected, is_previewed};
use crate::cluster::connection::bounded;
use crate::cluster::objects::FIELD_MANAGER;
use crate::controller::Blueprint;
use chartwright_core::admission::registration::{Registration, WebhookRule};

/// Applies the configuration if the live one differs.
///
/// # Errors
/// It belongs to another operator, or it cannot be read or written.
pub(super) async fn apply(client: &Client, registration: &Registration<'_>) -> anyhow::Result<()> {
    let name = registration.name;
    let place = format!("ValidatingWebhookConfiguration {name}");
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let needs = || format!("{place}: the operator needs the rights of config/admission/role.yaml");
    let found = bounded(api.get_opt(name)).await.with_context(needs)?;
    let live = found.map(serde_json::to_value).transpose()?.unwrap_or_default();
    ensure!(
        !registration.is_foreign(&live),
        "{place} belongs to another operator: give this one another --admission-name"
    );
    if registration.is_contained_in(&live) {
        return Ok(());
    }
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let wanted = registration.to_object();
    let applied = bounded(api.patch(name, &parameters, &Patch::Apply(&wanted))).await;
    applied.with_context(needs)?;
    let rules = registration.rules.iter();
    let kinds: Vec<String> = rules.map(|rule| format!("{}.{}", rule.plural, rule.group)).collect();
    tracing::info!(name, ?kinds, "changes of these custom resources are previewed");
    Ok(())
}

/// The served kinds of the watches. A kind that is not served yet follows with the next check.
pub(super) fn rules(connected: &Connected, blueprints: &[Blueprint]) -> BTreeSet<WebhookRule> {
    let snapshot = connected.discovery.snapshot();
    let previewed = blueprints.iter().filter(|blueprint| is_previewed(blueprint));
    let rule = |blueprint: &Blueprint| {
        let version = blueprint.watch.version.as_str();
        let resource = snapshot.resource(&blueprint.group_kind(), version)?;
        Some(WebhookRule {
            group: resource.api.group.clone(),
            version: version.to_owned(),
            plural: resource.api.plural.clone(),
        })
    };
    previewed.filter_map(rule).collect()
}
