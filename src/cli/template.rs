//! `chartwright template`: what `helm template` does, without Helm.
//!
//! Standard output, the `Error:` line and the exit code equal those of Helm 4.3.1.
//! Facts: Helm's `pkg/cmd/{template,install}.go` and `pkg/action/install.go`.

mod caret;
mod files;
mod flags;
mod hosts;
mod http;
mod install;
mod klog;
mod kubeconfig;
mod locate;
mod name;
mod namespace;
mod reach;
mod resolver;
mod server;
mod settings;
#[cfg(test)]
mod tests;
mod tls;

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use self::locate::Place;
use super::pflag::Parsed;
use crate::chart::options::ValueOptions;
use crate::chart::{self, Chart, Fetch, Warning};
use crate::render::{
    Capabilities, Error, Input, KubeVersion, Limits, Lookups, Release, Rendered, Renderer, StreamOptions, bad_stream,
    on_large_stack, show_only, to_stream,
};
use crate::template::go::quote::quote_go;
use crate::yaml;

/// The name that Helm gives a release without one.
const DEFAULT_NAME: &str = "release-name";
/// What Helm adds to errors that come from rendering.
const DEBUG_HINT: &str = "\n\nUse --debug flag to render out invalid YAML";
/// What Helm says before what is wrong with a release's name, in its log too.
const NAME_REFUSED: &str = "release name check failed";
/// Labels that Helm keeps for itself.
const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];

const ABOUT: &str = "Render a chart's templates and print them, as `helm template` does";
const LONG_ABOUT: &str = "\
Render a chart's templates and print them, as `helm template` does

Takes the arguments of `helm template` and prints what it prints. Unless --dry-run=server is given no cluster is asked, \
and `lookup` finds nothing. Charts are folders or .tgz files, on disk or at a URL. Helm's other flags are accepted too.";

const EXAMPLES: &str = "\
Examples:
  chartwright template my-release ./mychart -n web -f values.yaml --set replicas=2
  chartwright template my-release ./mychart -s templates/service.yaml --kube-version 1.30
  kubectl get configmap values -o jsonpath={.data.values} | chartwright template ./mychart -f -";

/// What a run takes from its process.
struct Process<'a> {
    stdin: &'a mut dyn Read,
    /// The folder that relative paths start from; empty for the working directory.
    dir: &'a Path,
    /// The environment.
    env: &'a dyn Fn(&str) -> Option<String>,
}

/// What a run leaves behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The exit code.
    pub code: u8,
    /// What stands in `stderr` after `Error: `, as Helm words it; `stderr` may say more before and after.
    pub error: Option<String>,
}

/// What was printed until an error came, if one came.
#[derive(Debug, Default)]
struct Output {
    stdout: Vec<u8>,
    notices: Vec<String>,
    /// What to say after the error.
    excerpt: Option<String>,
}

/// The command for the help and for completion; its arguments are read by [`run`].
pub fn command() -> clap::Command {
    let words = clap::Arg::new("names")
        .value_name("[NAME] CHART")
        .num_args(1..)
        .required(true)
        .value_hint(clap::ValueHint::DirPath)
        .help("The release's name (optional), then the chart: a folder or a .tgz file");
    let command = clap::Command::new("template")
        .about(ABOUT)
        .long_about(LONG_ABOUT)
        .after_help(EXAMPLES)
        .arg(words);
    flags::describe(command)
}

/// Runs the command with the process's streams and prints its result. `args` are those after `template`.
pub fn run(args: &[String]) -> ExitCode {
    let env = |name: &str| std::env::var(name).ok();
    let captured = on_large_stack(|| {
        let process = Process {
            stdin: &mut io::stdin(),
            dir: Path::new(""),
            env: &env,
        };
        capture(args, process)
    });
    match captured {
        Ok(captured) => tell(&captured).into(),
        Err(text) => {
            let _ = writeln!(io::stderr(), "Error: {text}");
            ExitCode::FAILURE
        }
    }
}

/// Prints what a run leaves behind. Gives the exit code.
fn tell(captured: &Captured) -> u8 {
    let mut stdout = io::stdout().lock();
    let printed = stdout.write_all(&captured.stdout).and_then(|()| stdout.flush());
    let _ = io::stderr().write_all(&captured.stderr);
    match printed {
        // A reader that closed the pipe has seen enough.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "Error: standard output: {e}");
            1
        }
        _ => captured.code,
    }
}

/// Runs the command within this process: `args` are those after `template`, relative paths start from `dir`.
/// Nothing is read from the process's streams or environment, and nothing written to its streams.
pub fn run_captured(args: &[&str], mut stdin: &[u8], dir: &Path) -> Captured {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let run = || {
        let process = Process {
            stdin: &mut stdin,
            dir,
            env: &|_| None,
        };
        capture(&args, process)
    };
    on_large_stack(run).unwrap_or_else(|text| Captured {
        stderr: format!("Error: {text}\n").into_bytes(),
        code: 1,
        error: Some(text),
        ..Captured::default()
    })
}

/// Runs the command, for values as deep as Helm takes them. The calling thread needs a large stack: see
/// [`on_large_stack`].
fn capture(args: &[String], mut process: Process<'_>) -> Captured {
    let mut output = Output::default();
    let run = || execute(args, &mut process, &mut output);
    let error = yaml::with_max_depth(yaml::GO_MAX_DEPTH, run).err();
    let mut stderr = String::new();
    for notice in &output.notices {
        stderr.push_str(notice);
        stderr.push('\n');
    }
    let code = u8::from(error.is_some());
    let error = error.filter(|text| !text.is_empty());
    if let Some(text) = &error {
        // Before the error, whose text may go on for lines: from `Error:` on it is Helm's.
        stderr.push_str(output.excerpt.as_deref().unwrap_or_default());
        stderr.push_str(&format!("Error: {text}\n"));
    }
    Captured {
        stdout: output.stdout,
        stderr: stderr.into_bytes(),
        code,
        error,
    }
}

/// An error is the text after `Error: `, or empty if it was told in a notice. What is checked in which order decides which error comes first.
fn execute(args: &[String], process: &mut Process<'_>, output: &mut Output) -> Result<(), String> {
    let (global, flags) = flags::parse(args);
    color_problem(&global)
        .map_or_else(|| settings::check_logins(&global, process), Err)
        .map_err(|problem| {
            let line = format!("level=WARN msg=\"command failed\" error={}", quote_go(problem));
            output.notices.push(line);
            String::new()
        })?;
    let flags = flags.map_err(|(text, notices)| {
        output.notices = notices;
        text
    })?;
    output.notices.clone_from(&flags.notices);
    if flags.bool("help") {
        let mut command = command().bin_name("chartwright template");
        output.stdout = command.render_long_help().to_string().into_bytes();
        return Ok(());
    }
    settings::check_driver(process).map_err(|problem| {
        output.notices.push(format!("level=INFO msg={}", quote_go(problem)));
        String::new()
    })?;
    if flags.words.is_empty() {
        let usage = "\"helm template\" requires at least 1 argument\n\nUsage:  helm template [NAME] [CHART] [flags]";
        return Err(usage.to_owned());
    }
    flags::check_groups(&flags)?;
    let mut capabilities = Capabilities::default();
    if let Some(version) = flags.text("kube-version").filter(|version| !version.is_empty()) {
        capabilities.kube_version =
            KubeVersion::parse(version).map_err(|e| format!("invalid kube version '{version}': {e}"))?;
    }
    capabilities.api_versions.extend(flags.list("api-versions"));
    tls::check(&flags, process.dir)?;
    let server = asks_server(&flags, &mut output.notices)?;
    let (name, chart) = name_and_chart(&flags, process)?;
    let proxies = http::Proxies::from_environment(process.env);
    let place = locate::locate(&flags, process, &chart)?;
    let place = match place {
        // Helm downloads a chart before it reads values.
        Place::Url(url) => {
            let data = http::files(&proxies).get(&url)?;
            Place::Archive(locate::cached(&data, &flags, process.env), data)
        }
        place => place,
    };
    let (values, raw_texts) = value_options(&flags, process.dir, http::files(&proxies))
        .merge(process.stdin)
        .map_err(|e| e.to_string())?;
    let mut logged = Vec::new();
    let chart = match place {
        Place::Path(path) => chart::load_logged(&path, &mut logged),
        Place::Archive(path, data) => chart::load_archive_logged(&path, &data, &mut logged),
        Place::Url(_) => return Err(format!("{chart}: not downloaded")),
    };
    output.notices.extend(logged.iter().map(Warning::log_line));
    let chart = chart.map_err(|e| e.to_string())?;
    if chart.metadata.deprecated && chart.has_installable_type() {
        output
            .notices
            .push("level=WARN msg=\"this chart is deprecated\"".to_owned());
    }
    let mut renderer = check(chart, &flags)?.with_fetch(http::schemas(&proxies));
    if flags.bool("enable-dns") {
        renderer = renderer.with_hosts(hosts::system());
    }
    let cluster = match server {
        true => {
            let log = |problem: String| {
                output.notices.push(format!("level=ERROR msg={}", quote_go(&problem)));
                problem
            };
            Some(server::Cluster::connect(&flags, process).map_err(log)?)
        }
        false => None,
    };
    check_name(&name).map_err(|problem| {
        let attributes = vec![("error", problem.clone())];
        output.notices.push(Warning::error(NAME_REFUSED, attributes).log_line());
        format!("{NAME_REFUSED}: {problem}")
    })?;
    if let Some(cluster) = &cluster {
        // What the command line says about versions is ignored then, as with Helm.
        capabilities = cluster.capabilities();
    }
    let lookups = cluster.as_ref().map_or_else(Lookups::none, server::Cluster::lookups);
    let input = Input {
        values: serde_json::Value::Object(values),
        raw_texts,
        release: Release {
            name: name.clone(),
            namespace: namespace::find(&flags, process),
            revision: 1,
            is_install: !flags.bool("is-upgrade"),
            is_upgrade: flags.bool("is-upgrade"),
        },
        capabilities: &capabilities,
        lookups: &lookups,
        clock: jiff::Timestamp::now(),
        kept: None,
        seed: None,
        // Whoever waits here can stop it: the limit of steps decides.
        limits: Limits {
            time: Duration::from_secs(600),
            ..Limits::default()
        },
        include_crds: flags.bool("include-crds"),
        skip_schema: flags.bool("skip-schema-validation"),
        ..Input::new(Release::install("", ""), &capabilities, &lookups)
    };
    let mut log = Vec::new();
    let result = renderer.render_logged(&input, &mut log);
    output.notices.extend(log.iter().map(Warning::log_line));
    if result.as_ref().map_or_else(Error::is_rendering, |_| true) {
        check_labels(&flags)?;
    }
    let install = cluster.as_ref().map(|cluster| install::Install {
        cluster,
        name: &name,
        namespace: &input.release.namespace,
        is_upgrade: input.release.is_upgrade,
        takes_ownership: flags.bool("take-ownership"),
        validates: !flags.bool("disable-openapi-validation"),
    });
    let check = |rendered: &Rendered| install.map_or(Ok(()), |install| install.check(rendered));
    print(&flags, process, &name, &renderer, result, output, check)
}

/// Prints a render that passes a check, or what there is of it. Without `--debug` a failed one leaves nothing.
fn print(
    flags: &Parsed,
    process: &Process<'_>,
    name: &str,
    renderer: &Renderer,
    result: Result<Rendered, Error>,
    output: &mut Output,
    check: impl FnOnce(&Rendered) -> Result<(), String>,
) -> Result<(), String> {
    let debug = flags.bool("debug") || !flags.is_set("debug") && env_bool(process, "HELM_DEBUG");
    let options = StreamOptions {
        no_hooks: flags.bool("no-hooks"),
        skip_tests: flags.bool("skip-tests"),
    };
    let root = flags.text("output-dir").filter(|folder| !folder.is_empty());
    let mut failure = None;
    let stream = match result {
        Ok(rendered) => {
            match root {
                Some(root) => {
                    let mut folder = folder(flags, process.dir, root, name, &mut output.stdout);
                    if let Err(text) = folder.write(&rendered) {
                        // Helm takes it for an error of rendering.
                        if !debug {
                            return Err(format!("{text}{DEBUG_HINT}"));
                        }
                        failure = Some(text);
                    }
                    folder.write_hooks(&rendered.hooks, options)?;
                    b"\n".to_vec()
                }
                None => {
                    check(&rendered)?;
                    to_stream(&rendered, options)
                }
            }
        }
        Err(error) => {
            let text = error.to_string();
            output.excerpt = caret::excerpt(renderer.chart(), &text);
            if !error.is_rendering() {
                return Err(text);
            }
            if !debug {
                return Err(format!("{text}{DEBUG_HINT}"));
            }
            failure = Some(text);
            match (error, root) {
                (Error::Manifest(bad), Some(root)) => {
                    folder(flags, process.dir, root, name, &mut output.stdout).write_hooks(&bad.hooks, options)?;
                    bad_stream(
                        &bad,
                        StreamOptions {
                            no_hooks: true,
                            ..options
                        },
                    )
                }
                (Error::Manifest(bad), None) => bad_stream(&bad, options),
                _ => b"\n".to_vec(),
            }
        }
    };
    let patterns = flags.list("show-only");
    if patterns.is_empty() {
        if output.stdout.is_empty() {
            output.stdout = stream;
        } else {
            output.stdout.extend_from_slice(&stream);
        }
    } else {
        match show_only(&stream, &patterns) {
            Ok(shown) => output.stdout.extend_from_slice(&shown),
            Err(pattern) => {
                return Err(failure.unwrap_or_else(|| format!("could not find template {pattern} in chart")));
            }
        }
    }
    failure.map_or(Ok(()), Err)
}

fn folder<'a>(
    flags: &Parsed,
    base: &'a Path,
    root: &'a str,
    name: &'a str,
    report: &'a mut Vec<u8>,
) -> files::Folder<'a> {
    files::Folder {
        base,
        root,
        release: flags.bool("release-name").then_some(name),
        report,
    }
}

fn value_options(flags: &Parsed, base: &Path, fetch: Fetch) -> ValueOptions {
    ValueOptions {
        files: flags.list("values"),
        set: flags.list("set"),
        set_string: flags.list("set-string"),
        set_file: flags.list("set-file"),
        set_json: flags.list("set-json"),
        set_literal: flags.list("set-literal"),
        base: base.to_path_buf(),
        fetch: Some(fetch),
    }
}

fn env_bool(process: &Process<'_>, name: &str) -> bool {
    (process.env)(name).is_some_and(|text| ["1", "t", "T", "true", "TRUE", "True"].contains(&text.as_str()))
}

fn color_problem(flags: &Parsed) -> Option<String> {
    let mode = flags.last_of(&["color", "colour"])?;
    let known = ["never", "auto", "always"].contains(&mode);
    (!known).then(|| {
        format!(
            "invalid color mode {}: must be one of: never, auto, always",
            quote_go(mode)
        )
    })
}

/// Whether the cluster is asked (`cmdGetDryRunFlagStrategy`).
fn asks_server(flags: &Parsed, notices: &mut Vec<String>) -> Result<bool, String> {
    if flags.bool("validate") {
        return Ok(true);
    }
    let value = flags.text("dry-run").unwrap_or("client");
    match value {
        "client" => Ok(false),
        "server" => Ok(true),
        "unset" => {
            notices.push(
                "level=WARN msg=\"--dry-run is deprecated and should be replaced with '--dry-run=client'\"".to_owned(),
            );
            Ok(false)
        }
        "1" | "t" | "T" | "true" | "TRUE" | "True" => {
            notices.push(format!(
                "level=WARN msg=\"boolean '--dry-run={value}' flag is deprecated and must be replaced with \
                 '--dry-run=client'\""
            ));
            Ok(false)
        }
        "none" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Err(format!(
            "invalid dry-run value ({value:?}). Must be \"server\" or \"client\""
        )),
        _ => Err(format!(
            "invalid dry-run value ({}). Must be \"none\", \"server\", or \"client\"",
            quote_go(value)
        )),
    }
}

fn check(chart: Chart, flags: &Parsed) -> Result<Renderer, String> {
    Renderer::new(Arc::new(chart)).map_err(|e| {
        let text = e.to_string();
        if flags.bool("dependency-update") && text.contains("missing in charts/ directory") {
            return format!(
                "{text}\n\ndependencies are not downloaded: run `helm dependency update` instead of --dependency-update"
            );
        }
        text
    })
}

fn check_labels(flags: &Parsed) -> Result<(), String> {
    let is_system = |pair: &String| {
        pair.split_once('=')
            .is_some_and(|(key, _)| SYSTEM_LABELS.contains(&key))
    };
    if flags.list("labels").iter().any(is_system) {
        return Err(format!(
            "user supplied labels contains system reserved label name. System labels: [{}]",
            SYSTEM_LABELS.join(" ")
        ));
    }
    Ok(())
}

fn name_and_chart(flags: &Parsed, process: &Process<'_>) -> Result<(String, String), String> {
    let template = flags.text("name-template").filter(|template| !template.is_empty());
    match (flags.words.as_slice(), template) {
        ([_, _], _) if flags.bool("generate-name") => {
            Err("cannot set --generate-name and also specify a name".to_owned())
        }
        ([_, _], Some(_)) => Err("cannot set --name-template and also specify a name".to_owned()),
        ([name, chart], None) => Ok((name.clone(), chart.clone())),
        ([chart], Some(template)) => Ok((name::render(template, process.env)?, chart.clone())),
        ([chart], None) => Ok((DEFAULT_NAME.to_owned(), chart.clone())),
        (words, _) => Err(format!(
            "expected at most two arguments, unexpected arguments: {}",
            words.get(2..).unwrap_or_default().join(", ")
        )),
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let problem = if name.is_empty() {
        "no name provided"
    } else if name.len() > 53 || !name.split('.').all(is_label) {
        "invalid release name, must match regex ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and \
         the length must not be longer than 53"
    } else {
        return Ok(());
    };
    let quoted = quote_go(name);
    Err(format!("release name {quoted}: {problem}"))
}

fn is_label(text: &str) -> bool {
    let alphanumeric = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    alphanumeric(bytes.first())
        && alphanumeric(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-')
}
