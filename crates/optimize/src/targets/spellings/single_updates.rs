//! `ScatterND` of one slice, or of one slice for each index along other axes, into an input of the model →
//! `Where`, for targets that write a slice one element after another. They copy an input as a whole either
//! way.

use onnx::{Attrs, Graph, NodeId, Producer, ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use crate::Roots;
use crate::index_vectors::Element;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static SINGLE_UPDATES: Bug =
    Bug { name: "single_updates", roots: Roots::Named(&["ScatterND"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let graph = work.graph();
    let Some((sizes, place)) = update(graph, id) else { return Ok(()) };
    let rank = graph.ty(graph.node(id).outputs[0]).rank();
    let leading = graph.ty(place).rank() - 1;
    let is_one_slice = graph.ty(place).shape[..leading].iter().all(|size| *size == Dim::Known(1));
    // Updates of all layers at one place share the mask. The first one comes first in the block.
    let block = graph.node(id).block();
    let same = |other: &NodeId| {
        let node = graph.node(*other);
        node.block() == block
            && graph.ty(node.outputs[0]).rank() == rank
            && update(graph, *other).as_ref() == Some(&(sizes.clone(), place))
    };
    let updates: Vec<NodeId> = graph.value(place).consumers().filter(same).collect();
    // A negative index counts from the end.
    let counts_from_the_end = !graph.facts().interval(place).is_at_least(&Dim::Known(0));
    let mut mask = None;
    let b = &mut work.builder(id);
    for (axis, size) in sizes.iter().enumerate() {
        let Some(size) = size.filter(|size| *size > 1) else { continue };
        let index = if is_one_slice {
            let index = b.scalar(DType::I64, axis as f64)?;
            b.op("Gather", &[place, index], attrs! { axis: -1 })?
        } else {
            // The slices differ in other axes only.
            let first = b.constant(Tensor::i64s(&[vec![0; leading], vec![axis as i64]].concat()));
            b.op("GatherND", &[place, first], Attrs::new())?
        };
        let mut equal = |first: i64| {
            let places: Vec<i64> = (first..first + size).collect();
            let shape = [&[places.len()][..], &vec![1; rank - axis - 1]].concat();
            let places = Tensor::i64s(&places).reshaped(&shape);
            let places = places.map_err(|error| onnx::Error::Graph(error.to_string()))?;
            let places = b.constant(places);
            b.op("Equal", &[places, index], Attrs::new())
        };
        let mut here = equal(0)?;
        if counts_from_the_end {
            let from_the_end = equal(-size)?;
            here = b.op("Or", &[here, from_the_end], Attrs::new())?;
        }
        mask = Some(match mask {
            Some(mask) => b.op("And", &[mask, here], Attrs::new())?,
            None => here,
        });
    }
    let Some(mask) = mask else { return Ok(()) };
    for update in updates {
        let node = work.graph().node(update);
        let operands: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
        let b = &mut work.builder(update);
        let result = b.op("Where", &[mask, operands[2], operands[0]], Attrs::new())?;
        work.substitute(update, &[result])?;
    }
    Ok(())
}

/// Returns the sizes of the axes in which the place of a slice varies, and the value with its place. An axis
/// that is written as a whole is `None`.
fn update(graph: &Graph, id: NodeId) -> Option<(Vec<Option<i64>>, ValueId)> {
    let node = graph.node(id);
    let operands: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let [operand, place, _] = *operands else { return None };
    let is_input = matches!(graph.value(operand).producer(), Producer::Input(_));
    if !node.is("ScatterND") || node.attr("reduction").is_some() || !is_input {
        return None;
    }
    let shape = &graph.ty(operand).shape;
    let (count, leading) = graph.ty(place).shape.split_last()?;
    let count = usize::try_from(count.as_known()?).ok()?;
    let is_one = |size: &Dim| *size == Dim::Known(1);
    // The slice has these axes in place of those that it is written along.
    if leading.len() > count {
        return None;
    }
    let is_one_slice = leading.iter().all(is_one);
    if !is_one_slice && leading.len() != count {
        return None;
    }
    let sizes = (0..count).map(|axis| {
        if is_one_slice {
            return shape[axis].as_known().map(Some);
        }
        let Element { first, along, base, modulo } = Element::of(graph, place, axis)?;
        let differs = base.iter().flat_map(|base| &base.axes).any(Option::is_some);
        let is_whole = leading[axis] == shape[axis] && along == [axis] && first == 0;
        if is_whole && base.is_none() && modulo.is_none() {
            return Some(None);
        }
        let is_same = is_one(&leading[axis]) && along.is_empty() && !differs;
        shape[axis].as_known().filter(|_| is_same).map(Some)
    });
    Some((sizes.collect::<Option<_>>()?, place))
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn updated(shapes: [&str; 3], body: &str, target: &str) -> String {
        let [operand, places, slice] = shapes;
        let text = format!(
            "g (float[{operand}] x, float[{operand}] z, int64[{places}] i, float[{slice}] u) =>
               (float[{operand}] y, float[{operand}] w) {{
                p = Constant <value: tensor = int64[1,1,2] {{0, 3}}> ()
                {body}
            }}"
        );
        spelled(&text, target).unwrap()
    }

    const ONE: [&str; 3] = ["1,8,2", "1,1,2", "1,1,2"];
    const KNOWN: &str = "y = ScatterND (x, p, u) w = ScatterND (z, p, u)";
    const ANY: &str = "y = ScatterND (x, i, u) w = ScatterND (z, i, u)";

    #[test]
    fn one_slice_is_selected() {
        let count = |text: &str, op: &str| text.matches(&format!("= {op}")).count();
        let text = updated(ONE, KNOWN, "cuda");
        assert_eq!([count(&text, "Where"), count(&text, "Equal")], [2, 1], "{text}");
        let text = updated(ONE, ANY, "cuda");
        assert_eq!([count(&text, "Equal"), count(&text, "Or")], [2, 1], "{text}");
        let text = updated(["4,8,2", "1,1,2", "1,1,2"], KNOWN, "cuda");
        assert_eq!([count(&text, "Equal"), count(&text, "And")], [2, 1], "{text}");
        assert_eq!(count(&updated(ONE, KNOWN, "onnxruntime"), "Where"), 0);
    }

    #[test]
    fn one_slice_of_each_example_is_selected() {
        let places = |grid: &str| {
            format!(
                "r = Constant <value: tensor = int64[2,1,2] {grid}> ()
                 c = Constant <value: tensor = int64[1] {{0}}> ()
                 j = Concat <axis = 0> (c, i) k = Add (r, j)
                 y = ScatterND (x, k, u) w = ScatterND (z, k, u)"
            )
        };
        let shapes = ["2,8,2", "1", "2,1,2"];
        let text = updated(shapes, &places("{0, 0, 1, 0}"), "cuda");
        assert_eq!([text.matches("= Where").count(), text.matches("= GatherND").count()], [2, 1]);
        for grid in ["{1, 0, 0, 0}", "{0, 0, 1, 1}", "{0, 0, 2, 0}", "{0, 0, 0, 0}"] {
            let text = updated(shapes, &places(grid), "cuda");
            assert!(!text.contains("Where"), "{text}");
        }
    }

    #[test]
    fn other_updates_stay() {
        let computed = "c = Neg (x) d = Neg (z) y = ScatterND (c, p, u) w = ScatterND (d, p, u)";
        let added =
            ANY.replace("(x", "<reduction = \"add\"> (x").replace("(z", "<reduction = \"add\"> (z");
        for (shapes, body) in [
            (["1,8,2", "1,3,2", "1,3,2"], ANY),
            (["2,8,2", "2,1,2", "2,1,2"], ANY),
            (["B,8,2", "1,1,2", "1,1,2"], ANY),
            (ONE, computed),
            (ONE, &added),
        ] {
            let text = updated(shapes, body, "cuda");
            assert!(!text.contains("Where"), "{text}");
        }
    }
}
