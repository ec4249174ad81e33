//! atan2(y, x) → Atan(y / x), rotated by half a turn to the left of the y-axis

use crate::formula::Num;

pub(crate) fn lower<'f>(y: Num<'f>, x: Num<'f>) -> Num<'f> {
    y.atan2(x)
}
