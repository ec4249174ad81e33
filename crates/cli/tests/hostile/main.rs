//! Damaged or malicious files and logs. The result must be an answer or a clear error, never a
//! panic, within bounded time and memory.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod files;
mod growth;
mod logs;
mod measure;
mod mutate;
mod mutations;
mod protobuf;

/// Reads a test model.
pub(crate) fn seed(name: &str) -> Vec<u8> {
    std::fs::read(format!("tests/models/{name}")).unwrap()
}
