//! The two HTTP servers: metrics, and probes. Plain HTTP, a handful of fixed paths.
//!
//! Addresses are bound before anything else starts, so that a port in use is an error at the command line and not a
//! line in a log.

use std::fmt;
use std::io;
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

/// An address that can't be listened on. Names the flag that asked for it.
#[derive(Debug, thiserror::Error)]
#[error("can't listen on {flag}={address}: {reason}; choose another address, or 0 to switch it off")]
pub struct BindError {
    flag: &'static str,
    address: BindAddress,
    reason: String,
    #[source]
    source: io::Error,
}

/// A bound server that doesn't answer yet; [`Server::run`] makes it.
#[derive(Debug)]
#[must_use = "a server answers only while it runs"]
pub struct Server {
    listener: TcpListener,
    router: Router,
}

/// Servers that run on a thread of their own: whatever the rest of the process is busy with, they answer. A probe that
/// waits for a render would have the kubelet kill what works.
#[derive(Debug)]
pub struct Apart {
    runtime: Runtime,
    stop: CancellationToken,
    servers: Vec<JoinHandle<io::Result<()>>>,
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
    match health.ready() {
        Ok(()) => "ok".into_response(),
        Err(what) => (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for {what}\n")).into_response(),
    }
}

// === impl Server ===

impl Server {
    /// Binds `address`, which `flag` (with its dashes) asked for. `None` when it is off.
    ///
    /// # Errors
    /// When the port is in use, reserved, or the host isn't ours.
    pub async fn bind(flag: &'static str, address: &BindAddress, router: Router) -> Result<Option<Self>, BindError> {
        let BindAddress::At { host, port } = address else {
            return Ok(None);
        };
        let bound = match host.as_str() {
            // Go listens on both families with one IPv6 socket, and on IPv4 alone where there is no IPv6.
            "" => match TcpListener::bind(("::", *port)).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", *port)).await,
                result => result,
            },
            host => TcpListener::bind((host, *port)).await,
        };
        match bound {
            Ok(listener) => Ok(Some(Self { listener, router })),
            Err(source) => {
                let reason = match source.kind() {
                    io::ErrorKind::AddrInUse => "the port is in use".to_owned(),
                    io::ErrorKind::PermissionDenied => "no permission for this port".to_owned(),
                    io::ErrorKind::AddrNotAvailable => "this machine doesn't have that address".to_owned(),
                    _ => source.to_string(),
                };
                Err(BindError {
                    flag,
                    address: address.clone(),
                    reason,
                    source,
                })
            }
        }
    }

    /// Where it listens, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn local_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop`, then gives open connections two seconds to end.
    ///
    /// # Errors
    /// Those of the operating system; errors of single connections aren't among them.
    pub async fn run(self, stop: CancellationToken) -> io::Result<()> {
        let serve = axum::serve(self.listener, self.router).with_graceful_shutdown(stop.clone().cancelled_owned());
        tokio::select! {
            result = serve => result,
            () = async { stop.cancelled().await; tokio::time::sleep(DRAIN).await } => Ok(()),
        }
    }
}

// === impl Apart ===

impl Apart {
    /// No servers yet.
    ///
    /// # Errors
    /// When there is no thread for them.
    pub fn new() -> io::Result<Self> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Ok(Apart {
            runtime: builder.worker_threads(1).thread_name("probes").enable_all().build()?,
            stop: CancellationToken::new(),
            servers: Vec::new(),
        })
    }

    /// Binds `address`, which `flag` asked for, and answers there from now on. Where that is; `None` when it is off.
    ///
    /// # Errors
    /// Those of [`Server::bind`].
    pub fn serve(
        &mut self,
        flag: &'static str,
        address: &BindAddress,
        router: Router,
    ) -> Result<Option<std::net::SocketAddr>, BindError> {
        let Some(server) = self.runtime.block_on(Server::bind(flag, address, router))? else {
            return Ok(None);
        };
        let bound = server.local_addr().ok();
        self.servers.push(self.runtime.spawn(server.run(self.stop.clone())));
        Ok(bound)
    }

    /// Ends them, once open connections have ended or had their time.
    pub fn end(self) {
        self.stop.cancel();
        for server in self.servers {
            // Whatever is wrong with a server that ends, nobody can do anything about it.
            let _ = self.runtime.block_on(server);
        }
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
    use std::net::{SocketAddr, TcpStream};

    use super::*;

    fn at(host: &str, port: u16) -> BindAddress {
        BindAddress::At {
            host: host.to_owned(),
            port,
        }
    }

    /// One request over a fresh connection: the whole answer, head included.
    async fn request(to: SocketAddr, path: &'static str) -> io::Result<String> {
        tokio::task::spawn_blocking(move || {
            let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(5))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        })
        .await
        .unwrap()
    }

    async fn serve(router: Router) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<io::Result<()>>) {
        let server = Server::bind("--x", &at("127.0.0.1", 0), router).await.unwrap().unwrap();
        let (address, stop) = (server.local_addr().unwrap(), CancellationToken::new());
        let task = tokio::spawn(server.run(stop.clone()));
        (address, stop, task)
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

    #[tokio::test]
    async fn metrics_and_probes_answer() {
        let metrics = Arc::new(Metrics::new());
        metrics.leader.set(1);
        let (address, stop, task) = serve(metrics_router(metrics)).await;
        let answer = request(address, "/metrics").await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(
            answer.contains(OPENMETRICS) && answer.contains("\nchartwright_leader 1\n"),
            "{answer}"
        );
        assert!(request(address, "/").await.unwrap().starts_with("HTTP/1.1 404"));
        stop.cancel();
        task.await.unwrap().unwrap();

        let health = Health::new();
        let (address, stop, task) = serve(probes_router(health.clone())).await;
        assert!(request(address, "/healthz").await.unwrap().starts_with("HTTP/1.1 200"));
        let answer = request(address, "/readyz").await.unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("waiting for the operator to start\n"),
            "{answer}"
        );
        health.set_ready();
        assert!(request(address, "/readyz").await.unwrap().starts_with("HTTP/1.1 200"));
        stop.cancel();
        task.await.unwrap().unwrap();
        assert!(request(address, "/healthz").await.is_err(), "the listener is closed");
    }

    #[test]
    fn probes_are_answered_while_all_else_is_busy() {
        let busy = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        let mut servers = Apart::new().unwrap();
        let probes = probes_router(Health::new());
        let address = servers.serve("--x", &at("127.0.0.1", 0), probes).unwrap().unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        let (done, ends) = std::sync::mpsc::channel::<()>();
        busy.spawn(async move {
            begun.send(()).unwrap();
            let _ = ends.recv();
        });
        begins.recv().unwrap();
        let asking = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = asking.block_on(request(address, "/healthz")).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        drop(done);
        servers.end();
        assert!(asking.block_on(request(address, "/healthz")).is_err());
    }

    #[tokio::test]
    async fn an_idle_connection_doesnt_hold_up_the_stop() {
        let (address, stop, task) = serve(probes_router(Health::new())).await;
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.cancel();
        tokio::time::timeout(DRAIN + Duration::from_secs(3), task)
            .await
            .expect("stops")
            .unwrap()
            .unwrap();
    }

    #[tokio::test]
    async fn a_port_in_use_names_the_flag() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = at("127.0.0.1", taken.local_addr().unwrap().port());
        let error = Server::bind("--metrics-bind-address", &address, Router::new())
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "can't listen on --metrics-bind-address={address}: the port is in use; choose another address, \
                 or 0 to switch it off"
            )
        );
        let off = Server::bind("--metrics-bind-address", &BindAddress::Off, Router::new())
            .await
            .unwrap();
        assert!(off.is_none());
    }

    #[tokio::test]
    async fn no_host_is_every_interface() {
        let server = Server::bind("--x", &at("", 0), probes_router(Health::new()))
            .await
            .unwrap()
            .unwrap();
        let port = server.local_addr().unwrap().port();
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.run(stop.clone()));
        assert!(
            request(([127, 0, 0, 1], port).into(), "/healthz")
                .await
                .unwrap()
                .starts_with("HTTP/1.1 200")
        );
        stop.cancel();
        task.await.unwrap().unwrap();
    }
}
