//! The TLS certificate of a server: self-signed, or the files of a directory, which are read again every 5 s.
//!
//! A directory can be a mounted Secret or ConfigMap. The kubelet replaces its files by one change of a symbolic link. The files are
//! compared by their content, so every way to replace them is noticed. Unusable files never replace a certificate that is in use.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, aws_lc_rs};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, InconsistentKeys, ServerConfig, version};

use x509_parser::x509::X509Version;

use crate::sync::lock;
use crate::telemetry::metrics::Metrics;

/// The names of the files in a directory, as in a Secret of the type `kubernetes.io/tls`.
const CERTIFICATE_FILE: &str = "tls.crt";
const KEY_FILE: &str = "tls.key";

/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The time between two checks for a newer certificate.
const CHECK_PERIOD: Duration = Duration::from_secs(5);

/// How often two files are read until both are from one rotation.
const READ_ATTEMPTS: usize = 5;

/// Validity of a self-signed certificate, in seconds. A new one replaces it after half of this time.
pub(crate) const SELF_SIGNED_VALIDITY: i64 = 365 * 24 * 3600;

/// A self-signed certificate is valid for so many seconds before its creation, for clients whose clocks are behind.
const CLOCK_SKEW: i64 = 3600;

/// The names and addresses of a self-signed certificate. As in controller-runtime, there is no name of a Service.
const SELF_SIGNED_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Where the certificate of a server comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateSource {
    /// Created when the program starts. Clients cannot verify it.
    SelfSigned,
    /// The files `tls.crt` and `tls.key` of this directory.
    Directory(PathBuf),
}

/// A certificate that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error(
        "can't read {}: {reason}; the directory needs the files tls.crt and tls.key, as a volume of a Secret of the type \
         kubernetes.io/tls has them", file.display()
    )]
    Unreadable { file: PathBuf, reason: io::Error },
    /// `tls.crt` is not PEM, or has no certificate.
    #[error("{} contains no certificate in PEM format", .0.display())]
    NoCertificate(PathBuf),
    /// The certificate is of an old version of X.509.
    #[error(
        "{} is not of X.509 version 3, which is needed: sign it again with any extension, such as subjectAltName",
        .0.display()
    )]
    OldVersion(PathBuf),
    /// `tls.key` is not PEM, or has no key that can be read without a password.
    #[error("{} contains no private key in PEM format; an encrypted key can't be used", .0.display())]
    NoKey(PathBuf),
    /// The two files belong to different certificates.
    #[error("{} is not the private key of the first certificate in {CERTIFICATE_FILE} beside it", .0.display())]
    Mismatch(PathBuf),
    /// The TLS library refuses the certificate or the key.
    #[error("the certificate or the key in {} can't be used: {reason}", directory.display())]
    Unusable { directory: PathBuf, reason: rustls::Error },
    /// A self-signed certificate cannot be created.
    #[error("can't create a self-signed certificate: {0}")]
    NotCreated(String),
}

/// Why a certificate and a key in PEM format cannot be used.
#[derive(Debug, PartialEq)]
pub(crate) enum PemError {
    NoCertificate,
    OldVersion,
    NoKey,
    Mismatch,
    Unusable(rustls::Error),
}

/// The certificate in use, and where the next one comes from.
#[derive(Debug)]
pub(super) struct Certificates {
    source: CertificateSource,
    state: Mutex<CertificateState>,
}

#[derive(Debug)]
struct CertificateState {
    used: UsedCertificate,
    /// The last error of a newer certificate, which the log has.
    failure: Option<String>,
}

/// A certificate with its key.
#[derive(Debug)]
pub(crate) struct UsedCertificate {
    certified: Arc<CertifiedKey>,
    /// Seconds since 1970.
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    /// Digest of the files; empty for a certificate of no files.
    digest: Vec<u8>,
}

/// The certificate of a server that another task replaces. Without one, connections fail.
#[derive(Debug, Default)]
pub(crate) struct ServedCertificate(Mutex<Option<Arc<CertifiedKey>>>);

/// A new self-signed certificate and its key.
pub(crate) struct NewCertificate {
    certificate: rcgen::Certificate,
    key: KeyPair,
    not_before: i64,
    not_after: i64,
}

/// The two files of a directory.
#[derive(PartialEq)]
struct CertificateFiles {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Certificates {
    /// Creates or reads the first certificate.
    ///
    /// # Errors
    /// There is no usable certificate.
    pub(super) fn load(source: CertificateSource) -> Result<Self, CertificateError> {
        let now = Timestamp::now().as_second();
        let used = match &source {
            CertificateSource::SelfSigned => UsedCertificate::self_signed(now)?,
            CertificateSource::Directory(directory) => {
                UsedCertificate::from_files(directory, &CertificateFiles::read(directory)?)?
            }
        };
        used.warn_if_invalid(now);
        let state = Mutex::new(CertificateState { used, failure: None });
        Ok(Certificates { source, state })
    }

    /// Replaces the certificate when there is a newer one, forever.
    pub(super) async fn keep_current(self: Arc<Self>, metrics: Arc<Metrics>) {
        loop {
            metrics
                .certificate
                .set_expiry(self.source.name(), self.state().used.not_after);
            tokio::time::sleep(CHECK_PERIOD).await;
            self.check(Timestamp::now().as_second(), &metrics);
        }
    }

    /// Replaces the certificate if there is a newer one. `now`: seconds since 1970.
    fn check(&self, now: i64, metrics: &Metrics) {
        let newer = match &self.source {
            CertificateSource::SelfSigned => self.renewed(now),
            CertificateSource::Directory(directory) => self.reread(directory),
        };
        let mut state = self.state();
        match newer {
            Ok(None) => state.failure = None,
            Ok(Some(newer)) => {
                tracing::info!(
                    source = self.source.name(),
                    "the certificate of the metrics was replaced"
                );
                newer.warn_if_invalid(now);
                *state = CertificateState {
                    used: newer,
                    failure: None,
                };
                metrics.certificate.count_reload(true);
            }
            Err(error) => {
                metrics.certificate.count_reload(false);
                let failure = Some(error.to_string());
                if state.failure != failure {
                    tracing::error!(%error, "the metrics keep their former certificate");
                    state.failure = failure;
                }
            }
        }
    }

    fn renewed(&self, now: i64) -> Result<Option<UsedCertificate>, CertificateError> {
        let is_old = now >= self.state().used.not_after - SELF_SIGNED_VALIDITY / 2;
        is_old.then(|| UsedCertificate::self_signed(now)).transpose()
    }

    fn reread(&self, directory: &Path) -> Result<Option<UsedCertificate>, CertificateError> {
        let files = CertificateFiles::read(directory)?;
        if files.digest() == self.state().used.digest {
            return Ok(None);
        }
        UsedCertificate::from_files(directory, &files).map(Some)
    }

    fn state(&self) -> MutexGuard<'_, CertificateState> {
        lock(&self.state)
    }
}

/// Accepts TLS 1.2 and 1.3 with the certificate that is in use at that time.
///
/// # Errors
/// Never in practice: the TLS library has these versions.
pub(super) fn acceptor(certificate: Arc<dyn ResolvesServerCert>) -> Result<TlsAcceptor, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(provider());
    let builder = builder.with_protocol_versions(&[&version::TLS13, &version::TLS12])?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Requests come seconds apart: a full handshake each time costs less than the memory of sessions.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        lock(&self.0).clone()
    }
}

impl ServedCertificate {
    pub(crate) fn set(&self, certificate: &UsedCertificate) {
        *lock(&self.0) = Some(certificate.certified.clone());
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.state().used.certified.clone())
    }
}

impl CertificateSource {
    /// The value of a metric's label.
    fn name(&self) -> &'static str {
        match self {
            CertificateSource::SelfSigned => "self-signed",
            CertificateSource::Directory(_) => "directory",
        }
    }
}

impl UsedCertificate {
    fn self_signed(now: i64) -> Result<Self, CertificateError> {
        let new = NewCertificate::create(SELF_SIGNED_NAMES.map(str::to_owned).to_vec(), now)?;
        let chain = vec![new.certificate.der().clone()];
        let key = PrivateKeyDer::Pkcs8(new.key.serialize_der().into());
        let certified = CertifiedKey::from_der(chain, key, &provider());
        Ok(UsedCertificate {
            certified: Arc::new(certified.map_err(|error| CertificateError::NotCreated(error.to_string()))?),
            not_before: new.not_before,
            not_after: new.not_after,
            digest: Vec::new(),
        })
    }

    /// Reads a certificate and its key in PEM format.
    ///
    /// # Errors
    /// They are of no use to a server.
    pub(crate) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, PemError> {
        // The errors of the parser quote lines, and a line may be a part of a key.
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.unwrap_or_default();
        let leaf = chain
            .first()
            .and_then(|leaf| x509_parser::parse_x509_certificate(leaf).ok());
        let Some((_, leaf)) = leaf else {
            return Err(PemError::NoCertificate);
        };
        if leaf.version() != X509Version::V3 {
            return Err(PemError::OldVersion);
        }
        let (not_before, not_after) = (leaf.validity().not_before, leaf.validity().not_after);
        let (not_before, not_after) = (not_before.timestamp(), not_after.timestamp());
        let Ok(key) = PrivateKeyDer::from_pem_slice(key) else {
            return Err(PemError::NoKey);
        };
        let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(|reason| match reason {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => PemError::Mismatch,
            reason => PemError::Unusable(reason),
        })?;
        Ok(UsedCertificate {
            certified: Arc::new(certified),
            not_before,
            not_after,
            digest: Vec::new(),
        })
    }

    fn from_files(directory: &Path, files: &CertificateFiles) -> Result<Self, CertificateError> {
        let used = Self::from_pem(&files.certificate, &files.key).map_err(|error| error.in_directory(directory))?;
        Ok(UsedCertificate {
            digest: files.digest(),
            ..used
        })
    }

    /// Warns about a certificate that clients refuse. It is used nevertheless: the clock of this machine may be wrong.
    fn warn_if_invalid(&self, now: i64) {
        let show = |second| Timestamp::from_second(second).unwrap_or_default().to_string();
        if now < self.not_before {
            tracing::warn!(
                from = show(self.not_before),
                "the certificate of the metrics is not valid yet"
            );
        } else if now >= self.not_after {
            tracing::warn!(
                until = show(self.not_after),
                "the certificate of the metrics has expired"
            );
        }
    }
}

impl NewCertificate {
    /// Creates a certificate for names and addresses, valid from now on. `now`: seconds since 1970.
    ///
    /// # Errors
    /// A name can't be in a certificate, or the system has no random numbers.
    pub(crate) fn create(names: Vec<String>, now: i64) -> Result<Self, CertificateError> {
        let not_created = |error: rcgen::Error| CertificateError::NotCreated(error.to_string());
        let key = KeyPair::generate().map_err(not_created)?;
        let common_name = names.first().cloned().unwrap_or_default();
        let mut params = CertificateParams::new(names).map_err(not_created)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let (not_before, not_after) = (now - CLOCK_SKEW, now + SELF_SIGNED_VALIDITY);
        let at = |second: i64| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(second.unsigned_abs());
        (params.not_before, params.not_after) = (at(not_before), at(not_after));
        let certificate = params.self_signed(&key).map_err(not_created)?;
        Ok(NewCertificate {
            certificate,
            key,
            not_before,
            not_after,
        })
    }

    /// The certificate in PEM format.
    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Its private key in PEM format.
    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }
}

impl PemError {
    /// The same about the files of a directory.
    fn in_directory(self, directory: &Path) -> CertificateError {
        let [certificate, key] = [CERTIFICATE_FILE, KEY_FILE].map(|name| directory.join(name));
        match self {
            PemError::NoCertificate => CertificateError::NoCertificate(certificate),
            PemError::OldVersion => CertificateError::OldVersion(certificate),
            PemError::NoKey => CertificateError::NoKey(key),
            PemError::Mismatch => CertificateError::Mismatch(key),
            PemError::Unusable(reason) => CertificateError::Unusable {
                directory: directory.to_owned(),
                reason,
            },
        }
    }
}

impl CertificateFiles {
    /// Reads both files, both from before or both from after a rotation.
    fn read(directory: &Path) -> Result<Self, CertificateError> {
        let mut files = Self::read_once(directory)?;
        for _ in 1..READ_ATTEMPTS {
            let next = Self::read_once(directory)?;
            if next == files {
                break;
            }
            files = next;
        }
        Ok(files)
    }

    fn read_once(directory: &Path) -> Result<Self, CertificateError> {
        Ok(CertificateFiles {
            certificate: read_file(directory.join(CERTIFICATE_FILE))?,
            key: read_file(directory.join(KEY_FILE))?,
        })
    }

    fn digest(&self) -> Vec<u8> {
        let parts = [&self.certificate, &self.key].map(Sha256::digest);
        parts.concat()
    }
}

fn read_file(file: PathBuf) -> Result<Vec<u8>, CertificateError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(&file)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
        }
        Ok(bytes)
    };
    read().map_err(|reason| CertificateError::Unreadable { file, reason })
}

/// The cryptography that kube's client uses.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

#[cfg(test)]
mod tests;
