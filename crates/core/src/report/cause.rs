//! Why a release is not as it should be, in the order in which a person wants to know.

use serde::Serialize;

use super::facts::{LONGEST_TEXT, ReportFacts};
use super::member;
use super::origin::origin;
use super::remedy::{commands_of_hook, commands_of_member, commands_of_object, commands_of_reason, in_namespace};
use super::times::{changed, since};
use super::tree::{Forest, HookNode, NodeHealth, ObjectNode};
use crate::hooks::{HookRun, RunPhase};
use crate::identity::ObjectId;
use crate::status::conditions::{self, Condition, cut};
use crate::status::summary::ReleaseSummary;

/// The most causes of a report.
const MOST: usize = 5;
/// Reasons of `Ready` that only count members: the members explain more.
const OF_MEMBERS: [&str; 3] = ["Progressing", "MemberFailed", "Terminating"];
/// Conditions that do not make a release unready.
const BESIDES: [&str; 4] = ["Drifted", "PruneHeld", "PlanFailed", "StatusInvalid"];

/// Something that keeps a release from being as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The member or hook that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<ObjectId>,
    /// What the member owns and the cause is about: a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectId>,
    /// What is wrong, in the words of the pod, Event, admission policy, chart or API server.
    pub message: String,
    /// Since when, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The template line or value that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Commands that show more or help. None of them deletes data, apart from `emptyDir` volumes of a pod that is stuck.
    pub commands: Vec<String>,
}

/// The causes, the most important first. Empty for a release that is ready and works.
pub(super) fn causes(facts: &ReportFacts, summary: &ReleaseSummary, all: &[Condition], forest: &Forest) -> Vec<Cause> {
    let teller = Reasons {
        words: words_of(facts, summary),
        facts,
        summary,
        all,
    };
    let mut causes = Vec::new();
    if summary.suspended {
        causes.push(Cause {
            since: conditions::get(all, "Suspended").and_then(since),
            ..teller.of("Suspended", "it is suspended: the operator changes nothing")
        });
    }
    let hooks: Vec<Cause> = forest.hooks.iter().filter_map(of_hook).collect();
    causes.extend(hooks);
    causes.extend(teller.of_ready(!causes.is_empty(), &forest.hooks));
    let mut members: Vec<(NodeHealth, Cause)> = forest.members().filter_map(|member| deepest(member, member)).collect();
    // Stable: members of one health stay in the order of the record.
    members.sort_by_key(|(health, _)| *health);
    causes.extend(members.into_iter().map(|(_, cause)| cause));
    if causes.is_empty() && !summary.is_ready() {
        causes.push(teller.of(&summary.reason, &teller.message()));
    }
    for kind in BESIDES {
        let found = conditions::get(all, kind).filter(|condition| condition.status == "True");
        causes.extend(found.map(|condition| Cause {
            since: since(condition),
            ..teller.of(kind, &format!("{kind} ({}): {}", condition.reason, condition.message))
        }));
    }
    causes.truncate(MOST);
    for cause in &mut causes {
        let template = cause.member.as_ref().and_then(|member| facts.templates.get(member));
        cause.origin = cause
            .origin
            .take()
            .or_else(|| template.map(|name| cut(name, LONGEST_TEXT)));
    }
    causes
}

/// `KIND NAME -n NAMESPACE`, as the commands take them.
fn words_of(facts: &ReportFacts, summary: &ReleaseSummary) -> String {
    let kind = facts.kind.to_string().to_lowercase();
    format!("{kind} {}{}", summary.name, in_namespace(&summary.namespace))
}

/// Causes that are about the release and no object.
struct Reasons<'a> {
    /// As the commands name the release.
    words: String,
    facts: &'a ReportFacts,
    summary: &'a ReleaseSummary,
    all: &'a [Condition],
}

impl Reasons<'_> {
    fn of(&self, reason: &str, message: &str) -> Cause {
        Cause {
            member: None,
            object: None,
            since: conditions::get(self.all, "Ready").and_then(since),
            origin: origin(message),
            message: cut(message, LONGEST_TEXT),
            commands: commands_of_reason(reason, message, &self.words),
        }
    }

    /// The reason of `Ready`, where it says more than the members. `is_explained`: a hook does already.
    fn of_ready(&self, is_explained: bool, hooks: &[HookNode]) -> Option<Cause> {
        let reason = self.summary.reason.as_str();
        match reason {
            _ if self.summary.suspended => None,
            "NotHandled" => Some(self.of_unhandled()),
            "NewGeneration" => Some(Cause {
                since: changed(&self.facts.resource),
                ..self.of(
                    reason,
                    "the operator has not handled the last change: it does not run, or is busy",
                )
            }),
            _ if self.summary.is_ready() || OF_MEMBERS.contains(&reason) => None,
            "HookRunning" if is_explained => None,
            "HookRunning" | "HookFailed" => {
                let mut cause = self.of(reason, &self.message());
                let open = hooks.iter().map(|hook| &hook.run).find(|run| is_open(run));
                let commands = open.map(commands_of_hook).filter(|commands| !commands.is_empty());
                if let Some(commands) = commands {
                    cause.commands.retain(|command| command.starts_with("chartwright "));
                    cause.commands.extend(commands);
                }
                Some(cause)
            }
            _ => Some(self.of(reason, &self.message())),
        }
    }

    /// An object that no operator has handled: a release that is new, or a member.
    fn of_unhandled(&self) -> Cause {
        if !member::is_marked(&self.facts.resource) {
            return self.of(
                "NotHandled",
                "no operator has handled it: none runs, or none watches this kind, namespace and labels",
            );
        }
        let release = match &self.facts.named_release {
            Some(release) => format!("the release {release}"),
            None => "a release that was not found".to_owned(),
        };
        Cause {
            commands: commands_of_member(self.facts.named_release.as_ref()),
            ..self.of(
                "NotHandled",
                &format!("no operator handles it as a release; its labels name it as a member of {release}"),
            )
        }
    }

    fn message(&self) -> String {
        match self.summary.message.as_str() {
            "" => self.summary.reason.clone(),
            message => format!("{}: {message}", self.summary.reason),
        }
    }
}

/// True if the hook runs or is tried again, and its object may be there.
fn is_open(run: &HookRun) -> bool {
    matches!(run.phase, RunPhase::Running | RunPhase::Failed) && !run.deleted
}

/// The cause of a hook that does not get on, by what it owns.
fn of_hook(hook: &HookNode) -> Option<Cause> {
    let mut children = hook.children.iter().filter(|_| is_open(&hook.run));
    let (_, found) = children.find_map(|child| deepest(child, child))?;
    Some(Cause {
        object: found.object.or(found.member),
        member: Some(hook.run.object.clone()),
        ..found
    })
}

/// The deepest unhealthy object of a member: a pod explains more than its Deployment, and one pod stands for all. `None`: the member is
/// healthy, whatever became of its former pods.
fn deepest(node: &ObjectNode, member: &ObjectNode) -> Option<(NodeHealth, Cause)> {
    // A CronJob is healthy while its Jobs fail.
    if !node.health.is_bad() && node.id.group_kind.kind != "CronJob" {
        return None;
    }
    // What is being deleted is on its way out, and explains nothing.
    // The claim of a pod that has to be deleted does not help.
    let mut children = node
        .children
        .iter()
        .filter(|child| child.health != NodeHealth::Terminating && !node.is_stuck);
    if let Some(found) = children.find_map(|child| deepest(child, member)) {
        return Some(found);
    }
    let cause = || Cause {
        member: Some(member.id.clone()),
        object: (node.id != member.id).then(|| node.id.clone()),
        message: node.message.clone(),
        since: node.since.clone(),
        origin: None,
        commands: commands_of_object(&node.id, &node.message, node.is_stuck),
    };
    node.health.is_bad().then(|| (node.health, cause()))
}
