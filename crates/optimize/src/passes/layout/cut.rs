//! The minimum cut of a network, computed by Dinic's algorithm.

use std::collections::VecDeque;

/// A vertex of the network.
pub(super) type Vertex = usize;

/// The source of the cut: nodes that keep their layout.
pub(super) const STAYS: Vertex = 0;
/// The sink of the cut: nodes that change layout.
pub(super) const MOVES: Vertex = 1;

/// A cost larger than the sum of all costs.
pub(super) const NEVER: u64 = u64::MAX / 4;

#[derive(Default)]
pub(super) struct Network {
    edges: Vec<Edge>,
    /// The indices of the edges that leave each vertex. An edge and its reverse are adjacent.
    from: Vec<Vec<usize>>,
}

struct Edge {
    to: Vertex,
    left: u64,
}

impl Network {
    pub(super) fn new() -> Self {
        Self { edges: Vec::new(), from: vec![Vec::new(), Vec::new()] }
    }

    pub(super) fn vertex(&mut self) -> Vertex {
        self.from.push(Vec::new());
        self.from.len() - 1
    }

    /// Adds a cost that applies if `a` stays and `b` moves.
    pub(super) fn edge(&mut self, a: Vertex, b: Vertex, cost: u64) {
        self.from[a].push(self.edges.len());
        self.edges.push(Edge { to: b, left: cost });
        self.from[b].push(self.edges.len());
        self.edges.push(Edge { to: a, left: 0 });
    }

    /// Adds a cost that applies if `from` stays and any of `vertices` moves.
    pub(super) fn if_any_moves(&mut self, from: Vertex, vertices: &[Vertex], cost: u64) {
        if let [vertex] = *vertices {
            return self.edge(from, vertex, cost);
        }
        let between = self.vertex();
        self.edge(from, between, cost);
        vertices.iter().for_each(|vertex| self.edge(between, *vertex, NEVER));
    }

    /// Adds a cost that applies if any of `vertices` stays and `to` moves.
    pub(super) fn if_any_stays(&mut self, vertices: &[Vertex], to: Vertex, cost: u64) {
        if let [vertex] = *vertices {
            return self.edge(vertex, to, cost);
        }
        let between = self.vertex();
        self.edge(between, to, cost);
        vertices.iter().for_each(|vertex| self.edge(*vertex, between, NEVER));
    }

    /// Returns, for each vertex, `true` if it is on the moving side of the minimum cut. Among equal
    /// cuts, chooses the one that moves the fewest vertices.
    pub(super) fn moving(mut self) -> Vec<bool> {
        loop {
            let levels = self.distances(STAYS, false);
            if levels[MOVES].is_none() {
                break;
            }
            let mut next = vec![0; self.from.len()];
            while self.push_one(&levels, &mut next) {}
        }
        self.distances(MOVES, true).iter().map(Option::is_some).collect()
    }

    /// Returns the distance of each vertex from `start` along edges with residual capacity, or
    /// against them.
    fn distances(&self, start: Vertex, against: bool) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.from.len()];
        distances[start] = Some(0);
        let mut queue = VecDeque::from([start]);
        while let Some(vertex) = queue.pop_front() {
            for &edge in &self.from[vertex] {
                let to = self.edges[edge].to;
                let left = self.edges[edge ^ usize::from(against)].left;
                if left > 0 && distances[to].is_none() {
                    distances[to] = distances[vertex].map(|distance: usize| distance + 1);
                    queue.push_back(to);
                }
            }
        }
        distances
    }

    /// Pushes flow along one shortest path. Returns `false` if no path is left.
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
                // A dead end: backtracks and continues with the next edge.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_cut_is_found() {
        // stays -3-> a -1-> b -5-> moves, and stays -1-> b: the cut is before b.
        let mut network = Network::new();
        let (a, b) = (network.vertex(), network.vertex());
        network.edge(STAYS, a, 3);
        network.edge(a, b, 1);
        network.edge(STAYS, b, 1);
        network.edge(b, MOVES, 5);
        assert_eq!(network.moving()[2..], [false, true]);
    }

    #[test]
    fn nothing_moves_without_gain() {
        let mut network = Network::new();
        let a = network.vertex();
        network.edge(STAYS, a, 2);
        network.edge(a, MOVES, 2);
        assert!(!network.moving()[a]);
    }

    #[test]
    fn flow_finds_its_way_around() {
        // The flow through the middle must be reverted.
        let mut network = Network::new();
        let [a, b, c, d] = [(); 4].map(|()| network.vertex());
        for (from, to) in [(STAYS, a), (STAYS, b), (a, c), (a, d), (b, c), (c, MOVES), (d, MOVES)] {
            network.edge(from, to, 1);
        }
        assert_eq!(network.moving()[2..], [false; 4]);
    }
}
