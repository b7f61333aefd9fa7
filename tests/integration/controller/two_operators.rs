//! Two operators for the same watches at the same time, and no Lease that lets only one of them work.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::{AuditedRequests, eventually};
use crate::world::fields::{condition, versions};
use crate::world::operator::{Launch, Operator, UNELECTED};
use crate::world::{RequestsStart, SOON, World, member_rule};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

struct OperatorPair {
    world: World,
    operators: [Operator; 2],
}

impl OperatorPair {
    fn new(name: &str) -> Result<Self> {
        let world = World::new(name)?;
        world.add_template("password-only.yaml")?;
        world.grant("secrets", &[member_rule("", "secrets")])?;
        let launch = |replica| {
            let arguments = &["--leader-elect=false"];
            world.launch(&Launch {
                arguments,
                replica,
                ..UNELECTED
            })
        };
        let operators = [launch(0)?, launch(1)?];
        for operator in &operators {
            operator.await_log("watching")?;
        }
        Ok(OperatorPair { world, operators })
    }

    /// The requests of both, without watches.
    fn requests(&self, since: RequestsStart) -> Result<[AuditedRequests; 2]> {
        let [one, two] = &self.operators;
        Ok([self.world.requests(one, since)?, self.world.requests(two, since)?])
    }

    /// Waits until neither sends requests.
    fn rest(&self) -> Result<()> {
        eventually("both come to rest", SOON, || {
            let start = self.world.mark()?;
            std::thread::sleep(Duration::from_millis(1500));
            let [one, two] = self.requests(start)?;
            ensure!(one.is_empty() && two.is_empty(), "{one}and\n{two}");
            Ok(Some(()))
        })
    }

    /// Objects of this kind that were deleted since, by name: once for each request that was carried out.
    fn deleted(&self, since: RequestsStart, resource: &str) -> Result<Vec<String>> {
        let [one, two] = self.requests(since)?;
        let all = one.into_iter().chain(two);
        let deletes = all.filter(|request| request.verb == "delete" && request.resource == resource);
        let done = deletes.filter(|request| request.status == 200);
        let mut names: Vec<String> = done.map(|request| request.name).collect();
        names.sort();
        Ok(names)
    }

    fn passwords(&self) -> Result<Vec<Value>> {
        let of = |name: &&str| self.world.expect("secret", &format!("{name}-random"));
        NAMES[..3].iter().map(|name| Ok(of(name)?["data"].clone())).collect()
    }
}

#[test]
fn two_operators_on_the_same_releases_do_not_conflict() -> Result<()> {
    let pair = OperatorPair::new("replicas")?;
    let world = &pair.world;
    let spec = json!({"extra": ["one", "two"], "deployment": {"enabled": true}});
    world.install_all(&NAMES, |_| spec.clone())?;
    pair.rest()?;
    let passwords = pair.passwords()?;

    // An edit, in which one member goes.
    let start = world.mark()?;
    for name in &NAMES[..3] {
        world.edit(name, json!({"color": "red", "extra": ["two"]}))?;
    }
    for name in &NAMES[..3] {
        world.await_ready(name)?;
        world.await_gone("configmap", &format!("{name}-one"))?;
        let main = world.expect("configmap", &format!("{name}-main"))?;
        ensure!(main["data"]["color"] == "red", "{main}");
    }
    pair.rest()?;
    let pruned = pair.deleted(start, "configmaps")?;
    ensure!(pruned == ["a-one", "b-one", "c-one"], "{pruned:?}");
    for name in &NAMES[..3] {
        let widget = world.live(name)?;
        ensure!(widget["status"]["release"]["revision"] == 2, "{}", widget["status"]);
        ensure!(condition(&widget, "Ready")["status"] == "True");
    }
    ensure!(pair.passwords()? == passwords, "random results changed");

    // Others are drawn once, for both.
    let start = world.mark()?;
    world.run(["annotate", &world.widgets(), "a", "chartwright.dev/regenerate=now"])?;
    let is_another = |secret: &Value| secret["data"] != passwords[0];
    world.await_object("secret", "a-random", "has another password", is_another)?;
    pair.rest()?;
    let [one, two] = pair.requests(start)?;
    let kept = one.into_iter().chain(two).filter(|request| {
        let is_kept = request.name.starts_with("chartwright-kept-") && request.is_write();
        is_kept && request.status == 200
    });
    ensure!(kept.count() == 1, "both drew others");
    let passwords = pair.passwords()?;
    world.update("a", json!({"color": "green"}))?;
    pair.rest()?;
    ensure!(pair.passwords()? == passwords, "not what was kept");
    world.update("a", json!({"color": "red"}))?;

    // Drift is corrected.
    world.paint("a-main", "pink")?;
    world.kubectl.delete("configmap", "b-two")?;
    world.await_color("a-main", "red")?;
    world.await_there("configmap", "b-two")?;
    pair.rest()?;

    // A deletion.
    let start = world.mark()?;
    world.delete("d")?;
    world.await_gone("configmap", "d-main")?;
    world.await_gone("configmap", "d-two")?;
    world.await_gone("secret", "d-random")?;
    world.await_gone("deployment", "d")?;
    pair.rest()?;
    let gone = pair.deleted(start, "configmaps")?;
    ensure!(gone == ["d-main", "d-one", "d-two"], "{gone:?}");
    world.absent(&world.widgets(), ["d"])?;

    let before = versions(&world.labelled("configmaps,secrets,deployments")?);
    let start = world.mark()?;
    std::thread::sleep(Duration::from_secs(10));
    for requests in pair.requests(start)? {
        requests.none().context("they never leave it alone")?;
    }
    ensure!(versions(&world.labelled("configmaps,secrets,deployments")?) == before);
    Ok(())
}
