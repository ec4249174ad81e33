//! `Reshape`, `Transpose` and `Reshape` that move blocks of channels into blocks of pixels, or back
//! → `DepthToSpace` or `SpaceToDepth` (pixel shuffles). Where channels are the last axis only because
//! of a `Transpose`, that follows instead.

use onnx::{Use, ValueId, attrs};

use crate::movement::{Atoms, Chain, Layout};
use crate::recognize::check_movement;
use crate::{Match, Rewrite, Skip};

pub(crate) static DEPTH_TO_SPACE: Rewrite =
    Rewrite::of("DepthToSpace", &["Reshape"], depth_to_space);
pub(crate) static SPACE_TO_DEPTH: Rewrite =
    Rewrite::of("SpaceToDepth", &["Reshape"], space_to_depth);

fn depth_to_space(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let Moved { x, atoms, from, to, is_turned } = Moved::to(m)?;
    let blocks = Blocks::new(&atoms, &from, &to)?;
    let (mode, attrs) = if blocks.are_first() {
        ("", attrs! { blocksize: blocks.size })
    } else if blocks.are_last() {
        ("CRD", attrs! { blocksize: blocks.size, mode: "CRD" })
    } else {
        return Err("channels are moved otherwise".into());
    };
    check_movement(m.forms(), "DepthToSpace", mode, m.ty(x).dtype)?;
    let image = m.op("DepthToSpace", &[x], attrs)?;
    turned_back(m, image, is_turned)
}

fn space_to_depth(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    check_movement(m.forms(), "SpaceToDepth", "", m.ty(m.result()?).dtype)?;
    let Moved { x, atoms, from, to, is_turned } = Moved::to(m)?;
    let blocks = Blocks::new(&atoms, &to, &from)?;
    Skip::when(!blocks.are_first(), "channels are moved otherwise")?;
    let image = m.op("SpaceToDepth", &[x], attrs! { blocksize: blocks.size })?;
    turned_back(m, image, is_turned)
}

/// The permutation that moves the channels of an image from the second axis to the last.
const CHANNELS_LAST: [i64; 4] = [0, 2, 3, 1];

fn turned_back(m: &mut Match<'_>, image: ValueId, is_turned: bool) -> Result<Vec<ValueId>, Skip> {
    let perm = attrs! { perm: CHANNELS_LAST.to_vec() };
    Ok(vec![if is_turned { m.op("Transpose", &[image], perm)? } else { image }])
}

/// An image that three nodes move to the root: its axes before and after, channels second.
struct Moved {
    x: ValueId,
    atoms: Atoms,
    from: Layout,
    to: Layout,
    /// `true` if `x` is the operand of a `Transpose` to channels as the last axis, which the root
    /// has as well.
    is_turned: bool,
}

impl Moved {
    fn to(m: &Match<'_>) -> Result<Self, Skip> {
        let y = m.result()?;
        let chain = Chain::to(m, y);
        let last = chain.nodes.len().saturating_sub(3);
        let nodes = &chain.nodes[last..];
        let graph = m.graph();
        let is = |index: usize, op| nodes.get(index).is_some_and(|id| graph.node(*id).is(op));
        if !(is(0, "Reshape") && is(1, "Transpose") && is(2, "Reshape")) {
            return Err("elements are moved otherwise".into());
        }
        let inner = nodes[..2].iter().flat_map(|id| &graph.node(*id).outputs);
        if !inner.clone().all(|value| m.is_used_once(*value)) {
            return Err("an intermediate value has other consumers".into());
        }
        let x = graph.node(nodes[0]).input(0).ok_or("an operand is left out")?;
        let (atoms, from, to) = Atoms::moved(graph, x, nodes)?;
        let (mut from, mut to) = (atoms.layout(from).clone(), atoms.layout(to).clone());
        Skip::when(from.len() != 4 || to.len() != 4, "it is not a picture")?;
        let others = graph.value(x).uses().filter(|by| match by {
            Use::Operand(node, _) => *node != nodes[0] && !graph.node(*node).is("Shape"),
            Use::Output(..) => true,
        });
        let turn = m.producer(x, &["Transpose"]).filter(|_| others.count() == 0);
        let turn = turn.filter(|node| node.ints("perm") == Some(&CHANNELS_LAST));
        let source = turn.and_then(|node| node.input(0));
        if source.is_some() {
            from[1..].rotate_right(1);
            to[1..].rotate_right(1);
        }
        Ok(Self { x: source.unwrap_or(x), atoms, from, to, is_turned: source.is_some() })
    }
}

/// Blocks of pixels in a wide image that are channels in a deep one.
struct Blocks<'a> {
    size: i64,
    /// The rows and columns inside a block, in this order.
    inside: Vec<usize>,
    deep: &'a [usize],
    wide: &'a [usize],
}

impl<'a> Blocks<'a> {
    fn new(atoms: &Atoms, deep: &'a Layout, wide: &'a Layout) -> Result<Self, Skip> {
        let inside = |axis: usize| wide[axis].strip_prefix(deep[axis].as_slice());
        let (Some(rows), Some(columns), true) = (inside(2), inside(3), deep[0] == wide[0]) else {
            return Err("pixels are moved otherwise".into());
        };
        let sizes = atoms.shape(&[rows.to_vec(), columns.to_vec()]);
        let size = sizes[0].as_known().filter(|size| *size > 1 && sizes[0] == sizes[1]);
        let size = size.ok_or("blocks are not squares")?;
        let inside = [rows, columns].concat();
        Ok(Self { size, inside, deep: &deep[1], wide: &wide[1] })
    }

    /// Returns `true` if the position inside a block precedes the channel of the wide image.
    fn are_first(&self) -> bool {
        self.deep == [&self.inside, self.wide].concat()
    }

    fn are_last(&self) -> bool {
        self.deep == [self.wide, &self.inside].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::{DEPTH_TO_SPACE, SPACE_TO_DEPTH};
    use crate::testing::{rewrites_to, stays};

    fn moved(from: &str, split: &str, perm: &str, to: &str) -> String {
        format!(
            "g (float[{from}] x) => (float[{to}] y) {{
                a = Constant <value_ints = [{split}]> ()
                r = Reshape (x, a)
                t = Transpose <perm = [{perm}]> (r)
                b = Constant <value_ints = [{to}]> ()
                y = Reshape (t, b)
            }}"
        )
    }

    fn one(from: &str, to: &str, node: &str) -> String {
        format!("g (float[{from}] x) => (float[{to}] y) {{ y = {node} (x) }}")
    }

    #[test]
    fn channels_become_pixels() {
        let (from, to) = ("2,12,5,7", "2,3,10,14");
        let before = moved(from, "2, 2, 2, 3, 5, 7", "0, 3, 4, 1, 5, 2", to);
        let after = one(from, to, "DepthToSpace <blocksize = 2>");
        rewrites_to(&DEPTH_TO_SPACE, &before, &after);
        let before = moved(from, "2, 3, 2, 2, 5, 7", "0, 1, 4, 2, 5, 3", to);
        let after = one(from, to, "DepthToSpace <blocksize = 2, mode = \"CRD\">");
        rewrites_to(&DEPTH_TO_SPACE, &before, &after);
    }

    #[test]
    fn channels_that_were_moved_to_the_end_become_pixels() {
        rewrites_to(
            &DEPTH_TO_SPACE,
            "g (float[2,12,5,7] x) => (float[2,10,14,3] y) {
                c = Transpose <perm = [0, 2, 3, 1]> (x)
                a = Constant <value_ints = [2, 5, 7, 2, 2, 3]> ()
                r = Reshape (c, a)
                t = Transpose <perm = [0, 1, 3, 2, 4, 5]> (r)
                b = Constant <value_ints = [2, 10, 14, 3]> ()
                y = Reshape (t, b)
            }",
            "g (float[2,12,5,7] x) => (float[2,10,14,3] y) {
                v0 = DepthToSpace <blocksize = 2> (x)
                y = Transpose <perm = [0, 2, 3, 1]> (v0)
            }",
        );
    }

    #[test]
    fn pixels_become_channels() {
        let (from, to) = ("2,3,10,14", "2,12,5,7");
        let before = moved(from, "2, 3, 5, 2, 7, 2", "0, 3, 5, 1, 2, 4", to);
        let after = one(from, to, "SpaceToDepth <blocksize = 2>");
        rewrites_to(&SPACE_TO_DEPTH, &before, &after);
    }

    #[test]
    fn other_movements_are_unchanged() {
        let (from, to) = ("2,12,5,7", "2,3,10,14");
        stays(&DEPTH_TO_SPACE, &moved(from, "2, 2, 2, 3, 5, 7", "0, 3, 4, 2, 5, 1", to));
        stays(
            &DEPTH_TO_SPACE,
            &moved("2,6,5,7", "2, 2, 1, 3, 5, 7", "0, 3, 4, 1, 5, 2", "2,3,10,7"),
        );
        stays(&SPACE_TO_DEPTH, &moved(from, "2, 2, 2, 3, 5, 7", "0, 3, 4, 1, 5, 2", to));
        stays(&SPACE_TO_DEPTH, &moved(to, "2, 3, 5, 2, 7, 2", "0, 1, 3, 5, 2, 4", from));
    }

    #[test]
    fn values_between_movements_with_other_readers_are_needed() {
        let text = |other: &str| {
            format!(
                "g (float[2,12,5,7] x) => (float[2,10,14,3] y{other}) {{
                    c = Transpose <perm = [0, 2, 3, 1]> (x)
                    a = Constant <value_ints = [2, 5, 7, 2, 2, 3]> ()
                    r = Reshape (c, a)
                    t = Transpose <perm = [0, 1, 3, 2, 4, 5]> (r)
                    b = Constant <value_ints = [2, 10, 14, 3]> ()
                    y = Reshape (t, b)
                }}"
            )
        };
        for other in ["float[2,5,7,12] c", "float[2,5,7,2,2,3] r", "float[2,5,2,7,2,3] t"] {
            stays(&DEPTH_TO_SPACE, &text(&format!(", {other}")));
        }
    }
}
