//! A webhook that does not answer blocks nothing, and one that does is no way around the rights of its callers.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{TIME_LIMIT, Webhook};
use crate::security::metrics_access::post_insecurely;
use crate::world::fields::ensure_contains;

#[test]
fn a_dead_webhook_blocks_nothing() -> Result<()> {
    let webhook = Webhook::new("admission-dead")?;
    let world = &webhook.world;
    let operator = webhook.start()?;
    // It takes connections, and does not answer.
    operator.signal("STOP")?;
    let began = Instant::now();
    webhook
        .apply(&world.widget("a", json!({"fail": "no"})))?
        .expect_success()?;
    ensure!(began.elapsed() < TIME_LIMIT, "{:?}", began.elapsed());
    operator.signal("CONT")?;
    operator.kill()?;
    let began = Instant::now();
    webhook
        .apply(&world.widget("b", json!({"fail": "no"})))?
        .expect_success()?;
    ensure!(began.elapsed() < TIME_LIMIT, "{:?}", began.elapsed());
    world.delete("b")?;
    let _operator = webhook.start()?;
    webhook
        .apply(&world.widget("b", json!({"fail": "no"})))?
        .expect_refused(&["no"])
}

#[test]
fn only_the_api_server_knows_the_path() -> Result<()> {
    let webhook = Webhook::new("admission-path")?;
    let world = &webhook.world;
    let operator = webhook.start()?;
    let configuration = webhook.configuration()?;
    let url = configuration["webhooks"][0]["clientConfig"]["url"]
        .as_str()
        .context("a URL")?;
    let path = url.strip_prefix(&webhook.url).context("our address")?;
    ensure!(!operator.log().contains(path), "the log has the path");
    let review = json!({"request": {
        "uid": "u", "operation": "CREATE", "object": world.widget("a", json!({"fail": "leaked"})),
        "kind": {"group": world.group(), "version": "v1", "kind": "Widget"},
    }})
    .to_string();
    let post = |path: &str, body: &str| post_insecurely(webhook.port, path, body);
    ensure_contains(&post(path, &review)?, &["HTTP/1.1 200", "leaked"])?;
    let forged = path.replace(char::is_alphabetic, "0");
    for wrong in ["/", "/admission", "/admission/", "/admission/x", &forged, "/metrics"] {
        let answer = post(wrong, &review)?;
        ensure!(
            answer.starts_with("HTTP/1.1 404") && !answer.contains("leaked"),
            "{wrong}: {answer}"
        );
    }
    for body in ["", "{}", "[1]", "\u{0}"] {
        ensure_contains(&post(path, body)?, &["HTTP/1.1 400", "no AdmissionReview"])?;
    }
    // No more than the server reads: it would close the connection while the rest is sent.
    let large = "x".repeat((7 << 20) + 1);
    ensure_contains(&post(path, &large)?, &["HTTP/1.1 413"])?;
    // Plain HTTP gets no preview.
    let mut plain = TcpStream::connect(("127.0.0.1", webhook.port))?;
    let length = review.len();
    let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{review}");
    plain.write_all(request.as_bytes())?;
    let answer = std::io::read_to_string(plain)?;
    ensure!(
        answer.starts_with("HTTP/1.1 400") && !answer.contains("leaked"),
        "{answer}"
    );
    // A custom resource of a kind without a watch is no business of the webhook.
    let other = review.replace("Widget", "Gadget");
    ensure_contains(&post(path, &other)?, &["HTTP/1.1 200", "\"allowed\":true"])
}
