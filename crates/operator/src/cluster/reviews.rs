//! Reviews of bearer tokens by the API server: TokenReview and SubjectAccessReview.

use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt as _;
use kube::Client;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::cluster::connection::{bounded, client, config_without_retries};
use crate::cluster::error::{Error, Result};
use crate::telemetry::server::{Review, ReviewFailure};
use chartwright_core::access::{AccessVerdict, BearerToken, TokenUser};

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const SUBJECT_ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Reviews whether the user of a token may read `path`, with the credentials of a kubeconfig (as [`crate::cluster::connect`]). The client is made at the first review, on
/// the runtime of its caller: neither the wait for the API server nor a busy operator blocks the server that asks. A replica
/// that does not lead reviews as well, so this client has no fence.
pub fn reviewer(kubeconfig: Option<PathBuf>, path: &'static str) -> Review {
    let kubeconfig = Arc::new(kubeconfig);
    let connection: Arc<OnceCell<Client>> = Arc::default();
    Arc::new(move |token| {
        let (kubeconfig, connection) = (kubeconfig.clone(), connection.clone());
        async move {
            let connect = || async { client(config_without_retries(kubeconfig.as_deref()).await?) };
            let connected = connection.get_or_try_init(connect).await;
            let connected = connected.map_err(|error| failure(&Error::Unavailable(format!("{error:#}"))))?;
            review(connected, &token, path).await.map_err(|error| failure(&error))
        }
        .boxed()
    })
}

async fn review(client: &Client, token: &BearerToken, path: &str) -> Result<AccessVerdict> {
    let answer = send(client, TOKEN_REVIEWS, &token.review()).await?;
    let Some(user) = TokenUser::of_review(&answer) else {
        return Ok(AccessVerdict::Unauthenticated);
    };
    let answer = send(client, SUBJECT_ACCESS_REVIEWS, &user.access_review(path)).await?;
    Ok(user.verdict(&answer))
}

async fn send(client: &Client, path: &str, review: &Value) -> Result<Value> {
    let request = http::Request::post(path).header(http::header::CONTENT_TYPE, "application/json");
    let request = request.body(review.to_string().into_bytes());
    let request = request.map_err(|error| Error::Invalid(error.to_string()))?;
    bounded(client.request(request)).await
}

fn failure(error: &Error) -> ReviewFailure {
    let remedy = if matches!(error, Error::Forbidden(_)) {
        ": give the operator `create` on tokenreviews.authentication.k8s.io and subjectaccessreviews.authorization.k8s.io, as the \
         ClusterRole metrics-auth-role in config/rbac does"
    } else {
        ""
    };
    ReviewFailure {
        message: format!("{error}{remedy}"),
        is_transient: error.is_transient(),
    }
}
