//! A client certificate that the TLS library refuses, told before it does so in words that help nobody.
//!
//! rustls takes X.509 version 3 alone. `openssl x509 -req` without extensions makes version 1, which Go, and so kubectl,
//! takes as well.

use std::fs;

use data_encoding::BASE64;
use kube::Config;

/// Checks the client certificate of a connection.
///
/// # Errors
/// It is of version 1; which file has it, and how to make another. What can't be read is left to the TLS library.
pub fn check(config: &Config) -> Result<(), String> {
    let user = &config.auth_info;
    let (pem, place) = match (&user.client_certificate_data, &user.client_certificate) {
        (Some(data), _) => {
            let data: String = data.split_whitespace().collect();
            let place = "`client-certificate-data` of the kubeconfig's user".to_owned();
            (BASE64.decode(data.as_bytes()).ok(), place)
        }
        (None, Some(path)) => (fs::read(path).ok(), format!("the client certificate {path}")),
        (None, None) => return Ok(()),
    };
    match pem.and_then(|pem| first_certificate(&pem)) {
        Some(der) if is_version_1(&der) => Err(format!(
            "{place} is of X.509 version 1, and version 3 is needed: sign it anew with any extension, for example \
             `openssl x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile client.ext \
             -out client.crt` with the line `extendedKeyUsage = clientAuth` in client.ext"
        )),
        _ => Ok(()),
    }
}

/// The first certificate of a PEM file: that of the user.
fn first_certificate(pem: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(pem);
    let (_, rest) = text.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    let body: String = body.split_whitespace().collect();
    BASE64.decode(body.as_bytes()).ok()
}

/// `Certificate ::= SEQUENCE { SEQUENCE { [0] version DEFAULT v1, serialNumber INTEGER, ...` (RFC 5280): version 1 is left
/// out.
fn is_version_1(der: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const INTEGER: u8 = 0x02;
    let content = contents(der, SEQUENCE).and_then(|certificate| contents(certificate, SEQUENCE));
    content.and_then(|fields| fields.first()) == Some(&INTEGER)
}

/// What follows the head of a DER element of this tag.
fn contents(der: &[u8], tag: u8) -> Option<&[u8]> {
    let (&found, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let more = match length {
        0..0x80 => 0,
        long => usize::from(long & 0x7f),
    };
    rest.get(more..).filter(|_| found == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openssl x509 -req -in client.csr -signkey client.key -days 36500`, without extensions.
    const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----
MIIBGDCBvwIUL/5MG3q8tvFg0E9Rj3dQ2t1s9XYwCgYIKoZIzj0EAwIwDjEMMAoG
A1UEAwwDZGV2MCAXDTI2MTEyMzE1NTcxNloYDzIxMjYxMDMwMTU1NzE2WjAOMQww
CgYDVQQDDANkZXYwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATBU6rq3CjB7XkM
JHkhgWtdeYnHNPiGfZQ9042hX/H+N36jyiuwfSlJ7apsiFJMJhBIh1LN47uhvcji
yvsEFCnLMAoGCCqGSM49BAMCA0gAMEUCIHgf292FiPJYzGBGXd1zJcCiikHynsPA
64YgXr/mxpgQAiEAtOk1EOrW/2DUGZ0zehj7XLmuA9moO+bKCiOCP+aJ98I=
-----END CERTIFICATE-----
";

    fn version_3() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
        certificate.pem()
    }

    #[test]
    fn only_version_1_is_refused() {
        let is_first = |pem: &str| is_version_1(&first_certificate(pem.as_bytes()).unwrap());
        assert!(is_first(VERSION_1));
        assert!(!is_first(&version_3()));
        assert!(
            is_first(&format!("subject=CN = dev\n{VERSION_1}{}", version_3())),
            "the user's is the first"
        );
        for odd in ["", "0", "0\u{1}", "01"] {
            assert!(!is_version_1(odd.as_bytes()), "{odd:?}");
        }
        assert_eq!(first_certificate(b"-----BEGIN CERTIFICATE-----"), None);
    }

    #[tokio::test]
    async fn the_message_names_the_file_and_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("config");
        let certificate = folder.path().join("dev.crt");
        fs::write(&certificate, VERSION_1).unwrap();
        let data = BASE64.encode(VERSION_1.as_bytes());
        for (field, value, place) in [
            ("client-certificate", "dev.crt", certificate.display().to_string()),
            (
                "client-certificate-data",
                data.as_str(),
                "`client-certificate-data`".to_owned(),
            ),
        ] {
            let text = format!(
                "clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:1'}}}}]\n\
                 contexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n\
                 users: [{{name: a, user: {{client-key: dev.key, {field}: {value}}}}}]\n"
            );
            fs::write(&kubeconfig, text).unwrap();
            let refused = super::super::connect::connect(Some(&kubeconfig)).await;
            let Err(error) = refused else {
                panic!("{field} was accepted")
            };
            let told = format!("{error:#}");
            assert!(
                told.starts_with(&format!("kubeconfig {}: ", kubeconfig.display())),
                "{told}"
            );
            assert!(
                told.contains(&place) && told.contains("version 1") && told.contains("openssl x509 -req"),
                "{told}"
            );
        }
    }
}
