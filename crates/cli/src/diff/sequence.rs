//! Alignment of two sequences.
//!
//! The `similar` crate bounds its work by a deadline, so its result depends on the load of the
//! machine. Here the number of differences is bounded instead, which makes a diff deterministic.

use rustc_hash::FxHashMap;

/// The maximum number of differences for an alignment. Beyond it, equal elements are paired in
/// order of appearance.
const THOROUGH: usize = 1000;

/// Returns pairs of positions of equal elements. They form a longest common subsequence, unless
/// there are more than [`THOROUGH`] differences. The work is bounded by the lengths times that
/// number.
pub(super) fn pairs<T: Copy + Eq + std::hash::Hash>(a: &[T], b: &[T]) -> Vec<(usize, usize)> {
    around(a, b, |a, b| match thorough(a, b, THOROUGH) {
        Found::All(pairs) => pairs,
        Found::Start(_) => in_turn(a, b),
    })
}

/// Returns the positions of a longest common subsequence, ascending in both sequences. Sequences
/// with more than `most` differences are aligned only up to these and from the last one on.
pub fn common_subsequence<T: Copy + Eq>(a: &[T], b: &[T], most: usize) -> Vec<(usize, usize)> {
    around(a, b, |a, b| match thorough(a, b, most) {
        Found::All(pairs) | Found::Start(pairs) => pairs,
    })
}

/// Pairs the equal elements at both ends, and those between as `align` does.
fn around<T: Eq>(
    a: &[T],
    b: &[T],
    align: impl FnOnce(&[T], &[T]) -> Vec<(usize, usize)>,
) -> Vec<(usize, usize)> {
    let same = |(x, y): &(&T, &T)| x == y;
    let head = a.iter().zip(b).take_while(same).count();
    let (rest_a, rest_b) = (&a[head..], &b[head..]);
    let tail = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(same).count();
    let (middle_a, middle_b) = (&rest_a[..rest_a.len() - tail], &rest_b[..rest_b.len() - tail]);
    let mut found: Vec<(usize, usize)> = (0..head).map(|at| (at, at)).collect();
    found.extend(align(middle_a, middle_b).into_iter().map(|(x, y)| (x + head, y + head)));
    found.extend((1..=tail).rev().map(|back| (a.len() - back, b.len() - back)));
    found
}

/// A common subsequence.
enum Found {
    /// A longest one.
    All(Vec<(usize, usize)>),
    /// The furthest that the permitted number of differences reaches.
    Start(Vec<(usize, usize)>),
}

/// Finds a longest common subsequence with Myers' greedy algorithm: the furthest point on each
/// diagonal, for a growing number of differences. The first elements must differ.
fn thorough<T: Copy + Eq>(a: &[T], b: &[T], most: usize) -> Found {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return Found::All(Vec::new());
    }
    let most = (n + m).min(most);
    // Diagonal k is at index k + most + 1, which leaves room on both sides.
    let middle = most + 1;
    let mut furthest = vec![0usize; 2 * most + 3];
    let mut history: Vec<Vec<usize>> = Vec::new();
    for d in 0..=most {
        for at in (middle - d..=middle + d).step_by(2) {
            let down =
                at == middle - d || (at != middle + d && furthest[at - 1] < furthest[at + 1]);
            let mut x = if down { furthest[at + 1] } else { furthest[at - 1] + 1 };
            // The diagonal may be outside the grid.
            let Some(mut y) = (x + middle).checked_sub(at) else { continue };
            while x < n && y < m && a[x] == b[y] {
                x += 1;
                y += 1;
            }
            furthest[at] = x;
            if x >= n && y >= m {
                return Found::All(walk_back((n, m), &history, middle));
            }
        }
        history.push(furthest[middle - d..=middle + d].to_vec());
    }
    history.pop();
    let reached = (middle - most..=middle + most).step_by(2).filter_map(|at| {
        let x = furthest[at];
        let y = (x + middle).checked_sub(at)?;
        (x <= n && y <= m).then_some((x, y))
    });
    let end = reached.max_by_key(|(x, y)| x + y).unwrap_or_default();
    Found::Start(walk_back(end, &history, middle))
}

/// Returns the pairs on the path to a point that was reached after the steps in `history`.
fn walk_back(
    (mut x, mut y): (usize, usize),
    history: &[Vec<usize>],
    middle: usize,
) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    for d in (1..=history.len()).rev() {
        let before = &history[d - 1];
        // `before` starts at diagonal -(d - 1).
        let known = |at: usize| before.get((at + d - 1).wrapping_sub(middle)).copied();
        let at = x + middle - y;
        let down = at == middle - d
            || (at != middle + d && known(at - 1).unwrap_or(0) < known(at + 1).unwrap_or(0));
        let from = if down { at + 1 } else { at - 1 };
        let start_x = known(from).unwrap_or(0);
        let start_y = (start_x + middle).saturating_sub(from);
        let (turn_x, turn_y) = if down { (start_x, start_y + 1) } else { (start_x + 1, start_y) };
        while x > turn_x && y > turn_y {
            x -= 1;
            y -= 1;
            found.push((x, y));
        }
        (x, y) = (start_x, start_y);
    }
    found.reverse();
    found
}

/// Pairs the first element of `a` with the first equal element of `b`, the second with the second,
/// and so on.
fn in_turn<T: Copy + Eq + std::hash::Hash>(a: &[T], b: &[T]) -> Vec<(usize, usize)> {
    let mut left: FxHashMap<T, Vec<usize>> = FxHashMap::default();
    for (at, element) in b.iter().enumerate().rev() {
        left.entry(*element).or_default().push(at);
    }
    let pair = |(at, element): (usize, &T)| Some((at, left.get_mut(element)?.pop()?));
    a.iter().enumerate().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the length of a longest common subsequence, by the textbook algorithm.
    fn longest(a: &[u8], b: &[u8]) -> usize {
        let mut row = vec![0; b.len() + 1];
        for x in a {
            let mut diagonal = 0;
            for (j, y) in b.iter().enumerate() {
                let above = row[j + 1];
                row[j + 1] = if x == y { diagonal + 1 } else { above.max(row[j]) };
                diagonal = above;
            }
        }
        row[b.len()]
    }

    fn check(a: &[u8], b: &[u8]) {
        let found = pairs(a, b);
        assert!(found.iter().all(|(x, y)| a[*x] == b[*y]), "{a:?} {b:?} {found:?}");
        assert!(found.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1), "{a:?} {b:?}");
        assert_eq!(found.len(), longest(a, b), "{a:?} {b:?} {found:?}");
    }

    #[test]
    fn short_sequences_are_matched_optimally() {
        for (a, b) in [("", ""), ("abc", ""), ("", "x"), ("abcabba", "cbabac"), ("aaaa", "aa")] {
            check(a.as_bytes(), b.as_bytes());
        }
        // Random words over three letters.
        let mut state = 1u32;
        let mut next = |bound: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % bound
        };
        for _ in 0..3000 {
            let mut word = || (0..next(9)).map(|_| b"abc"[next(3) as usize]).collect::<Vec<u8>>();
            let (a, b) = (word(), word());
            check(&a, &b);
        }
    }

    #[test]
    fn a_common_subsequence_ascends_beyond_the_limit() {
        let a: Vec<u32> = (0..50).chain([100, 101, 102]).chain(50..80).chain(200..260).collect();
        let b: Vec<u32> = (0..50).chain(50..80).chain(300..360).collect();
        for most in [0, 1, 3, 10, 1000] {
            let found = common_subsequence(&a, &b, most);
            assert!(found.iter().all(|(x, y)| a[*x] == b[*y]), "{most} {found:?}");
            assert!(found.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1), "{most}");
            assert_eq!(found.len(), if most < 3 { 50 } else { 80 }, "{most}");
        }
    }

    #[test]
    fn long_and_different_sequences_take_no_time() {
        let a: Vec<u32> = (0..200_000).collect();
        let b: Vec<u32> = (0..200_000).rev().collect();
        assert_eq!(pairs(&a, &b).len(), 200_000, "paired in order of appearance");
        let c: Vec<u32> = (200_000..400_000).collect();
        assert!(pairs(&a, &c).is_empty());
    }
}
