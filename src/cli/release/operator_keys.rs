//! The operator's key, without which its record and its stored values prove nothing.

use std::sync::Once;

use anyhow::{Context as _, bail};
use clap::Args;
use kube::Client;
use serde_json::Value;

use crate::cli::stdout::note;
use chartwright_core::digest::{Key, Keyring};
use chartwright_operator::cluster::storage::keys::{self, KeyOwner};
use chartwright_operator::cluster::{Discovery, Error};
use chartwright_preview::PreviewCluster;
use chartwright_watches::text::first_items;

/// The operator's name if none is given and no other operator's key is found.
const DEFAULT_OPERATOR: &str = "chartwright";
/// Operators that a message names.
const MOST_NAMED: usize = 5;

/// The operator whose record of a release is read.
#[derive(Args, Clone, Debug)]
pub(in crate::cli) struct OperatorArgs {
    /// The operator's name: the label on members, and part of the name of its key [default: chartwright, else the only operator whose key
    /// is found]
    #[arg(long, value_name = "NAME", env = "OPERATOR_NAME", hide_env_values = true)]
    pub operator_name: Option<String>,
    /// The operator's own namespace, where its key lies [default: where its key is found]
    #[arg(long, value_name = "NAMESPACE")]
    pub operator_namespace: Option<String>,
}

/// What a search for the key led to.
#[derive(Debug, PartialEq, Eq)]
enum SearchResult {
    /// The key of this operator is to be used.
    Found(KeyOwner),
    /// Why no key can be used.
    Nothing(String),
}

/// The operators whose keys a search found.
#[derive(Default)]
struct FoundOwners {
    /// In the given namespace, or in the client's own.
    near: Vec<KeyOwner>,
    /// In all namespaces.
    all: Vec<KeyOwner>,
}

impl OperatorArgs {
    /// Connects a preview with the operator's keys. `live`: the custom resources that are previewed, of which an operator may have a record.
    pub(in crate::cli) async fn preview_cluster<'a>(
        &self,
        client: Client,
        discovery: Discovery,
        live: impl IntoIterator<Item = &'a Value>,
    ) -> anyhow::Result<PreviewCluster> {
        let (keys, owner) = self.load_keys(&client, live.into_iter().any(has_record)).await?;
        Ok(PreviewCluster {
            client,
            discovery,
            keys,
            operator: owner.operator,
            own_namespace: owner.namespace,
            render: None,
            quick: None,
        })
    }

    /// The name on the command line or in the environment.
    fn given_name(&self) -> Option<&str> {
        self.operator_name.as_deref().filter(|name| !name.is_empty())
    }

    /// Reads the operator's keys. Returns them with the operator. `is_needed`: a release has a record that the operator signed.
    async fn load_keys(&self, client: &Client, is_needed: bool) -> anyhow::Result<(Keyring, KeyOwner)> {
        let operator = self.given_name().unwrap_or(DEFAULT_OPERATOR);
        let namespace = match &self.operator_namespace {
            Some(namespace) => namespace.clone(),
            None => {
                let found = keys::find_namespace(client, operator).await;
                found.unwrap_or_else(|| client.default_namespace().to_owned())
            }
        };
        let expected = KeyOwner {
            operator: operator.to_owned(),
            namespace,
        };
        if let Some(keys) = read(client, &expected).await? {
            return Ok((keys, expected));
        }
        let why = match self.search(&expected, &self.list_owners(client, &expected.namespace).await) {
            SearchResult::Found(owner) => match read(client, &owner).await {
                Ok(Some(keys)) => {
                    note_once(&owner);
                    return Ok((keys, owner));
                }
                Ok(None) => self.describe_absence(&expected, &[]),
                Err(error) if is_needed => return Err(error),
                Err(error) => format!("{error:#}"),
            },
            SearchResult::Nothing(why) => why,
        };
        // Perhaps no operator has run yet.
        if !is_needed {
            return Ok((Keyring::new(Key::new([0; 32]), Vec::new()), expected));
        }
        bail!("{why}")
    }

    /// Lists the operators that have a key. A list that is refused counts as empty.
    async fn list_owners(&self, client: &Client, namespace: &str) -> FoundOwners {
        let near = keys::list_owners(client, Some(namespace)).await.unwrap_or_default();
        if self.given_name().is_none() && !near.is_empty() {
            return FoundOwners { near, all: Vec::new() };
        }
        let all = keys::list_owners(client, None).await;
        FoundOwners {
            all: all.unwrap_or_else(|_| near.clone()),
            near,
        }
    }

    /// Decides whose key is used in the place of the one that does not exist. A name or namespace that was given is never replaced.
    fn search(&self, expected: &KeyOwner, found: &FoundOwners) -> SearchResult {
        let FoundOwners { near, all } = found;
        let all = if near.is_empty() { all } else { near };
        let candidates = match (self.given_name(), &self.operator_namespace) {
            (Some(_), _) => return SearchResult::Nothing(self.describe_absence(expected, all)),
            (None, Some(_)) => near,
            (None, None) => all,
        };
        match candidates.as_slice() {
            [one] => SearchResult::Found(one.clone()),
            [] => SearchResult::Nothing(self.describe_absence(expected, all)),
            [first, rest @ ..] => {
                let differ = |field: fn(&KeyOwner) -> &str| rest.iter().any(|other| field(other) != field(first));
                let flag = match (differ(|owner| &owner.operator), differ(|owner| &owner.namespace)) {
                    (true, false) => "--operator-name chooses one",
                    (false, _) => "--operator-namespace chooses one",
                    (true, true) => "--operator-name and --operator-namespace choose one",
                };
                let names = first_items(
                    MOST_NAMED,
                    candidates
                        .iter()
                        .map(|owner| format!("{} in {}", owner.operator, owner.namespace)),
                );
                SearchResult::Nothing(format!("several operators have a key: {names}: {flag}"))
            }
        }
    }

    /// The message about a key that does not exist. `others`: keys that do.
    fn describe_absence(&self, expected: &KeyOwner, others: &[KeyOwner]) -> String {
        let secret = format!("{}/{}", expected.namespace, keys::secret_name(&expected.operator));
        let mut text = format!(
            "the operator's key, Secret {secret}, does not exist: --operator-namespace and --operator-name set its place"
        );
        if !others.is_empty() {
            let describe = |owner: &KeyOwner| {
                let KeyOwner { operator, namespace } = owner;
                let needs_namespace = others.iter().filter(|other| other.operator == *operator).count() > 1
                    || self.operator_namespace.as_ref().is_some_and(|given| given != namespace);
                let more = if needs_namespace {
                    format!(" --operator-namespace {namespace}")
                } else {
                    String::new()
                };
                format!("{operator} in {namespace}: --operator-name {operator}{more}")
            };
            text += &format!("; found {}", first_items(MOST_NAMED, others.iter().map(describe)));
        }
        text
    }
}

/// Reads the keys of an operator. `None`: the Secret does not exist.
async fn read(client: &Client, owner: &KeyOwner) -> anyhow::Result<Option<Keyring>> {
    let KeyOwner { operator, namespace } = owner;
    let name = keys::secret_name(operator);
    match keys::load(client.clone(), namespace, operator).await {
        Ok(keys) => Ok(keys),
        Err(error @ Error::Forbidden(_)) => Err(error).with_context(|| {
            format!(
                "you need the right to get the operator's key, Secret {namespace}/{name}, so that its record of a release can be read; \
                 --operator-namespace and --operator-name set its place"
            )
        }),
        Err(error) => Err(error).with_context(|| format!("Secret {namespace}/{name}")),
    }
}

/// Names the operator that was found. A dashboard reads its key for each preview, and names it once.
fn note_once(owner: &KeyOwner) {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        note!(
            "note: the operator is {} in namespace {}",
            owner.operator,
            owner.namespace
        )
    });
}

/// True if the operator has applied a custom resource.
fn has_record(live: &Value) -> bool {
    live["status"]["release"]["revision"].as_i64().unwrap_or_default() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(text: &str) -> KeyOwner {
        let (operator, namespace) = text.split_once('@').unwrap();
        KeyOwner {
            operator: operator.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    /// Searches with keys such as `ops@default`.
    fn search(name: Option<&str>, namespace: Option<&str>, near: &[&str], all: &[&str]) -> SearchResult {
        let args = OperatorArgs {
            operator_name: name.map(str::to_owned),
            operator_namespace: namespace.map(str::to_owned),
        };
        let expected = KeyOwner {
            operator: args.given_name().unwrap_or(DEFAULT_OPERATOR).to_owned(),
            namespace: namespace.unwrap_or("mine").to_owned(),
        };
        let found = FoundOwners {
            near: near.iter().map(|text| owner(text)).collect(),
            all: all.iter().map(|text| owner(text)).collect(),
        };
        args.search(&expected, &found)
    }

    #[test]
    fn the_only_key_is_used_if_no_name_is_given() {
        for (namespace, near, all, expected) in [
            (None, &["ops@mine"][..], &[][..], "ops@mine"),
            (None, &["ops@mine"], &["ops@mine", "other@shop"], "ops@mine"),
            (None, &[], &["ops@default"], "ops@default"),
            (Some("shop"), &["ops@shop"], &["ops@shop", "other@a"], "ops@shop"),
        ] {
            let found = search(None, namespace, near, all);
            assert_eq!(found, SearchResult::Found(owner(expected)));
            assert_eq!(
                search(Some(""), namespace, near, all),
                found,
                "an empty variable is no name"
            );
        }
    }

    #[test]
    fn other_keys_are_named_with_the_flag_that_chooses_them() {
        let absent = |secret: &str, more: &str| {
            format!(
                "the operator's key, Secret {secret}, does not exist: --operator-namespace and --operator-name set its place{more}"
            )
        };
        let default = |more: &str| absent("mine/chartwright-hmac-key", more);
        let several = |text: &str| format!("several operators have a key: {text}");
        for (name, namespace, near, all, expected) in [
            (None, None, &[][..], &[][..], default("")),
            (
                None,
                None,
                &["a@mine", "b@mine"],
                &[],
                several("a in mine, b in mine: --operator-name chooses one"),
            ),
            (
                None,
                None,
                &[],
                &["a@x", "a@y"],
                several("a in x, a in y: --operator-namespace chooses one"),
            ),
            (
                None,
                None,
                &[],
                &["a@x", "b@x", "a@y"],
                several("a in x, b in x, a in y: --operator-name and --operator-namespace choose one"),
            ),
            (
                None,
                Some("shop"),
                &[],
                &["ops@default"],
                absent(
                    "shop/chartwright-hmac-key",
                    "; found ops in default: --operator-name ops --operator-namespace default",
                ),
            ),
            (
                Some("web"),
                None,
                &[],
                &["ops@default"],
                absent("mine/web-hmac-key", "; found ops in default: --operator-name ops"),
            ),
            (Some("web"), None, &[], &[], absent("mine/web-hmac-key", "")),
        ] {
            let found = search(name, namespace, near, all);
            assert_eq!(found, SearchResult::Nothing(expected));
        }
        let many: Vec<String> = (0..7).map(|at| format!("o{at}@x")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let SearchResult::Nothing(text) = search(None, None, &many, &[]) else {
            panic!("one of many was chosen");
        };
        assert!(text.contains("o4 in x and 2 more: --operator-name"), "{text}");
    }
}
