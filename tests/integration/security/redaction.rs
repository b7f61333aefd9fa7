//! Secrets appear in no log, Event, status or metric, neither plain nor in base64, after any error.

use anyhow::{Context, Result, ensure};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::world::collector::Collector;
use crate::world::fields::{ensure_contains, text};
use crate::world::operator::{Launch, METERED, Operator, PANIC};
use crate::world::{World, member_rule};

const MARK: &str = "[redacted]";

/// A release, its operator, and what must not be seen of them.
struct RedactionStory {
    world: World,
    operator: Operator,
    collector: Collector,
    secrets: Vec<String>,
}

impl RedactionStory {
    fn begin(name: &str, encoder: &str) -> Result<Self> {
        let world = World::of_chart(name, "tells")?;
        world.grant("secrets", &[member_rule("", "secrets")])?;
        let outside = "Outside!\"quoted\"-6d1f";
        world.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "outside"}, "stringData": {"token": outside},
        }))?;
        let collector = Collector::start()?;
        let launch = Launch {
            arguments: &[
                &format!("--zap-encoder={encoder}"),
                &format!("--otlp-endpoint={}", collector.endpoint),
            ],
            environment: &[("OTEL_BSP_SCHEDULE_DELAY", "100")],
            ..METERED
        };
        let operator = world.launch(&launch)?;
        operator.await_log("watching")?;
        let mut secrets = [outside, "Pass/word<&>9c", "Hook%word#77aa"]
            .map(str::to_owned)
            .to_vec();
        world.install("a", json!({"password": secrets[1], "hooked": secrets[2]}))?;
        let random = world.expect("configmap", "a-config")?["data"]["random"].clone();
        secrets.push(random.as_str().context("no random result")?.to_owned());
        Ok(RedactionStory {
            world,
            operator,
            collector,
            secrets,
        })
    }

    /// Causes an error that all channels report without the secrets.
    fn fails(&self, mode: &str, reason: &str) -> Result<()> {
        let before = self.operator.log().len();
        self.world.edit("a", json!({"mode": mode}))?;
        self.world.await_stalled("a", reason, &[MARK])?;
        self.world.await_event("a", reason, &[MARK])?;
        self.world.await_quiet(&self.operator)?;
        ensure_contains(&self.operator.log()[before..], &[MARK])?;
        self.is_silent()
    }

    /// Looks through everything that the operator emits.
    fn is_silent(&self) -> Result<()> {
        let widget = self.world.live("a")?;
        let events = self.world.list("events", "")?;
        let traces = self.collector.requests();
        ensure!(!traces.is_empty(), "no traces");
        let traces: Vec<u8> = traces.iter().flat_map(|request| request.body.to_vec()).collect();
        let outlets = [
            ("the log", self.operator.log()),
            ("the status", texts(&widget["status"])),
            ("the metadata", texts(&widget["metadata"]["annotations"])),
            ("the Events", events.iter().map(texts).collect()),
            ("the metrics", self.operator.metrics()?),
            ("the traces", String::from_utf8_lossy(&traces).into_owned()),
        ];
        for secret in &self.secrets {
            let quoted = format!("{secret:?}");
            let user = BASE64.encode(format!("user:{secret}").as_bytes());
            // What stands before it changes no digit from the second on.
            let forms = [
                secret.clone(),
                quoted.trim_matches('"').to_owned(),
                BASE64.encode(secret.as_bytes()),
                user[8..user.len() - 4].to_owned(),
                // The beginning, where a text was cut.
                secret[..8].to_owned(),
            ];
            for (outlet, text) in &outlets {
                for form in &forms {
                    ensure!(!text.contains(form), "{outlet} shows {form}:\n{text}");
                }
            }
        }
        Ok(())
    }
}

/// Every text in a value, unescaped.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| format!("{key}\n{}", texts(value));
            fields.iter().map(field).collect()
        }
        _ => String::new(),
    }
}

#[test]
fn errors_are_redacted() -> Result<()> {
    let describe_failure = RedactionStory::begin("redaction-json", "json")?;
    describe_failure.is_silent()?;
    let widget = describe_failure.world.live("a")?;
    // NOTES.txt, in the status and in the condition that is cut after the first kilobyte, and the name of a lookup.
    let notes = text(&widget["status"]["notes"]);
    ensure!(notes.matches(MARK).count() >= 6, "{notes}");
    let lookups = &widget["status"]["release"]["lookups"];
    ensure!(lookups.to_string().contains(MARK), "{lookups}");

    for mode in ["fail", "required", "function"] {
        describe_failure.fails(mode, "RenderFailed").context(mode)?;
    }
    for mode in ["label", "address", "field", "data"] {
        describe_failure.fails(mode, "ObjectInvalid").context(mode)?;
    }
    // These name a place and no value, or begin to: their text is no secret.
    for mode in ["head", "metadata"] {
        describe_failure.world.edit("a", json!({"mode": mode}))?;
        describe_failure.world.await_condition("a", "Ready", "False")?;
        describe_failure.world.await_quiet(&describe_failure.operator)?;
        describe_failure.is_silent()?;
    }
    // The schema quotes what it refuses.
    describe_failure.world.update("a", json!({"mode": "none"}))?;
    describe_failure
        .world
        .edit("a", json!({"checked": describe_failure.secrets[1]}))?;
    describe_failure.world.await_stalled("a", "ValuesInvalid", &[MARK])?;
    describe_failure.is_silent()?;
    describe_failure.world.update("a", json!({"checked": ""}))?;

    // One that was looked up, and is another one now.
    let other = "AnotherOne+6d1f";
    let token = json!({"stringData": {"token": other}});
    describe_failure.world.patch("secret", "outside", &token)?;
    describe_failure.world.edit("a", json!({"mode": "fail"}))?;
    let message = describe_failure.world.await_stalled("a", "RenderFailed", &[])?;
    ensure!(message.contains(MARK) && !message.contains(other), "{message}");
    describe_failure.world.delete("a")?;
    let log = describe_failure.operator.log();
    ensure!(!log.contains(other) && !log.contains(&BASE64.encode(other.as_bytes())));
    Ok(())
}

#[test]
fn console_logs_are_redacted() -> Result<()> {
    let describe_failure = RedactionStory::begin("redaction-console", "console")?;
    describe_failure.fails("fail", "RenderFailed")?;
    describe_failure.fails("label", "ObjectInvalid")?;
    describe_failure.operator.terminate()?;

    // The next process knows none of it, and learns it before it reports it.
    let operator = describe_failure.world.launch(&METERED)?;
    operator.await_log("watching")?;
    // It renders what was refused once more; what a hook holds is known from a render alone.
    describe_failure.world.await_quiet(&operator)?;
    let describe_failure = RedactionStory {
        operator,
        ..describe_failure
    };
    describe_failure.fails("required", "RenderFailed")?;
    describe_failure.fails("address", "ObjectInvalid")?;

    // However often it fails, and though the next process never rendered it. (What a hook holds is in no object.)
    let shown = json!({"mode": "function", "password": describe_failure.secrets[1]});
    for turn in 0..10 {
        let mut spec = shown.clone();
        spec["turn"] = turn.into();
        describe_failure.world.edit("a", spec)?;
        describe_failure.world.await_stalled("a", "RenderFailed", &[])?;
    }
    describe_failure.is_silent()?;
    describe_failure.operator.terminate()?;
    let operator = describe_failure.world.launch(&METERED)?;
    operator.await_log("watching")?;
    let describe_failure = RedactionStory {
        operator,
        ..describe_failure
    };
    describe_failure.world.edit("a", json!({"turn": 10}))?;
    describe_failure.world.await_stalled("a", "RenderFailed", &[MARK])?;
    describe_failure.world.await_quiet(&describe_failure.operator)?;
    describe_failure.is_silent()
}

/// A panic message may quote its input, in a reconcile or in a render.
#[test]
fn a_panic_message_is_redacted() -> Result<()> {
    let mut describe_failure = RedactionStory::begin("redaction-panic", "json")?;
    for (at, color) in [("a", "red"), ("a/render", "green")] {
        describe_failure.operator.terminate()?;
        describe_failure.operator = describe_failure.world.launch(&Launch::with(&[(PANIC, at)]).metered())?;
        describe_failure.operator.await_log("watching")?;
        describe_failure.world.edit("a", json!({"color": color}))?;
        let ready = describe_failure.world.await_condition("a", "Ready", "False")?;
        ensure!(ready["reason"] == "Panicked", "{at}: {ready}");
        describe_failure.world.await_event("a", "Panicked", &[])?;
        describe_failure.world.await_quiet(&describe_failure.operator)?;
        let log = describe_failure.operator.log();
        let panics: Vec<&str> = log.lines().filter(|line| line.contains(PANIC)).collect();
        let is_marked = panics.iter().all(|line| line.contains(MARK));
        ensure!(!panics.is_empty() && is_marked, "{at}: {panics:?}");
        describe_failure.is_silent().with_context(|| at.to_owned())?;
    }
    Ok(())
}

/// The API server quotes what it refuses, and a Secret may hold numbers, though it may not.
#[test]
fn a_number_in_a_secret_is_redacted() -> Result<()> {
    let world = World::of_chart("redaction-number", "numbers")?.granted("", "secrets")?;
    let operator = world.start()?;
    world.apply_widget("a", json!({"pw": 7_391_528_460_u64}))?;
    world.await_stalled("a", "ObjectInvalid", &[MARK, ".stringData.pw"])?;
    world.await_event("a", "ObjectInvalid", &[])?;
    world.await_quiet(&operator)?;
    let widget = world.live("a")?;
    let events = format!("{:?}", world.events("a")?);
    for text in [widget["status"].to_string(), events, operator.log()] {
        ensure!(!text.contains("739152846") && !text.contains("7.3915"), "{text}");
    }
    Ok(())
}
