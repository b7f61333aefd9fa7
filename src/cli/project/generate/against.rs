//! `generate crd --against`: checks whether a definition can safely replace that of a file or of the cluster.

use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use serde_json::Value;

use super::crd::{GeneratedCrd, read_definition_file};
use crate::cli::block_on;
use crate::cli::stdout::stdout;
use chartwright_core::crds::compare::{CrdChange, compare};
use chartwright_operator::cluster::{self, connection::bounded};
use chartwright_scaffold::crd::{definition, validate};

/// Prints the differences. Returns false if the change is unsafe.
pub(super) fn compare_definition(kubeconfig: Option<&Path>, against: &Path, made: &GeneratedCrd) -> Result<bool> {
    let mut problems = Vec::new();
    let old = match against.to_str() {
        Some("cluster") => block_on(async {
            let (client, _) = cluster::connect_with_discovery(kubeconfig).await?;
            let old = read_live_definition(&client, &made.generated.names.crd()).await?;
            if let Some(old) = &old {
                problems = validate_live_resources(&client, old, &definition_over(made, old)).await?;
            }
            Ok(old)
        })?,
        _ => match read_definition_file(against)? {
            Some((_, old)) => Some(old),
            None => bail!("{}: there is no such file", against.display()),
        },
    };
    let mut out = stdout();
    let name = made.generated.names.crd();
    let Some(old) = old else {
        writeln!(out, "{name}: the cluster does not have it yet")?;
        return Ok(true);
    };
    let new = definition_over(made, &old);
    let changes = compare(&old, &new);
    for change in &changes {
        writeln!(out, "{change}")?;
    }
    for problem in &problems {
        writeln!(out, "{problem}")?;
    }
    let unsafe_changes = changes.iter().filter(|change: &&CrdChange| change.breaks).count();
    let verdict = match (unsafe_changes, problems.len()) {
        (0, 0) => "safe".to_owned(),
        (0, count) => format!("not safe: {count} problems with custom resources that exist"),
        (count, 0) => format!("not safe: {count} of {} changes", changes.len()),
        (count, found) => format!(
            "not safe: {count} of {} changes, and {found} problems with custom resources",
            changes.len()
        ),
    };
    writeln!(out, "{name}: {verdict}")?;
    Ok(unsafe_changes == 0 && problems.is_empty())
}

/// Returns the definition that results from replacing another one. Other versions of that one stay.
fn definition_over(made: &GeneratedCrd, old: &Value) -> Value {
    match made.file {
        Some(_) => made.definition.clone(),
        None => definition::laid_over(made.definition.clone(), old),
    }
}

async fn read_live_definition(client: &kube::Client, name: &str) -> Result<Option<Value>> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let found = bounded(api.get_opt(name))
        .await
        .with_context(|| format!("CustomResourceDefinition {name}"))?;
    Ok(found.map(serde_json::to_value).transpose()?)
}

/// Number of custom resources per request.
const PAGE: u32 = 250;

/// Validates the existing custom resources against the new definition, in each of its versions.
async fn validate_live_resources(client: &kube::Client, old: &Value, new: &Value) -> Result<Vec<String>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = |definition: &Value| definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let served = versions(old)
        .into_iter()
        .find(|version| version["served"] == true && version["storage"] == true);
    let served = served.or_else(|| versions(old).into_iter().find(|version| version["served"] == true));
    let Some(served) = served else {
        return Ok(Vec::new());
    };
    let kind = GroupVersionKind::gvk(
        &text(&old["spec"]["group"]),
        &text(&served["name"]),
        &text(&old["spec"]["names"]["kind"]),
    );
    let resource = ApiResource::from_gvk_with_plural(&kind, &text(&old["spec"]["names"]["plural"]));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut problems = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = bounded(api.list(&page)).await.with_context(|| kind.kind.clone())?;
        for object in list.items {
            let (namespace, name) = (object.metadata.namespace.as_deref(), object.metadata.name.as_deref());
            let place = [namespace, name].into_iter().flatten().collect::<Vec<_>>().join("/");
            let spec = object
                .data
                .get("spec")
                .cloned()
                .unwrap_or_else(|| Value::Object(serde_json::Map::new()));
            for version in versions(new) {
                let schema = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
                let found = validate::problems(schema, &spec);
                let version = text(&version["name"]);
                problems.extend(
                    found
                        .into_iter()
                        .map(|problem| format!("{} {place} in {version}: {}", kind.kind, problem.describe(".spec"))),
                );
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(problems),
        }
    }
}
