//! What a render really takes: values and charts that want more memory than there is for a render end with an error that
//! names the limit, and the process never holds much more than that.
//!
//! A binary of its own, with one test, since its allocator counts for all threads.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "a test may fail loudly"
)]

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use helm_template::chart::{Chart, File};
use helm_template::render::{Engine, Input, Limits, ReleaseObject};
use mimalloc::MiMalloc;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: PeakAllocator = PeakAllocator;

struct PeakAllocator;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the allocator unchanged.
unsafe impl GlobalAlloc for PeakAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(held, Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { MiMalloc.dealloc(pointer, layout) }
    }
}

/// What a render may take here: the share of one in a container of 512 MiB.
const SHARE: u64 = 128 << 20;
/// How much more may be held for a moment: what a function makes is counted when it is there, and a list that grows is there
/// twice. Two renders at a time stay below the container's limit with that, with as much again for all else.
const MOMENT: f64 = 1.5;

const MANY: &str = "{{ $d := dict }}{{ range until 20000 }}{{ $_ := set $d (toString .) . }}{{ end }}{{ $h := dict }}";

/// A row of the fixture.
#[derive(serde::Deserialize)]
struct MemoryCase {
    name: String,
    template: String,
    #[serde(default)]
    many: bool,
    /// It must end with the limit of memory; else it only has to fit.
    ends: bool,
    #[serde(default)]
    values: Value,
}

/// Renders a template as the operator does. What was held at most beyond what was held before, and what came of it.
fn render(template: &str, values: Value) -> (usize, Result<u64, String>) {
    let file = |name: &str, text: &str| File {
        name: name.to_owned(),
        data: text.as_bytes().into(),
    };
    let mut chart = Chart::default();
    chart.metadata.name = "c".to_owned();
    chart.metadata.version = "1.0.0".to_owned();
    chart.templates = vec![file("templates/t.yaml", template)];
    let renderer = Engine::new(chart).unwrap();
    let input = Input {
        lookup: Arc::new(BTreeMap::new()),
        limits: Limits::within(SHARE),
        read_objects: true,
        ..Input::new(ReleaseObject::install("r", "n"), values)
    };
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = renderer.render_with(&input);
    let peak = PEAK.load(Relaxed) - before;
    let result = result.map(|rendered| rendered.size);
    (peak, result.map_err(|error| error.to_string()))
}

#[test]
fn no_render_takes_more_than_its_share() {
    let mut cases: Vec<MemoryCase> = serde_yaml::from_str(include_str!("fixtures/memory.yaml")).unwrap();
    let fits = |name: &str, template: &str, values: Value| MemoryCase {
        name: name.to_owned(),
        template: template.to_owned(),
        many: false,
        ends: false,
        values,
    };
    // As much as etcd holds.
    let maps: serde_json::Map<String, Value> = (0..180_000).map(|at| (format!("{at:x}"), json!({}))).collect();
    cases.push(fits("values of many maps", "", Value::Object(maps)));
    let numbers = json!({"a": vec![0; 750_000]});
    cases.push(fits("values of many numbers", "{{ toYaml .Values }}", numbers));
    let only = std::env::var("ONLY").ok();
    let mut wrong = Vec::new();
    for case in cases {
        let name = &case.name;
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let started = std::time::Instant::now();
        let before = if case.many { MANY } else { "" };
        let (peak, result) = render(&format!("{before}{}", case.template), case.values);
        let text = result.err().unwrap_or_default();
        eprintln!("{name}: {} MiB in {:?}: {text:.120}", peak >> 20, started.elapsed());
        let names_it = !case.ends || text.contains("the limit of 134217728 bytes of memory");
        if peak as f64 > SHARE as f64 * MOMENT || !names_it {
            wrong.push(format!("{name}: {} MiB: {text:.200}", peak >> 20));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "measures CHART; counts for all threads, so that it runs alone"]
fn what_a_chart_takes() {
    let webstack = || Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/charts/webstack");
    let path = std::env::var_os("CHART").map_or_else(webstack, PathBuf::from);
    let renderer = Engine::new(Chart::load(&path).unwrap()).unwrap();
    let input = Input {
        read_objects: true,
        ..Input::new(ReleaseObject::install("r", "n"), Value::Null)
    };
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let rendered = renderer.render_with(&input).unwrap();
    let peak = PEAK.load(Relaxed) - before;
    let (kib, used, size) = (peak >> 10, rendered.used, rendered.size);
    eprintln!("{kib} KiB, counted {used:?}, size {size}");
}
