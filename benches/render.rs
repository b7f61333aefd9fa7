//! What a release costs: a render with the chart parsed once, as the operator does it, beside a render that parses the
//! chart first, as a program does that reads the chart at every reconcile. The figure to look at is their ratio.

use std::path::Path;
use std::sync::Arc;

use chartwright::chart::{self, Chart};
use chartwright::render::{Capabilities, Input, Limits, Lookups, Release, Renderer};
use divan::Bencher;
use serde_json::json;

const CHARTS: [&str; 2] = ["charts/memcached", "tests/fixtures/template/helm-create/mychart"];

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

fn load(path: &str) -> Arc<Chart> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    Arc::new(chart::load(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn render(renderer: &Renderer, capabilities: &Capabilities) -> usize {
    let rendered = renderer.render(&Input {
        values: json!({}),
        release: Release {
            name: "bench".into(),
            namespace: "default".into(),
            revision: 1,
            is_install: true,
            is_upgrade: false,
        },
        capabilities,
        lookups: &Lookups::none(),
        clock: jiff::Timestamp::UNIX_EPOCH,
        kept: None,
        seed: Some([0; 32]),
        limits: Limits::default(),
        include_crds: false,
        skip_schema: false,
    });
    rendered.expect("the chart renders").objects.len()
}

#[divan::bench(args = CHARTS)]
fn parsed_once(bencher: Bencher, path: &str) {
    let renderer = Renderer::new(load(path)).expect("the chart can be released");
    let capabilities = Capabilities::default();
    render(&renderer, &capabilities);
    bencher.bench_local(|| render(&renderer, &capabilities));
}

#[divan::bench(args = CHARTS)]
fn parsed_anew(bencher: Bencher, path: &str) {
    let chart = load(path);
    let capabilities = Capabilities::default();
    bencher.bench_local(|| {
        let renderer = Renderer::new(chart.clone()).expect("the chart can be released");
        render(&renderer, &capabilities)
    });
}
