//! Sliding windows: ONNX's pooling where it has the same meaning, otherwise shifted slices,
//! combined one axis at a time, which is exact for every element type.

use std::sync::Arc;

use jaxpr::Params;
use onnx::{Attrs, ValueId, attrs};
use tensor::division::product;
use tensor::{DType, Dim, Type};

use super::same_padding::{Padded, is_padded_by_operator};
use super::shifted_slices::Run;
use crate::rules::Equation;
use crate::rules::movement::pad;
use crate::rules::reduction::monoid::Monoid;
use crate::{Context, Parts, Result, RuleError};

const ZERO: Dim = Dim::Known(0);
const ONE: Dim = Dim::Known(1);

/// The movement of a window over an array, with one entry per axis.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) size: Vec<Dim>,
    pub(crate) stride: Vec<i64>,
    pub(crate) low: Vec<Dim>,
    pub(crate) high: Vec<Dim>,
    /// The distance between the elements of the array from the window's perspective.
    pub(crate) base_dilation: Vec<i64>,
    /// The distance between the elements of the window.
    pub(crate) dilation: Vec<i64>,
}

impl Window {
    /// Reads the window from the equation's parameters.
    pub(crate) fn read(params: &Params) -> Result<Self> {
        let size: Vec<Dim> = params.get("window_dimensions")?;
        let padding: Vec<(Dim, Dim)> = params.get("padding")?;
        let (low, high) = padding.into_iter().unzip();
        // Not every primitive has these parameters.
        let dilation = |name: &str| match params.raw(name) {
            Some(_) => params.get(name),
            None => Ok(vec![1; size.len()]),
        };
        Ok(Self {
            stride: params.get("window_strides")?,
            base_dilation: dilation("base_dilation")?,
            dilation: dilation("window_dilation")?,
            size,
            low,
            high,
        })
    }

    /// Reduces every window of `x` to one element. Positions outside of `x` do not count.
    pub(crate) fn reduce(
        mut self,
        cx: &mut Context<'_>,
        x: Parts,
        monoid: Monoid,
    ) -> Result<Parts> {
        let shape = cx.out(0).shape;
        let fill = monoid.identity_like(cx, x)?;
        if shape.contains(&ZERO) {
            return fill.each(cx, |cx, part| cx.expand(part, &shape));
        }
        let x = self.spread(cx, x, fill)?;
        let x = self.reduce_whole_axes(cx, x, monoid)?;
        match x.im() {
            None => match self.pool(cx, x.re(), monoid)? {
                Some(pooled) => Ok(Parts::Real(pooled)),
                None => self.slide(cx, x, monoid, fill),
            },
            Some(_) => self.slide(cx, x, monoid, fill),
        }
    }

    /// Spreads `x` by the base dilation.
    fn spread(&self, cx: &mut Context<'_>, x: Parts, fill: Parts) -> Result<Parts> {
        let mut x = x;
        for (axis, &dilation) in self.base_dilation.iter().enumerate() {
            if dilation > 1 {
                x = x.zip_with(cx, fill, |cx, part, fill| {
                    pad::spread(cx, part, fill, axis, dilation - 1)
                })?;
            }
        }
        Ok(x)
    }

    /// Returns the axes that the window moves along or pads.
    pub(crate) fn moving_axes(&self) -> Vec<usize> {
        let still = |i: usize| {
            (&self.size[i], self.stride[i], &self.low[i], &self.high[i]) == (&ONE, 1, &ZERO, &ZERO)
        };
        (0..self.size.len()).filter(|&i| !still(i)).collect()
    }

    /// Reduces the axes that a window covers completely, so that it no longer moves along them.
    fn reduce_whole_axes(
        &mut self,
        cx: &mut Context<'_>,
        x: Parts,
        monoid: Monoid,
    ) -> Result<Parts> {
        if cx.dtype(x.re()) == DType::Bool {
            return Ok(x);
        }
        let shape = cx.shape(x.re()).to_vec();
        let whole = |i: usize| {
            let unpadded = self.low[i] == ZERO && self.high[i] == ZERO && self.dilation[i] == 1;
            unpadded && self.size[i] == shape[i] && shape[i] != ONE
        };
        let axes: Vec<usize> = (0..shape.len()).filter(|&i| whole(i)).collect();
        for &i in &axes {
            (self.size[i], self.stride[i]) = (ONE, 1);
        }
        monoid.reduce(cx, x, &axes)
    }

    /// Returns the kernel size and the padding of an axis, if pooling supports them: every window
    /// must contain an element of the array.
    fn poolable(&self, axis: usize, extent: &Dim) -> Option<(i64, i64, i64)> {
        let size = self.size[axis].as_known()?;
        let (low, high) = (self.low[axis].as_known()?, self.high[axis].as_known()?);
        let dilation = self.dilation[axis];
        let dense = self.base_dilation[axis] == 1
            && (dilation == 1 || extent.as_known().is_some_and(|n| n >= dilation));
        let inside = (0..size).contains(&low) && (0..size).contains(&high);
        (dense && inside).then_some((size, low, high))
    }

    /// Returns the layout and the attributes of an equivalent pooling operator, which supports one
    /// to three axes, anywhere in the shape.
    fn pooling(&self, shape: &[Dim], dtype: DType) -> Option<(Layout, Attrs)> {
        let moving = self.moving_axes();
        if !(1..=3).contains(&moving.len()) {
            return None;
        }
        if let Some(attrs) = self.pooling_same_upper(&moving, shape, dtype) {
            return Some((Layout::new(&moving, shape.len()), attrs));
        }
        let fits = moving.iter().map(|&axis| self.poolable(axis, &shape[axis]));
        let fits: Vec<_> = fits.collect::<Option<_>>()?;
        let kernel: Vec<i64> = fits.iter().map(|f| f.0).collect();
        let pads: Vec<i64> = fits.iter().map(|f| f.1).chain(fits.iter().map(|f| f.2)).collect();
        let at = |from: &[i64]| moving.iter().map(|&i| from[i]).collect::<Vec<_>>();
        let mut attrs = attrs! { kernel_shape: kernel, strides: at(&self.stride), pads: pads };
        let dilations = at(&self.dilation);
        // Not every opset has dilations.
        if dilations.iter().any(|dilation| *dilation > 1) {
            attrs.extend(attrs! { dilations: dilations });
        }
        Some((Layout::new(&moving, shape.len()), attrs))
    }

    /// Returns the attributes of pooling whose padding depends on symbolic sizes, in the one way
    /// that the operator computes itself.
    fn pooling_same_upper(&self, moving: &[usize], shape: &[Dim], dtype: DType) -> Option<Attrs> {
        let axes = moving.iter().map(|&i| Padded {
            size: &shape[i],
            window: &self.size[i],
            stride: self.stride[i],
            low: &self.low[i],
            high: &self.high[i],
        });
        let dense = |&i: &usize| self.dilation[i] == 1 && self.base_dilation[i] == 1;
        let fits =
            moving.iter().all(dense) && is_padded_by_operator(dtype, &axes.collect::<Vec<_>>());
        let kernel: Vec<i64> =
            moving.iter().map(|&i| self.size[i].as_known()).collect::<Option<_>>()?;
        let strides: Vec<i64> = moving.iter().map(|&i| self.stride[i]).collect();
        fits.then(|| attrs! { kernel_shape: kernel, strides: strides, auto_pad: "SAME_UPPER" })
    }

    /// Emits `MaxPool` or `AveragePool`, if they are equivalent.
    fn pool(&self, cx: &mut Context<'_>, x: ValueId, monoid: Monoid) -> Result<Option<ValueId>> {
        let dtype = cx.dtype(x);
        let op = match monoid {
            Monoid::Max if dtype.is_float() || matches!(dtype, DType::I8 | DType::U8) => "MaxPool",
            Monoid::Add if dtype.is_float() => "AveragePool",
            _ => return Ok(None),
        };
        let shape = cx.shape(x).to_vec();
        let Some((layout, mut attrs)) = self.pooling(&shape, dtype) else { return Ok(None) };
        if op == "AveragePool" {
            attrs.extend(attrs! { count_include_pad: 1 });
        }
        let x = layout.enter(cx, x)?;
        let mut pooled = cx.op(op, &[x], attrs)?;
        let volume: i64 = self.size.iter().filter_map(Dim::as_known).product();
        if op == "AveragePool" && volume != 1 {
            #[expect(clippy::cast_precision_loss, reason = "windows are small")]
            let volume = cx.scalar_like(pooled, volume as f64)?;
            pooled = cx.op("Mul", &[pooled, volume], Attrs::new())?;
        }
        Ok(Some(layout.leave(cx, pooled, &shape)?))
    }

    /// Returns the layout and the attributes of a `MaxPool` that finds the extremum of each window.
    fn choosing(&self, array: &Type) -> Option<(Layout, Attrs)> {
        let dense = self.base_dilation.iter().chain(&self.dilation).all(|step| *step == 1);
        if dense && array.dtype.is_float() { self.pooling(&array.shape, array.dtype) } else { None }
    }

    /// Returns the layout of pooling and the position of each window's extremum in that layout,
    /// counted over the whole array. Of several equal extrema, it is the first.
    pub(crate) fn places_of_extrema(
        &self,
        cx: &mut Context<'_>,
        x: ValueId,
    ) -> Result<(Layout, ValueId)> {
        let Some((layout, attrs)) = self.choosing(cx.ty(x)) else {
            return Err(RuleError::Internal("a choice that was not expanded".to_owned()));
        };
        let select: Arc<str> = cx.param("select_prim")?;
        let x = match &*select {
            "ge" => x,
            "le" => cx.op("Neg", &[x], Attrs::new())?,
            other => {
                return Err(RuleError::unsupported(format!(
                    "selection by `{other}` is not supported"
                )));
            }
        };
        let x = layout.enter(cx, x)?;
        Ok((layout, cx.op_many("MaxPool", &[x], attrs, 2)?[1]))
    }

    /// Reduces one axis after the other, by slices.
    fn slide(&self, cx: &mut Context<'_>, x: Parts, monoid: Monoid, fill: Parts) -> Result<Parts> {
        let mut x = x.zip_with(cx, fill, |cx, part, fill| {
            pad::edges(cx, part, fill, &self.low, &self.high)
        })?;
        for axis in self.moving_axes() {
            let Some(size) = self.size[axis].as_known() else {
                let size = &self.size[axis];
                return Err(RuleError::unsupported(format!(
                    "a window of symbolic size `{size}` must span its axis"
                )));
            };
            let (stride, dilation) = (self.stride[axis], self.dilation[axis]);
            let run = Run { axis: axis as i64, size, dilation };
            x = run.reduce(cx, x, stride, monoid)?;
        }
        Ok(x)
    }
}

/// Returns `true` if an equation selects an element of each window in a way that `MaxPool` does not
/// support, so that JAX has to expand it.
pub(crate) fn chooses_otherwise(eqn: &Equation<'_>) -> bool {
    let (Ok(window), [_, array]) = (Window::read(eqn.params), eqn.operands) else { return true };
    window.choosing(array).is_none()
}

/// The order (batch, channel, moving axes…) that ONNX's pooling expects.
#[derive(Debug)]
pub(crate) struct Layout {
    perm: Vec<usize>,
    still: usize,
}

impl Layout {
    pub(crate) fn new(moving: &[usize], rank: usize) -> Self {
        let still: Vec<usize> = (0..rank).filter(|i| !moving.contains(i)).collect();
        Self { perm: [still.as_slice(), moving].concat(), still: still.len() }
    }

    /// Returns the shape that `enter` gives an array of `shape`.
    pub(crate) fn shape(&self, shape: &[Dim]) -> Vec<Dim> {
        let shape: Vec<Dim> = self.perm.iter().map(|&axis| shape[axis].clone()).collect();
        let (still, moving) = shape.split_at(self.still);
        let (batch, channel) = match still.split_last() {
            Some((last, rest)) => (product(rest), last.clone()),
            None => (ONE, ONE),
        };
        [&[batch, channel], moving].concat()
    }

    /// Moves the still axes of `x` to the front, and merges or inserts axes so that there are two
    /// of them.
    pub(crate) fn enter(&self, cx: &mut Context<'_>, x: ValueId) -> Result<ValueId> {
        let shape = self.shape(cx.shape(x));
        let x = cx.transpose(x, &self.perm)?;
        cx.reshape(x, &shape)
    }

    /// Restores the axes of a pooled result to their positions in an array of `shape`.
    pub(crate) fn leave(
        &self,
        cx: &mut Context<'_>,
        pooled: ValueId,
        shape: &[Dim],
    ) -> Result<ValueId> {
        let still = self.perm[..self.still].iter().map(|&i| shape[i].clone());
        let apart: Vec<Dim> = still.chain(cx.shape(pooled)[2..].iter().cloned()).collect();
        let pooled = cx.reshape(pooled, &apart)?;
        Ok(cx.transpose(pooled, &inverse(&self.perm))?)
    }
}

/// Returns the inverse of a permutation.
pub(crate) fn inverse(perm: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; perm.len()];
    for (to, &from) in perm.iter().enumerate() {
        inverse[from] = to;
    }
    inverse
}
