//! Who may read `/metrics` and `/dashboard` with `--metrics-require-rbac`: the bearer token of a request, and what the API server's
//! reviews say about it.
//!
//! The operator sends a TokenReview, which names the user of the token, and a SubjectAccessReview, which decides whether
//! this user may `get` the path as a non-resource URL.

use std::fmt;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The path that a user needs the right on to read the metrics.
pub const METRICS_PATH: &str = "/metrics";

/// The path that a user needs the right on to read the dashboard.
pub const DASHBOARD_PATH: &str = "/dashboard";

/// The verb that a user needs on a path. It also covers HEAD, whose answer is a part of that to GET.
const VERB: &str = "get";

/// The bearer token of a request. Its debug output hides it, and it has no display.
pub struct BearerToken(String);

/// Identifies a token. The token cannot be derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenDigest([u8; 32]);

/// What the API server decided about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessVerdict {
    /// The user of the token may read the path.
    Allowed,
    /// The token is invalid or expired.
    Unauthenticated,
    /// The user of the token lacks the right.
    Denied {
        /// The name of the user.
        user: String,
    },
}

/// The user of a token, as a TokenReview reports it.
#[derive(Debug, PartialEq)]
pub struct TokenUser(Value);

impl BearerToken {
    /// Reads the token from the values of all `Authorization` headers of a request. As in Kubernetes, the scheme is `Bearer` in
    /// upper or lower case, and the token has no spaces. Returns `None` without exactly one header, or for another scheme.
    pub fn from_headers<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut values = values.into_iter();
        let (value, None) = (values.next()?, values.next()) else {
            return None;
        };
        let (scheme, token) = std::str::from_utf8(value).ok()?.trim().split_once(' ')?;
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        (scheme.eq_ignore_ascii_case("bearer") && is_token).then(|| BearerToken(token.to_owned()))
    }

    /// The digest under which a verdict may be cached.
    pub fn digest(&self) -> TokenDigest {
        TokenDigest(Sha256::digest(&self.0).into())
    }

    /// True if this is the token with this SHA-256 digest.
    pub fn has_digest(&self, digest: &[u8; 32]) -> bool {
        self.digest().0 == *digest
    }

    /// Returns a text without this token.
    pub fn remove_from(&self, text: &str) -> String {
        text.replace(&self.0, "[redacted]")
    }

    /// The TokenReview that requests the user of this token.
    pub fn review(&self) -> Value {
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": self.0}})
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken([redacted])")
    }
}

impl TokenUser {
    /// Reads an answered TokenReview. Returns `None` if the token is invalid, or the answer names no user.
    pub fn of_review(review: &Value) -> Option<Self> {
        let status = review.get("status")?;
        let user = status.get("user")?;
        let has_name = user["username"].as_str().is_some_and(|name| !name.is_empty());
        (status["authenticated"] == true && has_name).then(|| TokenUser(user.clone()))
    }

    /// The SubjectAccessReview that asks whether this user may read a path.
    pub fn access_review(&self, path: &str) -> Value {
        let mut spec = json!({"user": self.0["username"], "nonResourceAttributes": {"path": path, "verb": VERB}});
        for field in ["uid", "groups", "extra"] {
            if let Some(value) = self.0.get(field) {
                spec[field] = value.clone();
            }
        }
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec})
    }

    /// The verdict of an answered SubjectAccessReview. An answer without `allowed` denies.
    pub fn verdict(&self, review: &Value) -> AccessVerdict {
        if review["status"]["allowed"] == true && review["status"]["denied"] != true {
            AccessVerdict::Allowed
        } else {
            let user = self.0["username"].as_str().unwrap_or_default().to_owned();
            AccessVerdict::Denied { user }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(values: &[&str]) -> Option<String> {
        BearerToken::from_headers(values.iter().map(|value| value.as_bytes())).map(|token| token.0)
    }

    #[test]
    fn tokens_are_read_as_kubernetes_reads_them() {
        for (values, expected) in [
            (&["Bearer abc"][..], Some("abc")),
            (&["bearer abc.d-e_f~+/="], Some("abc.d-e_f~+/=")),
            (&["BEARER abc "], Some("abc")),
            (&[], None),
            (&[""], None),
            (&["Bearer"], None),
            (&["Bearer "], None),
            (&["Bearer  abc"], None),
            (&["Bearer abc def"], None),
            (&["Bearer a\tb"], None),
            (&["Bearer ä"], None),
            (&["Basic YTpi"], None),
            (&["abc"], None),
            // Two headers may name two users.
            (&["Bearer abc", "Bearer def"], None),
        ] {
            assert_eq!(token(values).as_deref(), expected, "{values:?}");
        }
        assert!(BearerToken::from_headers([&b"Bearer \xff"[..]]).is_none());
    }

    #[test]
    fn a_token_is_not_shown() {
        let token = BearerToken("abc.def".to_owned());
        let shown = format!(
            "{token:?} {:?} {}",
            token.digest(),
            token.remove_from("bad token abc.def!")
        );
        assert!(!shown.contains("abc"), "{shown}");
        assert!(shown.ends_with("bad token [redacted]!"), "{shown}");
        assert_eq!(token.digest(), BearerToken("abc.def".to_owned()).digest());
        assert_ne!(token.digest(), BearerToken("abc.deg".to_owned()).digest());
        assert_eq!(token.review()["spec"], json!({"token": "abc.def"}));
    }

    #[test]
    fn the_user_of_a_token_is_read_and_passed_on() {
        let user = json!({
            "username": "system:serviceaccount:shop:a", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}, "more": 1,
        });
        let valid = json!({"status": {"authenticated": true, "user": user}});
        let access = TokenUser::of_review(&valid).unwrap().access_review(METRICS_PATH);
        let expected = json!({
            "user": "system:serviceaccount:shop:a", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(access["spec"], expected);
        let brief = json!({"status": {"authenticated": true, "user": {"username": "a"}}});
        let access = TokenUser::of_review(&brief).unwrap().access_review(DASHBOARD_PATH);
        let expected = json!({"user": "a", "nonResourceAttributes": {"path": "/dashboard", "verb": "get"}});
        assert_eq!(access["spec"], expected);
        for invalid in [
            json!({"status": {"error": "[invalid bearer token]"}}),
            json!({"status": {"authenticated": false, "user": user}}),
            json!({"status": {"authenticated": "true", "user": user}}),
            json!({"status": {"user": user}}),
            json!({"status": {"authenticated": true}}),
            json!({"status": {"authenticated": true, "user": {"username": ""}}}),
            json!({"status": {"authenticated": true, "user": {"groups": ["system:masters"]}}}),
            json!({}),
            json!(null),
            json!([]),
        ] {
            assert_eq!(TokenUser::of_review(&invalid), None, "{invalid}");
        }
    }

    #[test]
    fn only_a_clear_answer_allows() {
        let user = TokenUser(json!({"username": "a"}));
        assert_eq!(
            user.verdict(&json!({"status": {"allowed": true}})),
            AccessVerdict::Allowed
        );
        for answer in [
            json!({"status": {"allowed": false, "reason": "no rule"}}),
            json!({"status": {"allowed": true, "denied": true}}),
            json!({"status": {"allowed": "true"}}),
            json!({"status": {"allowed": false, "evaluationError": "no such role"}}),
            json!({"status": {}}),
            json!({}),
            json!(null),
        ] {
            let denied = AccessVerdict::Denied { user: "a".to_owned() };
            assert_eq!(user.verdict(&answer), denied, "{answer}");
        }
    }
}
