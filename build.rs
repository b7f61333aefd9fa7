//! How the program is linked.

use std::env;

/// Whether the program is built for Linux with a C library of its own system, as `cargo build` does there.
///
/// A static one, as in the image, is left position independent: it is the operator, which starts once and stays.
fn is_dynamic_linux() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let has_static_libc =
        env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|features| features.split(',').any(|name| name == "crt-static"));
    is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") && !has_static_libc
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if is_dynamic_linux() {
        // At a fixed address nothing has to be relocated when the program starts: else 27,000 pointers, a tenth of what
        // `template` takes with a small chart.
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
