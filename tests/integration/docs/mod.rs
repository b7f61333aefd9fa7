//! README.md, the quickstart and the tutorial do what they say: each block is run or written in its order, in an empty
//! folder and on a real API server. What isn't run is marked in the page, with the reason. What is not as a page says is in
//! the table of each test; and `run` listens on no port.

mod blocks;
mod links;
mod terminal;

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use serde_json::json;

use crate::cli::fetch::{path, serve};
use crate::support::{AuditMark, ControlPlane, eventually};
use crate::world::fields::ensure_contains;
use terminal::TerminalReader;

const SOON: Duration = Duration::from_secs(30);

/// One of their own: other tests count what their operators ask when kinds come.
fn control_plane() -> &'static ControlPlane {
    static SHARED: OnceLock<ControlPlane> = OnceLock::new();
    SHARED.get_or_init(|| match ControlPlane::builder().pods(true).start() {
        Ok(control_plane) => control_plane,
        Err(error) => panic!("the control plane for the pages doesn't start: {error:#}"),
    })
}

#[test]
fn the_readme_does_what_it_says() -> Result<()> {
    let mut reader = TerminalReader::new(control_plane(), "readme")?;
    reader.follow("README.md")?;
    eventually("the greeting", SOON, || {
        let map = reader
            .kubectl
            .get("configmap", "first")?
            .context("it isn't there yet")?;
        ensure!(map["data"]["greeting"] == "Hello you", "{map}");
        Ok(Some(()))
    })
}

/// A chart repository with a chart of this name, from tests/fixtures/docs: its address.
fn repository(name: &str, version: &str) -> Result<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/docs")
        .join(name);
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    archive.append_dir_all(name, folder)?;
    let archive = archive.into_inner()?.finish()?;
    let file = format!("{name}-{version}.tgz");
    let entry = json!({"apiVersion": "v2", "name": name, "version": version, "urls": [&file]});
    let index = json!({"apiVersion": "v1", "entries": {name: [entry]}}).to_string();
    let (address, _) = serve(Box::new(move |head| match path(head) {
        path if path.ends_with("/index.yaml") => ("200 OK".to_owned(), index.clone().into_bytes()),
        path if path.ends_with(&file) => ("200 OK".to_owned(), archive.clone()),
        _ => ("404 Not Found".to_owned(), Vec::new()),
    }))?;
    Ok(address)
}

#[test]
fn the_quickstart_ends_with_a_resource_that_is_ready() -> Result<()> {
    let address = repository("podinfo", "6.14.1")?;
    let mut reader = TerminalReader::new(control_plane(), "quickstart")?
        // No test asks servers of others: a chart of our own stands in, with the values that the page sets.
        .instead("https://stefanprodan.github.io/podinfo", &format!("http://{address}"));
    reader.follow("docs/tutorials/quickstart.md")
}

#[test]
fn the_tutorial_ends_with_tickets_that_are_booked_and_cancelled() -> Result<()> {
    let control_plane = control_plane();
    let begin: AuditMark = control_plane.audit().mark()?;
    let mut reader = TerminalReader::new(control_plane, "tutorial")?;
    reader.follow("docs/tutorials/first-operator.md")?;
    // The ticket was booked by a Job, cancelled by another before its ConfigMap went, and nothing is left of it.
    let order: Vec<String> = control_plane
        .audit()
        .since(begin)?
        .filter(|request| request.namespace == "tutorial")
        .writes()
        .iter()
        .map(|request| format!("{} {} {}", request.verb, request.resource, request.name))
        .collect();
    let at = |what: &str| {
        let found = order.iter().position(|request| request == what);
        found.with_context(|| format!("{what:?} isn't in {order:#?}"))
    };
    let booked = at("patch jobs holiday-book")?;
    let cancelled = at("patch jobs holiday-cancel")?;
    ensure!(
        booked < cancelled && cancelled < at("delete configmaps holiday")?,
        "{order:#?}"
    );
    ensure!(reader.kubectl.get("configmap", "holiday")?.is_none());
    Ok(())
}

#[test]
fn the_readme_names_the_first_pages() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    ensure_contains(
        &fs::read_to_string(root.join("README.md"))?,
        &[
            "docs/tutorials/quickstart.md",
            "docs/tutorials/first-operator.md",
            "docs/guides/image.md",
        ],
    )
}
