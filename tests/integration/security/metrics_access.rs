//! Metrics over HTTPS, and who may read them. The API server decides about real tokens of ServiceAccounts.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme, StreamOwned,
};

use super::operator_rights::unused;
use crate::support::{Kubectl, until};
use crate::world::fields::ensure_contains;
use crate::world::operator::{Launch, METERED};
use crate::world::{SOON, World, WorldSetup};

const AUTH_ROLE: &str = "rbac/metrics_auth_role.yaml";
const READER_ROLE: &str = "rbac/metrics_reader_role.yaml";

/// A little longer than an answer of the API server counts.
const VERDICT_AGE: Duration = Duration::from_millis(10_500);

/// As operator-sdk's config/default/manager_metrics_patch.yaml starts an operator.
const PROTECTED: Launch<'static> = Launch {
    arguments: &["--metrics-secure", "--metrics-require-rbac"],
    ..METERED
};

/// Accepts every certificate, as Prometheus does with `insecureSkipVerify`.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Reads /metrics over HTTPS as `name`, with a verifier of the certificate: the answer with its head.
fn scrape(port: u16, name: &str, verifier: Arc<dyn ServerCertVerifier>, token: Option<&str>) -> Result<String> {
    let head = "GET /metrics HTTP/1.1\r\nHost: localhost";
    fetch(port, name, verifier, head, token, "")
}

/// Sends a request, given as its first lines and its body, over HTTPS: the answer with its head.
fn fetch(
    port: u16,
    name: &str,
    verifier: Arc<dyn ServerCertVerifier>,
    head: &str,
    token: Option<&str>,
    body: &str,
) -> Result<String> {
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned())?;
    let connection = ClientConnection::new(Arc::new(config), name)?;
    let mut stream = StreamOwned::new(connection, TcpStream::connect(("127.0.0.1", port))?);
    let credentials = token.map_or(String::new(), |token| format!("Authorization: Bearer {token}\r\n"));
    // As one piece: the server may answer and close the connection before a second one arrives.
    stream.write_all(format!("{head}\r\n{credentials}\r\n{body}").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Reads /metrics over HTTPS without a check of the certificate.
pub fn scrape_insecurely(port: u16, token: Option<&str>) -> Result<String> {
    let verifier = AnyCertificate(Arc::new(aws_lc_rs::default_provider()));
    scrape(port, "localhost", Arc::new(verifier), token)
}

/// The answer to a request over HTTPS without a check of the certificate.
fn fetch_insecurely(port: u16, request: &str, token: Option<&str>) -> Result<String> {
    let verifier = AnyCertificate(Arc::new(aws_lc_rs::default_provider()));
    let head = format!("{request} HTTP/1.1\r\nHost: localhost");
    fetch(port, "localhost", Arc::new(verifier), &head, token, "")
}

/// Posts a body over HTTPS without a check of the certificate: the answer with its head.
pub fn post_insecurely(port: u16, path: &str, body: &str) -> Result<String> {
    let verifier = AnyCertificate(Arc::new(aws_lc_rs::default_provider()));
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}",
        body.len()
    );
    fetch(port, "localhost", Arc::new(verifier), &head, None, body)
}

/// Creates a ServiceAccount in kubectl's namespace. Returns a token of it.
fn account(kubectl: &Kubectl, name: &str) -> Result<String> {
    kubectl.run(["create", "serviceaccount", name])?;
    Ok(kubectl.run(["create", "token", name])?.trim().to_owned())
}

/// Creates a ServiceAccount that has this ClusterRole. Returns a token of it.
pub fn reader_of_metrics(kubectl: &Kubectl, role: &str) -> Result<String> {
    let token = account(kubectl, "reader")?;
    let namespace = kubectl.run([
        "get",
        "serviceaccount",
        "reader",
        "-o",
        "jsonpath={.metadata.namespace}",
    ])?;
    let namespace = namespace.trim();
    kubectl.run([
        "create",
        "clusterrolebinding",
        &format!("{namespace}-reader"),
        &format!("--clusterrole={role}"),
        &format!("--serviceaccount={namespace}:reader"),
    ])?;
    Ok(token)
}

/// A world with the roles of `config/rbac` for metrics. Returns it with the token of an account that may read them.
fn world_with_reader(name: &str, setup: WorldSetup<'_>) -> Result<(World, String)> {
    let world = World::with(name, setup)?;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("{name}-metrics-reader")}, "rules": world.project_rules(READER_ROLE)?,
    });
    world.kubectl.apply(&role.to_string())?;
    let token = reader_of_metrics(&world.kubectl, &format!("{name}-metrics-reader"))?;
    Ok((world, token))
}

#[test]
fn metrics_need_a_token_with_the_right() -> Result<()> {
    let (world, reader) = world_with_reader("metrics-access", WorldSetup::USUAL)?;
    let stranger = account(&world.kubectl, "stranger")?;
    // The log with all lines of all libraries.
    let launch = Launch {
        environment: &[("RUST_LOG", "trace")],
        ..PROTECTED
    };
    let operator = world.launch(&launch)?;
    operator.await_log("watching")?;
    let port = operator.metrics_port()?;
    let scrape = |token: &str| scrape_insecurely(port, Some(token));

    // Before the operator itself has the right to ask.
    ensure_contains(&scrape(&reader)?, &["HTTP/1.1 500", "the operator's log"])?;
    operator.await_log("metrics-auth-role")?;
    world.grant("metrics-auth", &world.project_rules(AUTH_ROLE)?)?;
    until("the operator may review", SOON, || {
        Ok(scrape(&reader)?.starts_with("HTTP/1.1 200"))
    })?;

    let start = world.mark()?;
    let reviews = || {
        world
            .all_requests(&operator, start)
            .map(|requests| requests.verb("create").kinds())
    };
    let none = scrape_insecurely(port, None)?;
    ensure_contains(&none, &["HTTP/1.1 401"])?;
    ensure!(none.to_lowercase().contains("www-authenticate: bearer"), "{none}");
    ensure!(reviews()?.is_empty(), "{:?}", reviews()?);
    for _ in 0..3 {
        let answer = scrape("header.payload.signature")?;
        ensure!(
            answer.starts_with("HTTP/1.1 401") && !answer.contains("chartwright_"),
            "{answer}"
        );
        let answer = scrape(&stranger)?;
        ensure_contains(
            &answer,
            &["HTTP/1.1 403", "system:serviceaccount:metrics-access:stranger"],
        )?;
        ensure!(!answer.contains("chartwright_"), "{answer}");
        ensure_contains(&scrape(&reader)?, &["HTTP/1.1 200", "chartwright_leader 1"])?;
    }
    // One review for each of the two new tokens, and none for the third, which was known.
    let counted = reviews()?;
    let expected = [("create subjectaccessreviews", 1), ("create tokenreviews", 2)];
    let expected = expected.map(|(kind, count)| (kind.to_owned(), count)).into();
    ensure!(counted == expected, "{counted:?}");
    std::thread::sleep(VERDICT_AGE);
    ensure_contains(&scrape(&reader)?, &["HTTP/1.1 200"])?;
    ensure!(reviews()?.get("create tokenreviews") == Some(&3), "{:?}", reviews()?);

    world.kubectl.delete("clusterrolebinding", "metrics-access-reader")?;
    std::thread::sleep(VERDICT_AGE);
    ensure_contains(&scrape(&reader)?, &["HTTP/1.1 403"])?;
    world.kubectl.delete("serviceaccount", "reader")?;
    std::thread::sleep(VERDICT_AGE);
    ensure_contains(&scrape(&reader)?, &["HTTP/1.1 401"])?;

    let requests = world.control_plane.audit().requests()?.by_user(&operator.user);
    let left = unused(AUTH_ROLE, &world.project_rules(AUTH_ROLE)?, &requests);
    ensure!(left.is_empty(), "{left:#?}");
    let log = operator.log();
    for token in [&reader, &stranger] {
        let signature = token.rsplit('.').next().context("a signature")?;
        ensure!(
            !log.contains(token.as_str()) && !log.contains(signature),
            "the log shows a token"
        );
    }
    ensure!(log.contains("\"logger\":\"kube_client"), "{log}");
    Ok(())
}

#[test]
fn the_dashboard_of_an_operator_needs_a_token_with_its_own_right() -> Result<()> {
    let (world, reader) = world_with_reader("dashboard-access", WorldSetup::USUAL)?;
    world.grant("metrics-auth", &world.project_rules(AUTH_ROLE)?)?;
    world.grant("dashboard", &world.project_rules("rbac/dashboard_role.yaml")?)?;
    let stranger = account(&world.kubectl, "stranger")?;
    let plain = world.launch(&Launch {
        replica: 1,
        ..PROTECTED
    })?;
    let operator = world.launch(&Launch {
        arguments: &["--metrics-secure", "--metrics-require-rbac", "--dashboard"],
        ..METERED
    })?;
    operator.await_log("watching")?;
    world.install("web", json!({}))?;
    let port = operator.metrics_port()?;
    world.await_quiet(&operator)?;
    let start = world.mark()?;
    let list = "GET /dashboard/api/releases";
    let get = |request: &str, token: Option<&str>| fetch_insecurely(port, request, token);
    // Nothing is read from the cluster for clients without the right.
    ensure_contains(
        &get(list, None)?,
        &["HTTP/1.1 401", "content-security-policy: default-src 'none'"],
    )?;
    let refused = get(list, Some(&stranger))?;
    ensure_contains(
        &refused,
        &[
            "HTTP/1.1 403",
            "stranger lacks the right to get the non-resource URL /dashboard",
        ],
    )?;
    // The right to read the metrics is another one.
    ensure_contains(&get(list, Some(&reader))?, &["HTTP/1.1 403"])?;
    let kinds = world.all_requests(&operator, start)?.kinds();
    ensure!(kinds.keys().all(|kind| kind.starts_with("create ")), "{kinds:?}");

    let reader_role = "dashboard-access-dashboard-reader";
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": reader_role},
        "rules": world.project_rules("rbac/dashboard_reader_role.yaml")?,
    });
    world.kubectl.apply(&role.to_string())?;
    let binding = [
        "create",
        "clusterrolebinding",
        reader_role,
        "--clusterrole=dashboard-access-dashboard-reader",
    ];
    world
        .kubectl
        .run(binding.into_iter().chain(["--serviceaccount=dashboard-access:reader"]))?;
    std::thread::sleep(VERDICT_AGE);
    until("the dashboard lists the release", SOON, || {
        let listed = get(list, Some(&reader))?;
        Ok(listed.starts_with("HTTP/1.1 200")
            && listed.contains("\"name\":\"web\"")
            && listed.contains("operator dashboard-access"))
    })?;
    let key = format!("kind=Widget.{}&namespace={}&name=web", world.group(), world.name);
    let shown = get(&format!("GET /dashboard/api/release?{key}"), Some(&reader))?;
    ensure_contains(&shown, &["HTTP/1.1 200", "\"state\":\"ready\"", "\"waves\":[{"])?;
    ensure!(!shown.contains("\"unread\""), "{shown}");
    let values = get(&format!("GET /dashboard/api/values?{key}"), Some(&reader))?;
    ensure_contains(&values, &["HTTP/1.1 200", "\"origin\":\"chart default\""])?;
    for request in ["POST /dashboard/api/releases", "DELETE /dashboard"] {
        ensure_contains(&get(request, Some(&reader))?, &["HTTP/1.1 405", "allow: GET"])?;
    }
    ensure_contains(&get("GET /dashboard", None)?, &["HTTP/1.1 200", "<!doctype html>"])?;
    // The metrics stay as they are, and without the flag there is no page.
    ensure_contains(
        &scrape_insecurely(port, Some(&reader))?,
        &["HTTP/1.1 200", "chartwright_leader"],
    )?;
    ensure_contains(
        &fetch_insecurely(plain.metrics_port()?, "GET /dashboard", Some(&reader))?,
        &["HTTP/1.1 404"],
    )
}

#[test]
fn an_unreachable_api_server_admits_no_reader_of_metrics() -> Result<()> {
    let (world, reader) = world_with_reader("metrics-outage", WorldSetup::ALONE)?;
    world.grant("metrics-auth", &world.project_rules(AUTH_ROLE)?)?;
    let operator = world.launch(&PROTECTED)?;
    let port = operator.metrics_port()?;
    let scrape = || scrape_insecurely(port, Some(&reader));
    until("the operator may review", SOON, || {
        Ok(scrape()?.starts_with("HTTP/1.1 200"))
    })?;
    world.control_plane.kill_part("kube-apiserver")?;
    std::thread::sleep(VERDICT_AGE);
    let answer = scrape()?;
    ensure!(
        answer.starts_with("HTTP/1.1 503") && !answer.contains("chartwright_"),
        "{answer}"
    );
    ensure_contains(&scrape_insecurely(port, None)?, &["HTTP/1.1 401"])?;
    operator.await_log("a request can't be authorized")?;

    // An operator that starts now: its probes do not wait for the API server.
    let probed = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let probes = format!("--health-probe-bind-address=127.0.0.1:{probed}");
    let second = world.launch(&Launch {
        arguments: &["--metrics-secure", "--metrics-require-rbac", &probes],
        replica: 1,
        ..METERED
    })?;
    let probe = |path: &str| http_get(probed, path);
    until("it answers probes", SOON, || Ok(probe("/healthz").is_ok()))?;
    let answer = scrape_insecurely(second.metrics_port()?, Some(&reader))?;
    ensure!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    ensure_contains(&probe("/healthz")?, &["HTTP/1.1 200"])?;
    ensure_contains(&probe("/readyz")?, &["HTTP/1.1 503", "the API server"])?;
    second.kill()?;
    world.control_plane.start_part("kube-apiserver")?;
    until("the API server answers", SOON, || {
        Ok(scrape()?.starts_with("HTTP/1.1 200"))
    })
}

/// The answer to a request over plain HTTP.
fn http_get(port: u16, path: &str) -> Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    write!(connection, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_replica_that_does_not_lead_serves_metrics_as_well() -> Result<()> {
    let (world, reader) = world_with_reader("metrics-replicas", WorldSetup::USUAL)?;
    world.grant("metrics-auth", &world.project_rules(AUTH_ROLE)?)?;
    let flags = [
        "--leader-elect",
        "--leader-election-id=widgets",
        "--metrics-secure",
        "--metrics-require-rbac",
    ];
    let launch = |replica| {
        world.launch(&Launch {
            arguments: &flags,
            replica,
            ..METERED
        })
    };
    let leader = launch(0)?;
    leader.await_log("watching")?;
    let waiting = launch(1)?;
    for (operator, series) in [(&leader, "chartwright_leader 1"), (&waiting, "chartwright_leader 0")] {
        let port = operator.metrics_port()?;
        until("the metrics are served", SOON, || {
            let answer = scrape_insecurely(port, Some(&reader))?;
            Ok(answer.starts_with("HTTP/1.1 200") && answer.contains(series))
        })?;
        ensure_contains(&scrape_insecurely(port, None)?, &["HTTP/1.1 401"])?;
    }
    Ok(())
}

/// A certificate for a name, with its key, in a folder.
fn write_certificate(folder: &Path, name: &str) -> Result<CertificateDer<'static>> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new([name.to_owned()])?.self_signed(&key)?;
    fs::create_dir_all(folder)?;
    fs::write(folder.join("tls.crt"), certificate.pem())?;
    fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(certificate.der().clone())
}

/// Reads the metrics as a client that trusts this certificate alone.
fn scrape_trusting(port: u16, name: &str, trusted: &CertificateDer<'static>) -> Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone())?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
    scrape(port, name, verifier, None)
}

#[test]
fn a_certificate_is_reloaded_and_a_bad_one_leaves_the_former() -> Result<()> {
    const RELOADS: &str = "chartwright_metrics_certificate_reloads_total";
    let world = World::new("metrics-reload")?;
    // As the kubelet mounts a Secret.
    let volume = world.dir.path().join("certificates");
    let first = write_certificate(&volume.join("..1"), "first.test")?;
    symlink("..1", volume.join("..data"))?;
    for file in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(file), volume.join(file))?;
    }
    let replace = |folder: &str| -> Result<()> {
        symlink(folder, volume.join("..data_tmp"))?;
        Ok(fs::rename(volume.join("..data_tmp"), volume.join("..data"))?)
    };
    let directory = format!("--metrics-cert-dir={}", volume.display());
    let launch = Launch {
        arguments: &["--metrics-secure", &directory],
        ..METERED
    };
    let operator = world.launch(&launch)?;
    operator.await_log("watching")?;
    let port = operator.metrics_port()?;
    let expiry = r#"chartwright_metrics_certificate_expiry_timestamp_seconds{source="directory"} "#;
    ensure_contains(&scrape_trusting(port, "first.test", &first)?, &["HTTP/1.1 200", expiry])?;
    ensure!(scrape_trusting(port, "other.test", &first).is_err());

    let second = write_certificate(&volume.join("..2"), "second.test")?;
    ensure!(scrape_trusting(port, "second.test", &second).is_err());
    replace("..2")?;
    let is_second = || Ok(scrape_trusting(port, "second.test", &second).is_ok());
    until("the second certificate is served", SOON, is_second)?;
    ensure!(scrape_trusting(port, "first.test", &first).is_err());

    // The key of another certificate.
    write_certificate(&volume.join("..3"), "third.test")?;
    fs::copy(volume.join("..2/tls.key"), volume.join("..3/tls.key"))?;
    replace("..3")?;
    operator.await_log("the metrics keep their former certificate")?;
    operator.await_log("tls.key is not the private key of the first certificate in tls.crt")?;
    let answer = scrape_trusting(port, "second.test", &second)?;
    ensure_contains(
        &answer,
        &[
            &format!("{RELOADS}{{result=\"success\"}} 1"),
            &format!("{RELOADS}{{result=\"error\"}} "),
        ],
    )?;
    let third = write_certificate(&volume.join("..4"), "third.test")?;
    replace("..4")?;
    let is_third = || Ok(scrape_trusting(port, "third.test", &third).is_ok());
    until("the third certificate is served", SOON, is_third)?;
    let mut operator = operator;
    ensure!(operator.is_running());
    ensure!(operator.terminate()?.success());
    Ok(())
}

#[test]
fn a_certificate_that_cannot_be_used_ends_the_start() -> Result<()> {
    let world = World::new("metrics-start")?;
    world.write_watches()?;
    let folder = world.dir.path().join("certificates");
    let watches = format!("--watches-file={}", world.watches_file().display());
    let directory = format!("--metrics-cert-dir={}", folder.display());
    let start = |flags: &[&str]| {
        let listen = [
            "run",
            "--metrics-bind-address=127.0.0.1:0",
            "--health-probe-bind-address=0",
            &watches,
        ];
        world.chartwright(&[&listen, flags].concat())
    };
    let secure = ["--metrics-secure", directory.as_str()];
    let (status, printed) = start(&secure)?;
    ensure!(status.code() == Some(1), "{status}: {printed}");
    ensure_contains(
        &printed,
        &[
            "Error: the certificate of --metrics-secure: can't read",
            "tls.crt: No such file",
        ],
    )?;
    write_certificate(&folder, "a.test")?;
    fs::write(folder.join("tls.key"), "garbage")?;
    let (status, printed) = start(&secure)?;
    ensure!(status.code() == Some(1), "{status}: {printed}");
    ensure_contains(&printed, &["tls.key contains no private key in PEM format"])?;
    let (status, printed) = start(&["--metrics-require-rbac"])?;
    ensure!(status.code() == Some(2), "{status}: {printed}");
    ensure_contains(&printed, &["--metrics-require-rbac needs --metrics-secure"])
}
