use std::sync::{Arc, Mutex};

use super::*;

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged by `events` under these options, away from a terminal.
fn logged(options: &LogOptions, rust_log: Option<&str>, events: impl FnOnce()) -> String {
    let buffer = Buffer::default();
    let writer = buffer.clone();
    let (filter, _) = options.filter(rust_log);
    let subscriber = subscriber(options, false, false, filter, move || writer.clone(), None);
    tracing::subscriber::with_default(subscriber, events);
    let bytes = buffer.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap()
}

/// For either kind of lines.
fn either(options: LogOptions) -> [LogOptions; 2] {
    [LogEncoder::Json, LogEncoder::Console].map(|encoder| LogOptions {
        encoder: Some(encoder),
        ..options
    })
}

#[test]
fn json_lines_have_zaps_keys() {
    let text = logged(&LogOptions::default(), None, || {
        let outer = tracing::info_span!("outer", kind = "A", name = "outer", zone = "a\"b");
        let _outer = outer.enter();
        let inner = tracing::info_span!("inner", kind = "B", name = "inner");
        let _inner = inner.enter();
        tracing::warn!(target: "chartwright::queue", kind = "C", count = 3, wait = ?Some(1), level = 7, "late");
    });
    let mut line = json(&text);
    let time = line["ts"].take();
    assert!(time.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{text}");
    // A field wins over those of its spans, and the inner span over the outer.
    let expected = serde_json::json!({
        "level": "warn", "ts": null, "logger": "chartwright::queue", "msg": "late", "kind": "C", "name": "inner",
        "zone": "a\"b", "count": 3, "wait": "Some(1)", "level_": 7,
    });
    assert_eq!(line, expected);
    assert_eq!((text.matches('\n').count(), text.matches("\"kind\"").count()), (1, 1));
}

#[test]
fn lines_of_either_kind_hold_no_secret_of_the_release() {
    let secrets = Arc::new(redact::Secrets::default());
    secrets.learn("hunt\"er2");
    secrets.learn(r#"","msg":""#);
    for options in either(LogOptions::default()) {
        let events = || {
            let span = tracing::info_span!("reconcile", spanned = "hunt\"er2");
            let _span = span.enter();
            tracing::warn!(shown = %"hunt\"er2", debugged = ?"hunt\"er2", plain = "hunt\"er2", "says hunt\"er2");
        };
        let text = logged(&options, None, || redact::during(&secrets, events));
        assert!(!text.contains("er2"), "{text}");
        assert_eq!(text.matches(redact::MARK).count(), 5, "{text}");
        if options.encoder == Some(LogEncoder::Json) {
            assert_eq!(json(&text)["msg"], "says [redacted]");
        }
    }
}

#[test]
fn development_is_readable_and_verbose() {
    let options = LogOptions {
        devel: true,
        ..LogOptions::default()
    };
    let event = || tracing::debug!(target: "chartwright::x", n = 1, "hello");
    let text = logged(&options, None, event);
    assert!(text.contains("DEBUG chartwright::x: hello n=1"), "{text}");
}

#[test]
fn levels_choose_events() {
    let quiet = "our-info kube-info warning error";
    let verbose = "our-debug our-info kube-info warning error";
    // The flag, RUST_LOG, the targets and levels that are logged.
    for (flag, rust_log, expected) in [
        (None, None, quiet),
        (Some("error"), None, "error"),
        (Some("warn"), None, "warning error"),
        (Some("panic"), None, "error"),
        (Some("INFO"), None, quiet),
        (Some("debug"), None, verbose),
        (Some("1"), None, verbose),
        (
            Some("5"),
            None,
            "our-trace our-debug kube-debug our-info kube-info warning error",
        ),
        (Some("5"), Some("kube=debug"), "kube-debug kube-info"),
        (None, Some("  "), quiet),
        (None, Some("kube=nonsense=3"), quiet),
    ] {
        let options = LogOptions {
            level: flag.map(|flag| flag.parse().unwrap()),
            ..LogOptions::default()
        };
        let text = logged(&options, rust_log, || {
            tracing::trace!(target: "chartwright::a", "our-trace");
            tracing::debug!(target: "chartwright::a", "our-debug");
            tracing::debug!(target: "kube", "kube-debug");
            tracing::info!(target: "chartwright::a", "our-info");
            tracing::info!(target: "kube", "kube-info");
            tracing::warn!(target: "chartwright::a", "warning");
            tracing::error!(target: "chartwright::a", "error");
        });
        let messages = text.lines().map(|line| json(line)["msg"].as_str().unwrap().to_owned());
        assert_eq!(
            messages.collect::<Vec<_>>().join(" "),
            expected,
            "{flag:?} {rust_log:?}"
        );
        let problem = options.filter(rust_log).1;
        assert_eq!(problem.is_some(), rust_log == Some("kube=nonsense=3"));
    }
    for bad in ["loud", "0", "-1", "", "1.5"] {
        assert!(bad.parse::<LogLevel>().is_err(), "{bad}");
    }
}

#[test]
fn kube_logs_of_requests_are_quiet_and_of_bodies_absent() {
    let events = || {
        tracing::error!(target: "kube_client::client::builder", "failed with status 500 Internal Server Error");
        tracing::warn!(target: "kube_client::client", "{{\"items\": [{{\"password\": \"p\"}}]}}, recursion limit exceeded");
        tracing::warn!(target: "kube_client::client::tls", "failed to reload CA bundle");
    };
    for (level, rust_log, builder) in [
        (LogLevel::Error, None, false),
        (LogLevel::Warn, None, false),
        (LogLevel::Info, None, false),
        (LogLevel::Verbose(1), None, false),
        (LogLevel::Verbose(2), None, true),
        (LogLevel::Info, Some("debug"), true),
    ] {
        let options = LogOptions {
            level: Some(level),
            ..LogOptions::default()
        };
        for options in either(options) {
            let text = logged(&options, rust_log, events);
            let is_logged = text.contains("failed with status");
            assert_eq!(is_logged, builder, "{level:?} {rust_log:?}: {text}");
            assert_eq!(text.contains("CA bundle"), level != LogLevel::Error, "{text}");
            assert!(!text.contains("password"), "{text}");
        }
    }
}

#[test]
fn lines_are_cut() {
    let long = "x".repeat(4 << 20);
    for options in either(LogOptions::default()) {
        let text = logged(&options, None, || tracing::warn!(error = %long, "refused: {long}"));
        assert!(text.len() < 3 * LONGEST_TEXT && text.ends_with('\n'), "{}", text.len());
        assert!(text.contains("(the first of "), "{}", &text[text.len() - 200..]);
        assert_eq!(text.matches('\n').count(), 1);
    }
}

#[test]
fn times_as_zap_writes_them() {
    let time: jiff::Timestamp = "2026-01-02T15:04:05.012345678Z".parse().unwrap();
    for (name, expected) in [
        ("epoch", "1767366245.012345"),
        ("millis", "1767366245012.345"),
        ("nano", "1767366245012345678"),
        ("nanos", "1767366245012345678"),
        ("ISO8601", "2026-01-02T15:04:05.012Z"),
        ("rfc3339", "2026-01-02T15:04:05Z"),
        ("rfc3339nano", "2026-01-02T15:04:05.012345678Z"),
    ] {
        let encoding = TimeEncoding::from_str(name, true).unwrap();
        let mut out = String::new();
        encoding.write(time, &mut out).unwrap();
        assert_eq!(out, expected, "{name}");
        let options = LogOptions {
            time: Some(encoding),
            ..LogOptions::default()
        };
        let line = json(&logged(&options, None, || tracing::info!("x")));
        assert_eq!(line["ts"].is_number(), encoding.is_number(), "{line}");
    }
}

#[test]
fn the_encoder_depends_on_where_lines_go() {
    let auto = LogOptions::default();
    let devel = LogOptions { devel: true, ..auto };
    let json = LogOptions {
        encoder: Some(LogEncoder::Json),
        ..devel
    };
    for (options, on_terminal, elsewhere) in [
        (auto, LogEncoder::Console, LogEncoder::Json),
        (devel, LogEncoder::Console, LogEncoder::Console),
        (json, LogEncoder::Json, LogEncoder::Json),
    ] {
        assert_eq!(
            [options.encoder(true), options.encoder(false)],
            [on_terminal, elsewhere]
        );
    }
}
