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
    let subscriber = subscriber(options, false, false, filter, move || writer.clone());
    tracing::subscriber::with_default(subscriber, events);
    let bytes = buffer.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn json_lines_have_zaps_keys() {
    let text = logged(&LogOptions::default(), None, || {
        let span = tracing::info_span!("reconcile", kind = "Memcached", name = "a\"b");
        let _entered = span.enter();
        tracing::warn!(target: "chartwright::queue", count = 3, wait = ?Some(1), "late");
    });
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["level"], "warn");
    assert_eq!(line["msg"], "late");
    assert_eq!(line["logger"], "chartwright::queue");
    assert_eq!(line["count"], 3);
    assert_eq!(line["wait"], "Some(1)");
    assert_eq!(line["kind"], "Memcached");
    assert_eq!(line["name"], "a\"b");
    assert!(
        line["ts"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(),
        "{text}"
    );
    assert_eq!(text.matches('\n').count(), 1);
}

#[test]
fn an_events_field_wins_over_its_spans_and_the_inner_span_over_the_outer() {
    let text = logged(&LogOptions::default(), None, || {
        let outer = tracing::info_span!("outer", kind = "A", name = "outer", zone = 1);
        let _outer = outer.enter();
        let inner = tracing::info_span!("inner", kind = "B", name = "inner");
        let _inner = inner.enter();
        tracing::info!(kind = "C", "x");
    });
    assert_eq!(text.matches("\"kind\"").count(), 1, "{text}");
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&line["kind"], &line["name"], &line["zone"]),
        (&"C".into(), &"inner".into(), &1.into())
    );
}

#[test]
fn lines_of_either_kind_hold_no_secret_of_the_release() {
    let secrets = std::sync::Arc::new(redact::Secrets::default());
    secrets.learn("hunt\"er2");
    secrets.learn(r#"","msg":""#);
    for encoder in [Encoder::Json, Encoder::Console] {
        let options = LogOptions {
            encoder: Some(encoder),
            ..LogOptions::default()
        };
        let events = || {
            let span = tracing::info_span!("reconcile", spanned = "hunt\"er2");
            let _span = span.enter();
            tracing::warn!(shown = %"hunt\"er2", debugged = ?"hunt\"er2", plain = "hunt\"er2", "says hunt\"er2");
        };
        let text = logged(&options, None, || secrets.during(events));
        assert!(!text.contains("er2"), "{text}");
        assert_eq!(text.matches(redact::MARK).count(), 5, "{text}");
        if encoder == Encoder::Json {
            let line: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(line["msg"], "says [redacted]");
        }
    }
}

#[test]
fn development_is_readable_and_verbose() {
    let options = LogOptions {
        devel: true,
        ..LogOptions::default()
    };
    let text = logged(
        &options,
        None,
        || tracing::debug!(target: "chartwright::x", n = 1, "hello"),
    );
    assert!(text.contains("DEBUG chartwright::x: hello n=1"), "{text}");
}

#[test]
fn levels_choose_events() {
    // (flag, RUST_LOG, the targets and levels that are logged)
    let table: &[(Option<&str>, Option<&str>, &str)] = &[
        (None, None, "our-info kube-info warning error "),
        (Some("error"), None, "error "),
        (Some("warn"), None, "warning error "),
        (Some("panic"), None, "error "),
        (Some("INFO"), None, "our-info kube-info warning error "),
        (Some("debug"), None, "our-debug our-info kube-info warning error "),
        (Some("1"), None, "our-debug our-info kube-info warning error "),
        (
            Some("5"),
            None,
            "our-trace our-debug kube-debug our-info kube-info warning error ",
        ),
        (Some("5"), Some("kube=debug"), "kube-debug kube-info "),
        (None, Some("  "), "our-info kube-info warning error "),
        (None, Some("kube=nonsense=3"), "our-info kube-info warning error "),
    ];
    for (flag, rust_log, expected) in table {
        let level = flag.map(|f| f.parse().unwrap());
        let options = LogOptions {
            level,
            ..LogOptions::default()
        };
        let text = logged(&options, *rust_log, || {
            tracing::trace!(target: "chartwright::a", "our-trace");
            tracing::debug!(target: "chartwright::a", "our-debug");
            tracing::debug!(target: "kube", "kube-debug");
            tracing::info!(target: "chartwright::a", "our-info");
            tracing::info!(target: "kube", "kube-info");
            tracing::warn!(target: "chartwright::a", "warning");
            tracing::error!(target: "chartwright::a", "error");
        });
        let seen: String = text
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["msg"]
                    .as_str()
                    .unwrap()
                    .to_owned()
                    + " "
            })
            .collect();
        assert_eq!(&seen, expected, "{flag:?} {rust_log:?}");
    }
}

#[test]
fn what_kube_says_of_requests_is_quiet_and_of_answers_never_told() {
    let events = || {
        tracing::error!(target: "kube_client::client::builder", "failed with status 500 Internal Server Error");
        tracing::warn!(target: "kube_client::client", "{{\"items\": [{{\"password\": \"p\"}}]}}, recursion limit exceeded");
        tracing::warn!(target: "kube_client::client::tls", "failed to reload CA bundle");
    };
    for (level, rust_log, builder) in [
        (Level::Error, None, false),
        (Level::Warn, None, false),
        (Level::Info, None, false),
        (Level::Verbose(1), None, false),
        (Level::Verbose(2), None, true),
        (Level::Info, Some("debug"), true),
    ] {
        for encoder in [Encoder::Json, Encoder::Console] {
            let options = LogOptions {
                level: Some(level),
                encoder: Some(encoder),
                ..LogOptions::default()
            };
            let text = logged(&options, rust_log, events);
            assert_eq!(
                text.contains("failed with status"),
                builder,
                "{level:?} {rust_log:?}: {text}"
            );
            assert_eq!(text.contains("CA bundle"), level != Level::Error, "{text}");
            assert!(!text.contains("password"), "{text}");
        }
    }
}

#[test]
fn lines_are_cut() {
    let long = "x".repeat(4 << 20);
    for encoder in [Encoder::Json, Encoder::Console] {
        let options = LogOptions {
            encoder: Some(encoder),
            ..LogOptions::default()
        };
        let text = logged(&options, None, || tracing::warn!(error = %long, "refused: {long}"));
        assert!(text.len() < 3 * LONGEST_TEXT && text.ends_with('\n'), "{}", text.len());
        assert!(text.contains("(the first of "), "{}", &text[text.len() - 200..]);
        assert_eq!(text.matches('\n').count(), 1);
    }
}

#[test]
fn a_broken_rust_log_is_reported() {
    let (_, problem) = LogOptions::default().filter(Some("kube=nonsense=3"));
    assert!(problem.is_some());
    assert!(LogOptions::default().filter(Some("kube=debug")).1.is_none());
}

#[test]
fn times_as_zap_writes_them() {
    let time: jiff::Timestamp = "2026-01-02T15:04:05.012345678Z".parse().unwrap();
    let table = [
        ("epoch", "1767366245.012345"),
        ("millis", "1767366245012.345"),
        ("nano", "1767366245012345678"),
        ("nanos", "1767366245012345678"),
        ("ISO8601", "2026-01-02T15:04:05.012Z"),
        ("rfc3339", "2026-01-02T15:04:05Z"),
        ("rfc3339nano", "2026-01-02T15:04:05.012345678Z"),
    ];
    for (name, expected) in table {
        let mut out = String::new();
        TimeEncoding::from_str(name, true)
            .unwrap()
            .write(time, &mut out)
            .unwrap();
        assert_eq!(out, expected, "{name}");
    }
    let text = logged(
        &LogOptions {
            time: Some(TimeEncoding::Epoch),
            ..LogOptions::default()
        },
        None,
        || {
            tracing::info!("x");
        },
    );
    assert!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap()["ts"].is_f64(),
        "{text}"
    );
}

#[test]
fn levels_are_words_or_numbers_from_1_on() {
    for bad in ["loud", "0", "-1", "", "1.5"] {
        assert!(bad.parse::<Level>().is_err(), "{bad}");
    }
}

#[test]
fn the_encoder_depends_on_where_lines_go() {
    let auto = LogOptions::default();
    let devel = LogOptions { devel: true, ..auto };
    let json = LogOptions {
        encoder: Some(Encoder::Json),
        devel: true,
        ..auto
    };
    assert_eq!(
        [auto.encoder(true), auto.encoder(false)],
        [Encoder::Console, Encoder::Json]
    );
    assert_eq!(
        [devel.encoder(false), json.encoder(true)],
        [Encoder::Console, Encoder::Json]
    );
}
