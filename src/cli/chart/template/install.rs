//! Checks that the objects of a render could be installed in the cluster, as Helm does before it prints them
//! (`Install.RunWithContext` in its `pkg/action/install.go`, `pkg/action/validate.go`).

use serde_json::Value;

use super::server::TemplateCluster;
use chartwright_core::takeover::{HELM_NAMESPACE, HELM_RELEASE};
use go_yaml as yaml;
use helm_template::render::{LookupKey, Rendered};

/// A release to check.
pub struct InstallCheck<'a> {
    pub cluster: &'a TemplateCluster,
    pub name: &'a str,
    pub namespace: &'a str,
    /// Existing objects count as objects of the release.
    pub owns_all: bool,
}

impl InstallCheck<'_> {
    /// Checks the objects of a render.
    ///
    /// # Errors
    /// A kind is not served, or an object exists and belongs to another release.
    pub fn check(&self, rendered: &Rendered) -> Result<(), String> {
        let crds = rendered.crds.iter().flat_map(|crd| {
            let text = std::str::from_utf8(&crd.data).unwrap_or_default();
            yaml::documents(text).unwrap_or_default()
        });
        let crds: Vec<Value> = crds.filter_map(|text| yaml::to_json(text.as_bytes()).ok()).collect();
        let objects = rendered.objects.iter().map(|manifest| manifest.object());
        let documents = crds.iter().chain(objects).filter(|document| !document.is_null());
        let keys = documents.flat_map(list_items).map(|object| self.lookup_key(object));
        let keys: Vec<LookupKey> = keys
            .collect::<Result<_, _>>()
            .map_err(|e| format!("unable to build kubernetes objects from release manifest: {e}"))?;
        if self.owns_all {
            return Ok(());
        }
        // Objects without a name get one from the server.
        let mut named = keys.iter().filter(|key| !key.name.is_empty());
        named
            .try_for_each(|key| self.check_ownership(key))
            .map_err(|e| format!("unable to continue with install: {e}"))
    }

    fn lookup_key(&self, object: &Value) -> Result<LookupKey, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (mut namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
        if api_version.is_empty() || kind.is_empty() {
            return Err(format!("the object {name:?} lacks apiVersion or kind"));
        }
        if name.is_empty() && text(&metadata["generateName"]).is_empty() {
            return Err(format!("a {kind} has no name"));
        }
        let mut key = LookupKey {
            api_version,
            kind,
            namespace: String::new(),
            name,
        };
        let Some(is_namespaced) = self.cluster.is_namespaced(&key) else {
            return Err(format!(
                "resource mapping not found for name: {:?} namespace: {namespace:?} from \"\": no matches for kind {:?} in \
                 version {:?}\nensure CRDs are installed first",
                key.name, key.kind, key.api_version,
            ));
        };
        if is_namespaced {
            if namespace.is_empty() {
                namespace = self.namespace.to_owned();
            }
            key.namespace = namespace;
        }
        Ok(key)
    }

    /// Checks that the object does not exist or belongs to the release.
    fn check_ownership(&self, key: &LookupKey) -> Result<(), String> {
        let what = format!("{} {:?} in namespace {:?}", key.kind, key.name, key.namespace);
        let live = self
            .cluster
            .get(key)
            .map_err(|e| format!("could not get information about the resource {what}: {e}"))?;
        match self
            .find_ownership_problem(&live)
            .filter(|_| live.get("metadata").is_some())
        {
            Some(problem) => Err(format!(
                "{what} exists and cannot be imported into the current release: invalid ownership metadata; {problem}"
            )),
            None => Ok(()),
        }
    }

    /// Returns the labels and annotations that assign a live object to another release.
    fn find_ownership_problem(&self, live: &Value) -> Option<String> {
        let marks = [
            ("label", "labels", "app.kubernetes.io/managed-by", "Helm"),
            ("annotation", "annotations", HELM_RELEASE, self.name),
            ("annotation", "annotations", HELM_NAMESPACE, self.namespace),
        ];
        let problems = marks.iter().filter_map(|(mark, field, key, wanted)| {
            let problem = match live["metadata"][field][key].as_str() {
                None => format!("missing key {key:?}: must be set to {wanted:?}"),
                Some(value) if value != *wanted => {
                    format!("key {key:?} must equal {wanted:?}: current value is {value:?}")
                }
                Some(_) => return None,
            };
            Some(format!("{mark} validation error: {problem}"))
        });
        let problems: Vec<String> = problems.collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }
}

/// Returns the items of a list, or the object itself.
fn list_items(document: &Value) -> Vec<&Value> {
    match document["items"].as_array() {
        Some(items) => items.iter().collect(),
        None => vec![document],
    }
}
