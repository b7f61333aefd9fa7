//! Charts and values that want more than a render may take: each ends with an error that names limit and line.

use std::time::Duration;

use crate::render::tests::render_with;
use crate::render::*;

#[test]
fn nothing_takes_more_than_it_may() {
    // Small enough that a test of a debug build ends soon; each is proportionate to the default.
    let limits = Limits {
        steps: 400_000,
        memory: 30 << 20,
        time: Duration::from_secs(60),
        ..Limits::default()
    };
    let mut wrong = Vec::new();
    let hostile = include_str!("hostile.txt")
        .lines()
        .filter(|line| !line.starts_with('#'));
    for (want, template) in hostile.filter_map(|line| line.split_once('\t')) {
        let started = std::time::Instant::now();
        let result = render_with(template, |input| input.limits = limits);
        let text = match result {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        let took = started.elapsed();
        let named = !text.contains(" limit of ") || text.contains("c/templates/t.yaml:1") || text.contains("gotpl:1");
        if !text.contains(want) || !named || took > Duration::from_secs(300) {
            let text: String = text.chars().take(400).collect();
            wrong.push(format!("{template}\n  want {want:?}\n  got  {text:?} in {took:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn to_find_primes_takes_steps_and_no_time() {
    // One key takes some hundred milliseconds; a look at the clock follows each.
    let time = Duration::from_millis(50);
    let keys = |count: usize, steps: u64| {
        let template = format!("{{{{ range until {count} }}}}{{{{ $x := genPrivateKey \"rsa\" }}}}{{{{ end }}}}");
        render_with(&template, |input| {
            input.limits = Limits {
                time,
                steps,
                ..Limits::default()
            };
        })
    };
    keys(2, 5_000_000).expect("the time for the keys isn't counted");
    let text = keys(3, 5_000_000)
        .expect_err("three keys take six million steps")
        .to_string();
    assert!(text.contains("the limit of 5000000 steps"), "{text}");
}

#[test]
fn a_large_chart_stays_far_below_every_limit() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../benches/charts/webstack");
    let renderer = Engine::new(Chart::load(&path).unwrap()).unwrap();
    let limits = Limits::default();
    let rendered = renderer.render(&ReleaseObject::install("r", "n"), serde_json::Value::Null);
    let used = rendered.unwrap().used;
    // More than nothing, so that the measure itself is checked.
    assert!(
        used.steps > 1_000 && used.depth > 3 && used.output > 10_000 && used.memory > 10_000,
        "{used:?}"
    );
    assert!(used.steps * 20 <= limits.steps, "{used:?}");
    assert!(used.depth * 20 <= limits.depth, "{used:?}");
    assert!(used.output * 20 <= limits.output, "{used:?}");
    assert!(used.memory * 20 <= limits.memory, "{used:?}");
    assert!(used.time * 20 <= limits.time, "{used:?}");
}
