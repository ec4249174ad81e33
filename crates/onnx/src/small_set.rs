//! Sets that are usually small.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Distinct items, in order of insertion until one is removed. Finding one takes constant time, however
/// many there are. The first two need no allocation.
#[derive(Clone, Debug)]
pub(crate) struct SmallSet<T> {
    items: SmallVec<[T; 2]>,
    /// The position of each item, once there are more than [`FEW`].
    index: Option<Box<FxHashMap<T, usize>>>,
}

/// The maximum number of items to search linearly.
const FEW: usize = 16;

impl<T> Default for SmallSet<T> {
    fn default() -> Self {
        Self { items: SmallVec::new(), index: None }
    }
}

impl<T: Copy + Eq + Hash> SmallSet<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        &self.items
    }

    pub(crate) fn contains(&self, item: &T) -> bool {
        self.position(item).is_some()
    }

    /// Appends an item, unless it is already in the set.
    pub(crate) fn insert(&mut self, item: T) {
        if self.contains(&item) {
            return;
        }
        self.items.push(item);
        match &mut self.index {
            Some(index) => drop(index.insert(item, self.items.len() - 1)),
            None => self.index(),
        }
    }

    /// Removes an item, if it is in the set. The last item takes its position.
    pub(crate) fn remove(&mut self, item: &T) {
        let Some(at) = self.position(item) else { return };
        self.items.swap_remove(at);
        if let Some(index) = &mut self.index {
            index.remove(item);
            if let Some(moved) = self.items.get(at) {
                index.insert(*moved, at);
            }
        }
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.items.retain(|item| is_kept(item));
        self.index();
    }

    fn position(&self, item: &T) -> Option<usize> {
        match &self.index {
            Some(index) => index.get(item).copied(),
            None => self.items.iter().position(|known| known == item),
        }
    }

    /// Indexes all items, if there are many.
    fn index(&mut self) {
        let positions = || self.items.iter().copied().zip(0..).collect();
        self.index = (self.items.len() > FEW).then(|| Box::new(positions()));
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

    /// Grows, filters and shrinks a set, and compares it with a plain vector.
    #[test]
    fn small_and_large_sets_are_alike() {
        let (mut set, mut list) = (SmallSet::default(), Vec::new());
        let agree = |set: &SmallSet<usize>, list: &[usize]| {
            assert_eq!(set.as_slice(), list);
            assert!((0..5 * FEW).all(|item| set.contains(&item) == list.contains(&item)));
        };
        for item in (0..4 * FEW).chain(0..FEW) {
            set.extend([item, item]);
            if !list.contains(&item) {
                list.push(item);
            }
            agree(&set, &list);
        }
        for divisor in [11, 3] {
            set.retain(|item| item % divisor != 0);
            list.retain(|item| item % divisor != 0);
            agree(&set, &list);
        }
        for item in (0..4 * FEW).map(|i| i * 5 % (4 * FEW)) {
            set.remove(&item);
            if let Some(at) = list.iter().position(|known| *known == item) {
                list.swap_remove(at);
            }
            agree(&set, &list);
        }
        assert!(list.is_empty());
    }
}
