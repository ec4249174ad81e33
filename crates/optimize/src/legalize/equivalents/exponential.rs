//! `log(1 + x)` and `exp(x) - 1` without loss near zero.
//!
//! Adding one to a small number rounds it. But the rounded number is known: it is the sum minus
//! one. Both functions are nearly linear there, so scaling by the ratio corrects the result.

use onnx::{Result, ValueId};

use super::Real;

impl Real<'_, '_> {
    /// `log(1 + x)` for `x >= 0`.
    pub(super) fn log1p(&mut self, x: ValueId) -> Result<ValueId> {
        let sum = self.add(x, 1.0)?;
        let log = self.log(sum)?;
        let kept = self.sub(sum, 1.0)?;
        let off = self.div(x, kept)?;
        let repaired = self.mul(log, off)?;
        // Where nothing is kept the quotient is none, and `x` is the result; far out it may
        // be none either, and needs no repair.
        let vanishes = self.equal(sum, 1.0)?;
        let near = self.select(vanishes, x, repaired)?;
        let far = self.greater(x, 1.0)?;
        self.select(far, log, near)
    }

    /// `exp(x) - 1` for `x <= 0`.
    pub(super) fn expm1(&mut self, x: ValueId) -> Result<ValueId> {
        let exp = self.exp(x)?;
        let difference = self.sub(exp, 1.0)?;
        let log = self.log(exp)?;
        let off = self.div(x, log)?;
        let repaired = self.mul(difference, off)?;
        let vanishes = self.equal(difference, 0.0)?;
        let near = self.select(vanishes, x, repaired)?;
        let far = self.less(x, -1.0)?;
        self.select(far, difference, near)
    }
}
