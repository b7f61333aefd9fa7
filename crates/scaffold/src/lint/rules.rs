//! The rules of `lint`: what each finds, why it matters and how to fix it. docs/reference/lint.md has the same as a table.

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Warning,
    Error,
}

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
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
            pub const $id: Rule = Rule { name: $name, severity: Severity::$severity, why: $why, fix: $fix };
        )*

        /// All rules.
        pub const ALL: &[Rule] = &[$($id),*];
    };
}

rules! {
    WATCHES: "watches" Error,
        "The operator doesn't start with such a file.",
        "Change the line as the message says; docs/reference/watches.md explains every key.";
    WATCHES_TRAP: "watches-trap" Warning,
        "The operator starts, but something has another effect than one would think, or none.",
        "Change the line as the message says, or ignore it where it is meant.";
    CHART_LOADS: "chart-loads" Error,
        "No custom resource of the kind can be installed.",
        "Mend the chart; `helm lint` and `chartwright template` read it the same way.";
    CHART_RENDERS: "chart-renders" Error,
        "A custom resource with an empty spec fails, and nothing is known to be the chart's own: CRs may create no cluster-scoped objects and no RBAC at all.",
        "Give the value a default, or a file in ci/ with what has to be set and a `required` in the CRD.";
    UNREAD_VALUE: "unread-value" Warning,
        "Whoever sets the value thinks that it has an effect.",
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
        "What carries rights or reaches beyond the release's namespace is refused unless the chart makes it with its own values.",
        "Name the kind or the namespace in `allow` of the watch, if every author of a CR may have it.";
    SHARED_NAME: "shared-name" Warning,
        "Two CRs of one name in two namespaces want the same cluster-scoped object; the second release is refused it.",
        "Have the name contain .Release.Namespace.";
    LONG_NAME: "long-name" Warning,
        "CRs with long names fail when the API server or a controller refuses a name or a label that is made from them.",
        "Cut the name in the template: `trunc 52 | trimSuffix \"-\"` for what makes pods, 63 for the rest.";
    IMAGE_TAG: "image-tag" Warning,
        "Without a tag or digest, and with `latest`, what runs changes without anybody's doing, and a rollback brings nothing back.",
        "Give the image a version or a digest, as a value with a default.";
    MISSING_PROBE: "missing-probe" Warning,
        "A container without a readiness probe counts as ready when it starts: so does the release, and clients get errors.",
        "Add a readinessProbe; a livenessProbe where it can hang.";
    MISSING_LIMITS: "missing-limits" Warning,
        "A container without a memory limit can take the node's memory from others; one without requests is placed anywhere and evicted first.",
        "Give resources.requests and resources.limits.memory as values with defaults.";
    MISSING_PDB: "missing-pdb" Warning,
        "When a node is drained, all replicas may go at once.",
        "Add a PodDisruptionBudget that selects the pods.";
    HOOK_TIMEOUT: "hook-timeout" Warning,
        "How long it may take is left to the watch's `timeout` (5 minutes without one), which isn't made for this hook; under Helm nothing ends its Job.",
        "Annotate it with chartwright.dev/timeout, or set spec.activeDeadlineSeconds.";
    CRD_MISSING: "crd-missing" Error,
        "The API server doesn't know the kind that is watched.",
        "Add the CustomResourceDefinition to config/crd/bases, with this version served: `chartwright create api` writes one.";
    CRD_STATUS: "crd-status" Warning,
        "The operator can't say in the status how a release is, and keeps its record in Secrets.",
        "Give the version `subresources: {status: {}}` and a status with x-kubernetes-preserve-unknown-fields: true.";
    CRD_LACKS_VALUE: "crd-lacks-value" Warning,
        "The API server drops fields that the CRD doesn't know: no CR can set the value.",
        "Add the field to the CRD's schema, or ignore the finding where the value is the operator's alone.";
    SAMPLE_MISSING: "sample-missing" Warning,
        "Nobody sees how a CR of the kind looks, and nothing tries one.",
        "Add one to config/samples.";
    SAMPLE_REFUSED: "sample-refused" Error,
        "Whoever tries the sample gets an error.",
        "Change the sample or the CRD.";
    SAMPLE_FAILS: "sample-fails" Error,
        "The sample's release is Stalled: the chart can't be rendered with its values.",
        "Change the sample or the chart.";
    SAMPLE_UNREAD: "sample-unread" Warning,
        "The sample sets what the chart never reads.",
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
        "What the operator may do and doesn't need is there for whoever gets hold of its token.",
        "Take it out of the role.";
}

/// The rule of that name.
pub fn named(name: &str) -> Option<Rule> {
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
