//! `DFT` of a single signal → `DFT` of a batch of one.
//!
//! A single signal is a matrix of its elements and their real and imaginary parts. Some targets
//! treat the rows of any matrix as real signals.

use tensor::DType;

use super::{Error, Legalizer};

/// Adds a leading axis to all single signals.
pub(super) fn batch(work: &mut Legalizer<'_>) -> Result<(), Error> {
    for id in work.graph().all_nodes() {
        let node = work.graph().node(id);
        let x = node.input(0).filter(|x| node.is("DFT") && work.graph().ty(*x).rank() == 2);
        let Some(x) = x else { continue };
        let (length, attrs) = (node.input(1), node.attrs.clone());
        let mut b = work.builder(id);
        let (signals, axis) = (b.unsqueeze(x, &[0])?, b.int(DType::I64, -2)?);
        let found = b.op_optional("DFT", &[Some(signals), length, Some(axis)], attrs)?;
        let result = b.squeeze(found, &[0])?;
        work.substitute(id, &[result])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Target;
    use crate::legalize::testing;

    #[test]
    fn a_signal_becomes_a_batch() {
        let legalized = |shape, target| {
            let text = format!("g (float{shape} x) => (float{shape} y) {{ y = DFT (x) }}");
            testing::legalized(&text, target)
        };
        let batch = "Unsqueeze:f32 DFT:f32 Squeeze:f32";
        assert_eq!(legalized("[8,2]", Target::default()), batch);
        assert_eq!(legalized("[8,2]", Target::any()), "DFT:f32");
        assert_eq!(legalized("[3,8,2]", Target::default()), "DFT:f32");
    }
}
