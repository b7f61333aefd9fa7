//! One operator process behind one proxy, in a corner of the control plane of its own.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::Value;

use crate::faults::call::ApiCall;
use crate::faults::fault::{FaultPlan, Faults};
use crate::real_server::proxy;
use crate::real_server::release::{claims_ready, holds};
use crate::real_server::scenario::Scenario;
use crate::real_server::variant::ReleaseVariant;
use crate::world::World;
use crate::world::fields::condition;
use crate::world::helm_releases;
use crate::world::operator::{Launch, Operator};

/// How long anything may take once nothing goes wrong any more: a retry waits up to some seconds, and the machine may
/// be busy.
const RECOVERY_TIME: Duration = Duration::from_secs(60);

pub struct TortureLane {
    pub world: World,
    pub faults: Arc<Faults>,
    admin: Client,
    pub variant: ReleaseVariant,
    /// There is a release besides those that the cases are about.
    pub has_resident: bool,
    /// Of the operators that are started from now on.
    pub environment: Vec<(&'static str, &'static str)>,
    operator: Option<Operator>,
    port: u16,
    user: String,
}

/// Kinds that the scenarios look at, with their groups.
const KINDS: [(&str, &str); 4] = [
    ("", "ConfigMap"),
    ("", "Secret"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("apps", "Deployment"),
];

impl TortureLane {
    /// A world of this name with a proxy, for releases of a variant and with further keys of the watch, and the operator
    /// started behind it.
    pub async fn new(name: &str, variant: ReleaseVariant, keys: &[&str]) -> Result<Self> {
        let world = tokio::task::block_in_place(|| World::new(name))?;
        variant.set_up(&world)?;
        let world = world.watch_key("allow: {kinds: [PriorityClass.scheduling.k8s.io]}");
        let world = keys.iter().fold(world, |world, key| world.watch_key(key));
        // With those of a takeover.
        helm_releases::grant(&world)?;
        world.write_watches()?;
        let user = format!("system:serviceaccount:{name}:operator-0");
        let group = format!("{name}:operators");
        let kubeconfig = world.control_plane.kubeconfig_for(&user, &[&group])?;
        let faults = Faults::new(proxy::client(&kubeconfig).await?);
        let port = proxy::serve(faults.clone()).await?;
        let admin = proxy::client(world.control_plane.kubeconfig()).await?;
        let mut lane = TortureLane {
            world,
            faults,
            admin,
            variant,
            has_resident: false,
            environment: Vec::new(),
            operator: None,
            port,
            user,
        };
        lane.start()?;
        Ok(lane)
    }

    /// Starts the operator, in the place of one that was killed.
    pub fn start(&mut self) -> Result<()> {
        self.stop()?;
        self.faults.revive();
        let kubeconfig = self.world.dir.path().join("proxy.kubeconfig");
        fs::write(&kubeconfig, proxy::kubeconfig(self.port))?;
        let launch = Launch {
            arguments: &["--leader-elect=false"],
            ..Launch::with(&self.environment)
        };
        self.operator = Some(self.world.launch_as(&self.user, &kubeconfig, &launch)?);
        Ok(())
    }

    /// SIGKILL.
    pub fn stop(&mut self) -> Result<()> {
        match self.operator.take() {
            Some(operator) => operator.kill(),
            None => Ok(()),
        }
    }

    /// The end of the operator's log.
    fn log(&self) -> String {
        let log = self.operator.as_ref().map(Operator::log).unwrap_or_default();
        let skip = log.lines().count().saturating_sub(30);
        log.lines().skip(skip).collect::<Vec<_>>().join("\n")
    }

    /// From now on this goes wrong with calls about one release.
    pub fn arm(&self, release: &str, plan: FaultPlan) {
        let (namespace, release) = (self.world.name.clone(), release.to_owned());
        let counts = plan.counts;
        self.faults.arm(FaultPlan {
            counts: Box::new(move |call| counts(call) && is_about(call, &namespace, &release)),
            ..plan
        });
    }

    fn api(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        match kind {
            "PriorityClass" => Api::all_with(self.admin.clone(), &resource),
            _ => Api::namespaced_with(self.admin.clone(), &self.world.name, &resource),
        }
    }

    pub fn of_kind(&self, kind: &str) -> Api<DynamicObject> {
        let (group, kind) = KINDS.into_iter().find(|row| row.1 == kind).unwrap_or(KINDS[0]);
        self.api(group, kind)
    }

    pub fn jobs(&self) -> Api<DynamicObject> {
        self.api("batch", "Job")
    }

    pub fn maps(&self) -> Api<DynamicObject> {
        self.of_kind("ConfigMap")
    }

    pub fn widgets(&self) -> Api<DynamicObject> {
        self.api(&self.world.group(), "Widget")
    }

    pub async fn widget(&self, name: &str) -> Result<Option<Value>> {
        let found = self.widgets().get_opt(name).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }

    /// Creates a widget, or changes its spec to this.
    pub async fn put(&self, name: &str, spec: &Value) -> Result<()> {
        let widget = self.world.widget(name, self.variant.with_variant(spec));
        let parameters = PatchParams::apply("torture").force();
        self.widgets().patch(name, &parameters, &Patch::Apply(&widget)).await?;
        Ok(())
    }

    pub async fn delete(&self, name: &str) -> Result<()> {
        self.widgets().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// How long one step of a release may take: hundreds of applies take their time on a busy machine.
    fn recovery_time(&self) -> Duration {
        match self.variant {
            ReleaseVariant::Long => RECOVERY_TIME * 5,
            _ => RECOVERY_TIME,
        }
    }

    /// Waits until a release is what its spec says.
    pub async fn await_release(&self, name: &str, spec: &Value) -> Result<()> {
        let check = async || holds(self, name, spec).await.map(drop);
        self.until(&format!("{name} is as it is to be"), check).await
    }

    /// Waits for a custom resource that says of its generation that it is ready.
    pub async fn await_ready(&self, name: &str) -> Result<Value> {
        self.until(&format!("{name} is ready"), async || {
            let widget = self.widget(name).await?.context("gone")?;
            ensure!(claims_ready(&widget), "{}", widget["status"]);
            Ok(widget)
        })
        .await
    }

    /// Waits until the fault that is armed has hit.
    pub async fn await_hit(&self) -> Result<()> {
        let has_hit = async || self.faults.has_hit().then_some(()).context("it does not");
        self.until("it goes wrong", has_hit).await
    }

    /// A condition of a custom resource; `null` if there is none.
    pub async fn condition(&self, name: &str, kind: &str) -> Result<Value> {
        let widget = self.widget(name).await?.context("gone")?;
        Ok(condition(&widget, kind))
    }

    /// Waits until a condition of a custom resource has this reason; gives the condition.
    pub async fn await_reason(&self, name: &str, kind: &str, reason: &str) -> Result<Value> {
        self.until(&format!("{name} says {reason}"), async || {
            let found = self.condition(name, kind).await?;
            ensure!(found["reason"] == reason, "{found}");
            Ok(found)
        })
        .await
    }

    /// Installs a release that stays, from which each operator learns what the kind's schema keeps.
    pub async fn settle_resident(&mut self) -> Result<()> {
        let spec = Scenario::Install.spec();
        self.put("resident", &spec).await?;
        self.await_release("resident", &spec).await?;
        self.has_resident = true;
        Ok(())
    }

    /// Deletes a release that has shown what it had to, and waits until it is gone: lists, and what a restart reads,
    /// stay as short as they were.
    pub async fn clear(&self, name: &str) -> Result<()> {
        if self.widget(name).await?.is_some() {
            self.delete(name).await?;
        }
        self.until(&format!("{name} goes"), async || {
            let left = self.widget(name).await?;
            ensure!(left.is_none(), "{}", left.unwrap_or_default()["status"]);
            Ok(())
        })
        .await
    }

    /// Every live object whose name is that of a member of this release, from any owner.
    pub async fn live(&self, name: &str) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for (_, kind) in KINDS {
            let prefix = match kind {
                "PriorityClass" => format!("{}-{name}", self.world.name),
                _ => format!("{name}-"),
            };
            let objects = self.of_kind(kind).list(&ListParams::default()).await?;
            for object in objects {
                if !object.name_any().starts_with(&prefix) {
                    continue;
                }
                let mut object = serde_json::to_value(object)?;
                object["kind"] = kind.into();
                found.push(object);
            }
        }
        Ok(found)
    }

    /// Waits until a check passes; its last complaint is the error, with the end of the operator's log.
    pub async fn until<T>(&self, what: &str, mut check: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        let within = self.recovery_time();
        let deadline = Instant::now() + within;
        loop {
            match check().await {
                Ok(value) => return Ok(value),
                Err(error) if Instant::now() > deadline => {
                    let log = self.log();
                    return Err(error).with_context(|| format!("{what}: not within {within:?}; log:\n{log}"));
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(40)).await,
            }
        }
    }
}

/// Whether a call is about a release: its custom resource, one of its members or an event about it.
fn is_about(call: &ApiCall, namespace: &str, release: &str) -> bool {
    let Some(target) = call.target() else { return false };
    if target.resource == "leases" {
        return false;
    }
    let names_it = |name: &str| {
        name == release
            || name == format!("{namespace}-{release}")
            || name.starts_with(&format!("{release}-"))
            || name.starts_with(&format!("sh.helm.release.v1.{release}."))
            // The operator's own Secrets are named after UIDs, and only one release is at work at a time.
            || name.starts_with("chartwright-kept-")
            || name.starts_with("chartwright-record-")
    };
    if !target.name.is_empty() && target.resource != "events" {
        return names_it(&target.name);
    }
    if !call.is_write() {
        // Lists of one release's members; watches and their lists serve all.
        let selector = call.parameter("labelSelector");
        return selector.is_some_and(|selector| selector.contains("part-of"));
    }
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    // An event that is repeated is patched by its own name, which begins with that of its object.
    let own = target.name.split('.').next().is_some_and(|name| name == release);
    let named = body["regarding"]["name"].as_str().or(body["metadata"]["name"].as_str());
    own || named.is_some_and(names_it)
}

/// Runs a test on a runtime of its own, whose clock is the real one. What it leaves under way ends with it.
pub fn in_real_time<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Runtime::new()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}
