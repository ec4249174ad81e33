//! Damaged or malicious files and logs: the result is an answer or a clear error, never a panic,
//! and never takes forever or much memory.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod files;
mod growth;
mod logs;
mod measure;
mod mutate;
mod mutations;
mod protobuf;

/// A test model.
pub(crate) fn seed(name: &str) -> Vec<u8> {
    std::fs::read(format!("tests/models/{name}")).unwrap()
}
