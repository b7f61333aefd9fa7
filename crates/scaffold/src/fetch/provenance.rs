//! What is signed of a chart: a `.prov` file, which is its Chart.yaml and the SHA-256 of its archive in a cleartext
//! signature. GnuPG's gpgv checks the signature: of the OpenPGP libraries `pgp` brings rsa and chrono, which `deny.toml`
//! bans, and sequoia's licence isn't among those that it allows.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use super::archive::digest;

/// Checks that a key of the keyring signed this archive.
///
/// # Errors
/// No key of the keyring signed it, the signature is for another archive, or gpgv is not installed.
pub fn verify(provenance: &[u8], archive: &[u8], keyring: &Path) -> anyhow::Result<()> {
    let ring = std::fs::read(keyring).with_context(|| format!("--keyring {}", keyring.display()))?;
    ensure!(
        !ring.starts_with(b"-----BEGIN"),
        "--keyring {}: gpgv doesn't read armored keys; `gpg --export` writes others",
        keyring.display()
    );
    let signed = signed(provenance, &std::path::absolute(keyring)?)?;
    let stated = stated(&signed)?;
    let own = format!("sha256:{}", digest(archive));
    ensure!(
        stated.iter().any(|(_, stated)| *stated == own),
        "the signature is for another archive: {}; this is {own}",
        stated
            .iter()
            .map(|(name, digest)| format!("{name} {digest}"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    Ok(())
}

/// The text that is signed, and nothing that stands around it.
fn signed(provenance: &[u8], keyring: &Path) -> anyhow::Result<Vec<u8>> {
    let mut command = Command::new("gpgv");
    command.arg("--keyring").arg(keyring).args(["--output", "-", "-"]);
    command.env("LC_ALL", "C");
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!("--verify needs GnuPG's gpgv, which isn't on PATH: your system's package gpgv or gnupg")
        }
        child => child.context("gpgv")?,
    };
    // gpgv reads it all before it writes, and may end before that.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(provenance);
    }
    let output = child.wait_with_output().context("gpgv")?;
    let report = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = report
        .lines()
        .map(|line| line.trim_start_matches("gpgv: ").trim())
        .collect();
    ensure!(
        output.status.success(),
        "the signature doesn't hold: {}",
        lines.join("; ")
    );
    Ok(output.stdout)
}

/// The digests by file name.
fn stated(signed: &[u8]) -> anyhow::Result<Vec<(String, String)>> {
    let text = String::from_utf8_lossy(signed).replace("\r\n", "\n");
    let (_, sums) = text.split_once("\n...\n").context("what is signed names no archive")?;
    let sums = go_yaml::to_json(sums.as_bytes())
        .ok()
        .context("what is signed names no archive")?;
    let files = sums.get("files").and_then(Value::as_object).into_iter().flatten();
    Ok(files
        .filter_map(|(name, digest)| Some((name.clone(), digest.as_str()?.to_owned())))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_after_the_chart() {
        let text = b"name: web\nfiles: {}\n\n...\nfiles:\n  web-1.0.0.tgz: sha256:ab\n";
        assert_eq!(
            stated(text).unwrap(),
            [("web-1.0.0.tgz".to_owned(), "sha256:ab".to_owned())]
        );
        assert!(stated(b"name: web\n").is_err());
        assert_eq!(stated(b"name: web\n\n...\n5\n").unwrap(), []);
    }
}
