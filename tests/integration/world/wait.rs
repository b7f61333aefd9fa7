//! Waits for states of objects, conditions and Events.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::fields::{condition, describe, ensure_contains, text};
use super::{PROMPT, SOON, World};
use crate::support::eventually;

impl World {
    /// Waits until a ConfigMap has a color. Returns the ConfigMap.
    pub fn await_color(&self, name: &str, color: &str) -> Result<Value> {
        self.await_field("configmap", name, "/data/color", color)
    }

    /// Waits until a widget is Ready at its current generation. Returns the widget.
    pub fn await_ready(&self, name: &str) -> Result<Value> {
        self.await_condition(name, "Ready", "True")?;
        self.live(name)
    }

    /// The message of the `Stalled` condition, when it is there for this reason at the current generation. It must have
    /// all of these parts.
    pub fn await_stalled(&self, name: &str, reason: &str, parts: &[&str]) -> Result<String> {
        let what = format!("widget {name} is Stalled: {reason}");
        let waited = eventually(&what, SOON, || {
            let stalled = self.await_condition(name, "Stalled", "True")?;
            ensure!(stalled["reason"] == reason, "{stalled}");
            Ok(Some(text(&stalled["message"]).to_owned()))
        });
        let message = waited.with_context(|| self.describe_failure(name))?;
        ensure_contains(&message, parts)?;
        Ok(message)
    }

    /// Waits until `Ready` is false for a reason and its message contains all parts. Returns the condition.
    pub fn await_unready(&self, name: &str, reason: &str, parts: &[&str]) -> Result<Value> {
        let waited = eventually(&format!("{name} is not Ready: {reason} {parts:?}"), SOON, || {
            let ready = self.await_condition(name, "Ready", "False")?;
            ensure!(ready["reason"] == reason, "{ready}");
            ensure_contains(text(&ready["message"]), parts)?;
            Ok(Some(ready))
        });
        waited.with_context(|| self.describe_failure(name))
    }

    /// Waits until a widget has no `PruneHeld`. Returns the widget.
    pub fn await_released(&self, name: &str) -> Result<Value> {
        eventually("nothing is held", SOON, || {
            let widget = self.live(name)?;
            let held = condition(&widget, "PruneHeld");
            ensure!(held.is_null(), "{held}");
            Ok(Some(widget))
        })
    }

    /// Waits until a condition of a widget has a status at the current generation. Returns the condition.
    pub fn await_condition(&self, name: &str, kind: &str, status: &str) -> Result<Value> {
        self.await_condition_of(&self.widgets(), name, kind, status)
    }

    pub fn await_condition_of(&self, resource: &str, name: &str, kind: &str, status: &str) -> Result<Value> {
        let what = format!("{resource} {name}: {kind}={status}");
        let waited = eventually(&what, SOON, || {
            let object = self.expect(resource, name)?;
            let generation = &object["metadata"]["generation"];
            let (found, recorded) = (condition(&object, kind), &object["status"]);
            let holds = found["status"] == status && found["observedGeneration"] == *generation;
            ensure!(holds, "generation {generation}, condition {found}, status {recorded}");
            Ok(Some(found))
        });
        waited.with_context(|| self.describe_failure(name))
    }

    /// Waits until a predicate holds for an object. Returns the object.
    pub fn await_object(&self, kind: &str, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Result<Value> {
        let waited = eventually(&format!("{kind} {name}: {what}"), PROMPT, || {
            match self.get(kind, name)? {
                Some(object) if holds(&object) => Ok(Some(object)),
                object => bail!("it is {}", describe(object.as_ref())),
            }
        });
        waited.with_context(|| self.describe_failure(name))
    }

    /// Waits until an object exists. Returns it.
    pub fn await_there(&self, kind: &str, name: &str) -> Result<Value> {
        self.await_object(kind, name, "is there", |_| true)
    }

    /// Waits until a field (JSON pointer) of an object has a value. Returns the object.
    pub fn await_field(&self, kind: &str, name: &str, pointer: &str, value: impl Into<Value>) -> Result<Value> {
        let value = Some(value.into());
        let is_it = |object: &Value| object.pointer(pointer) == value.as_ref();
        self.await_object(kind, name, &format!("{pointer} is {value:?}"), is_it)
    }

    /// Waits until a widget is gone.
    pub fn await_deleted(&self, name: &str) -> Result<()> {
        self.await_gone(&self.widgets(), name)
    }

    pub fn await_gone(&self, kind: &str, name: &str) -> Result<()> {
        self.await_gone_within(SOON, kind, name)
    }

    pub fn await_gone_within(&self, limit: Duration, kind: &str, name: &str) -> Result<()> {
        let waited = eventually(&format!("{kind} {name} is gone"), limit, || {
            let object = self.get(kind, name)?;
            ensure!(object.is_none(), "it is {}", describe(object.as_ref()));
            Ok(Some(()))
        });
        waited.with_context(|| self.describe_failure(""))
    }

    /// Reasons and notes of the Events about a widget.
    pub fn events(&self, name: &str) -> Result<Vec<(String, String)>> {
        let events = self.list("events", "")?;
        let is_about = |about: &Value| about["name"] == name && about["kind"] == "Widget";
        let events = events.iter().filter(|event| is_about(&event["involvedObject"]));
        let summary = |event: &Value| (text(&event["reason"]).to_owned(), text(&event["message"]).to_owned());
        Ok(events.map(summary).collect())
    }

    /// Waits for an Event whose note contains all parts. Returns the note.
    pub fn await_event(&self, name: &str, reason: &str, parts: &[&str]) -> Result<String> {
        eventually(&format!("{name} has an event {reason} {parts:?}"), PROMPT, || {
            let events = self.events(name)?;
            let is_it = |event: &&(String, String)| event.0 == reason && ensure_contains(&event.1, parts).is_ok();
            let found = events.iter().find(is_it).map(|(_, note)| note.clone());
            Ok(Some(found.with_context(|| format!("there are {events:?}"))?))
        })
    }
}
