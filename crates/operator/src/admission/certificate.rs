//! The certificate of the webhook. All replicas serve the one in a Secret, so that the API server trusts each of them.
//!
//! | Secret | what happens |
//! |---|---|
//! | absent | a certificate is created in it |
//! | unreadable, or for other names | a new certificate replaces it |
//! | more than half of its validity is over | a new certificate replaces it; the API server trusts both until the former one expires |
//! | valid | it is served |
//!
//! A replica that loses a race reads what the other one wrote.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

use super::Connected;
use crate::cluster::Error;
use crate::cluster::connection::bounded;
use crate::telemetry::server::{NewCertificate, SELF_SIGNED_VALIDITY, UsedCertificate};

/// The keys of the Secret.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const TRUSTED: &str = "ca.crt";
/// The names that the certificate is for, separated by commas.
const NAMES: &str = "names";

/// Races with other replicas that are lost before this is an error.
const ATTEMPTS: usize = 3;

/// The certificate in the Secret.
#[derive(Debug)]
pub(super) struct StoredCertificate {
    pub(super) used: UsedCertificate,
    /// The certificates that the API server is to trust, in PEM format: this one, and the former one while it is valid.
    pub(super) trusted: String,
}

/// Reads the certificate, or creates one. `names`: the names and addresses by which the API server reaches the webhook.
///
/// # Errors
/// The Secret cannot be read or written.
pub(super) async fn load(connected: &Connected, name: &str, names: &[String]) -> anyhow::Result<StoredCertificate> {
    let namespace = &connected.own_namespace;
    let place = format!("the certificate in Secret {namespace}/{name}");
    let api: Api<Secret> = Api::namespaced(connected.client.clone(), namespace);
    for _ in 0..ATTEMPTS {
        let found = bounded(api.get_opt(name)).await.with_context(|| place.clone())?;
        let now = Timestamp::now().as_second();
        let data = found
            .as_ref()
            .and_then(|secret| secret.data.clone())
            .unwrap_or_default();
        if let Some(stored) = usable(&data, names, now) {
            return Ok(stored);
        }
        let data = renewed(&data, names.to_vec(), now)?;
        let parameters = PostParams::default();
        let written = match found {
            Some(secret) => {
                let secret = Secret {
                    data: Some(data),
                    ..secret
                };
                bounded(api.replace(name, &parameters, &secret)).await
            }
            None => {
                let metadata = ObjectMeta {
                    name: Some(name.to_owned()),
                    ..ObjectMeta::default()
                };
                let secret = Secret {
                    metadata,
                    data: Some(data),
                    ..Secret::default()
                };
                bounded(api.create(&parameters, &secret)).await
            }
        };
        match written {
            Ok(_) => tracing::info!(secret = name, "a new certificate for the admission webhook"),
            Err(Error::Conflict(_)) => {}
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("{place}: the operator needs the rights of config/admission/role.yaml"));
            }
        }
    }
    bail!("{place} changes all the time")
}

/// The certificate of a Secret, if it need not be replaced.
fn usable(data: &BTreeMap<String, ByteString>, names: &[String], now: i64) -> Option<StoredCertificate> {
    let text = |field: &str| data.get(field).and_then(|bytes| std::str::from_utf8(&bytes.0).ok());
    let used = UsedCertificate::from_pem(text(CERTIFICATE)?.as_bytes(), text(KEY)?.as_bytes()).ok()?;
    let trusted = text(TRUSTED)?.to_owned();
    let is_current = used.not_before <= now && now < used.not_after - SELF_SIGNED_VALIDITY / 2;
    let is_named = text(NAMES)? == names.join(",");
    (is_current && is_named && trusted.contains(text(CERTIFICATE)?)).then_some(StoredCertificate { used, trusted })
}

/// The data of a Secret with a new certificate.
fn renewed(
    former: &BTreeMap<String, ByteString>,
    names: Vec<String>,
    now: i64,
) -> anyhow::Result<BTreeMap<String, ByteString>> {
    let shown = names.join(",");
    let new = NewCertificate::create(names, now)?;
    let text = |field: &str| {
        former
            .get(field)
            .map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
    };
    let mut trusted = new.pem();
    if let (Some(certificate), Some(key)) = (text(CERTIFICATE), text(KEY))
        && UsedCertificate::from_pem(certificate.as_bytes(), key.as_bytes()).is_ok_and(|former| now < former.not_after)
    {
        trusted.push_str(&certificate);
    }
    let data = [
        (CERTIFICATE, new.pem()),
        (KEY, new.key_pem()),
        (TRUSTED, trusted),
        (NAMES, shown),
    ];
    let data = data.map(|(field, text)| (field.to_owned(), ByteString(text.into_bytes())));
    Ok(data.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn names_of(name: &str) -> Vec<String> {
        vec![name.to_owned()]
    }

    #[test]
    fn a_certificate_is_replaced_in_time() {
        let data = renewed(&BTreeMap::new(), names_of("a.b.svc"), NOW).unwrap();
        let without = |field: &str| {
            let mut data = data.clone();
            data.remove(field);
            data
        };
        let with = |field: &str, text: &str| {
            let mut data = data.clone();
            data.insert(field.to_owned(), ByteString(text.as_bytes().to_vec()));
            data
        };
        for (what, data, name, after, expected) in [
            ("a new one", data.clone(), "a.b.svc", 0, true),
            (
                "just before half of its time",
                data.clone(),
                "a.b.svc",
                SELF_SIGNED_VALIDITY / 2 - 1,
                true,
            ),
            (
                "after half of its time",
                data.clone(),
                "a.b.svc",
                SELF_SIGNED_VALIDITY / 2,
                false,
            ),
            ("a clock that went back", data.clone(), "a.b.svc", -2 * 3600, false),
            ("another name", data.clone(), "other.b.svc", 0, false),
            ("no key", without(KEY), "a.b.svc", 0, false),
            ("no trusted certificate", without(TRUSTED), "a.b.svc", 0, false),
            (
                "a trusted certificate of another",
                with(TRUSTED, "-----BEGIN"),
                "a.b.svc",
                0,
                false,
            ),
            ("a broken certificate", with(CERTIFICATE, "x"), "a.b.svc", 0, false),
            ("nothing", BTreeMap::new(), "a.b.svc", 0, false),
        ] {
            let found = usable(&data, &names_of(name), NOW + after);
            assert_eq!(found.is_some(), expected, "{what}");
        }
    }

    #[test]
    fn the_former_certificate_stays_trusted_while_it_is_valid() {
        let text = |data: &BTreeMap<String, ByteString>, field: &str| String::from_utf8(data[field].0.clone()).unwrap();
        let first = renewed(&BTreeMap::new(), names_of("a.b.svc"), NOW).unwrap();
        for (after, is_trusted) in [(SELF_SIGNED_VALIDITY / 2, true), (SELF_SIGNED_VALIDITY, false)] {
            let second = renewed(&first, names_of("a.b.svc"), NOW + after).unwrap();
            let trusted = text(&second, TRUSTED);
            assert!(trusted.starts_with(&text(&second, CERTIFICATE)));
            assert_eq!(trusted.contains(&text(&first, CERTIFICATE)), is_trusted);
        }
    }
}
