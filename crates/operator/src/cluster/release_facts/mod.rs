//! Reads everything that a report shows of one release: members, what they own, and Events. Only reads, and never a Secret.
//!
//! Requests run in three rounds, since each round names the requests of the next one: members and Events, what members own, then claims and
//! nodes of pods. Each list has a limit. A kind that cannot be read is reported, and the others are read.

mod reader;

use std::collections::{BTreeSet, HashSet};

use futures::stream::{StreamExt as _, iter};
use kube::Client;
use serde_json::Value;

use self::reader::FactsReader;
use crate::cluster::custom_resource::STATUS_MANAGER;
use crate::cluster::discovery::Snapshot;
use crate::cluster::error::Error;
use chartwright_core::identity::{GroupKind, ObjectId};
use chartwright_core::report::reads::{self, ListRead, MemberReads};
use chartwright_core::report::{IngressClasses, ReportFacts, Unread, id_of};

/// Concurrent requests of a report.
const AT_ONCE: usize = 16;
/// Members that no list contains and that are read one by one.
const STRAYS: usize = 50;
/// Namespaces whose Events are read, and nodes that are read.
const NAMESPACES: usize = 20;
const NODES: usize = 20;

/// Reads the facts about a custom resource.
pub async fn gather(client: &Client, snapshot: &Snapshot, kind: &GroupKind, resource: Value) -> ReportFacts {
    let mut gatherer = Gatherer {
        reader: FactsReader { client, snapshot },
        uid: resource["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        facts: ReportFacts {
            status_manager: STATUS_MANAGER.to_owned(),
            ..ReportFacts::new(kind.clone(), resource)
        },
    };
    let members = MemberReads::of(kind, &gatherer.facts.resource);
    let namespaces: Vec<&String> = members.namespaces.iter().take(NAMESPACES).collect();
    let reader = gatherer.reader;
    let (lists, events, classes) = futures::join!(
        reader.list_all(&members.lists),
        reader.events_of(&namespaces, "type=Warning"),
        reader.ingress_classes(&members.ids),
    );
    gatherer.add_members(lists);
    gatherer.add_events(events);
    gatherer.add_classes(classes);
    gatherer.add_strays(&members).await;
    gatherer.add_owned().await;
    gatherer.add_claims_and_nodes().await;
    gatherer.facts
}

/// Collects the answers.
struct Gatherer<'a> {
    reader: FactsReader<'a>,
    /// Of the custom resource.
    uid: String,
    facts: ReportFacts,
}

/// A list and its answer.
type Listed = (ListRead, Result<reader::Page, Error>);

impl Gatherer<'_> {
    fn add_members(&mut self, lists: Vec<Listed>) {
        for (read, answer) in lists {
            let uid = self.uid.clone();
            self.add(read, answer, |object| reads::is_member(object, &uid));
        }
    }

    /// Adds the objects of an answer that are wanted, or why there is none.
    fn add(&mut self, read: ListRead, answer: Result<reader::Page, Error>, is_wanted: impl Fn(&Value) -> bool) {
        match answer {
            Ok(page) => {
                if page.is_cut {
                    let message = format!("only the first {} were read", page.objects.len());
                    self.miss(read.kind, read.namespace, message);
                }
                self.facts.objects.extend(page.objects.into_iter().filter(is_wanted));
            }
            Err(error) => self.miss(read.kind, read.namespace, error.to_string()),
        }
    }

    /// Records that a kind was not read, once.
    fn miss(&mut self, kind: GroupKind, namespace: String, message: String) {
        let is_same = |unread: &Unread| unread.kind == kind && unread.namespace == namespace;
        if !self.facts.unread.iter().any(is_same) {
            self.facts.unread.push(Unread {
                kind,
                namespace,
                message,
            });
        }
    }

    fn add_events(&mut self, answers: Vec<Listed>) {
        for (read, answer) in answers {
            match answer {
                Ok(page) => self.facts.events.extend(page.objects),
                Err(error) => self.miss(read.kind, read.namespace, error.to_string()),
            }
        }
    }

    fn add_classes(&mut self, answer: Option<Result<IngressClasses, Error>>) {
        match answer {
            Some(Ok(classes)) => self.facts.ingress_classes = Some(classes),
            Some(Err(error)) => self.miss(reader::ingress_class(), String::new(), error.to_string()),
            None => {}
        }
    }

    /// Reads members and hooks that no list contains: they may have lost the label. Members of a status that lists only some are added.
    async fn add_strays(&mut self, members: &MemberReads) {
        let known: HashSet<ObjectId> = self.facts.objects.iter().map(id_of).collect();
        let listed: HashSet<&ObjectId> = members.ids.iter().collect();
        if members.is_partial {
            let unlisted = known.iter().filter(|id| !listed.contains(id));
            let mut unlisted: Vec<ObjectId> = unlisted.cloned().collect();
            unlisted.sort();
            self.facts.unlisted = unlisted;
        }
        let is_unread = |id: &ObjectId| {
            let mut unread = self.facts.unread.iter();
            unread.any(|unread| unread.kind == id.group_kind && unread.namespace == id.namespace)
        };
        let strays = members.ids.iter().filter(|id| !known.contains(id) && !is_unread(id));
        let reader = self.reader;
        let answers = strays.take(STRAYS).map(|id| async move { (id, reader.read(id).await) });
        let answers: Vec<_> = iter(answers).buffered(AT_ONCE).collect().await;
        for (id, answer) in answers {
            match answer {
                Ok(Some(object)) if reads::is_member(&object, &self.uid) => self.facts.objects.push(object),
                Ok(Some(_)) => {
                    let message = format!("{} is not marked as an object of this release", id.name);
                    self.miss(id.group_kind.clone(), id.namespace.clone(), message);
                }
                Ok(None) => {}
                Err(error) => self.miss(id.group_kind.clone(), id.namespace.clone(), error.to_string()),
            }
        }
    }

    async fn add_owned(&mut self) {
        let lists = reads::owned_reads(&self.facts.objects);
        for (read, answer) in self.reader.list_all(&lists).await {
            self.add(read, answer, |_| true);
        }
    }

    /// Reads the claims and nodes of pods, and the Events of claims: the volume controller explains some of them without a warning.
    async fn add_claims_and_nodes(&mut self) {
        let lists = reads::claim_reads(&self.facts.objects);
        let claims = self
            .facts
            .objects
            .iter()
            .filter(|object| object["kind"] == "PersistentVolumeClaim");
        let of_claims = claims.filter_map(|claim| claim["metadata"]["namespace"].as_str());
        let namespaces: BTreeSet<String> = of_claims
            .map(str::to_owned)
            .chain(lists.iter().map(|read| read.namespace.clone()))
            .collect();
        let namespaces: Vec<&String> = namespaces.iter().take(NAMESPACES).collect();
        let nodes = reads::nodes_of(&self.facts.objects, NODES);
        let reader = self.reader;
        let (claims, events, nodes) = futures::join!(
            reader.list_all(&lists),
            reader.events_of(&namespaces, "involvedObject.kind=PersistentVolumeClaim"),
            reader.nodes(nodes),
        );
        for (read, answer) in claims {
            self.add(read, answer, |_| true);
        }
        self.add_events(events);
        for (name, answer) in nodes {
            match answer {
                Ok(Some(node)) => {
                    let trouble = reads::node_trouble(&node);
                    self.facts.unavailable_nodes.extend(trouble.map(|why| (name, why)));
                }
                Ok(None) => drop(self.facts.unavailable_nodes.insert(name, "does not exist".to_owned())),
                Err(error) => self.miss(reader::node(), String::new(), error.to_string()),
            }
        }
    }
}
