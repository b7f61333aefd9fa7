//! Finds the releases of a cluster: the kinds with a mark of the operator, and their custom resources.

use anyhow::{Context as _, bail};
use futures::stream::{StreamExt as _, iter};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, PartialObjectMeta};
use serde_json::Value;

use chartwright_core::identity::GroupKind;
use chartwright_core::identity::applyset::ID_LABEL;
use chartwright_core::status::summary::has_mark;
use chartwright_operator::cluster::connection::bounded;
use chartwright_operator::cluster::custom_resource::STATUS_MANAGER;
use chartwright_operator::cluster::discovery::{Resource, Snapshot};
use chartwright_operator::cluster::error::Error;
use chartwright_watches::names::is_built_in;
use chartwright_watches::text::first_items;

/// Custom resources in one answer of the API server.
const PAGE: u32 = 500;
/// Objects of a kind that are searched for a mark before the label is searched for.
const SAMPLE: u32 = 100;
/// Kinds that a message names.
const MOST_NAMED: usize = 5;
/// Kinds that are searched concurrently.
const AT_ONCE: usize = 8;

/// A kind and its resource.
pub(in crate::cli) type ServedKind = (GroupKind, Resource);

/// Kinds that could not be listed, with the reason.
pub(in crate::cli) type Unlisted = Vec<(String, Error)>;

/// Finds the kinds with a release, in one namespace or (`None`) in all. Kinds that cannot be listed are added to `unlisted`.
pub(in crate::cli) async fn find_release_kinds(
    client: &Client,
    snapshot: &Snapshot,
    namespace: Option<&str>,
    unlisted: &mut Unlisted,
) -> Vec<ServedKind> {
    let mut kinds: Vec<ServedKind> = snapshot
        .kinds()
        .filter(|(group_kind, resource)| resource.watchable && !is_built_in(&group_kind.group))
        .map(|(group_kind, resource)| (group_kind.clone(), resource.clone()))
        .collect();
    kinds.sort_by(|one, other| one.0.cmp(&other.0));
    let searched = kinds.into_iter().map(|kind| async move {
        let found = has_release(client, &kind.1, namespace).await;
        (kind, found)
    });
    let searched: Vec<_> = iter(searched).buffered(AT_ONCE).collect().await;
    let mut found = Vec::new();
    for (kind, answer) in searched {
        match answer {
            Ok(true) => found.push(kind),
            // A kind that is no longer served has no objects.
            Ok(false) | Err(Error::NotServed(_)) => {}
            Err(error) => unlisted.push((kind.0.to_string(), error)),
        }
    }
    found
}

/// True if an object of the kind has a mark of the operator. Reads metadata only.
async fn has_release(client: &Client, resource: &Resource, namespace: Option<&str>) -> Result<bool, Error> {
    let api: Api<DynamicObject> = resource.api_in(client, namespace);
    let sample = bounded(api.list_metadata(&ListParams::default().limit(SAMPLE))).await?;
    if sample.items.iter().any(is_marked) {
        return Ok(true);
    }
    if sample.metadata.continue_.is_none_or(|token| token.is_empty()) {
        return Ok(false);
    }
    let labelled = ListParams::default().labels(ID_LABEL).limit(1);
    Ok(!bounded(api.list_metadata(&labelled)).await?.items.is_empty())
}

fn is_marked(object: &PartialObjectMeta<DynamicObject>) -> bool {
    serde_json::to_value(object).is_ok_and(|object| has_mark(&object, STATUS_MANAGER))
}

/// Lists the custom resources of a kind, complete, in one namespace or (`None`) in all.
///
/// # Errors
/// The request failed: its message names the missing right or the wrong selector.
pub(in crate::cli) async fn list_resources(
    client: &Client,
    resource: &Resource,
    namespace: Option<&str>,
    selector: Option<&str>,
) -> Result<(Vec<Value>, String), Error> {
    let api: Api<DynamicObject> = resource.api_in(client, namespace);
    let mut parameters = ListParams::default().limit(PAGE);
    if let Some(selector) = selector {
        parameters = parameters.labels(selector);
    }
    let mut found = Vec::new();
    loop {
        let page = bounded(api.list(&parameters)).await?;
        let objects = page.items.iter().map(serde_json::to_value);
        found.extend(
            objects
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| Error::Invalid(error.to_string()))?,
        );
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok((found, page.metadata.resource_version.unwrap_or_default())),
        }
    }
}

/// Checks that a kind is not one of Kubernetes' own: those have no releases of their own.
pub(in crate::cli) fn check_custom(group_kind: &GroupKind) -> anyhow::Result<()> {
    if is_built_in(&group_kind.group) {
        bail!("{group_kind} is a kind of Kubernetes, not one that a watch binds to a chart");
    }
    Ok(())
}

/// Describes kinds that could not be listed, in one line. `None`: all were listed.
pub(in crate::cli) fn describe_unlisted(unlisted: &Unlisted) -> Option<String> {
    let (_, first) = unlisted.first()?;
    let names = first_items(MOST_NAMED, unlisted.iter().map(|(name, _)| name));
    Some(format!("not listed: {names}: {first}"))
}

/// The message for a custom resource that does not exist, with the closest name.
pub(in crate::cli) fn describe_missing(
    group_kind: &GroupKind,
    name: &str,
    namespace: Option<&str>,
    others: &[&str],
) -> String {
    let place = namespace
        .map(|namespace| format!(" in the namespace {namespace}"))
        .unwrap_or_default();
    let hint = chartwright_watches::suggestion(name, others.iter().copied());
    let hint = match hint {
        Some(best) if best != name => format!(": did you mean {best}?"),
        _ if namespace.is_some() => ": --namespace selects another".to_owned(),
        _ => String::new(),
    };
    format!("there is no {group_kind} {name}{place}{hint}")
}

/// Reads one custom resource.
///
/// # Errors
/// It does not exist: the message names the closest one that does.
pub(in crate::cli) async fn read_resource(
    client: &Client,
    (group_kind, resource): (&GroupKind, &Resource),
    namespace: Option<&str>,
    name: &str,
) -> anyhow::Result<Value> {
    let api: Api<DynamicObject> = resource.api_in(client, namespace);
    let found = bounded(api.get_opt(name))
        .await
        .with_context(|| format!("{group_kind} {name}"))?;
    if let Some(object) = found {
        return Ok(serde_json::to_value(object)?);
    }
    let listed = bounded(api.list_metadata(&ListParams::default().limit(PAGE))).await;
    let listed = listed.map(|list| list.items).unwrap_or_default();
    let names: Vec<&str> = listed
        .iter()
        .filter_map(|object| object.metadata.name.as_deref())
        .collect();
    bail!("{}", describe_missing(group_kind, name, namespace, &names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_place_and_the_closest_name() {
        let kind = GroupKind::new("example.com", "Web");
        assert_eq!(
            describe_missing(&kind, "shp", Some("prod"), &["shop", "mail"]),
            "there is no Web.example.com shp in the namespace prod: did you mean shop?"
        );
        assert_eq!(
            describe_missing(&kind, "shop", Some("prod"), &[]),
            "there is no Web.example.com shop in the namespace prod: --namespace selects another"
        );
        assert_eq!(
            describe_missing(&kind, "shop", None, &[]),
            "there is no Web.example.com shop"
        );
        assert!(check_custom(&kind).is_ok());
        let refused = check_custom(&GroupKind::new("apps", "Deployment"))
            .unwrap_err()
            .to_string();
        assert!(
            refused.starts_with("Deployment.apps is a kind of Kubernetes"),
            "{refused}"
        );
    }

    #[test]
    fn kinds_that_are_not_listed_take_one_line() {
        let one = |n: usize| (format!("A{n}"), Error::Forbidden("no".into()));
        assert_eq!(describe_unlisted(&Vec::new()), None);
        let shown = describe_unlisted(&(0..7).map(one).collect()).unwrap();
        assert_eq!(shown, "not listed: A0, A1, A2, A3, A4 and 2 more: forbidden: no");
    }
}
