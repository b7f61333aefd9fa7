use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use chartwright_core::access::AccessVerdict;
use chartwright_core::dashboard::{ReleaseRow, ReleaseState};
use chartwright_core::identity::GroupKind;

const TOKEN: &str = "secret-of-the-process";

struct FakeSource {
    board: Arc<Board>,
    reads: AtomicUsize,
}

impl DashboardSource for FakeSource {
    fn board(&self) -> Arc<Board> {
        self.board.clone()
    }

    fn release(&self, key: ReleaseKey) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let read = self.reads.fetch_add(1, Ordering::SeqCst);
        async move {
            match key.name.as_str() {
                "broken" => Err("forbidden: pods".to_owned()),
                "vanished" => Ok(None),
                name => Ok(Some(json!({"name": name, "read": read}))),
            }
        }
        .boxed()
    }

    fn values(&self, _: ReleaseKey) -> BoxFuture<'static, Result<Value, String>> {
        async { Ok(json!([{"path": "a", "secret": true, "origin": "Secret"}])) }.boxed()
    }

    fn changes(&self, _: ReleaseKey) -> BoxFuture<'static, Result<Value, String>> {
        async { Ok(json!({"changes": []})) }.boxed()
    }
}

#[test]
fn the_help_names_a_key_for_each_view() {
    let (page, script) = (include_str!("assets/index.html"), include_str!("assets/release.js"));
    let (_, rest) = script.split_once("const VIEWS = [").unwrap();
    let (views, _) = rest.split_once("\n];").unwrap();
    let count = views.lines().filter(|line| line.starts_with("  [")).count();
    assert!(
        count > 0 && page.contains(&format!("<kbd>1</kbd> to <kbd>{count}</kbd>")),
        "{count} views"
    );
}

fn row(namespace: &str, name: &str, ready: &str) -> ReleaseRow {
    let object = json!({
        "metadata": {"namespace": namespace, "name": name},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "MemberFailed", "message": "no image"}]},
    });
    ReleaseRow::of(&GroupKind::new("example.com", "Web"), &object)
}

fn source() -> Arc<FakeSource> {
    let board = Board::new("test".to_owned());
    for (name, ready) in [("web", "True"), ("broken", "False"), ("vanished", "True")] {
        board.change(|index| index.put(row("shop", name, ready)));
    }
    board.set_listed(true);
    Arc::new(FakeSource {
        board: Arc::new(board),
        reads: AtomicUsize::new(0),
    })
}

fn local(source: &Arc<FakeSource>) -> Router {
    routes(source.clone(), DashboardAccess::Localhost(TOKEN.to_owned()))
}

async fn send(router: &Router, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

/// Sends a GET with a host and a token that are accepted.
async fn get(router: &Router, path: &str) -> (u16, Value) {
    let bearer = format!("Bearer {TOKEN}");
    let response = send(
        router,
        "GET",
        path,
        &[("host", "127.0.0.1:1"), ("authorization", &bearer)],
    )
    .await;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// Method, path, host, whether the token is sent, and the status of the answer.
const REQUESTS: &str = "
GET     /dashboard                               localhost:1                   -      200
GET     /dashboard/app.js                        127.0.0.1:1                   -      200
GET     /dashboard/style.css                     127.0.0.1                     -      200
GET     /dashboard/                              127.0.0.1                     -      308
GET     /                                        127.0.0.1                     -      307
GET     /dashboard/api/releases                  127.0.0.1:1                   token  200
GET     /dashboard/api/releases                  127.0.0.1:1                   -      401
GET     /dashboard/api/releases?page=1           127.0.0.1:1                   token  400
GET     /dashboard/api/release?KEY=web           127.0.0.1:1                   token  200
GET     /dashboard/api/release?KEY=other         127.0.0.1:1                   token  404
GET     /dashboard/api/release?KEY=..%2Fsecrets  127.0.0.1:1                   token  404
GET     /dashboard/api/release?KEY=broken        127.0.0.1:1                   token  502
GET     /dashboard/api/release?KEY=vanished      127.0.0.1:1                   token  404
GET     /dashboard/api/release?name=web          127.0.0.1:1                   token  400
GET     /dashboard/api/values?KEY=web            127.0.0.1:1                   token  200
GET     /dashboard/api/other                     127.0.0.1:1                   token  404
GET     /dashboard/../../etc/passwd              127.0.0.1:1                   token  404
GET     /dashboard/%2e%2e/%2e%2e/etc/passwd      127.0.0.1:1                   token  404
GET     /dashboard/assets/index.html             127.0.0.1:1                   token  404
GET     /metrics                                 127.0.0.1:1                   token  404
GET     /metrics                                 attacker.example              token  421
POST    /dashboard                               127.0.0.1:1                   token  405
PUT     /dashboard/api/release                   127.0.0.1:1                   token  405
PATCH   /dashboard/api/release                   127.0.0.1:1                   token  405
DELETE  /dashboard/api/release                   127.0.0.1:1                   token  405
OPTIONS /dashboard/api/releases                  127.0.0.1:1                   -      405
HEAD    /dashboard                               127.0.0.1:1                   token  405
POST    /dashboard/other                         127.0.0.1:1                   token  405
GET     /dashboard                               attacker.example              token  421
GET     /dashboard/api/releases                  127.0.0.1.attacker.example:1  token  421
GET     /dashboard/api/releases                  localhost.attacker.example    token  421
GET     /dashboard/api/releases                  127.0.0.1:1:2                 token  421
";

#[tokio::test]
async fn every_answer_has_the_headers_of_a_page_that_only_shows() {
    let router = local(&source());
    let bearer = format!("Bearer {TOKEN}");
    for line in REQUESTS.lines().filter(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[method, path, host, token, expected] = words.as_slice() else {
            panic!("{line}");
        };
        let path = path.replace("KEY", "kind=Web.example.com&namespace=shop&name");
        let mut headers = vec![("host", host)];
        if token == "token" {
            headers.push(("authorization", &bearer));
        }
        let response = send(&router, method, &path, &headers).await;
        assert_eq!(response.status().as_u16().to_string(), expected, "{line}");
        let headers = response.headers();
        let policy = headers["content-security-policy"].to_str().unwrap();
        for part in [
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:",
            "base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert_eq!(headers["x-content-type-options"], "nosniff", "{line}");
        assert_eq!(headers["referrer-policy"], "no-referrer");
        assert_eq!(headers["cache-control"], "no-store");
        assert!(headers.get("access-control-allow-origin").is_none() && headers.get("set-cookie").is_none());
    }
    let response = send(&router, "GET", "/dashboard", &[]).await;
    assert_eq!(response.status().as_u16(), 421, "a request without a host");
}

#[tokio::test]
async fn the_api_server_decides_who_reads_the_data_of_an_operator() {
    let review: Review = Arc::new(|token| {
        async move {
            let text = token.review()["spec"]["token"].as_str().unwrap_or_default().to_owned();
            Ok(match text.as_str() {
                "good" => AccessVerdict::Allowed,
                "weak" => AccessVerdict::Denied { user: "ann".to_owned() },
                _ => AccessVerdict::Unauthenticated,
            })
        }
        .boxed()
    });
    let router = routes(source(), DashboardAccess::Review(review));
    let key = "kind=Web.example.com&namespace=shop&name=web";
    for path in [
        "releases",
        &format!("release?{key}"),
        &format!("values?{key}"),
        &format!("events?{key}"),
        "events",
    ] {
        let path = format!("/dashboard/api/{path}");
        for (token, expected) in [
            (Some("good"), 200),
            (Some("weak"), 403),
            (Some("other"), 401),
            (None, 401),
        ] {
            let bearer = format!("Bearer {}", token.unwrap_or_default());
            let headers: Vec<_> = token.map(|_| ("authorization", bearer.as_str())).into_iter().collect();
            let response = send(&router, "GET", &path, &headers).await;
            assert_eq!(response.status().as_u16(), expected, "{path} {token:?}");
            assert_eq!(response.headers()["cache-control"], "no-store");
            if expected == 403 {
                let body = response.into_body().collect().await.unwrap().to_bytes();
                let text = String::from_utf8_lossy(&body);
                assert_eq!(text, "ann lacks the right to get the non-resource URL /dashboard\n");
            }
        }
    }
    // The page itself has no data. An operator answers for any host, and has nothing at the root.
    let response = send(&router, "GET", "/dashboard", &[("host", "operator.svc:8443")]).await;
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(send(&router, "GET", "/", &[]).await.status().as_u16(), 404);
    for path in [
        "/dashboard",
        "/dashboard/api/releases",
        "/dashboard/app.js",
        "/dashboard/other",
    ] {
        let response = send(&router, "POST", path, &[]).await;
        assert_eq!(response.status().as_u16(), 405, "{path}");
        assert_eq!(response.headers()["allow"], "GET");
    }
}

#[tokio::test]
async fn no_asset_uses_inner_html_or_another_origin() {
    let router = local(&source());
    for path in [
        "",
        "/style.css",
        "/api.js",
        "/app.js",
        "/dom.js",
        "/list.js",
        "/release.js",
        "/views.js",
    ] {
        let response = send(&router, "GET", &format!("/dashboard{path}"), &[("host", "localhost")]).await;
        assert_eq!(response.status().as_u16(), 200, "{path}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        for bad in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "onclick=",
            " style=",
            "https://",
            "//cdn",
        ] {
            assert!(!text.contains(bad), "{path}: {bad}");
        }
        let outside = text.matches("http://").count();
        assert_eq!(outside, text.matches("http://www.w3.org/2000/svg").count(), "{path}");
    }
}

#[tokio::test]
async fn one_read_answers_all_who_look_at_a_release() {
    let source = source();
    let router = local(&source);
    let path = "/dashboard/api/release?kind=Web.example.com&namespace=shop&name=web";
    let answers = futures::future::join_all((0..20).map(|_| get(&router, path))).await;
    assert!(
        answers
            .iter()
            .all(|(status, body)| *status == 200 && body["name"] == "web"),
        "{answers:?}"
    );
    // Up to as many as may read at a time begin before the first answer is there.
    assert!(source.reads.load(Ordering::SeqCst) <= 4, "{:?}", source.reads);
}

/// Reads events from a stream, as `name data`.
struct Events(Body, String);

impl Events {
    async fn open(router: &Router, query: &str) -> Self {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("host", "localhost"), ("authorization", bearer.as_str())];
        let response = send(router, "GET", &format!("/dashboard/api/events{query}"), &headers).await;
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events(response.into_body(), String::new())
    }

    /// The next event: its name and data, or `None` at the end.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((block, rest)) = self.1.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.1 = rest;
                let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
                let Some(event) = field("event:") else { continue };
                let data = serde_json::from_str(field("data:").unwrap_or_default()).unwrap();
                return Some((event.to_owned(), data));
            }
            let frame = self.0.frame().await?.unwrap();
            self.1 += std::str::from_utf8(frame.data_ref()?).unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_the_present_state_and_each_change() {
    let source = source();
    let router = local(&source);
    let mut events = Events::open(&router, "?state=failing").await;
    let (name, page) = events.next().await.unwrap();
    assert_eq!(
        (name.as_str(), &page["matched"], &page["total"]),
        ("list", &json!(1), &json!(3))
    );
    // A change outside of the filter changes the counts. One that changes nothing is no event.
    source.board.change(|index| index.put(row("shop", "web", "True")));
    source.board.change(|index| index.put(row("shop", "new", "False")));
    let (_, page) = events.next().await.unwrap();
    assert_eq!(
        (&page["matched"], &page["items"][1]["name"]),
        (&json!(2), &json!("new"))
    );
    // The stream ends after its time.
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_when_the_release_goes_away() {
    let source = source();
    let router = local(&source);
    let mut events = Events::open(&router, "?kind=Web.example.com&namespace=shop&name=web").await;
    assert_eq!(events.next().await.unwrap().0, "release");
    let key = row("shop", "web", "True").key();
    source.board.change(|index| index.remove(&key));
    assert_eq!(next_other(&mut events, "release").await, "gone");
    source.board.change(|index| index.put(row("shop", "web", "False")));
    assert_eq!(next_other(&mut events, "gone").await, "release");
}

/// The name of the next event with another name.
async fn next_other(events: &mut Events, name: &str) -> String {
    loop {
        let (found, _) = events.next().await.unwrap();
        if found != name {
            return found;
        }
    }
}

#[tokio::test]
async fn streams_are_bounded_and_their_places_come_back() {
    let router = local(&source());
    let mut open = Vec::new();
    for _ in 0..stream::MOST_STREAMS {
        open.push(Events::open(&router, "").await);
    }
    let (status, body) = get(&router, "/dashboard/api/events").await;
    assert_eq!(status, 503, "{body}");
    assert!(
        body["error"].as_str().unwrap().contains("pages are open already"),
        "{body}"
    );
    open.pop();
    drop(Events::open(&router, "").await);
}

/// Prints figures: `cargo test -p chartwright-operator --lib ten_thousand -- --nocapture`.
#[tokio::test]
async fn ten_thousand_releases_are_paged_and_searched() {
    let source = source();
    let begun = Instant::now();
    source.board.change(|index| {
        for number in 0..10_000 {
            let ready = if number % 10 == 0 { "False" } else { "True" };
            index.put(row(
                &format!("team-{}", number % 100),
                &format!("release-{number:05}"),
                ready,
            ));
        }
        true
    });
    let filled = begun.elapsed();
    let router = local(&source);
    let bearer = format!("Bearer {TOKEN}");
    for (query, matched) in [
        ("", 10_003),
        ("?offset=9950", 10_003),
        ("?q=release-0123", 10),
        ("?q=team-7+image&state=failing&order=name", 100),
        ("?namespace=team-42", 100),
        ("?state=ready&limit=200&order=age", 9002),
    ] {
        let begun = Instant::now();
        let headers = [("host", "localhost"), ("authorization", bearer.as_str())];
        let response = send(&router, "GET", &format!("/dashboard/api/releases{query}"), &headers).await;
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let took = begun.elapsed();
        let page: Value = serde_json::from_slice(&body).unwrap();
        println!(
            "{query:45} {took:>9.1?} {:>6} bytes, {} matched",
            body.len(),
            page["matched"]
        );
        assert_eq!(page["matched"], matched, "{query}");
        assert!(
            page["items"].as_array().unwrap().len() <= 200 && body.len() < 150_000,
            "{query}: {}",
            body.len()
        );
    }
    println!(
        "filling the index: {filled:.1?}; debug build: {}",
        cfg!(debug_assertions)
    );
    let page = get(&router, "/dashboard/api/releases?state=failing&limit=1").await.1;
    assert_eq!(page["items"][0]["state"], ReleaseState::Failing.as_str());
}
