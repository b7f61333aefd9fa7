//! How a release goes: which policy counts, and what goes before what.

use super::annotations::{self, Annotations};
use super::desired::Stage;
use super::identity::ObjectId;
use super::record::Record;
use crate::watches::DeletionPolicy;

/// How the deletion of a custom resource was asked for: kubectl's `--cascade`. The API server tells it by a finalizer
/// of its own, which the garbage collector takes off as soon as it has looked: a custom resource that is read later
/// doesn't show it any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cascade {
    #[default]
    Background,
    /// What depends on it goes first.
    Foreground,
    /// What depends on it stays.
    Orphan,
}

/// The garbage collector's finalizers (`k8s.io/apimachinery/pkg/apis/meta/v1`).
const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
const ORPHAN_FINALIZER: &str = "orphan";

// === impl Cascade ===

impl Cascade {
    /// What the finalizers of an object that is being deleted say.
    pub fn of(finalizers: &[String]) -> Self {
        let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
        match (has(ORPHAN_FINALIZER), has(FOREGROUND_FINALIZER)) {
            (true, _) => Cascade::Orphan,
            (_, true) => Cascade::Foreground,
            _ => Cascade::Background,
        }
    }
}

/// The policy for one deletion: whoever deletes may ask to keep more or to wait longer than the watch says, never to
/// delete what the watch keeps.
pub fn policy(watch: DeletionPolicy, annotations: &Annotations, cascade: Cascade) -> DeletionPolicy {
    match (watch, cascade) {
        (DeletionPolicy::Orphan, _) | (_, Cascade::Orphan) => DeletionPolicy::Orphan,
        (_, Cascade::Foreground) => DeletionPolicy::WaitForTermination,
        (_, Cascade::Background) => match annotations::uninstall_wait(annotations) {
            Some(true) => DeletionPolicy::WaitForTermination,
            Some(false) => DeletionPolicy::Delete,
            None => watch,
        },
    }
}

/// Brings members into stages, in the order in which the stages go: webhooks first, then the objects, then namespaces
/// and CRDs. Within a stage, last made, first gone; what no record lists has no order, and goes before what others may
/// depend on.
pub fn stages<T>(found: Vec<T>, id: impl Fn(&T) -> &ObjectId, record: &Record) -> Vec<Vec<T>> {
    let places: std::collections::HashMap<&ObjectId, usize> = record
        .entries
        .iter()
        .enumerate()
        .map(|(place, entry)| (&entry.id, place))
        .collect();
    let mut staged = [Vec::new(), Vec::new(), Vec::new()];
    for item in found {
        let place = places.get(id(&item)).copied().unwrap_or(usize::MAX);
        let stage = match Stage::of(&id(&item).group_kind) {
            Stage::Webhooks => 0,
            Stage::Objects => 1,
            Stage::Foundations => 2,
        };
        staged[stage].push((place, item));
    }
    let sorted = staged.into_iter().filter(|stage| !stage.is_empty()).map(|mut stage| {
        stage.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
        stage.into_iter().map(|(_, item)| item).collect()
    });
    sorted.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::identity::GroupKind;
    use super::super::record::Entry;
    use super::*;

    #[test]
    fn who_deletes_may_keep_more_and_wait_longer() {
        use DeletionPolicy::{Delete, Orphan, WaitForTermination};
        let wait = |text: &str| match text {
            "" => BTreeMap::new(),
            text => BTreeMap::from([(annotations::SDK_UNINSTALL_WAIT.to_owned(), text.to_owned())]),
        };
        for (watch, annotation, cascade, expected) in [
            (Delete, "", Cascade::Background, Delete),
            (Delete, "true", Cascade::Background, WaitForTermination),
            (WaitForTermination, "", Cascade::Background, WaitForTermination),
            (WaitForTermination, "false", Cascade::Background, Delete),
            (WaitForTermination, "false", Cascade::Foreground, WaitForTermination),
            (Delete, "", Cascade::Foreground, WaitForTermination),
            (Delete, "true", Cascade::Orphan, Orphan),
            (Orphan, "true", Cascade::Background, Orphan),
            (Orphan, "", Cascade::Foreground, Orphan),
        ] {
            let case = format!("{watch:?} {annotation:?} {cascade:?}");
            assert_eq!(policy(watch, &wait(annotation), cascade), expected, "{case}");
        }
    }

    #[test]
    fn the_cascade_is_in_the_finalizers() {
        let of = |names: &[&str]| Cascade::of(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["chartwright.dev/release"]), Cascade::Background);
        assert_eq!(
            of(&["chartwright.dev/release", "foregroundDeletion"]),
            Cascade::Foreground
        );
        assert_eq!(of(&["orphan", "chartwright.dev/release"]), Cascade::Orphan);
    }

    #[test]
    fn what_others_need_goes_last() {
        let id = |kind: &str, name: &str| ObjectId::new(GroupKind::parse(kind), "", name);
        let webhook = id("ValidatingWebhookConfiguration.admissionregistration.k8s.io", "hook");
        let entry = |id: &ObjectId| Entry {
            id: id.clone(),
            version: "v1".into(),
            uid: String::new(),
            stage: 1,
            digest: String::new(),
            fingerprint: None,
            finished: false,
        };
        let (space, map, web) = (
            id("Namespace", "space"),
            id("ConfigMap", "map"),
            id("Deployment.apps", "web"),
        );
        let record = Record {
            entries: [&space, &map, &web, &webhook].map(entry).into(),
            ..Record::default()
        };
        let unlisted = id("ConfigMap", "unlisted");
        let found = vec![
            map.clone(),
            space.clone(),
            unlisted.clone(),
            webhook.clone(),
            web.clone(),
        ];
        assert_eq!(
            stages(found, |id| id, &record),
            [vec![webhook], vec![unlisted, web, map], vec![space]]
        );
        assert!(stages(Vec::<ObjectId>::new(), |id| id, &record).is_empty());
    }
}
