//! Where things are in a history: releases and their ConfigMaps by a short text.

use std::fmt;

use serde_json::{Value, json};

use fake_apiserver::ServedKind;

use crate::model::kinds::{GADGET, KINDS, WIDGET};
use crate::model::store::ObjectKey;

/// Where things are that name no namespace.
pub const NAMESPACE: &str = "shop";

/// `a` is the Widget of this name, `yard/a` one in another namespace, `gadgets/yard/a` a Gadget there; or the ConfigMap
/// of that name and namespace.
#[derive(Clone, Debug)]
pub struct ReleasePlace {
    kind: ServedKind,
    pub namespace: String,
    pub name: String,
}

impl ReleasePlace {
    pub const PLURALS: [&str; 2] = [WIDGET.plural, GADGET.plural];

    pub fn of(text: &str) -> Self {
        let mut parts = text.rsplit('/');
        let name = parts.next().unwrap_or_default().to_owned();
        let namespace = parts.next().unwrap_or(NAMESPACE).to_owned();
        let kind = match parts.next() {
            Some("gadgets") => GADGET,
            _ => WIDGET,
        };
        ReleasePlace { kind, namespace, name }
    }

    pub fn by_key(key: &ObjectKey) -> Self {
        ReleasePlace {
            kind: if key.0 == GADGET.plural { GADGET } else { WIDGET },
            namespace: key.1.clone(),
            name: key.2.clone(),
        }
    }

    /// The custom resource here.
    pub fn resource(&self, metadata: Value, spec: Value) -> Value {
        let mut object = json!({
            "apiVersion": "torture.test/v1", "kind": self.kind.kind, "metadata": metadata, "spec": spec,
        });
        object["metadata"]["name"] = self.name.as_str().into();
        object
    }

    pub fn key(&self) -> ObjectKey {
        (self.kind.plural, self.namespace.clone(), self.name.clone())
    }

    pub fn map_key(&self) -> ObjectKey {
        ("configmaps", self.namespace.clone(), self.name.clone())
    }

    /// A member of the release here.
    pub fn member(&self, kind: &str, name: String) -> ObjectKey {
        let kind = KINDS
            .iter()
            .find(|known| known.kind == kind)
            .expect("a kind of the model");
        let namespace = if kind.namespaced { self.namespace.as_str() } else { "" };
        (kind.plural, namespace.to_owned(), name)
    }

    /// Of all custom resources of its kind and namespace.
    pub fn collection(&self) -> String {
        let (namespace, plural) = (&self.namespace, self.kind.plural);
        format!("/apis/torture.test/v1/namespaces/{namespace}/{plural}")
    }

    pub fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name)
    }

    pub fn maps(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    pub fn map_path(&self) -> String {
        format!("{}/{}", self.maps(), self.name)
    }

    /// Whether an object of this namespace and name is a member of the release here.
    pub fn has(&self, namespace: &str, name: &str) -> bool {
        let in_it = namespace == self.namespace && name.starts_with(&format!("{}-", self.name));
        in_it || namespace.is_empty() && name == format!("{}-{}", self.namespace, self.name)
    }
}

impl fmt::Display for ReleasePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind.plural, self.namespace, self.name)
    }
}
