//! Sets that are usually small.

use std::hash::Hash;

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// Distinct items, in order of insertion. The first few need no allocation.
#[derive(Clone, Debug)]
pub(crate) struct SmallSet<T> {
    items: SmallVec<[T; 4]>,
    /// All items, once there are more than [`FEW`].
    index: Option<Box<FxHashSet<T>>>,
}

/// The maximum number of items to search linearly.
const FEW: usize = 16;

impl<T> Default for SmallSet<T> {
    fn default() -> Self {
        Self { items: SmallVec::new(), index: None }
    }
}

impl<T: Copy + Eq + Hash> SmallSet<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        &self.items
    }

    pub(crate) fn contains(&self, item: &T) -> bool {
        match &self.index {
            Some(index) => index.contains(item),
            None => self.items.contains(item),
        }
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.items.retain(|item| is_kept(item));
        if let Some(index) = &mut self.index {
            index.retain(is_kept);
        }
    }

    fn insert(&mut self, item: T) {
        let is_new = match &mut self.index {
            Some(index) => index.insert(item),
            None => !self.items.contains(&item),
        };
        if !is_new {
            return;
        }
        self.items.push(item);
        if self.index.is_none() && self.items.len() > FEW {
            self.index = Some(Box::new(self.items.iter().copied().collect()));
        }
    }
}

impl<T: Copy + Eq + Hash> Extend<T> for SmallSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.insert(item));
    }
}

#[cfg(test)]
mod tests {
    use super::{FEW, SmallSet};

    #[test]
    fn items_are_distinct_and_keep_their_order() {
        let mut set = SmallSet::default();
        let mut expected = Vec::new();
        for i in 0..3 * FEW {
            let item = i * 7 % (2 * FEW);
            assert_eq!(set.contains(&item), expected.contains(&item));
            set.extend([item, item]);
            if !expected.contains(&item) {
                expected.push(item);
            }
            assert_eq!(set.as_slice(), expected);
            assert!(set.contains(&item) && !set.contains(&(2 * FEW)) && !set.is_empty());
        }
        assert_eq!(expected.len(), 2 * FEW);
    }
}
