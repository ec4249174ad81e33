//! Windows along one axis, combined from shifted slices.

use tensor::Dim;

use crate::rules::reduction::monoid::Monoid;
use crate::{Context, Parts, Result, RuleError};

/// The maximum size of a window whose elements are slices each. Larger windows are built by
/// doubling.
const SMALL: i64 = 8;

/// A window along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) axis: i64,
    pub(crate) size: i64,
    pub(crate) dilation: i64,
}

impl Run {
    /// Reduces every window along the axis to one element. Windows are a stride apart.
    pub(crate) fn reduce(
        self,
        cx: &mut Context<'_>,
        x: Parts,
        stride: i64,
        monoid: Monoid,
    ) -> Result<Parts> {
        if self.size <= SMALL {
            return self.by_elements(cx, x, stride, monoid);
        }
        let dense = self.by_doubling(cx, x, monoid)?;
        self.take(cx, dense, 0, 0, stride)
    }

    /// Takes every `step`th element of `x`, without the first `before` and the last `after`.
    #[track_caller]
    fn take(
        self,
        cx: &mut Context<'_>,
        x: Parts,
        before: i64,
        after: i64,
        step: i64,
    ) -> Result<Parts> {
        if (before, after, step) == (0, 0, 1) {
            return Ok(x);
        }
        // The end is counted from the end of the axis, which may be shorter than the omitted part.
        let end = if after == 0 { i64::MAX } else { -after };
        x.each(cx, |cx, part| {
            cx.slice(part, &[self.axis], &[Dim::Known(before)], &[Dim::Known(end)], &[step])
        })
    }

    /// Combines the first elements of all windows with the second ones, and so on.
    fn by_elements(
        self,
        cx: &mut Context<'_>,
        x: Parts,
        stride: i64,
        monoid: Monoid,
    ) -> Result<Parts> {
        let reach = (self.size - 1) * self.dilation;
        let mut sum = self.take(cx, x, 0, reach, stride)?;
        for i in 1..self.size {
            let before = i * self.dilation;
            let element = self.take(cx, x, before, reach - before, stride)?;
            sum = monoid.combine(cx, sum, element)?;
        }
        Ok(sum)
    }

    /// Combines windows of one element to windows of two, of four, and so on. Then it combines
    /// those whose sizes add up to the size of the window.
    fn by_doubling(self, cx: &mut Context<'_>, x: Parts, monoid: Monoid) -> Result<Parts> {
        let (mut power, mut windows) = (1, x);
        let (mut done, mut sum) = (0, None);
        loop {
            if self.size & power != 0 {
                let before = done * self.dilation;
                done += power;
                let after = (self.size - done) * self.dilation;
                let part = self.take(cx, windows, before, after, 1)?;
                sum = Some(match sum {
                    None => part,
                    Some(sum) => monoid.combine(cx, sum, part)?,
                });
            }
            if done == self.size {
                return sum.ok_or_else(|| RuleError::Internal("an empty window".to_owned()));
            }
            let shift = power * self.dilation;
            let left = self.take(cx, windows, 0, shift, 1)?;
            let right = self.take(cx, windows, shift, 0, 1)?;
            windows = monoid.combine(cx, left, right)?;
            power *= 2;
        }
    }
}
