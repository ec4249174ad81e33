//! Recurrent layers in half precision → the same in float32, between casts, for targets whose kernels also
//! accumulate in half precision: on an H200, an LSTM of 128 steps had 2.9 times the error of JAX.

use std::panic::Location;

use onnx::{NodeId, ValueId, attrs};
use tensor::DType;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(in crate::targets) static WIDE_LAYERS: Bug =
    Bug { name: "wide_layers", roots: Roots::Named(&["GRU", "LSTM", "RNN"]), avoid };

fn avoid(work: &mut Legalizer<'_>, id: NodeId) -> Result<(), Error> {
    let node = work.graph().node(id).clone();
    let is_half = |value: ValueId| work.graph().ty(value).dtype == DType::F16;
    if !node.input(0).is_some_and(is_half) {
        return Ok(());
    }
    let halves: Vec<bool> = node.inputs.iter().map(|v| v.is_some_and(is_half)).collect();
    let mut inputs = node.inputs.clone();
    let b = &mut work.builder(id);
    for (input, _) in inputs.iter_mut().zip(halves).filter(|(_, half)| *half) {
        if let Some(value) = *input {
            *input = Some(b.op("Cast", &[value], attrs! { to: DType::F32 })?);
        }
    }
    let count = node.outputs.len();
    let made = b.emit(node.op, inputs, node.attrs, count, Location::caller())?;
    let mut results = Vec::new();
    for value in made {
        results.push(b.op("Cast", &[value], attrs! { to: DType::F16 })?);
    }
    Ok(work.substitute(id, &results)?)
}

#[cfg(test)]
mod tests {
    use crate::targets::spellings::testing::spelled;

    fn layer(dtype: &str, target: &str) -> usize {
        let text = format!(
            "g ({dtype}[3,1,2] x, {dtype}[1,8,2] w, {dtype}[1,8,2] r) => ({dtype}[3,1,1,2] y) {{
                y = LSTM <hidden_size = 2> (x, w, r) }}"
        );
        spelled(&text, target).unwrap().matches("Cast").count()
    }

    #[test]
    fn layers_in_half_precision_accumulate_in_float32() {
        assert_eq!(layer("float16", "cuda"), 4);
        assert_eq!(layer("float", "cuda"), 0);
        assert_eq!(layer("float16", "any"), 0);
    }
}
