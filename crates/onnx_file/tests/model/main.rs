//! Tests of encoding, saving and reading models.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod encode;
mod map;
mod names;
mod read;
mod sample;
mod save;
mod skim;
mod text;
