//! `dependsOn`: a release isn't begun, and an upgrade isn't, until other objects are ready. What runs goes on: it is put
//! right, and needs nobody's leave. While it waits, the others are watched as what templates look up is: nothing is asked
//! again before one of them has changed.

use std::collections::{BTreeMap, BTreeSet};

use go_yaml as yaml;

use crate::cluster::discovery::Snapshot;
use crate::cluster::objects::lookup;
use crate::reconcile::check::list;
use crate::reconcile::context::{Context, Unit};
use crate::reconcile::custom_resource::{CustomResource, ResourceKey};
use crate::reconcile::load::input_digest;
use crate::reconcile::release::Release;
use crate::reconcile::render::PreparedRelease;
use crate::reconcile::render::pool::off_worker;
use crate::reconcile::render::secret_values::{self, ChartText};
use crate::reconcile::scope::ReleaseScope;
use crate::reconcile::values::name_templates::NameTemplates;
use crate::reconcile::values::{self, ValuesError};
use chartwright_core::annotations::DEPENDS_ON;
use chartwright_core::health::depends_on;
use chartwright_core::identity::GroupKind;
use chartwright_core::index::dependencies::{self, Dependency};
use chartwright_core::status::{Phase, Reason};
use chartwright_watches::DependsOn;
use chartwright_watches::cel::Expression;
use chartwright_watches::names::is_path_segment;
use helm_template::render::LookupKey;

/// Something that a release depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReleaseDependency {
    /// How messages name the entry: `dependsOn[0]`.
    place: String,
    group_kind: GroupKind,
    version: Option<String>,
    /// For a kind that has namespaces.
    namespace: String,
    name: String,
    ready_when: Option<String>,
    /// The custom resource's author named it.
    is_own: bool,
}

/// What came of earlier looks, with the version of the object: why it isn't ready.
pub(crate) type DependencyVerdicts = BTreeMap<(LookupKey, Option<String>), (String, Option<String>)>;

impl ReleaseDependency {
    /// How it is asked for; `None` while its kind isn't served.
    fn key(&self, snapshot: &Snapshot) -> Option<LookupKey> {
        let resource = match &self.version {
            Some(version) => snapshot.resource(&self.group_kind, version),
            None => snapshot.preferred(&self.group_kind),
        }?;
        Some(LookupKey {
            api_version: resource.api.api_version.clone(),
            kind: self.group_kind.kind.clone(),
            namespace: if resource.namespaced {
                self.namespace.clone()
            } else {
                String::new()
            },
            name: self.name.clone(),
        })
    }

    pub(crate) fn target(&self, snapshot: &Snapshot) -> Dependency {
        let namespaced = snapshot.preferred(&self.group_kind).is_none_or(|kind| kind.namespaced);
        Dependency {
            group_kind: self.group_kind.clone(),
            namespace: if namespaced {
                self.namespace.clone()
            } else {
                String::new()
            },
            name: self.name.clone(),
        }
    }

    fn told(&self, why: &str) -> String {
        let namespace = match self.namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        format!("{} {namespace}{} {why}", self.group_kind, self.name)
    }
}

/// What a release depends on: by its watch, and by the list of its own.
///
/// # Errors
/// A list that can't be read, or a name that can't be made.
pub(crate) fn needs(unit: &Unit, resource: &CustomResource) -> Result<Vec<ReleaseDependency>, ValuesError> {
    let of_watch = &unit.watch.depends_on;
    let own = resource.annotations.get(DEPENDS_ON);
    if of_watch.is_empty() && own.is_none() {
        return Ok(Vec::new());
    }
    let own = yaml::to_json(own.map(String::as_str).unwrap_or_default().as_bytes())
        .map_err(|error| error.to_string())
        .and_then(|list| DependsOn::list(DEPENDS_ON, &list))
        .map_err(|error| match error.starts_with(DEPENDS_ON) {
            true => ValuesError::Source(error),
            false => ValuesError::Source(format!("{DEPENDS_ON}: {error}")),
        })?;
    let home = match resource.key.namespace.as_str() {
        // Whose release has no namespace either needs it for cluster-scoped kinds alone.
        "" => values::release_namespace(unit, resource).unwrap_or_default(),
        own => own.to_owned(),
    };
    let texts = NameTemplates::new(unit, resource);
    let mut needs = Vec::new();
    for (list, entries, is_own) in [
        ("dependsOn", of_watch.as_slice(), false),
        (DEPENDS_ON, own.as_slice(), true),
    ] {
        for (index, entry) in entries.iter().enumerate() {
            let place = format!("{list}[{index}]");
            let made = |field: &str, template: &str| {
                // The author's entries are no templates.
                let made = match is_own {
                    true => Ok(template.to_owned()),
                    false => texts.text("dependsOn", template),
                };
                let made = made.map_err(|error| ValuesError::Source(format!("{place}: {field}: {error}")))?;
                match made.trim() {
                    made if is_path_segment(made) => Ok(made.to_owned()),
                    made => Err(ValuesError::Source(format!("{place}: {field}: {made:?} can't be one"))),
                }
            };
            needs.push(ReleaseDependency {
                group_kind: GroupKind::new(&entry.group, &entry.kind),
                version: entry.version.clone(),
                namespace: match &entry.namespace {
                    Some(template) => made("namespace", template)?,
                    None => home.clone(),
                },
                name: made("name", &entry.name)?,
                ready_when: entry.ready_when.clone(),
                is_own,
                place,
            });
        }
    }
    Ok(needs)
}

/// A custom resource, as others depend on it.
pub(crate) fn as_dependency(unit: &Unit, key: &ResourceKey) -> Dependency {
    Dependency {
        group_kind: unit.group_kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

/// True if something of the release, or of its next revision, was applied: it goes on whatever becomes of others.
fn is_under_way(release: &Release) -> bool {
    let record = &release.record;
    record.upgrading || record.hooks.is_open() || record.revision == 0 && !record.entries.is_empty()
}

/// Holds an installation or upgrade until its dependencies are ready.
pub(crate) struct DependencyGate<'a> {
    scope: &'a ReleaseScope<'a>,
}

impl<'a> DependencyGate<'a> {
    pub(crate) fn new(scope: &'a ReleaseScope<'a>) -> Self {
        DependencyGate { scope }
    }
}

impl DependencyGate<'_> {
    /// Why a release that was never installed can't be yet.
    pub(crate) async fn await_to_install(&self, release: &mut Release) -> Result<(), Phase> {
        match release.record.revision > 0 || is_under_way(release) {
            true => Ok(()),
            false => self.await_dependencies(release).await,
        }
    }

    /// The same of an upgrade, which is known by its render.
    pub(crate) async fn await_to_upgrade(
        &self,
        release: &mut Release,
        prepared: &PreparedRelease,
    ) -> Result<(), Phase> {
        let recorded = release.record.revision;
        let is_upgrade = recorded > 0 && prepared.revision > recorded && prepared.rollback.is_none();
        match is_upgrade && !is_under_way(release) {
            true => self.await_dependencies(release).await,
            false => Ok(()),
        }
    }

    /// What can't be rendered may be so for want of what it depends on.
    pub(crate) async fn or_dependency_phase(&self, release: &mut Release, phase: Phase) -> Phase {
        match phase {
            Phase::Stalled { .. } if release.record.revision > 0 => {
                self.await_dependencies(release).await.err().unwrap_or(phase)
            }
            phase => phase,
        }
    }

    /// What is wrong with the dependencies of a release, told though it runs. From now on, nothing else is followed.
    pub(crate) fn with_dependency_warning(&self, phase: Phase) -> Phase {
        if !phase.is_well() {
            return phase;
        }
        match self.sound_needs() {
            Ok(_) => {
                self.follow(BTreeSet::new());
                phase
            }
            Err(flaw) => flaw,
        }
    }

    /// What the release depends on, unless something is wrong with that.
    fn sound_needs(&self) -> Result<Vec<ReleaseDependency>, Phase> {
        let needs = needs(self.scope.unit, &self.scope.written)?;
        if needs.is_empty() {
            return Ok(needs);
        }
        let snapshot = self.scope.context.discovery.snapshot();
        self.may_know(&needs, &snapshot)?;
        // What is decorated doesn't wait for what is attached to it.
        let is_waited_for = self.scope.written.decorator.is_none();
        if let Some(cycle) = self
            .scope
            .context
            .cycle(self.scope.unit, &self.scope.written)
            .filter(|_| is_waited_for)
        {
            let told = depends_on::tell(&cycle);
            // Whichever of them changes may end it.
            self.follow(cycle.into_iter().skip(1).collect());
            let message = format!("releases depend on each other in a circle: {told}");
            return Err(Phase::stalled(Reason::DependencyCycle, message));
        }
        Ok(needs)
    }

    /// Whether what its author wrote can be judged, and whether he may know of it: a condition tells of what it is about, a
    /// bit at a time.
    fn may_know(&self, needs: &[ReleaseDependency], snapshot: &Snapshot) -> Result<(), Phase> {
        for need in needs.iter().filter(|need| need.is_own) {
            if need.group_kind == GroupKind::new("", "Secret") {
                let place = &need.place;
                let message = format!("{place}: Secrets can be named in `dependsOn` of the watch only");
                return Err(Phase::stalled(Reason::Refused, message));
            }
            if let Some(text) = &need.ready_when {
                let compile = || Expression::compile(text);
                let compiled = match Expression::is_compiled(text) {
                    true => compile(),
                    false => off_worker(compile),
                };
                compiled.map_err(|error| ValuesError::Source(format!("{}: readyWhen: {error}", need.place)))?;
            }
            let Some(key) = need.key(snapshot) else { continue };
            let home = values::release_namespace(self.scope.unit, &self.scope.written)?;
            input_digest::may_look_up(self.scope.unit, &self.scope.written, &home, snapshot, &key)
                .map_err(|refused| Phase::stalled(Reason::Refused, format!("{}: {refused}", need.place)))?;
        }
        Ok(())
    }

    fn follow(&self, targets: BTreeSet<Dependency>) {
        self.scope.context.follow_awaited(&self.scope.owner.set, targets);
    }

    /// The phase of a release while something that it depends on is not ready.
    async fn await_dependencies(&self, release: &mut Release) -> Result<(), Phase> {
        let needs = self.sound_needs()?;
        let snapshot = self.scope.context.discovery.snapshot();
        // Before they are looked at, so that no change is missed.
        self.follow(needs.iter().map(|need| need.target(&snapshot)).collect());
        let mut verdicts = DependencyVerdicts::new();
        let mut unready = Vec::new();
        for need in &needs {
            let Some(key) = need.key(&snapshot) else {
                let served = snapshot.has_answered(&need.group_kind.group);
                let why = served
                    .err()
                    .map(|error| format!("is of a kind that is not known: {error}"));
                unready.push(need.told(why.as_deref().unwrap_or("is of a kind that is not served (yet)")));
                continue;
            };
            let (version, why) = self.look_at(release, need, &key, &snapshot).await?;
            unready.extend(why.as_deref().map(|why| need.told(why)));
            verdicts.insert((key, need.ready_when.clone()), (version, why));
        }
        release.verdicts = verdicts;
        match unready.is_empty() {
            true => Ok(()),
            false => Err(Phase::waiting(
                Reason::DependencyNotReady,
                format!("waiting for what it depends on: {}", list(unready)),
            )),
        }
    }

    /// The version of an object, and why it isn't ready: from memory where its watch shows that it is as it was.
    async fn look_at(
        &self,
        release: &Release,
        need: &ReleaseDependency,
        key: &LookupKey,
        snapshot: &Snapshot,
    ) -> Result<(String, Option<String>), Phase> {
        let context = self.scope.context;
        let now = context.dependencies().version(&lookup::dependency(snapshot, key));
        let known = release.verdicts.get(&(key.clone(), need.ready_when.clone()));
        if let Some(known) = known.filter(|(version, _)| now.as_ref() == Some(version)) {
            return Ok(known.clone());
        }
        let keys = std::slice::from_ref(key);
        let found = lookup::fetch_all(&context.client, snapshot, keys, &context.lookups).await;
        let found = found.map_err(|(_, error)| {
            let message = format!("{}: {}: {error}", need.place, lookup::describe(key));
            match error.is_permanent() {
                true => Phase::stalled(Reason::LookupFailed, message),
                false => Phase::failed(Reason::LookupFailed, message),
            }
        })?;
        let object = found.into_iter().next().unwrap_or_default();
        let chart = self.scope.unit.renderer.as_ref().ok().map(|renderer| renderer.chart());
        secret_values::learn_object(&release.secrets, &ChartText::of(chart), &object);
        let version = dependencies::version(&object);
        let condition = need.ready_when.clone();
        let judge = move |_| depends_on::unready(&object, condition.as_deref());
        match context.evaluate(&self.scope.owner.set, judge).await {
            Ok(why) => Ok((version, why)),
            Err(lost) => {
                let why = need.told(&format!("can't be judged: {lost}"));
                Err(Phase::failed(Reason::DependencyNotReady, why))
            }
        }
    }
}

impl Context {
    /// The circle of dependencies that a custom resource is in, as far as this process knows the others.
    fn cycle(&self, unit: &Unit, resource: &CustomResource) -> Option<Vec<Dependency>> {
        let snapshot = self.discovery.snapshot();
        let start = as_dependency(unit, &resource.key);
        depends_on::cycle(&start, |at| self.needs_of(at, &snapshot))
    }
}
