//! gather(x, indices) → Gather along one axis, GatherElements for take_along_axis, otherwise
//! GatherND over the indexed axes; equally spaced indices become a Slice

use jaxpr::Params;
use onnx::facts::Progression;
use onnx::{Assumption, Attrs, ValueId, attrs};
use tensor::{DType, DTypeKind, Dim, Tensor};

use super::indices::{self, Mode, Starts};
use super::slices::{self, Cut};
use crate::{Context, Result, RuleError};

const ZERO: Dim = Dim::Known(0);
const ONE: Dim = Dim::Known(1);

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    Ok(vec![with_fill(cx, x[0], x[1], fill)?])
}

/// Lowers like [`lower`], with `fill` as the value of windows that are out of bounds.
pub(crate) fn with_fill(
    cx: &mut Context<'_>,
    operand: ValueId,
    indices: ValueId,
    fill: fn(&mut Context<'_>, DType) -> Result<ValueId>,
) -> Result<ValueId> {
    let out = cx.out(0);
    if out.shape.contains(&ZERO) {
        return cx.full(out.dtype, 0.0, &out.shape);
    }
    let mut gather = Gather::read(cx, operand, indices)?;
    // If no value is NaN, no window is out of bounds, since it would be filled with NaN.
    if gather.mode == Mode::FillOrDrop && cx.assumes(Assumption::Finite) && fills_nan(cx)? {
        gather.mode = Mode::Inside;
    }
    if let Some(slice) = gather.slice(cx, operand, indices)? {
        return Ok(slice);
    }
    let (gather, indices) = gather.of_what_moves(cx, indices)?;
    let (gather, indices) = gather.in_batches(cx, operand, indices)?;
    let starts = Starts::new(cx, indices, &gather.limits, gather.mode)?;
    let value = gather.windows(cx, operand, starts.value)?;
    let Some(inside) = starts.inside else { return Ok(value) };
    let axes: Vec<i64> = gather.offset_dims.iter().map(|&i| i as i64).collect();
    let inside = cx.unsqueeze(inside, &axes)?;
    let fill = fill(cx, out.dtype)?;
    Ok(cx.op("Where", &[inside, value, fill], Attrs::new())?)
}

/// Returns the value of windows that are out of bounds; for complex numbers, its real part.
pub(crate) fn fill(cx: &mut Context<'_>, dtype: DType) -> Result<ValueId> {
    let none = || RuleError::unsupported(format!("fill values of type {dtype} are not supported"));
    let given: Option<Fill> = cx.param("fill_value")?;
    let tensor = match (given, dtype.int_range()) {
        (Some(Fill::Int(value)), Some(_)) => Tensor::int_scalar(dtype, value),
        #[expect(clippy::cast_precision_loss, reason = "JAX would convert it the same way")]
        (Some(Fill::Int(value)), None) => Tensor::scalar(dtype, value as f64),
        (Some(Fill::Float(value)), Some(_)) => Tensor::scalar(dtype, value.trunc()),
        (Some(Fill::Float(value) | Fill::Complex(value, _)), _) => Tensor::scalar(dtype, value),
        (None, Some((low, high))) => {
            let edge = if dtype.kind() == DTypeKind::Signed { low } else { high };
            Tensor::int_scalar(dtype, edge)
        }
        (None, None) if dtype == DType::Bool => Tensor::scalar(dtype, 1.0),
        (None, None) => Tensor::scalar(dtype, f64::NAN),
    };
    Ok(cx.constant(tensor.ok_or_else(none)?))
}

/// Returns `true` if windows that are out of bounds are filled with NaN.
fn fills_nan(cx: &Context<'_>) -> Result<bool> {
    let is_nan = match cx.param("fill_value")? {
        None => true,
        Some(Fill::Float(value) | Fill::Complex(value, _)) => value.is_nan(),
        Some(Fill::Int(_)) => false,
    };
    Ok(is_nan && cx.out(0).dtype.is_float())
}

/// Returns the imaginary part of the value of windows that are out of bounds.
pub(crate) fn fill_imaginary(cx: &mut Context<'_>, dtype: DType) -> Result<ValueId> {
    match cx.param("fill_value")? {
        Some(Fill::Complex(_, im)) => Ok(cx.scalar(dtype, im)?),
        _ => Ok(cx.scalar(dtype, 0.0)?),
    }
}

/// A number in JAX's parameters.
enum Fill {
    Int(i128),
    Float(f64),
    Complex(f64, f64),
}

impl jaxpr::FromParam for Fill {
    const EXPECTED: &'static str = "a number";

    fn from_param(param: &jaxpr::Param) -> Option<Self> {
        use jaxpr::Param;
        match param {
            Param::Bool(value) => Some(Fill::Int(i128::from(*value))),
            Param::Int(value) => Some(Fill::Int(i128::from(*value))),
            Param::Float(value) => Some(Fill::Float(*value)),
            Param::Tensor(value) if value.len() == 1 => {
                let first = |tensor: &Tensor| tensor.to_f64s()?.first().copied();
                match (value.to_ints(), value.parts()) {
                    (Some(ints), _) => ints.first().copied().map(Fill::Int),
                    (_, Some((re, im))) => Some(Fill::Complex(first(&re)?, first(&im)?)),
                    _ => first(value).map(Fill::Float),
                }
            }
            _ => None,
        }
    }
}

/// An axis of the result, which comes from the indices or from the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Index(usize),
    Operand(usize),
}

#[derive(Debug)]
struct Gather {
    offset_dims: Vec<usize>,
    collapsed: Vec<usize>,
    /// For each element of an index vector, the axis of the operand that it indexes.
    map: Vec<usize>,
    operand_batch: Vec<usize>,
    index_batch: Vec<usize>,
    /// The window's size along each axis of the operand.
    sizes: Vec<Dim>,
    /// For each element of an index vector, the last start that is in bounds.
    limits: Vec<Dim>,
    /// The rank of the indices without the axis of the vectors.
    index_rank: usize,
    mode: Mode,
}

impl Gather {
    fn read(cx: &Context<'_>, operand: ValueId, indices: ValueId) -> Result<Self> {
        let numbers: Params = cx.param("dimension_numbers")?;
        let sizes: Vec<Dim> = cx.param("slice_sizes")?;
        let map: Vec<usize> = numbers.get("start_index_map")?;
        let shape = cx.shape(operand);
        let limits = map.iter().map(|&axis| shape[axis].clone() - sizes[axis].clone()).collect();
        let collapsed: Vec<usize> = numbers.get("collapsed_slice_dims")?;
        // Indices that are promised to be in bounds are clamped anyway: XLA does so, and JAX before
        // 0.8 makes that promise for batches of dynamic slices, which may be out of bounds.
        let mode = Mode::read(cx, Mode::Clip)?;
        Ok(Self {
            offset_dims: numbers.get("offset_dims")?,
            collapsed,
            operand_batch: numbers.get("operand_batching_dims")?,
            index_batch: numbers.get("start_indices_batching_dims")?,
            map,
            sizes,
            limits,
            index_rank: cx.rank(indices) - 1,
            mode,
        })
    }

    /// Lowers windows at known, equally spaced positions to a `Slice`.
    fn slice(
        &self,
        cx: &mut Context<'_>,
        operand: ValueId,
        indices: ValueId,
    ) -> Result<Option<ValueId>> {
        let counts = cx.shape(indices)[..self.index_rank].to_vec();
        let stored = cx.facts().constant(indices).and_then(|known| self.stored(&known, &counts));
        let starts = stored.or_else(|| self.counted(cx, indices, &counts));
        let Some(starts) = starts else { return Ok(None) };

        let mut cuts: Vec<Cut> = self.sizes.iter().map(Cut::from_beginning).collect();
        for &axis in &self.operand_batch {
            cuts[axis] = Cut::from_beginning(&cx.shape(operand)[axis]);
        }
        let mut axes = self.operand_axes();
        let mut taken = self.index_batch.clone();
        for (&axis, Progression { first, steps }) in self.map.iter().zip(starts) {
            cuts[axis].first = first.clone();
            let moving: Vec<usize> = (0..steps.len()).filter(|&along| steps[along] != 0).collect();
            match *moving.as_slice() {
                [] => {}
                [along] if self.sizes[axis] == ONE && !taken.contains(&along) => {
                    cuts[axis] = Cut { first, count: counts[along].clone(), step: steps[along] };
                    axes[axis] = Axis::Index(along);
                    taken.push(along);
                }
                _ => return Ok(None),
            }
        }
        if (0..counts.len()).any(|along| counts[along] != ONE && !taken.contains(&along)) {
            return Ok(None);
        }
        let Some(windows) = slices::cut(cx, operand, &cuts)? else { return Ok(None) };
        Ok(Some(self.arrange(cx, windows, axes)?))
    }

    /// Returns the starts of windows at constant positions, for each element of the index vectors.
    fn stored(&self, starts: &Tensor, counts: &[Dim]) -> Option<Vec<Progression>> {
        let known = Dim::all_known;
        let (starts, limits, counts) = (starts.to_i64s()?, known(&self.limits)?, known(counts)?);
        let within = || starts.iter().zip(limits.iter().cycle());
        let outside = within().any(|(start, limit)| !(0..=*limit).contains(start));
        if self.mode == Mode::FillOrDrop && outside {
            return None;
        }
        let starts: Vec<i64> = within().map(|(start, limit)| (*start).clamp(0, *limit)).collect();
        let one = |place: usize| {
            let starts: Vec<i64> =
                starts.iter().skip(place).step_by(self.map.len()).copied().collect();
            let mut steps = vec![0; counts.len()];
            for (along, step) in indices::steps_of(&starts, &counts)? {
                steps[along] = step;
            }
            Some(Progression { first: Dim::Known(starts[0]), steps })
        };
        (0..self.map.len()).map(one).collect()
    }

    /// Returns the starts of windows whose positions are progressions, if all are provably in
    /// bounds.
    fn counted(
        &self,
        cx: &Context<'_>,
        indices: ValueId,
        counts: &[Dim],
    ) -> Option<Vec<Progression>> {
        let starts: Vec<Progression> =
            cx.facts().progressions(indices)?.into_iter().collect::<Option<_>>()?;
        let is_inside =
            |(start, limit): (&Progression, &Dim)| indices::is_within(start, counts, limit);
        let inside =
            starts.len() == self.map.len() && starts.iter().zip(&self.limits).all(is_inside);
        inside.then_some(starts)
    }

    /// Removes the elements of index vectors that have only one valid value, and returns the
    /// remaining indices. A window as large as its axis has a single position, and is clamped to
    /// it.
    fn of_what_moves(self, cx: &mut Context<'_>, indices: ValueId) -> Result<(Self, ValueId)> {
        let moving: Vec<usize> = (0..self.map.len()).filter(|&i| self.limits[i] != ZERO).collect();
        if self.mode != Mode::Clip || moving.is_empty() || moving.len() == self.map.len() {
            return Ok((self, indices));
        }
        self.of_elements(cx, indices, &moving)
    }

    /// Keeps only the elements `kept` of the index vectors, and returns the remaining indices.
    fn of_elements(
        mut self,
        cx: &mut Context<'_>,
        indices: ValueId,
        kept: &[usize],
    ) -> Result<(Self, ValueId)> {
        self.map = kept.iter().map(|&i| self.map[i]).collect();
        self.limits = kept.iter().map(|&i| self.limits[i].clone()).collect();
        Ok((self, elements_of(cx, indices, kept)?))
    }

    /// Turns elements of the index vectors into batch axes, if they count along an axis of the
    /// indices and through all of an axis of the operand, as in `x[jnp.arange(n), i]`.
    fn in_batches(
        mut self,
        cx: &mut Context<'_>,
        operand: ValueId,
        indices: ValueId,
    ) -> Result<(Self, ValueId)> {
        let Some(starts) = cx.facts().progressions(indices) else { return Ok((self, indices)) };
        let mut moving: Vec<usize> = (0..self.map.len()).collect();
        for (i, start) in starts.iter().enumerate() {
            let Some(Progression { first, steps }) = start else { continue };
            let counted: Vec<usize> = (0..steps.len()).filter(|&at| steps[at] != 0).collect();
            let [along] = counted[..] else { continue };
            let axis = self.map[i];
            let is_all = *first == ZERO
                && steps[along] == 1
                && cx.shape(indices)[along] == cx.shape(operand)[axis];
            let is_free = self.collapsed.contains(&axis) && !self.index_batch.contains(&along);
            if is_all && is_free && moving.len() > 1 {
                self.operand_batch.push(axis);
                self.index_batch.push(along);
                self.collapsed.retain(|&collapsed| collapsed != axis);
                moving.retain(|&place| place != i);
            }
        }
        if moving.len() == self.map.len() {
            return Ok((self, indices));
        }
        self.of_elements(cx, indices, &moving)
    }

    /// Gathers all windows; `starts` are in bounds.
    fn windows(&self, cx: &mut Context<'_>, operand: ValueId, starts: ValueId) -> Result<ValueId> {
        // Axes that are not indexed are read from their beginning.
        let mut sizes = cx.shape(operand).to_vec();
        for (axis, size) in self.sizes.iter().enumerate() {
            if !self.map.contains(&axis) && !self.operand_batch.contains(&axis) {
                sizes[axis] = size.clone();
            }
        }
        let operand = slices::first_of(cx, operand, &sizes)?;

        // A window as large as its axis has a single position, which needs no index.
        let mut moving: Vec<usize> =
            (0..self.map.len()).filter(|&i| self.limits[i] != ZERO).collect();
        moving.sort_by_key(|&i| self.map[i]);
        let (value, axes) = match moving.as_slice() {
            [] => (operand, self.operand_axes()),
            [only] if self.operand_batch.is_empty() => self.along(cx, operand, starts, *only)?,
            [only] if self.is_aligned(self.map[*only]) => {
                self.elements(cx, operand, starts, *only)?
            }
            _ => self.tuples(cx, operand, starts, &moving)?,
        };
        self.arrange(cx, value, axes)
    }

    /// Returns the axes of the operand itself.
    fn operand_axes(&self) -> Vec<Axis> {
        let name = |axis| match self.operand_batch.iter().position(|&batch| batch == axis) {
            Some(i) => Axis::Index(self.index_batch[i]),
            None => Axis::Operand(axis),
        };
        (0..self.sizes.len()).map(name).collect()
    }

    /// Gathers windows along one axis.
    fn along(
        &self,
        cx: &mut Context<'_>,
        operand: ValueId,
        starts: ValueId,
        place: usize,
    ) -> Result<(ValueId, Vec<Axis>)> {
        let axis = self.map[place];
        let mut at = elements_of(cx, starts, &[place])?;
        let mut axes: Vec<Axis> = (0..axis).map(Axis::Operand).collect();
        axes.extend((0..self.index_rank).map(Axis::Index));
        if self.collapsed.contains(&axis) {
            at = cx.squeeze(at, &[self.index_rank as i64])?;
        } else {
            axes.push(Axis::Operand(axis));
            if self.sizes[axis] != ONE {
                let offsets = indices::count(cx, &self.sizes[axis])?;
                at = cx.cast(at, DType::I64)?;
                at = cx.op("Add", &[at, offsets], Attrs::new())?;
            }
        }
        axes.extend((axis + 1..self.sizes.len()).map(Axis::Operand));
        Ok((cx.op("Gather", &[operand, at], attrs! { axis: axis as i64 })?, axes))
    }

    /// Returns `true` if the indices share all axes of the operand except `axis`.
    fn is_aligned(&self, axis: usize) -> bool {
        let rank = self.sizes.len();
        self.sizes[axis] == ONE
            && self.index_rank == rank
            && self.operand_batch.len() + 1 == rank
            && self.operand_batch == self.index_batch
    }

    /// Gathers one element for each index.
    fn elements(
        &self,
        cx: &mut Context<'_>,
        operand: ValueId,
        starts: ValueId,
        place: usize,
    ) -> Result<(ValueId, Vec<Axis>)> {
        let at = elements_of(cx, starts, &[place])?;
        let at = cx.squeeze(at, &[self.index_rank as i64])?;
        let axis = self.map[place] as i64;
        let value = cx.op("GatherElements", &[operand, at], attrs! { axis: axis })?;
        Ok((value, (0..self.index_rank).map(Axis::Index).collect()))
    }

    /// Gathers windows along several axes; `places` are the corresponding elements of the index
    /// vectors.
    fn tuples(
        &self,
        cx: &mut Context<'_>,
        operand: ValueId,
        starts: ValueId,
        places: &[usize],
    ) -> Result<(ValueId, Vec<Axis>)> {
        let indexed: Vec<usize> = places.iter().map(|&place| self.map[place]).collect();
        let rest: Vec<usize> = (0..self.sizes.len())
            .filter(|axis| !indexed.contains(axis) && !self.operand_batch.contains(axis))
            .collect();
        let operand =
            cx.transpose(operand, &[&self.operand_batch, indexed.as_slice(), &rest].concat())?;

        let mut axes = self.index_batch.clone();
        axes.extend((0..self.index_rank).filter(|axis| !self.index_batch.contains(axis)));
        let starts = cx.cast(starts, DType::I64)?;
        let at = elements_of(cx, starts, places)?;
        let at = cx.transpose(at, &[axes.as_slice(), &[self.index_rank]].concat())?;
        let mut axes: Vec<Axis> = axes.into_iter().map(Axis::Index).collect();

        let kept: Vec<usize> =
            (0..indexed.len()).filter(|&i| !self.collapsed.contains(&indexed[i])).collect();
        let sizes: Vec<Dim> = kept.iter().map(|&i| self.sizes[indexed[i]].clone()).collect();
        let at = indices::windows(cx, at, &sizes, &kept)?;
        axes.extend(kept.iter().map(|&i| Axis::Operand(indexed[i])));
        axes.extend(rest.into_iter().map(Axis::Operand));
        let attrs = match self.operand_batch.len() {
            0 => Attrs::new(),
            batch => attrs! { batch_dims: batch as i64 },
        };
        Ok((cx.op("GatherND", &[operand, at], attrs)?, axes))
    }

    /// Rearranges `value`, which has the given axes, to the axes of the result.
    fn arrange(
        &self,
        cx: &mut Context<'_>,
        value: ValueId,
        mut axes: Vec<Axis>,
    ) -> Result<ValueId> {
        let gone = |axis: &Axis| match axis {
            Axis::Operand(axis) => self.collapsed.contains(axis),
            Axis::Index(_) => false,
        };
        let squeezed: Vec<i64> =
            (0..axes.len()).filter(|&i| gone(&axes[i])).map(|i| i as i64).collect();
        let mut value = cx.squeeze(value, &squeezed)?;
        axes.retain(|axis| !gone(axis));

        let shape = &cx.out(0).shape;
        let mut from_indices = (0..self.index_rank).map(Axis::Index);
        let kept =
            |axis: &usize| !self.collapsed.contains(axis) && !self.operand_batch.contains(axis);
        let mut from_operand = (0..self.sizes.len()).filter(kept).map(Axis::Operand);
        let wanted: Option<Vec<Axis>> = (0..shape.len())
            .map(|i| match self.offset_dims.contains(&i) {
                true => from_operand.next(),
                false => from_indices.next(),
            })
            .collect();
        let wanted =
            wanted.ok_or_else(|| RuleError::Internal("more axes than there are".into()))?;
        let missing: Vec<Axis> =
            wanted.iter().copied().filter(|axis| !axes.contains(axis)).collect();
        let positions: Vec<i64> =
            (axes.len()..axes.len() + missing.len()).map(|i| i as i64).collect();
        value = cx.unsqueeze(value, &positions)?;
        axes.extend(&missing);
        let place = |axis: &Axis| axes.iter().position(|other| other == axis);
        let perm: Option<Vec<usize>> = wanted.iter().map(place).collect();
        let perm = perm.ok_or_else(|| RuleError::Internal("an axis is lost".to_owned()))?;
        value = cx.transpose(value, &perm)?;
        if missing.is_empty() { Ok(value) } else { cx.expand(value, shape) }
    }
}

/// Returns some elements of each index vector.
fn elements_of(cx: &mut Context<'_>, starts: ValueId, places: &[usize]) -> Result<ValueId> {
    let width = cx.shape(starts).last().and_then(Dim::as_known);
    if width == Some(places.len() as i64) && places.is_sorted() {
        return Ok(starts);
    }
    if let Some(parts) = cx.facts().parts_of_vectors(starts) {
        let parts: Vec<ValueId> = places.iter().map(|&place| parts[place]).collect();
        return match parts[..] {
            [one] => Ok(one),
            _ => Ok(cx.op("Concat", &parts, attrs! { axis: -1 })?),
        };
    }
    let places: Vec<i64> = places.iter().map(|&place| place as i64).collect();
    let places = cx.i64s(&places);
    Ok(cx.op("Gather", &[starts, places], attrs! { axis: -1 })?)
}
