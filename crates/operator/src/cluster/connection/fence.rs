//! The write fence: no write leaves this process after its leadership may have ended.
//!
//! Each renewal of the Lease extends the fence. The clock decides whether a write may leave, so a late task, timer or
//! runtime cannot break the rule. A write is checked twice: before the HTTP client receives it, and when the client reads
//! its body to send it. Between the two the write may wait for a connection or a thread.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use http_body::{Frame, SizeHint};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;

use crate::cluster::error::Error;

/// The time until which writes may leave this process. Closed until the first [`Fence::extend`].
#[derive(Debug)]
pub struct Fence {
    base: Instant,
    /// Microseconds after `base`.
    until: AtomicU64,
    closed: AtomicBool,
}

/// Checks the writes of one client against a fence.
pub(in crate::cluster) struct RequestGate {
    fence: Arc<Fence>,
    /// Wraps request bodies. kube can only wrap response bodies, so this client talks to a service that echoes the body.
    wrap: Client,
}

/// The body of a write. It fails if the fence is closed; with HTTP/1 the request is then never complete.
struct FencedBody {
    body: Body,
    fence: Arc<Fence>,
}

impl Default for Fence {
    fn default() -> Self {
        Fence {
            base: Instant::now(),
            until: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }
}

impl Fence {
    /// Allows writes until `until`, never shortening an earlier extension. Has no effect after [`Fence::close`].
    pub fn extend(&self, until: Instant) {
        self.until.fetch_max(self.micros(until), Ordering::SeqCst);
    }

    /// Refuses all writes from now on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// True if a write may leave now.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst) && self.micros(Instant::now()) < self.until.load(Ordering::SeqCst)
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.base).as_micros()).unwrap_or(u64::MAX)
    }
}

impl RequestGate {
    pub(in crate::cluster) fn new(fence: Arc<Fence>) -> Self {
        let of_bodies = fence.clone();
        let echo = tower::service_fn(move |request: Request<Body>| {
            let fence = of_bodies.clone();
            let body = FencedBody {
                body: request.into_body(),
                fence,
            };
            std::future::ready(Ok::<_, Infallible>(Response::new(body)))
        });
        RequestGate {
            fence,
            wrap: Client::new(echo, ""),
        }
    }

    /// Returns the request as it may be sent.
    ///
    /// # Errors
    /// [`Error::NotLeading`], for a write while the fence is closed.
    pub(in crate::cluster) async fn admit(&self, request: Request<Body>) -> kube::Result<Request<Body>> {
        if !is_write(&request) {
            return Ok(request);
        }
        if !self.fence.is_open() {
            return Err(refusal());
        }
        let (head, body) = request.into_parts();
        let wrapped = self.wrap.send(Request::new(body)).await?;
        Ok(Request::from_parts(head, wrapped.into_body()))
    }
}

fn refusal() -> kube::Error {
    kube::Error::Service(Box::new(Error::NotLeading))
}

/// True for requests that may change something. Access reviews are reads that use POST.
fn is_write<B>(request: &Request<B>) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let is_review = || {
        let path = request.uri().path();
        path.starts_with("/apis/authorization.k8s.io/") || path.starts_with("/apis/authentication.k8s.io/")
    };
    !is_read && !is_review()
}

impl http_body::Body for FencedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if !self.fence.is_open() {
            return Poll::Ready(Some(Err(refusal())));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;
    use crate::cluster::connection::with_fence;

    const TERM: Duration = Duration::from_secs(10);

    fn request(method: &str, path: &str) -> Request<Body> {
        let request = Request::builder().method(method).uri(path);
        request.body(Body::from(b"{}".to_vec())).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn writes_pass_while_the_fence_is_open_and_reads_always() {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let log = sent.clone();
        let server = tower::service_fn(move |request: Request<Body>| {
            let log = log.clone();
            async move {
                let line = format!("{} {}", request.method(), request.uri().path());
                let body = request.into_body().collect_bytes().await?;
                log.lock().unwrap().push(line);
                Ok::<_, kube::Error>(Response::new(Body::from(body)))
            }
        });
        let fence = Arc::new(Fence::default());
        let client = with_fence(Client::new(server, "shop"), fence.clone());
        let send = async |method: &str, path: &str| match client.send(request(method, path)).await {
            Ok(answer) => {
                assert_eq!(answer.into_body().collect_bytes().await.unwrap(), "{}");
                true
            }
            Err(error) => {
                let error = Error::from(error);
                assert!(matches!(error, Error::NotLeading) && error.is_transient(), "{error:?}");
                false
            }
        };
        let pods = "/api/v1/namespaces/shop/pods/a";
        let leases = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/chartwright-elect-a";
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let all = async |open: bool| {
            for (method, path, is_write) in [
                ("GET", pods, false),
                ("HEAD", pods, false),
                ("POST", pods, true),
                ("PUT", pods, true),
                ("PATCH", pods, true),
                ("DELETE", pods, true),
                ("PATCH", leases, true),
                ("POST", review, false),
                ("UNKNOWN", pods, true),
            ] {
                let before = sent.lock().unwrap().len();
                let passes = open || !is_write;
                assert_eq!(send(method, path).await, passes, "{method} {path}, open: {open}");
                assert_eq!(sent.lock().unwrap().len() - before, usize::from(passes), "{method}");
            }
        };
        all(false).await;
        fence.extend(Instant::now() + TERM);
        all(true).await;
        tokio::time::advance(TERM).await;
        all(false).await;
        fence.extend(Instant::now() + TERM);
        fence.extend(Instant::now());
        all(true).await;
        fence.close();
        all(false).await;
        fence.extend(Instant::now() + TERM);
        all(false).await;
    }

    /// The HTTP client already holds the write when leadership ends, and gets a connection later.
    #[test]
    fn a_write_in_progress_when_the_fence_closes_never_arrives() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut arrived = Vec::new();
            // Two connections, or one connection used twice, until the client ends.
            for _ in 0..2 {
                let Ok((mut stream, _)) = listener.accept() else { break };
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut bytes) {
                    arrived.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
                }
            }
            arrived
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let fence = Arc::new(Fence::default());
        fence.extend(Instant::now() + Duration::from_secs(3600));
        runtime.block_on(async {
            let mut config = kube::Config::new(url.parse().unwrap());
            config.default_retry = false;
            let inner = Client::try_from(config).unwrap();
            let of_layer = fence.clone();
            let late = tower::service_fn(move |request: Request<Body>| {
                let (inner, fence) = (inner.clone(), of_layer.clone());
                async move {
                    if request.uri().path() == "/late" {
                        fence.close();
                    }
                    inner.send(request).await
                }
            });
            let client = with_fence(Client::new(late, "shop"), fence.clone());
            client.send(request("PATCH", "/early")).await.unwrap();
            let refused = client.send(request("PATCH", "/late")).await.unwrap_err();
            let error = crate::telemetry::chain(&refused);
            assert!(error.contains(&Error::NotLeading.to_string()), "{error}");
        });
        drop(runtime);
        // Unblocks the server, which waits for another connection.
        drop(std::net::TcpStream::connect(url_address(&url)));
        drop(std::net::TcpStream::connect(url_address(&url)));
        let arrived = server.join().unwrap();
        let early = arrived.iter().filter(|text| text.contains("/early")).count();
        assert_eq!(early, 1, "{arrived:?}");
        let late = arrived
            .iter()
            .filter(|text| text.contains("/late") && text.contains("{}"));
        assert_eq!(late.count(), 0, "{arrived:?}");
    }

    fn url_address(url: &str) -> &str {
        url.trim_start_matches("http://")
    }
}
