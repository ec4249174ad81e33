//! Replaces a `Relu` in front of a `Clip` by a `Max`, unless both compute in single or half
//! precision.
//!
//! onnxruntime's `FuseReluClip` merges the two and fails for other types, so the model cannot be
//! loaded.

use onnx::NodeId;
use onnx::formula::formulas;
use tensor::DType;

use crate::Roots;
use crate::legalize::{Error, Legalizer};
use crate::targets::Bug;

pub(super) static BUG: Bug =
    Bug { name: "relu_before_clip", roots: Roots::Named(&["Clip"]), avoid };

fn avoid(work: &mut Legalizer<'_>, clip: NodeId) -> Result<(), Error> {
    let Some(y) = work.graph().node(clip).input(0) else { return Ok(()) };
    let dtype = work.graph().ty(y).dtype;
    if matches!(dtype, DType::F32 | DType::F16) {
        return Ok(());
    }
    let Some(relu) = work.graph().producer(y) else { return Ok(()) };
    let Some(x) = work.graph().node(relu).input(0).filter(|_| work.graph().node(relu).is("Relu"))
    else {
        return Ok(());
    };
    let larger = formulas(&mut work.builder(relu), [x], |[x]| [x.max(0.0)])?;
    Ok(work.substitute(relu, &larger)?)
}
