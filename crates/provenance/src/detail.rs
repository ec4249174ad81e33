//! How much provenance is written.

use std::str::FromStr;

/// How much provenance a model carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// None at all.
    #[default]
    Off,
    /// Call site and rule on every node.
    Minimal,
    /// Also both stacks on every node.
    Full,
}

/// An unknown detail level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown stacktrace detail `{0}`; the levels are: minimal, full")]
pub struct DetailError(String);

impl FromStr for Detail {
    type Err = DetailError;

    fn from_str(text: &str) -> Result<Self, DetailError> {
        match text {
            "off" => Ok(Detail::Off),
            "minimal" => Ok(Detail::Minimal),
            "full" => Ok(Detail::Full),
            _ => Err(DetailError(text.to_owned())),
        }
    }
}
