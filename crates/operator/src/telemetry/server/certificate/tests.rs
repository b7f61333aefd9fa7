use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// A certificate and its key for a name, PEM.
fn pair(name: &str) -> [String; 2] {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    [made.cert.pem(), made.signing_key.serialize_pem()]
}

fn write(directory: &Path, [certificate, key]: &[String; 2]) {
    fs::write(directory.join(CERTIFICATE_FILE), certificate).unwrap();
    fs::write(directory.join(KEY_FILE), key).unwrap();
}

/// The DER of the certificate in use.
fn used(certificates: &Certificates) -> Vec<u8> {
    let state = certificates.state();
    state.used.certified.end_entity_cert().unwrap().to_vec()
}

fn der([certificate, _]: &[String; 2]) -> Vec<u8> {
    CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap().to_vec()
}

/// The number of reloads that succeeded, and of those that failed.
fn reloads(metrics: &Metrics) -> [Option<String>; 2] {
    let text = metrics.encode().unwrap();
    ["success", "error"].map(|result| {
        let series = format!("chartwright_metrics_certificate_reloads_total{{result=\"{result}\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&series));
        line.map(str::to_owned)
    })
}

#[test]
fn a_self_signed_certificate_is_for_localhost_and_renewed_in_time() {
    let now = 1_800_000_000;
    let certificates = Certificates {
        source: CertificateSource::SelfSigned,
        state: Mutex::new(CertificateState {
            used: UsedCertificate::self_signed(now).unwrap(),
            failure: None,
        }),
    };
    let first = used(&certificates);
    let (_, parsed) = x509_parser::parse_x509_certificate(&first).unwrap();
    // An hour back, for clients whose clocks are behind.
    assert_eq!(parsed.validity().not_before.timestamp(), now - 3600);
    assert_eq!(parsed.validity().not_after.timestamp(), now + 365 * 24 * 3600);
    let names = parsed.subject_alternative_name().unwrap().unwrap();
    let names: Vec<String> = names.value.general_names.iter().map(ToString::to_string).collect();
    assert!(names.len() == 3 && names[0].contains("localhost"), "{names:?}");
    assert_eq!(parsed.subject().to_string(), "CN=localhost");
    let metrics = Metrics::new();
    certificates.check(now + SELF_SIGNED_VALIDITY / 2 - 1, &metrics);
    assert_eq!(used(&certificates), first);
    certificates.check(now + SELF_SIGNED_VALIDITY / 2, &metrics);
    assert_ne!(used(&certificates), first);
    assert_eq!(reloads(&metrics), [Some("1".to_owned()), None]);
}

#[test]
fn a_directory_that_cannot_be_used_is_an_error() {
    let [certificate, key] = pair("a.test");
    let [_, other_key] = pair("b.test");
    let no_key = "tls.key contains no private key in PEM format";
    let no_certificate = "tls.crt contains no certificate in PEM format";
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let not_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let cut = &certificate[..certificate.len() / 2];
    let old = include_str!("version-1.crt");
    let huge = "#".repeat(1 << 20) + "#";
    for (files, expected) in [
        ([None, Some(&*key)], "tls.crt: No such file"),
        ([Some(&*certificate), None], "tls.key: No such file"),
        (
            [None, None],
            "as a volume of a Secret of the type kubernetes.io/tls has them",
        ),
        ([Some(""), Some(&*key)], no_certificate),
        ([Some("garbage"), Some(&*key)], no_certificate),
        ([Some(not_der), Some(&*key)], no_certificate),
        ([Some(cut), Some(&*key)], no_certificate),
        ([Some(&*key), Some(&*key)], no_certificate),
        ([Some(&*huge), Some(&*key)], "larger than 1 MiB"),
        ([Some(old), Some(&*key)], "tls.crt is not of X.509 version 3"),
        ([Some(&*certificate), Some("")], no_key),
        ([Some(&*certificate), Some("-----BEGIN secret-line")], no_key),
        ([Some(&*certificate), Some(&*certificate)], no_key),
        ([Some(&*certificate), Some(&*encrypted)], no_key),
        (
            [Some(&*certificate), Some(&*other_key)],
            "tls.key is not the private key of the first certificate in tls.crt",
        ),
    ] {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in [CERTIFICATE_FILE, KEY_FILE].into_iter().zip(files) {
            if let Some(text) = text {
                fs::write(directory.path().join(name), text).unwrap();
            }
        }
        let source = CertificateSource::Directory(directory.path().to_owned());
        let error = Certificates::load(source).unwrap_err().to_string();
        assert!(error.contains(&*directory.path().to_string_lossy()), "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!error.contains("secret-line"), "{error}");
    }
}

#[test]
fn keys_of_all_usual_algorithms_are_used() {
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ECDSA_P521_SHA512,
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_RSA_SHA256,
    ] {
        let directory = tempfile::tempdir().unwrap();
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = CertificateParams::new(["a.test".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap().pem();
        let pair = [certificate, key.serialize_pem()];
        write(directory.path(), &pair);
        let certificates = Certificates::load(CertificateSource::Directory(directory.path().to_owned())).unwrap();
        assert_eq!(used(&certificates), der(&pair), "{algorithm:?}");
    }
}

#[test]
fn a_certificate_is_replaced_when_its_files_change() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (pair("a.test"), pair("b.test"));
    write(directory.path(), &first);
    let certificates = Certificates::load(CertificateSource::Directory(directory.path().to_owned())).unwrap();
    let metrics = Metrics::new();
    certificates.check(0, &metrics);
    assert_eq!((used(&certificates), reloads(&metrics)), (der(&first), [None, None]));
    write(directory.path(), &second);
    certificates.check(0, &metrics);
    assert_eq!(used(&certificates), der(&second));
    assert_eq!(reloads(&metrics), [Some("1".to_owned()), None]);
}

/// The kubelet writes a new directory, and lets the link `..data` point to it.
#[test]
fn a_symbolic_link_that_is_replaced_is_noticed() {
    let volume = tempfile::tempdir().unwrap();
    let (first, second) = (pair("a.test"), pair("b.test"));
    let at = |name: &str| volume.path().join(name);
    for (name, pair) in [("..1", &first), ("..2", &second)] {
        fs::create_dir(at(name)).unwrap();
        write(&at(name), pair);
    }
    symlink("..1", at("..data")).unwrap();
    for name in [CERTIFICATE_FILE, KEY_FILE] {
        symlink(Path::new("..data").join(name), at(name)).unwrap();
    }
    let certificates = Certificates::load(CertificateSource::Directory(volume.path().to_owned())).unwrap();
    assert_eq!(used(&certificates), der(&first));
    symlink("..2", at("..data_tmp")).unwrap();
    fs::rename(at("..data_tmp"), at("..data")).unwrap();
    fs::remove_dir_all(at("..1")).unwrap();
    certificates.check(0, &Metrics::new());
    assert_eq!(used(&certificates), der(&second));
}

#[test]
fn unusable_files_leave_the_former_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (pair("a.test"), pair("b.test"));
    write(directory.path(), &first);
    let certificates = Certificates::load(CertificateSource::Directory(directory.path().to_owned())).unwrap();
    let metrics = Metrics::new();
    let failure = || certificates.state().failure.clone();
    // The certificate comes first, and its key later.
    fs::write(directory.path().join(CERTIFICATE_FILE), &second[0]).unwrap();
    certificates.check(0, &metrics);
    assert_eq!(used(&certificates), der(&first));
    assert!(failure().unwrap().contains("is not the private key"), "{:?}", failure());
    fs::remove_file(directory.path().join(KEY_FILE)).unwrap();
    certificates.check(0, &metrics);
    assert_eq!(used(&certificates), der(&first));
    assert!(failure().unwrap().contains("can't read"), "{:?}", failure());
    assert_eq!(reloads(&metrics), [None, Some("2".to_owned())]);
    fs::write(directory.path().join(KEY_FILE), &second[1]).unwrap();
    certificates.check(0, &metrics);
    assert_eq!((used(&certificates), failure()), (der(&second), None));
    // The same for files that become as they were.
    fs::write(directory.path().join(KEY_FILE), "garbage").unwrap();
    certificates.check(0, &metrics);
    assert!(failure().is_some());
    write(directory.path(), &second);
    certificates.check(0, &metrics);
    assert_eq!((used(&certificates), failure()), (der(&second), None));
}
