//! An apply creates or changes, whichever it finds to do. Ours says which one it is for, in a way that the API server
//! checks in the same step: no object that somebody puts in a member's place meanwhile is taken for ours (P9).

use anyhow::{Context, Result, ensure};
use chartwright::cluster::objects::{self, Onto};
use chartwright::cluster::{self, Discovery, Error};
use chartwright::plan::identity::{GroupKind, ObjectId};
use chartwright::plan::members::Live;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::look::uid;
use crate::world::World;

/// Somebody's objects of every sort of storage that the API server has: kinds, and what they can't do without.
fn objects() -> Vec<(&'static str, Value)> {
    let labels = json!({"app": "x"});
    let pod = json!({"containers": [{"name": "x", "image": "example/x:1"}], "restartPolicy": "Always"});
    let mut once = pod.clone();
    once["restartPolicy"] = "Never".into();
    let template = json!({"metadata": {"labels": labels}, "spec": pod});
    let job = json!({"template": {"spec": once}});
    let workload = json!({"selector": {"matchLabels": labels}, "template": template});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "x"});
    let backend = json!({"service": {"name": "x", "port": {"number": 80}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    vec![
        ("v1 ConfigMap", json!({"data": {"a": "1"}})),
        ("v1 Secret", json!({"data": {"a": "MQ=="}})),
        (
            "v1 Service",
            json!({"spec": {"selector": labels, "ports": [{"port": 80}]}}),
        ),
        ("v1 ServiceAccount", json!({"automountServiceAccountToken": true})),
        ("v1 PersistentVolumeClaim", json!({"spec": claim})),
        ("v1 Pod", json!({"spec": pod})),
        (
            "v1 ReplicationController",
            json!({"spec": {"selector": labels, "template": template}}),
        ),
        (
            "v1 LimitRange",
            json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "100"}}]}}),
        ),
        ("v1 ResourceQuota", json!({"spec": {"hard": {"pods": "100"}}})),
        ("v1 Namespace", json!({})),
        (
            "v1 PersistentVolume",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
        ),
        ("apps/v1 Deployment", json!({"spec": workload})),
        ("apps/v1 DaemonSet", json!({"spec": workload})),
        ("apps/v1 ReplicaSet", json!({"spec": workload})),
        ("apps/v1 StatefulSet", {
            let mut spec = workload.clone();
            spec["serviceName"] = "x".into();
            json!({"spec": spec})
        }),
        ("batch/v1 Job", json!({"spec": job})),
        (
            "batch/v1 CronJob",
            json!({"spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}}),
        ),
        (
            "autoscaling/v2 HorizontalPodAutoscaler",
            json!({"spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}}}),
        ),
        (
            "policy/v1 PodDisruptionBudget",
            json!({"spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}}}),
        ),
        (
            "networking.k8s.io/v1 NetworkPolicy",
            json!({"spec": {"podSelector": {}}}),
        ),
        (
            "networking.k8s.io/v1 Ingress",
            json!({"spec": {"defaultBackend": backend}}),
        ),
        (
            "networking.k8s.io/v1 IngressClass",
            json!({"spec": {"controller": "example.com/x"}}),
        ),
        ("rbac.authorization.k8s.io/v1 Role", json!({"rules": rules})),
        (
            "rbac.authorization.k8s.io/v1 RoleBinding",
            json!({"roleRef": role("Role")}),
        ),
        ("rbac.authorization.k8s.io/v1 ClusterRole", json!({"rules": rules})),
        (
            "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
            json!({"roleRef": role("ClusterRole")}),
        ),
        ("scheduling.k8s.io/v1 PriorityClass", json!({"value": 1})),
        (
            "storage.k8s.io/v1 StorageClass",
            json!({"provisioner": "example.com/x"}),
        ),
        ("coordination.k8s.io/v1 Lease", json!({"spec": {"holderIdentity": "x"}})),
        (
            "discovery.k8s.io/v1 EndpointSlice",
            json!({"addressType": "IPv4", "endpoints": []}),
        ),
        (
            "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
            json!({}),
        ),
        (
            "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
            json!({}),
        ),
        (
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            json!({"spec": {
                "group": "creation.example.com", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            }}),
        ),
        ("creation.test/v1 Widget", json!({"spec": {}})),
    ]
}

struct Probe<'w> {
    world: &'w World,
    runtime: Runtime,
    discovery: Discovery,
}

impl Probe<'_> {
    fn apply(&self, id: &ObjectId, version: &str, object: &Value, onto: Onto<'_>) -> Result<Result<Live, Error>> {
        let snapshot = self.discovery.snapshot();
        let resource = snapshot
            .resource(&id.group_kind, version)
            .with_context(|| format!("{id} is served"))?;
        Ok(self
            .runtime
            .block_on(objects::apply(&self.discovery, resource, id, object, onto)))
    }

    fn get(&self, id: &ObjectId) -> Result<Option<Value>> {
        self.world.get(&id.group_kind.to_string(), &id.name)
    }
}

fn is_conflict(result: &Result<Live, Error>) -> bool {
    matches!(result, Err(Error::Conflict(_)))
}

/// What controllers do to a new object is none of our business here: its labels and what we add to them are.
fn labels(object: Option<&Value>) -> Value {
    object
        .map(|object| object["metadata"]["labels"].clone())
        .unwrap_or_default()
}

#[test]
fn an_apply_is_for_what_was_seen_whatever_the_kind() -> Result<()> {
    let world = World::new("creation")?;
    let runtime = Runtime::new()?;
    let discovery = runtime.block_on(async {
        let client = cluster::connect(Some(world.control_plane.kubeconfig())).await?;
        anyhow::Ok(Discovery::new(client).await?)
    })?;
    let probe = Probe {
        world: &world,
        runtime,
        discovery,
    };
    for (named, mut object) in objects() {
        let (api_version, kind) = named.split_once(' ').context("apiVersion and kind")?;
        let api_version = match api_version {
            "creation.test/v1" => format!("{}/v1", world.group()),
            found => found.to_owned(),
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let group_kind = GroupKind::new(group, kind);
        let is_namespaced = probe
            .discovery
            .snapshot()
            .namespaced(&group_kind, version)
            .with_context(|| named.to_owned())?;
        let name = match kind {
            "CustomResourceDefinition" => "things.creation.example.com".to_owned(),
            _ => format!("creation-{}", kind.to_lowercase()),
        };
        let id = ObjectId::new(group_kind, if is_namespaced { &world.name } else { "" }, name.as_str());
        object["apiVersion"] = api_version.as_str().into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": name, "labels": {"l": "1"}});
        if is_namespaced {
            object["metadata"]["namespace"] = world.name.as_str().into();
        }
        let changed = {
            let mut changed = object.clone();
            changed["metadata"]["labels"] = json!({"stolen": "1"});
            changed
        };
        let apply = |object: &Value, onto: Onto<'_>| {
            let answer = probe.apply(&id, version, object, onto);
            answer.with_context(|| named.to_owned())
        };

        let gone = apply(&changed, Onto::Object("nobody"))?;
        ensure!(is_conflict(&gone), "{named}, which is gone, came back: {gone:?}");
        ensure!(probe.get(&id)?.is_none(), "{named} came back");

        let created = apply(&object, Onto::Nothing)?.with_context(|| format!("{named} is not created"))?;
        let found = probe.get(&id)?.with_context(|| format!("{named} is not there"))?;
        ensure!(
            created.uid == uid(&found) && created.fingerprint.is_some(),
            "{named}: {created:?}"
        );
        let again = apply(&changed, Onto::Nothing)?;
        ensure!(is_conflict(&again), "{named}, which is there, was taken: {again:?}");
        let other = apply(&changed, Onto::Object("8d1b9a1c-0000-4000-8000-000000000000"))?;
        ensure!(is_conflict(&other), "the successor of {named} was taken: {other:?}");
        let after = probe.get(&id)?;
        ensure!(
            labels(after.as_ref()) == labels(Some(&found)),
            "{named} was written: {after:?}"
        );

        let same = apply(&object, Onto::Object(&created.uid))?.with_context(|| format!("{named}, as it is"))?;
        ensure!(
            same.fingerprint == created.fingerprint,
            "{named}: what is a condition became a field"
        );
        if !is_namespaced {
            world
                .kubectl
                .run(["delete", &id.group_kind.to_string(), &id.name, "--wait=false"])?;
        }
    }
    Ok(())
}
