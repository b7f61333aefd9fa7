#![no_main]

#[path = "../../tests/properties/targets.rs"]
#[allow(dead_code)]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::yaml_read(data));
