//! The HTTP stack of kube's client without its queue.
//!
//! A [`Client`] queues its requests for a task of its own. The operator's clients have limits, which are a client around the HTTP
//! stack: with a client around another client, each request would wait in two queues.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock};

use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::{Client, Config, Error};
use tower::util::BoxService;
use tower::{BoxError, Layer, Service};

use crate::sync::lock;

/// Sends requests to one API server, without limits.
#[derive(Clone)]
pub struct Connection {
    send: Arc<dyn Fn(Request<Body>) -> Answer + Send + Sync>,
    default_namespace: String,
}

/// The body of an answer.
pub(super) type AnswerBody = Box<DynBody>;
type Answer = BoxFuture<'static, kube::Result<Response<AnswerBody>>>;
type HttpStack = BoxService<Request<Body>, Response<AnswerBody>, BoxError>;

impl Connection {
    /// Opens the connection of a configuration. The API server is not contacted.
    ///
    /// # Errors
    /// The certificates cannot be used.
    pub fn open(config: Config) -> kube::Result<Self> {
        let default_namespace = config.default_namespace.clone();
        let taken = TakeStack::default();
        // The builder has no other way to give away its stack.
        let _ = ClientBuilder::try_from(config)?.with_layer(&taken);
        let stack = taken.0.into_inner();
        let stack = stack.ok_or_else(|| Error::Service("kube's client has no HTTP stack".into()))?;
        let send = move |request| -> Answer {
            let stack = stack.clone();
            Box::pin(async move {
                poll_fn(|context| lock(&stack).poll_ready(context))
                    .await
                    .map_err(client_error)?;
                let answer = lock(&stack).call(request);
                answer.await.map_err(client_error)
            })
        };
        Ok(Connection {
            send: Arc::new(send),
            default_namespace,
        })
    }

    /// The namespace of the configuration.
    pub fn default_namespace(&self) -> &str {
        &self.default_namespace
    }

    /// Sends a request.
    pub(super) fn send(&self, request: Request<Body>) -> Answer {
        (self.send)(request)
    }
}

/// For tests: a client whose server is not the API server.
impl From<Client> for Connection {
    fn from(client: Client) -> Self {
        Connection {
            default_namespace: client.default_namespace().to_owned(),
            send: Arc::new(move |request| {
                let client = client.clone();
                Box::pin(async move { Ok(client.send(request).await?.map(boxed)) })
            }),
        }
    }
}

fn boxed(body: Body) -> AnswerBody {
    Box::new(body.map_err(BoxError::from))
}

/// A layer that keeps what it is put on.
#[derive(Default)]
struct TakeStack(OnceLock<Arc<Mutex<HttpStack>>>);

impl Layer<HttpStack> for TakeStack {
    type Service = ();

    fn layer(&self, stack: HttpStack) {
        self.0.get_or_init(|| Arc::new(Mutex::new(stack)));
    }
}

/// The error of the stack, as kube's client returns it.
fn client_error(error: BoxError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => match error.downcast() {
            Ok(error) => Error::HyperError(*error),
            Err(error) => Error::Service(error),
        },
    }
}
