//! Everything that is in a cluster, and what comes and goes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use chartwright_core::identity::applyset::PART_OF_LABEL;

use crate::lane::{OPERATOR_NAMESPACE, RELEASES};
use crate::support::Kubectl;

/// What comes and goes without the operator's doing, and the custom resource itself.
const PASSING: [&str; 4] = ["events", "events.events.k8s.io", "leases.coordination.k8s.io", RELEASES];

/// Ignored objects without our labels: the chart's `crds/` or a StatefulSet created them.
const STAYS: [&str; 4] = [
    "CustomResourceDefinition",
    "APIService",
    "PersistentVolumeClaim",
    "PersistentVolume",
];

/// One object each line: apiVersion, kind, namespace, name, UID, the label of the release, the policy.
const TEMPLATE: &str = r#"{{range .items}}{{.apiVersion}}{{"\t"}}{{.kind}}{{"\t"}}{{or .metadata.namespace ""}}{{"\t"}}{{.metadata.name}}{{"\t"}}{{.metadata.uid}}{{"\t"}}{{with .metadata.labels}}{{or (index . "PART_OF") ""}}{{end}}{{"\t"}}{{with .metadata.annotations}}{{or (index . "helm.sh/resource-policy") ""}}{{end}}{{"\n"}}{{end}}"#;

/// The objects of a cluster, by `Kind.group namespace/name`.
#[derive(Debug, Default)]
pub struct TrialObjects(BTreeMap<String, TrialObject>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialObject {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    group: String,
    uid: String,
    /// Carries the label of a release.
    is_labelled: bool,
    is_kept: bool,
}

/// What is different from before.
pub struct ObjectDifference {
    pub new: Vec<(String, TrialObject)>,
    pub gone: Vec<String>,
}

impl TrialObjects {
    /// All of them, but what lies in the operator's namespace.
    pub fn list(kubectl: &Kubectl) -> Result<TrialObjects> {
        let kinds = kubectl.run(["api-resources", "--verbs=list", "--output=name"])?;
        let kinds: Vec<&str> = kinds.lines().filter(|kind| !PASSING.contains(kind)).collect();
        let template = format!("go-template={}", TEMPLATE.replace("PART_OF", PART_OF_LABEL));
        let list = kubectl.run(["get", &kinds.join(","), "-A", "--ignore-not-found", "-o", &template])?;
        let mut objects = BTreeMap::new();
        for line in list.lines() {
            let object = TrialObject::parse(line).with_context(|| format!("kubectl prints {line:?}"))?;
            if object.namespace != OPERATOR_NAMESPACE {
                objects.insert(object.id(), object);
            }
        }
        Ok(TrialObjects(objects))
    }

    pub fn difference(&self, mut now: TrialObjects) -> ObjectDifference {
        let is_there = |id: &String, object: &TrialObject| now.0.get(id).is_some_and(|now| now.uid == object.uid);
        // A volume goes with the claims of an earlier chart.
        let is_lasting = |object: &TrialObject| object.kind != "PersistentVolume";
        let gone = self.0.iter();
        let gone = gone.filter(|(id, object)| is_lasting(object) && !is_there(id, object));
        let gone = gone.map(|(id, _)| id.clone()).collect();
        now.0
            .retain(|id, object| self.0.get(id).is_none_or(|before| before.uid != object.uid));
        ObjectDifference {
            new: now.0.into_iter().collect(),
            gone,
        }
    }
}

impl TrialObject {
    fn parse(line: &str) -> Option<TrialObject> {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut next = || fields.next();
        let version = next()?;
        Some(TrialObject {
            group: version.rsplit_once('/').map_or("", |(group, _)| group).to_owned(),
            kind: next()?,
            namespace: next()?,
            name: next()?,
            uid: next()?,
            is_labelled: !next()?.is_empty(),
            is_kept: next()?.split(',').any(|policy| policy.trim() == "keep"),
        })
    }

    /// The kind as kubectl takes it.
    pub fn resource(&self) -> String {
        let TrialObject { kind, group, .. } = self;
        if group.is_empty() {
            kind.clone()
        } else {
            format!("{kind}.{group}")
        }
    }

    fn id(&self) -> String {
        format!("{} {}/{}", self.resource(), self.namespace, self.name)
    }

    /// Whether it is to stay when its release goes.
    pub fn stays(&self) -> bool {
        let by_others = !self.is_labelled && STAYS.contains(&self.kind.as_str());
        self.is_kept || by_others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(lines: &[&str]) -> TrialObjects {
        let objects = lines.iter().map(|line| TrialObject::parse(line).unwrap());
        TrialObjects(objects.map(|object| (object.id(), object)).collect())
    }

    #[test]
    fn a_recreated_object_is_reported_new_and_gone() {
        let before = objects(&[
            "v1\tSecret\ta\tone\t1\t\t",
            "v1\tSecret\ta\ttwo\t2\t\t",
            "v1\tSecret\ta\tgone\t3\t\t",
        ]);
        let now = objects(&[
            "v1\tSecret\ta\tone\t1\t\t",
            "v1\tSecret\ta\ttwo\t9\t\t",
            "apps/v1\tDeployment\ta\tx\t8\tid\t",
        ]);
        let difference = before.difference(now);
        let new: Vec<&str> = difference.new.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(new, ["Deployment.apps a/x", "Secret a/two"]);
        assert_eq!(difference.gone, ["Secret a/gone", "Secret a/two"]);
    }

    #[test]
    fn remaining_objects_are_kept_or_foreign() {
        for (line, stays) in [
            ("v1\tSecret\ta\ts\t1\tset\t", false),
            ("v1\tSecret\ta\ts\t1\t\t", false),
            ("v1\tSecret\ta\ts\t1\tset\tkeep", true),
            ("v1\tPersistentVolumeClaim\ta\tc\t1\t\t", true),
            ("v1\tPersistentVolumeClaim\ta\tc\t1\tset\t", false),
            ("apiextensions.k8s.io/v1\tCustomResourceDefinition\t\tc\t1\t\t", true),
        ] {
            assert_eq!(TrialObject::parse(line).unwrap().stays(), stays, "{line}");
        }
    }
}
