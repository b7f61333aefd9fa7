//! What a release depends on: by its watch, and by its own list.

use go_yaml as yaml;

use crate::cluster::discovery::Snapshot;
use crate::reconcile::custom_resource::{CustomResource, ResourceKey};
use crate::reconcile::unit::Unit;
use crate::reconcile::values::error::ValuesError;
use crate::reconcile::values::name_templates::NameTemplates;
use crate::reconcile::values::release_namespace::release_namespace;
use chartwright_core::annotations::DEPENDS_ON;
use chartwright_core::identity::GroupKind;
use chartwright_core::index::dependencies::ObjectDependency;
use chartwright_watches::DependsOn;
use chartwright_watches::names::is_path_segment;
use helm_template::render::LookupKey;

/// Something that a release depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseDependency {
    /// How messages name the entry: `dependsOn[0]`.
    pub(crate) place: String,
    pub(crate) group_kind: GroupKind,
    pub(crate) version: Option<String>,
    /// For a kind that has namespaces.
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) ready_when: Option<String>,
    /// The custom resource's author named it.
    pub(crate) is_own: bool,
}

impl ReleaseDependency {
    /// The lookup that reads the object. `None` while its kind is not served.
    pub(crate) fn key(&self, snapshot: &Snapshot) -> Option<LookupKey> {
        let resource = match &self.version {
            Some(version) => snapshot.resource(&self.group_kind, version),
            None => snapshot.preferred(&self.group_kind),
        }?;
        Some(LookupKey {
            api_version: resource.api.api_version.clone(),
            kind: self.group_kind.kind.clone(),
            namespace: if resource.namespaced {
                self.namespace.clone()
            } else {
                String::new()
            },
            name: self.name.clone(),
        })
    }

    pub(crate) fn target(&self, snapshot: &Snapshot) -> ObjectDependency {
        let namespaced = snapshot.preferred(&self.group_kind).is_none_or(|kind| kind.namespaced);
        ObjectDependency {
            group_kind: self.group_kind.clone(),
            namespace: if namespaced {
                self.namespace.clone()
            } else {
                String::new()
            },
            name: self.name.clone(),
        }
    }

    pub(crate) fn message(&self, why: &str) -> String {
        let namespace = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        format!("{} {namespace}{} {why}", self.group_kind, self.name)
    }
}

/// What a release depends on: by its watch, and by the list of its own.
///
/// # Errors
/// A list that can't be read, or a name that can't be made.
pub(crate) fn needs(unit: &Unit, resource: &CustomResource) -> Result<Vec<ReleaseDependency>, ValuesError> {
    let of_watch = &unit.watch.depends_on;
    let own = resource.annotations.get(DEPENDS_ON);
    if of_watch.is_empty() && own.is_none() {
        return Ok(Vec::new());
    }
    let own = yaml::to_json(own.map(String::as_str).unwrap_or_default().as_bytes())
        .map_err(|error| error.to_string())
        .and_then(|list| DependsOn::list(DEPENDS_ON, &list))
        .map_err(|error| {
            if error.starts_with(DEPENDS_ON) {
                ValuesError::Source(error)
            } else {
                ValuesError::Source(format!("{DEPENDS_ON}: {error}"))
            }
        })?;
    let home = match resource.key.namespace.as_str() {
        // Whose release has no namespace either needs it for cluster-scoped kinds alone.
        "" => release_namespace(unit, resource).unwrap_or_default(),
        own => own.to_owned(),
    };
    let texts = NameTemplates::new(unit, resource);
    let mut needs = Vec::new();
    for (list, entries, is_own) in [
        ("dependsOn", of_watch.as_slice(), false),
        (DEPENDS_ON, own.as_slice(), true),
    ] {
        for (index, entry) in entries.iter().enumerate() {
            let place = format!("{list}[{index}]");
            let made = |field: &str, template: &str| {
                // The author's entries are no templates.
                let made = if is_own {
                    Ok(template.to_owned())
                } else {
                    texts.text("dependsOn", template)
                };
                let made = made.map_err(|error| ValuesError::Source(format!("{place}: {field}: {error}")))?;
                match made.trim() {
                    made if is_path_segment(made) => Ok(made.to_owned()),
                    made => Err(ValuesError::Source(format!("{place}: {field}: {made:?} can't be one"))),
                }
            };
            needs.push(ReleaseDependency {
                group_kind: GroupKind::new(&entry.group, &entry.kind),
                version: entry.version.clone(),
                namespace: match &entry.namespace {
                    Some(template) => made("namespace", template)?,
                    None => home.clone(),
                },
                name: made("name", &entry.name)?,
                ready_when: entry.ready_when.clone(),
                is_own,
                place,
            });
        }
    }
    Ok(needs)
}

/// A custom resource, as others depend on it.
pub(crate) fn as_dependency(unit: &Unit, key: &ResourceKey) -> ObjectDependency {
    ObjectDependency {
        group_kind: unit.group_kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}
