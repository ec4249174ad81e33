//! The uses of a value.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::{BlockId, NodeId};

/// A use of a value, by a node or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// The operand `usize` of a node.
    Operand(NodeId, usize),
    /// The output `usize` of a block.
    Output(BlockId, usize),
}

/// A list of distinct uses. Removing one takes constant time, however long the list is. Nearly all
/// values have one or two uses, which need no allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses {
    places: SmallVec<[Use; 2]>,
    /// The position of each use, once there are more than [`FEW`].
    index: Option<Box<FxHashMap<Use, usize>>>,
}

/// The largest number of uses that are searched linearly.
const FEW: usize = 16;

impl Uses {
    pub(crate) fn as_slice(&self) -> &[Use] {
        &self.places
    }

    /// Appends a use that is not in the list yet.
    pub(crate) fn push(&mut self, place: Use) {
        debug_assert!(self.position(place).is_none(), "{place:?} reads one value");
        let at = self.places.len();
        self.places.push(place);
        if let Some(index) = &mut self.index {
            index.insert(place, at);
        } else if self.places.len() > FEW {
            let places = self.places.iter().enumerate();
            self.index = Some(Box::new(places.map(|(at, place)| (*place, at)).collect()));
        }
    }

    /// Removes a use, if it is in the list. The last use takes its position.
    pub(crate) fn remove(&mut self, place: Use) {
        let Some(at) = self.position(place) else { return };
        self.places.swap_remove(at);
        if let Some(index) = &mut self.index {
            index.remove(&place);
            if let Some(moved) = self.places.get(at) {
                index.insert(*moved, at);
            }
        }
    }

    fn position(&self, place: Use) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(&place).copied(),
            None => self.places.iter().position(|known| *known == place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds and removes uses, growing and shrinking the list, and compares it with a plain vector.
    #[test]
    fn short_and_long_lists_contain_the_same_uses() {
        let place = |i: usize| Use::Operand(NodeId::from_index(i % 7), i);
        let (mut uses, mut list) = (Uses::default(), Vec::new());
        for i in 0..3 * FEW {
            uses.push(place(i));
            list.push(place(i));
            assert_eq!(uses.as_slice(), list);
        }
        for i in (0..4 * FEW).map(|i| i * 5 % (4 * FEW)) {
            uses.remove(place(i));
            if let Some(at) = list.iter().position(|known| *known == place(i)) {
                list.swap_remove(at);
            }
            assert_eq!(uses.as_slice(), list);
        }
        assert!(uses.as_slice().is_empty());
    }
}
