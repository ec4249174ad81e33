//! Sliding windows: the attributes that convolutions and pooling share, and the number of positions
//! of a window.

use tensor::{Dim, DimOp};

use super::call::Call;
use crate::Result;
use tensor::bounds::{ceil_div, min, non_negative};

/// The padding of the input.
enum Padding<'a> {
    /// Explicit `pads`, all beginnings first. Without them, there is no padding.
    Given(Option<&'a [i64]>),
    /// Padding that makes the output as large as the input divided by the stride, rounded up.
    Same,
}

/// The attributes of a sliding window.
pub(super) struct Window<'a> {
    strides: Option<&'a [i64]>,
    dilations: Option<&'a [i64]>,
    padding: Padding<'a>,
    ceil: bool,
    axes: usize,
}

impl<'a> Window<'a> {
    /// Reads the attributes of a window over `axes` axes.
    pub(super) fn read(call: &Call<'a>, axes: usize) -> Result<Self> {
        let positive = |name| match call.ints_of(name, axes)? {
            Some(values) if values.iter().any(|v| *v < 1) => {
                Err(call.error(format!("`{name}` must be positive")))
            }
            values => Ok(values),
        };
        let (strides, dilations) = (positive("strides")?, positive("dilations")?);
        let pads = call.ints_of("pads", 2 * axes)?;
        if pads.is_some_and(|pads| pads.iter().any(|p| *p < 0)) {
            return Err(call.error("`pads` must not be negative"));
        }
        let ceil = call.flag("ceil_mode", false)?;
        let padding = match call.string("auto_pad", "NOTSET")? {
            "NOTSET" => Padding::Given(pads),
            _ if pads.is_some() => return Err(call.error("`pads` and `auto_pad` are both given")),
            "SAME_UPPER" | "SAME_LOWER" => Padding::Same,
            // The specification rounds down here, but its implementations round up.
            "VALID" if ceil => return Err(call.error("`ceil_mode` with `auto_pad` VALID")),
            "VALID" => Padding::Given(None),
            other => return Err(call.error(format!("`auto_pad` is `{other}`"))),
        };
        Ok(Self { strides, dilations, padding, ceil, axes })
    }

    fn stride(&self, axis: usize) -> i64 {
        self.strides.map_or(1, |strides| strides[axis])
    }

    /// Returns the extent of a dilated kernel.
    fn extent(&self, axis: usize, kernel: &Dim) -> Dim {
        match self.dilations.map_or(1, |dilations| dilations[axis]) {
            1 => kernel.clone(),
            dilation => (kernel.clone() - Dim::Known(1)) * Dim::Known(dilation) + Dim::Known(1),
        }
    }

    /// Returns the pads before and after an axis, if they are explicit.
    fn pads(&self, axis: usize) -> Option<(i64, i64)> {
        match self.padding {
            Padding::Given(pads) => Some(pads.map_or((0, 0), |p| (p[axis], p[axis + self.axes]))),
            Padding::Same => None,
        }
    }

    /// Returns the number of positions of a kernel of size `kernel` along the axis `axis` of size
    /// `input`.
    pub(super) fn places(
        &self,
        call: &Call<'_>,
        axis: usize,
        input: &Dim,
        kernel: &Dim,
    ) -> Result<Dim> {
        let stride = self.stride(axis);
        let Some((before, behind)) = self.pads(axis) else {
            return Ok(ceil_div(input.clone(), stride));
        };
        let extent = self.extent(axis, kernel);
        let room = input.clone() + Dim::Known(before.saturating_add(behind)) - extent.clone();
        let one = Dim::Known(1);
        let places = if self.ceil {
            // A window must not start in the padding after the input.
            let starts = ceil_div(input.clone() + Dim::Known(before), stride);
            min(&(ceil_div(room, stride) + one), &starts)
        } else {
            Dim::op(DimOp::FloorDiv, &room, &Dim::Known(stride)) + one
        };
        if places.as_known().is_some_and(|places| places < 1) {
            let reason = format!("a window of {extent} does not fit {input} padded by");
            return Err(call.error(format!("{reason} {before} and {behind}")));
        }
        Ok(non_negative(&places))
    }

    /// Returns the size of an input that has `places` positions of the kernel, as in a transposed
    /// convolution.
    pub(super) fn spread(
        &self,
        call: &Call<'_>,
        axis: usize,
        places: &Dim,
        kernel: &Dim,
        extra: i64,
    ) -> Result<Dim> {
        let stride = Dim::Known(self.stride(axis));
        let extent = self.extent(axis, kernel);
        let whole = stride.clone() * (places.clone() - Dim::Known(1)) + extent;
        let Some((before, behind)) = self.pads(axis) else {
            // Implementations disagree on the padding of a size that follows from the stride.
            return match extra {
                0 => Ok(min(&(places.clone() * stride), &whole)),
                _ => Err(call.error("`output_padding` with `auto_pad`")),
            };
        };
        let size = whole + Dim::Known(extra.saturating_sub(before).saturating_sub(behind));
        match size.as_known() {
            Some(size) if size < 0 => Err(call.error(format!("the result has the size {size}"))),
            _ => Ok(size),
        }
    }
}
