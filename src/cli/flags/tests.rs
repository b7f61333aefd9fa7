use clap::{CommandFactory, Parser};

use super::*;

#[derive(Debug, Parser)]
#[command(name = "run")]
struct Cli {
    #[command(flatten)]
    run: RunArgs,
}

/// What these flags amount to; the environment of the test is left out of it.
fn settle(flags: &[&str]) -> Result<RunOptions, String> {
    let command = Cli::command().mut_args(|arg| arg.env(None::<&str>));
    let matches = command
        .try_get_matches_from(std::iter::once("run").chain(flags.iter().copied()))
        .map_err(|error| error.to_string())?;
    let cli = <Cli as clap::FromArgMatches>::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    cli.run.settle().map_err(|error| error.to_string())
}

fn address(text: &str) -> BindAddress {
    text.parse().unwrap()
}

#[test]
fn defaults() {
    let options = settle(&[]).unwrap();
    let expected = RunOptions {
        watches_file: "./watches.yaml".into(),
        reconcile_period: Duration::from_secs(36_000),
        max_concurrent_reconciles: 32,
        memory_limit: None,
        watch_namespaces: None,
        kubeconfig: None,
        namespace: None,
        operator_name: "chartwright".to_owned(),
        shutdown_timeout: Duration::from_secs(20),
        metrics_address: address(":8080"),
        probe_address: address(":8081"),
        leader_election: None,
        log: LogOptions::default(),
        warnings: Vec::new(),
    };
    assert_eq!(options, expected);
}

#[test]
fn the_memory_limit_is_a_quantity() {
    for (flag, want) in [("512Mi", Some(512 << 20)), ("0", Some(0)), ("", None)] {
        let options = settle(&[&format!("--memory-limit={flag}")]).unwrap();
        assert_eq!(options.memory_limit, want, "{flag}");
    }
    let error = settle(&["--memory-limit=much"]).unwrap_err();
    assert!(
        error.contains("--memory-limit (or MEMORY_LIMIT) \"much\": use a number"),
        "{error}"
    );
}

#[test]
fn every_flag_of_helm_operator_is_read() {
    let options = settle(&[
        "--watches-file=/opt/helm/watches.yaml",
        "--reconcile-period=1m30s",
        "--max-concurrent-reconciles",
        "4",
        "--metrics-bind-address=127.0.0.1:9090",
        "--metrics-secure=false",
        "--metrics-require-rbac=false",
        "--health-probe-bind-address=0",
        "--leader-elect",
        "--leader-election-id=memcached-operator",
        "--leader-election-namespace=ops",
        "--suppress-override-values",
        "--enable-http2=true",
        "--zap-devel",
        "--zap-encoder=json",
        "--zap-log-level=3",
        "--zap-stacktrace-level=Error",
        "--zap-time-encoding=nano",
    ])
    .unwrap();
    assert_eq!(options.watches_file, Path::new("/opt/helm/watches.yaml"));
    assert_eq!(options.reconcile_period, Duration::from_secs(90));
    assert_eq!(options.max_concurrent_reconciles, 4);
    assert_eq!(options.metrics_address, address("127.0.0.1:9090"));
    assert_eq!(options.probe_address, BindAddress::Off);
    let election = LeaderElectionOptions {
        id: "memcached-operator".to_owned(),
        namespace: Some("ops".to_owned()),
    };
    assert_eq!(options.leader_election, Some(election));
    let log = LogOptions {
        devel: true,
        encoder: Some(Encoder::Json),
        level: Some(Level::Verbose(3)),
        time: Some(TimeEncoding::Nano),
    };
    assert_eq!(options.log, log);
    assert_eq!(options.warnings, Vec::<String>::new());
}

#[test]
fn booleans_are_written_as_go_writes_them() {
    let table = [
        ("--leader-elect", Ok(true)),
        ("--leader-elect=true", Ok(true)),
        ("--leader-elect=T", Ok(true)),
        ("--leader-elect=1", Ok(true)),
        ("--leader-elect=false", Ok(false)),
        ("--leader-elect=0", Ok(false)),
        ("--leader-elect=yes", Err("use true or false")),
        ("--leader-elect=", Err("")),
    ];
    for (flag, expected) in table {
        match (settle(&[flag]), expected) {
            (Ok(options), Ok(on)) => assert_eq!(options.leader_election.is_some(), on, "{flag}"),
            (Err(error), Err(text)) => assert!(error.contains(text), "{flag}: {error}"),
            (result, _) => panic!("{flag}: {result:?}"),
        }
    }
    assert!(
        settle(&["--leader-elect", "false"]).is_err(),
        "Go takes no boolean after a blank either"
    );
    for flag in [
        "--suppress-override-values=x",
        "--zap-devel=x",
        "--enable-http2=x",
        "--metrics-secure=x",
    ] {
        assert!(settle(&[flag]).unwrap_err().contains("use true or false"), "{flag}");
    }
}

#[test]
fn deprecated_names_work_and_warn() {
    let options = settle(&["--metrics-addr=:1", "--enable-leader-election"]).unwrap();
    assert_eq!(options.metrics_address, address(":1"));
    assert!(options.leader_election.is_some());
    assert_eq!(
        options.warnings,
        [
            "--metrics-addr is deprecated: use --metrics-bind-address",
            "--enable-leader-election is deprecated: use --leader-elect"
        ]
    );
    for both in [
        ["--metrics-addr=:1", "--metrics-bind-address=:2"],
        ["--leader-elect", "--enable-leader-election"],
    ] {
        assert!(settle(&both).unwrap_err().contains("cannot be used with"), "{both:?}");
    }
}

#[test]
fn secure_metrics_are_refused_clearly() {
    let error = settle(&["--metrics-secure", "--metrics-require-rbac=true"]).unwrap_err();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 2, "{error}");
    assert!(
        lines[0].starts_with("--metrics-secure is not supported yet: metrics are plain HTTP;"),
        "{error}"
    );
    assert!(
        lines[1].starts_with("--metrics-require-rbac is not supported yet"),
        "{error}"
    );
}

#[test]
fn watch_namespaces() {
    let table: [(&str, Option<&[&str]>); 6] = [
        ("", None),
        ("  ", None),
        ("a", Some(&["a"])),
        ("b,a", Some(&["a", "b"])),
        (" a , b,", Some(&["a", "b"])),
        ("a,a", Some(&["a"])),
    ];
    for (text, expected) in table {
        let options = settle(&["--watch-namespace", text]).unwrap();
        let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(options.watch_namespaces, expected, "{text:?}");
    }
    for (bad, part) in [
        (",", "names no namespace"),
        ("a,B", "\"B\" can't be"),
        ("a b", "\"a b\" can't"),
        ("a.b", "a.b"),
    ] {
        let error = settle(&["--watch-namespace", bad]).unwrap_err();
        assert!(
            error.contains(part) && error.contains("WATCH_NAMESPACE"),
            "{bad}: {error}"
        );
    }
}

#[test]
fn names_default_to_each_other() {
    let id = |flags: &[&str]| settle(flags).map(|options| options.leader_election.map(|election| election.id));
    assert_eq!(id(&["--leader-elect"]), Ok(Some("chartwright".to_owned())));
    assert_eq!(
        id(&["--leader-elect", "--operator-name=my-op"]),
        Ok(Some("my-op".to_owned()))
    );
    assert_eq!(
        id(&["--leader-elect", "--operator-name=my-op", "--leader-election-id="]),
        Ok(Some("my-op".to_owned()))
    );
    assert_eq!(
        id(&["--leader-elect", "--operator-name=my-op", "--leader-election-id=x.y"]),
        Ok(Some("x.y".to_owned()))
    );
    assert_eq!(settle(&["--operator-name="]).unwrap().operator_name, "chartwright");

    // A label's value may be what a Lease's name may not.
    assert_eq!(settle(&["--operator-name=My_Op"]).unwrap().operator_name, "My_Op");
    assert!(
        id(&["--leader-elect", "--operator-name=My_Op"])
            .unwrap_err()
            .contains("Lease's name")
    );
    for bad in ["-x", "x-", "a/b", "ü", &"x".repeat(64)] {
        let error = settle(&[&format!("--operator-name={bad}")]).unwrap_err();
        assert!(error.contains("label's value"), "{error}");
    }
    assert!(
        settle(&["--namespace=A", "--leader-election-namespace=b_c"])
            .unwrap_err()
            .lines()
            .count()
            == 2
    );
}

#[test]
fn numbers_addresses_and_durations() {
    for (flag, expected) in [("0", 1), ("-1", 1), ("7", 7)] {
        let options = settle(&["--max-concurrent-reconciles", flag]).unwrap();
        assert_eq!(
            options.max_concurrent_reconciles, expected,
            "controller-runtime makes 1 of it, too"
        );
    }
    assert_eq!(
        settle(&["--reconcile-period=0"]).unwrap().reconcile_period,
        Duration::ZERO
    );
    assert_eq!(
        settle(&["--metrics-bind-address="]).unwrap().metrics_address,
        address(":8080")
    );
    assert_eq!(
        settle(&["--metrics-bind-address=0"]).unwrap().metrics_address,
        BindAddress::Off
    );
    assert_eq!(
        settle(&["--health-probe-bind-address="]).unwrap().probe_address,
        BindAddress::Off
    );
    for (flag, part) in [
        ("--reconcile-period=10", "10s"),
        ("--shutdown-timeout=-1s", "negative"),
        ("--metrics-bind-address=8080", "HOST:PORT"),
        ("--max-concurrent-reconciles=many", "invalid"),
        ("--zap-log-level=loud", "debug, info, warn, error"),
        ("--zap-stacktrace-level=loud", "panic"),
    ] {
        let error = settle(&[flag]).unwrap_err();
        assert!(error.contains(part), "{flag}: {error}");
    }
}

#[test]
fn a_flag_given_twice_counts_the_last_time() {
    let options = settle(&[
        "--leader-elect",
        "--reconcile-period=1m",
        "--leader-elect=false",
        "--reconcile-period=2m",
    ]);
    let options = options.unwrap();
    assert_eq!(
        (options.leader_election, options.reconcile_period),
        (None, Duration::from_secs(120))
    );
}

#[test]
fn the_environment_is_read() {
    let command = Cli::command();
    for (id, variable) in [
        ("operator_name", "OPERATOR_NAME"),
        ("namespace", "POD_NAMESPACE"),
        ("watch_namespace", "WATCH_NAMESPACE"),
    ] {
        let arg = command.get_arguments().find(|arg| arg.get_id() == id).unwrap();
        assert_eq!(arg.get_env(), Some(variable.as_ref()));
    }
}

#[test]
fn the_help_has_an_example_and_hides_what_is_deprecated() {
    let help = Cli::command().render_long_help().to_string();
    assert!(help.contains("chartwright run --leader-elect"), "{help}");
    assert!(
        !help.contains("metrics-addr") && !help.contains("enable-leader-election"),
        "{help}"
    );
    Cli::command().debug_assert();
}

#[test]
fn the_operators_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let (mounted, missing) = (folder.path().join("namespace"), folder.path().join("none"));
    std::fs::write(&mounted, "pod-ns\n").unwrap();
    let table = [
        (Some("flag"), &mounted, "ctx", "flag"),
        (None, &mounted, "ctx", "pod-ns"),
        (Some(""), &missing, "ctx", "ctx"),
        (None, &missing, "", "default"),
    ];
    for (explicit, file, context, expected) in table {
        assert_eq!(resolve_namespace(explicit, file, context), expected);
    }
}
