//! The ValidatingWebhookConfiguration of an operator.

use std::collections::BTreeSet;

use data_encoding::BASE64;
use serde_json::{Value, json};

/// The name of the webhook, which clients see before a refusal. The API server wants three parts or more.
const WEBHOOK: &str = "preview.chartwright.dev";

/// Names the operator that a ValidatingWebhookConfiguration belongs to, as `<namespace>/<name>`.
pub const ADMISSION_OF: &str = "chartwright.dev/admission-of";

/// The seconds after which the API server admits a change without an answer.
const TIMEOUT_SECONDS: u64 = 3;

/// The API server calls the webhook only for a change that can concern a release: a creation, another generation, or other annotations of
/// ours. So the operator's own writes cost nothing. The same rule as [`super::request::AdmissionRequest::into_change`].
const MATCH_CONDITION: &str = "request.operation == 'CREATE' || object.metadata.generation != oldObject.metadata.generation || \
    [[object, oldObject], [oldObject, object]].exists(pair, has(pair[0].metadata.annotations) && \
    pair[0].metadata.annotations.exists(key, key.startsWith('chartwright.dev/') && \
    !(has(pair[1].metadata.annotations) && key in pair[1].metadata.annotations && \
    pair[1].metadata.annotations[key] == pair[0].metadata.annotations[key])))";

/// Where the API server reaches the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookAddress {
    /// A Service of the operator's namespace, at its port 443.
    Service { namespace: String, name: String },
    /// An HTTPS address without a path, such as `https://192.0.2.1:9443`.
    Url(String),
}

/// One kind whose custom resources are previewed, as the API server names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WebhookRule {
    pub group: String,
    pub version: String,
    pub plural: String,
}

/// What an operator registers.
#[derive(Clone, Debug)]
pub struct Registration<'a> {
    /// The name of the ValidatingWebhookConfiguration.
    pub name: &'a str,
    /// The operator, as `<namespace>/<name>`.
    pub owner: &'a str,
    pub address: &'a WebhookAddress,
    /// The path of the webhook. It holds a secret that only the API server and the operator know.
    pub path: &'a str,
    /// Certificates that the API server trusts, in PEM format.
    pub ca_bundle: &'a str,
    pub rules: &'a BTreeSet<WebhookRule>,
    /// The namespaces of the custom resources. `None`: all, and the cluster-scoped ones.
    pub namespaces: Option<&'a BTreeSet<String>>,
}

impl Registration<'_> {
    /// Returns the object as the operator applies it. Without rules it has no webhook.
    pub fn to_object(&self) -> Value {
        let webhooks: Vec<Value> = (!self.rules.is_empty()).then(|| self.webhook()).into_iter().collect();
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": self.name, "annotations": {ADMISSION_OF: self.owner}},
            "webhooks": webhooks,
        })
    }

    fn webhook(&self) -> Value {
        let scope = if self.namespaces.is_some() { "Namespaced" } else { "*" };
        let rules = self.rules.iter().map(|rule| {
            json!({
                "apiGroups": [rule.group], "apiVersions": [rule.version], "resources": [rule.plural],
                "operations": ["CREATE", "UPDATE"], "scope": scope,
            })
        });
        let mut webhook = json!({
            "name": WEBHOOK,
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": TIMEOUT_SECONDS,
            "clientConfig": self.client(),
            "matchConditions": [{"name": "concerns-the-release", "expression": MATCH_CONDITION}],
            "rules": rules.collect::<Vec<_>>(),
        });
        if let Some(namespaces) = self.namespaces {
            webhook["namespaceSelector"] = json!({"matchExpressions": [
                {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces},
            ]});
        }
        webhook
    }

    fn client(&self) -> Value {
        let ca_bundle = BASE64.encode(self.ca_bundle.as_bytes());
        match self.address {
            WebhookAddress::Service { namespace, name } => json!({
                "caBundle": ca_bundle,
                "service": {"namespace": namespace, "name": name, "port": 443, "path": self.path},
            }),
            WebhookAddress::Url(url) => json!({"caBundle": ca_bundle, "url": format!("{url}{}", self.path)}),
        }
    }

    /// True if a live object belongs to another operator: it has another operator's mark, or webhooks without one.
    pub fn is_foreign(&self, live: &Value) -> bool {
        match live["metadata"]["annotations"][ADMISSION_OF].as_str() {
            Some(owner) => owner != self.owner,
            None => live["webhooks"].as_array().is_some_and(|webhooks| !webhooks.is_empty()),
        }
    }

    /// True if a live object has everything that this one has. The API server adds defaults to it.
    pub fn is_contained_in(&self, live: &Value) -> bool {
        let webhooks = live["webhooks"].as_array().map_or(0, Vec::len);
        contains(live, &self.to_object()) && webhooks == usize::from(!self.rules.is_empty())
    }
}

fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, value)| live.get(key).is_some_and(|live| contains(live, value))),
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        // An empty list is not stored.
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(plural: &str) -> WebhookRule {
        WebhookRule {
            group: "a.test".to_owned(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
        }
    }

    #[test]
    fn a_registration_fails_open() {
        let address = WebhookAddress::Service {
            namespace: "ops".to_owned(),
            name: "admission".to_owned(),
        };
        let rules = BTreeSet::from([rule("webs"), rule("shops")]);
        let namespaces = BTreeSet::from(["a".to_owned()]);
        let mut registration = Registration {
            name: "x-admission",
            owner: "ops/x",
            address: &address,
            path: "/admission/s",
            ca_bundle: "PEM",
            rules: &rules,
            namespaces: None,
        };
        let object = registration.to_object();
        let webhook = &object["webhooks"][0];
        assert_eq!(webhook["failurePolicy"], "Ignore");
        assert_eq!(webhook["timeoutSeconds"], 3);
        assert_eq!(webhook["sideEffects"], "None");
        assert_eq!(webhook["rules"].as_array().unwrap().len(), 2);
        assert_eq!(webhook["rules"][0]["scope"], "*");
        assert_eq!(webhook["clientConfig"]["service"]["path"], "/admission/s");
        assert_eq!(webhook.get("namespaceSelector"), None);
        registration.namespaces = Some(&namespaces);
        let webhook = &registration.to_object()["webhooks"][0];
        assert_eq!(webhook["rules"][0]["scope"], "Namespaced");
        assert_eq!(
            webhook["namespaceSelector"]["matchExpressions"][0]["values"],
            json!(["a"])
        );
        let none = BTreeSet::new();
        registration.rules = &none;
        assert_eq!(registration.to_object()["webhooks"], json!([]));
        let url = WebhookAddress::Url("https://192.0.2.1:9443".to_owned());
        registration.address = &url;
        assert_eq!(registration.client()["url"], "https://192.0.2.1:9443/admission/s");
    }

    #[test]
    fn objects_of_others_are_recognized() {
        let url = WebhookAddress::Url(String::new());
        let rules = BTreeSet::from([rule("webs")]);
        let registration = Registration {
            name: "x",
            owner: "ops/x",
            address: &url,
            path: "/s",
            ca_bundle: "",
            rules: &rules,
            namespaces: None,
        };
        let own = registration.to_object();
        let mut defaulted = own.clone();
        defaulted["webhooks"][0]["objectSelector"] = json!({});
        let mut edited = own.clone();
        edited["webhooks"][0]["failurePolicy"] = "Fail".into();
        let mut other = own.clone();
        other["metadata"]["annotations"][ADMISSION_OF] = "ops/y".into();
        let mut unmarked = own.clone();
        unmarked["metadata"]["annotations"] = Value::Null;
        let stub = json!({"apiVersion": own["apiVersion"], "kind": own["kind"], "metadata": {"name": "x"}});
        for (what, live, is_foreign, is_current) in [
            ("its own", &own, false, true),
            ("with defaults", &defaulted, false, true),
            ("edited", &edited, false, false),
            ("another operator's", &other, true, false),
            ("without a mark", &unmarked, true, false),
            ("one without webhooks", &stub, false, false),
        ] {
            assert_eq!(registration.is_foreign(live), is_foreign, "{what}");
            assert_eq!(registration.is_contained_in(live), is_current, "{what}");
        }
    }
}
