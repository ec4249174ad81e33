//! The cheapest cut through a network: which places lie behind it (Dinic's algorithm).

use std::collections::VecDeque;

/// A place in the network.
pub(super) type Place = usize;

/// Where everything comes from: what stays as it is.
pub(super) const STAYS: Place = 0;
/// Where everything goes: what moves.
pub(super) const MOVES: Place = 1;

/// More than all costs together.
pub(super) const NEVER: u64 = u64::MAX / 4;

#[derive(Default)]
pub(super) struct Network {
    edges: Vec<Edge>,
    /// The edges that leave each place, by index; an edge and its reverse are adjacent.
    from: Vec<Vec<usize>>,
}

struct Edge {
    to: Place,
    left: u64,
}

impl Network {
    pub(super) fn new() -> Self {
        Self { edges: Vec::new(), from: vec![Vec::new(), Vec::new()] }
    }

    pub(super) fn place(&mut self) -> Place {
        self.from.push(Vec::new());
        self.from.len() - 1
    }

    /// It costs `cost` if `a` stays and `b` moves.
    pub(super) fn edge(&mut self, a: Place, b: Place, cost: u64) {
        self.from[a].push(self.edges.len());
        self.edges.push(Edge { to: b, left: cost });
        self.from[b].push(self.edges.len());
        self.edges.push(Edge { to: a, left: 0 });
    }

    /// Whether each place is on the side of what moves in the cheapest cut that moves the least.
    pub(super) fn moving(mut self) -> Vec<bool> {
        loop {
            let levels = self.levels();
            if levels[MOVES].is_none() {
                break;
            }
            let mut next = vec![0; self.from.len()];
            while self.push_one(&levels, &mut next) {}
        }
        self.reaching(MOVES)
    }

    /// The distance of each place from where everything comes from.
    fn levels(&self) -> Vec<Option<usize>> {
        let mut levels = vec![None; self.from.len()];
        levels[STAYS] = Some(0);
        let mut queue = VecDeque::from([STAYS]);
        while let Some(place) = queue.pop_front() {
            for &edge in &self.from[place] {
                let Edge { to, left } = self.edges[edge];
                if left > 0 && levels[to].is_none() {
                    levels[to] = levels[place].map(|level: usize| level + 1);
                    queue.push_back(to);
                }
            }
        }
        levels
    }

    /// Sends what fits along one shortest way; `false` if there is none left.
    fn push_one(&mut self, levels: &[Option<usize>], next: &mut [usize]) -> bool {
        let mut way: Vec<usize> = Vec::new();
        let mut at = STAYS;
        while at != MOVES {
            let onward = |level: Option<usize>| level.map(|level| level + 1);
            match self.from[at].get(next[at]) {
                Some(&edge) => {
                    let Edge { to, left } = self.edges[edge];
                    if left > 0 && levels[to].is_some() && levels[to] == onward(levels[at]) {
                        way.push(edge);
                        at = to;
                    } else {
                        next[at] += 1;
                    }
                }
                // A dead end: back, and another way from there.
                None => match way.pop() {
                    Some(edge) => {
                        at = self.edges[edge ^ 1].to;
                        next[at] += 1;
                    }
                    None => return false,
                },
            }
        }
        let fits = way.iter().map(|&edge| self.edges[edge].left).min().unwrap_or(0);
        for edge in way {
            self.edges[edge].left -= fits;
            self.edges[edge ^ 1].left += fits;
        }
        fits > 0
    }

    /// The places from which something could still flow to `end`.
    fn reaching(&self, end: Place) -> Vec<bool> {
        let mut reaches = vec![false; self.from.len()];
        reaches[end] = true;
        let mut queue = VecDeque::from([end]);
        while let Some(place) = queue.pop_front() {
            for &edge in &self.from[place] {
                let source = self.edges[edge].to;
                if self.edges[edge ^ 1].left > 0 && !reaches[source] {
                    reaches[source] = true;
                    queue.push_back(source);
                }
            }
        }
        reaches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_cut_is_found() {
        // stays -3-> a -1-> b -5-> moves, and stays -1-> b: the cut is before b.
        let mut network = Network::new();
        let (a, b) = (network.place(), network.place());
        network.edge(STAYS, a, 3);
        network.edge(a, b, 1);
        network.edge(STAYS, b, 1);
        network.edge(b, MOVES, 5);
        assert_eq!(network.moving()[2..], [false, true]);
    }

    #[test]
    fn nothing_moves_for_nothing() {
        let mut network = Network::new();
        let a = network.place();
        network.edge(STAYS, a, 2);
        network.edge(a, MOVES, 2);
        assert!(!network.moving()[a]);
    }

    #[test]
    fn flow_finds_its_way_around() {
        // The way through the middle must be given back.
        let mut network = Network::new();
        let [a, b, c, d] = [(); 4].map(|()| network.place());
        for (from, to) in [(STAYS, a), (STAYS, b), (a, c), (a, d), (b, c), (c, MOVES), (d, MOVES)] {
            network.edge(from, to, 1);
        }
        assert_eq!(network.moving()[2..], [false; 4]);
    }
}
