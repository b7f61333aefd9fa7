//! The files of `--cert-file`, `--key-file` and `--ca-file`. Helm reads them for its registry client whatever the chart is.
//! Facts: `newRegistryClient` in `pkg/cmd/root.go`, `internal/tlsutil/tls.go`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::chart::io_text;
use crate::cli::pflag::Parsed;
use crate::template::go::quote::quote_go;

/// Reads the files. What stands in them is not looked at, but for a file of authorities that has no certificate.
///
/// # Errors
/// Helm's texts for those that can't be read.
pub fn check(flags: &Parsed, dir: &Path) -> Result<(), String> {
    let file = |name| flags.text(name).unwrap_or_default();
    let (cert, key, ca) = (file("cert-file"), file("key-file"), file("ca-file"));
    let wanted = !cert.is_empty() && !key.is_empty() || !ca.is_empty() || flags.bool("insecure-skip-tls-verify");
    if !wanted {
        return Ok(());
    }
    let mut problems = Vec::new();
    if !cert.is_empty() || !key.is_empty() {
        let pair = read(dir, cert, "unable to read cert file").and_then(|_| read(dir, key, "unable to read key file"));
        problems.extend(pair.err());
    }
    if !ca.is_empty() {
        match read(dir, ca, "can't read CA file") {
            Err(problem) => problems.push(problem),
            Ok(data) if problems.is_empty() && !data.is_empty() && !has_certificate(&data) => {
                problems.push("failed to append certificates from pem block".to_owned());
            }
            Ok(_) => {}
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(format!(
        "missing registry client: can't create TLS config for client: {}",
        problems.join("\n")
    ))
}

fn read(dir: &Path, path: &str, problem: &str) -> Result<Vec<u8>, String> {
    let tell = |op: &str, text: &str| format!("{problem}: {}: {op} {path}: {text}", quote_go(path));
    if path.is_empty() {
        return Err(tell("open", "no such file or directory"));
    }
    let mut file = File::open(dir.join(path)).map_err(|e| tell("open", &io_text(&e)))?;
    let mut data = Vec::new();
    file.read_to_end(&mut data).map_err(|e| tell("read", &io_text(&e)))?;
    Ok(data)
}

fn has_certificate(data: &[u8]) -> bool {
    String::from_utf8_lossy(data).contains("-----BEGIN CERTIFICATE-----")
}
