use clap::{CommandFactory, FromArgMatches, Parser};

use std::path::Path;

use super::*;
use chartwright_operator::telemetry::logging::{LogEncoder, LogLevel, TimeEncoding};

#[derive(Debug, Parser)]
#[command(name = "run")]
struct RunCli {
    #[command(flatten)]
    run: RunArgs,
}

/// Parses flags without the environment of the test.
fn parse(flags: &str) -> Result<RunArgs, String> {
    let command = RunCli::command().mut_args(|arg| arg.env(None::<&str>));
    let words = std::iter::once("run").chain(flags.split(' ').filter(|flag| !flag.is_empty()));
    let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
    let args = RunCli::from_arg_matches(&matches)
        .map_err(|error| error.to_string())?
        .run;
    args.check().map(|()| args)
}

fn address(text: &str) -> BindAddress {
    text.parse().unwrap()
}

#[test]
fn defaults() {
    let args = parse("").unwrap();
    assert_eq!(args.watches_file, Path::new("./watches.yaml"));
    assert_eq!(args.reconcile_period, Duration::from_secs(36_000));
    assert_eq!(args.max_concurrent_reconciles, 32);
    assert_eq!((args.memory_limit, &args.watch_namespace), (None, &None));
    assert_eq!((&args.kubeconfig, &args.namespace), (&None, &None));
    assert_eq!(args.operator_name, "chartwright");
    assert_eq!(args.shutdown_timeout, Duration::from_secs(20));
    assert_eq!(args.meter_usage, Duration::ZERO);
    assert_eq!(args.metrics_bind_address, address(":8080"));
    assert_eq!(
        (args.metrics_certificate(), args.needs_right_for_metrics()),
        (None, false)
    );
    assert_eq!(args.health_probe_bind_address, address(":8081"));
    assert_eq!(args.lease(), None);
    assert_eq!(args.log, LogOptions::default());
}

#[test]
fn metrics_are_protected_as_the_flags_say() {
    use CertificateSource::{Directory, SelfSigned};
    let mounted = || Some(Directory("/certs".into()));
    for (flags, certificate, needs_right) in [
        ("", None, false),
        ("--metrics-secure=false --metrics-require-rbac=false", None, false),
        ("--metrics-secure", Some(SelfSigned), false),
        // As in operator-sdk's config/default/manager_metrics_patch.yaml.
        (
            "--metrics-bind-address=:8443 --metrics-secure --metrics-require-rbac",
            Some(SelfSigned),
            true,
        ),
        (
            "--metrics-require-rbac=true --metrics-secure=true",
            Some(SelfSigned),
            true,
        ),
        ("--metrics-secure --metrics-cert-dir=/certs", mounted(), false),
        (
            "--metrics-secure --metrics-cert-dir /certs --metrics-require-rbac",
            mounted(),
            true,
        ),
        ("--metrics-secure --metrics-cert-path=/certs", mounted(), false),
        ("--metrics-secure --metrics-cert-dir=", Some(SelfSigned), false),
        ("--metrics-cert-dir=", None, false),
        ("--metrics-secure --metrics-bind-address=0", Some(SelfSigned), false),
    ] {
        let args = parse(flags).unwrap();
        assert_eq!(args.metrics_certificate(), certificate, "{flags}");
        assert_eq!(args.needs_right_for_metrics(), needs_right, "{flags}");
    }
}

#[test]
fn every_helm_operator_flag_is_accepted() {
    let args = parse(
        "--watches-file=/opt/helm/watches.yaml --reconcile-period=1m30s --max-concurrent-reconciles 4 \
         --metrics-bind-address=127.0.0.1:9090 --metrics-secure=false --metrics-require-rbac=false \
         --health-probe-bind-address=0 --leader-elect --leader-election-id=memcached-operator \
         --leader-election-namespace=ops --suppress-override-values --enable-http2=true --zap-devel --zap-encoder=json \
         --zap-log-level=3 --zap-stacktrace-level=Error --zap-time-encoding=nano",
    );
    let args = args.unwrap();
    assert_eq!(args.watches_file, Path::new("/opt/helm/watches.yaml"));
    assert_eq!(args.reconcile_period, Duration::from_secs(90));
    assert_eq!(args.max_concurrent_reconciles, 4);
    assert_eq!(args.metrics_bind_address, address("127.0.0.1:9090"));
    assert_eq!(args.health_probe_bind_address, BindAddress::Off);
    assert_eq!(args.lease(), Some(("memcached-operator", Some("ops"))));
    let log = LogOptions {
        devel: true,
        encoder: Some(LogEncoder::Json),
        level: Some(LogLevel::Verbose(3)),
        time: Some(TimeEncoding::Nano),
    };
    assert_eq!(args.log, log);
}

#[test]
fn flag_values_are_parsed() {
    let show = |args: &RunArgs, flag: &str| match flag.split(['=', ' ']).next() {
        Some("--memory-limit") => format!("{:?}", args.memory_limit),
        Some("--watch-namespace") => format!("{:?}", args.watch_namespace),
        Some("--max-concurrent-reconciles") => args.max_concurrent_reconciles.to_string(),
        Some("--reconcile-period") => format!("{:?}", args.reconcile_period),
        Some("--metrics-bind-address" | "--metrics-addr") => args.metrics_bind_address.to_string(),
        Some("--health-probe-bind-address") => args.health_probe_bind_address.to_string(),
        Some("--operator-name") => args.operator_name.clone(),
        _ => args.lease().map_or("no lease", |(id, _)| id).to_owned(),
    };
    for (flags, expected) in [
        ("--memory-limit=512Mi", "Some(536870912)"),
        ("--memory-limit=0", "Some(0)"),
        ("--memory-limit=", "None"),
        ("--watch-namespace=", "None"),
        ("--watch-namespace=a", r#"Some({"a"})"#),
        ("--watch-namespace=b,a,", r#"Some({"a", "b"})"#),
        ("--watch-namespace=a,a", r#"Some({"a"})"#),
        // As with controller-runtime.
        ("--max-concurrent-reconciles 0", "1"),
        ("--max-concurrent-reconciles -1", "1"),
        ("--max-concurrent-reconciles 7", "7"),
        ("--reconcile-period=0", "0ns"),
        ("--reconcile-period=1m --reconcile-period=2m", "120s"),
        ("--metrics-bind-address=", ":8080"),
        ("--metrics-bind-address=0", "0"),
        ("--metrics-addr=:1", ":1"),
        ("--health-probe-bind-address=", "0"),
        ("--operator-name=", "chartwright"),
        // Valid as a label value, invalid as the name of a Lease.
        ("--operator-name=My_Op", "My_Op"),
        ("--leader-elect", "chartwright"),
        ("--leader-elect=true", "chartwright"),
        ("--leader-elect=T", "chartwright"),
        ("--leader-elect=1", "chartwright"),
        ("--leader-elect=false", "no lease"),
        ("--leader-elect=0", "no lease"),
        ("--leader-elect --leader-elect=false", "no lease"),
        ("--enable-leader-election", "chartwright"),
        ("--leader-elect --operator-name=my-op", "my-op"),
        ("--leader-elect --operator-name=my-op --leader-election-id=", "my-op"),
        ("--leader-elect --operator-name=my-op --leader-election-id=x.y", "x.y"),
    ] {
        assert_eq!(show(&parse(flags).unwrap(), flags), expected, "{flags}");
    }
}

#[test]
fn mistakes_are_reported() {
    let long = format!("--operator-name={}", "x".repeat(64));
    for (flags, part) in [
        ("--memory-limit=much", "use a number of bytes such as 512Mi"),
        ("--watch-namespace=,", "names no namespace"),
        ("--watch-namespace=a,B", "\"B\" can't be"),
        ("--watch-namespace=a.b", "\"a.b\" can't be"),
        ("--namespace=A", "can't be a namespace"),
        ("--leader-election-namespace=b_c", "can't be a namespace"),
        ("--reconcile-period=10", "10s"),
        ("--shutdown-timeout=-1s", "negative"),
        ("--metrics-bind-address=8080", "HOST:PORT"),
        ("--metrics-require-rbac", "needs --metrics-secure"),
        ("--dashboard", "--dashboard needs --metrics-require-rbac"),
        (
            "--dashboard --metrics-secure",
            "--dashboard needs --metrics-require-rbac",
        ),
        (
            "--dashboard --metrics-secure --metrics-require-rbac --metrics-bind-address=0",
            "--dashboard needs --metrics-bind-address",
        ),
        (
            "--metrics-require-rbac --metrics-secure=false",
            "needs --metrics-secure",
        ),
        ("--metrics-cert-dir=/certs", "needs --metrics-secure"),
        ("--metrics-cert-dir", "a value is required"),
        ("--max-concurrent-reconciles=many", "invalid"),
        ("--zap-log-level=loud", "debug, info, warn, error"),
        ("--zap-stacktrace-level=loud", "panic"),
        ("--leader-elect --operator-name=My_Op", "Lease's name"),
        ("--operator-name=-x", "label's value"),
        ("--operator-name=x-", "label's value"),
        ("--operator-name=a/b", "label's value"),
        ("--operator-name=ü", "label's value"),
        (&long, "label's value"),
        ("--leader-elect=yes", "use true or false"),
        ("--leader-elect=", "use true or false"),
        ("--zap-devel=x", "use true or false"),
        // Go accepts no boolean after a space either.
        ("--leader-elect false", "unexpected argument"),
    ] {
        let error = parse(flags).unwrap_err();
        assert!(error.contains(part), "{flags}: {error}");
    }
}

#[test]
fn the_environment_is_read() {
    let command = RunCli::command();
    for (id, variable) in [
        ("operator_name", "OPERATOR_NAME"),
        ("namespace", "POD_NAMESPACE"),
        ("watch_namespace", "WATCH_NAMESPACE"),
        ("memory_limit", "MEMORY_LIMIT"),
    ] {
        let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
        assert_eq!(arg.get_env(), Some(variable.as_ref()));
    }
}

#[test]
fn endpoints_of_traces_are_checked() {
    let cases = [
        ("--otlp-endpoint=http://collector.monitoring:4318", None),
        ("--otlp-endpoint=https://collector/otlp/ --otlp-sample=0.1", None),
        ("--otlp-endpoint=", None),
        (
            "--otlp-endpoint=collector:4318",
            Some("such as http://collector.monitoring:4318"),
        ),
        (
            "--otlp-endpoint=ftp://collector",
            Some("such as http://collector.monitoring:4318"),
        ),
        ("--otlp-endpoint=http://", Some("it is no URL")),
        (
            "--otlp-endpoint=http://u:secret@collector",
            Some("OTEL_EXPORTER_OTLP_HEADERS"),
        ),
        ("--otlp-sample=1.5", Some("a number from 0 to 1")),
        ("--otlp-sample=NaN", Some("a number from 0 to 1")),
    ];
    for (flags, problem) in cases {
        match (parse(flags), problem) {
            (Ok(_), None) => {}
            (Err(error), Some(problem)) => assert!(error.contains(problem), "{flags}: {error}"),
            (parsed, _) => panic!("{flags}: {parsed:?}"),
        }
    }
}

#[test]
fn the_admission_webhook_needs_its_flag_and_an_address() {
    assert_eq!(parse("").unwrap().admission.bind_address(), None);
    let args = parse("--admission --admission-bind-address=127.0.0.1:1").unwrap();
    assert_eq!(args.admission.bind_address(), Some(&address("127.0.0.1:1")));
    for (flags, expected) in [
        (
            "--admission-url=https://192.0.2.1:9443",
            "--admission-url needs --admission",
        ),
        ("--admission-name=a", "--admission-name needs --admission"),
        ("--admission --admission-bind-address=0", "such as :9443"),
        (
            "--admission --admission-url=http://a.test",
            "an HTTPS address without user, path and query",
        ),
        (
            "--admission --admission-name=A_b",
            "lower-case letters, digits and dashes",
        ),
        (
            "--admission --operator-name=A_b",
            "give another one with --admission-name",
        ),
    ] {
        let error = parse(flags).unwrap_err();
        assert!(error.contains(expected), "{flags}: {error}");
    }
    assert!(parse("--admission --operator-name=A_b --admission-name=a-b").is_ok());
}
