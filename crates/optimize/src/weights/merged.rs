//! Products of one operand with several weights of 4 bits → one product with the concatenated
//! weights, and `Split`. Queries, keys and values of `GroupQueryAttention` stay in one piece, in
//! floats as well.
//!
//! Each column is computed as before, so results stay the same bit for bit. One product takes less
//! time than several: its operand is rounded to 8 bits only once, and a session prepares fewer
//! weights when it is loaded.

use onnx::{Attr, Attrs, Editor, Graph, NodeId, Use, ValueId, attrs};
use rustc_hash::FxHashMap;
use tensor::{Dim, Tensor, TensorError};

use super::contributed::{PRODUCT, emit, is_contributed};
use super::{Error, NAME, name_parts};

const ATTENTION: &str = "GroupQueryAttention";

/// The properties that merged products share: the operand, the block size, or zero for floats, the
/// number of inputs, and the attention that reads the results directly.
type Group = (ValueId, i64, usize, Option<NodeId>);

/// Merges the products of a graph.
pub(super) fn merge(edit: &mut Editor<'_>) -> Result<(), Error> {
    for block in edit.graph().live_blocks() {
        let mut groups: FxHashMap<Group, Vec<NodeId>> = FxHashMap::default();
        for id in edit.graph().nodes_of(block) {
            if let Some(group) = group(edit.graph(), id) {
                groups.entry(group).or_default().push(id);
            }
        }
        let mut groups: Vec<_> = groups.into_values().filter(|ids| ids.len() > 1).collect();
        groups.sort_unstable();
        for products in groups {
            merge_all(edit, products)?;
        }
    }
    Ok(())
}

/// Returns the group of a product whose weight has no other consumers.
fn group(graph: &Graph, id: NodeId) -> Option<Group> {
    let node = graph.node(id);
    let is_own = |index| {
        let value = node.input(index).filter(|value| graph.tensor(*value).is_some());
        value.is_some_and(|value| graph.value(value).uses().len() == 1)
    };
    let attention = attention(graph, id).map(|(attention, _)| attention);
    let fits = match node.is("MatMul") {
        true => attention.is_some() && is_own(1) && graph.ty(node.input(1)?).shape.len() == 2,
        false => is_contributed(node, PRODUCT) && (1..node.inputs.len()).all(is_own),
    };
    fits.then_some((node.input(0)?, node.int("block_size", 0), node.inputs.len(), attention))
}

/// Returns the attention that reads the result of a product as its queries, keys or values, and the
/// index of that operand.
fn attention(graph: &Graph, id: NodeId) -> Option<(NodeId, usize)> {
    let mut uses = graph.value(*graph.node(id).outputs.first()?).uses();
    match (uses.next()?, uses.len()) {
        (Use::Operand(reader, index @ 0..=2), 0)
            if is_contributed(graph.node(reader), ATTENTION) =>
        {
            Some((reader, index))
        }
        _ => None,
    }
}

fn merge_all(edit: &mut Editor<'_>, mut products: Vec<NodeId>) -> Result<(), Error> {
    let graph = edit.graph();
    let Some(&first) = products.first() else { return Ok(()) };
    let packed = attention(graph, first).filter(|_| products.len() == 3);
    let is_float = graph.node(first).is("MatMul");
    if is_float && packed.is_none() {
        return Ok(());
    }
    products.sort_by_key(|id| attention(graph, *id).map(|(_, index)| index));
    let node = graph.node(first).clone();
    let of = |index: usize| -> Vec<ValueId> {
        products.iter().filter_map(|id| graph.node(*id).input(index)).collect()
    };
    let names: Vec<&str> = of(1).iter().map(|value| graph.value(*value).name.as_str()).collect();
    let name = names.join("+");
    let tensors = |index: usize| -> Vec<Tensor> {
        of(index).iter().filter_map(|value| graph.tensor(*value)).cloned().collect()
    };
    let wrong = |error: TensorError| onnx::Error::Graph(error.to_string());
    let columns: Option<Vec<i64>> = products
        .iter()
        .map(|id| graph.ty(graph.node(*id).outputs[0]).shape.last()?.as_known())
        .collect();
    let Some(columns) = columns else { return Ok(()) };
    let all: i64 = columns.iter().sum();
    let mut ty = graph.ty(node.outputs[0]).clone();
    if let Some(last) = ty.shape.last_mut() {
        *last = Dim::Known(all);
    }
    let attr = |(key, value): &(&'static str, Attr)| match *key {
        "N" => ("N", Attr::Int(all)),
        _ => (*key, value.clone()),
    };
    let attrs: Attrs = node.attrs.iter().map(attr).collect();
    let merged: Result<Vec<Tensor>, _> = match is_float {
        true => side_by_side(&tensors(1)).map(|values| vec![values]),
        false => (1..node.inputs.len()).map(|index| stacked(&tensors(index))).collect(),
    };
    let merged = merged.map_err(wrong)?;
    let graph = edit.graph_mut();
    let merged: Vec<ValueId> = merged.into_iter().map(|part| graph.add_constant(part)).collect();
    let Some(&values) = merged.first() else { return Ok(()) };
    if let Some(scales) = merged.get(1) {
        name_parts(graph, &name, *scales, merged.get(2).copied());
    }
    let inputs: Vec<_> = node.input(0).into_iter().chain(merged).map(Some).collect();
    graph.set_name(values, name);
    let mark = edit.mark();
    let mut builder = edit.builder(NAME, first);
    let product = match is_float {
        true => builder.op("MatMul", &inputs.into_iter().flatten().collect::<Vec<_>>(), attrs)?,
        false => emit(&mut builder, PRODUCT, inputs, attrs, vec![ty])[0],
    };
    let sizes = builder.i64s(&columns);
    let parts = builder.op_many("Split", &[product, sizes], attrs! { axis: -1 }, columns.len())?;
    let fresh = edit.added_since(mark);
    for (id, part) in products.iter().zip(parts) {
        edit.replace(NAME, *id, &[part], &fresh)?;
    }
    if let (Some((attention, _)), Some(split)) = (packed, fresh.last()) {
        for (index, value) in [Some(product), None, None].into_iter().enumerate() {
            edit.set_input(attention, index, value);
        }
        edit.remove_unread(*split, &fresh[..1]);
    }
    Ok(())
}

/// Concatenates tensors along the first axis.
fn stacked(parts: &[Tensor]) -> Result<Tensor, TensorError> {
    match parts.split_first() {
        Some((first, others)) => first.concatenated(others),
        None => Ok(Tensor::i64s(&[])),
    }
}

/// Concatenates matrices along the last axis.
fn side_by_side(parts: &[Tensor]) -> Result<Tensor, TensorError> {
    let turned: Result<Vec<_>, _> = parts.iter().map(|part| part.transposed(&[1, 0])).collect();
    stacked(&turned?)?.transposed(&[1, 0])
}

#[cfg(test)]
mod tests {
    use onnx::text::print;
    use provenance::Origins;

    use crate::testing::graph;
    use crate::weights::{Weights, shrink};
    use crate::{Form, Forms};

    fn after(text: &str) -> String {
        after_with(text, "*=int4:16")
    }

    fn after_with(text: &str, weights: &str) -> String {
        let named = [("MatMulNBits".to_owned(), Form::Native)].into();
        let forms = Forms { named, ..Forms::auto(23) };
        let weights = Weights::parse(weights).unwrap();
        let mut origins = Origins::default();
        let mut graph = graph(text, &mut origins);
        shrink(&mut graph, &mut origins, &weights, 23, &forms).unwrap();
        onnx::verify(&graph, None).unwrap();
        print(&graph)
    }

    fn ones(name: &str, columns: usize) -> String {
        format!("float[32,{columns}] {name} = {{{}}}", vec!["1"; 32 * columns].join(", "))
    }

    #[test]
    fn products_of_one_operand_become_one() {
        let parameters = [ones("v", 32), ones("w", 64)].join(", ");
        let text = after(&format!(
            "g (float[B,32] x) => (float[B,32] y, float[B,64] z) <{parameters}> {{
                y = MatMul (x, v) z = MatMul (x, w)
            }}"
        ));
        assert_eq!(text.matches("MatMulNBits").count(), 1, "{text}");
        assert!(text.contains("N: int = 96") && text.contains("uint8[96,2,8] \"v+w\""), "{text}");
        assert!(text.contains("float[96,2] \"v+w/scale\""), "{text}");
        assert!(text.contains("y, z = Split <axis: int = -1>"), "{text}");
    }

    #[test]
    fn zero_points_are_concatenated() {
        let parameters = [ones("v", 32), ones("w", 64)].join(", ");
        let text = after_with(
            &format!(
                "g (float[B,32] x) => (float[B,32] y, float[B,64] z) <{parameters}> {{
                    y = MatMul (x, v) z = MatMul (x, w)
                }}"
            ),
            "*=uint4:16",
        );
        assert_eq!(text.matches("MatMulNBits").count(), 1, "{text}");
        assert!(text.contains("uint8[96,1] \"v+w/zero_point\""), "{text}");
    }

    #[test]
    fn other_products_are_unchanged() {
        let parameters = [ones("v", 32), ones("w", 64)].join(", ");
        // Two operands, and one weight of two products.
        for nodes in [
            "y = MatMul (x, v) t = Tanh (x) z = MatMul (t, w)",
            "y = MatMul (x, v) t = MatMul (y, v) z = MatMul (t, w)",
        ] {
            let text = after(&format!(
                "g (float[B,32] x) => (float[B,32] y, float[B,64] z) <{parameters}> {{{nodes}}}"
            ));
            assert!(text.contains("MatMulNBits") && !text.contains("Split"), "{text}");
        }
    }

    #[test]
    fn queries_keys_and_values_in_floats_are_one_product() {
        let parameters = "float[2,1] k = {1, 2}, float[2,1] q = {3, 4}, float[2,1] v = {5, 6}";
        let text = after_with(
            &format!(
                "g (float[1,S,2] x, float[1,1,T,1] a, float[1,1,T,1] b, int32[1] l, int32 t)
                => (float[1,S,1] y, float[1,1,T,1] c, float[1,1,T,1] d) <{parameters}> {{
                    k1 = MatMul (x, k) q1 = MatMul (x, q) v1 = MatMul (x, v)
                    y, c, d = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1> (
                        q1, k1, v1, a, b, l, t
                    )
                }}"
            ),
            "",
        );
        assert!(text.contains("float[2,3] \"q+k+v\""), "{text}");
        assert!(!text.contains("Split") && text.matches("MatMul").count() == 1, "{text}");
    }

    #[test]
    fn queries_keys_and_values_stay_in_one_piece() {
        let parameters = [ones("k", 32), ones("q", 64), ones("v", 32)].join(", ");
        let text = after(&format!(
            "g (float[1,S,32] x, float[1,4,T,8] a, float[1,4,T,8] b, int32[1] l, int32 t)
            => (float[1,S,64] y, float[1,4,T,8] c, float[1,4,T,8] d) <{parameters}> {{
                k1 = MatMul (x, k) q1 = MatMul (x, q) v1 = MatMul (x, v)
                y, c, d = com.microsoft.GroupQueryAttention <num_heads = 8, kv_num_heads = 4> (
                    q1, k1, v1, a, b, l, t
                )
            }}"
        ));
        assert!(text.contains("uint8[128,2,8] \"q+k+v\"") && !text.contains("Split"), "{text}");
    }
}
