//! The two HTTP servers: metrics, and probes. Plain HTTP, a handful of fixed paths.
//!
//! Addresses are bound before anything else starts, so that a port in use is an error at the command line and not a
//! line in a log.

use std::fmt;
use std::future::IntoFuture as _;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::metrics::Metrics;
use super::probes::Health;

/// The media type of what `/metrics` answers.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long open connections may take to end once the servers are told to stop.
const DRAIN: Duration = Duration::from_secs(2);

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

/// Servers that run on a thread of their own: whatever the rest of the process is busy with, they answer. A probe that
/// waits for a render would have the kubelet kill what works.
#[derive(Debug)]
pub struct Servers {
    runtime: Runtime,
    stop: CancellationToken,
    running: Vec<JoinHandle<io::Result<()>>>,
}

/// `/metrics`.
pub fn metrics_router(metrics: Arc<Metrics>) -> Router {
    Router::new().route("/metrics", get(serve_metrics)).with_state(metrics)
}

/// `/healthz` and `/readyz`. `/healthz` is 200 as long as the process has the strength to say so.
pub fn probes_router(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(serve_ready))
        .with_state(health)
}

async fn serve_metrics(State(metrics): State<Arc<Metrics>>) -> Response {
    match metrics.encode() {
        Ok(text) => ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn serve_ready(State(health): State<Health>) -> Response {
    match health.waiting_for() {
        None => "ok".into_response(),
        Some(what) => (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {what}\n")).into_response(),
    }
}

// === impl Servers ===

impl Servers {
    /// None yet.
    ///
    /// # Errors
    /// When there is no thread for them.
    pub fn new() -> io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Ok(Servers {
            runtime: builder.worker_threads(1).thread_name("probes").enable_all().build()?,
            stop: CancellationToken::new(),
            running: Vec::new(),
        })
    }

    /// Binds `address`, which `flag` (with its dashes) asked for, and answers there from now on. Where that is, with the
    /// port that the system chose for port 0; `None` when it is off.
    ///
    /// # Errors
    /// When the port is in use, reserved, or the host isn't ours. Names the flag that asked for it.
    pub fn serve(
        &mut self,
        flag: &'static str,
        address: &BindAddress,
        router: Router,
    ) -> io::Result<Option<SocketAddr>> {
        let BindAddress::At { host, port } = address else {
            return Ok(None);
        };
        let bound = self.runtime.block_on(bind(host, *port)).and_then(|listener| {
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
        let serve = axum::serve(listener, router).with_graceful_shutdown(self.stop.clone().cancelled_owned());
        self.running.push(self.runtime.spawn(serve.into_future()));
        Ok(Some(at))
    }

    /// Ends them, once open connections have ended or had their time.
    pub fn end(self) {
        self.stop.cancel();
        let all = futures::future::join_all(self.running);
        // Whatever is wrong with a server that ends, nobody can do anything about it.
        let _ = self.runtime.block_on(async { tokio::time::timeout(DRAIN, all).await });
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

// === impl BindAddress ===

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

    fn serve(host: &str, router: Router) -> (Servers, SocketAddr) {
        let mut servers = Servers::new().unwrap();
        let address = servers.serve("--x", &at(host, 0), router).unwrap().unwrap();
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
        let (servers, address) = serve("127.0.0.1", metrics_router(metrics));
        let answer = request(address, "/metrics").unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(
            answer.contains(OPENMETRICS) && answer.contains("\nchartwright_leader 1\n"),
            "{answer}"
        );
        assert!(request(address, "/").unwrap().starts_with("HTTP/1.1 404"));
        servers.end();

        let health = Health::default();
        let (servers, address) = serve("", probes_router(health.clone()));
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
        assert!(stopped.elapsed() < DRAIN + Duration::from_secs(3));
        assert!(request(address, "/healthz").is_err(), "the listener is closed");
    }

    #[test]
    fn a_port_in_use_names_the_flag() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = at("127.0.0.1", taken.local_addr().unwrap().port());
        let mut servers = Servers::new().unwrap();
        let mut serve = |address: &BindAddress| servers.serve("--metrics-bind-address", address, Router::new());
        assert_eq!(
            serve(&address).unwrap_err().to_string(),
            format!(
                "can't listen on --metrics-bind-address={address}: the port is in use; choose another address, \
                 or 0 to switch it off"
            )
        );
        assert!(serve(&BindAddress::Off).unwrap().is_none());
    }
}
