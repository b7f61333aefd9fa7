//! The values of klog's flags, which Helm's users may give. Facts: `k8s.io/klog/v2`, Go's `flag` and `strconv`.

use crate::cli::pflag::parse_bool;
use crate::template::go::integer::{IntegerError, decimal, parse_uint};

/// What Go's `flag` says of numbers and booleans that are none.
const WRONG: &str = "parse error";

/// A number of klog's own types.
pub fn level(value: &str) -> Result<(), String> {
    decimal("ParseInt", value, 32).map(drop)
}

/// `severityValue.Set`
pub fn severity(value: &str) -> Result<(), String> {
    let names = ["INFO", "WARNING", "ERROR", "FATAL"];
    match names.contains(&value.to_uppercase().as_str()) {
        true => Ok(()),
        false => level(value),
    }
}

/// `parseModuleSpec`
pub fn modules(value: &str) -> Result<(), String> {
    let syntax = || "syntax error: expect comma-separated list of filename=N".to_owned();
    for module in value.split(',').filter(|module| !module.is_empty()) {
        let (pattern, level) = module.split_once('=').ok_or_else(syntax)?;
        if pattern.is_empty() || level.is_empty() {
            return Err(syntax());
        }
        if level.parse::<i32>().map_err(|_| syntax())? < 0 {
            return Err("negative value for vmodule level".to_owned());
        }
    }
    Ok(())
}

/// `traceLocation.Set`
pub fn place(value: &str) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    let line = value.split_once(':').filter(|(file, _)| file.contains('.'));
    match line.and_then(|(_, line)| line.parse::<i64>().ok()) {
        None => Err("syntax error: expect file.go:234".to_owned()),
        Some(..=0) => Err("negative or zero value for level".to_owned()),
        Some(_) => Ok(()),
    }
}

/// `uintValue.Set` of Go's `flag`, which takes other bases.
pub fn size(value: &str) -> Result<(), String> {
    parse_uint(value.as_bytes(), 0, 64)
        .map(drop)
        .map_err(|problem| match problem {
            IntegerError::Syntax => WRONG.to_owned(),
            range @ IntegerError::Range(_) => range.to_string(),
        })
}

/// `boolValue.Set` of Go's `flag`.
pub fn boolean(value: &str) -> Result<(), String> {
    parse_bool(value).map(drop).ok_or_else(|| WRONG.to_owned())
}
