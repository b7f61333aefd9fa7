use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A guard whose API server answers a token by its text, and a count of its reviews.
fn guard() -> (Arc<AccessGuard>, Arc<AtomicUsize>) {
    let reviews = Arc::new(AtomicUsize::new(0));
    let count = reviews.clone();
    let review: Review = Arc::new(move |token| {
        count.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let text = token.review()["spec"]["token"].as_str().unwrap_or_default().to_owned();
            let fail = |message: String, is_transient| Err(ReviewFailure { message, is_transient });
            match text.as_str() {
                "good" => Ok(AccessVerdict::Allowed),
                "weak" => Ok(AccessVerdict::Denied { user: "ann".to_owned() }),
                "down" => fail("connection refused".to_owned(), true),
                "refused" => fail(format!("forbidden: {text}"), false),
                "slow" => std::future::pending().await,
                _ => Ok(AccessVerdict::Unauthenticated),
            }
        })
    });
    (Arc::new(AccessGuard::new(review, "/metrics")), reviews)
}

fn headers(token: &str) -> HeaderMap {
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    HeaderMap::from_iter([(header::AUTHORIZATION, value)])
}

/// The status for a token; 200 for one that is admitted.
async fn status(guard: &AccessGuard, token: &str) -> u16 {
    let admitted = guard.admit(&headers(token)).await;
    admitted.map_or_else(|refusal| refusal.status().as_u16(), |()| 200)
}

#[tokio::test(start_paused = true)]
async fn a_token_has_the_answer_of_its_verdict() {
    let (guard, reviews) = guard();
    let refusal = guard.admit(&HeaderMap::new()).await.unwrap_err();
    assert_eq!(refusal.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(refusal.headers()[header::WWW_AUTHENTICATE], "Bearer");
    assert_eq!(reviews.load(Ordering::SeqCst), 0);
    for (token, expected) in [
        ("good", 200),
        ("weak", 403),
        ("unknown", 401),
        ("down", 503),
        ("refused", 500),
        ("slow", 503),
    ] {
        assert_eq!(status(&guard, token).await, expected, "{token}");
    }
    let logged = guard.logged.lock().unwrap().clone().unwrap().0;
    assert!(logged.contains("no answer within 10s"), "{logged}");
    guard.admit(&headers("refused")).await.unwrap_err();
    let logged = guard.logged.lock().unwrap().clone().unwrap().0;
    assert_eq!(logged, "forbidden: [redacted]");
}

#[tokio::test(start_paused = true)]
async fn a_verdict_counts_for_ten_seconds_and_a_failure_not_at_all() {
    let (guard, reviews) = guard();
    let reviewed = async |token: &str| {
        let before = reviews.load(Ordering::SeqCst);
        status(&guard, token).await;
        reviews.load(Ordering::SeqCst) > before
    };
    for token in ["good", "weak", "unknown"] {
        assert!(reviewed(token).await, "{token}");
        assert!(!reviewed(token).await, "{token}");
        sleep(Duration::from_millis(9900)).await;
        assert!(!reviewed(token).await, "{token}");
        sleep(Duration::from_millis(200)).await;
        assert!(reviewed(token).await, "{token}");
    }
    for token in ["down", "refused"] {
        assert!(reviewed(token).await && reviewed(token).await, "{token}");
    }
}

#[tokio::test(start_paused = true)]
async fn guessed_tokens_have_a_bound_and_delay_no_known_one() {
    let (guard, reviews) = guard();
    assert_eq!(status(&guard, "good").await, 200);
    let begun = Instant::now();
    let guesses: Vec<_> = (0..40)
        .map(|number| {
            let guard = guard.clone();
            tokio::spawn(async move { status(&guard, &format!("guess-{number}")).await })
        })
        .collect();
    assert_eq!(status(&guard, "good").await, 200);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    for guess in guesses {
        assert_eq!(guess.await.unwrap(), 401);
    }
    assert_eq!(reviews.load(Ordering::SeqCst), 41);
    // 40 tokens in 4 places, 50 ms each; the first place was in use when they began.
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    // Reviews that never end keep the places for 10 s at most.
    for _ in 0..8 {
        let guard = guard.clone();
        tokio::spawn(async move { status(&guard, "slow").await });
    }
    sleep(Duration::from_secs(15)).await;
    assert_eq!(status(&guard, "new").await, 401);
}

#[test]
fn the_cache_has_a_bound() {
    let mut verdicts = VerdictCache::default();
    let begun = Instant::now();
    let digest = |number: usize| {
        let value = format!("Bearer token-{number}");
        BearerToken::from_headers([value.as_bytes()]).unwrap().digest()
    };
    let at = |number: usize| begun + Duration::from_millis(number as u64);
    for number in 0..2 * MAX_VERDICTS {
        verdicts.insert(digest(number), AccessVerdict::Allowed, at(number));
    }
    assert_eq!(verdicts.0.len(), MAX_VERDICTS);
    let last = at(2 * MAX_VERDICTS);
    assert_eq!(verdicts.get(digest(MAX_VERDICTS - 1), last), None);
    assert_eq!(verdicts.get(digest(MAX_VERDICTS), last), Some(AccessVerdict::Allowed));
    let late = last + VERDICT_AGE;
    verdicts.insert(digest(0), AccessVerdict::Unauthenticated, late);
    assert_eq!(verdicts.0.len(), 1);
}
