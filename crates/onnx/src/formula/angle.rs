//! The angle of a point in the plane.

use std::f64::consts::PI;

use super::Num;

impl<'f> Num<'f> {
    /// Returns the condition that the number has a minus sign, which includes negative zero.
    #[track_caller]
    pub fn is_negative(self) -> Self {
        self.less(0.0) | (1.0 / self).equals(f64::NEG_INFINITY)
    }

    /// Returns the angle between the x-axis and the point (x, y), where `self` is y.
    #[track_caller]
    pub fn atan2(self, x: Self) -> Self {
        let y = self;
        let (below, left) = (y.is_negative(), x.is_negative());
        // The corners at infinity are on the diagonals. At the origin, only the signs of the zeros
        // matter.
        let corner = y.is_inf() & x.is_inf();
        let origin = y.equals(0.0) & x.equals(0.0);
        let slope = y / origin.select(1.0, x);
        let slope = corner.select(y.sign() * x.sign(), slope);
        let turn = below.select(x.constant(-PI), PI);
        let angle = slope.atan();
        left.select(angle + turn, angle)
    }
}
