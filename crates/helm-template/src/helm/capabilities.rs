//! `.Capabilities`. Facts: Helm's `pkg/chart/common/capabilities.go`; the default list is what its binary prints.

use std::any::Any;
use std::rc::Rc;

use go_template::quote::quote_go;
use go_template::{Field, List, Named, Object, Param, Value};

/// The Helm version that templates see, and the Go and client versions that its build reports.
const HELM: (&str, &str, &str) = ("v4.3.1", "go1.26.8", "v1.37");

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

/// What a template may ask about the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    pub kube_version: KubeVersion,
    /// `group/version` and, of a live cluster, `group/version/Kind` too.
    pub api_versions: Vec<String>,
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

// === impl Capabilities ===

impl Default for Capabilities {
    /// What `helm template` assumes without a cluster.
    fn default() -> Self {
        Capabilities {
            kube_version: KubeVersion {
                version: "v1.37.0".to_owned(),
                normalized: "v1.37.0".to_owned(),
                major: "1".to_owned(),
                minor: "37".to_owned(),
            },
            api_versions: DEFAULT_API_VERSIONS.iter().map(|text| (*text).to_owned()).collect(),
        }
    }
}

impl Object for Capabilities {
    fn type_name(&self) -> &'static str {
        "*common.Capabilities"
    }

    fn kind(&self) -> &'static str {
        "ptr"
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            "KubeVersion" => self.kube_version.value(true),
            "APIVersions" => api_versions(&self.api_versions),
            "HelmVersion" => Value::Object(Rc::new(HelmVersion)),
            _ => return None,
        })
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        (method == "Copy").then_some(&[])
    }

    fn call(&self, method: &str, _args: &[Value]) -> Option<Result<Value, String>> {
        (method == "Copy").then(|| Ok(Value::Object(Rc::new(self.clone()))))
    }

    fn structure(&self) -> Option<Vec<Field>> {
        Some(vec![
            field("KubeVersion", self.kube_version.value(false)),
            field("APIVersions", api_versions(&self.api_versions)),
            field("HelmVersion", Value::Object(Rc::new(HelmVersion))),
        ])
    }

    fn json_fields(&self) -> Option<Vec<Field>> {
        self.structure()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

// === impl KubeVersion ===

impl KubeVersion {
    /// Parses a version of two or more numbers with an optional `v` and any suffix.
    ///
    /// # Errors
    /// Text that isn't a version, worded as `k8s.io/apimachinery` words it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let body = text.trim_start_matches(['\t', '\n', '\x0c', '\r', ' ']);
        let body = body.strip_prefix('v').unwrap_or(body);
        let mut numbers: Vec<&str> = Vec::new();
        let mut rest = body;
        loop {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            if digits == 0 {
                break;
            }
            let (number, after) = rest.split_at(digits);
            numbers.push(number);
            match after.strip_prefix('.') {
                Some(next) => rest = next,
                None => break,
            }
        }
        let quoted = || quote_go(text);
        // Go's `.` is no line feed, wherever it stands behind the numbers.
        let is_line = !rest.contains('\n');
        let (Some(major), minor, true) = (numbers.first(), numbers.get(1), is_line) else {
            return Err(format!("could not parse {} as version", quoted()));
        };
        let Some(minor) = minor else {
            return Err(format!("illegal version string {}", quoted()));
        };
        if major.len() > 1 && major.starts_with('0') {
            return Err(format!(
                "illegal zero-prefixed version component {major:?} in {}",
                quoted()
            ));
        }
        let mut values = Vec::new();
        for number in &numbers {
            let value: u64 = number.parse().map_err(|_| {
                format!(
                    "illegal non-numeric version component {number:?} in {}: strconv.ParseUint: parsing \
                     {number:?}: value out of range",
                    quoted()
                )
            })?;
            values.push(value.to_string());
        }
        let canonical = |number: &str| {
            number
                .parse::<u64>()
                .map_or_else(|_| number.to_owned(), |n| n.to_string())
        };
        Ok(KubeVersion {
            version: if text.starts_with('v') {
                text.to_owned()
            } else {
                format!("v{text}")
            },
            normalized: format!("v{}", values.join(".")),
            major: canonical(major),
            minor: canonical(minor),
        })
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

    /// What a chart's `kubeVersion` is compared with, and what the version prints.
    pub fn for_constraints(&self) -> &str {
        match self.normalized.as_str() {
            "" => &self.version,
            normalized => normalized,
        }
    }

    fn fields(&self) -> Vec<Field> {
        let fields = [
            ("Version", &self.version),
            ("normalizedVersion", &self.normalized),
            ("Major", &self.major),
            ("Minor", &self.minor),
        ];
        fields
            .map(|(name, text)| field(name, Value::string(text.as_str())))
            .to_vec()
    }

    /// `.Capabilities.KubeVersion`: within them it has methods, a copy of it has not, as these take a pointer.
    fn value(&self, is_field: bool) -> Value {
        let version = self.clone();
        Value::Object(Rc::new(KubeVersionObject { version, is_field }))
    }
}

/// A `common.KubeVersion`.
struct KubeVersionObject {
    version: KubeVersion,
    is_field: bool,
}

impl Object for KubeVersionObject {
    fn type_name(&self) -> &'static str {
        "common.KubeVersion"
    }

    fn kind(&self) -> &'static str {
        "struct"
    }

    fn field(&self, name: &str) -> Option<Value> {
        let mut exported = self.json_fields()?.into_iter();
        exported.find(|field| field.name == name).map(|field| field.value)
    }

    fn has_unexported(&self, name: &str) -> bool {
        name == "normalizedVersion"
    }

    fn params(&self, method: &str) -> Option<&'static [Param]> {
        (self.is_field && matches!(method, "String" | "GitVersion")).then_some(&[])
    }

    fn call(&self, method: &str, _args: &[Value]) -> Option<Result<Value, String>> {
        match method {
            "String" => Some(Ok(Value::string(self.version.for_constraints()))),
            "GitVersion" => Some(Ok(Value::string(self.version.version.as_str()))),
            _ => None,
        }
    }

    fn as_argument(&self) -> Option<Value> {
        Some(self.version.value(false))
    }

    fn copied(&self) -> Option<Value> {
        let normalized = String::new();
        let version = KubeVersion {
            normalized,
            ..self.version.clone()
        };
        Some(version.value(false))
    }

    fn structure(&self) -> Option<Vec<Field>> {
        (!self.is_field).then(|| self.version.fields())
    }

    fn json_fields(&self) -> Option<Vec<Field>> {
        let mut fields = self.version.fields();
        fields.retain(|field| field.name != "normalizedVersion");
        Some(fields)
    }

    fn display(&self) -> String {
        self.version.for_constraints().to_owned()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn field(name: &'static str, value: Value) -> Field {
    Field { name, value }
}

static VERSION_SET: Named = Named {
    name: "common.VersionSet",
    of_bytes: false,
    methods: &[("Has", &[Param::String])],
};

/// `.Capabilities.APIVersions`
fn api_versions(list: &[String]) -> Value {
    let versions = list.iter().map(|text| Value::string(text.as_str())).collect();
    Value::List(List::named(&VERSION_SET, versions))
}

/// `.Capabilities.HelmVersion`
struct HelmVersion;

impl Object for HelmVersion {
    fn type_name(&self) -> &'static str {
        "version.BuildInfo"
    }

    fn kind(&self) -> &'static str {
        "struct"
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::string(match name {
            "Version" => HELM.0,
            "GitCommit" | "GitTreeState" => "",
            "GoVersion" => HELM.1,
            "KubeClientVersion" => HELM.2,
            _ => return None,
        }))
    }

    fn structure(&self) -> Option<Vec<Field>> {
        let names = ["Version", "GitCommit", "GitTreeState", "GoVersion", "KubeClientVersion"];
        let fields = names
            .into_iter()
            .filter_map(|name| Some(field(name, self.field(name)?)));
        Some(fields.collect())
    }

    fn json_fields(&self) -> Option<Vec<Field>> {
        // Empty ones are left out.
        let texts = [
            ("version", HELM.0),
            ("go_version", HELM.1),
            ("kube_client_version", HELM.2),
        ];
        Some(texts.map(|(name, text)| field(name, Value::string(text))).to_vec())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use go_template::format;

    #[test]
    fn versions_parse_as_kubernetes_parses_them() {
        let table = [
            ("1.30.2-gke.1", Ok(("v1.30.2-gke.1", "v1.30.2", "1", "30"))),
            ("v1.30", Ok(("v1.30", "v1.30", "1", "30"))),
            ("1.2.3.4", Ok(("v1.2.3.4", "v1.2.3.4", "1", "2"))),
            ("1", Err("illegal version string \"1\"")),
            ("abc", Err("could not parse \"abc\" as version")),
            (
                "01.2",
                Err("illegal zero-prefixed version component \"01\" in \"01.2\""),
            ),
        ];
        for (text, want) in table {
            let got = KubeVersion::parse(text);
            let got = got
                .as_ref()
                .map(|v| (&*v.version, &*v.normalized, &*v.major, &*v.minor))
                .map_err(|e| &**e);
            assert_eq!(got, want, "{text}");
        }
    }
    #[test]
    fn the_version_of_a_cluster_keeps_its_suffix() {
        let parsed = KubeVersion::parse("v1.33.4-gke.1").unwrap();
        let server = KubeVersion::of_server("v1.33.4-gke.1", "1", "33+");
        assert_eq!(
            (parsed.for_constraints(), server.for_constraints()),
            ("v1.33.4", "v1.33.4-gke.1")
        );
        assert_eq!(format::display(&server.value(false)), b"{v1.33.4-gke.1  1 33+}");
    }
}
