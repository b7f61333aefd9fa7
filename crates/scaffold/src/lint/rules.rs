//! The rules of `lint`: what each finds, why it matters and how to fix it. docs/reference/lint.md has the same as a table.

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Warning,
    Error,
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LintRule {
    /// As it is written in comments and flags.
    pub name: &'static str,
    pub severity: Severity,
    /// Why it matters.
    pub why: &'static str,
    /// How to fix it.
    pub fix: &'static str,
}

macro_rules! rules {
    ($($id:ident: $name:literal $severity:ident, $why:literal, $fix:literal;)*) => {
        $(
            pub const $id: LintRule = LintRule { name: $name, severity: Severity::$severity, why: $why, fix: $fix };
        )*

        /// All rules.
        pub const ALL: &[LintRule] = &[$($id),*];
    };
}

rules! {
    WATCHES: "watches" Error,
        "The operator doesn't start with such a file.",
        "Change the line as the message says; docs/reference/watches.md explains every key.";
    WATCHES_TRAP: "watches-trap" Warning,
        "The operator starts, but a setting has another effect than expected, or none.",
        "Change the line as the message says, or ignore the finding where the effect is intended.";
    PATCH_FAILS: "patch-fails" Error,
        "A release that renders this object stops with PatchFailed.",
        "Change the operation or the target as the message says, or add the missing parent in an earlier operation.";
    PATCH_UNMATCHED: "patch-unmatched" Warning,
        "The patch has no effect, and the operator writes a warning Event for each release.",
        "Correct group, version or kind of the target, set `hooks: true` if a hook is meant, or remove the patch.";
    CHART_LOADS: "chart-loads" Error,
        "No custom resource of the kind can be installed.",
        "Fix the chart; `helm lint` and `chartwright template` read it the same way.";
    CHART_RENDERS: "chart-renders" Error,
        "A custom resource with an empty spec fails, and the chart's default objects are unknown: CRs may create no cluster-scoped objects and no RBAC.",
        "Give the value a default, or add a file to ci/ with the required values and a `required` to the CRD.";
    UNREAD_VALUE: "unread-value" Warning,
        "Users expect that the value has an effect when they set it.",
        "Read it in a template, or take it out of values.yaml.";
    BOOLEAN_KEY: "boolean-key" Warning,
        "Helm and Kubernetes read YAML 1.1, to which n, no and off are false, y, yes and on are true: the key has another name than the one that is written.",
        "Write the key in quotes, as in `\"on\":`, or give it another name.";
    RANDOM_VALUE: "random-value" Warning,
        "The operator keeps the result in a Secret of the release, for which it needs rights on Secrets; without that Secret there are new passwords.",
        "Take it from a Secret by `valuesFrom`, or ignore the finding where a kept result is meant.";
    LOOKUP: "lookup" Error,
        "The release stops with LookupForbidden or Refused: templates may look into the release's own namespace only.",
        "Name the kind or the namespace in `lookups` of the watch, or don't look it up.";
    NEEDS_ALLOW: "needs-allow" Warning,
        "Objects that grant rights or lie outside the release's namespace are refused unless the chart creates them with its own values.",
        "Name the kind or the namespace in `allow` of the watch, if every author of a CR may have it.";
    SHARED_NAME: "shared-name" Warning,
        "Two CRs with the same name in two namespaces need the same cluster-scoped object; the operator refuses it to the second release.",
        "Add .Release.Namespace to the name.";
    LONG_NAME: "long-name" Warning,
        "CRs with long names fail when the API server or a controller refuses a name or a label that is made from them.",
        "Cut the name in the template: `trunc 52 | trimSuffix \"-\"` for objects that create pods, 63 for others.";
    IMAGE_TAG: "image-tag" Warning,
        "Without a tag or digest, or with `latest`, a restarted pod may run another version, and a rollback does not restore the old one.",
        "Give the image a version or a digest, as a value with a default.";
    MISSING_PROBE: "missing-probe" Warning,
        "A container without a readiness probe counts as ready when it starts: so does the release, and clients get errors.",
        "Add a readinessProbe; a livenessProbe where it can hang.";
    MISSING_LIMITS: "missing-limits" Warning,
        "A container without a memory limit can take the node's memory from others; one without requests is placed anywhere and evicted first.",
        "Give resources.requests and resources.limits.memory as values with defaults.";
    MISSING_PDB: "missing-pdb" Warning,
        "A drain of a node may evict all replicas at the same time.",
        "Add a PodDisruptionBudget that selects the pods.";
    HOOK_TIMEOUT: "hook-timeout" Warning,
        "The hook has only the `timeout` of the watch (5 minutes by default), which is not meant for this hook. Under Helm, nothing ends its Job.",
        "Annotate it with chartwright.dev/timeout, or set spec.activeDeadlineSeconds.";
    CRD_MISSING: "crd-missing" Error,
        "The API server doesn't know the kind that is watched.",
        "Add the CustomResourceDefinition to config/crd/bases, with this version served: `chartwright create api` writes one.";
    CRD_STATUS: "crd-status" Warning,
        "The operator can't write the state of a release into the status, and keeps its record in Secrets.",
        "Give the version `subresources: {status: {}}` and a status with x-kubernetes-preserve-unknown-fields: true.";
    CRD_LACKS_VALUE: "crd-lacks-value" Warning,
        "The API server drops fields that the CRD doesn't know: no CR can set the value.",
        "Add the field to the CRD's schema, or ignore the finding where the value is the operator's alone.";
    SAMPLE_MISSING: "sample-missing" Warning,
        "Users have no example of a CR of the kind, and no test installs one.",
        "Add one to config/samples.";
    SAMPLE_REFUSED: "sample-refused" Error,
        "The API server refuses the sample when a user applies it.",
        "Change the sample or the CRD.";
    SAMPLE_FAILS: "sample-fails" Error,
        "The sample's release is Stalled: the chart can't be rendered with its values.",
        "Change the sample or the chart.";
    SAMPLE_UNREAD: "sample-unread" Warning,
        "The sample sets a value that the chart never reads.",
        "Take it out of the sample, or correct its name.";
    MISSING_RIGHT: "missing-right" Error,
        "A release that needs the right is not Ready: its condition has the reason Forbidden or WatchFailed.",
        "Add the rule to the role; `chartwright generate rbac` writes a role that fits.";
    OPTIONAL_RIGHT: "optional-right" Warning,
        "The operator works without this right. The message says what it does not do then.",
        "Add the rule to the role, or ignore the finding where you can do without.";
    ROLE_ESCALATION: "role-escalation" Warning,
        "With `escalate` or `bind` on roles of any name, the operator can get every right, and so can anyone who gets its token.",
        "Give the operator the rights that the charts' roles grant and remove these verbs, or list the roles in resourceNames.";
    EXCESS_RIGHT: "excess-right" Warning,
        "The operator does not need the right, but a person who gets its token can use it.",
        "Take it out of the role.";
}

/// The rule of that name.
pub fn named(name: &str) -> Option<LintRule> {
    ALL.iter().find(|rule| rule.name == name).copied()
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}
