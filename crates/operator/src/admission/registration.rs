//! Applies the ValidatingWebhookConfiguration.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};

use super::{Connected, is_previewed};
use crate::cluster::connection::bounded;
use crate::cluster::objects::FIELD_MANAGER;
use crate::controller::Blueprint;
use chartwright_core::admission::registration::{Registration, WebhookAddress, WebhookRule};

/// What is to be registered.
pub(super) struct Wanted<'a> {
    pub(super) name: &'a str,
    pub(super) address: &'a WebhookAddress,
    pub(super) path: String,
    /// Certificates in PEM format.
    pub(super) trusted: &'a str,
    pub(super) namespaces: Option<&'a BTreeSet<String>>,
}

impl Wanted<'_> {
    /// Applies the configuration if the live one differs.
    ///
    /// # Errors
    /// It belongs to another operator, or it cannot be read or written.
    pub(super) async fn apply(&self, connected: &Connected, blueprints: &[Blueprint]) -> anyhow::Result<()> {
        let rules = rules(connected, blueprints);
        let registration = Registration {
            name: self.name,
            owner: &connected.owner,
            address: self.address,
            path: &self.path,
            ca_bundle: self.trusted,
            rules: &rules,
            namespaces: self.namespaces,
        };
        let place = format!("ValidatingWebhookConfiguration {}", self.name);
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
        let api: Api<DynamicObject> = Api::all_with(connected.client.clone(), &ApiResource::from_gvk(&kind));
        let needs = || format!("{place}: the operator needs the rights of config/admission/role.yaml");
        let found = bounded(api.get_opt(self.name)).await.with_context(needs)?;
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
        let applied = bounded(api.patch(self.name, &parameters, &Patch::Apply(&wanted))).await;
        applied.with_context(needs)?;
        let kinds: Vec<String> = rules
            .iter()
            .map(|rule| format!("{}.{}", rule.plural, rule.group))
            .collect();
        tracing::info!(
            name = self.name,
            ?kinds,
            "changes of these custom resources are previewed"
        );
        Ok(())
    }
}

/// The served kinds of the watches. A kind that is not served yet follows with the next check.
fn rules(connected: &Connected, blueprints: &[Blueprint]) -> BTreeSet<WebhookRule> {
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
