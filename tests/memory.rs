//! What a render really takes: values and charts that want more memory than there is for a render end with an error that
//! names the limit, and the process never holds much more than that meanwhile.
//!
//! A binary of its own, with one test, since its allocator counts for all threads.

use std::alloc::{GlobalAlloc, Layout};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use helm_template::chart::{Chart, File};
use helm_template::render::{Engine, Input, Limits, Release};
use mimalloc::MiMalloc;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the allocator unchanged.
unsafe impl GlobalAlloc for Counting {
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

/// What a template does, the template, and whether it must end with the limit of memory; else it only has to fit.
fn templates() -> Vec<(&'static str, String, bool)> {
    let many = |rest: &str| format!("{MANY}{rest}");
    vec![
        ("small documents", "{{ range until 1000000 }}{{ range until 60 }}\n---\na: 1{{ end }}{{ end }}".to_owned(), true),
        ("documents of three bytes", "{{ $s := repeat 3000000 \"\\n---\\na\" }}{{ $s }}".to_owned(), false),
        ("a document of many nodes", "a: [{{ repeat 7000000 \"0,\" }}0]".to_owned(), true),
        ("a document of deep lists", "a: {{ range until 500000 }}\n- - - - 1{{ end }}".to_owned(), true),
        ("what is no text", "{{ $s := \"/////w==\" | b64dec }}{{ repeat 3000000 $s }}".to_owned(), false),
        ("maps", "{{ $d := dict }}{{ range until 1000000 }}{{ $_ := set $d (toString .) (dict \"a\" 1) }}{{ end }}".to_owned(), false),
        ("maps in lists", "{{ $l := list }}{{ range until 1000 }}{{ range until 1000 }}{{ $l = list (dict \"a\" $l) }}{{ end }}{{ end }}".to_owned(), true),
        ("strings held", "{{ $d := dict }}{{ range until 1000000 }}{{ $_ := set $d (toString .) (printf \"%d-%d-%d-%d\" . . . .) }}{{ end }}".to_owned(), false),
        ("lists of strings", many("{{ $s := repeat 50000 \"a,\" }}{{ range until 10000 }}{{ $_ := set $h (toString .) (splitList \",\" $s) }}{{ end }}"), true),
        ("maps of strings", many("{{ $s := repeat 50000 \"a,\" }}{{ range until 10000 }}{{ $_ := set $h (toString .) (split \",\" $s) }}{{ end }}"), true),
        ("matches", many("{{ $s := repeat 50000 \"a,\" }}{{ range until 10000 }}{{ $_ := set $h (toString .) (regexFindAll \"a\" $s -1) }}{{ end }}"), true),
        ("keys", many("{{ range until 100000 }}{{ $_ := set $h (toString .) (keys $d) }}{{ end }}"), true),
        ("values", many("{{ range until 100000 }}{{ $_ := set $h (toString .) (values $d) }}{{ end }}"), true),
        ("copies", many("{{ range until 100000 }}{{ $_ := set $h (toString .) (deepCopy $d) }}{{ end }}"), true),
        ("shallow copies", many("{{ range until 100000 }}{{ $_ := set $h (toString .) (omit $d \"1\") }}{{ end }}"), true),
        ("lists", many("{{ $l := until 100000 }}{{ range until 100000 }}{{ $_ := set $h (toString .) (append $l .) }}{{ end }}"), true),
        ("chunks", many("{{ $l := until 100000 }}{{ range until 1000 }}{{ $_ := set $h (toString .) (chunk 1 $l) }}{{ end }}"), true),
        ("regular expressions", "{{ range $i := until 3000 }}{{ $_ := regexMatch (printf \"(a|b|%d){1,40}x\" $i) (repeat 1000 \"ab\") }}{{ end }}".to_owned(), false),
        ("large regular expressions", "{{ range $i := until 4 }}{{ $_ := regexMatch (printf \"\\\\pL{400}%d\" $i) \"a\" }}{{ end }}".to_owned(), false),
        ("fromJson", "{{ $s := printf \"[%s0]\" (repeat 10000000 \"0,\") }}{{ fromJsonArray $s | len }}".to_owned(), true),
        ("fromJson of lists", "{{ $s := printf \"[%s0]\" (repeat 3000000 \"[],\") }}{{ fromJsonArray $s | len }}".to_owned(), true),
        ("fromJson of maps", "{{ $s := printf \"{%s}\" (repeat 3000000 `\"a\":{\"b\":[{}]},`) }}{{ fromJson $s | len }}".to_owned(), true),
        ("mustFromJson", "{{ $s := printf \"[%s0]\" (repeat 10000000 \"{},\") }}{{ mustFromJson $s | len }}".to_owned(), true),
        ("fromYaml", "{{ $s := repeat 5000000 \"- a\\n\" }}{{ fromYamlArray $s | len }}".to_owned(), true),
        ("fromYaml in one line", "{{ $s := printf \"[%s0]\" (repeat 5000000 \"[],\") }}{{ fromYamlArray $s | len }}".to_owned(), true),
        ("fromToml", "{{ $s := printf \"a=[%s0]\" (repeat 5000000 \"0,\") }}{{ fromToml $s | len }}".to_owned(), true),
        ("toYaml", many("{{ range until 1000 }}{{ $_ := set $h (toString .) (toYaml $d) }}{{ end }}"), true),
        ("one text", "{{ repeat 60000000 \"a\" | len }}".to_owned(), true),
        ("a text that doubles", "{{ $s := \"0123456789abcdef\" }}{{ range until 40 }}{{ $s = printf \"%s%s\" $s $s }}{{ end }}".to_owned(), true),
        ("a text printed often", "{{ $s := repeat 20000000 \"a\" }}{{ $x := print $s $s $s $s $s $s $s $s $s $s }}{{ len $x }}".to_owned(), true),
        ("a text quoted", "{{ $s := repeat 20000000 \"<\" }}{{ html $s | len }}{{ $s | quote | len }}{{ $s | upper | len }}".to_owned(), true),
        ("replace", "{{ $s := repeat 30000000 \"a\" }}{{ replace \"a\" \"b\" $s | len }}".to_owned(), false),
        ("letters", "{{ $s := repeat 30000000 \"aB\" }}{{ snakecase $s | len }}".to_owned(), true),
        ("output", "{{ $s := repeat 1000000 \"a\" }}{{ range until 1000 }}{{ $s }}{{ end }}".to_owned(), false),
        ("output within output", "{{ define \"a\" }}{{ .s }}{{ include \"a\" . }}{{ end }}{{ include \"a\" (dict \"s\" (repeat 4000000 \"a\")) }}".to_owned(), false),
        ("loops within loops", format!("{MANY}{{{{ define \"a\" }}}}{{{{ range . }}}}{{{{ template \"a\" $ }}}}{{{{ end }}}}{{{{ end }}}}{{{{ template \"a\" $d }}}}"), true),
        ("templates within templates", "{{ $t := \"{{ tpl .t . }}{{ tpl .t . }}\" }}{{ tpl $t (dict \"t\" $t) }}".to_owned(), false),
        ("random results", "{{ range until 1000000 }}{{ $x := randNumeric 1 }}{{ end }}".to_owned(), true),
        ("lookups", "{{ range $i := until 1000000 }}{{ $x := lookup \"v1\" \"Secret\" \"\" (toString $i) }}{{ end }}".to_owned(), true),
    ]
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
    let nothing_known = BTreeMap::new();
    let input = Input {
        lookup: Arc::new(nothing_known),
        limits: Limits::within(SHARE),
        read_objects: true,
        ..Input::new(Release::install("r", "n"), values)
    };
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = renderer.render_with(&input);
    let peak = PEAK.load(Relaxed) - before;
    (
        peak,
        result.map(|rendered| rendered.size).map_err(|error| error.to_string()),
    )
}

#[test]
fn no_render_takes_more_than_its_share() {
    let mut cases: Vec<(&str, String, Value, bool)> = templates()
        .into_iter()
        .map(|(name, template, ends)| (name, template, json!({}), ends))
        .collect();
    // As much as etcd holds.
    let maps: serde_json::Map<String, Value> = (0..180_000).map(|at| (format!("{at:x}"), json!({}))).collect();
    cases.push(("values of many maps", String::new(), Value::Object(maps), false));
    cases.push((
        "values of many numbers",
        "{{ toYaml .Values }}".to_owned(),
        json!({"a": vec![0; 750_000]}),
        false,
    ));
    let only = std::env::var("ONLY").ok();
    let mut wrong = Vec::new();
    for (name, template, values, ends) in cases {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let started = std::time::Instant::now();
        let (peak, result) = render(&template, values);
        let text = result.as_ref().err().cloned().unwrap_or_default();
        eprintln!(
            "{name}: {} MiB in {:?}: {}",
            peak >> 20,
            started.elapsed(),
            text.chars().take(120).collect::<String>()
        );
        let names_it = !ends || text.contains("the limit of 134217728 bytes of memory");
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
        ..Input::new(Release::install("r", "n"), Value::Null)
    };
    let before = HELD.load(Relaxed);
    PEAK.store(before, Relaxed);
    let rendered = renderer.render_with(&input).unwrap();
    let peak = PEAK.load(Relaxed) - before;
    eprintln!(
        "{} KiB, counted {:?}, size {}",
        peak >> 10,
        rendered.used,
        rendered.size
    );
}
