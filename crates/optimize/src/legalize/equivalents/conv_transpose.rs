//! `ConvTranspose` in double precision: a `Conv` of the input with zeros between its elements.

use onnx::{Attrs, Builder, Node, Result, ValueId, attrs};

use super::windows::{channels, list, spatial};
use super::{Lack, Results, operand, reshape};

pub(super) fn by_conv(b: &mut Builder<'_>, node: &Node) -> Results {
    if node.attr("auto_pad").is_some() || node.attr("output_shape").is_some() {
        return Err(Lack::Because("its padding is not explicit"));
    }
    let (mut x, w) = (operand(node, 0)?, operand(node, 1)?);
    let kernel = spatial(b, node, 1)?;
    let rank = kernel.len();
    let (strides, dilations) = (list(node, "strides", 1, rank), list(node, "dilations", 1, rank));
    let (pads, extra) = (list(node, "pads", 0, 2 * rank), list(node, "output_padding", 0, rank));

    for (i, &stride) in strides.iter().enumerate() {
        if stride > 1 {
            x = spread(b, x, i + 2, stride)?;
        }
    }
    // Padded so that the first and the last position of the kernel just overlap the input.
    let reach = |i: usize| (kernel[i] - 1) * dilations[i];
    let before: Vec<i64> = (0..rank).map(|i| reach(i) - pads[i]).collect();
    let after: Vec<i64> = (0..rank).map(|i| reach(i) - pads[rank + i] + extra[i]).collect();
    let amounts = [&[0, 0], before.as_slice(), &[0, 0], &after].concat();
    let amounts = b.i64s(&amounts);
    x = b.op("Pad", &[x, amounts], Attrs::new())?;

    let groups = node.int("group", 1);
    let w = reverse(b, w, rank)?;
    let w = swap_channels(b, w, &kernel, groups)?;
    let attrs = attrs! { dilations: dilations, group: groups };
    let inputs: Vec<ValueId> = [x, w].into_iter().chain(node.input(2)).collect();
    Ok(vec![b.op("Conv", &inputs, attrs)?])
}

/// Inserts zeros between the elements of `x` along `axis`, so that they are `stride` apart.
#[track_caller]
fn spread(b: &mut Builder<'_>, x: ValueId, axis: usize, stride: i64) -> Result<ValueId> {
    let rank = b.rank(x);
    // As the last axis, it can absorb the zeros without knowledge of the other sizes.
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(axis, rank - 1);
    let x = b.transpose(x, &perm)?;
    let x = b.unsqueeze(x, &[rank as i64])?;
    let mut pads = vec![0; 2 * (rank + 1)];
    pads[2 * rank + 1] = stride - 1;
    let pads = b.i64s(&pads);
    let x = b.op("Pad", &[x, pads], Attrs::new())?;
    let mut shape = vec![0; rank];
    shape[rank - 1] = -1;
    let x = reshape(b, x, &shape)?;
    let (start, end, axes) = (b.i64s(&[0]), b.i64s(&[1 - stride]), b.i64s(&[rank as i64 - 1]));
    let x = b.op("Slice", &[x, start, end, axes], Attrs::new())?;
    b.transpose(x, &perm)
}

/// Reverses the spatial axes of a kernel.
#[track_caller]
fn reverse(b: &mut Builder<'_>, w: ValueId, rank: usize) -> Result<ValueId> {
    let axes: Vec<i64> = (2..2 + rank as i64).collect();
    let [starts, ends, steps] = [-1, i64::MIN, -1].map(|value| b.i64s(&vec![value; rank]));
    let axes = b.i64s(&axes);
    b.op("Slice", &[w, starts, ends, axes, steps], Attrs::new())
}

/// Rearranges a kernel from (input channels, output channels of a group, …) to (output channels,
/// input channels of a group, …).
#[track_caller]
fn swap_channels(
    b: &mut Builder<'_>,
    w: ValueId,
    kernel: &[i64],
    groups: i64,
) -> std::result::Result<ValueId, Lack> {
    let [inputs, outputs] = channels(b, w)?;
    let inputs = inputs / groups;
    let apart = [&[groups, inputs, outputs], kernel].concat();
    let mut perm: Vec<usize> = (0..apart.len()).collect();
    perm.swap(1, 2);
    let merged = [&[groups * outputs, inputs], kernel].concat();
    let w = reshape(b, w, &apart)?;
    let w = b.transpose(w, &perm)?;
    Ok(reshape(b, w, &merged)?)
}
