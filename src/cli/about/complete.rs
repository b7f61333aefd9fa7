//! `chartwright __complete`: kinds, names and namespaces of the cluster, for the completion scripts. Silent without a cluster.

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use kube::api::{Api, DynamicObject, ListParams};

use crate::cli::block_on;
use crate::cli::release::kinds::find_kind;
use crate::cli::release::release_list::{Unlisted, find_release_kinds};
use crate::cli::stdout::stdout;
use chartwright_core::identity::GroupKind;
use chartwright_operator::cluster::connection::bounded;
use chartwright_operator::cluster::discovery::Resource;
use chartwright_operator::cluster::{self, Discovery};
use chartwright_watches::names::is_dns_subdomain;

/// After this time the shell gets no words.
const LIMIT: Duration = Duration::from_secs(2);
/// Names that are offered.
const MOST_NAMES: u32 = 500;

/// The first argument of the command. It is no subcommand of the program, so that no help and no script lists it.
const COMMAND: &str = "__complete";

/// Returns the words after `chartwright __complete --`: the words after the program's name, of which the last one is completed.
pub fn words_to_complete() -> Option<Vec<String>> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != COMMAND {
        return None;
    }
    let words = arguments.map(|word| word.to_string_lossy().into_owned());
    Some(words.skip_while(|word| word == "--").collect())
}

/// What the last word of a command line can be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    Kind,
    /// The name of a custom resource of this kind.
    Name(String),
    Namespace,
}

/// A question to the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Question {
    wanted: Wanted,
    /// What the answer begins with.
    start: String,
    namespace: Option<String>,
    kubeconfig: Option<PathBuf>,
}

/// Prints one word per line. Prints nothing if the cluster does not answer within 2 s.
pub fn run(words: &[String], command: clap::Command) {
    print(&find(words, command));
}

/// Prints one word per line.
pub fn print(words: &[String]) {
    let text: String = words.iter().map(|word| format!("{word}\n")).collect();
    // A shell that does not read has no use for an error.
    drop(stdout().write_all(text.as_bytes()));
}

/// The kinds or names of the cluster that the last word can be. Empty if the cluster does not answer within 2 s.
pub fn find(words: &[String], mut command: clap::Command) -> Vec<String> {
    command.build();
    let Some(question) = question(&command, words) else {
        return Vec::new();
    };
    let start = question.start.clone();
    let (sender, receiver) = mpsc::channel();
    // A thread of its own: a credential plugin of the kubeconfig may block.
    std::thread::spawn(move || sender.send(block_on(answer(question))));
    let mut found = match receiver.recv_timeout(LIMIT) {
        Ok(Ok(found)) => found,
        _ => Vec::new(),
    };
    found.retain(|word| word.starts_with(&start) && is_dns_subdomain(word));
    found
}

/// Finds out what the last word is. `None`: no word of the cluster.
fn question(command: &clap::Command, words: &[String]) -> Option<Question> {
    let (current, before) = words.split_last()?;
    let (mut command, mut found) = (command, Vec::new());
    let (mut namespace, mut kubeconfig, mut is_all) = (None, None, false);
    // The flag whose value the last word is.
    let mut open_flag = None;
    let mut words = before.iter().peekable();
    while let Some(word) = words.next() {
        if word.starts_with('-') {
            let (arg, value) = find_flag(command, word)?;
            is_all |= arg.get_id() == "all" || arg.get_id() == "all_namespaces";
            if !arg.get_action().takes_values() {
                continue;
            }
            // bash makes a word of the equals sign.
            words.next_if(|word| *word == "=");
            let Some(value) = value.map(str::to_owned).or_else(|| words.next().cloned()) else {
                open_flag = Some(arg);
                break;
            };
            match arg.get_id().as_str() {
                "namespace" => namespace = Some(value),
                "kubeconfig" => kubeconfig = Some(PathBuf::from(value)),
                _ => {}
            }
        } else if let Some(below) = command.find_subcommand(word).filter(|_| found.is_empty()) {
            command = below;
        } else {
            found.push(word.clone());
        }
    }
    let question = |wanted, start: &str| Question {
        wanted,
        start: start.to_owned(),
        namespace,
        kubeconfig,
    };
    let value = match open_flag {
        // bash makes a word of the equals sign.
        Some(arg) => Some((arg, current.trim_start_matches('='))),
        None if current.starts_with('-') => {
            Some(find_flag(command, current).and_then(|(arg, value)| Some((arg, value?)))?)
        }
        None => None,
    };
    if let Some((arg, start)) = value {
        return is_cluster_namespace(command, arg).then(|| question(Wanted::Namespace, start));
    }
    let mut positionals = command
        .get_positionals()
        .map(|arg| arg.get_id().as_str())
        .skip(found.len());
    let wanted = match (positionals.next()?, found.last()) {
        ("kind", None) => Wanted::Kind,
        ("name", Some(kind)) if found.len() == 1 && !is_all => Wanted::Name(kind.clone()),
        _ => return None,
    };
    Some(question(wanted, current))
}

/// The flag that a word begins with, and its value if the word contains one: `--namespace=shop`, `-n=shop`, `-nshop`.
fn find_flag<'c, 'w>(command: &'c clap::Command, word: &'w str) -> Option<(&'c clap::Arg, Option<&'w str>)> {
    let mut arguments = command.get_arguments();
    if let Some(long) = word.strip_prefix("--") {
        let (long, value) = long
            .split_once('=')
            .map_or((long, None), |(long, value)| (long, Some(value)));
        return Some((arguments.find(|arg| arg.get_long() == Some(long))?, value));
    }
    let mut letters = word.strip_prefix('-')?.chars();
    let letter = letters.next()?;
    let arg = arguments.find(|arg| arg.get_short() == Some(letter))?;
    let rest = letters.as_str();
    let takes_rest = !rest.is_empty() && arg.get_action().takes_values();
    Some((arg, takes_rest.then(|| rest.strip_prefix('=').unwrap_or(rest))))
}

/// True if the value of a flag is a namespace of the cluster that the command connects to.
pub(super) fn is_cluster_namespace(command: &clap::Command, arg: &clap::Arg) -> bool {
    let is_namespace = arg.get_id() == "namespace" || arg.get_id() == "operator_namespace";
    is_namespace && command.get_arguments().any(|other| other.get_id() == "kubeconfig")
}

async fn answer(question: Question) -> anyhow::Result<Vec<String>> {
    let client = cluster::connect(question.kubeconfig.as_deref()).await?;
    if question.wanted == Wanted::Namespace {
        let resource = Resource::offline(&GroupKind::new("", "Namespace"), "v1", false);
        let api: Api<DynamicObject> = resource.api_in(&client, None);
        let listed = bounded(api.list_metadata(&ListParams::default().limit(MOST_NAMES))).await?;
        return Ok(listed
            .items
            .into_iter()
            .filter_map(|object| object.metadata.name)
            .collect());
    }
    let snapshot = Discovery::new(client.clone()).await?.snapshot();
    let mut words = Vec::new();
    match question.wanted {
        Wanted::Kind => {
            for (group_kind, resource) in find_release_kinds(&client, &snapshot, None, &mut Unlisted::new()).await {
                let plural = &resource.api.plural;
                let is_unique = find_kind(&snapshot, plural).is_ok();
                words.extend(is_unique.then(|| plural.clone()));
                words.push(format!("{plural}.{}", group_kind.group));
            }
        }
        Wanted::Name(kind) => {
            let (_, resource) = find_kind(&snapshot, &kind)?;
            let namespace = question.namespace.as_deref().unwrap_or(client.default_namespace());
            let api: Api<DynamicObject> = resource.api_in(&client, Some(namespace));
            let listed = bounded(api.list_metadata(&ListParams::default().limit(MOST_NAMES))).await?;
            words.extend(listed.items.into_iter().filter_map(|object| object.metadata.name));
        }
        Wanted::Namespace => {}
    }
    words.sort();
    Ok(words)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn of(line: &str) -> Option<Question> {
        let mut command = Cli::command();
        command.build();
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        question(&command, &words)
    }

    #[test]
    fn kinds_and_names_are_completed_where_they_stand() {
        for line in [
            "get ",
            "get mem",
            "history ",
            "plan run ",
            "suspend --wait mem",
            "get -n shop mem",
            "get -A ",
        ] {
            assert_eq!(of(line).unwrap().wanted, Wanted::Kind, "{line:?}");
        }
        for line in [
            "get web ",
            "rollback web a",
            "plan list web ",
            "force --timeout 1m web ",
        ] {
            assert_eq!(of(line).unwrap().wanted, Wanted::Name("web".into()), "{line:?}");
        }
        for line in [
            "",
            "ge",
            "get -",
            "lint ",
            "run ",
            "get web a ",
            "suspend web --all ",
            "get --unknown ",
            "get --unknown=a",
            "get --output=j",
            "get -o ",
            "generate rbac --name ",
            "nonsense a ",
        ] {
            assert_eq!(of(line), None, "{line:?}");
        }
        for (line, start) in [
            ("get -n ", ""),
            ("get -n sh", "sh"),
            ("get -nsh", "sh"),
            ("get web --namespace sh", "sh"),
            ("get --namespace=sh", "sh"),
            // bash makes a word of the equals sign.
            ("get --namespace =", ""),
            ("get --namespace = sh", "sh"),
            ("plan run -n ", ""),
            ("diff --operator-namespace ", ""),
            ("dashboard -n ", ""),
            ("release-finalizers -n ", ""),
            ("leftovers --namespace ", ""),
        ] {
            let found = of(line).unwrap_or_else(|| panic!("{line:?}"));
            assert_eq!(
                (found.wanted, found.start.as_str()),
                (Wanted::Namespace, start),
                "{line:?}"
            );
        }
        for line in [
            "get --namespace=shop --kubeconfig k web ",
            "get --namespace = shop --kubeconfig k web ",
        ] {
            let found = of(line).unwrap();
            assert_eq!(found.namespace.as_deref(), Some("shop"), "{line}");
            assert_eq!(found.kubeconfig, Some(PathBuf::from("k")), "{line}");
        }
    }
}
