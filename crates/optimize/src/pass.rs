//! Passes: work that needs the whole graph.

use crate::{Editor, Error};

/// Whether anything changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Changed {
    Yes,
    #[default]
    No,
}

impl From<bool> for Changed {
    fn from(changed: bool) -> Self {
        if changed { Changed::Yes } else { Changed::No }
    }
}

impl std::ops::BitOrAssign for Changed {
    fn bitor_assign(&mut self, other: Self) {
        if other == Changed::Yes {
            *self = Changed::Yes;
        }
    }
}

/// A change of the whole graph.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The name of its file.
    pub name: &'static str,
    /// Makes the change.
    pub run: fn(&mut Editor<'_>) -> Result<Changed, Error>,
}
