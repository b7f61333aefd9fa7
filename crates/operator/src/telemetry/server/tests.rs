use std::io::{Read, Write};
use std::net::TcpStream;

use chartwright_core::access::AccessVerdict;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    self, ClientConfig, ClientConnection, DigitallySignedStruct, ProtocolVersion, SignatureScheme, StreamOwned,
    SupportedProtocolVersion, version,
};

use super::*;

fn at(host: &str, port: u16) -> BindAddress {
    BindAddress::At {
        host: host.to_owned(),
        port,
    }
}

/// One request over a fresh connection: the whole answer, head included.
fn request(to: SocketAddr, path: &'static str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The metrics without protection.
fn open_site(metrics: Arc<Metrics>) -> ServedSite {
    metrics_site(metrics, MetricsProtection::default(), None).unwrap()
}

fn serve(host: &str, site: ServedSite) -> (Servers, SocketAddr) {
    let mut servers = Servers::default();
    let address = servers.serve("--x", &at(host, 0), site).unwrap().unwrap();
    (servers, address)
}

#[test]
fn addresses_are_read_as_go_reads_them() {
    let table = [
        (":8080", at("", 8080)),
        ("127.0.0.1:8080", at("127.0.0.1", 8080)),
        ("[::1]:9", at("::1", 9)),
        ("localhost:0", at("localhost", 0)),
        ("0", BindAddress::Off),
        ("", BindAddress::Off),
    ];
    for (text, expected) in table {
        let address: BindAddress = text.parse().unwrap();
        assert_eq!(address, expected, "{text}");
        assert_eq!(address.to_string(), if text.is_empty() { "0" } else { text });
    }
    for bad in [
        "8080",
        "x",
        ":",
        ":http",
        ":65536",
        ":+1",
        ":-1",
        "::1:80",
        "[::1:80",
        "::1]:80",
        "http://x:80",
    ] {
        let result = bad.parse::<BindAddress>();
        assert_eq!(result, Err(InvalidAddress(bad.to_owned())), "{bad}");
    }
}

#[test]
fn metrics_and_probes_answer() {
    let metrics = Arc::new(Metrics::new());
    metrics.process.leader.set(1);
    let (servers, address) = serve("127.0.0.1", open_site(metrics));
    let answer = request(address, "/metrics").unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains(OPENMETRICS) && answer.contains("\nchartwright_leader 1\n"),
        "{answer}"
    );
    assert!(request(address, "/").unwrap().starts_with("HTTP/1.1 404"));
    servers.end();

    let health = ProcessHealth::default();
    let (servers, address) = serve("", probes_site(health.clone()));
    let address = ([127, 0, 0, 1], address.port()).into();
    assert!(request(address, "/healthz").unwrap().starts_with("HTTP/1.1 200"));
    let answer = request(address, "/readyz").unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 503") && answer.ends_with("waiting for the operator to start\n"),
        "{answer}"
    );
    health.set_ready();
    assert!(request(address, "/readyz").unwrap().starts_with("HTTP/1.1 200"));
    health.set_waiting("the first lists");
    assert!(
        request(address, "/readyz")
            .unwrap()
            .ends_with("waiting for the first lists\n")
    );
    // A connection that says nothing more doesn't hold up the end.
    let mut idle = TcpStream::connect(address).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let stopped = std::time::Instant::now();
    servers.end();
    assert!(stopped.elapsed() < listener::DRAIN + Duration::from_secs(3));
    assert!(request(address, "/healthz").is_err(), "the listener is closed");
}

#[test]
fn a_port_in_use_names_the_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = at("127.0.0.1", taken.local_addr().unwrap().port());
    let mut servers = Servers::default();
    let mut serve =
        |address: &BindAddress| servers.serve("--metrics-bind-address", address, probes_site(ProcessHealth::default()));
    assert_eq!(
        serve(&address).unwrap_err().to_string(),
        format!(
            "can't listen on --metrics-bind-address={address}: the port is in use; choose another address, \
             or 0 to switch it off"
        )
    );
    assert!(serve(&BindAddress::Off).unwrap().is_none());
}
/// Sends a part of a request, as large as the system takes.
fn send_part(to: SocketAddr, part: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5)).ok()?;
    stream.set_write_timeout(Some(Duration::from_millis(100))).ok()?;
    // What is refused in the middle counts as sent.
    let _ = stream.write_all(part);
    Some(stream)
}

/// True if the server ends the connection.
fn is_ended(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn a_flood_of_partial_requests_costs_little_and_probes_are_answered() {
    let metrics = Arc::new(Metrics::new());
    metrics.process.leader.set(1);
    let (servers, scraped) = serve("127.0.0.1", open_site(metrics));
    let (others, probed) = serve("127.0.0.1", probes_site(ProcessHealth::default()));
    // As in the attack: a head of 390 kB that never ends.
    let part = ["GET /metrics HTTP/1.1\r\nX: ".as_bytes(), &vec![b'x'; 390_000]].concat();
    let before = resident();
    let mut flood = Vec::new();
    for number in 0..600 {
        let to = if number % 2 == 0 { scraped } else { probed };
        flood.extend(send_part(to, &part));
        if number % 100 == 99 {
            assert!(
                request(probed, "/healthz").unwrap().starts_with("HTTP/1.1 200"),
                "{number}"
            );
            assert!(
                request(scraped, "/metrics").unwrap().contains("chartwright_leader 1"),
                "{number}"
            );
        }
    }
    // 230 MB were sent. The connections that are left may buffer a megabyte.
    let grown = resident().saturating_sub(before);
    assert!(grown < 24 << 20, "{} MiB", grown >> 20);
    drop(flood);
    servers.end();
    others.end();
}

/// Bytes of memory that this process holds.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn an_endless_request_is_ended_and_a_large_one_refused() {
    let (servers, address) = serve("127.0.0.1", probes_site(ProcessHealth::default()));
    let mut silent = send_part(address, b"").unwrap();
    let mut slow = send_part(address, b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    let large = format!(
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX: {}\r\n",
        "x".repeat(3 * listener::HEAD_BYTES)
    );
    let mut large = send_part(address, large.as_bytes()).unwrap();
    let begun = Instant::now();
    assert!(is_ended(&mut large));
    assert!(begun.elapsed() < listener::HEAD_TIMEOUT);
    assert!(is_ended(&mut silent) && is_ended(&mut slow));
    let answer = request(address, "/healthz").unwrap();
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    servers.end();
}

#[test]
fn the_client_with_the_most_connections_loses_one() {
    let site = ServedSite {
        connections: 3,
        ..probes_site(ProcessHealth::default())
    };
    let (servers, address) = serve("127.0.0.1", site);
    // Every address of 127.0.0.0/8 is this machine's.
    let from = |source: &str| connect_from(source, address);
    let mut victim = from("127.0.0.2");
    let flood: Vec<TcpStream> = (0..20).map(|_| from("127.0.0.3")).collect();
    std::thread::sleep(Duration::from_millis(100));
    victim.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    victim.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    victim.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(flood);
    servers.end();
}

/// A connection from an address of ours.
fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket
            .bind((source.parse::<std::net::IpAddr>().unwrap(), 0).into())
            .unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Accepts every certificate, as `curl --insecure` does.
#[derive(Debug)]
struct AnyCertificate;

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
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256]
    }
}

/// One request over TLS of this version: the answer, and the version that was agreed upon.
fn request_tls(
    to: SocketAddr,
    versions: &[&'static SupportedProtocolVersion],
    header: &str,
) -> io::Result<(String, Option<ProtocolVersion>)> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut stream = StreamOwned::new(connection, stream);
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{header}\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok((answer, stream.conn.protocol_version()))
}

const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS12, &version::TLS13];

fn self_signed() -> MetricsProtection {
    MetricsProtection {
        certificate: Some(CertificateSource::SelfSigned),
        review: None,
    }
}

#[test]
fn metrics_are_served_over_tls_1_2_and_1_3() {
    let metrics = Arc::new(Metrics::new());
    let (servers, address) = serve("127.0.0.1", metrics_site(metrics, self_signed(), None).unwrap());
    for (versions, agreed) in [
        (&BOTH[..1], ProtocolVersion::TLSv1_2),
        (&BOTH[1..], ProtocolVersion::TLSv1_3),
        (BOTH, ProtocolVersion::TLSv1_3),
    ] {
        let (answer, version) = request_tls(address, versions, "").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
        assert!(answer.ends_with("# EOF\n") && answer.contains(r#"expiry_timestamp_seconds{source="self-signed"}"#));
        assert_eq!(version, Some(agreed));
    }
    // A client with http:// in its address, and one that sends neither HTTP nor TLS.
    let answer = request(address, "/metrics").unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 400") && answer.contains("https://"),
        "{answer}"
    );
    let mut garbage = send_part(address, &[0; 600]).unwrap();
    assert!(is_ended(&mut garbage));
    servers.end();
}

#[test]
fn unfinished_handshakes_are_ended_and_hold_up_no_scrape() {
    let metrics = Arc::new(Metrics::new());
    let (servers, address) = serve("127.0.0.1", metrics_site(metrics, self_signed(), None).unwrap());
    // The beginning of a record of a handshake that never ends.
    let mut open: Vec<TcpStream> = (0..100)
        .filter_map(|_| send_part(address, &[22, 3, 1, 2, 0, 1, 0]))
        .collect();
    let begun = Instant::now();
    assert!(request_tls(address, BOTH, "").unwrap().0.starts_with("HTTP/1.1 200"));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(open.iter_mut().all(is_ended));
    assert!(begun.elapsed() < listener::HANDSHAKE_TIMEOUT + Duration::from_secs(5));
    servers.end();
}

#[test]
fn metrics_with_a_guard_need_a_token_and_probes_do_not() {
    let review: Review = Arc::new(|token| {
        let is_good = token.review()["spec"]["token"] == "good";
        let user = "ann".to_owned();
        let verdict = if is_good {
            AccessVerdict::Allowed
        } else {
            AccessVerdict::Denied { user }
        };
        Box::pin(async move { Ok(verdict) })
    });
    let protection = MetricsProtection {
        review: Some(review),
        ..self_signed()
    };
    let (servers, address) = serve(
        "127.0.0.1",
        metrics_site(Arc::new(Metrics::new()), protection, None).unwrap(),
    );
    for (header, expected) in [
        ("", "HTTP/1.1 401"),
        ("Authorization: Basic YTpi\r\n", "HTTP/1.1 401"),
        ("Authorization: Bearer weak\r\n", "HTTP/1.1 403"),
        ("Authorization: Bearer good\r\n", "HTTP/1.1 200"),
        ("authorization: bearer good\r\n", "HTTP/1.1 200"),
    ] {
        let (answer, _) = request_tls(address, BOTH, header).unwrap();
        assert!(answer.starts_with(expected), "{header}: {answer}");
        assert_eq!(answer.contains("chartwright_"), expected.ends_with("200"), "{answer}");
    }
    servers.end();
}
