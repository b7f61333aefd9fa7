//! Requests in the name of a ServiceAccount (<https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation>).

use std::fmt;

use http::{HeaderName, HeaderValue, Request};
use kube::Client;
use kube::client::Body;

use crate::cluster::error::{Error, Result};

/// The user whose rights count. The API server adds the groups of a ServiceAccount by itself
/// (`WithImpersonation` of k8s.io/apiserver/pkg/endpoints/filters).
const USER: HeaderName = HeaderName::from_static("impersonate-user");

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceAccount {
    pub namespace: String,
    pub name: String,
}

impl ServiceAccount {
    /// The user name of the account.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

impl fmt::Display for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Returns a client whose requests have the rights of an account. It shares connections, limits and the write fence with `client`, whose
/// user needs the right to impersonate the account.
///
/// # Errors
/// The name cannot be part of a request.
pub fn as_service_account(client: &Client, account: &ServiceAccount) -> Result<Client> {
    let user = HeaderValue::from_str(&account.user())
        .map_err(|_| Error::Invalid(format!("{account} is no name of a ServiceAccount")))?;
    let base = client.clone();
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let (base, user) = (base.clone(), user.clone());
        request.headers_mut().insert(USER, user);
        async move { base.send(request).await }
    });
    Ok(Client::new(service, namespace))
}

/// A client of which every request fails: the account is unknown, and no other rights may be used.
pub fn without_connection() -> Client {
    let refuse = |_: Request<Body>| async {
        let unknown = Error::Invalid("the ServiceAccount of the release is unknown".to_owned());
        Err::<http::Response<Body>, _>(unknown)
    };
    Client::new(tower::service_fn(refuse), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_name_the_account() {
        let echo = tower::service_fn(|request: Request<Body>| async move {
            let user = request.headers().get(USER).cloned();
            let text = user.map(|user| user.to_str().unwrap_or_default().to_owned());
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::from(text.unwrap_or_default().into_bytes())))
        });
        let client = Client::new(echo, "shop");
        let account = ServiceAccount {
            namespace: "shop".into(),
            name: "deployer".into(),
        };
        let request = || Request::get("/api/v1/namespaces").body(Vec::new()).unwrap();
        let named = as_service_account(&client, &account).unwrap();
        assert_eq!(
            named.request_text(request()).await.unwrap(),
            "system:serviceaccount:shop:deployer"
        );
        assert_eq!(client.request_text(request()).await.unwrap(), "");
        assert!(
            as_service_account(
                &client,
                &ServiceAccount {
                    name: "a\nb".into(),
                    ..account
                }
            )
            .is_err()
        );
    }
}
