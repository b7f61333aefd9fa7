//! The HTTP servers: metrics and the dashboard, with TLS and authorization on request; the admission webhook, always with TLS; and probes,
//! always over plain HTTP. A handful of fixed paths.
//!
//! Addresses are bound before anything else starts, so that a port in use is an error at the command line and not a
//! line in a log. What clients may cost is bounded by [`listener`].

mod authorization;
mod certificate;
mod listener;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_rustls::rustls::server::ResolvesServerCert;
use tokio_util::sync::CancellationToken;

pub(crate) use self::authorization::{AccessGuard, unauthorized};
pub use self::authorization::{Review, ReviewFailure};
use self::certificate::Certificates;
pub use self::certificate::{CertificateError, CertificateSource};
pub(crate) use self::certificate::{NewCertificate, SELF_SIGNED_VALIDITY, ServedCertificate, UsedCertificate};
pub(crate) use self::listener::AnswerTime;
use super::metrics::Metrics;
use super::probes::ProcessHealth;
use crate::STACK_BYTES;
use crate::sync::lock;
use chartwright_core::access::METRICS_PATH;

/// The media type of what `/metrics` answers.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How long one text answers scrapes: ten thousand releases have a megabyte of it.
const SCRAPE_AGE: Duration = Duration::from_millis(100);

/// Connections of a site with the dashboard: a page in a browser keeps one open and opens a few more.
const DASHBOARD_CONNECTIONS: usize = 64;

/// Threads of a site with the dashboard: a scrape does not wait for a page.
const DASHBOARD_THREADS: usize = 2;

/// Connections of the webhook: the API server may send many changes at a time.
const ADMISSION_CONNECTIONS: usize = 64;

/// Threads of the webhook: a small change does not wait for a large one.
const ADMISSION_THREADS: usize = 2;

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
pub struct ServedSite {
    router: Router,
    /// Connections that may be open at a time.
    connections: usize,
    /// Has the certificate of each connection. `None`: plain HTTP.
    tls: Option<Arc<dyn ResolvesServerCert>>,
    /// Threads that answer.
    threads: usize,
    /// Runs on these threads until the server ends.
    background: Option<BoxFuture<'static, ()>>,
}

/// How `/metrics` is protected. The default is not at all.
#[derive(Default)]
pub struct MetricsProtection {
    /// `None`: plain HTTP.
    pub certificate: Option<CertificateSource>,
    /// Decides who may read the metrics. `None`: every client.
    pub review: Option<Review>,
}

/// HTTP servers on a thread each, so that they respond while the rest of the process is busy. The kubelet would kill a
/// container whose probe waits for a render.
#[derive(Debug, Default)]
pub struct Servers {
    stop: CancellationToken,
    running: Vec<(Runtime, JoinHandle<()>)>,
}

/// `/metrics`, and the dashboard if there is one. Few connections, since an answer may be large.
///
/// # Errors
/// The certificate cannot be used.
pub fn metrics_site(
    metrics: Arc<Metrics>,
    protection: MetricsProtection,
    dashboard: Option<Router>,
) -> Result<ServedSite, CertificateError> {
    let certificates = protection.certificate.map(Certificates::load).transpose()?;
    let certificates = certificates.map(Arc::new);
    let keep_current = |certificates: Arc<Certificates>| certificates.keep_current(metrics.clone()).boxed();
    let background = certificates.clone().map(keep_current);
    let tls = certificates.map(|certificates| certificates as Arc<dyn ResolvesServerCert>);
    let scrapes = Scrapes {
        metrics,
        guard: protection.review.map(|review| AccessGuard::new(review, METRICS_PATH)),
        last: Mutex::default(),
    };
    let router = Router::new().route("/metrics", get(serve_metrics));
    let router = router.with_state(Arc::new(scrapes));
    Ok(match dashboard {
        None => ServedSite {
            router,
            connections: 16,
            tls,
            threads: 1,
            background,
        },
        Some(dashboard) => ServedSite {
            router: router.merge(dashboard),
            connections: DASHBOARD_CONNECTIONS,
            tls,
            threads: DASHBOARD_THREADS,
            background,
        },
    })
}

/// The dashboard alone, over plain HTTP.
pub fn dashboard_site(dashboard: Router) -> ServedSite {
    ServedSite {
        router: dashboard,
        connections: DASHBOARD_CONNECTIONS,
        tls: None,
        threads: DASHBOARD_THREADS,
        background: None,
    }
}

/// The webhook that previews changes, over TLS. `background` keeps its certificate and its registration current.
pub(crate) fn admission_site(
    router: Router,
    certificate: Arc<ServedCertificate>,
    background: BoxFuture<'static, ()>,
) -> ServedSite {
    ServedSite {
        router,
        connections: ADMISSION_CONNECTIONS,
        tls: Some(certificate),
        threads: ADMISSION_THREADS,
        background: Some(background),
    }
}

/// `/healthz` and `/readyz`. `/healthz` is 200 as long as the process has the strength to say so.
pub fn probes_site(health: ProcessHealth) -> ServedSite {
    let router = Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(serve_ready));
    ServedSite {
        router: router.with_state(health),
        connections: 64,
        tls: None,
        threads: 1,
        background: None,
    }
}

/// The metrics, who may read them, and the text that they last were.
struct Scrapes {
    metrics: Arc<Metrics>,
    /// `None`: every client may read them.
    guard: Option<AccessGuard>,
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Scrapes {
    fn text(&self) -> Result<Bytes, fmt::Error> {
        let mut last = lock(&self.last);
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

async fn serve_metrics(State(scrapes): State<Arc<Scrapes>>, headers: HeaderMap) -> Response {
    if let Some(guard) = &scrapes.guard
        && let Err(refusal) = guard.admit(&headers).await
    {
        return refusal;
    }
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
    pub fn serve(
        &mut self,
        flag: &'static str,
        address: &BindAddress,
        site: ServedSite,
    ) -> io::Result<Option<SocketAddr>> {
        let BindAddress::At { host, port } = address else {
            return Ok(None);
        };
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder
            .worker_threads(site.threads)
            // The dashboard renders charts, and reads what authors of custom resources wrote.
            .thread_stack_size(STACK_BYTES)
            .thread_name("server")
            .enable_all()
            .build()?;
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
        let acceptor = site
            .tls
            .map(certificate::acceptor)
            .transpose()
            .map_err(io::Error::other)?;
        let serve = listener::serve(listener, site.router, site.connections, acceptor, self.stop.clone());
        let serving = runtime.spawn(serve);
        if let Some(background) = site.background {
            // Ends with the runtime.
            runtime.spawn(background);
        }
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
mod tests;
