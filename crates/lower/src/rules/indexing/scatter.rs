//! scatter, scatter-add, … (x, indices, updates) → ScatterND. Updates out of bounds write nothing:
//! they add the identity, or go to a position past the end of the operand that is cut off again. A
//! single number written to known positions of inner axes, as in `x.at[:, 0].set(0.)` → Where

use std::sync::Arc;

use jaxpr::{Atom, Jaxpr, JaxprId, Params};
use onnx::{Attrs, ValueId, attrs};
use tensor::{DType, DTypeKind, Dim, Tensor};

use super::indices::{self, Mode, Starts};
use crate::rules::Equation;
use crate::rules::movement::pad;
use crate::rules::reduction::monoid::Monoid;
use crate::rules::windows::window::inverse;
use crate::{Context, Parts, Result, RuleError};

/// The maximum number of positions in a stored mask.
const LARGEST_MASK: usize = 1 << 20;

const ZERO: Dim = Dim::Known(0);
const ONE: Dim = Dim::Known(1);

pub(crate) fn set(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let update: Option<JaxprId> = cx.param("update_jaxpr")?;
    if update.is_some_and(|update| !replaces(cx.jaxpr(update))) {
        return Err(RuleError::Internal("an update that was not expanded".to_owned()));
    }
    scatter(cx, x, None)
}

/// Returns `true` if a function of an element and its update returns the update.
fn replaces(update: &Jaxpr) -> bool {
    match (update.inputs.as_slice(), update.outputs.as_slice()) {
        ([_, new], [Atom::Var(result)]) => new == result,
        _ => false,
    }
}

/// Returns `true` if a function is applied to elements instead of replacing them, which JAX has to
/// expand.
pub(crate) fn applies_a_function(eqn: &Equation<'_>) -> bool {
    match eqn.params.get::<Option<JaxprId>>("update_jaxpr") {
        Ok(Some(update)) => !replaces(eqn.program.jaxpr(update)),
        _ => false,
    }
}

pub(crate) fn add(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    scatter(cx, x, Some(Monoid::Add))
}

pub(crate) fn sub(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let negative = match cx.dtype(x[2]).kind() {
        DTypeKind::Unsigned => {
            let zero = cx.scalar_like(x[2], 0.0)?;
            cx.op("Sub", &[zero, x[2]], Attrs::new())?
        }
        _ => cx.op("Neg", &[x[2]], Attrs::new())?,
    };
    scatter(cx, &[x[0], x[1], negative], Some(Monoid::Add))
}

pub(crate) fn mul(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    scatter(cx, x, Some(Monoid::Mul))
}

pub(crate) fn min(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    scatter(cx, x, Some(Monoid::Min))
}

pub(crate) fn max(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    scatter(cx, x, Some(Monoid::Max))
}

fn scatter(cx: &mut Context<'_>, x: &[ValueId], monoid: Option<Monoid>) -> Result {
    let [operand, indices, updates] = x else {
        return Err(RuleError::Internal("a scatter has three operands".to_owned()));
    };
    if cx.shape(*operand).contains(&ZERO) || cx.shape(*updates).contains(&ZERO) {
        return Ok(vec![*operand]);
    }
    let scatter = Scatter::read(cx, *operand, *indices, *updates)?;
    let mode = Mode::read(cx, Mode::FillOrDrop)?;
    if let Some(mask) = scatter.known_places(cx, *operand, *indices, mode, monoid)
        && let Some(number) = cx.repeated_number(*updates)?
        && !may_be_negative_zero(cx, number, monoid)
    {
        let mask = cx.constant(mask);
        let new = match monoid {
            Some(monoid) => monoid.combine(cx, Parts::Real(*operand), Parts::Real(number))?.re(),
            None => number,
        };
        return Ok(vec![cx.op("Where", &[mask, new, *operand], Attrs::new())?]);
    }
    let starts = Starts::new(cx, *indices, &scatter.limits, mode)?;
    let updates = scatter.arrange_updates(cx, *updates)?;
    let indexed = &scatter.indexed;
    if indexed.is_empty() && scatter.index_shape.iter().all(|size| *size == ONE) {
        return scatter.replace(cx, *operand, updates, starts.inside, monoid);
    }
    scatter.write(cx, *operand, updates, starts, monoid)
}

/// Returns `true` if the written number may be -0.0, which kernels of `Where` may turn into
/// 0.0.
fn may_be_negative_zero(cx: &Context<'_>, number: ValueId, monoid: Option<Monoid>) -> bool {
    if !cx.dtype(number).is_float() {
        return false;
    }
    let is_other = |number: f64| number != 0.0 || number.is_sign_positive();
    let is_known =
        cx.facts().constant(number).and_then(|known| known.splat()).is_some_and(is_other);
    !is_known || !matches!(monoid, None | Some(Monoid::Add))
}

#[derive(Debug)]
pub(crate) struct Scatter {
    /// The axes of the updates that are axes of the operand.
    window_dims: Vec<usize>,
    /// The axes of the operand that the updates lack.
    inserted: Vec<usize>,
    /// For each element of an index vector, the axis of the operand that it indexes.
    map: Vec<usize>,
    operand_batch: Vec<usize>,
    index_batch: Vec<usize>,
    /// The axes of the operand that windows do not fill. If there is a single window, or one per
    /// example of a batch, the axes before them as well.
    pub(crate) indexed: Vec<usize>,
    /// The window's size along each axis of the operand.
    sizes: Vec<Dim>,
    /// For each element of an index vector, the last start that is in bounds.
    pub(crate) limits: Vec<Dim>,
    /// The shape of the indices without the axis of the vectors.
    pub(crate) index_shape: Vec<Dim>,
}

impl Scatter {
    pub(crate) fn read(
        cx: &Context<'_>,
        operand: ValueId,
        vectors: ValueId,
        updates: ValueId,
    ) -> Result<Self> {
        let numbers: Params = cx.param("dimension_numbers")?;
        let window_dims: Vec<usize> = numbers.get("update_window_dims")?;
        let inserted: Vec<usize> = numbers.get("inserted_window_dims")?;
        let map: Vec<usize> = numbers.get("scatter_dims_to_operand_dims")?;
        let operand_batch: Vec<usize> = numbers.get("operand_batching_dims")?;
        let (shape, updates) = (cx.shape(operand), cx.shape(updates));
        let mut windows = window_dims.iter().map(|&axis| updates[axis].clone());
        let size = |axis: usize| {
            if inserted.contains(&axis) || operand_batch.contains(&axis) {
                return Ok(ONE);
            }
            windows.next().ok_or_else(|| RuleError::Internal("a window lacks an axis".to_owned()))
        };
        let sizes = (0..shape.len()).map(size).collect::<Result<Vec<Dim>>>()?;
        let partial = |axis: &usize| sizes[*axis] != shape[*axis] || operand_batch.contains(axis);
        let mut indexed: Vec<usize> = (0..shape.len()).filter(partial).collect();
        let index_shape = &cx.shape(vectors)[..cx.rank(vectors) - 1];
        let index_batch: Vec<usize> = numbers.get("scatter_indices_batching_dims")?;
        let is_single = index_shape
            .iter()
            .enumerate()
            .all(|(axis, size)| *size == ONE || index_batch.contains(&axis));
        if let Some(last) = indexed.last().map(|axis| axis + 1)
            && is_single
            && (indices::has_few(&sizes, last) || indices::stand_for_many(&sizes, last))
        {
            indexed = (0..last).collect();
        }
        Ok(Self {
            indexed,
            limits: map.iter().map(|&i| shape[i].clone() - sizes[i].clone()).collect(),
            index_batch,
            index_shape: index_shape.to_vec(),
            window_dims,
            inserted,
            map,
            operand_batch,
            sizes,
        })
    }

    /// Returns a mask of the positions along inner axes that are written to, if they are known and
    /// distinct. The mask has size one along axes that windows fill.
    fn known_places(
        &self,
        cx: &Context<'_>,
        operand: ValueId,
        indices: ValueId,
        mode: Mode,
        monoid: Option<Monoid>,
    ) -> Option<Tensor> {
        let known = |dims: Vec<Dim>| Dim::all_known(&dims);
        let shape = cx.shape(operand);
        let is_inner = |axis: &usize| self.sizes[*axis] != shape[*axis];
        let inner: Vec<usize> = (0..shape.len()).filter(is_inner).collect();
        // `ScatterND` writes whole slices along leading axes.
        if inner.iter().enumerate().all(|(i, axis)| i == *axis) || !self.operand_batch.is_empty() {
            return None;
        }
        let starts = cx.facts().constant(indices)?.to_i64s()?;
        let extents = known(inner.iter().map(|&axis| shape[axis].clone()).collect())?;
        let windows = known(inner.iter().map(|&axis| self.sizes[axis].clone()).collect())?;
        let limits = known(self.limits.clone())?;
        let size = extents.iter().try_fold(1, |size: i64, n| size.checked_mul(*n))?;
        let mut mask = vec![0_u8; usize::try_from(size).ok().filter(|size| *size <= LARGEST_MASK)?];
        let all = windows.iter().try_fold(1, |size: i64, n| size.checked_mul(*n))?;
        for vector in starts.chunks(self.map.len().max(1)) {
            let is_inside = |(start, limit): (&i64, &i64)| (0..=*limit).contains(start);
            if !vector.iter().zip(&limits).all(is_inside) {
                match mode {
                    Mode::FillOrDrop => continue,
                    Mode::Clip | Mode::Inside => return None,
                }
            }
            for mut offset in 0..all {
                let (mut place, mut stride) = (0, 1);
                for (i, axis) in inner.iter().enumerate().rev() {
                    let start = self.map.iter().position(|mapped| mapped == axis);
                    let start = start.map_or(0, |element| vector[element]);
                    place += stride * (start + offset % windows[i]);
                    offset /= windows[i];
                    stride *= extents[i];
                }
                let place = mask.get_mut(usize::try_from(place).ok()?)?;
                if *place != 0 && monoid.is_some() {
                    return None;
                }
                *place = 1;
            }
        }
        let of = |axis: usize| inner.iter().position(|i| *i == axis).map_or(1, |i| extents[i]);
        let sizes = (0..shape.len()).map(of).map(usize::try_from);
        let sizes = sizes.collect::<std::result::Result<Vec<_>, _>>().ok()?;
        Tensor::new(DType::Bool, &sizes, Arc::new(mask)).ok()
    }

    /// Returns `true` if the updates have the operand's `axis`.
    fn has_window(&self, axis: usize) -> bool {
        !self.inserted.contains(&axis) && !self.operand_batch.contains(&axis)
    }

    /// Returns the order of the operand's axes for `ScatterND`: indexed axes first.
    pub(crate) fn order(&self) -> Vec<usize> {
        let rest = (0..self.sizes.len()).filter(|axis| !self.indexed.contains(axis));
        self.indexed.iter().copied().chain(rest).collect()
    }

    /// Transposes the updates to (indices' axes…, windows along indexed axes…, other axes of the
    /// operand…).
    pub(crate) fn arrange_updates(
        &self,
        cx: &mut Context<'_>,
        updates: ValueId,
    ) -> Result<ValueId> {
        let windows: Vec<usize> = (0..self.sizes.len()).filter(|&i| self.has_window(i)).collect();
        let mut perm: Vec<usize> =
            (0..cx.rank(updates)).filter(|axis| !self.window_dims.contains(axis)).collect();
        let mut made_up = Vec::new();
        for axis in self.order() {
            match windows.iter().position(|&window| window == axis) {
                Some(i) => perm.push(self.window_dims[i]),
                None if !self.indexed.contains(&axis) => {
                    made_up.push((perm.len() + made_up.len()) as i64);
                }
                None => {}
            }
        }
        let updates = cx.transpose(updates, &perm)?;
        Ok(cx.unsqueeze(updates, &made_up)?)
    }

    /// Writes a single window that covers the operand.
    fn replace(
        &self,
        cx: &mut Context<'_>,
        operand: ValueId,
        updates: ValueId,
        inside: Option<ValueId>,
        monoid: Option<Monoid>,
    ) -> Result {
        let shape = cx.shape(operand).to_vec();
        let update = cx.reshape(updates, &shape)?;
        let result = match monoid {
            Some(monoid) => monoid.combine(cx, Parts::Real(operand), Parts::Real(update))?.re(),
            None => update,
        };
        let Some(inside) = inside else { return Ok(vec![result]) };
        let inside = cx.reshape(inside, &[])?;
        Ok(vec![cx.op("Where", &[inside, result, operand], Attrs::new())?])
    }

    fn write(
        &self,
        cx: &mut Context<'_>,
        operand: ValueId,
        updates: ValueId,
        starts: Starts,
        monoid: Option<Monoid>,
    ) -> Result {
        let order = self.order();
        let mut operand = cx.transpose(operand, &order)?;
        if self.indexed.is_empty() {
            operand = cx.unsqueeze(operand, &[0])?;
        }
        let first = cx.cast(starts.value, DType::I64)?;
        let mut first = self.columns(cx, first)?;
        let mut updates = updates;
        let extent = cx.shape(operand)[0].clone();
        let reach = self.indexed.first().map_or(ONE, |&axis| self.sizes[axis].clone());
        let single = self.index_shape.iter().all(|size| *size == ONE);
        let mut cut = false;
        match (starts.inside, monoid) {
            (None, _) => {}
            (Some(inside), Some(monoid)) => {
                let identity = monoid.identity(cx, cx.dtype(updates))?;
                updates = choose(cx, inside, updates, identity)?;
            }
            (Some(inside), None) if single => {
                let found = self.places(cx, first)?;
                let found = cx.op("GatherND", &[operand, found], Attrs::new())?;
                updates = choose(cx, inside, updates, found)?;
            }
            (Some(inside), None) => {
                let rank = cx.rank(operand);
                let mut high = vec![ZERO; rank];
                high[0] = reach;
                let zero = zero(cx, operand)?;
                operand = pad::edges(cx, operand, zero, &vec![ZERO; rank], &high)?;
                let mut behind = vec![ZERO; self.indexed.len().max(1)];
                behind[0] = extent.clone();
                let behind = cx.dims(&behind)?;
                first = choose(cx, inside, first, behind)?;
                cut = true;
            }
        }
        let at = self.places(cx, first)?;
        let attrs = match monoid {
            None => Attrs::new(),
            Some(Monoid::Add) => attrs! { reduction: "add" },
            Some(Monoid::Mul) => attrs! { reduction: "mul" },
            Some(Monoid::Max) => attrs! { reduction: "max" },
            Some(Monoid::Min) => attrs! { reduction: "min" },
        };
        let mut result = cx.op("ScatterND", &[operand, at, updates], attrs)?;
        if cut {
            result = cx.slice(result, &[0], &[ZERO], &[extent], &[1])?;
        }
        if self.indexed.is_empty() {
            result = cx.squeeze(result, &[0])?;
        }
        Ok(vec![cx.transpose(result, &inverse(&order))?])
    }

    /// Returns the starts of windows for each indexed axis of the operand: an element of the index
    /// vectors, the position in a batch axis, or zero.
    pub(crate) fn columns(&self, cx: &mut Context<'_>, starts: ValueId) -> Result<ValueId> {
        if !self.indexed.is_empty() && self.indexed == self.map {
            return Ok(starts);
        }
        let whole = [self.index_shape.as_slice(), &[ONE]].concat();
        let mut columns = Vec::with_capacity(self.indexed.len());
        for &axis in &self.indexed {
            let column = if let Some(i) = self.map.iter().position(|&a| a == axis) {
                let place = cx.i64s(&[i as i64]);
                cx.op("Gather", &[starts, place], attrs! { axis: -1 })?
            } else if let Some(i) = self.operand_batch.iter().position(|&a| a == axis) {
                let batch = self.index_batch[i];
                let positions = indices::count(cx, &self.index_shape[batch])?;
                let mut shape = vec![ONE; whole.len() - batch];
                shape[0] = self.index_shape[batch].clone();
                let positions = cx.reshape(positions, &shape)?;
                cx.expand(positions, &whole)?
            } else {
                cx.full(DType::I64, 0.0, &whole)?
            };
            columns.push(column);
        }
        match columns.as_slice() {
            [] => cx.full(DType::I64, 0.0, &whole),
            [one] => Ok(*one),
            many => Ok(cx.op("Concat", many, attrs! { axis: -1 })?),
        }
    }

    /// Returns the index vectors of all elements of all windows.
    pub(crate) fn places(&self, cx: &mut Context<'_>, first: ValueId) -> Result<ValueId> {
        let moving: Vec<usize> =
            (0..self.indexed.len()).filter(|&i| self.has_window(self.indexed[i])).collect();
        let sizes: Vec<Dim> = moving.iter().map(|&i| self.sizes[self.indexed[i]].clone()).collect();
        indices::windows(cx, first, &sizes, &moving)
    }
}

/// Selects `value` where a mask of the leading axes holds, and `other` elsewhere.
#[track_caller]
pub(crate) fn choose(
    cx: &mut Context<'_>,
    inside: ValueId,
    value: ValueId,
    other: ValueId,
) -> Result<ValueId> {
    let axes: Vec<i64> = (cx.rank(inside)..cx.rank(value)).map(|axis| axis as i64).collect();
    let inside = cx.unsqueeze(inside, &axes)?;
    Ok(cx.op("Where", &[inside, value, other], Attrs::new())?)
}

/// Returns a zero of any element type that can be padded with.
fn zero(cx: &mut Context<'_>, like: ValueId) -> Result<ValueId> {
    let dtype = cx.dtype(like);
    let tensor = Tensor::scalar(dtype, 0.0);
    let tensor = tensor
        .ok_or_else(|| RuleError::unsupported(format!("scatters of {dtype} are not supported")))?;
    Ok(cx.constant(tensor))
}
