#![no_main]

const MODEL: &[u8] = include_bytes!("../../crates/cli/tests/models/map.onnx");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cli::fuzz::log(MODEL, bytes));
