//! What must hold of a [`ModelHistory`]: at any time, and after all changes have ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::faults::fault::Faults;
use crate::histories::history::{MEMBERS, ModelHistory, SECOND, SOURCE, WantedRelease};
use crate::histories::place::ReleasePlace;
use crate::model::kinds::JOB;
use crate::model::store::ObjectKey;
use crate::real_server::release::{claims_ready, content, members};
use crate::world::fields::{HOOK_RUN, TRACKING, annotation, is_marked, uid};

impl ModelHistory {
    /// As [`ModelHistory::careful`], for all operators.
    pub fn all_careful(&self) -> Result<()> {
        let running = self.running.iter().enumerate();
        let mut running = running.filter_map(|(number, running)| Some((number, running.as_ref()?)));
        running.try_for_each(|(number, running)| self.careful(number, &running.faults))
    }

    /// What must hold of everything that this operator asked so far.
    pub fn careful(&self, number: usize, faults: &Faults) -> Result<()> {
        for (place, entry) in faults.log().iter().enumerate() {
            let Some(target) = entry.call.target() else { continue };
            // What the operator keeps for itself is named after the UID of its custom resource.
            let is_member = MEMBERS.contains(&target.resource.as_str()) && !target.name.starts_with("chartwright-");
            if entry.call.verb() == "delete" && is_member {
                let options: Value = serde_json::from_slice(&entry.call.body).unwrap_or_default();
                let uid = &options["preconditions"]["uid"];
                ensure!(uid.is_string(), "deleted without a UID: {}", entry.call);
            }
            for (name, wanted) in self.wanted.iter().filter(|(_, wanted)| wanted.suspended) {
                let of_it = is_member && ReleasePlace::of(name).has(&target.namespace, &target.name);
                let written = of_it && entry.call.is_write() && place >= wanted.since[number];
                ensure!(!written, "written while {name} is suspended: {}", entry.call);
            }
        }
        for (name, version) in &self.foreign {
            let found = self.map(name).unwrap_or_default();
            let is_as_made = found["metadata"]["resourceVersion"] == version.as_str();
            ensure!(is_as_made, "the foreign {name} was written, or is gone: {found}");
        }
        Ok(())
    }

    /// Faults and conflicts have ended: the cluster becomes what the custom resources say, and then
    /// nothing is written any more.
    pub async fn end(mut self) -> Result<()> {
        let faults = self.faults();
        self.all_careful()?;
        self.nothing_ran_twice()?;
        faults.disarm();
        self.set_second_operator(false).await?;
        let names: Vec<String> = self.wanted.keys().cloned().collect();
        for name in names {
            self.suspend(&name, false).await?;
            let mut spec = self.wanted[&name].spec.clone();
            spec["fail"] = "".into();
            if spec["hooks"].as_str().is_some_and(|hooks| !hooks.is_empty()) {
                spec["hooks"] = "ends".into();
            }
            self.edit(&name, spec).await?;
            if self.wanted[&name].spec["plan"] == true {
                self.run_plan(&name, "ends").await?;
            }
            if self.refused {
                self.request(&name).await?;
            }
            if self.tolerates_drift() {
                self.force(&name).await?;
            }
        }
        let foreign: Vec<String> = self.foreign.keys().cloned().collect();
        for name in foreign {
            self.by_others_no_more(&name).await?;
        }
        // A retry may wait six minutes, and the removal of an obstacle sends no event.
        self.until(1_000, Self::is_as_wanted).await?;
        // A silent watch is restarted after two minutes, and then shows the missed changes.
        tokio::time::sleep(300 * SECOND).await;
        let version = self.model.store().version;
        faults.clear_log();
        tokio::time::sleep(600 * SECOND).await;
        self.is_as_wanted().context("it does not stay so")?;
        self.nothing_ran_twice()?;
        let now = self.model.store().version;
        let log = faults.log();
        let calls = log.iter().map(|entry| &entry.call).filter(|call| !call.is_watch());
        let calls: Vec<String> = calls.map(ToString::to_string).collect();
        ensure!(version == now && calls.is_empty(), "it never comes to rest: {calls:?}");
        if let Some(running) = self.running[0].take() {
            running.stop.cancel();
            let _ = tokio::time::timeout(60 * SECOND, running.task).await;
        }
        Ok(())
    }

    /// What a release is to consist of, by the chart that is there and what it looks up now.
    fn members_of(&self, name: &str, spec: &Value) -> BTreeMap<ObjectKey, Value> {
        let place = ReleasePlace::of(name);
        let mut all = made_of(&place, spec);
        let mut add = |suffix: &str, content: Value| {
            let name = format!("{}-{suffix}", place.name);
            all.insert(place.member("ConfigMap", name), content);
        };
        if self.chart == 1 {
            add("added", json!({"chart": "b"}));
        }
        if spec["lookup"] == SOURCE {
            let found = self.map(&format!("{}/{SOURCE}", place.namespace)).unwrap_or_default();
            let word = found["data"]["word"].as_str().unwrap_or("nothing");
            add("looked-up", json!({"copy": word}));
        }
        all
    }

    /// A status that claims to be ready for the current generation is right about every member (P8). Not to be asked
    /// while another client changes members.
    pub fn is_truthful(&self) -> Result<()> {
        for (name, WantedRelease { spec, .. }) in &self.wanted {
            if !claims_ready(&self.widget(name).unwrap_or_default()) {
                continue;
            }
            let live = self.live();
            for (id, wanted) in self.members_of(name, spec) {
                let found = live.get(&id).map_or(Value::Null, content);
                ensure!(found == wanted, "{name} is ready, and {id:?} {found}, not {wanted}");
            }
        }
        Ok(())
    }

    /// No status ever said of its generation that it is ready while a member did not match that spec (P8): each
    /// is held against what there was when it was written. Not valid where a user changed members by hand.
    pub fn never_lied(&self) -> Result<()> {
        let store = self.model.store();
        let mut there: BTreeMap<_, Arc<Value>> = BTreeMap::new();
        for change in &store.changes {
            match &change.after {
                Some(object) => drop(there.insert(change.key.clone(), object.clone())),
                None => drop(there.remove(&change.key)),
            }
            let is_ours = ReleasePlace::PLURALS.contains(&change.key.0);
            let Some(widget) = change.after.as_deref().filter(|_| is_ours) else {
                continue;
            };
            let before = change.before.as_deref().map(|before| &before["status"]);
            if before == Some(&widget["status"]) || !claims_ready(widget) {
                continue;
            }
            let place = ReleasePlace::by_key(&change.key);
            for (id, wanted) in made_of(&place, &widget["spec"]) {
                let found = there.get(&id).map_or(Value::Null, |object| content(object));
                ensure!(found == wanted, "{place} was ready, and {id:?} {found}, not {wanted}");
            }
        }
        Ok(())
    }

    /// No run of a hook was ever made twice. What one of two operators has ended, a late request of the other's may begin
    /// again: only a Lease keeps that from happening.
    fn nothing_ran_twice(&self) -> Result<()> {
        if self.had_second_operator {
            return Ok(());
        }
        let store = self.model.store();
        let changes = store.changes.iter();
        let made = changes.filter(|change| change.key.0 == JOB.plural && change.before.is_none());
        let mut runs = BTreeSet::new();
        let is_a_hook = |job: &&Value| annotation(job, TRACKING).is_some();
        for job in made.filter_map(|change| change.after.as_deref()).filter(is_a_hook) {
            let run = (annotation(job, TRACKING), annotation(job, HOOK_RUN));
            ensure!(runs.insert(run), "it ran twice: {job}");
        }
        Ok(())
    }

    /// The plan of a release has run as it was requested last. Of two operators one may answer for a render that only the
    /// other has made.
    fn has_run_plan(&self, widget: &Value, wanted: &WantedRelease) -> Result<()> {
        if self.had_second_operator {
            return Ok(());
        }
        let plan = &widget["status"]["plans"][0];
        let has_run = plan["phase"] == "Succeeded" && plan["token"] == wanted.requested.as_str();
        ensure!(
            wanted.spec["plan"] != true || wanted.requested.is_empty() || has_run,
            "requested {}: {}",
            wanted.requested,
            widget["status"]
        );
        Ok(())
    }

    /// What is there of hooks and plans belongs to a release that has some. Of two operators one may write a status that
    /// doesn't report the Job that the other has begun.
    fn hooks_are_as_wanted(&self) -> Result<()> {
        if self.had_second_operator {
            return Ok(());
        }
        let has_hooks = |key: &ObjectKey| {
            let mut releases = self
                .wanted
                .iter()
                .filter(|(_, wanted)| wanted.spec["hooks"] == "ends" || wanted.spec["plan"] == true);
            releases.any(|(name, _)| ReleasePlace::of(name).has(&key.1, &key.2))
        };
        let store = self.model.store();
        let mut jobs = store.objects.keys().filter(|key| key.0 == JOB.plural);
        let left = jobs.find(|key| !has_hooks(key));
        ensure!(left.is_none(), "{left:?} is left of a hook");
        Ok(())
    }

    /// Objects with our marks.
    pub fn live(&self) -> BTreeMap<ObjectKey, Value> {
        let store = self.model.store();
        let members = store.objects.iter().filter(|(key, _)| MEMBERS.contains(&key.0));
        let marked = members.filter(|(_, object)| is_marked(object));
        marked.map(|(key, object)| (key.clone(), (**object).clone())).collect()
    }

    pub fn is_as_wanted(&self) -> Result<()> {
        let mut expected = BTreeMap::new();
        for (name, wanted) in &self.wanted {
            let widget = self.widget(name).with_context(|| format!("{name} is gone"))?;
            let (conditions, generation) = (&widget["status"]["conditions"], &widget["metadata"]["generation"]);
            ensure!(claims_ready(&widget), "{name}: {conditions}, generation {generation}");
            self.has_run_plan(&widget, wanted).with_context(|| name.clone())?;
            let all = self.members_of(name, &wanted.spec);
            let rows = widget["status"]["inventory"].as_array().map_or(0, Vec::len);
            ensure!(rows == all.len(), "{name} lists {rows} members of {}", all.len());
            expected.extend(all);
        }
        let there: BTreeSet<ObjectKey> = {
            let store = self.model.store();
            let keys = store
                .objects
                .keys()
                .filter(|key| ReleasePlace::PLURALS.contains(&key.0));
            keys.cloned().collect()
        };
        let wanted: BTreeSet<ObjectKey> = self.wanted.keys().map(|name| ReleasePlace::of(name).key()).collect();
        self.hooks_are_as_wanted()?;
        ensure!(there == wanted, "custom resources: {there:?}");
        let live = self.live();
        let (found, wanted) = (live.keys(), expected.keys());
        ensure!(found.clone().eq(wanted.clone()), "live are {found:?}, not {wanted:?}");
        for (id, object) in &live {
            let mut found = content(object);
            if let Some(data) = found.as_object_mut() {
                data.remove("mine");
            }
            ensure!(found == expected[id], "{id:?} is {found}, not {}", expected[id]);
            let owns = self.labelled.contains(&(id.2.clone(), uid(object)));
            let has_it = object["metadata"]["labels"]["mine"] == "1";
            ensure!(!owns || has_it, "{id:?} lost a foreign label");
        }
        Ok(())
    }
}

/// The objects that a spec creates, independent of the chart and its lookups.
fn made_of(place: &ReleasePlace, spec: &Value) -> BTreeMap<ObjectKey, Value> {
    let members = members(&place.namespace, &place.name, spec).into_iter();
    members
        .map(|((kind, name), content)| (place.member(&kind, name), content))
        .collect()
}
