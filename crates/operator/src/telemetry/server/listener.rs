//! One listening socket, and what its clients may cost: time, memory and connections have bounds.
//!
//! Every pod of the cluster may reach these ports unless a NetworkPolicy is in the way. A connection is for one request, whose
//! head has to come within 5 s and in 16 KiB. When there are as many connections as there may be, a new one takes the place
//! of the oldest one from the address that has the most: who floods a port pushes itself out, and a probe from elsewhere is
//! answered. With TLS, the handshake has 5 s of its own. A request that was authorized may take longer by [`AnswerTime`].

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// How long a client may take to send the head of its request.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a client may take for the TLS handshake.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may take from its beginning to the end of the answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes that a connection may buffer: the head of a request has to fit.
pub(super) const HEAD_BYTES: usize = 16 << 10;

/// How long open connections may take to end once the server stops.
pub(super) const DRAIN: Duration = Duration::from_secs(2);

/// Before the next connection is accepted after one could not be, such as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The answer to a request over plain HTTP on a port with TLS.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    This port serves HTTPS only: use https:// in the address.\n";

/// What a connection may be: TCP, or TLS over TCP.
trait ConnectionStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ConnectionStream for S {}

/// When a connection ends that has not ended by itself. An extension of its request.
#[derive(Clone)]
pub(crate) struct AnswerTime(Arc<watch::Sender<Instant>>);

impl AnswerTime {
    /// Lets the answer take this long from now on.
    pub(crate) fn extend(&self, time: Duration) {
        self.0.send_replace(Instant::now() + time);
    }
}

/// Connections that are open, the oldest first.
#[derive(Default)]
struct Open(VecDeque<(IpAddr, AbortHandle)>);

/// Answers until `stop`, on at most so many connections at a time. `tls`: `None` for plain HTTP.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    most: usize,
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        // Nothing is idle then. Probes and scrapes come many seconds apart.
        .keep_alive(false);
    let mut tasks = JoinSet::new();
    let mut open = Open::default();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        open.make_room(most);
        let task = tasks.spawn(answer(http.clone(), stream, router.clone(), tls.clone()));
        open.0.push_back((peer.ip().to_canonical(), task));
        // A client that has sent its request gets its response before the next one takes its place.
        tokio::task::yield_now().await;
    }
    drop(listener);
    let _ = timeout(DRAIN, async { while tasks.join_next().await.is_some() {} }).await;
}

/// One request and its answer.
async fn answer(http: http1::Builder, stream: TcpStream, router: Router, tls: Option<TlsAcceptor>) {
    let (end, mut ends) = watch::channel(Instant::now() + CONNECTION_TIMEOUT);
    let time = AnswerTime(Arc::new(end));
    let extension = time.clone();
    let service = router.map_request(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(extension.clone());
        request
    });
    let answered = async {
        let stream: Box<dyn ConnectionStream> = match tls {
            None => Box::new(stream),
            Some(tls) => match timeout(HANDSHAKE_TIMEOUT, accept(&tls, stream)).await {
                Ok(Ok(Some(stream))) => stream,
                Ok(Ok(None)) | Err(_) => return,
                Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
            },
        };
        let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
        // A client that misbehaves is of no interest.
        let _ = connection.await;
    };
    tokio::pin!(answered);
    loop {
        let until = *ends.borrow_and_update();
        tokio::select! {
            () = &mut answered => return,
            () = sleep_until(until) => return,
            // The sender lives as long as this function.
            _ = ends.changed() => {}
        }
    }
}

/// The TLS handshake. Returns `None` for a client that sends plain HTTP, after an answer to it.
async fn accept(tls: &TlsAcceptor, stream: TcpStream) -> io::Result<Option<Box<dyn ConnectionStream>>> {
    // A request begins with the letters of a method, and a handshake with the byte 22.
    let mut first = [0];
    stream.peek(&mut first).await?;
    if !first[0].is_ascii_alphabetic() {
        return Ok(Some(Box::new(tls.accept(stream).await?)));
    }
    // A connection that is closed with unread bytes is reset, and the client loses the answer.
    stream.try_read(&mut [0; 4096])?;
    stream.writable().await?;
    // A new connection has more room than this answer needs.
    stream.try_write(PLAIN_HTTP)?;
    Ok(None)
}

impl Open {
    /// Ends connections until there are fewer than `most`.
    fn make_room(&mut self, most: usize) {
        self.0.retain(|(_, task)| !task.is_finished());
        while self.0.len() >= most {
            let Some((_, task)) = self.busiest().and_then(|busiest| self.0.remove(busiest)) else {
                return;
            };
            task.abort();
        }
    }

    /// The oldest connection of the address that has the most.
    fn busiest(&self) -> Option<usize> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for (address, _) in &self.0 {
            *counts.entry(*address).or_default() += 1;
        }
        let most = counts.values().copied().max()?;
        self.0
            .iter()
            .position(|(address, _)| counts.get(address) == Some(&most))
    }
}
