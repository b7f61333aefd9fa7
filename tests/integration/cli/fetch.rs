//! Charts that are fetched: from repositories and registries that Helm has filled (`tests/fixtures/fetch`), and from servers
//! that mean harm.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use data_encoding::{BASE64, HEXLOWER};
use sha2::{Digest as _, Sha256};

use crate::world::fields::ensure_contains;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/fetch");
/// Who is let in.
const USER: &str = "tester";
const PASSWORD: &str = "secret";

/// An empty project, in a folder of its own, of a user without credentials.
struct FetchProject {
    dir: tempfile::TempDir,
    /// Its files without kinds.
    empty: Vec<(PathBuf, Vec<u8>)>,
}

impl FetchProject {
    fn new() -> Result<Self> {
        let mut project = FetchProject {
            dir: tempfile::tempdir()?,
            empty: Vec::new(),
        };
        fs::create_dir(project.path("shop"))?;
        let (done, printed) = project.run("init --domain example.com --name shop", "")?;
        ensure!(done, "{printed}");
        project.empty = files(&project.path("shop"))?;
        Ok(project)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, line: &str, stdin: &str) -> Result<(bool, String)> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_chartwright"));
        command.args(line.split(' ')).current_dir(self.path("shop"));
        command
            .env_remove("HELM_REPOSITORY_CONFIG")
            .env("HELM_CONFIG_HOME", self.path("helm"));
        command
            .env("DOCKER_CONFIG", self.path("docker"))
            .env("PATH", self.search_path());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // Other users need not read it.
        let _ = child.stdin.take().context("a pipe")?.write_all(stdin.as_bytes());
        let output = child.wait_with_output()?;
        let printed = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&printed).into_owned()))
    }

    /// With the programs of this project first.
    fn search_path(&self) -> String {
        let path = std::env::var("PATH").unwrap_or_default();
        format!("{}:{path}", self.path("bin").display())
    }

    /// Takes all kinds out.
    fn reset(&self) -> Result<()> {
        fs::remove_dir_all(self.path("shop"))?;
        for (path, data) in &self.empty {
            fs::create_dir_all(path.parent().context("a folder")?)?;
            fs::write(path, data)?;
        }
        Ok(())
    }

    /// Makes a kind of a chart.
    fn take(&self, source: &str, stdin: &str, parts: &[&str]) -> Result<()> {
        let line = format!("create api --group shop --kind Web --helm-chart {source}");
        let (done, printed) = self.run(&line, stdin)?;
        ensure!(done, "{line}: {printed}");
        ensure_contains(&printed, parts)?;
        ensure!(!printed.contains(PASSWORD), "{printed}");
        Ok(())
    }

    fn version(&self) -> Result<String> {
        let about = fs::read_to_string(self.path("shop/charts/web/Chart.yaml"))?;
        let version = about.lines().find_map(|line| line.strip_prefix("version: "));
        Ok(version.context("a version")?.to_owned())
    }

    /// The same of a chart that is fetched, and takes it out again.
    fn takes(&self, source: &str, version: &str) -> Result<()> {
        if cannot_verify(source) {
            return self.refuses(source, &[]);
        }
        self.take(source, PASSWORD, &["fetched ", "sha256:"])?;
        ensure!(
            self.version()? == version,
            "{source}: {} for {version}",
            self.version()?
        );
        self.reset()
    }

    /// One sentence, and nothing is written.
    fn refuses(&self, source: &str, parts: &[&str]) -> Result<()> {
        // Without it, the signature is what is missing first or last.
        let parts = if cannot_verify(source) { &[] } else { parts };
        let before = files(&self.path("shop"))?;
        let line = format!("create api --group shop --kind Web --helm-chart {source}");
        let (done, printed) = self.run(&line, PASSWORD)?;
        ensure!(!done && !printed.contains("panicked"), "{line}: {printed}");
        ensure_contains(&printed, parts)?;
        ensure!(
            printed.trim_end().lines().count() == 1 && !printed.contains(PASSWORD),
            "{line}: {printed}"
        );
        ensure!(files(&self.path("shop"))? == before, "{line}: something was written");
        Ok(())
    }
}

/// True if a signature is to be checked where GnuPG isn't installed: that is refused.
fn cannot_verify(source: &str) -> bool {
    source.contains("--verify") && Command::new("gpgv").arg("--version").output().is_err()
}

fn files(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            let data = fs::read(&path)?;
            found.push((path, data));
        }
    }
    found.sort();
    Ok(found)
}

/// The registry of the distribution project, with what Helm has pushed.
struct TestRegistry {
    child: Child,
    /// With the port.
    host: String,
}

impl TestRegistry {
    fn start(arguments: &[&str]) -> Result<Self> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/control-plane/build");
        let found = Command::new(script)
            .args(["--resolve", "registry"])
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(found.status.success(), "the build has said why it fails");
        let program = String::from_utf8(found.stdout)?;
        let mut child = Command::new(program.trim())
            .args(["-charts", FIXTURES])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut address = String::new();
        BufReader::new(child.stdout.take().context("a pipe")?).read_line(&mut address)?;
        let host = address.trim().split_once("://").context("no address")?.1.to_owned();
        Ok(TestRegistry { child, host })
    }
}

impl Drop for TestRegistry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a server answers for a path: a status, perhaps with headers, and a body.
pub type ChartAnswer = Box<dyn Fn(&str) -> (String, Vec<u8>) + Send>;

/// A plain HTTP server: its address and the requested paths.
pub fn serve(answer: ChartAnswer) -> Result<(String, Arc<Mutex<Vec<String>>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let received = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&received);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let Ok(read) = stream.try_clone() else { continue };
            let lines = BufReader::new(read).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let head = head.join("\n");
            let (status, body) = answer(&head);
            log.lock().expect("no panic").push(head);
            let size = body.len();
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
        }
    });
    Ok((address, received))
}

/// What a request is for, by its head.
pub fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// The repository that Helm has indexed; `locked`: for the user alone.
fn repository(locked: bool) -> Result<String> {
    let header = format!(
        "authorization: Basic {}",
        BASE64.encode(format!("{USER}:{PASSWORD}").as_bytes())
    );
    let (address, _) = serve(Box::new(move |head| {
        if locked && !head.to_lowercase().contains(&header.to_lowercase()) {
            return ("401 Unauthorized".to_owned(), Vec::new());
        }
        let name = path(head).trim_start_matches("/charts/").replace("%2B", "+");
        match fs::read(Path::new(FIXTURES).join("repository").join(name)) {
            Ok(data) => ("200 OK".to_owned(), data),
            Err(_) => ("404 Not Found".to_owned(), Vec::new()),
        }
    }))?;
    Ok(address)
}

#[test]
fn charts_come_from_a_repository() -> Result<()> {
    let project = FetchProject::new()?;
    let open = format!("http://{}/charts", repository(false)?);
    for (version, want) in [
        ("", "1.2.0"),
        (" --helm-chart-version ~1.1.0", "1.1.1+build.5"),
        (" --helm-chart-version 1.0.0", "1.0.0"),
        (" --helm-chart-version >=2.0.0-0", "2.0.0-rc.1"),
    ] {
        project.takes(&format!("web --helm-chart-repo {open}{version}"), want)?;
    }
    project.takes(&format!("{open}/web-1.1.0.tgz"), "1.1.0")?;
    let keys = format!("--verify --keyring {FIXTURES}/tester.gpg");
    project.takes(&format!("web --helm-chart-repo {open} {keys}"), "1.2.0")?;
    project.takes(&format!("{open}/web-1.1.0.tgz {keys}"), "1.1.0")?;
    let local = format!("{FIXTURES}/repository/web-1.0.0.tgz {keys}");
    if cannot_verify(&local) {
        project.refuses(&local, &[])?
    } else {
        project.take(&local, "", &["created"])?
    }
    project.reset()?;
    project.refuses(
        &format!("web --helm-chart-repo {open} --helm-chart-version ^3"),
        &["no version satisfies \"^3\"", "2.0.0-rc.1"],
    )?;
    project.refuses(
        &format!("nothing --helm-chart-repo {open}"),
        &["has no chart \"nothing\"", "common, web"],
    )?;
    project.refuses(
        &format!("web --helm-chart-repo {open}/none"),
        &["none/index.yaml: the server answers 404"],
    )?;
    project.refuses(
        &format!("{open}/web-1.1.0.tgz --helm-chart-version 1.2.0"),
        &["the chart is web 1.1.0"],
    )?;
    let stranger = format!("--verify --keyring {FIXTURES}/stranger.gpg");
    project.refuses(
        &format!("web --helm-chart-repo {open} {stranger}"),
        &["the signature doesn't hold"],
    )?;
    let unsigned = "--helm-chart-version 1.1.1+build.5";
    project.refuses(
        &format!("web --helm-chart-repo {open} {keys} {unsigned}"),
        &["the chart has no provenance file"],
    )?;

    let archive = fs::read(format!("{FIXTURES}/repository/web-1.0.0.tgz"))?;
    let signed = fs::read_to_string(format!("{FIXTURES}/repository/web-1.1.0.tgz.prov"))?;
    fs::write(project.path("other.tgz"), &archive)?;
    let stated = format!(
        "a: b\n...\nfiles:\n  other.tgz: sha256:{}\n",
        HEXLOWER.encode(&Sha256::digest(&archive))
    );
    for (provenance, part) in [
        (signed.clone(), "the signature is for another archive"),
        (
            signed.replace("type: application", "type: library"),
            "the signature doesn't hold",
        ),
        (format!("{stated}{signed}"), "the signature is for another archive"),
        (stated, "the signature doesn't hold"),
    ] {
        fs::write(project.path("other.tgz.prov"), provenance)?;
        project.refuses(&format!("../other.tgz {keys}"), &[part])?;
    }

    let locked = repository(true)?;
    let login = format!("--username {USER} --password-stdin");
    project.refuses(
        &format!("web --helm-chart-repo http://{locked}/charts"),
        &["the server answers 401"],
    )?;
    let known = format!(
        "repositories:\n- {{name: own, url: 'http://{locked}/charts', username: {USER}, password: {PASSWORD}}}\n"
    );
    project.takes(
        &format!("web --helm-chart-repo http://{locked}/charts {login}"),
        "1.2.0",
    )?;
    project.takes(
        &format!("web --helm-chart-repo http://{USER}:{PASSWORD}@{locked}/charts"),
        "1.2.0",
    )?;
    project.refuses("own/web", &["there is no such folder or file"])?;
    fs::create_dir(project.path("helm"))?;
    fs::write(project.path("helm/repositories.yaml"), known)?;
    project.takes("own/web --helm-chart-version 1.1.0", "1.1.0")?;
    project.takes("web --helm-chart-repo own", "1.2.0")?;
    project.refuses("other/web", &["there is no such folder or file"])
}

#[test]
fn charts_come_from_a_registry() -> Result<()> {
    let project = FetchProject::new()?;
    let open = TestRegistry::start(&[])?;
    let at = format!("oci://{}/charts", open.host);
    let manifest = fs::read(Path::new(FIXTURES).join("registry/web/1.0.0.json"))?;
    let digest = HEXLOWER.encode(&Sha256::digest(manifest));
    for (source, want) in [
        (format!("{at}/web"), "1.2.0"),
        (format!("{at}/web:1.0.0"), "1.0.0"),
        (format!("{at}/web --helm-chart-version 1.1.1+build.5"), "1.1.1+build.5"),
        (format!("{at}/web --helm-chart-version ~1.0"), "1.0.0"),
        (format!("{at}/web@sha256:{digest}"), "1.0.0"),
        (format!("web --helm-chart-repo {at}"), "1.2.0"),
        (
            format!("{at}/web:1.2.0 --verify --keyring {FIXTURES}/tester.gpg"),
            "1.2.0",
        ),
    ] {
        project.takes(&format!("{source} --plain-http"), want)?;
    }
    // A repository that has moved there.
    let index = format!("entries: {{web: [{{version: 1.1.0, urls: ['{at}/web:1.1.0'], digest: ab}}]}}");
    let (moved, _) = serve(Box::new(move |_| ("200 OK".to_owned(), index.clone().into_bytes())))?;
    project.takes(&format!("web --helm-chart-repo http://{moved} --plain-http"), "1.1.0")?;
    for (source, parts) in [
        (
            format!("{at}/web:9.9.9 --plain-http"),
            &["404 Not Found: there is no such chart or version"][..],
        ),
        (
            format!("{at}/none --plain-http"),
            &["there is no such chart or version"],
        ),
        (
            format!("{at}/web --helm-chart-version ^3 --plain-http"),
            &["no version satisfies \"^3\""],
        ),
        (
            format!("{at}/web:1.0.0 --helm-chart-version 1.1.0 --plain-http"),
            &["the tag of the reference differs from the version \"1.1.0\""],
        ),
        (
            format!("{at}/web@sha256:{} --plain-http", "a".repeat(64)),
            &["there is no such chart or version"],
        ),
        (
            format!("{at}/web:1.1.1_build.5 --plain-http --verify --keyring {FIXTURES}/tester.gpg"),
            &["isn't there"],
        ),
        (format!("{at}/Web --plain-http"), &["is no reference to a chart"]),
        (format!("{at}/web"), &["failed to fetch https://"]),
    ] {
        project.refuses(&source, parts)?;
    }
    Ok(())
}

#[test]
fn registries_receive_credentials() -> Result<()> {
    let project = FetchProject::new()?;
    fs::create_dir_all(project.path("docker"))?;
    fs::create_dir_all(project.path("bin"))?;
    let config = |text: &str| fs::write(project.path("docker/config.json"), text);
    let login = format!("--username {USER} --password-stdin");
    for auth in ["basic", "token"] {
        let registry = TestRegistry::start(&["-auth", auth])?;
        let host = &registry.host;
        let source = format!("oci://{host}/charts/web --plain-http");
        config("{}")?;
        project.refuses(&source, &["docker login"])?;
        project.refuses(&format!("{source} --username other --password-stdin"), &["401"])?;
        project.takes(&format!("{source} {login}"), "1.2.0")?;
        let secret = BASE64.encode(format!("{USER}:{PASSWORD}").as_bytes());
        config(&format!(r#"{{"auths": {{"{host}": {{"auth": "{secret}"}}}}}}"#))?;
        project.takes(&source, "1.2.0")?;
        config(&format!(r#"{{"credHelpers": {{"{host}": "test"}}}}"#))?;
        let helper = project.path("bin/docker-credential-test");
        fs::write(
            &helper,
            format!("#!/bin/sh\ncat >/dev/null\necho '{{\"Username\":\"{USER}\",\"Secret\":\"{PASSWORD}\"}}'\n"),
        )?;
        Command::new("chmod").arg("+x").arg(&helper).status()?;
        project.takes(&source, "1.2.0")?;
        fs::write(&helper, "#!/bin/sh\necho broken\nexit 1\n")?;
        project.refuses(&source, &["docker-credential-test fails: broken"])?;
        config("{}")?;
        if auth == "token" {
            project.takes(&format!("oci://{host}/public/web --plain-http"), "1.2.0")?;
        }
    }
    let folder = project.path("tls");
    fs::create_dir(&folder)?;
    let registry = TestRegistry::start(&["-auth", "token", "-tls", &folder.to_string_lossy()])?;
    let source = format!("oci://{}/charts/web {login}", registry.host);
    project.refuses(&source, &["certificate"])?;
    project.takes(&format!("{source} --ca-file {}/ca.pem", folder.display()), "1.2.0")?;
    project.refuses(
        &format!("{source} --ca-file {FIXTURES}/tester.gpg"),
        &["--ca-file", "tester.gpg"],
    )
}

/// What a request gives as its server.
fn host(head: &str) -> &str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    let host = lines.find(|(name, _)| name.eq_ignore_ascii_case("host"));
    host.map_or("", |(_, host)| host)
}

/// A registry that leads to another host in every way that it can: that host receives no secret.
#[test]
fn passwords_are_sent_to_the_registry_alone() -> Result<()> {
    let project = FetchProject::new()?;
    fs::create_dir_all(project.path("docker"))?;
    let archive = fs::read(format!("{FIXTURES}/repository/web-1.0.0.tgz"))?;
    let manifest = format!(
        r#"{{"config": {{"mediaType": "application/vnd.cncf.helm.config.v1+json", "digest": "sha256:00"}}, "layers": [{{
            "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip", "digest": "sha256:{}"}}]}}"#,
        HEXLOWER.encode(&Sha256::digest(&archive))
    );
    let ok = |body: &[u8]| ("200 OK".to_owned(), body.to_vec());
    let challenge = |text: &str| (format!("401 No\r\nWWW-Authenticate: {text}"), Vec::new());
    let (other, received) = serve(Box::new(move |head| match path(head) {
        "/basic" => challenge("Basic realm=\"here\""),
        "/bearer" => challenge(&format!("Bearer realm=\"http://{}/token\"", host(head))),
        "/blob" => ok(&archive),
        path if path.starts_with("/token") => ok(br#"{"token": "t"}"#),
        _ => ok(br#"{"tags": ["1.0.0"]}"#),
    }))?;
    let elsewhere = other.clone();
    let (registry, _) = serve(Box::new(move |head| {
        let moved = |path: &str| (format!("307 Moved\r\nLocation: http://{elsewhere}{path}"), Vec::new());
        let is_known = head.to_lowercase().contains("authorization: ");
        match path(head) {
            path if path.starts_with("/token") => moved(path),
            path if path.contains("/blobs/") => moved("/blob"),
            _ if !head.contains("Bearer t") && path(head).starts_with("/v2/token/") => {
                challenge(&format!("Bearer realm=\"http://{}/token\"", host(head)))
            }
            path if path.starts_with("/v2/realm/") => challenge(&format!("Bearer realm=\"http://{elsewhere}/token\"")),
            "/v2/basic/manifests/1.0.0" => moved("/basic"),
            "/v2/bearer/manifests/1.0.0" => moved("/bearer"),
            _ if !is_known => challenge("Basic realm=\"here\""),
            "/v2/pages/tags/list" => (
                format!("200 OK\r\nLink: <http://{elsewhere}/v2/pages/tags/list>; rel=\"next\""),
                br#"{"tags": ["0.1.0"]}"#.to_vec(),
            ),
            _ => ok(manifest.as_bytes()),
        }
    }))?;
    let config = |entry: &str| {
        let text = format!(r#"{{"auths": {{"{registry}": {entry}}}}}"#);
        fs::write(project.path("docker/config.json"), text)
    };
    let secret = BASE64.encode(format!("{USER}:{PASSWORD}").as_bytes());
    let kept = format!(r#"{{"auth": "{secret}"}}"#);
    let given = format!("--username {USER} --password-stdin");
    let token = format!(r#"{{"identitytoken": "{PASSWORD}"}}"#);
    let refused: [(&str, &str, &[&str]); 8] = [
        ("basic:1.0.0", "kept", &["redirects to http://", "are not sent there"]),
        ("bearer:1.0.0", "kept", &["redirects to http://", "are not sent there"]),
        ("bearer:1.0.0", "token", &["redirects to http://", "are not sent there"]),
        ("realm:1.0.0", "kept", &["to another host in plain text"]),
        ("realm:1.0.0", "given", &["to another host in plain text"]),
        ("pages", "kept", &["goes on at another host"]),
        ("pages", "given", &["goes on at another host"]),
        (
            "token:1.0.0",
            "token",
            &["redirects a request with a token to another host"],
        ),
    ];
    for (chart, login, parts) in refused {
        config(match login {
            "kept" => &kept,
            "token" => &token,
            _ => "{}",
        })?;
        let given = if login == "given" { &given } else { "" };
        let source = format!("oci://{registry}/{chart} --plain-http {given}");
        project.refuses(source.trim_end(), parts)?;
    }
    // What is sent from elsewhere without them is taken.
    config(&kept)?;
    project.takes(&format!("oci://{registry}/plain:1.0.0 --plain-http"), "1.0.0")?;
    project.takes(&format!("oci://{registry}/token:1.0.0 --plain-http"), "1.0.0")?;
    config("{}")?;
    project.takes(&format!("oci://{registry}/plain:1.0.0 --plain-http {given}"), "1.0.0")?;
    let received = received.lock().expect("no panic");
    ensure!(
        received.iter().any(|head| path(head) == "/blob"),
        "the other host is reached"
    );
    for head in received.iter() {
        let lower = head.to_lowercase();
        ensure!(
            !lower.contains("authorization") && !head.contains(PASSWORD) && !head.contains(&secret),
            "{other} received a secret: {head}"
        );
    }
    Ok(())
}

/// Names that are paths, options, commands or hidden, and archives with what has no place in a folder: refused, and nothing is
/// written, neither in the project nor beside it.
#[test]
fn hostile_charts_write_nothing_elsewhere() -> Result<()> {
    let project = FetchProject::new()?;
    let about = |name: &str| {
        let name = serde_json::to_string(name)?;
        anyhow::Ok(format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n").into_bytes())
    };
    let plain = about("web")?;
    let template = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n".to_vec();
    let pack = |entries: &[(&str, &[u8], tar::EntryType)]| -> Result<()> {
        let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(gzip);
        for (name, data, kind) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o644);
            let is_link = kind.is_symlink() || kind.is_hard_link();
            header.set_size(if is_link { 0 } else { data.len() as u64 });
            if is_link {
                header.set_link_name(std::str::from_utf8(data)?)?;
            }
            // The library refuses such names.
            let field = &mut header.as_gnu_mut().context("a header")?.name;
            field
                .get_mut(..name.len())
                .context("a short name")?
                .copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, if is_link { &[][..] } else { data })?;
        }
        fs::write(project.path("hostile.tgz"), archive.into_inner()?.finish()?)?;
        Ok(())
    };
    let outside = |project: &FetchProject| {
        let mut names: Vec<_> = fs::read_dir(project.dir.path())?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<std::io::Result<_>>()?;
        names.sort();
        anyhow::Ok((
            names,
            Path::new("/Chart.yaml").exists(),
            project.path("shop/x").exists(),
        ))
    };
    pack(&[("web/Chart.yaml", &plain, tar::EntryType::Regular)])?;
    let before = outside(&project)?;
    for name in [
        "/",
        "-rf",
        "$(touch x)",
        "`touch x`",
        ".hidden",
        ".git",
        "a b",
        "a;b",
        "web.verify",
        "a\\b",
        "ä",
        &"a".repeat(251),
    ] {
        pack(&[("web/Chart.yaml", &about(name)?, tar::EntryType::Regular)])?;
        project.refuses("../hostile.tgz", &["can't be the name of a chart"])?;
        let dependency = format!(
            "{}dependencies: [{{name: {name:?}, version: 1.0.0}}]\n",
            String::from_utf8_lossy(&plain)
        );
        pack(&[("web/Chart.yaml", dependency.as_bytes(), tar::EntryType::Regular)])?;
        project.refuses("../hostile.tgz", &["dependency", "can't be the name of a chart"])?;
        ensure!(outside(&project)? == before, "{name}: something was written elsewhere");
    }
    use tar::EntryType;
    let regular = EntryType::Regular;
    let cases: [(&str, &[u8], EntryType, &str); 11] = [
        ("web/templates", b"x", regular, "as a file and as a folder"),
        ("web/templates/a.yaml", b"x", regular, "twice"),
        ("web/TEMPLATES/b.yaml", b"x", regular, "differ only in case"),
        ("web/templates/A.yaml", b"x", regular, "differ only in case"),
        ("web/templates/a\u{1b}[2J.yaml", b"x", regular, "can't be written here"),
        ("web/templates/a\nb.yaml", b"x", regular, "can't be written here"),
        ("web/../../x", b"x", regular, "parent directory"),
        ("web//x", b"x", regular, "absolute paths"),
        ("web/link", b"/etc/passwd", EntryType::Symlink, "a link or a device"),
        ("web/hard", b"../../x", EntryType::Link, "a link or a device"),
        ("web/pipe", b"", EntryType::Fifo, "a link or a device"),
    ];
    for (name, data, kind, want) in cases {
        pack(&[
            ("web/Chart.yaml", &plain, regular),
            ("web/templates/a.yaml", &template, regular),
            (name, data, kind),
        ])?;
        project.refuses("../hostile.tgz", &["hostile.tgz", want])?;
        ensure!(outside(&project)? == before, "{name}: something was written elsewhere");
    }
    for options in [
        "--kind ../../X",
        "--plural ../../x",
        "--plural=-x",
        "--group ../x",
        "--version ../x",
    ] {
        pack(&[("web/Chart.yaml", &plain, regular)])?;
        let (done, printed) = project.run(&format!("create api --helm-chart ../hostile.tgz {options}"), "")?;
        ensure!(
            !done && printed.contains("can't be") || printed.contains("is no API version"),
            "{options}: {printed}"
        );
        ensure!(
            outside(&project)? == before,
            "{options}: something was written elsewhere"
        );
    }
    // Hooks of git are programs, and the rest of the chart is none the worse without them.
    pack(&[
        ("web/Chart.yaml", &plain, regular),
        ("web/templates/a.yaml", &template, regular),
        ("web/.git/hooks/post-checkout", b"#!/bin/sh", regular),
        ("web/charts/.GIT/config", b"x", regular),
    ])?;
    project.take("../hostile.tgz", "", &["charts/web/templates/a.yaml: created"])?;
    ensure!(!project.path("shop/charts/web/.git").exists() && !project.path("shop/charts/web/charts").exists());
    project.reset()?;

    // A folder whose links lead out of it.
    let folder = project.path("web");
    fs::create_dir_all(folder.join("templates"))?;
    fs::write(folder.join("Chart.yaml"), &plain)?;
    fs::write(project.path("outside"), PASSWORD)?;
    for (target, name) in [("../../outside", "templates/a.yaml"), ("/etc", "files")] {
        std::os::unix::fs::symlink(target, folder.join(name))?;
        project.refuses("../web", &[name, "outside of the chart's folder"])?;
        fs::remove_file(folder.join(name))?;
    }
    Ok(())
}

#[test]
fn dependencies_are_fetched() -> Result<()> {
    let project = FetchProject::new()?;
    let registry = TestRegistry::start(&[])?;
    let address = repository(false)?;
    fs::create_dir(project.path("helm"))?;
    let known = format!("repositories:\n- {{name: own, url: 'http://{address}/charts'}}\n");
    fs::write(project.path("helm/repositories.yaml"), known)?;
    let chart = project.path("web");
    fs::create_dir_all(chart.join("templates"))?;
    let local = project.path("local");
    fs::create_dir_all(local.join("templates"))?;
    fs::write(
        local.join("Chart.yaml"),
        "apiVersion: v2\nname: local\nversion: 0.3.0\n",
    )?;
    fs::write(local.join(".helmignore"), "secret.txt\n")?;
    fs::write(local.join("secret.txt"), "not for others")?;
    let about = |dependencies: &str| {
        let text = format!("apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n{dependencies}");
        fs::write(chart.join("Chart.yaml"), text)
    };
    about(&format!(
        "- {{name: common, version: ^0.1, repository: '@own'}}\n\
         - {{name: common, alias: second, version: '>0.1', repository: 'alias:own'}}\n\
         - {{name: local, version: 0.x, repository: 'file://../local'}}\n\
         - {{name: web, alias: inner, version: ~1.0, repository: 'oci://{}/charts', condition: inner.on}}\n",
        registry.host
    ))?;
    let source = format!("{} --plain-http", chart.display());
    project.take(
        &source,
        "",
        &[
            "common-0.1.0.tgz: from http://",
            "common-0.2.0.tgz",
            "local-0.3.0.tgz",
            "web-1.0.0.tgz",
        ],
    )?;
    let made = project.path("shop/charts/web");
    ensure!(
        fs::read(made.join("charts/common-0.2.0.tgz"))? == fs::read(format!("{FIXTURES}/repository/common-0.2.0.tgz"))?
    );
    let lock = fs::read_to_string(made.join("Chart.lock"))?;
    ensure_contains(&lock, &["version: 0.2.0", "version: 0.3.0", "digest: sha256:"])?;
    let (done, printed) = project.run("template x charts/web", "")?;
    ensure!(done, "{printed}");
    // Of a chart that is in the project already, too.
    fs::remove_file(made.join("charts/common-0.2.0.tgz"))?;
    fs::remove_file(made.join("Chart.lock"))?;
    fs::write(made.join("NOTES.md"), "mine")?;
    project.take(
        "charts/web --plain-http",
        "",
        &["common-0.2.0.tgz: created", "charts/web/Chart.lock: created"],
    )?;
    ensure!(made.join("charts/common-0.2.0.tgz").exists());
    ensure_contains(
        &fs::read_to_string(made.join("Chart.lock"))?,
        &["version: 0.2.0", "version: 0.3.0"],
    )?;

    // Versions are those of the lock, which holds for these dependencies only.
    fs::write(chart.join("Chart.lock"), &lock)?;
    let again = |parts: &[&str]| -> Result<()> {
        project.reset()?;
        project.take(&source, "", parts)
    };
    again(&["common-0.1.0.tgz", "local-0.3.0.tgz"])?;
    ensure!(fs::read_to_string(made.join("Chart.lock"))? == lock);
    let other = "create api --group shop --kind Other --dry-run --helm-chart";
    let refused = |parts: &[&str]| -> Result<()> {
        let before = files(&project.path("shop"))?;
        let (done, printed) = project.run(&format!("{other} {source}"), "")?;
        ensure!(!done && printed.trim_end().lines().count() == 1, "{printed}");
        ensure!(files(&project.path("shop"))? == before);
        ensure_contains(&printed, parts)
    };
    about("- {name: common, version: ^0.2, repository: '@own'}\n")?;
    refused(&["Chart.lock", "out of sync"])?;
    fs::remove_file(chart.join("Chart.lock"))?;
    for (dependency, parts) in [
        (
            "version: ^9, repository: '@own'",
            &["dependency \"common\" \"^9\"", "no version satisfies"][..],
        ),
        (
            "version: ^0.2, repository: '@other'",
            &["no repository that Helm knows"],
        ),
        ("version: ^0.2, repository: own", &["is no address of a repository"]),
        ("version: ^0.2", &["it names no repository"]),
        ("version: ^0.2, repository: 'file://../none'", &["file://../none"]),
        (
            "version: ^0.2, repository: 'file://../local'",
            &["there is the chart \"local\" instead"],
        ),
    ] {
        about(&format!("- {{name: common, {dependency}}}\n"))?;
        refused(parts)?;
    }
    // It sends the credentials itself.
    about("- {name: web, version: 1.x, repository: 'file://.'}\n")?;
    refused(&["more than 8 levels deep"])
}

/// What the chart's own values switch off isn't missed offline, until a release switches it on.
#[test]
fn disabled_dependencies_need_no_network() -> Result<()> {
    let project = FetchProject::new()?;
    let chart = project.path("web");
    fs::create_dir_all(chart.join("templates"))?;
    fs::create_dir_all(chart.join("verify"))?;
    fs::write(chart.join(".helmignore"), "verify/\n")?;
    fs::write(
        chart.join("templates/a.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    )?;
    let about = |name: &str, extra: &str| {
        let address = "http://127.0.0.1:1";
        let text = format!(
            "apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n\
             - {{name: {name}, version: ^1, repository: '{address}', {extra}}}\n"
        );
        fs::write(chart.join("Chart.yaml"), text)
    };
    fs::write(
        chart.join("values.yaml"),
        "db: {enabled: false}\nhere: {enabled: true}\ntags: {extra: false}\n",
    )?;
    let source = "../web --plain-http";
    for (name, extra) in [
        ("db", "condition: db.enabled"),
        ("postgres", "alias: db, condition: 'other.enabled,db.enabled'"),
        ("db", "tags: [extra]"),
    ] {
        about(name, extra)?;
        project.take(
            source,
            "",
            &[
                "warning: charts/ has no ",
                "switch off",
                "charts/web/Chart.yaml: created",
            ],
        )?;
        ensure!(!project.path("shop/charts/web/Chart.lock").exists());
        let on = if extra.starts_with("tags") {
            "{tags: {extra: true}}"
        } else {
            "{db: {enabled: true}}"
        };
        let cases = format!(
            "cases:\n- {{name: it is off, spec: {{}}, expect: {{objects: [ConfigMap a]}}}}\n\
             - {{name: it is on, spec: {on}, expect: {{refused: {{reason: ChartInvalid, text: 'missing in charts/ directory: {name}'}}}}}}\n"
        );
        fs::create_dir_all(project.path("shop/charts/web/verify"))?;
        fs::write(project.path("shop/charts/web/verify/a.yaml"), cases)?;
        let (done, printed) = project.run("verify charts/web", "")?;
        ensure!(done, "{extra}: {printed}");
        // Helm renders no such chart.
        let (done, printed) = project.run("template x charts/web", "")?;
        ensure!(!done && printed.contains("missing in charts/ directory"), "{printed}");
        project.reset()?;
    }
    for extra in [
        "",
        "condition: here.enabled",
        "condition: nowhere.enabled",
        "tags: [other]",
    ] {
        about("here", extra)?;
        project.refuses(source, &["dependency \"here\"", "refused"])?;
    }
    Ok(())
}

#[test]
fn wrong_chart_sources_give_one_clear_error() -> Result<()> {
    let project = FetchProject::new()?;
    let archive = fs::read(format!("{FIXTURES}/repository/web-1.0.0.tgz"))?;
    let manifest = |kind: &str, layer: &str| {
        format!(
            r#"{{"config": {{"mediaType": "{kind}", "digest": "sha256:00"}}, "layers": [{{"mediaType": "{layer}", "digest": "sha256:{}"}}]}}"#,
            "0".repeat(64)
        )
    };
    let config = "application/vnd.cncf.helm.config.v1+json";
    let layer = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
    let wrong = manifest(config, layer);
    let image = manifest("application/vnd.oci.image.config.v1+json", layer);
    let empty = manifest(config, "text/plain");
    let (address, received) = serve(Box::new(move |head| {
        let path = path(head);
        let ok = |body: &[u8]| ("200 OK".to_owned(), body.to_vec());
        match path {
            "/html/index.yaml" => ok(b"<html>Log in, please</html>"),
            "/yaml/index.yaml" => ok(b"entries: {web: [{version: 1.0.0, urls: [a.tgz]}]}"),
            "/yaml/a.tgz" => ok(b"<html>Log in, please</html>"),
            "/digest/index.yaml" => ok(b"entries: {web: [{version: 1.0.0, urls: [web.tgz], digest: 'sha256:ab'}]}"),
            "/digest/web.tgz" => ok(&archive),
            "/cut/web.tgz" => ok(&archive[..archive.len() / 2]),
            "/v2/a/tags/list" => ok(b"{}"),
            "/v2/b/tags/list" => ok(b"<html>"),
            "/v2/round/tags/list" => (
                "200 OK\r\nLink: </v2/round/tags/list>; rel=\"next\"".to_owned(),
                b"{}".to_vec(),
            ),
            "/v2/html/manifests/1.0.0" => ok(b"<html>"),
            "/v2/image/manifests/1.0.0" => ok(image.as_bytes()),
            "/v2/empty/manifests/1.0.0" => ok(empty.as_bytes()),
            "/v2/wrong/manifests/1.0.0" => ok(wrong.as_bytes()),
            "/v2/index/manifests/1.0.0" => {
                ok(br#"{"mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}"#)
            }
            "/v2/realm/manifests/1.0.0" => (
                "401 No\r\nWWW-Authenticate: Bearer realm=\"http://127.0.0.1:1/token\"".to_owned(),
                Vec::new(),
            ),
            "/v2/mute/manifests/1.0.0" => ("401 No".to_owned(), Vec::new()),
            path if path.contains("/blobs/") => ok(b"something else"),
            _ => ("500 Broken".to_owned(), Vec::new()),
        }
    }))?;
    let http = format!("http://{address}");
    let oci = format!("oci://{address}");
    for (source, parts) in [
        (
            format!("web --helm-chart-repo {http}/html"),
            &["html/index.yaml: it is no index of a chart repository"][..],
        ),
        (
            format!("web --helm-chart-repo {http}/yaml"),
            &["a.tgz", "gzipped archive"],
        ),
        (
            format!("web --helm-chart-repo {http}/digest"),
            &["the SHA-256 should be ab, and what was sent has "],
        ),
        (format!("{http}/cut/web.tgz"), &["cut/web.tgz", "unpacked"]),
        (format!("{http}/broken.tgz"), &["broken.tgz: the server answers 500"]),
        (
            "http://127.0.0.1:1/web.tgz".to_owned(),
            &["failed to fetch http://127.0.0.1:1/web.tgz", "refused"],
        ),
        (
            "https://no.such.host.invalid/web.tgz".to_owned(),
            &["failed to fetch https://no.such.host.invalid/web.tgz"],
        ),
        (format!("{oci}/a --plain-http"), &["there is no version at all"]),
        (format!("{oci}/b --plain-http"), &["list of tags can't be read"]),
        (format!("{oci}/round --plain-http"), &["there is no version at all"]),
        (
            format!("{oci}/html:1.0.0 --plain-http"),
            &["the registry's answer is no manifest"],
        ),
        (
            format!("{oci}/image:1.0.0 --plain-http"),
            &["there is no Helm chart, but \"application/vnd.oci.image.config.v1+json\""],
        ),
        (
            format!("{oci}/index:1.0.0 --plain-http"),
            &["there is no Helm chart, but \"application/vnd.oci.image.index.v1+json\""],
        ),
        (format!("{oci}/empty:1.0.0 --plain-http"), &["no layer with a chart"]),
        (
            format!("{oci}/wrong:1.0.0 --plain-http"),
            &["the SHA-256 should be 0000"],
        ),
        (
            format!("{oci}/realm:1.0.0 --plain-http"),
            &["to another host in plain text, http://127.0.0.1:1/token"],
        ),
        (format!("{oci}/mute:1.0.0 --plain-http"), &["doesn't say what it wants"]),
        ("web --helm-chart-repo stable".to_owned(), &["\"stable\" is no address"]),
        (
            "memcached".to_owned(),
            &["there is no such folder or file", "--helm-chart-repo"],
        ),
        (format!("./none --helm-chart-repo {http}"), &["is no name of a chart"]),
    ] {
        project.refuses(&source, parts)?;
    }
    ensure!(!received.lock().expect("no panic").is_empty());
    Ok(())
}
