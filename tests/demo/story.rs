//! What the demo shows, in its order.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cost::{Act, moment};
use crate::playground::{Interrupted, OPERATOR, Playground, RESOURCE};
use crate::terminal::{Style, Terminal, duration};
use crate::tree::Node;

/// The custom resource of `config/samples`.
const SAMPLE: &str = "memcached-sample";

/// How long the operator is watched doing nothing.
const QUIET: Duration = Duration::from_secs(5);

/// Tells all of it. With `once` the custom resource is deleted at the end; else this returns when the demo is told to
/// end.
///
/// # Errors
/// Something doesn't happen that should, standard output is closed, or the demo was told to end before its end.
pub fn tell(terminal: &Terminal, play: &mut Playground, once: bool) -> Result<()> {
    let mut acts = Vec::new();
    let resource = install(terminal, play, &mut acts)?;
    let tree = Node::load(play.kubectl(), &resource)?;
    terminal.heading("2. What came of it, and how it is")?;
    tree.draw(terminal)?;
    let tree = edit(terminal, play, &tree, &mut acts)?;
    repair(terminal, play, &tree, &mut acts)?;
    status(terminal, play)?;
    cost(terminal, play, acts)?;
    if once {
        clean_up(terminal, play)
    } else {
        stay_up(terminal, play)
    }
}

fn install(terminal: &Terminal, play: &mut Playground, acts: &mut Vec<Act>) -> Result<Value> {
    terminal.heading("1. A chart, an entry in watches.yaml, a custom resource")?;
    terminal.text("charts/memcached is a Helm chart like any other. An entry in watches.yaml binds a kind to it:")?;
    terminal.gap()?;
    terminal.quote(&file("watches.yaml")?)?;
    terminal.gap()?;
    terminal.text("The spec of a custom resource of that kind is the chart's values:")?;
    terminal.gap()?;
    terminal.quote(&file("config/samples/cache_v1alpha1_memcached.yaml")?)?;
    terminal.gap()?;
    terminal.command(&["kubectl apply -k config/samples"])?;

    let mut act = Act::begin(play, "the installation")?;
    let step = terminal.step("Waiting until the custom resource is Ready")?;
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/samples");
    play.kubectl().run([
        "apply".as_ref(),
        "--server-side".as_ref(),
        "-k".as_ref(),
        samples.as_os_str(),
    ])?;
    let resource = play.ready(SAMPLE)?;
    step.done("Ready: every object is there, and healthy")?;
    act.end(play)?;
    acts.push(act);

    for kind in ["memcached", "pods"] {
        terminal.gap()?;
        terminal.command(&[&format!("kubectl get {kind}")])?;
        terminal.quote(&play.kubectl().run(["get", kind])?)?;
    }
    Ok(resource)
}

fn edit(terminal: &Terminal, play: &mut Playground, before: &Node, acts: &mut Vec<Act>) -> Result<Node> {
    terminal.heading("3. An edit: two servers instead of three, and no list of servers")?;
    let spec = json!({"spec": {"size": 2, "serverList": {"enabled": false}}});
    let patch = format!("  -p '{spec}'");
    terminal.command(&[&format!("kubectl patch memcached {SAMPLE} --type merge \\"), &patch])?;

    let mut act = Act::begin(play, "the edit")?;
    let step = terminal.step("Waiting until it is Ready again")?;
    play.kubectl().patch(RESOURCE, SAMPLE, &spec)?;
    let resource = play.ready(SAMPLE)?;
    let tree = play.until("the third pod and the ConfigMap are gone", |play| {
        let tree = Node::load(play.kubectl(), &resource)?;
        Ok((tree.count() + 2 == before.count()).then_some(tree))
    })?;
    step.done("Ready again; the ConfigMap that the chart no longer renders is pruned")?;
    act.end(play)?;

    terminal.gap()?;
    tree.since(before).draw(terminal)?;
    terminal.gap()?;
    terminal.text("What the operator wrote, counted from the arrival of the edit at the API server:")?;
    let edited =
        |user: &str, verb: &str, resource: &str| user != OPERATOR && verb == "patch" && resource == "memcacheds";
    let all = act.all(play)?;
    let arrived = all
        .iter()
        .find(|request| edited(&request.user, &request.verb, &request.resource))
        .and_then(moment);
    act.timeline(terminal, arrived.context("the edit is not in the audit log")?)?;
    acts.push(act);
    Ok(tree)
}

fn repair(terminal: &Terminal, play: &mut Playground, tree: &Node, acts: &mut Vec<Act>) -> Result<()> {
    terminal.heading("4. A member is deleted by hand")?;
    let service = tree
        .children
        .iter()
        .find(|node| node.kind == "Service")
        .context("the release has no Service")?;
    let service = service.name.as_str();
    let uid = |object: Value| object["metadata"]["uid"].as_str().map(str::to_owned);
    let old = play.kubectl().get("service", service)?.and_then(uid);
    terminal.command(&[&format!("kubectl delete service {service}")])?;

    let mut act = Act::begin(play, "the deleted Service")?;
    let step = terminal.step("Waiting until it is back")?;
    play.kubectl().run(["delete", "service", service, "--wait=false"])?;
    play.until("the Service is back", |play| {
        let new = play.kubectl().get("service", service)?.and_then(uid);
        Ok((new.is_some() && new != old).then_some(()))
    })?;
    // The log may be a moment behind.
    let (deleted, restored) = play.until("deletion and apply are in the audit log", |play| {
        let all = act.all(play)?.resource("services").name(service);
        let find = |verb: &str, own: bool| {
            let is = |user: &str| (user == OPERATOR) == own;
            all.iter()
                .find(|request| request.verb == verb && is(&request.user) && request.status < 400)
                .and_then(moment)
        };
        Ok(find("delete", false).zip(find("patch", true)))
    })?;
    drop(step);
    let took = Duration::try_from(restored.duration_since(deleted)).unwrap_or_default();
    terminal.item(
        Style::Good,
        '✔',
        &format!(
            "Back again: {} after the deletion came the operator's apply, by a watch and not by a timer",
            duration(took)
        ),
    )?;
    play.ready(SAMPLE)?;
    act.end(play)?;
    acts.push(act);
    Ok(())
}

fn status(terminal: &Terminal, play: &mut Playground) -> Result<()> {
    terminal.heading("5. What the status says")?;
    terminal.command(&[&format!("kubectl describe memcached {SAMPLE}")])?;
    terminal.gap()?;
    let resource = play
        .kubectl()
        .get(RESOURCE, SAMPLE)?
        .context("the custom resource is gone")?;
    let status = &resource["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = status["conditions"].as_array().into_iter().flatten().map(|condition| {
        let message = text(&condition["message"]);
        let mut lines = message.lines();
        let first = lines.next().unwrap_or_default();
        let message = if lines.next().is_some() {
            format!("{first} …")
        } else {
            first.to_owned()
        };
        vec![
            text(&condition["type"]),
            text(&condition["status"]),
            text(&condition["reason"]),
            message,
        ]
    });
    terminal.table(&["CONDITION", "STATUS", "REASON", "MESSAGE"], &rows.collect::<Vec<_>>())?;
    terminal.gap()?;

    let release = &status["release"];
    let members = status["inventory"].as_array().map_or(0, Vec::len);
    let rows = [
        (
            "release",
            format!("{}, revision {}", text(&release["name"]), release["revision"]),
        ),
        (
            "chart",
            format!(
                "{} {}, app {}",
                text(&release["chart"]),
                text(&release["version"]),
                text(&release["appVersion"])
            ),
        ),
        (
            "inventory",
            format!("{members} members, each with two digests and never its content"),
        ),
        (
            "notes",
            format!(
                "{} lines: the chart's NOTES.txt, rendered",
                text(&status["notes"]).lines().count()
            ),
        ),
    ];
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(field, value)| vec![field.to_owned(), value])
        .collect();
    terminal.table(&["FIELD", "VALUE"], &rows)?;
    terminal.gap()?;

    let mut events = play.kubectl().list("events", "")?;
    events.retain(|event| event["involvedObject"]["uid"] == resource["metadata"]["uid"]);
    events.sort_by_key(moment_of_event);
    let last = events.iter().skip(events.len().saturating_sub(6)).map(|event| {
        let age = moment_of_event(event).and_then(|at| Duration::try_from(Timestamp::now().duration_since(at)).ok());
        let age = age.map(|age| format!("{} s", age.as_secs())).unwrap_or_default();
        vec![age, text(&event["reason"]), text(&event["message"])]
    });
    terminal.table(&["AGE", "EVENT", "MESSAGE"], &last.collect::<Vec<_>>())?;
    Ok(())
}

fn moment_of_event(event: &Value) -> Option<Timestamp> {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["eventTime"],
        &event["lastTimestamp"],
    ];
    times.into_iter().find_map(|time| time.as_str()?.parse().ok())
}

fn cost(terminal: &Terminal, play: &mut Playground, mut acts: Vec<Act>) -> Result<()> {
    terminal.heading("6. What it cost")?;
    let mut quiet = Act::begin(play, &format!("{} s in which nothing happened", QUIET.as_secs()))?;
    let step = terminal.step(&format!("Watching the operator do nothing for {} s", QUIET.as_secs()))?;
    play.stop().sleep(QUIET)?;
    drop(step);
    quiet.end(play)?;
    terminal.text("The operator's requests, from the API server's audit log (watches apart):")?;
    terminal.gap()?;
    acts.push(quiet);
    let rows: Vec<_> = acts.iter().map(Act::row).collect();
    terminal.table(&["READS", "WRITES", "FOR"], &rows)?;
    terminal.gap()?;
    match acts.last().map(Act::requests) {
        Some(requests) if !requests.is_empty() => {
            terminal.item(Style::Bad, '✘', "In the quiet seconds there should have been none:")?;
            terminal.quote(&requests.to_string())?;
        }
        _ => terminal.item(Style::Good, '✔', "A release that is as it should be costs no request")?,
    }
    Ok(())
}

fn clean_up(terminal: &Terminal, play: &mut Playground) -> Result<()> {
    terminal.heading("7. The custom resource goes, and everything with it")?;
    terminal.command(&[&format!("kubectl delete memcached {SAMPLE}")])?;
    let step = terminal.step("Waiting until nothing is left")?;
    let resource = play
        .kubectl()
        .get(RESOURCE, SAMPLE)?
        .context("the custom resource is gone already")?;
    let id = resource["metadata"]["labels"]["applyset.kubernetes.io/id"]
        .as_str()
        .context("it has no ApplySet ID")?;
    let members = format!("applyset.kubernetes.io/part-of={id}");
    let instance = format!("app.kubernetes.io/instance={SAMPLE}");
    play.kubectl().run(["delete", RESOURCE, SAMPLE, "--wait=false"])?;
    play.until("the custom resource is gone", |play| {
        Ok(play.kubectl().get(RESOURCE, SAMPLE)?.is_none().then_some(()))
    })?;
    // Every kind that there is, so that nothing hides in one that the release isn't known to have.
    let kinds = play.kubectl().run(["api-resources", "--verbs=list", "--output=name"])?;
    let kinds: Vec<&str> = kinds.lines().filter(|kind| !kind.starts_with("events")).collect();
    for selector in [&members, &instance] {
        play.until(&format!("no object is labelled {selector}"), |play| {
            let left = play
                .kubectl()
                .run(["get", &kinds.join(","), "-A", "-l", selector, "-o", "name"])?;
            ensure!(
                left.trim().is_empty(),
                "left are: {}",
                left.split_whitespace().collect::<Vec<_>>().join(", ")
            );
            Ok(Some(()))
        })?;
    }
    step.done(&format!(
        "Nothing is left: of {} kinds no object is labelled",
        kinds.len()
    ))?;
    for selector in [members, instance] {
        terminal.line(format!("    {selector}"))?;
    }
    terminal.gap()?;
    terminal.text("That was all; the operator and the control plane end now.")?;
    Ok(())
}

fn stay_up(terminal: &Terminal, play: &mut Playground) -> Result<()> {
    terminal.heading("7. Your turn")?;
    terminal.text("In another terminal:")?;
    terminal.gap()?;
    let kubeconfig = play.kubectl().kubeconfig().display();
    terminal.line(format!("  export KUBECONFIG={kubeconfig}{}", path_to_kubectl(play)))?;
    terminal.line(format!(
        "  kubectl patch memcached {SAMPLE} --type merge -p '{}'",
        json!({"spec": {"size": 5}})
    ))?;
    terminal.gap()?;
    terminal.text("It stays up until Ctrl-C. What the operator tells in Events shows up here:")?;
    terminal.gap()?;

    let mut command = play.kubectl().command();
    let columns = "custom-columns=NAME:.involvedObject.name,REASON:.reason,MESSAGE:.message";
    command.args([
        "get",
        "events",
        "--all-namespaces",
        "--watch-only",
        "--no-headers",
        "--output",
        columns,
    ]);
    command.args(["--field-selector", "involvedObject.kind=Memcached"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut watch = play.spawn(&mut command)?;
    let output = watch.output().context("kubectl has no output")?;
    let (sender, events) = mpsc::channel();
    // The end of the watch ends the thread as well.
    std::thread::spawn(move || {
        BufReader::new(output)
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| sender.send(line))
    });
    loop {
        match play.check() {
            // This is how it should end.
            Err(error) if error.is::<Interrupted>() => return Ok(()),
            outcome => outcome?,
        }
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(event) => {
                let event: Vec<&str> = event.split_whitespace().collect();
                terminal.item(Style::Accent, '●', &event.join(" "))?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Without the watch nothing is shown; the rest works.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// For those who have no kubectl of their own.
fn path_to_kubectl(play: &Playground) -> String {
    let command = play.kubectl().command();
    let binary = Path::new(command.get_program());
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).any(|folder| folder.join("kubectl").is_file());
    match binary.parent() {
        Some(folder) if !found => format!(" PATH=\"{}:$PATH\"", folder.display()),
        _ => String::new(),
    }
}

/// A file of the project, without its comments.
fn file(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    Ok(lines.join("\n"))
}
