//! `.Capabilities`. Facts: Helm's `pkg/chart/common/capabilities.go`; the default list is what its binary prints.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use go_template::quote::quote_go;
use go_template::{Field, List, NamedType, Object, Param, Str, Value};

/// `.Capabilities.HelmVersion`
const HELM_VERSION: [(&str, &str); 5] = [
    ("Version", "v4.3.1"),
    ("GitCommit", ""),
    ("GitTreeState", ""),
    ("GoVersion", "go1.26.8"),
    ("KubeClientVersion", "v1.37"),
];

/// The API versions that `helm template` assumes: those that client-go knows.
#[rustfmt::skip]
const DEFAULT_API_VERSIONS: [&str; 57] = [
    "v1",
    "admissionregistration.k8s.io/v1", "admissionregistration.k8s.io/v1alpha1", "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1", "apps/v1beta1", "apps/v1beta2",
    "authentication.k8s.io/v1", "authentication.k8s.io/v1alpha1", "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1", "authorization.k8s.io/v1beta1",
    "autoscaling/v1", "autoscaling/v2",
    "batch/v1", "batch/v1beta1",
    "certificates.k8s.io/v1", "certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2", "coordination.k8s.io/v1beta1", "coordination.k8s.io/v1",
    "discovery.k8s.io/v1", "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1", "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2", "flowcontrol.apiserver.k8s.io/v1beta3",
    "lifecycle.k8s.io/v1alpha1",
    "networking.k8s.io/v1", "networking.k8s.io/v1beta1",
    "node.k8s.io/v1", "node.k8s.io/v1alpha1", "node.k8s.io/v1beta1",
    "policy/v1", "policy/v1beta1",
    "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1", "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1", "storage.k8s.io/v1", "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1", "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1", "apiextensions.k8s.io/v1",
];

/// The facts about the cluster that a template can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    pub kube_version: KubeVersion,
    /// `group/version` and, of a live cluster, `group/version/Kind` too.
    pub api_versions: Arc<Vec<String>>,
}

/// A Kubernetes version, as the server words it and reduced to its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeVersion {
    /// With its suffix: `v1.33.4-gke.1245000`
    pub version: String,
    /// For constraints: `v1.33.4`; empty for a live cluster, whose version Helm doesn't reduce.
    pub normalized: String,
    pub major: String,
    pub minor: String,
}

impl Default for Capabilities {
    /// The defaults of `helm template` without a cluster.
    fn default() -> Self {
        Capabilities {
            kube_version: KubeVersion {
                version: "v1.37.0".to_owned(),
                normalized: "v1.37.0".to_owned(),
                major: "1".to_owned(),
                minor: "37".to_owned(),
            },
            api_versions: Arc::new(DEFAULT_API_VERSIONS.iter().map(|text| (*text).to_owned()).collect()),
        }
    }
}

impl Capabilities {
    /// `.Capabilities.APIVersions`
    pub(crate) fn api_versions(&self) -> Value {
        let versions = self.api_versions.iter().map(|text| Value::string(text.as_str()));
        Value::List(List::named(&VERSION_SET, versions.collect()))
    }

    /// `.Capabilities.HelmVersion`
    pub(crate) fn helm_version() -> Value {
        let entry = |(key, text)| (Str::from(key), Value::string(text));
        Value::map(HELM_VERSION.into_iter().map(entry).collect())
    }
}

impl KubeVersion {
    /// Parses a version of two or more numbers with an optional `v` and any suffix.
    ///
    /// ```
    /// use helm_template::render::KubeVersion;
    ///
    /// assert_eq!(KubeVersion::parse("1.33.4-gke.1").unwrap().for_constraints(), "v1.33.4");
    /// ```
    ///
    /// # Errors
    /// Text that isn't a version, worded as `k8s.io/apimachinery` words it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let body = text.trim_start();
        let body = body.strip_prefix('v').unwrap_or(body);
        let end = body.find(|c: char| c != '.' && !c.is_ascii_digit());
        let numbers = body.get(..end.unwrap_or(body.len())).unwrap_or_default().split('.');
        let numbers: Vec<u64> = numbers.map_while(|number| number.parse().ok()).collect();
        match numbers.as_slice() {
            [] => Err(format!("could not parse {} as version", quote_go(text))),
            [_] => Err(format!("illegal version string {}", quote_go(text))),
            [major, minor, ..] => Ok(KubeVersion {
                version: if text.starts_with('v') {
                    text.to_owned()
                } else {
                    format!("v{text}")
                },
                normalized: format!("v{}", numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(".")),
                major: major.to_string(),
                minor: minor.to_string(),
            }),
        }
    }

    /// The version of a live cluster, as its API server words it (`Configuration.getCapabilities` in Helm's
    /// `pkg/action/action.go`).
    pub fn of_server(version: &str, major: &str, minor: &str) -> Self {
        KubeVersion {
            version: version.to_owned(),
            normalized: String::new(),
            major: major.to_owned(),
            minor: minor.to_owned(),
        }
    }

    /// The version for comparison with a chart's `kubeVersion`, which is also its printed form.
    pub fn for_constraints(&self) -> &str {
        match self.normalized.as_str() {
            "" => &self.version,
            normalized => normalized,
        }
    }
}

/// `.Capabilities.KubeVersion`. Within them it prints itself; a copy, as functions get it, prints its fields.
pub(crate) struct KubeVersionObject {
    pub version: KubeVersion,
    pub is_copy: bool,
}

impl Object for KubeVersionObject {
    fn type_name(&self) -> &'static str {
        "common.KubeVersion"
    }

    fn kind(&self) -> &'static str {
        "struct"
    }

    fn field(&self, name: &str) -> Option<Value> {
        let mut fields = self.json_fields()?.into_iter();
        fields.find(|field| field.name == name).map(|field| field.value)
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        matches!(method, "String" | "GitVersion").then_some(&[])
    }

    fn call(&self, method: &str, _args: &[Value]) -> Option<Result<Value, String>> {
        let text = match method {
            "String" => self.version.for_constraints(),
            "GitVersion" => &self.version.version,
            _ => return None,
        };
        Some(Ok(Value::string(text)))
    }

    fn as_argument(&self) -> Option<Value> {
        let version = self.version.clone();
        Some(Value::Object(Rc::new(KubeVersionObject { version, is_copy: true })))
    }

    fn structure(&self) -> Option<Vec<Field>> {
        let mut fields = self.json_fields().filter(|_| self.is_copy)?;
        fields.insert(1, field("normalizedVersion", &self.version.normalized));
        Some(fields)
    }

    fn json_fields(&self) -> Option<Vec<Field>> {
        let version = &self.version;
        let fields = [
            ("Version", &version.version),
            ("Major", &version.major),
            ("Minor", &version.minor),
        ];
        Some(fields.map(|(name, text)| field(name, text)).to_vec())
    }

    fn display(&self) -> String {
        self.version.for_constraints().to_owned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn field(name: &'static str, text: &str) -> Field {
    let value = Value::string(text);
    Field { name, value }
}

static VERSION_SET: NamedType = NamedType {
    name: "common.VersionSet",
    of_bytes: false,
    methods: &[("Has", &[Param::String])],
};

#[cfg(test)]
mod tests {
    use crate::helm::objects::capabilities::*;
    use go_template::format;

    #[test]
    fn versions_parse_as_kubernetes_parses_them() {
        let table = [
            ("1.30.2-gke.1", Ok(("v1.30.2-gke.1", "v1.30.2", "1", "30"))),
            ("v1.30", Ok(("v1.30", "v1.30", "1", "30"))),
            ("1.2.3.4", Ok(("v1.2.3.4", "v1.2.3.4", "1", "2"))),
            ("1", Err("illegal version string \"1\"")),
            ("abc", Err("could not parse \"abc\" as version")),
        ];
        for (text, want) in table {
            let got = KubeVersion::parse(text);
            let got = got
                .as_ref()
                .map(|v| (&*v.version, &*v.normalized, &*v.major, &*v.minor))
                .map_err(|e| &**e);
            assert_eq!(got, want, "{text}");
        }
        let server = KubeVersion::of_server("v1.33.4-gke.1", "1", "33+");
        assert_eq!(server.for_constraints(), "v1.33.4-gke.1");
        let copy = KubeVersionObject {
            version: server,
            is_copy: true,
        };
        assert_eq!(format::text(&Value::Object(Rc::new(copy))), "{v1.33.4-gke.1  1 33+}");
    }
}
