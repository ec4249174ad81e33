//! Files and logs that are damaged or mean harm: an answer or a clear error, never a panic, never
//! for ever, never much memory.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod files;
mod logs;
mod measure;
mod mutate;
mod mutations;
mod protobuf;

/// A model of the tests.
pub(crate) fn seed(name: &str) -> Vec<u8> {
    std::fs::read(format!("tests/models/{name}")).unwrap()
}
