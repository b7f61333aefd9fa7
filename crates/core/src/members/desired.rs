//! Turns rendered manifests into members: identity, namespace, labels, and corrections of what server-side apply refuses
//! although Helm accepts it. Every problem is found before the first write.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::annotations::READY_WHEN;
use crate::digest::{Key, KeyUse};
use crate::drift::ignored::IgnoredFields;
use crate::health::gates::Gate;
use crate::hooks::{self, Hook};
use crate::identity::applyset;
use crate::identity::ownership::Owner;
use crate::identity::{GroupKind, ObjectId};
use crate::members::policy::Policy;
use chartwright_watches::names;
use chartwright_watches::text::cut;
use chartwright_watches::{DriftPolicy, IgnoreRule};
use go_yaml as yaml;

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
    /// Fields that are left to others, once the object exists.
    pub ignored: Option<Arc<IgnoredFields>>,
}

/// A rendered object with its template.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RenderedObject {
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

/// The outcome of reading a render.
#[derive(Debug, Default)]
pub struct Desired {
    /// In the order in which they are applied.
    pub members: Vec<Member>,
    /// In install order.
    pub hooks: Vec<Hook>,
    /// Kinds that the API server does not serve, with their template: they wait for their CRD.
    pub unknown: Vec<Unknown>,
    /// Why manifests cannot become members, each with its template.
    pub problems: Vec<String>,
    /// What has no effect, though it keeps nothing from being applied.
    pub warnings: Vec<String>,
    /// Why patches of the watch cannot be applied. Each text names template, object, patch and operation.
    pub patch_failures: Vec<String>,
    /// A sentence about each patch of the watch that selects no object.
    pub unmatched_patches: Vec<String>,
    /// The length of the conditions that its objects state, in bytes.
    conditions: usize,
}

/// So long may the conditions be that the objects of a release state, in bytes together: they are evaluated often.
const LONGEST_CONDITIONS: usize = 128 << 10;

/// An object of a kind that the API server does not know (yet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    pub group_kind: GroupKind,
    pub version: String,
    pub source: String,
    /// If the object is a hook: when it runs.
    pub events: Vec<String>,
}

impl Unknown {
    /// What it waits for. `served`: the version in which the API server has the kind, if it has it at all.
    pub fn message(&self, served: Option<&str>) -> String {
        let GroupKind { group, kind } = &self.group_kind;
        let within = |version: &str| match group.as_str() {
            "" => version.to_owned(),
            group => format!("{group}/{version}"),
        };
        let waits = match served {
            Some(version) => format!("it serves {}", within(version)),
            None if names::is_built_in(group) => "it is a kind of another version of Kubernetes".to_owned(),
            None => "it is applied when its CustomResourceDefinition appears".to_owned(),
        };
        let (source, version) = (&self.source, within(&self.version));
        format!("{source}: the API server does not serve {kind} in {version}; {waits}")
    }
}

/// Says whether objects of a kind and version have a namespace; `None` if the API server does not serve it.
pub type IsNamespaced<'a> = dyn Fn(&GroupKind, &str) -> Option<bool> + 'a;

/// Of a name that is none, or of a manifest without one, in bytes.
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
pub fn desired(
    rendered: Vec<RenderedObject>,
    identity: &Identity,
    namespaced: &IsNamespaced<'_>,
    key: &Key,
) -> Desired {
    let mut result = Desired::default();
    let mut sources: HashMap<ObjectId, String> = HashMap::new();
    for one in rendered {
        let Some(member) = result.read(one, identity, namespaced, key) else {
            continue;
        };
        match sources.insert(member.id.clone(), member.source.clone()) {
            None => result.members.push(member),
            Some(first) => {
                let Member { id, source, .. } = member;
                let problem = format!("{id} is rendered twice: by {first} and by {source}");
                result.problems.push(problem);
            }
        }
    }
    result.members.sort_by_key(Member::turn);
    result
}

impl Desired {
    /// Gives the members what their watch says about drift. Their own annotations win.
    pub fn give_drift_rules(&mut self, policy: DriftPolicy, rules: &[IgnoreRule]) {
        for member in &mut self.members {
            member.policy.drift.get_or_insert(policy);
            member.ignored = IgnoredFields::of(rules, &member.id).map(Arc::new);
        }
    }

    /// Whether an object may state its condition, if it has one.
    fn check_condition(&mut self, object: &Value) -> Result<(), String> {
        let annotations = object.pointer("/metadata/annotations");
        let Some(text) = annotations.and_then(|annotations| annotations.get(READY_WHEN)?.as_str()) else {
            return Ok(());
        };
        self.conditions += text.len();
        if self.conditions > LONGEST_CONDITIONS {
            return Err(format!(
                "the conditions of the objects of a release are over the limit of {LONGEST_CONDITIONS} bytes together"
            ));
        }
        Gate::of_object(object).map_or(Ok(()), |gate| gate.map(drop).map_err(|error| error.to_string()))
    }

    /// Makes a member of a manifest; takes note of why that can't be.
    fn read(
        &mut self,
        RenderedObject { mut object, source }: RenderedObject,
        identity: &Identity,
        namespaced: &IsNamespaced<'_>,
        key: &Key,
    ) -> Option<Member> {
        let (id, version) = match identify(&object, &source, &identity.namespace, namespaced) {
            Ok(Ok(known)) => known,
            Ok(Err(unknown)) => {
                self.unknown.push(unknown);
                return None;
            }
            Err(problem) => {
                self.problems.push(format!("{source}: {problem}"));
                return None;
            }
        };
        let (policy, warnings) = Policy::of(&object);
        let warnings = warnings.into_iter().map(|text| format!("{source}: {id}: {text}"));
        self.warnings.extend(warnings);
        if let Err(why) = self.check_condition(&object) {
            self.problems.push(format!("{source}: {id}: {READY_WHEN}: {why}"));
            return None;
        }
        if let Err(field) = prepare(&mut object, &id, identity) {
            self.problems.push(format!("{source}: {id}: {field} must be a mapping"));
            return None;
        }
        let mut member = Member {
            version,
            stage: Stage::of(&id.group_kind),
            object,
            source,
            digest: String::new(),
            policy,
            owner: None,
            ignored: None,
            id,
        };
        member.seal(key);
        Some(member)
    }
}

/// Adds the hooks of a render, in install order. Several may have one name, if they run at different events.
pub fn add_hooks(
    desired: &mut Desired,
    rendered: Vec<RenderedObject>,
    identity: &Identity,
    namespaced: &IsNamespaced<'_>,
    key: &Key,
) {
    for RenderedObject { mut object, source } in rendered {
        give_name(&mut object, key);
        let Some(member) = desired.read(RenderedObject { object, source }, identity, namespaced, key) else {
            continue;
        };
        let place = format!("{}: {}", member.source, member.id);
        if let Some(other) = desired.members.iter().find(|other| other.id == member.id) {
            let problem = format!("{place} is a hook, and {} renders it as well", other.source);
            desired.problems.push(problem);
            continue;
        }
        let (hook, problems) = Hook::of(member);
        let problems = problems.into_iter().map(|text| format!("{place}: {text}"));
        desired.warnings.extend(problems);
        desired.hooks.push(hook);
    }
}

/// A hook with `generateName` gets a name that lasts as long as it is rendered like this.
fn give_name(object: &mut Value, key: &Key) {
    let digest = key.digest(KeyUse::HookName, &[object.to_string().as_bytes()]);
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let has_name = metadata.get("name").is_some_and(|name| name.as_str() != Some(""));
    if let Some(Value::String(prefix)) = metadata.get("generateName").filter(|_| !has_name).cloned() {
        metadata.remove("generateName");
        metadata.insert("name".into(), format!("{prefix}{}", &digest[..8]).into());
    }
}

/// Who a manifest is, and the version of its kind.
///
/// # Errors
/// Why it can be no object.
fn identify(
    object: &Value,
    source: &str,
    release_namespace: &str,
    namespaced: &IsNamespaced<'_>,
) -> Result<Result<(ObjectId, String), Unknown>, String> {
    let Some((kind, version)) = GroupKind::of(object) else {
        let what = cut(&object.to_string(), LONGEST_QUOTE);
        return Err(format!("a manifest needs apiVersion and kind: {what}"));
    };
    let text = |field: &str| object["metadata"][field].as_str().filter(|text| !text.is_empty());
    let Some(name) = text("name") else {
        return Err(match object.pointer("/metadata/generateName") {
            Some(_) => {
                format!("{kind} uses metadata.generateName, which has no stable identity: give it a metadata.name")
            }
            None => format!("{kind} has no metadata.name"),
        });
    };
    let invalid = |field: &str, name: &str, rule: &str| {
        let name = cut(name, LONGEST_QUOTE);
        format!("{kind}: metadata.{field} {name:?} is no valid name: {rule}")
    };
    names::check_object_name(&kind.group, name).map_err(|rule| invalid("name", name, rule))?;
    let namespace = match namespaced(&kind, &version) {
        None => {
            return Ok(Err(Unknown {
                group_kind: kind,
                version,
                source: source.to_owned(),
                events: hooks::events(object),
            }));
        }
        Some(true) => text("namespace").unwrap_or(release_namespace),
        Some(false) => "",
    };
    if !namespace.is_empty() && !names::is_dns_label(namespace) {
        return Err(invalid("namespace", namespace, names::DNS_LABEL));
    }
    let id = ObjectId::new(kind.clone(), namespace, name);
    Ok(Ok((id, version)))
}

/// Keyed digest of members; empty for none.
pub fn digest<'m>(key: &Key, members: impl Iterator<Item = &'m Member>) -> String {
    let digests: Vec<&[u8]> = members.map(|member| member.digest.as_bytes()).collect();
    if digests.is_empty() {
        String::new()
    } else {
        key.digest(KeyUse::Members, &digests)
    }
}

impl Member {
    /// A YAML document as `chartwright render` prints it: an object of this member, with its template and, of a hook, the events
    /// at which it runs.
    ///
    /// # Errors
    /// It nests too deep.
    pub fn document(&self, object: &Value, events: &[String]) -> Result<String, yaml::Error> {
        let events = match events {
            [] => String::new(),
            events => format!("# Hook: {}\n", events.join(",")),
        };
        let text = yaml::to_string(object, yaml::MAX_DEPTH)?;
        Ok(format!("---\n# Source: {}\n{events}{text}", self.source))
    }

    /// As it is kept, to be read like a manifest again.
    pub fn rendered(&self) -> RenderedObject {
        RenderedObject {
            object: self.object.clone(),
            source: self.source.clone(),
        }
    }

    /// When it is applied: members of lower turns are applied, and healthy, before.
    pub fn turn(&self) -> (Stage, i32) {
        (self.stage, self.policy.wave)
    }

    /// Takes the digest of the object as it is now.
    pub fn seal(&mut self, key: &Key) {
        self.digest = key.digest(KeyUse::Member, &[self.object.to_string().as_bytes()]);
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
    leave_empty_ca_bundles(object, &id.group_kind);
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Err("metadata");
    };
    metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
    if id.namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".into(), id.namespace.as_str().into());
    }
    let labels = mapping(metadata, "labels").ok_or("metadata.labels")?;
    labels.insert(applyset::PART_OF_LABEL.into(), identity.owner.set.as_str().into());
    labels.insert(applyset::OPERATOR_LABEL.into(), identity.operator.as_str().into());
    let annotations = mapping(metadata, "annotations").ok_or("metadata.annotations")?;
    let tracking = applyset::tracking_id(&identity.owner.uid, &id.group_kind, &id.namespace, &id.name);
    annotations.insert(applyset::TRACKING_ANNOTATION.into(), tracking.into());
    Ok(())
}

/// A field that is a mapping, or becomes one where there is none.
fn mapping<'a>(fields: &'a mut Map<String, Value>, field: &str) -> Option<&'a mut Map<String, Value>> {
    let value = fields.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// The rules of an aggregated ClusterRole are its controller's, which overwrites what a chart says of them.
fn leave_aggregated_rules(object: &mut Value) {
    if object.get("aggregationRule").is_some_and(Value::is_object)
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("rules");
    }
}

/// An empty `caBundle`, or a line break (`Cg==`, as Kubebuilder scaffolds it), requests nothing, and an injector such as
/// cert-manager's fills it.
fn leave_empty_ca_bundles(object: &mut Value, kind: &GroupKind) {
    let remove = |config: Option<&mut Value>| {
        if let Some(config) = config.and_then(Value::as_object_mut)
            && config
                .get("caBundle")
                .is_some_and(|bundle| bundle == "" || bundle == "Cg==")
        {
            config.remove("caBundle");
        }
    };
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("admissionregistration.k8s.io", _) => {
            let webhooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
            for webhook in webhooks.into_iter().flatten() {
                remove(webhook.get_mut("clientConfig"));
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            remove(object.pointer_mut("/spec/conversion/webhook/clientConfig"));
        }
        ("apiregistration.k8s.io", "APIService") => remove(object.get_mut("spec")),
        _ => {}
    }
}

/// `stringData` is write-only: the API server folds it into `data`, so that our ownership of it would never match what
/// is live. Folding it here is what the server would do (its keys win).
pub fn fold_string_data(object: &mut Value) {
    let Some(fields) = object.as_object_mut() else { return };
    let Some(mut strings) = fields.get("stringData").and_then(Value::as_object).cloned() else {
        return;
    };
    fields.remove("stringData");
    if let Some(data) = mapping(fields, "data") {
        // What is no text is left for the API server to refuse: its message names the field and the type.
        strings.retain(|key, value| {
            let text = value.as_str().map(|text| data_encoding::BASE64.encode(text.as_bytes()));
            let is_text = text.is_some();
            data.extend(text.map(|text| (key.clone(), text.into())));
            !is_text
        });
    }
    if !strings.is_empty() {
        fields.insert("stringData".into(), strings.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{owner, table};

    fn run(manifests: Vec<Value>) -> Desired {
        let identity = Identity {
            owner: owner(),
            operator: "chartwright".into(),
            namespace: "shop".into(),
        };
        let rendered = manifests.into_iter().enumerate().map(|(n, object)| RenderedObject {
            object,
            source: format!("t{n}.yaml"),
        });
        let cluster_scoped = ["Namespace", "ClusterRole", "ValidatingWebhookConfiguration"];
        let namespaced = |group_kind: &GroupKind, _: &str| match group_kind.kind.as_str() {
            "Widget" => None,
            kind => Some(!cluster_scoped.contains(&kind)),
        };
        desired(rendered.collect(), &identity, &namespaced, &Key::new([0; 32]))
    }

    #[derive(Default, serde::Deserialize)]
    #[serde(default)]
    struct Render {
        name: String,
        manifests: Vec<Value>,
        members: Vec<Value>,
        names: Vec<String>,
        problems: Vec<String>,
        warnings: Vec<String>,
        unknown: Vec<String>,
    }

    #[test]
    fn manifests_become_members() {
        for render in table::<Render>("desired", "renders") {
            let result = run(render.manifests);
            let names: Vec<&str> = result.members.iter().map(|member| member.id.name.as_str()).collect();
            if render.members.is_empty() {
                assert_eq!(names, render.names, "{}", render.name);
            } else {
                assert_eq!(names.len(), render.members.len(), "{}", render.name);
            }
            for (member, mut expected) in result.members.iter().zip(render.members) {
                // Their marks are those of the first case.
                for marks in ["labels", "annotations"] {
                    if expected["metadata"].get(marks).is_none() {
                        expected["metadata"][marks] = member.object["metadata"][marks].clone();
                    }
                }
                assert_eq!(member.object, expected, "{}", render.name);
            }
            let found = (result.problems, result.warnings);
            assert_eq!(found, (render.problems, render.warnings), "{}", render.name);
            let unknown: Vec<_> = result.unknown.into_iter().map(|unknown| unknown.source).collect();
            assert_eq!(unknown, render.unknown, "{}", render.name);
        }
    }

    #[test]
    fn names_are_such_as_their_kinds_have() {
        type Row = (String, String, String, usize, bool);
        for (api_version, kind, name, times, valid) in table::<Row>("desired", "names") {
            let name = name.repeat(times);
            let manifest = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
            let result = run(vec![manifest]);
            assert_eq!(result.members.len(), usize::from(valid), "{kind} {name}");
            let is_reported = |text: &String| text.contains("is no valid name") && text.len() < 300;
            assert!(result.problems.iter().all(is_reported), "{:?}", result.problems);
        }
    }

    #[test]
    fn an_unknown_kind_waits_for_what_can_come() {
        for (group_kind, version, served, expected) in [
            (
                "Gadget.x.test",
                "v1",
                None,
                "Gadget in x.test/v1; it is applied when its CustomResourceDefinition appears",
            ),
            (
                "Gadget.x.test",
                "v1",
                Some("v2"),
                "Gadget in x.test/v1; it serves x.test/v2",
            ),
            (
                "PodSecurityPolicy.policy",
                "v1beta1",
                None,
                "PodSecurityPolicy in policy/v1beta1; it is a kind of another version of Kubernetes",
            ),
            ("Pod", "v2", Some("v1"), "Pod in v2; it serves v1"),
        ] {
            let unknown = Unknown {
                group_kind: GroupKind::parse(group_kind),
                version: version.to_owned(),
                source: "a.yaml".to_owned(),
                events: Vec::new(),
            };
            let expected = format!("a.yaml: the API server does not serve {expected}");
            assert_eq!(unknown.message(served), expected);
        }
    }
}
