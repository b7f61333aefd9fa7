//! `chartwright template`: renders a chart as `helm template` does, without Helm.
//!
//! Standard output and the exit code equal those of Helm 4.3.1, and so do the errors of rendering.
//! Facts: Helm's `pkg/cmd/{template,install}.go` and `pkg/action/install.go`.

mod args;
mod caret;
mod files;
mod install;
mod kubeconfig;
mod server;
#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, FromArgMatches};

pub use self::args::TemplateArgs;
use chartwright_scaffold::fetch::http;
use chartwright_watches::names::is_dns_label;
use go_template::quote::quote_go;
use go_yaml::GO_MAX_DEPTH;
use helm_template::Chart;
use helm_template::chart::Warning;
use helm_template::render::{
    Capabilities, Engine, Error, Input, KubeVersion, Limits, Lookup, NoCluster, ReleaseObject, Rendered, StreamOptions,
    bad_stream, on_large_stack, render_text, show_only, to_stream,
};

/// The name that Helm gives a release without one.
const DEFAULT_NAME: &str = "release-name";
/// What Helm appends to rendering errors.
const DEBUG_HINT: &str = "\n\nUse --debug flag to render out invalid YAML";

/// Output, exit code and error of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// The exit code.
    pub code: u8,
    /// Helm's error text: what follows `Error: ` in `stderr`. `stderr` may have more before and after.
    pub error: Option<String>,
}

/// What was printed before the end or an error.
#[derive(Debug, Default)]
struct TemplateOutput {
    stdout: Vec<u8>,
    notices: Vec<String>,
    /// The template line of the error, printed before it.
    excerpt: Option<String>,
}

/// Runs the command with the process's streams and prints the result.
pub fn run(args: &TemplateArgs) -> ExitCode {
    print_captured(&capture(args, &mut io::stdin(), Path::new(""))).into()
}

/// Prints the output of a run. Returns the exit code.
fn print_captured(captured: &CapturedOutput) -> u8 {
    let mut stdout = io::stdout().lock();
    let printed = stdout.write_all(&captured.stdout).and_then(|()| stdout.flush());
    let _ = io::stderr().write_all(&captured.stderr);
    match printed {
        // A closed pipe is no error.
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "Error: standard output: {e}");
            1
        }
        _ => captured.code,
    }
}

/// Runs the command within this process. `words` follow `template`; relative paths start from `dir`. Does not use the process's
/// streams, its environment or its user's kubeconfig.
pub fn run_captured(words: &[&str], mut stdin: &[u8], dir: &Path) -> CapturedOutput {
    match parse(words) {
        Ok(mut args) => {
            if args.kubeconfig.is_empty() {
                let given = args.namespace.filter(|name| !name.is_empty());
                args.namespace = given.or_else(|| Some("default".to_owned()));
            }
            capture(&args, &mut stdin, dir)
        }
        Err(error) => capture_error(error.to_string()),
    }
}

/// Parses arguments without the environment.
fn parse(words: &[&str]) -> Result<TemplateArgs, clap::Error> {
    let command = TemplateArgs::augment_args(clap::Command::new("template").no_binary_name(true));
    let command = command.mut_args(|arg| arg.env(None::<&'static str>));
    TemplateArgs::from_arg_matches(&command.try_get_matches_from(words)?)
}

fn capture_error(text: String) -> CapturedOutput {
    CapturedOutput {
        stderr: format!("Error: {text}\n").into_bytes(),
        code: 1,
        error: Some(text),
        ..CapturedOutput::default()
    }
}

/// Runs the command on a stack that is large enough for values as deep as Helm accepts.
fn capture(args: &TemplateArgs, stdin: &mut (dyn Read + Send), dir: &Path) -> CapturedOutput {
    let mut output = TemplateOutput::default();
    let error = on_large_stack(|| execute(args, stdin, dir, &mut output)).err();
    let mut captured = error.map(capture_error).unwrap_or_default();
    let mut before = String::new();
    for notice in &output.notices {
        before.push_str(notice);
        before.push('\n');
    }
    // Before the error, which may have several lines: the text from `Error:` on is Helm's.
    before.push_str(output.excerpt.as_deref().unwrap_or_default());
    captured.stderr.splice(..0, before.into_bytes());
    captured.stdout = output.stdout;
    captured
}

/// Renders and prints. Errors are the text after `Error: `. The order of the checks is Helm's: it decides which error is reported.
fn execute(args: &TemplateArgs, stdin: &mut dyn Read, dir: &Path, output: &mut TemplateOutput) -> Result<(), String> {
    let mut capabilities = read_capabilities(args)?;
    let (name, chart) = read_name_and_chart(args)?;
    let source = locate_chart(dir, &chart)?;
    let (values, raw_texts) = args
        .value_options(dir)
        .merge(stdin, GO_MAX_DEPTH)
        .map_err(|e| e.to_string())?;
    let mut renderer = Engine::new(load_chart(source, output)?).map_err(|e| e.to_string())?;
    renderer.fetch = Some(Arc::new(http::get));
    if args.enable_dns {
        renderer.hosts = Some(Arc::new(resolve_host));
    }
    let cluster = if args.needs_cluster() {
        Some(Arc::new(
            server::TemplateCluster::connect(args, dir).map_err(|e| format!("{e:#}"))?,
        ))
    } else {
        None
    };
    check_name(&name)?;
    if let Some(cluster) = &cluster {
        // As in Helm, the versions of the command line are ignored.
        capabilities = cluster.snapshot.capabilities.clone();
    }
    let release = ReleaseObject {
        is_install: !args.is_upgrade,
        is_upgrade: args.is_upgrade,
        ..ReleaseObject::install(&name, kubeconfig::find_namespace(args, dir))
    };
    let input = Input {
        raw_texts,
        capabilities: &capabilities,
        lookup: match &cluster {
            Some(cluster) => Arc::clone(cluster) as Arc<dyn Lookup>,
            None => Arc::new(NoCluster),
        },
        // The user can interrupt the command, so only the limit of steps is low.
        limits: Limits {
            time: Duration::from_secs(600),
            yaml_depth: GO_MAX_DEPTH,
            ..Limits::default()
        },
        include_crds: args.include_crds,
        skip_schema: args.skip_schema_validation,
        ..Input::new(release, serde_json::Value::Object(values))
    };
    let mut log = Vec::new();
    let result = renderer.render_logged(&input, &mut log);
    output.notices.extend(log.iter().map(Warning::log_line));
    let install = cluster.as_ref().map(|cluster| install::InstallCheck {
        cluster,
        name: &name,
        namespace: &input.release.namespace,
        owns_all: args.is_upgrade || args.take_ownership,
    });
    let check = |rendered: &Rendered| install.map_or(Ok(()), |install| install.check(rendered));
    print_render(args, dir, &name, &renderer, result, output, check)
}

/// Returns the capabilities of the command line.
fn read_capabilities(args: &TemplateArgs) -> Result<Capabilities, String> {
    let mut capabilities = Capabilities::default();
    if let Some(version) = args.kube_version.as_deref().filter(|version| !version.is_empty()) {
        capabilities.kube_version =
            KubeVersion::parse(version).map_err(|e| format!("invalid kube version '{version}': {e}"))?;
    }
    Arc::make_mut(&mut capabilities.api_versions).extend(args::without_empty(&args.api_versions));
    Ok(capabilities)
}

fn load_chart(source: ChartSource, output: &mut TemplateOutput) -> Result<Chart, String> {
    let mut logged = Vec::new();
    let chart = match source {
        ChartSource::Path(path) => Chart::load_logged(&path, GO_MAX_DEPTH, &mut logged),
        ChartSource::Url(url) => {
            let path = PathBuf::from(http::without_password(&url));
            Chart::unpack_logged(&path, &http::get(&url)?, GO_MAX_DEPTH, &mut logged)
        }
    };
    output.notices.extend(logged.iter().map(Warning::log_line));
    let chart = chart.map_err(|e| e.to_string())?;
    if chart.metadata.deprecated && chart.has_installable_type() {
        let notice = "level=WARN msg=\"this chart is deprecated\"";
        output.notices.push(notice.to_owned());
    }
    Ok(chart)
}

/// Prints a render that passes `check`. Prints the rest of a failed render only with `--debug`.
fn print_render(
    args: &TemplateArgs,
    dir: &Path,
    name: &str,
    renderer: &Engine,
    result: Result<Rendered, Error>,
    output: &mut TemplateOutput,
    check: impl FnOnce(&Rendered) -> Result<(), String>,
) -> Result<(), String> {
    let options = StreamOptions {
        no_hooks: args.no_hooks,
        skip_tests: args.skip_tests,
    };
    let root = args.output_dir.as_deref().filter(|folder| !folder.is_empty());
    let folder = root.map(|root| files::OutputFolder {
        base: dir,
        root,
        release: args.release_name.then_some(name),
        report: &mut output.stdout,
    });
    let mut failure = None;
    let stream = match result {
        Ok(rendered) => match folder {
            Some(mut folder) => {
                folder.write(&rendered)?;
                folder.write_hooks(&rendered.hooks, options)?;
                "\n".to_owned()
            }
            None => {
                check(&rendered)?;
                to_stream(&rendered, options)
            }
        },
        Err(error) => {
            let text = error.to_string();
            output.excerpt = error
                .place()
                .and_then(|place| caret::format_excerpt(renderer.chart(), place));
            if error.is_about_values() || error.is_about_chart() {
                return Err(text);
            }
            if !args.debug {
                return Err(format!("{text}{DEBUG_HINT}"));
            }
            failure = Some(text);
            print_failed_render(error, folder, options)?
        }
    };
    match show_only(&stream, &args.show_only) {
        _ if args.show_only.is_empty() => output.stdout.extend_from_slice(stream.as_bytes()),
        Ok(shown) => output.stdout.extend_from_slice(shown.as_bytes()),
        Err(pattern) => {
            return Err(failure.unwrap_or_else(|| format!("could not find template {pattern} in chart")));
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Returns the manifests of a failed render.
fn print_failed_render(
    error: Error,
    folder: Option<files::OutputFolder<'_>>,
    options: StreamOptions,
) -> Result<String, String> {
    let Error::Manifest(bad) = error else {
        return Ok("\n".to_owned());
    };
    let Some(mut folder) = folder else {
        return Ok(bad_stream(&bad, options));
    };
    folder.write_hooks(&bad.hooks, options)?;
    let no_hooks = true;
    Ok(bad_stream(&bad, StreamOptions { no_hooks, ..options }))
}

/// Place of a chart.
enum ChartSource {
    /// A folder or an archive.
    Path(PathBuf),
    /// URL of an archive.
    Url(String),
}

/// Finds the chart that the command line names (`LocateChart` in Helm's `pkg/action/install.go`).
fn locate_chart(dir: &Path, chart: &str) -> Result<ChartSource, String> {
    let name = chart.trim();
    let path = dir.join(name);
    if !name.is_empty() && path.exists() {
        return Ok(ChartSource::Path(path));
    }
    if http::is_url(name) {
        return Ok(ChartSource::Url(name.to_owned()));
    }
    if name.starts_with(['/', '.']) {
        return Err(format!("path {} not found", quote_go(name)));
    }
    Err(format!(
        "{}: there is no such folder or file, and charts of repositories and registries are not downloaded: run `helm pull` \
         first and give the path of the chart",
        quote_go(name)
    ))
}

/// Returns the addresses of a host for `getHostByName`. Empty if this machine's resolver does not know the host.
fn resolve_host(host: &str) -> Vec<String> {
    let found = (host, 0).to_socket_addrs().into_iter().flatten();
    found.map(|found| found.ip().to_string()).collect()
}

fn read_name_and_chart(args: &TemplateArgs) -> Result<(String, String), String> {
    let template = args.name_template.as_deref().filter(|template| !template.is_empty());
    match (args.words.as_slice(), template) {
        ([_, _], _) if args.generate_name => Err("cannot set --generate-name and also specify a name".to_owned()),
        ([_, _], Some(_)) => Err("cannot set --name-template and also specify a name".to_owned()),
        ([name, chart], None) => Ok((name.clone(), chart.clone())),
        ([chart], Some(template)) => {
            let name = render_text("name-template", template, &serde_json::Value::Null, Limits::default())?;
            Ok((name, chart.clone()))
        }
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
    } else if name.len() > 53 || !name.split('.').all(is_dns_label) {
        "invalid release name, must match regex ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and \
         the length must not be longer than 53"
    } else {
        return Ok(());
    };
    let quoted = quote_go(name);
    Err(format!("release name check failed: release name {quoted}: {problem}"))
}
