//! Values that ask for all the time and memory there is: each ends with the limit that it went over, nothing else waits for
//! it, and the operator stays small.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::world::operator::METERED;
use crate::world::{SOON, World};

const READY_WHEN: &str = "chartwright.dev/ready-when";
/// What the operator may take at most, in bytes.
const PEAK: u64 = 300 << 20;

/// A value that the chart hands to `tpl`.
fn template(text: &str) -> Value {
    json!({"extraDeploy": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"x": text}}]})
}

/// So many ConfigMaps of a release, each with a condition of its own.
fn conditions(count: usize, condition: impl Fn(usize) -> String) -> Value {
    let map = |number: usize| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("{{{{ .Release.Name }}}}-{number}"), "annotations": {READY_WHEN: condition(number)},
            },
            "data": {"text": "x"},
        })
    };
    json!({"extraDeploy": (0..count).map(map).collect::<Vec<_>>()})
}

#[test]
fn no_value_exceeds_the_memory_budget() -> Result<()> {
    let world = World::new("hostile-memory")?;
    let operator = world.launch(&METERED)?;
    let many = |function: &str| {
        format!(
            "{{{{ $s := repeat 400000 \"a,\" }}}}{{{{ $d := dict }}}}{{{{ range until 1000 }}}}{{{{ $_ := set $d (toString .) ({function}) }}}}{{{{ end }}}}"
        )
    };
    let copies = "{{ $d := dict }}{{ range until 20000 }}{{ $_ := set $d (toString .) (dict \"a\" (list .)) }}{{ end }}\
                  {{ $l := list }}{{ range until 100 }}{{ $l = append $l (deepCopy $d) }}{{ end }}";
    for (name, template_text) in [
        ("split-list", many("splitList \",\" $s")),
        ("split", many("split \",\" $s")),
        ("regex", many("regexFindAll \"a\" $s -1")),
        ("until", many("until 400000")),
        ("from-yaml", many("fromYamlArray (printf \"[%s0]\" $s)")),
        ("deep-copy", copies.to_owned()),
        (
            "text",
            "{{ $s := \"0123456789\" }}{{ range until 40 }}{{ $s = print $s $s }}{{ end }}".to_owned(),
        ),
        (
            "output",
            "{{ $s := repeat 1000000 \"a\" }}{{ range until 1000 }}{{ $s }}{{ end }}".to_owned(),
        ),
    ] {
        world.apply_widget(name, template(&template_text))?;
        let message = world.await_stalled(name, "RenderFailed", &["the limit of"])?;
        ensure!(message.contains("MiB (--memory-limit"), "{name}: {message}");
        let peak = operator.peak_memory()?;
        ensure!(peak < PEAK, "{name}: {} MiB", peak >> 20);
    }
    world.install("a", json!({})).map(drop)
}

#[test]
fn slow_templates_delay_no_other_release() -> Result<()> {
    let world = World::new("hostile-time")?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"color": "blue"}))?;
    let patterns =
        "{{ range until 100000 }}{{ $_ := regexMatch (printf \"(a|b%d|[c-f]x){1,40}x\" .) \"abab\" }}{{ end }}";
    let loops = "{{ range until 100000 }}{{ range until 100000 }}{{ end }}{{ end }}";
    let hostile: Vec<String> = (0..6).map(|number| format!("h{number}")).collect();
    for (number, name) in hostile.iter().enumerate() {
        world.apply_widget(name, template(if number % 2 == 0 { patterns } else { loops }))?;
    }
    for color in ["red", "green"] {
        world.update("a", json!({"color": color}))?;
    }
    world.install("b", json!({}))?;
    // Not all of them had their turn: the others did not wait for that.
    let ended = |name: &String| -> Result<bool> {
        Ok(!world.expect(&world.widgets(), name)?["status"]["conditions"].is_null())
    };
    let ended = hostile.iter().map(ended).collect::<Result<Vec<_>>>()?;
    ensure!(ended.contains(&false), "they took no time: the test shows nothing");
    let peak = operator.peak_memory()?;
    ensure!(peak < PEAK, "{} MiB", peak >> 20);
    Ok(())
}

#[test]
fn slow_conditions_are_reported_and_delay_no_other_release() -> Result<()> {
    let world = World::new("hostile-conditions")?;
    let operator = world.launch(&METERED)?;
    world.install("a", json!({"color": "blue"}))?;
    // Each has a pattern of its own, and goes through all members of the release for each of them.
    let costly = |number: usize| {
        let pattern = format!("^(a|b|h{number}|.*)+$");
        format!("members.ConfigMap.all(a, members.ConfigMap.all(b, a != '' && b.matches('{pattern}')))")
    };
    let hostile: Vec<String> = (0..3).map(|number| format!("h{number}")).collect();
    for name in &hostile {
        world.apply_widget(name, conditions(100, costly))?;
    }
    for color in ["red", "green"] {
        world.update("a", json!({"color": color}))?;
    }
    let text = "the conditions of this release are over their budget of 1 s of processor time";
    for name in &hostile {
        let is_reported = |widget: &Value| widget["status"].to_string().contains(text);
        eventually("the budget is reported", SOON, || {
            Ok(is_reported(&world.expect(&world.widgets(), name)?).then_some(()))
        })
        .with_context(|| world.describe_failure(name))?;
    }
    world.update("a", json!({"color": "blue"}))?;
    world.apply_widget(
        "long",
        conditions(40, |number| format!("true || '{}' == '{number}'", "x".repeat(4000))),
    )?;
    world.await_stalled("long", "ManifestInvalid", &["over the limit of 131072 bytes together"])?;
    let peak = operator.peak_memory()?;
    ensure!(peak < PEAK, "{} MiB", peak >> 20);
    Ok(())
}
