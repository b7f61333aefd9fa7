//! From rendered manifests to members: identity, namespace, labels, and what server-side apply refuses though Helm
//! accepts it. Every problem is found before the first write.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value};

use super::applyset;
use super::digest::Key;
use super::identity::{GroupKind, ObjectId};
use super::ownership::Owner;
use super::policy::Policy;
use crate::telemetry::cut;
use crate::watches::names;

/// Where in the order of a reconcile an object is applied. A stage opens when the one before is healthy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// Namespaces and CustomResourceDefinitions: what others need in order to exist.
    Foundations = 0,
    /// Everything else, in Helm's install order.
    Objects = 1,
    /// Admission webhooks: last, so that they can't refuse the release that brings them.
    Webhooks = 2,
}

/// One object to be applied.
#[derive(Clone, Debug)]
pub struct Member {
    pub id: ObjectId,
    /// API version without the group.
    pub version: String,
    pub stage: Stage,
    /// What is sent: the manifest with our labels and the tracking annotation.
    pub object: Value,
    /// The template, as Helm's `# Source:` names it.
    pub source: String,
    /// Keyed digest of `object`.
    pub digest: String,
    pub policy: Policy,
    /// What is sent besides: the reference to its custom resource. No part of the digest: it is not of the chart's making,
    /// and a release that gets it is no upgrade.
    pub owner: Option<Arc<OwnerReference>>,
}

/// A rendered object with its template.
#[derive(Clone, Debug)]
pub struct Rendered {
    pub object: Value,
    pub source: String,
}

/// What a release is called in labels and annotations, and where its objects go by default.
#[derive(Clone, Debug)]
pub struct Identity {
    pub owner: Owner,
    /// The operator's id, for the label `chartwright.dev/operator`.
    pub operator: String,
    /// `.Release.Namespace`.
    pub namespace: String,
}

/// Why a manifest cannot become a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{origin}: a manifest needs apiVersion and kind: {what}")]
    NoKind { origin: String, what: String },
    #[error("{origin}: {kind} has no metadata.name")]
    NoName { origin: String, kind: GroupKind },
    #[error("{origin}: {kind} uses metadata.generateName, which has no stable identity: give it a metadata.name")]
    GenerateName { origin: String, kind: GroupKind },
    #[error("{origin}: {kind}: metadata.{field} {name:?} is no valid name: {rule}")]
    InvalidName {
        origin: String,
        kind: GroupKind,
        field: &'static str,
        name: String,
        rule: &'static str,
    },
    #[error("{origin}: {id}: metadata.{field} must be a mapping")]
    NotAMapping {
        origin: String,
        id: ObjectId,
        field: &'static str,
    },
    #[error("{id} is rendered twice: by {first} and by {second}")]
    Duplicate {
        id: ObjectId,
        first: String,
        second: String,
    },
}

/// The outcome of reading a render.
#[derive(Debug, Default)]
pub struct Desired {
    /// In the order in which they are applied.
    pub members: Vec<Member>,
    /// Kinds that the API server does not serve, with their template: they wait for their CRD.
    pub unknown: Vec<Unknown>,
    pub problems: Vec<Problem>,
    /// What has no effect, though it keeps nothing from being applied.
    pub warnings: Vec<String>,
}

/// An object of a kind that the API server does not know (yet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    pub group_kind: GroupKind,
    pub version: String,
    pub source: String,
}

/// Says whether objects of a kind and version have a namespace; `None` if the API server does not serve it.
pub type IsNamespaced<'a> = dyn Fn(&GroupKind, &str) -> Option<bool> + 'a;

/// Of a name that is none, in bytes.
const LONGEST_QUOTE: usize = 80;

/// Fields that only the API server sets; a chart that carries them was exported from a live cluster.
const SERVER_FIELDS: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl Stage {
    pub fn of(group_kind: &GroupKind) -> Self {
        match (group_kind.group.as_str(), group_kind.kind.as_str()) {
            ("", "Namespace") | ("apiextensions.k8s.io", "CustomResourceDefinition") => Stage::Foundations,
            ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
                Stage::Webhooks
            }
            _ => Stage::Objects,
        }
    }
}

/// Turns a render (already in install order, `List` kinds flattened) into members.
pub fn desired(rendered: Vec<Rendered>, identity: &Identity, namespaced: &IsNamespaced<'_>, key: &Key) -> Desired {
    let mut result = Desired::default();
    let mut sources: HashMap<ObjectId, String> = HashMap::new();
    for Rendered { object, source } in rendered {
        let (policy, warnings) = Policy::of(&object);
        match member(object, &source, policy, identity, namespaced, key) {
            Ok(Ok(member)) => {
                let warnings = warnings
                    .into_iter()
                    .map(|text| format!("{source}: {}: {text}", member.id));
                result.warnings.extend(warnings);
                if let Some(first) = sources.insert(member.id.clone(), source.clone()) {
                    result.problems.push(Problem::Duplicate {
                        id: member.id,
                        first,
                        second: source,
                    });
                    continue;
                }
                result.members.push(member);
            }
            Ok(Err(unknown)) => result.unknown.push(unknown),
            Err(problem) => result.problems.push(*problem),
        }
    }
    result.members.sort_by_key(Member::turn);
    result
}

fn member(
    mut object: Value,
    source: &str,
    policy: Policy,
    identity: &Identity,
    namespaced: &IsNamespaced<'_>,
    key: &Key,
) -> Result<Result<Member, Unknown>, Box<Problem>> {
    let origin = || source.to_owned();
    let Some((group_kind, version)) = GroupKind::of(&object) else {
        let mut what = object.to_string();
        if let Some((cut, _)) = what.char_indices().nth(80) {
            what.truncate(cut);
            what.push('…');
        }
        return Err(Box::new(Problem::NoKind { origin: origin(), what }));
    };
    let name = object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    if name.is_empty() {
        return Err(Box::new(match object.pointer("/metadata/generateName") {
            Some(_) => Problem::GenerateName {
                origin: origin(),
                kind: group_kind,
            },
            None => Problem::NoName {
                origin: origin(),
                kind: group_kind,
            },
        }));
    }
    let invalid = |field, name: &str, rule| {
        Box::new(Problem::InvalidName {
            origin: origin(),
            kind: group_kind.clone(),
            field,
            name: cut(name, LONGEST_QUOTE),
            rule,
        })
    };
    names::object_name(&group_kind.group, &name).map_err(|rule| invalid("name", &name, rule))?;
    let Some(is_namespaced) = namespaced(&group_kind, &version) else {
        return Ok(Err(Unknown {
            group_kind,
            version,
            source: origin(),
        }));
    };
    let own = object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .filter(|namespace| !namespace.is_empty());
    let namespace = match is_namespaced {
        true => own.unwrap_or(&identity.namespace).to_owned(),
        false => String::new(),
    };
    if is_namespaced && !names::is_dns_label(&namespace) {
        return Err(invalid("namespace", &namespace, names::DNS_LABEL));
    }
    let id = ObjectId::new(group_kind, namespace, name);
    prepare(&mut object, &id, identity).map_err(|field| {
        Box::new(Problem::NotAMapping {
            origin: origin(),
            id: id.clone(),
            field,
        })
    })?;
    let mut member = Member {
        version,
        stage: Stage::of(&id.group_kind),
        object,
        source: origin(),
        digest: String::new(),
        policy,
        owner: None,
        id,
    };
    member.seal(key);
    Ok(Ok(member))
}

impl Member {
    /// When it is applied: whatever has a lower turn is applied, and healthy, before.
    pub fn turn(&self) -> (Stage, i32) {
        (self.stage, self.policy.wave)
    }

    /// Takes the digest of the object as it is now.
    pub fn seal(&mut self, key: &Key) {
        self.digest = key.digest(&[self.object.to_string().as_bytes()]);
    }
}

/// Puts our namespace, labels and annotation in, and takes out what server-side apply would refuse.
fn prepare(object: &mut Value, id: &ObjectId, identity: &Identity) -> Result<(), &'static str> {
    if id.group_kind == GroupKind::new("", "Secret") {
        fold_string_data(object);
    }
    if id.group_kind == GroupKind::new("rbac.authorization.k8s.io", "ClusterRole") {
        leave_aggregated_rules(object);
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Err("");
    };
    metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
    if id.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".into(), id.namespace.as_str().into());
    }
    let labels = mapping(metadata, "labels")?;
    labels.insert(applyset::PART_OF_LABEL.into(), identity.owner.set.as_str().into());
    labels.insert(applyset::OPERATOR_LABEL.into(), identity.operator.as_str().into());
    let annotations = mapping(metadata, "annotations")?;
    let tracking = applyset::tracking_id(&identity.owner.uid, &id.group_kind, &id.namespace, &id.name);
    annotations.insert(applyset::TRACKING_ANNOTATION.into(), tracking.into());
    Ok(())
}

fn mapping<'a>(
    metadata: &'a mut Map<String, Value>,
    field: &'static str,
) -> Result<&'a mut Map<String, Value>, &'static str> {
    let value = metadata.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().ok_or(field)
}

/// The rules of an aggregated ClusterRole are its controller's, which overwrites what a chart says of them.
fn leave_aggregated_rules(object: &mut Value) {
    if object.get("aggregationRule").is_some_and(Value::is_object)
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("rules");
    }
}

/// `stringData` is write-only: the API server folds it into `data`, so that our ownership of it would never match what
/// is live. Folding it here is what the server would do (its keys win).
fn fold_string_data(object: &mut Value) {
    let Some(Value::Object(strings)) = object.get_mut("stringData").map(Value::take) else {
        return;
    };
    let Some(fields) = object.as_object_mut() else { return };
    let mut kept = Map::new();
    let data = fields.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    if let Some(data) = data.as_object_mut() {
        for (key, value) in strings {
            match value {
                Value::String(text) => {
                    data.insert(key, data_encoding::BASE64.encode(text.as_bytes()).into());
                }
                // Left for the API server to refuse: its message names the field and the type.
                wrong => {
                    kept.insert(key, wrong);
                }
            }
        }
    }
    match kept.is_empty() {
        true => fields.remove("stringData"),
        false => fields.insert("stringData".into(), kept.into()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn identity() -> Identity {
        Identity {
            owner: Owner {
                uid: "u1".into(),
                set: "set-a".into(),
            },
            operator: "chartwright".into(),
            namespace: "shop".into(),
        }
    }

    fn run(objects: Vec<Value>) -> Desired {
        let rendered = objects.into_iter().enumerate().map(|(n, object)| Rendered {
            object,
            source: format!("t{n}.yaml"),
        });
        let namespaced = |group_kind: &GroupKind, _: &str| match group_kind.kind.as_str() {
            "Widget" => None,
            kind => Some(!matches!(
                kind,
                "Namespace" | "ClusterRole" | "ValidatingWebhookConfiguration"
            )),
        };
        desired(rendered.collect(), &identity(), &namespaced, &Key::new([0; 32]))
    }

    #[test]
    fn members_are_labelled_tracked_and_put_into_the_namespace_of_the_release() {
        let result = run(vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": null, "creationTimestamp": null, "annotations": {"k": "v"}},
        })]);
        assert_eq!(result.problems, []);
        assert_eq!(
            result.members[0].object["metadata"],
            json!({
                "name": "a", "namespace": "shop",
                "labels": {"applyset.kubernetes.io/part-of": "set-a", "chartwright.dev/operator": "chartwright"},
                "annotations": {"k": "v", "chartwright.dev/tracking-id": "u1:ConfigMap:shop/a"},
            })
        );
    }

    #[test]
    fn a_cluster_scoped_object_loses_the_namespace_that_a_chart_gave_it() {
        let result = run(vec![json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "r", "namespace": "shop"},
        })]);
        assert_eq!(result.members[0].id.namespace, "");
        assert!(result.members[0].object["metadata"].get("namespace").is_none());
    }

    #[test]
    fn foundations_come_first_and_webhooks_last() {
        let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "w"}});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        let kinds: Vec<_> = run(vec![webhook, config, namespace])
            .members
            .into_iter()
            .map(|m| m.id.group_kind.kind)
            .collect();
        assert_eq!(kinds, ["Namespace", "ConfigMap", "ValidatingWebhookConfiguration"]);
    }

    #[test]
    fn waves_come_in_their_order_within_a_stage() {
        let in_wave = |name: &str, wave: &str| {
            let annotations = json!({"chartwright.dev/wave": wave});
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations": annotations}})
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}});
        let result = run(vec![
            in_wave("c", "2"),
            in_wave("b", "first"),
            in_wave("a", "-1"),
            namespace,
        ]);
        let names: Vec<_> = result.members.iter().map(|member| member.id.name.as_str()).collect();
        assert_eq!(names, ["n", "a", "b", "c"]);
        assert_eq!(
            result.warnings,
            ["t1.yaml: ConfigMap shop/b: chartwright.dev/wave: \"first\" has no effect: it must be a whole number"]
        );
    }

    #[test]
    fn problems_name_their_templates() {
        let result = run(vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}),
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"}}),
            json!({"kind": "Pod"}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "l", "labels": [1]}}),
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}),
        ]);
        let texts: Vec<_> = result.problems.iter().map(Problem::to_string).collect();
        assert_eq!(
            texts,
            [
                "ConfigMap shop/a is rendered twice: by t0.yaml and by t1.yaml",
                "t2.yaml: ConfigMap has no metadata.name",
                "t3.yaml: Pod uses metadata.generateName, which has no stable identity: give it a metadata.name",
                "t4.yaml: a manifest needs apiVersion and kind: {\"kind\":\"Pod\"}",
                "t5.yaml: ConfigMap shop/l: metadata.labels must be a mapping",
            ]
        );
        assert_eq!(result.unknown.len(), 1);
        assert_eq!(result.unknown[0].source, "t6.yaml");
    }

    #[test]
    fn names_are_such_as_their_kinds_have() {
        let long = "a".repeat(254);
        let (rbac, custom) = ("rbac.authorization.k8s.io/v1", "example.com/v1");
        for (api_version, kind, name, valid) in [
            ("v1", "ConfigMap", "a.b-1", true),
            ("v1", "ConfigMap", "A", false),
            ("v1", "ConfigMap", "a_b", false),
            ("v1", "Secret", long.as_str(), false),
            ("v1", "Secret", &"a".repeat(200), true),
            (rbac, "Role", "system:Reader_1", true),
            (rbac, "Role", "a/b", false),
            (rbac, "Role", &long, false),
            // Of groups that aren't Kubernetes' own, nobody knows: OpenShift's have colons in them.
            (custom, "Gadget", "A:b_c", true),
            (custom, "Gadget", "a%2e", false),
            (custom, "Gadget", "..", false),
            (custom, "Gadget", &long, false),
        ] {
            let result = run(vec![
                json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}),
            ]);
            assert_eq!(result.members.len(), usize::from(valid), "{kind} {name}");
            let told: Vec<String> = result.problems.iter().map(Problem::to_string).collect();
            assert!(
                told.iter()
                    .all(|text| text.contains("is no valid name") && text.len() < 300),
                "{told:?}"
            );
        }
        let result = run(vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "A.b"}}),
        ]);
        assert_eq!(
            result.problems[0].to_string(),
            "t0.yaml: ConfigMap: metadata.namespace \"A.b\" is no valid name: at most 63 of a-z, 0-9 and -, with a letter or \
             digit at both ends"
        );
    }

    #[test]
    fn the_rules_of_an_aggregated_role_are_left_to_its_controller() {
        let role = |aggregation: Value| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
                "aggregationRule": aggregation, "rules": [],
            })
        };
        let result = run(vec![role(json!({"clusterRoleSelectors": []}))]);
        assert!(result.members[0].object.get("rules").is_none());
        let result = run(vec![role(json!(null))]);
        assert_eq!(result.members[0].object["rules"], json!([]));
    }

    #[test]
    fn string_data_becomes_data() {
        let result = run(vec![json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
            "data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new", "n": 3},
        })]);
        let object = &result.members[0].object;
        assert_eq!(object["data"], json!({"a": "bmV3", "b": "Yg=="}));
        assert_eq!(
            object["stringData"],
            json!({"n": 3}),
            "left for the API server to refuse"
        );
    }
}
