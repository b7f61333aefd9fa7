//! A live object, as the index knows it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::annotations;
use crate::drift::{fingerprint, rollback, tolerated};
use crate::health::Health;
use crate::identity::applyset::{self, Tracking};
use crate::identity::owner_references;

/// What is known of a live object. Everything but `state` and `takes_data` comes from its metadata.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct Live {
    pub uid: String,
    pub resource_version: String,
    /// Has a deletionTimestamp.
    pub deleting: bool,
    #[cfg_attr(test, serde(flatten))]
    pub ownership: OwnershipMarks,
    #[cfg_attr(test, serde(flatten))]
    pub marks: MemberMarks,
    #[cfg_attr(test, serde(flatten))]
    pub managers: FieldManagers,
    /// Annotation `chartwright.dev/ready-when`: the condition on which it is well.
    pub ready_when: Option<Box<str>>,
    #[cfg_attr(test, serde(flatten))]
    pub state: LiveState,
    /// Data, or objects of others, go with it. Known only of an object that was read whole.
    pub takes_data: bool,
}

/// What shows whose an object is: its label, annotations and owner references.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct OwnershipMarks {
    /// Label `applyset.kubernetes.io/part-of`.
    pub part_of: Option<String>,
    /// Annotation `chartwright.dev/tracking-id`.
    pub tracking: Option<Box<str>>,
    /// Annotation `chartwright.dev/kept-from`: the ApplySet id of the release that left it behind.
    pub kept_from: Option<Box<str>>,
    /// `Kind/name` of the controller in its ownerReferences, and that owner's UID.
    pub controller: Option<(String, String)>,
    /// The API version in its reference to the custom resource that the tracking annotation names, if it has one.
    pub owner: Option<Box<str>>,
}

/// What its annotations allow, forbid or record. Small numbers and flags only: the index holds thousands of these.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct MemberMarks {
    /// Annotation `helm.sh/resource-policy: keep`, or an adopted object that stays.
    pub keep: bool,
    /// Annotation `chartwright.dev/adopted`: it existed before its release.
    pub adopted: bool,
    /// Annotation `chartwright.dev/prune: "true"`: may be pruned although its kind is protected.
    pub prune_allowed: bool,
    /// Annotation `chartwright.dev/reconcile: disabled`: a user excludes it from reconciles.
    pub disabled: bool,
    /// Annotation `chartwright.dev/wave`, 0 where there is none.
    pub wave: i32,
    /// Annotation `chartwright.dev/hook-run`: a hook made it.
    pub is_of_hook: bool,
    /// Annotation `chartwright.dev/force: "true"`: may be recreated if an immutable field changes.
    pub force: bool,
}

/// Which field managers own fields of an object, from its `managedFields`.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct FieldManagers {
    /// Hash of our own managedFields entry; `None` if we own nothing of it.
    pub fingerprint: Option<u64>,
    /// Hash of the writes of other clients.
    pub others: Option<u64>,
    /// The autoscaler that owns `spec.replicas` through the subresource `scale`.
    pub scaled_by: Option<Box<str>>,
    /// Our field manager owns `spec.replicas`.
    pub sets_replicas: bool,
    /// `kubectl rollout undo` owns fields of its pod template.
    pub is_undone: bool,
}

/// What only the complete object shows. Empty for kinds that are watched as metadata only.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(test, derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct LiveState {
    /// `None` for kinds that are watched as metadata only: there, to exist is to be healthy.
    pub health: Option<Health>,
    /// The label selector of its pods, while it is a workload that isn't well.
    pub pods: Option<Box<str>>,
    /// A Job that is complete, and that its TTL will remove.
    pub finished: bool,
}

impl Live {
    /// Reads what the metadata of an object shows. `manager` is our field manager.
    pub fn from_metadata(metadata: &ObjectMeta, manager: &str) -> Self {
        Live {
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            ownership: OwnershipMarks::from_metadata(metadata),
            marks: MemberMarks::from_metadata(metadata),
            managers: FieldManagers::from_metadata(metadata, manager),
            ready_when: annotation(metadata, annotations::READY_WHEN).map(Into::into),
            state: LiveState::default(),
            takes_data: false,
        }
    }

    /// Metadata that was read, with the facts that only the complete object shows, as far as they are known.
    pub(super) fn with_state_of(self, known: Option<&Live>) -> Live {
        match known.filter(|known| known.uid == self.uid) {
            Some(known) if self.state.health.is_none() => Live {
                state: known.state.clone(),
                ..self
            },
            _ => self,
        }
    }
}

impl OwnershipMarks {
    fn from_metadata(metadata: &ObjectMeta) -> Self {
        let tracking = annotation(metadata, applyset::TRACKING_ANNOTATION);
        let labels = metadata.labels.as_ref();
        let mut owners = metadata.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        OwnershipMarks {
            part_of: labels.and_then(|labels| labels.get(applyset::PART_OF_LABEL)).cloned(),
            tracking: tracking.map(Into::into),
            kept_from: annotation(metadata, applyset::KEPT_ANNOTATION).map(Into::into),
            controller: controller.map(|owner| (format!("{}/{}", owner.kind, owner.name), owner.uid.clone())),
            owner: owner_references::of_owner(metadata, tracking),
        }
    }

    /// Parses the tracking annotation. `None` if there is none, or if it isn't ours.
    pub fn parse_tracking(&self) -> Option<Tracking> {
        applyset::parse_tracking_id(self.tracking.as_deref()?)
    }
}

impl MemberMarks {
    fn from_metadata(metadata: &ObjectMeta) -> Self {
        let annotation = |key: &str| annotation(metadata, key);
        let adopted = annotation(annotations::ADOPTED);
        let is_kept = |policy: &str| policy.trim().eq_ignore_ascii_case("keep");
        MemberMarks {
            keep: annotation(annotations::RESOURCE_POLICY).is_some_and(is_kept)
                || adopted.is_some_and(|what| what.trim() != "delete"),
            adopted: adopted.is_some(),
            prune_allowed: annotation(annotations::PRUNE) == Some("true"),
            disabled: annotation(annotations::RECONCILE).is_some_and(|value| value.trim() == "disabled"),
            wave: annotation(annotations::WAVE)
                .and_then(|wave| wave.trim().parse().ok())
                .unwrap_or_default(),
            is_of_hook: annotation(annotations::HOOK_RUN).is_some(),
            force: annotation(annotations::FORCE).is_some_and(|value| value.trim() == "true"),
        }
    }
}

impl FieldManagers {
    fn from_metadata(metadata: &ObjectMeta, manager: &str) -> Self {
        let entries = metadata.managed_fields.as_deref().unwrap_or_default();
        let digest = annotation(metadata, applyset::DIGEST_ANNOTATION);
        FieldManagers {
            fingerprint: fingerprint::fingerprint(entries, manager, digest),
            others: tolerated::others(entries, manager),
            scaled_by: fingerprint::scaled_by(entries).map(String::into_boxed_str),
            sets_replicas: fingerprint::sets_replicas(entries, manager),
            is_undone: rollback::undone_rollout(entries, manager).is_some(),
        }
    }
}

fn annotation<'m>(metadata: &'m ObjectMeta, key: &str) -> Option<&'m str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations.get(key).map(String::as_str)
}
