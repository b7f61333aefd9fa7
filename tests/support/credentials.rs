//! The certificate authority of one control plane, client certificates and kubeconfigs.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use data_encoding::BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::json;

/// A certificate and its key, both PEM.
#[derive(Debug)]
pub struct ClientIdentity {
    pub certificate: String,
    pub key: String,
}

/// The certificate authority that the API server trusts for its own certificate and for clients.
#[derive(Debug)]
pub struct Authority {
    certificate: String,
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    /// A new authority with a key of its own.
    pub fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = name("chartwright test authority", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self {
            certificate,
            params,
            key,
        })
    }

    /// The authority's own certificate, PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The certificate that the API server shows.
    pub fn server(&self) -> anyhow::Result<ClientIdentity> {
        let names = "127.0.0.1 localhost kubernetes kubernetes.default kubernetes.default.svc";
        let names: Vec<String> = names.split(' ').map(String::from).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = name("kube-apiserver", &[])?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A client certificate. Kubernetes takes the user from the common name and the groups from the organizations.
    pub fn client(&self, user: &str, groups: &[&str]) -> anyhow::Result<ClientIdentity> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = name(user, groups)?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> anyhow::Result<ClientIdentity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let issuer = Issuer::from_params(&self.params, &self.key);
        let certificate = params.signed_by(&key, &issuer)?.pem();
        Ok(ClientIdentity {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

fn name(common_name: &str, organizations: &[&str]) -> anyhow::Result<DistinguishedName> {
    // rcgen keeps one value per attribute type; the same object identifier spelled out counts as a second type.
    let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    let (most, count) = (types.len(), organizations.len());
    ensure!(count <= most, "{common_name}: at most {most} groups, not {count}");
    let mut name = DistinguishedName::new();
    for (kind, organization) in types.into_iter().zip(organizations) {
        name.push(kind, *organization);
    }
    name.push(DnType::CommonName, common_name);
    Ok(name)
}

/// A key as the API server wants it for signing service account tokens, PEM: the private and the public half.
pub fn signing_key() -> anyhow::Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// A kubeconfig that holds its certificates itself, so that it can be copied anywhere.
pub fn kubeconfig(server: &str, authority: &str, user: &str, identity: &ClientIdentity) -> anyhow::Result<String> {
    let encode = |pem: &str| BASE64.encode(pem.as_bytes());
    let cluster = json!({"server": server, "certificate-authority-data": encode(authority)});
    let (certificate, key) = (encode(&identity.certificate), encode(&identity.key));
    let credentials = json!({"client-certificate-data": certificate, "client-key-data": key});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "chartwright",
        "clusters": [{"name": "chartwright", "cluster": cluster}], "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "chartwright", "context": {"cluster": "chartwright", "user": user}}],
    });
    Ok(serde_yaml::to_string(&config)?)
}

/// Writes a file that only its owner can read.
pub fn write_private(path: &Path, content: &str) -> anyhow::Result<()> {
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let mut file = file.with_context(|| format!("cannot create {}", path.display()))?;
    file.write_all(content.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}
