//! Levels of provenance detail.

use std::str::FromStr;

/// The amount of provenance that a model carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// No provenance.
    #[default]
    Off,
    /// The call site and the rule of every node.
    Minimal,
    /// The call site, the rule and both stacks of every node.
    Full,
    /// The call site and the rule of every node, and a source map of the model.
    SourceMap,
}

/// An unknown detail level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown stacktrace detail `{0}`; choose `minimal`, `full` or `sourcemap`")]
pub struct DetailError(String);

impl Detail {
    /// Returns the level's name, as `FromStr` reads it.
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
        let all = [Detail::Off, Detail::Minimal, Detail::Full, Detail::SourceMap];
        let found = all.into_iter().find(|detail| detail.as_str() == text);
        found.ok_or_else(|| DetailError(text.to_owned()))
    }
}
