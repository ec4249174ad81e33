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
    /// Call site and rule on every node, and the source map on the model.
    SourceMap,
}

/// An unknown detail level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown stacktrace detail `{0}`; choose `minimal`, `full` or `sourcemap`")]
pub struct DetailError(String);

impl Detail {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Detail::Off => "off",
            Detail::Minimal => "minimal",
            Detail::Full => "full",
            Detail::SourceMap => "sourcemap",
        }
    }
}

impl FromStr for Detail {
    type Err = DetailError;

    fn from_str(text: &str) -> Result<Self, DetailError> {
        match text {
            "off" => Ok(Detail::Off),
            "minimal" => Ok(Detail::Minimal),
            "full" => Ok(Detail::Full),
            "sourcemap" => Ok(Detail::SourceMap),
            _ => Err(DetailError(text.to_owned())),
        }
    }
}
