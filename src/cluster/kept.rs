//! The Secret of a release that holds its random results.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;

use super::error::Result;
use super::objects::NO_VERSION;
pub use super::secrets::{Files, Place, read, remove};
use super::secrets::{Form, write as write_secret};

/// The Secret's type: no other controller takes it for its own.
pub const SECRET_TYPE: &str = "chartwright.dev/kept-results";

/// Writes it in the place of the version that was read; `None`: there was none. Gives the new version. `about` names the
/// release, for people who come across it; `uid` is that of its custom resource,
/// `owner` what it goes with if nobody removes it.
///
/// # Errors
/// Also if it would be larger than [`super::secrets::MAX_BYTES`]. `Conflict` if somebody wrote it meanwhile.
pub async fn write(
    client: &Client,
    place: &Place,
    files: Files,
    about: &str,
    uid: &str,
    owner: Option<OwnerReference>,
    version: Option<&str>,
) -> Result<String> {
    let form = Form {
        kind: SECRET_TYPE,
        what: "the chart's random results",
        about,
        uid: Some(uid),
        owner,
    };
    write_secret(client, place, files, &form, Some(version.unwrap_or(NO_VERSION))).await
}
