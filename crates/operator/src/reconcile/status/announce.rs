//! Writes Events: failures, changes, waits, problems of pods, and conditions where the status keeps none.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use serde_json::Value;

use crate::reconcile::release::Release;
use crate::reconcile::release::saved_record::StatusRefusal;
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::status::conclusion::Conclusion;
use chartwright_core::status::{self, Event, Phase};

/// Writes Events about what a reconcile did and found.
pub(crate) struct EventAnnouncer<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> EventAnnouncer<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        EventAnnouncer { scope }
    }
}

impl EventAnnouncer<'_> {
    /// Writes an Event for each thing that happened. A retry with the same failure writes none.
    pub(crate) async fn announce(&self, release: &mut Release, conclusion: &Conclusion, status: &Value) {
        let event = conclusion.phase.event(&conclusion.changes);
        let failed = event.as_ref().is_some_and(|event| event.warning);
        if let Some(event) = event {
            let text = event.text();
            if !event.once || release.announced.event != text {
                release.announced.event = text;
                self.write_event(&event).await;
            }
        }
        let unseen =
            self.scope.unit.lossy.conditions.load(Relaxed) || release.retry.refused_status == StatusRefusal::Everything;
        if unseen && !failed {
            self.announce_conditions(release, status).await;
        }
    }

    /// Writes an Event about the object that a release waits for, once until this object changes. `is_news`: the status
    /// did not report it before, as it does after a restart.
    pub(crate) async fn announce_awaited(&self, release: &mut Release, phase: &Phase, is_news: bool) {
        let event = phase.awaited();
        let text = event.as_ref().map(Event::text);
        if release.announced.awaited == text {
            return;
        }
        release.announced.awaited = text;
        if let Some(event) = event.filter(|_| is_news) {
            self.write_event(&event).await;
        }
    }

    /// Writes Events about lasting problems of pods.
    pub(crate) async fn announce_pods(&self, release: &mut Release, phase: &Phase) {
        if phase.is_ready() || *phase == Phase::Suspended {
            return;
        }
        for note in release.observed.pods.lasting(Instant::now()) {
            self.scope.warn("PodProblem", &note).await;
        }
    }

    /// Writes Events in place of conditions that the status does not keep.
    async fn announce_conditions(&self, release: &mut Release, status: &Value) {
        let events = status::condition_events(status);
        let texts = events.iter().map(Event::text).collect();
        let reported = release.announced.conditions.replace(texts);
        // A release that was ready before a restart and still is needs no Event.
        if reported.is_none() && release.stored.was_complete && !events.iter().any(|event| event.warning) {
            return;
        }
        let reported = reported.unwrap_or_default();
        for event in &events {
            if !reported.contains(&event.text()) {
                self.write_event(event).await;
            }
        }
    }

    async fn write_event(&self, event: &Event) {
        if event.warning {
            self.scope.warn(&event.reason, &event.note).await
        } else {
            self.scope.inform(&event.reason, &event.note).await
        }
    }
}
