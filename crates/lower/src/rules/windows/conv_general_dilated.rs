//! conv_general_dilated(x, w) → Conv, or ConvTranspose where the input is dilated. A symbolic
//! number of groups becomes a Scan over groups

use jaxpr::Params;
use onnx::{ValueId, attrs};
use tensor::division::exact_div;
use tensor::{DType, Dim, Type};

use super::same_padding::{Padded, is_padded_by_operator};
use super::window::inverse;
use crate::rules::movement::pad;
use crate::rules::movement::rev;
use crate::{Context, Result, RuleError};

const ZERO: Dim = Dim::Known(0);
const ONE: Dim = Dim::Known(1);

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let out = cx.out(0);
    let numbers: Params = cx.param("dimension_numbers")?;
    let [lhs_spec, rhs_spec, out_spec] =
        ["lhs_spec", "rhs_spec", "out_spec"].map(|name| numbers.get::<Vec<usize>>(name));
    let conv = Convolution::read(cx)?;

    let empty = [cx.shape(x[0]), cx.shape(x[1]), &out.shape].iter().any(|s| s.contains(&ZERO));
    if empty {
        return Ok(vec![cx.full(out.dtype, 0.0, &out.shape)?]);
    }
    let input = cx.transpose(x[0], &lhs_spec?)?;
    let kernel = cx.transpose(x[1], &rhs_spec?)?;
    let result = conv.apply(cx, input, kernel, out.dtype)?;
    Ok(vec![cx.transpose(result, &inverse(&out_spec?))?])
}

/// The movement of the kernel, with one entry per spatial axis.
#[derive(Debug)]
struct Convolution {
    stride: Vec<i64>,
    low: Vec<Dim>,
    high: Vec<Dim>,
    input_dilation: Vec<i64>,
    kernel_dilation: Vec<i64>,
    groups: Dim,
    batch_groups: Dim,
}

impl Convolution {
    fn read(cx: &Context<'_>) -> Result<Self> {
        let padding: Vec<(Dim, Dim)> = cx.param("padding")?;
        let (low, high) = padding.into_iter().unzip();
        Ok(Self {
            stride: cx.param("window_strides")?,
            low,
            high,
            input_dilation: cx.param("lhs_dilation")?,
            kernel_dilation: cx.param("rhs_dilation")?,
            groups: cx.param("feature_group_count")?,
            batch_groups: cx.param("batch_group_count")?,
        })
    }

    /// Convolves an input (batch, channels, space…) with a kernel (output channels, input channels,
    /// space…).
    fn apply(
        mut self,
        cx: &mut Context<'_>,
        input: ValueId,
        kernel: ValueId,
        dtype: DType,
    ) -> Result<ValueId> {
        // The result type may be wider than the operand types.
        let mut input = cx.cast(input, dtype)?;
        let mut kernel = cx.cast(kernel, dtype)?;
        if self.batch_groups != ONE {
            input = self.batches_to_channels(cx, input)?;
        }
        let flat = self.stride.is_empty();
        if flat {
            // Without spatial axes, one of size one is added.
            (input, kernel) = (cx.unsqueeze(input, &[2])?, cx.unsqueeze(kernel, &[2])?);
            (self.stride, self.input_dilation, self.kernel_dilation) = (vec![1], vec![1], vec![1]);
            (self.low, self.high) = (vec![ZERO], vec![ZERO]);
        }
        for (i, size) in cx.shape(input)[2..].iter().enumerate() {
            if *size == ONE {
                self.input_dilation[i] = 1;
            }
        }
        if !(dtype.is_float() || dtype.is_integer()) {
            return Err(RuleError::unsupported(format!(
                "convolutions of {dtype} are not supported"
            )));
        }
        let result = match self.groups {
            Dim::Known(groups) => self.by_operator(cx, input, kernel, groups)?,
            _ => self.each_group(cx, input, kernel)?,
        };
        if flat { Ok(cx.squeeze(result, &[2])?) } else { Ok(result) }
    }

    /// Turns groups of the batch, each with its own output channels, into groups of channels.
    fn batches_to_channels(&mut self, cx: &mut Context<'_>, input: ValueId) -> Result<ValueId> {
        let mut perm: Vec<usize> = (0..=cx.shape(input).len()).collect();
        perm.swap(0, 1);
        let input = apart(cx, input, 0, &self.batch_groups)?;
        let input = cx.transpose(input, &perm)?;
        self.groups = self.batch_groups.clone();
        merged(cx, input, 1)
    }

    /// Emits a convolution per group in a Scan if the number of groups is symbolic, because the
    /// operator takes it as an attribute.
    fn each_group(&self, cx: &mut Context<'_>, input: ValueId, kernel: ValueId) -> Result<ValueId> {
        let mut perm: Vec<usize> = (0..=cx.shape(input).len()).collect();
        perm.swap(0, 1);
        let input = apart(cx, input, 1, &self.groups)?;
        let input = cx.transpose(input, &perm)?;
        let kernel = apart(cx, kernel, 0, &self.groups)?;
        let operands = [input, kernel];
        let types = operands.map(|v| Type::new(cx.dtype(v), &cx.shape(v)[1..]));
        let body = cx.block(|cx, block| {
            let group = cx.inputs(block, types.to_vec());
            Ok(vec![self.by_operator(cx, group[0], group[1], 1)?])
        })?;
        let attrs = attrs! { body: body, num_scan_inputs: 2 };
        let result = cx.op("Scan", &operands, attrs)?;
        let result = cx.transpose(result, &perm)?;
        merged(cx, result, 1)
    }

    fn by_operator(
        &self,
        cx: &mut Context<'_>,
        input: ValueId,
        kernel: ValueId,
        groups: i64,
    ) -> Result<ValueId> {
        let dilated = self.input_dilation.iter().any(|d| *d > 1);
        if dilated
            && cx.dtype(input).is_float()
            && self.stride.iter().all(|s| *s == 1)
            && let Some(transposed) = self.transposed(cx, input, kernel, groups)?
        {
            return Ok(transposed);
        }
        let input = self.spread(cx, input)?;
        if self.is_same_upper(cx, input, kernel) {
            let attrs = attrs! {
                strides: self.stride.clone(),
                auto_pad: "SAME_UPPER",
                group: groups,
            };
            return Ok(cx.op("Conv", &[input, kernel], attrs)?);
        }
        let (pads, input) = self.pad(cx, input)?;
        let attrs = attrs! {
            strides: self.stride.clone(),
            pads: pads,
            dilations: self.kernel_dilation.clone(),
            group: groups,
        };
        Ok(cx.op("Conv", &[input, kernel], attrs)?)
    }

    /// Convolves an input with gaps without ever filling them: every element of the input adds its
    /// multiple of the reversed kernel to the result.
    fn transposed(
        &self,
        cx: &mut Context<'_>,
        input: ValueId,
        kernel: ValueId,
        groups: i64,
    ) -> Result<Option<ValueId>> {
        let known = Dim::all_known;
        let (Some(low), Some(high), Some(size)) =
            (known(&self.low), known(&self.high), known(&cx.shape(kernel)[2..]))
        else {
            return Ok(None);
        };
        // The number of elements that the operator returns beyond the result, or lacks if negative.
        let beyond = |padding: &[i64]| -> Vec<i64> {
            let each = size.iter().zip(&self.kernel_dilation).zip(padding);
            each.map(|((size, dilation), padding)| (size - 1) * dilation - padding).collect()
        };
        let (before, mut after) = (beyond(&low), beyond(&high));
        // If elements are lacking on one side only, the other side might not have enough elements
        // to cut.
        if before.iter().zip(&after).any(|(a, b)| (*a).min(*b) < 0 && (*a).max(*b) > 0) {
            return Ok(None);
        }
        let pads = before.iter().chain(&after).map(|n| *n.max(&0)).collect::<Vec<i64>>();
        let mut attrs = attrs! {
            strides: self.input_dilation.clone(),
            pads: pads,
            dilations: self.kernel_dilation.clone(),
            group: groups,
        };
        // The operator itself can add fewer zeros than a stride at the end.
        let extra: Vec<i64> = after.iter().map(|n| (-n).max(0)).collect();
        if extra.iter().zip(&self.input_dilation).all(|(extra, stride)| extra < stride) {
            if extra.iter().any(|n| *n > 0) {
                attrs.extend(attrs! { output_padding: extra });
            }
            after.fill(0);
        }
        let kernel = swap_channels(cx, kernel, groups)?;
        let axes: Vec<i64> =
            (0..size.len()).filter(|&i| size[i] > 1).map(|i| i as i64 + 2).collect();
        let kernel = rev::reverse(cx, kernel, &axes)?;
        let result = cx.op("ConvTranspose", &[input, kernel], attrs)?;
        let lacking = |beyond: &[i64]| -> Vec<Dim> {
            let amounts = beyond.iter().map(|n| Dim::Known((-n).max(0)));
            [ZERO, ZERO].into_iter().chain(amounts).collect()
        };
        let zero = cx.scalar_like(result, 0.0)?;
        Ok(Some(pad::edges(cx, result, zero, &lacking(&before), &lacking(&after))?))
    }

    /// Inserts zeros between the elements of the input.
    fn spread(&self, cx: &mut Context<'_>, input: ValueId) -> Result<ValueId> {
        let mut input = input;
        for (i, &dilation) in self.input_dilation.iter().enumerate() {
            if dilation > 1 {
                let zero = cx.scalar_like(input, 0.0)?;
                input = pad::spread(cx, input, zero, i + 2, dilation - 1)?;
            }
        }
        Ok(input)
    }

    /// Returns `true` if the padding depends on symbolic sizes in the one way that the operator
    /// computes itself. ONNX does not define that for dilated kernels.
    fn is_same_upper(&self, cx: &Context<'_>, input: ValueId, kernel: ValueId) -> bool {
        let (sizes, windows) = (&cx.shape(input)[2..], &cx.shape(kernel)[2..]);
        let axes = (0..self.stride.len()).map(|i| Padded {
            size: &sizes[i],
            window: &windows[i],
            stride: self.stride[i],
            low: &self.low[i],
            high: &self.high[i],
        });
        self.kernel_dilation.iter().all(|dilation| *dilation == 1)
            && is_padded_by_operator(cx.dtype(input), &axes.collect::<Vec<_>>())
    }

    /// Pads the axes that the operator cannot pad: by a symbolic or a negative amount. Returns the
    /// padding left to the operator, all beginnings first, and the input.
    fn pad(&self, cx: &mut Context<'_>, input: ValueId) -> Result<(Vec<i64>, ValueId)> {
        let (mut low, mut high) = (vec![ZERO; 2], vec![ZERO; 2]);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for pair in self.low.iter().zip(&self.high) {
            let (now, left) = match pair {
                (Dim::Known(a @ 0..), Dim::Known(b @ 0..)) => ((ZERO, ZERO), (*a, *b)),
                (a, b) => ((a.clone(), b.clone()), (0, 0)),
            };
            low.push(now.0);
            high.push(now.1);
            before.push(left.0);
            after.push(left.1);
        }
        let zero = cx.scalar_like(input, 0.0)?;
        let input = pad::edges(cx, input, zero, &low, &high)?;
        Ok(([before, after].concat(), input))
    }
}

/// Transposes a kernel (output channels, input channels of a group, …) to (input channels, output
/// channels of a group, …).
fn swap_channels(cx: &mut Context<'_>, kernel: ValueId, groups: i64) -> Result<ValueId> {
    let mut perm: Vec<usize> = (0..cx.shape(kernel).len()).collect();
    if groups == 1 {
        perm.swap(0, 1);
        return Ok(cx.transpose(kernel, &perm)?);
    }
    perm.push(perm.len());
    perm.swap(1, 2);
    let kernel = apart(cx, kernel, 0, &Dim::Known(groups))?;
    let kernel = cx.transpose(kernel, &perm)?;
    merged(cx, kernel, 0)
}

/// Splits an axis into groups and their elements.
fn apart(cx: &mut Context<'_>, x: ValueId, axis: usize, groups: &Dim) -> Result<ValueId> {
    let mut shape = cx.shape(x).to_vec();
    let Some(each) = exact_div(&shape[axis], groups) else {
        let reason =
            format!("an axis of size {} cannot be split into {groups} groups", shape[axis]);
        return Err(RuleError::unsupported(reason));
    };
    shape.splice(axis..=axis, [groups.clone(), each]);
    cx.reshape(x, &shape)
}

/// Merges an axis with the next one.
fn merged(cx: &mut Context<'_>, x: ValueId, axis: usize) -> Result<ValueId> {
    let mut shape = cx.shape(x).to_vec();
    let size = shape[axis].clone() * shape[axis + 1].clone();
    shape.splice(axis..=axis + 1, [size]);
    cx.reshape(x, &shape)
}
