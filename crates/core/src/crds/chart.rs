//! The CustomResourceDefinitions that a chart brings, and which of two is newer.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use data_encoding::{BASE64, HEXLOWER};
use helm_template::sprig::semver::Version;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::annotations::{ALLOW_UNSAFE_CRD, CRD_CHART, CRD_DIGEST, CRD_OPERATOR};
use crate::drift::fingerprint::Canonical;
use crate::identity::applyset::{DIGEST_ANNOTATION, OPERATOR_LABEL, PART_OF_LABEL, TRACKING_ANNOTATION};

/// Where a CA bundle of a conversion webhook stands. Other controllers inject it.
pub const CA_BUNDLE: &str = "/spec/conversion/webhook/clientConfig/caBundle";

/// Labels and annotations that the operator reads or writes. In a chart they mean nothing.
const RESERVED: [&str; 8] = [
    ALLOW_UNSAFE_CRD,
    CRD_DIGEST,
    CRD_CHART,
    CRD_OPERATOR,
    PART_OF_LABEL,
    OPERATOR_LABEL,
    TRACKING_ANNOTATION,
    DIGEST_ANNOTATION,
];

/// A CustomResourceDefinition of a chart, in the form in which it is applied.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartCrd {
    pub claim: CrdClaim,
    /// Without status, metadata of the API server, and labels and annotations of ours.
    pub object: Value,
}

/// What is known of a chart's definition without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrdClaim {
    pub name: String,
    /// Its file in the chart.
    pub source: String,
    /// Digest of its content: 32 hex digits, the same for everyone.
    pub digest: String,
    pub marks: VersionMarks,
    /// Pointers into `fieldsV1` of the fields of its spec.
    pub fields: Vec<String>,
}

/// What shows the version of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionMarks {
    /// Annotations and labels with a version.
    pub marks: BTreeMap<String, String>,
    /// Name and version of the chart that it is from.
    pub chart: Option<String>,
}

/// A definition that several watches bring, from the view of one watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CrdProvider {
    /// This watch provides it.
    Own,
    /// Another watch provides the same content, or a newer version.
    Other(String),
    /// Another watch provides it, because it is first in the file: the versions can't be compared.
    Unclear(String),
}

impl ChartCrd {
    /// Prepares a definition for server-side apply. `chart`: name and version of its chart.
    pub fn new(source: &str, chart: &str, mut object: Value) -> Self {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.unwrap_or_default().to_owned();
        let mut metadata = json!({"name": name});
        for field in ["labels", "annotations"] {
            let kept: Map<String, Value> = texts(&object["metadata"][field])
                .filter(|(key, _)| !RESERVED.contains(key))
                .map(|(key, value)| (key.to_owned(), value.into()))
                .collect();
            if !kept.is_empty() {
                metadata[field] = Value::Object(kept);
            }
        }
        let marks = VersionMarks::new(&metadata, Some(chart.to_owned()));
        if let Some(fields) = object.as_object_mut() {
            fields.remove("status");
            fields.insert("metadata".into(), metadata);
        }
        prepare_spec(&mut object["spec"]);
        let content = json!({"metadata": object["metadata"], "spec": object["spec"]});
        let content = serde_json::to_vec(&Canonical(&content)).unwrap_or_default();
        let digest = HEXLOWER.encode(&Sha256::digest(content)[..16]);
        let mut fields = Vec::new();
        list_fields(&object["spec"], "/f:spec", &mut fields);
        let source = source.to_owned();
        ChartCrd {
            claim: CrdClaim {
                name,
                source,
                digest,
                marks,
                fields,
            },
            object,
        }
    }

    /// The object to send, with our annotations. A CA bundle that another field manager injected stays.
    pub fn apply_object(&self, operator: &str, live: Option<&Value>) -> Value {
        let mut object = self.object.clone();
        let annotations = &mut object["metadata"]["annotations"];
        annotations[CRD_DIGEST] = self.claim.digest.as_str().into();
        annotations[CRD_OPERATOR] = operator.into();
        if let Some(chart) = &self.claim.marks.chart {
            annotations[CRD_CHART] = chart.as_str().into();
        }
        let injected = live
            .and_then(|live| live.pointer(CA_BUNDLE))
            .filter(|bundle| !is_blank(bundle));
        let differs = injected.is_some_and(|bundle| object.pointer(CA_BUNDLE) != Some(bundle));
        if let (true, Some(config)) = (differs, client_config(&mut object["spec"])) {
            config.remove("caBundle");
        }
        object
    }
}

impl VersionMarks {
    /// Reads labels and annotations. Versions of the generator of a definition do not count.
    pub fn new(metadata: &Value, chart: Option<String>) -> Self {
        let is_version = |(key, _): &(&str, &str)| {
            let (prefix, name) = key.rsplit_once('/').unwrap_or_default();
            ["version", "bundle-version"].contains(&name) && prefix != "controller-gen.kubebuilder.io"
        };
        let annotations = texts(&metadata["annotations"]).filter(is_version);
        let labels = texts(&metadata["labels"]).filter(|(key, _)| *key == "app.kubernetes.io/version");
        let marks = annotations
            .chain(labels)
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        VersionMarks {
            marks: marks.collect(),
            chart,
        }
    }

    /// Names the marks, or else the chart.
    pub fn describe(&self) -> String {
        let marks: Vec<String> = self
            .marks
            .iter()
            .map(|(key, version)| format!("{key} {version}"))
            .collect();
        match &self.chart {
            Some(chart) if marks.is_empty() => format!("chart {chart}"),
            _ => marks.join(", "),
        }
    }

    /// Compares by the marks that both have, then by the versions of one chart. Returns `None` if nothing can be compared or the
    /// marks contradict each other.
    pub fn compare(&self, other: &VersionMarks) -> Option<Ordering> {
        let mut found = None;
        for (key, version) in &self.marks {
            let Some(order) = other.marks.get(key).and_then(|other| versions(version, other)) else {
                continue;
            };
            match found {
                _ if order == Ordering::Equal => {}
                None => found = Some(order),
                Some(known) if known == order => {}
                Some(_) => return None,
            }
        }
        if found.is_some() {
            return found;
        }
        let (name, version) = self.chart.as_ref()?.rsplit_once(' ')?;
        let (other_name, other) = other.chart.as_ref()?.rsplit_once(' ')?;
        if name == other_name {
            versions(version, other)
        } else {
            None
        }
    }
}

/// Which watch provides a definition: the newest one; of versions that can't be compared, the first in the file. `claims`: watches with
/// their claim on it, in the order of the file.
pub fn provider(claims: &[(&str, &CrdClaim)], own: &str) -> CrdProvider {
    let mut best: Option<&(&str, &CrdClaim)> = None;
    for next in claims {
        let is_newer = |best: &&(&str, &CrdClaim)| next.1.marks.compare(&best.1.marks) == Some(Ordering::Greater);
        if best.as_ref().is_none_or(is_newer) {
            best = Some(next);
        }
    }
    let own_claim = claims.iter().find(|(id, _)| *id == own);
    match (best, own_claim) {
        (Some((id, provided)), Some((_, claim))) if *id != own => {
            let is_older = claim.marks.compare(&provided.marks) == Some(Ordering::Less);
            if is_older || claim.digest == provided.digest {
                CrdProvider::Other((*id).to_owned())
            } else {
                CrdProvider::Unclear((*id).to_owned())
            }
        }
        _ => CrdProvider::Own,
    }
}

fn versions(one: &str, other: &str) -> Option<Ordering> {
    Some(Version::parse(one).ok()?.compare(&Version::parse(other).ok()?))
}

fn texts(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

fn client_config(spec: &mut Value) -> Option<&mut Map<String, Value>> {
    spec.pointer_mut("/conversion/webhook/clientConfig")?.as_object_mut()
}

/// True for the placeholder of a CA bundle: nothing but white space.
fn is_blank(bundle: &Value) -> bool {
    let text = bundle.as_str().unwrap_or_default();
    let decoded = BASE64.decode(text.as_bytes());
    decoded.is_ok_and(|bytes| bytes.iter().all(u8::is_ascii_whitespace))
}

/// Removes what only claims fields of others: nulls, the default conversion, and a placeholder of a CA bundle.
fn prepare_spec(spec: &mut Value) {
    drop_nulls(spec);
    if let Some(names) = spec.get_mut("names") {
        drop_nulls(names);
    }
    for version in spec
        .get_mut("versions")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        drop_nulls(version);
    }
    if let Some(config) = client_config(spec)
        && config.get("caBundle").is_some_and(is_blank)
    {
        config.remove("caBundle");
    }
    if spec.get("conversion") == Some(&json!({"strategy": "None"}))
        && let Some(fields) = spec.as_object_mut()
    {
        fields.remove("conversion");
    }
}

fn drop_nulls(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

/// Lists the fields below a map. Lists count as one field. The CA bundle belongs to the client that injects it, and the API server drops
/// empty fields and `preserveUnknownFields: false`.
fn list_fields(value: &Value, path: &str, found: &mut Vec<String>) {
    for (key, below) in value.as_object().into_iter().flatten() {
        let path = format!("{path}/f:{key}");
        match below {
            _ if key == "caBundle" || key == "preserveUnknownFields" => {}
            Value::Object(_) => list_fields(below, &path, found),
            Value::Array(items) if items.is_empty() => {}
            Value::Null => {}
            Value::String(text) if text.is_empty() => {}
            _ => found.push(path),
        }
    }
}
