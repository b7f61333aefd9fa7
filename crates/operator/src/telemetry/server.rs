//! The two HTTP servers: metrics, and probes. Plain HTTP, a handful of fixed paths.
//!
//! Addresses are bound before anything else starts, so that a port in use is an error at the command line and not a
//! line in a log. What clients may cost is bounded by [`listener`].

mod listener;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::probes::ProcessHealth;

/// The media type of what `/metrics` answers.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long one text answers scrapes: ten thousand releases have a megabyte of it.
const SCRAPE_AGE: Duration = Duration::from_millis(100);

/// Where a server listens, as controller-runtime and Go's `net.Listen` write it: `:8080` (every interface),
/// `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`; port 0 is any free port; `0` alone (or nothing) is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Don't serve.
    Off,
    /// Serve here.
    At {
        /// A name or address without brackets; empty for every interface.
        host: String,
        /// 0 for any free port.
        port: u16,
    },
}

/// An address that can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid address {0:?}: use :PORT, HOST:PORT, or 0 to switch it off")]
pub struct InvalidAddress(String);

/// What a server serves, and to how many at a time.
pub struct Site {
    router: Router,
    /// Connections that may be open at a time.
    connections: usize,
}

/// HTTP servers on a thread each, so that they respond while the rest of the process is busy. The kubelet would kill a
/// container whose probe waits for a render.
#[derive(Debug, Default)]
pub struct Servers {
    stop: CancellationToken,
    running: Vec<(Runtime, JoinHandle<()>)>,
}

/// `/metrics`. Few connections, since an answer may be large.
pub fn metrics_site(metrics: Arc<Metrics>) -> Site {
    let scrapes = Scrapes {
        metrics,
        last: Mutex::default(),
    };
    let router = Router::new().route("/metrics", get(serve_metrics));
    Site {
        router: router.with_state(Arc::new(scrapes)),
        connections: 16,
    }
}

/// `/healthz` and `/readyz`. `/healthz` is 200 as long as the process has the strength to say so.
pub fn probes_site(health: ProcessHealth) -> Site {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(serve_ready));
    Site {
        router: router.with_state(health),
        connections: 64,
    }
}

/// The metrics, and the text that they last were.
struct Scrapes {
    metrics: Arc<Metrics>,
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Scrapes {
    fn text(&self) -> Result<Bytes, fmt::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*last
            && at.elapsed() < SCRAPE_AGE
        {
            return Ok(text.clone());
        }
        let text = Bytes::from(self.metrics.encode()?);
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}

async fn serve_metrics(State(scrapes): State<Arc<Scrapes>>) -> Response {
    match scrapes.text() {
        Ok(text) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn serve_ready(State(health): State<ProcessHealth>) -> Response {
    match health.waiting_for() {
        None => "ok".into_response(),
        Some(what) => (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {what}\n")).into_response(),
    }
}

impl Servers {
    /// Binds `address`, the value of `flag` (with its dashes), and serves there from now on. Returns the address with
    /// the port that the system chose for port 0. `None` if it is off.
    ///
    /// # Errors
    /// There is no thread, the port is in use or reserved, or the host is not local. The error names the flag.
    pub fn serve(&mut self, flag: &'static str, address: &BindAddress, site: Site) -> io::Result<Option<SocketAddr>> {
        let BindAddress::At { host, port } = address else {
            return Ok(None);
        };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("server").enable_all().build()?;
        let bound = runtime.block_on(bind(host, *port)).and_then(|listener| {
            let at = listener.local_addr()?;
            Ok((listener, at))
        });
        let (listener, at) = bound.map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::AddrInUse => "the port is in use".to_owned(),
                io::ErrorKind::PermissionDenied => "no permission for this port".to_owned(),
                io::ErrorKind::AddrNotAvailable => "this machine doesn't have that address".to_owned(),
                _ => error.to_string(),
            };
            let message =
                format!("can't listen on {flag}={address}: {reason}; choose another address, or 0 to switch it off");
            io::Error::new(error.kind(), message)
        })?;
        let serve = listener::serve(listener, site.router, site.connections, self.stop.clone());
        let serving = runtime.spawn(serve);
        self.running.push((runtime, serving));
        Ok(Some(at))
    }

    /// Ends them, once open connections have ended or had their time.
    pub fn end(self) {
        self.stop.cancel();
        for (runtime, serving) in self.running {
            // Each bounds its own end, all at the same time. A server that panicked has ended, too.
            let _ = runtime.block_on(serving);
        }
    }
}

/// Listens at a port of a host; without one, of every interface.
async fn bind(host: &str, port: u16) -> io::Result<TcpListener> {
    if !host.is_empty() {
        return TcpListener::bind((host, port)).await;
    }
    // Go listens on both families with one IPv6 socket, and on IPv4 alone where there is no IPv6.
    match TcpListener::bind(("::", port)).await {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", port)).await,
        bound => bound,
    }
}

impl BindAddress {
    /// True for an address that only this machine or pod reaches. A name may mean anything.
    pub fn is_loopback(&self) -> bool {
        let Self::At { host, .. } = self else { return false };
        host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }
}

impl FromStr for BindAddress {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text == "0" {
            return Ok(Self::Off);
        }
        let invalid = || InvalidAddress(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let host = match host.strip_prefix('[') {
            Some(bracketed) => bracketed.strip_suffix(']').ok_or_else(invalid)?,
            // A colon left over: an IPv6 address that lacks its brackets, or a URL.
            None if host.contains([':', '/', ']']) => return Err(invalid()),
            None => host,
        };
        // `parse` would take a plus sign
        if !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        Ok(Self::At {
            host: host.to_owned(),
            port: port.parse().map_err(|_| invalid())?,
        })
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::At { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

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

    fn serve(host: &str, site: Site) -> (Servers, SocketAddr) {
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
        metrics.leader.set(1);
        let (servers, address) = serve("127.0.0.1", metrics_site(metrics));
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
        let mut serve = |address: &BindAddress| {
            servers.serve("--metrics-bind-address", address, probes_site(ProcessHealth::default()))
        };
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
        metrics.leader.set(1);
        let (servers, scraped) = serve("127.0.0.1", metrics_site(metrics));
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
        let site = Site {
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
}
