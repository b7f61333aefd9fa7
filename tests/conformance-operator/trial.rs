//! One chart from its installation to its deletion.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::charts::{self, ChartCase, TrialValues};
use crate::judge::{TrialOutcome, TrialRelease, changes, is_stalled, ready};
use crate::lane::{GROUP, KIND, OPERATOR, RELEASES, TrialLane};
use crate::operator::TrialOperator;
use crate::report::{TrialRow, copy};
use crate::support::{AuditMark, AuditedRequest, AuditedRequests, Kubectl, eventually};

/// The custom resource, and so the release.
const NAME: &str = "rel";

/// A value that no chart knows.
const UNKNOWN: &str = "chartwrightConformance";

/// How long a release may take to go, and how long what it leaves to the garbage collector.
const DELETION: Duration = Duration::from_secs(90);

/// How long the operator is watched doing nothing, and what counts as having come to rest before that.
const QUIET: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_millis(1500);
const UNREST: Duration = Duration::from_secs(60);

/// A reason that waits for nothing but a change counts when it has stood so long, after another operator was started longer.
const STANDS: Duration = Duration::from_secs(8);
const STANDS_AFTER_RESTART: Duration = Duration::from_secs(15);

/// The reason of a release that waits for a CRD.
const UNSERVED: &str = "KindUnknown";

struct Trial<'a> {
    lane: &'a TrialLane,
    kubectl: Kubectl,
    namespace: String,
    case: &'a ChartCase,
    values: TrialValues,
    /// Takes watches files, logs and custom resources.
    folder: &'a Path,
    limit: Duration,
}

/// Tries a chart, and writes into `row` what came of it.
pub fn run(lane: &mut TrialLane, case: &ChartCase, limit: Duration, row: &mut TrialRow) {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return row.failed("installed", &error.into()),
    };
    let mut step = "installed";
    if let Err(error) = attempt(lane, case, limit, folder.path(), row, &mut step) {
        row.failed(step, &error);
    }
    let Some(kept) = row.keep() else { return };
    let requests = lane.control_plane.audit().since(lane.begin);
    let requests = requests.map(|requests| requests.by_user(OPERATOR).to_string());
    let _ = fs::write(folder.path().join("requests"), requests.unwrap_or_default());
    if let Err(error) = copy(folder.path(), &kept) {
        eprintln!("conformance-operator: {}: {error}", kept.display());
    }
}

fn attempt(
    lane: &mut TrialLane,
    case: &ChartCase,
    limit: Duration,
    folder: &Path,
    row: &mut TrialRow,
    step: &mut &'static str,
) -> Result<()> {
    let (kubectl, namespace) = lane.next()?;
    let (values, file) = charts::values(&case.path, &lane.kubernetes);
    row.values = file;
    let trial = Trial {
        lane,
        kubectl,
        namespace,
        case,
        values,
        folder,
        limit,
    };
    let mut operator = TrialOperator::start(lane, folder, &case.path, 1)?;
    let installed = trial.install(&mut operator)?;
    row.add(step, installed);
    *step = "left alone";
    row.add(step, trial.left_alone()?);
    *step = "restarted";
    operator.stop()?;
    operator = TrialOperator::start(lane, folder, &case.path, 2)?;
    row.add(step, trial.restarted(&mut operator)?);
    *step = "edited";
    row.add(step, trial.edit(&mut operator)?);
    *step = "upgraded";
    if let Some((version, chart)) = &case.upgrade {
        operator.stop()?;
        let before = trial.resource()?["status"]["release"]["revision"].take();
        operator = TrialOperator::start(lane, folder, chart, 3)?;
        row.add(step, trial.upgrade(&mut operator, chart, version, &before)?);
    } else {
        row.add(step, TrialOutcome::Skipped);
    }
    *step = "deleted";
    row.add(step, trial.delete(&mut operator)?);
    operator.stop()
}

impl Trial<'_> {
    fn release<'a>(&'a self, chart: &'a Path) -> TrialRelease<'a> {
        TrialRelease {
            kubectl: &self.kubectl,
            namespace: &self.namespace,
            kubernetes: &self.lane.kubernetes,
            chart,
            values: &self.values,
        }
    }

    fn resource(&self) -> Result<Value> {
        self.kubectl.get(RELEASES, NAME)?.context("the custom resource is gone")
    }

    fn is_ready(&self) -> Result<bool> {
        Ok(ready(&self.resource()?).is_some_and(|ready| ready.status == "True"))
    }

    fn install(&self, operator: &mut TrialOperator) -> Result<TrialOutcome> {
        let api_version = format!("{GROUP}/v1");
        let resource = json!({
            "apiVersion": api_version, "kind": KIND, "metadata": {"name": NAME}, "spec": self.values,
        });
        let start = Instant::now();
        self.kubectl.apply(&resource.to_string())?;
        let resource = self.settle(operator, "installed", None)?;
        let took = format!("Ready {:.1} s", start.elapsed().as_secs_f64());
        self.release(&self.case.path).judge(&resource, took)
    }

    /// Waits until the custom resource is Ready, or reports that it can't be, or the time limit ends. With a version, of
    /// the release that has it.
    fn settle(&self, operator: &mut TrialOperator, step: &str, version: Option<&str>) -> Result<Value> {
        let start = Instant::now();
        let mut stands: Option<(String, Instant)> = None;
        let resource = loop {
            operator.is_alive()?;
            let resource = self.resource()?;
            let is_it = version.is_none_or(|version| resource["status"]["release"]["version"] == version);
            let said = ready(&resource);
            let is_ready = said.as_ref().is_some_and(|said| said.status == "True");
            // One that waits for its hooks or members says so, too.
            let reason = said
                .map(|said| said.reason)
                .filter(|_| !is_ready && is_stalled(&resource));
            if stands.as_ref().map(|(reason, _)| reason) != reason.as_ref() {
                stands = reason.map(|reason| (reason, Instant::now()));
            }
            let long = if is_it { STANDS } else { STANDS_AFTER_RESTART };
            let has_stood = stands.as_ref().is_some_and(|(_, since)| since.elapsed() > long);
            if is_ready && is_it || has_stood || start.elapsed() > self.limit {
                break resource;
            }
            std::thread::sleep(Duration::from_millis(200));
        };
        fs::write(self.folder.join(format!("{step}.json")), format!("{resource:#}"))?;
        Ok(resource)
    }

    /// The operator's requests, without those that it repeats while something differs: what is served, and the pods
    /// of members that aren't well.
    fn requests(&self, since: AuditMark) -> Result<AuditedRequests> {
        let audit = self.lane.control_plane.audit();
        let requests = audit.since(since)?.by_user(OPERATOR).without_idling();
        let is_unwell = !requests.is_empty() && !self.is_ready()?;
        let requests = requests.filter(|request| !is_unwell || request.resource != "pods" || request.is_write());
        let is_discovery = |request: &AuditedRequest| request.verb == "get" && request.resource.is_empty();
        if !requests.iter().any(is_discovery) {
            return Ok(requests);
        }
        let serves = ["customresourcedefinitions", "apiservices"];
        let changes = audit.since(self.lane.begin)?.writes();
        let has_changed = changes.iter().any(|write| serves.contains(&write.resource.as_str()));
        Ok(requests.filter(|request| !(has_changed && is_discovery(request))))
    }

    /// Waits until the operator sends no requests.
    fn rest(&self) -> Result<()> {
        let deadline = Instant::now() + UNREST;
        loop {
            let mark = self.lane.control_plane.audit().mark()?;
            std::thread::sleep(REST);
            let requests = self.requests(mark)?;
            if requests.is_empty() {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "no rest within {UNREST:?}: {requests}");
        }
    }

    /// Whether what it waits for is tried again and again, so that it can't be quiet.
    fn is_retried(&self) -> Result<bool> {
        let resource = self.resource()?;
        let reason = ready(&resource)
            .filter(|ready| ready.status != "True")
            .map(|ready| ready.reason);
        let waits = ["Progressing", "MemberFailed", "HookRunning", UNSERVED];
        let is_retried = |reason: String| !is_stalled(&resource) && !waits.contains(&reason.as_str());
        Ok(reason.is_some_and(is_retried))
    }

    fn left_alone(&self) -> Result<TrialOutcome> {
        if self.is_retried()? {
            return Ok(TrialOutcome::Skipped);
        }
        self.rest()?;
        let mark = self.lane.control_plane.audit().mark()?;
        std::thread::sleep(QUIET);
        let requests = self.requests(mark)?;
        Ok(if requests.is_empty() {
            TrialOutcome::Good("quiet".to_owned())
        } else {
            TrialOutcome::Wrong(requests.to_string())
        })
    }

    /// Another operator has begun to look after it, and finds nothing to do.
    fn restarted(&self, operator: &mut TrialOperator) -> Result<TrialOutcome> {
        let mark = self.lane.control_plane.audit().mark()?;
        operator.await_watching(self.limit)?;
        let is_ready = self.is_ready()?;
        std::thread::sleep(REST);
        self.rest()?;
        operator.is_alive()?;
        let writes = self.requests(mark)?.writes();
        Ok(match writes.is_empty() {
            true => TrialOutcome::Good("quiet".to_owned()),
            // The message of an unhealthy or retried object may change.
            false if !is_ready => TrialOutcome::Good(format!("{} writes", writes.len())),
            false => TrialOutcome::Wrong(writes.to_string()),
        })
    }

    /// An edit with a value that the chart doesn't know, which is reverted afterwards: the next version may refuse it.
    fn edit(&self, operator: &mut TrialOperator) -> Result<TrialOutcome> {
        let outcome = self.edit_without_effect(operator)?;
        let back = json!({"spec": {UNKNOWN: null, "global": {UNKNOWN: null}}});
        if outcome != TrialOutcome::Skipped {
            self.kubectl.patch(RELEASES, NAME, &back)?;
            self.settle(operator, "edited-back", None)?;
            self.rest()?;
        }
        Ok(outcome)
    }

    fn edit_without_effect(&self, operator: &mut TrialOperator) -> Result<TrialOutcome> {
        let release = self.release(&self.case.path);
        let edits = [json!({UNKNOWN: "x"}), json!({"global": {UNKNOWN: "x"}})];
        let renders = |edit: &&Value| {
            let values = merged(&self.values, edit);
            charts::template(release.chart, &values, release.namespace, release.kubernetes).code == 0
        };
        let (false, Some(edit)) = (self.is_retried()?, edits.iter().find(renders)) else {
            return Ok(TrialOutcome::Skipped);
        };
        let is_ready = self.is_ready()?;
        let before = release.members(&self.resource()?)?;
        let mark = self.lane.control_plane.audit().mark()?;
        self.kubectl.patch(RELEASES, NAME, &json!({"spec": edit}))?;
        let resource = if is_ready {
            self.settle(operator, "edited", None)?
        } else {
            eventually("the edit is looked at", self.limit, || {
                let resource = self.resource()?;
                Ok(ready(&resource).map(|_| resource))
            })?
        };
        self.rest()?;
        // The custom resource, its Events, and the operator's own Secrets, in which it deletes random results that
        // are looked up by now.
        let is_own =
            |request: &AuditedRequest| request.resource == "secrets" && request.name.starts_with("chartwright-");
        let about =
            |request: &AuditedRequest| request.resource == "events" || request.uri.contains(GROUP) || is_own(request);
        let writes = self.requests(mark)?.writes().filter(|request| !about(request));
        if writes.is_empty() {
            return Ok(TrialOutcome::Good("quiet".to_owned()));
        }
        if is_ready && release.renders_otherwise(&merged(&self.values, edit)) == Some(false) {
            return Ok(TrialOutcome::Wrong(format!("renders the same, but {writes}")));
        }
        let after = release.members(&self.resource()?)?;
        let mut changed = String::new();
        for (id, object) in &after {
            let (before, after) = (before.get(id).and_then(Option::as_ref), object.as_ref());
            for pointer in changes(before.unwrap_or(&Value::Null), after.unwrap_or(&Value::Null)) {
                changed += &format!("{id} {pointer}\n");
            }
        }
        if is_ready && changed.is_empty() {
            return Ok(TrialOutcome::Wrong(format!("nothing changed, but {writes}")));
        }
        fs::write(self.folder.join("edited"), format!("{writes}{changed}"))?;
        release.judge(&resource, format!("{} writes", writes.len()))
    }

    /// The operator was started with another version of the chart, on a release of this revision.
    fn upgrade(
        &self,
        operator: &mut TrialOperator,
        chart: &Path,
        version: &str,
        before: &Value,
    ) -> Result<TrialOutcome> {
        let resource = self.settle(operator, "upgraded", Some(version))?;
        let revision = &resource["status"]["release"]["revision"];
        let outcome = self
            .release(chart)
            .judge(&resource, format!("Ready, rev. {revision}"))?;
        if !self.is_retried()? {
            self.rest()?;
        }
        let render =
            |chart: &Path| charts::template(chart, &self.values, &self.namespace, &self.lane.kubernetes).stdout;
        if matches!(outcome, TrialOutcome::Good(_)) && revision == before && render(chart) != render(&self.case.path) {
            return Ok(TrialOutcome::Wrong(format!("it is still of revision {revision}")));
        }
        Ok(outcome)
    }

    fn delete(&self, operator: &mut TrialOperator) -> Result<TrialOutcome> {
        let start = Instant::now();
        self.kubectl.begin_delete(RELEASES, NAME)?;
        let gone = eventually("the custom resource is gone", DELETION, || {
            operator.is_alive()?;
            let resource = self.kubectl.get(RELEASES, NAME)?;
            ensure!(
                resource.is_none(),
                "{}",
                resource.unwrap_or_default()["status"]["conditions"]
            );
            Ok(Some(()))
        });
        if gone.is_err() {
            let resource = self.resource()?;
            fs::write(self.folder.join("deleted.json"), format!("{resource:#}"))?;
        }
        gone?;
        let took = start.elapsed().as_secs_f64();
        let stay = eventually("nothing is left", DELETION, || {
            let difference = self.lane.difference()?;
            ensure!(difference.gone.is_empty(), "gone are: {}", difference.gone.join(", "));
            let (stay, left): (Vec<_>, Vec<_>) = difference.new.into_iter().partition(|(_, object)| object.stays());
            let left: Vec<String> = left.into_iter().map(|(id, _)| id).collect();
            ensure!(left.is_empty(), "left are: {}", left.join(", "));
            Ok(Some(stay))
        })?;
        let stay = match stay.len() {
            0 => String::new(),
            count => format!(", {count} stay"),
        };
        Ok(TrialOutcome::Good(format!("{took:.1} s{stay}")))
    }
}

/// Values with an edit.
fn merged(values: &TrialValues, edit: &Value) -> TrialValues {
    let mut all = values.clone();
    let edit = edit.as_object().cloned().unwrap_or_default();
    helm_template::chart::values::merge_maps(&mut all, edit);
    all
}
