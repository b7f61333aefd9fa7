//! The paths of the dashboard, the headers of every answer, and the checks of every request.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{KeepAlive, Sse};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, get};
use axum::{Extension, Router};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::form_urlencoded;

use super::reads::{CachedReads, ReleaseView};
use super::stream::{LIFETIME, MOST_STREAMS, Topic, follow};
use super::{Board, DashboardAccess, DashboardSource};
use crate::telemetry::server::{AccessGuard, AnswerTime, unauthorized};
use chartwright_core::access::{BearerToken, DASHBOARD_PATH};
use chartwright_core::dashboard::{ListQuery, ReleaseKey};

/// The path of the page. All other paths are below it.
pub const PATH: &str = DASHBOARD_PATH;

/// Nothing but the files of the page itself, and requests to where it comes from.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
    base-uri 'none'; frame-ancestors 'none'; form-action 'self'";

/// How long a request waits for the first lists.
const LISTING_WAIT: Duration = Duration::from_secs(5);
/// Time between two lines that keep a stream open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const PAGE: &str = include_str!("assets/index.html");
const STYLE: &str = include_str!("assets/style.css");
const SCRIPTS: [(&str, &str); 6] = [
    ("/dashboard/api.js", include_str!("assets/api.js")),
    ("/dashboard/app.js", include_str!("assets/app.js")),
    ("/dashboard/dom.js", include_str!("assets/dom.js")),
    ("/dashboard/list.js", include_str!("assets/list.js")),
    ("/dashboard/release.js", include_str!("assets/release.js")),
    ("/dashboard/views.js", include_str!("assets/views.js")),
];

struct DashboardState {
    source: Arc<dyn DashboardSource>,
    reads: Arc<CachedReads>,
    streams: Arc<Semaphore>,
    access: DashboardGuard,
}

enum DashboardGuard {
    Guard(AccessGuard),
    /// Digest of the token.
    Localhost([u8; 32]),
}

/// The routes of the dashboard.
pub fn routes(source: Arc<dyn DashboardSource>, access: DashboardAccess) -> Router {
    let site = Arc::new(DashboardState {
        reads: Arc::new(CachedReads::new(source.clone())),
        source,
        streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        access: match access {
            DashboardAccess::Review(review) => DashboardGuard::Guard(AccessGuard::new(review, DASHBOARD_PATH)),
            DashboardAccess::Localhost(token) => DashboardGuard::Localhost(Sha256::digest(token).into()),
        },
    });
    let data = Router::new()
        .route("/dashboard/api/releases", get(releases))
        .route("/dashboard/api/release", get(release))
        .route("/dashboard/api/values", get(values))
        .route("/dashboard/api/changes", get(changes))
        .route("/dashboard/api/events", get(events))
        .route_layer(from_fn_with_state(site.clone(), authorize));
    let mut router = Router::new()
        .route(PATH, get(|| async { asset("text/html; charset=utf-8", PAGE) }))
        .route(
            "/dashboard/style.css",
            get(|| async { asset("text/css; charset=utf-8", STYLE) }),
        )
        .route("/dashboard/", get(|| async { Redirect::permanent("../dashboard") }))
        .route("/dashboard/{*rest}", any(nothing));
    for (path, script) in SCRIPTS {
        router = router.route(
            path,
            get(move || async { asset("text/javascript; charset=utf-8", script) }),
        );
    }
    let router = router.merge(data);
    let checks = from_fn_with_state(site.clone(), check);
    let router = match site.access {
        // Other paths of the server belong to others.
        DashboardGuard::Guard(_) => router.route_layer(checks),
        DashboardGuard::Localhost(_) => {
            let router = router.route("/", get(|| async { Redirect::temporary(PATH) }));
            router.fallback(nothing).layer(checks)
        }
    };
    router.with_state(site)
}

async fn nothing() -> Response {
    failure(StatusCode::NOT_FOUND, "there is nothing at this path")
}

fn asset(kind: &'static str, text: &'static str) -> Response {
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

fn json_text(text: impl Into<Bytes>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

fn failure(status: StatusCode, message: &str) -> Response {
    (status, json_text(json!({"error": message}).to_string())).into_response()
}

/// Refuses other methods and hosts, and adds the headers of every answer.
async fn check(State(site): State<Arc<DashboardState>>, request: Request, next: Next) -> Response {
    let mut response = if request.method() != Method::GET {
        let refusal = failure(StatusCode::METHOD_NOT_ALLOWED, "the dashboard only shows: use GET");
        ([(header::ALLOW, "GET")], refusal).into_response()
    } else if matches!(site.access, DashboardGuard::Localhost(_)) && !is_localhost(request.headers()) {
        failure(
            StatusCode::MISDIRECTED_REQUEST,
            "this server answers for localhost and 127.0.0.1 only",
        )
    } else {
        next.run(request).await
    };
    let fixed = |text: &'static str| HeaderValue::from_static(text);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, fixed(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    headers.insert(header::REFERRER_POLICY, fixed("no-referrer"));
    headers.insert(header::CACHE_CONTROL, fixed("no-store"));
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        fixed("same-origin"),
    );
    headers.insert(
        HeaderName::from_static("cross-origin-opener-policy"),
        fixed("same-origin"),
    );
    response
}

/// True if a browser sent the request to a name that can only be this machine.
fn is_localhost(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else {
        return false;
    };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    name == "127.0.0.1" || name.eq_ignore_ascii_case("localhost")
}

/// Admits users that may read the data.
async fn authorize(State(site): State<Arc<DashboardState>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    match &site.access {
        DashboardGuard::Guard(guard) => {
            if let Err(refusal) = guard.admit(headers).await {
                return refusal;
            }
        }
        DashboardGuard::Localhost(digest) => {
            let values = headers.get_all(header::AUTHORIZATION).iter();
            let token = BearerToken::from_headers(values.map(HeaderValue::as_bytes));
            // Digests: the time of the comparison says nothing about the token.
            if token.is_none_or(|token| !token.has_digest(digest)) {
                return unauthorized(
                    "open the address that `chartwright dashboard` has printed: it ends with a token\n",
                );
            }
        }
    }
    next.run(request).await
}

/// The parameters of a request.
fn parameters(query: Option<&str>) -> Vec<(String, String)> {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .into_owned()
        .collect()
}

fn list_query(query: Option<&str>) -> Result<ListQuery, String> {
    let parameters = parameters(query);
    ListQuery::parse(parameters.iter().map(|(name, text)| (name.as_str(), text.as_str())))
}

fn release_key(query: Option<&str>) -> Result<ReleaseKey, String> {
    let parameters = parameters(query);
    ReleaseKey::parse(parameters.iter().map(|(name, text)| (name.as_str(), text.as_str())))
}

impl DashboardState {
    /// The rows, once they are complete or [`LISTING_WAIT`] is over.
    async fn board(&self) -> Arc<Board> {
        let board = self.source.board();
        board.note_use();
        let mut changes = board.subscribe();
        let listed = async {
            while !board.is_listed() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(LISTING_WAIT, listed).await;
        board
    }

    async fn view(&self, view: ReleaseView, query: Option<&str>) -> Response {
        let key = match release_key(query) {
            Ok(key) => key,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
        };
        // Only listed releases are read: a name in a request is not sent to the API server otherwise.
        let is_known = self.board().await.row(&key).is_some();
        let answer = if is_known {
            self.reads.read(view, &key).await
        } else {
            Ok(None)
        };
        match answer {
            Ok(Some(text)) => json_text(text),
            Ok(None) => failure(StatusCode::NOT_FOUND, "there is no such release"),
            Err(error) => failure(StatusCode::BAD_GATEWAY, &error),
        }
    }
}

async fn releases(State(site): State<Arc<DashboardState>>, RawQuery(query): RawQuery) -> Response {
    let query = match list_query(query.as_deref()) {
        Ok(query) => query,
        Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
    };
    let board = site.board().await;
    match serde_json::to_vec(&board.listing(&query)) {
        Ok(text) => json_text(text),
        Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn release(State(site): State<Arc<DashboardState>>, RawQuery(query): RawQuery) -> Response {
    site.view(ReleaseView::Release, query.as_deref()).await
}

async fn values(State(site): State<Arc<DashboardState>>, RawQuery(query): RawQuery) -> Response {
    site.view(ReleaseView::Values, query.as_deref()).await
}

async fn changes(State(site): State<Arc<DashboardState>>, RawQuery(query): RawQuery) -> Response {
    site.view(ReleaseView::Changes, query.as_deref()).await
}

/// Events about one release if the request names one, else about a page of the list.
async fn events(
    State(site): State<Arc<DashboardState>>,
    RawQuery(query): RawQuery,
    time: Option<Extension<AnswerTime>>,
) -> Response {
    let names_release = parameters(query.as_deref()).iter().any(|(name, _)| name == "name");
    let topic = if names_release {
        release_key(query.as_deref()).map(Topic::Release)
    } else {
        list_query(query.as_deref()).map(Topic::List)
    };
    let topic = match topic {
        Ok(topic) => topic,
        Err(error) => return failure(StatusCode::BAD_REQUEST, &error),
    };
    let Ok(place) = site.streams.clone().try_acquire_owned() else {
        let message = format!("{MOST_STREAMS} pages are open already: close one, or reload this one later");
        return failure(StatusCode::SERVICE_UNAVAILABLE, &message);
    };
    if let Some(Extension(time)) = time {
        // The stream ends first, and cleanly.
        time.extend(LIFETIME + KEEP_ALIVE);
    }
    let board = site.board().await;
    let events = follow(topic, board, site.reads.clone(), place);
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}
