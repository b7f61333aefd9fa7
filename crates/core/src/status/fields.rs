//! The fields of a custom resource's status. Writing, reading, the CRD's schema and the table in `docs/reference/status.md` come
//! from these structs. A doc comment is the description of the field in the schema and in the table.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde::de::{self, Deserializer, Error as _, Visitor};
use serde::{Deserialize, Serialize, forward_to_deserialize_any};
use serde_json::Value;

use crate::hooks::HookProgress;
use crate::leader::Elected;
use crate::plans::{Plan, PlanWork};
use crate::record::entry::Entry;
use crate::record::history::{Fallback, History, UpgradeAttempt};
use crate::record::remediation::Remedied;
use crate::record::requests::Request;
use crate::rollout::ReleaseRollout;
use crate::serde_helpers::is_default;
use crate::status::conditions::Condition;
use crate::status::template::Templated;

/// Written by the operator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Status {
    /// The generation for which `Ready` or `Stalled` was decided last. Default of the CRD: -1.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The [conditions](#conditions) of the release. `Ready` sums them up.
    #[serde(deserialize_with = "lenient_list")]
    pub conditions: Vec<Condition>,
    /// The release that this CR owns.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseStatus>,
    /// One entry per member, at most 300.
    #[serde(deserialize_with = "lenient_list", skip_serializing_if = "Vec::is_empty")]
    pub inventory: Vec<Entry>,
    /// The rendered NOTES.txt of the chart, at most 8 KiB.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// The [hooks](annotations.md#hooks) that run or ran last.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "HookProgress::is_empty")]
    pub hooks: HookProgress,
    /// The last 10 revisions, as `chartwright history` lists them.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "History::is_empty")]
    pub history: History,
    /// The [plans](annotations.md#plans) of the chart.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub plans: Vec<Plan>,
    /// The run of a plan that is in progress, and those that wait.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "is_default")]
    pub plan_run: PlanWork,
    /// State of the watch's [remediation rules](watches.md#remediation).
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub remediation: Vec<Remedied>,
    /// The [leaders](watches.md#leaders).
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub elected: Vec<Elected>,
    /// What comes from the chart's [status template](#status-template).
    #[serde(deserialize_with = "lenient", skip_serializing_if = "is_default")]
    pub templated: Templated,
    /// Failed attempts since the last change.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "is_default")]
    pub failures: u32,
    /// Value of `chartwright.dev/requested-at` that was carried out last.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// Value of `chartwright.dev/force-at` that was carried out last.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub last_handled_force_at: Option<String>,
    /// Value of `chartwright.dev/reset-at` that was carried out last.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub last_handled_reset_at: Option<String>,
    /// Value of `chartwright.dev/regenerate` that was carried out last.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub last_handled_regenerate_at: Option<String>,
    /// Value of `chartwright.dev/rollback-to` that was carried out last.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub last_handled_rollback_to: Option<String>,
    /// Value of `chartwright.dev/run-plan` that was carried out last.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub last_handled_run_plan: Option<String>,
}

/// `status.release`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct ReleaseStatus {
    /// Name of the release.
    #[serde(deserialize_with = "lenient")]
    pub name: String,
    /// Name of the release, if [`releaseName`](watches.md#release-name) makes another than that of the CR.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub given_name: Option<String>,
    /// `namespace/name` of the [ServiceAccount](watches.md#service-account) with whose rights the members were applied.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// Namespace of the release.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the chart.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub chart: Option<String>,
    /// Version of the chart.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `appVersion` of the chart.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub app_version: Option<String>,
    /// Number of the revision: 1, 2, ... It is 0 before the first complete apply.
    #[serde(deserialize_with = "lenient")]
    pub revision: i64,
    /// Digests of all inputs of the render: chart, watch and engine, then what the CR requests.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub inputs: Option<String>,
    /// As `inputs`, of the time when the members were settled last, if it differs.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub settled: Option<String>,
    /// Which [operator's key](../guides/operating.md#the-operators-key) the digests are made with.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Signature of everything that the operator reads back from the status.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// When the next generated certificate is renewed.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub renewal: Option<Timestamp>,
    /// Some members of the next revision are applied.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "is_default")]
    pub upgrading: bool,
    /// The upgrade in progress, if the watch has `onFailure`.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub attempt: Option<Box<UpgradeAttempt>>,
    /// What runs instead of what the CR requests: an earlier revision, or a stopped upgrade.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<Fallback>>,
    /// Its part in the [rollout](../guides/reload.md#rollout) of a new chart. Absent: up to date.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub rollout: Option<ReleaseRollout>,
    /// Objects that the chart looked up, each with a digest of the version. At most 100.
    #[serde(deserialize_with = "lenient_list", skip_serializing_if = "Vec::is_empty")]
    pub lookups: Vec<String>,
    /// What the chart read from `.Capabilities`: API versions, `KubeVersion`, or `APIVersions` for all of them.
    #[serde(deserialize_with = "lenient_list", skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<String>,
    /// Where the [record](#where-the-record-is-stored) is, if the status does not hold all of it or a Secret does.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordLocation>,
}

/// `status.release.record`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct RecordLocation {
    /// Version of the stored form of the record.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Number of members, if the status does not hold all of the record.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub members: Option<u64>,
    /// Number of lookups, if the status does not hold all of them.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub lookups: Option<u64>,
    /// 1 if a Secret holds the [record](#where-the-record-is-stored).
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub secrets: Option<u64>,
}

/// The names of the fields of [`Status`]. The status also has the fields of the chart's status template. Other fields there belong to
/// another client.
pub static FIELDS: LazyLock<&[&str]> = LazyLock::new(|| {
    let mut names: &'static [&'static str] = &[];
    // The derived code passes the names to the deserializer.
    let _ = Status::deserialize(NameReader(&mut names));
    names
});

/// The fields that the record is not read from.
const UNRECORDED: [&str; 5] = ["observedGeneration", "conditions", "notes", "templated", "failures"];

/// Returns the names of the fields that the record is read from.
pub fn recorded() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().copied().filter(|field| !UNRECORDED.contains(field))
}

/// Returns the schema of the status in a CRD.
///
/// # Panics
/// Never: a test reads the file.
#[must_use]
pub fn schema() -> Value {
    serde_json::from_str(include_str!("schema.json")).unwrap_or_default()
}

impl Status {
    /// Reads a status that another version or another client may have written. A field of a wrong type is as if it were absent.
    #[must_use]
    pub fn read(status: &Value) -> Self {
        let is_readable = status.is_object();
        is_readable
            .then(|| Status::deserialize(status).ok())
            .flatten()
            .unwrap_or_default()
    }

    /// Returns the field with the request of that kind that was carried out last.
    pub(crate) fn last_handled(&mut self, request: Request) -> &mut Option<String> {
        match request {
            Request::Reconcile => &mut self.last_handled_reconcile_at,
            Request::Force => &mut self.last_handled_force_at,
            Request::Reset => &mut self.last_handled_reset_at,
            Request::Regenerate => &mut self.last_handled_regenerate_at,
            Request::Rollback => &mut self.last_handled_rollback_to,
            Request::Plan => &mut self.last_handled_run_plan,
        }
    }
}

/// Reads a field of a `&Value`. A wrong type is the default.
fn lenient<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(T::deserialize(deserializer).unwrap_or_default())
}

/// Reads a list of a `&Value` without the items that have a wrong type.
fn lenient_list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items = Vec::<LenientField<T>>::deserialize(deserializer).unwrap_or_default();
    Ok(items.into_iter().filter_map(|item| item.0).collect())
}

/// An item that may have a wrong type.
struct LenientField<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for LenientField<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(LenientField(T::deserialize(deserializer).ok()))
    }
}

/// Takes note of the names of a struct's fields, and reads nothing.
struct NameReader<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for NameReader<'_> {
    type Error = de::value::Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("nothing to read"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
