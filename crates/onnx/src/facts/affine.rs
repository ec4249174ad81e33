//! Affine forms of integers: a number, plus a step for each index along an axis, plus a computed value.
//!
//! Iotas, the positions that `x[::2]` takes and the index vectors of a `ScatterND` have such forms, whatever the sizes
//! of their axes are.

mod form;

use tensor::{DType, Dim, Tensor, bounds};

use super::Facts;
use crate::fold::axis;
use crate::{Node, ValueId, reversal};

pub(super) use self::form::Terms;
use self::form::product;
pub use self::form::{Affine, Base, Progression};

pub(super) const ONE: Dim = Dim::Known(1);

/// The largest number of elements of index vectors, which have one for each axis at most.
const LONGEST: usize = 64;

/// The elements of a value at one index along an axis, or all elements.
type Selection = Option<(usize, usize)>;

/// A question about an affine form.
pub(super) type Key = (ValueId, Selection, Terms);

impl Facts<'_> {
    /// Returns the integers in `value` as a progression.
    pub fn progression(&self, value: ValueId) -> Option<Progression> {
        Some(self.affine(value, None, Terms::Known)?.progression)
    }

    /// Does the same as [`Facts::progression`], for a batch without padding.
    pub fn unpadded_progression(&self, value: ValueId) -> Option<Progression> {
        Some(self.affine(value, None, Terms::Unpadded)?.progression)
    }

    /// Returns `true` if `value` is a vector of the integers below `size`, in order, or of these integers as floats.
    pub fn is_iota(&self, value: ValueId, size: &Dim) -> bool {
        let cast = || self.node(value).filter(|node| node.is("Cast"))?.input(0);
        let is_float = self.graph.ty(value).dtype.is_float();
        let integers = if is_float { cast() } else { Some(value) };
        let iota = Progression { first: Dim::Known(0), steps: vec![1] };
        *self.shape(value) == [size.clone()]
            && integers.and_then(|integers| self.progression(integers)).is_some_and(|p| p == iota)
    }

    /// Returns a progression over the other axes for each index along the last axis of `value`, or `None` if the
    /// integers at this index are not evenly spaced.
    pub fn progressions(&self, value: ValueId) -> Option<Vec<Option<Progression>>> {
        let last = self.shape(value).len().checked_sub(1)?;
        let count = usize::try_from(self.shape(value)[last].as_known()?).ok()?;
        if count > LONGEST {
            return None;
        }
        let element = |index: usize| {
            let mut found = self.affine(value, Some((last, index)), Terms::Known)?.progression;
            found.steps.truncate(last);
            Some(found)
        };
        Some((0..count).map(element).collect())
    }

    /// Returns the form of the integers at `index` along the last axis of `indices`, with steps of one.
    pub fn index_form(&self, indices: ValueId, index: usize) -> Option<Affine> {
        let last = self.shape(indices).len().checked_sub(1)?;
        self.affine(indices, Some((last, index)), Terms::Computed)
    }

    /// Returns the operands of `value` if it concatenates vectors of one element along the last axis.
    pub fn parts_of_vectors(&self, value: ValueId) -> Option<Vec<ValueId>> {
        let node = self.graph.node(self.graph.producer(value)?);
        let rank = self.shape(value).len();
        let joins =
            node.is("Concat") && axis(node.int("axis", 0), rank).is_ok_and(|axis| axis + 1 == rank);
        let parts: Option<Vec<ValueId>> = node.inputs.iter().copied().collect();
        let is_single = |part: &ValueId| self.shape(*part).last() == Some(&ONE);
        parts.filter(|parts| joins && parts.iter().all(is_single))
    }

    pub(super) fn affine(
        &self,
        value: ValueId,
        selection: Selection,
        terms: Terms,
    ) -> Option<Affine> {
        let (shape, dtype) = (self.shape(value), self.graph.ty(value).dtype);
        if !dtype.is_integer() {
            return None;
        }
        let selection = selection.filter(|(axis, _)| shape.get(*axis) != Some(&ONE));
        self.answer(
            |answers| &mut answers.affine_forms,
            &(value, selection, terms),
            || {
                if let Some(tensor) = self.stored(value) {
                    return stored(tensor, selection).filter(|form| form.has_only(terms));
                }
                let is_allowed = |form: &Affine| form.has_only(terms);
                let form = self.find_affine(value, selection, terms).filter(is_allowed);
                form.or_else(|| Affine::computed(value, shape, selection).filter(is_allowed))
            },
        )?
    }

    fn find_affine(&self, value: ValueId, selection: Selection, terms: Terms) -> Option<Affine> {
        let (shape, dtype) = (self.shape(value), self.graph.ty(value).dtype);
        let rank = shape.len();
        let is_known = matches!(terms, Terms::Known | Terms::Unpadded);
        if is_known && !counts_sizes(dtype) {
            return None;
        }
        if terms == Terms::Unpadded && self.graph.mask_of_padding() == Some(value) {
            return Some(Affine::number(ONE, rank));
        }
        if is_known && let Some([first]) = self.graph.content(value).as_deref() {
            return Some(Affine::number(first.clone(), rank));
        }
        let node = self.node(value)?;
        // Operands of fewer axes are aligned with the last ones.
        let operand = |index: usize| {
            let x = node.input(index)?;
            let added = rank.checked_sub(self.shape(x).len())?;
            let inner = |(axis, index): (usize, usize)| Some((axis.checked_sub(added)?, index));
            self.affine(x, selection.and_then(inner), terms)?.with_rank(rank)
        };
        let mut form = match node.op.name {
            "Add" if counts_sizes(dtype) => operand(0)?.plus(operand(1)?),
            "Sub" if counts_sizes(dtype) => operand(0)?.plus(operand(1)?.times(-1)?),
            "Mul" if counts_sizes(dtype) => {
                let (a, b) = (operand(0)?, operand(1)?);
                match (a.as_number(), b.as_number()) {
                    (_, Some(factor)) => a.times(factor),
                    (Some(factor), _) => b.times(factor),
                    _ => None,
                }
            }
            "Cast" => operand(0).filter(|form| self.keeps_integers(node, dtype, form)),
            "Expand" | "Identity" => operand(0),
            "ReduceSum" if terms == Terms::Unpadded => {
                let each = self.affine(node.input(0)?, None, terms)?.as_number()?;
                Some(Affine::number(product(self.terms_of_sums(node)?, each)?, rank))
            }
            "Concat" => self.concatenated(node, selection?, rank, terms),
            "Gather" if selection.is_none() => {
                self.gathered(node, terms).or_else(|| self.taken(node, terms))
            }
            "Max" | "Min" if node.inputs.len() == 2 => {
                let (a, b) = (operand(0)?.as_size()?, operand(1)?.as_size()?);
                let pick = if node.is("Max") { bounds::max } else { bounds::min };
                let one = Some(pick(&a, &b)).filter(|one| *one == a || *one == b)?;
                Some(Affine::number(one, rank))
            }
            "Mod" => {
                let modulo = self.modulo(node);
                let moves = |form: &Affine| form.progression.steps.iter().any(|step| *step != 0);
                let form = operand(0).filter(|form| form.modulo.is_none() && moves(form))?;
                Some(Affine { modulo: Some(modulo?), ..form })
            }
            "Range" => {
                let (first, step) = (self.size(node.input(0)?)?, self.size(node.input(2)?)?);
                let step = step.as_known()?;
                Some(match selection {
                    None => Affine::of(Progression { first, steps: vec![step] }),
                    Some((_, index)) => Affine::number(first + product(Dim::from(index), step)?, 1),
                })
            }
            "Slice" => self.reversed(node, operand(0)?, selection, shape),
            // Indices that may count from the end, but do not.
            "Where" => match self.truth(node.input(0)?)? {
                true => operand(1),
                false => operand(2),
            },
            _ if node.is_reshape() => {
                let from = node.input(0)?;
                let axes = kept_axes(self.shape(from), shape)?;
                let inner = match selection {
                    None => None,
                    Some((axis, index)) => Some((axes[axis]?, index)),
                };
                Some(self.affine(from, inner, terms)?.moved(&axes))
            }
            _ => None,
        }?;
        for (step, size) in form.progression.steps.iter_mut().zip(shape) {
            if *size == ONE {
                *step = 0;
            }
        }
        // A number that the type does not hold has wrapped around.
        let (low, high) = dtype.int_range()?;
        let holds = |first: i64| (low..=high).contains(&i128::from(first));
        form.progression.first.as_known().is_none_or(holds).then_some(form)
    }

    /// Returns `true` if a `Cast` to `dtype` keeps integers of this form.
    fn keeps_integers(&self, cast: &Node, dtype: DType, form: &Affine) -> bool {
        let Some(from) = cast.input(0) else { return false };
        let ranges = self.graph.ty(from).dtype.int_range().zip(dtype.int_range());
        let is_wider = ranges.is_some_and(|(from, to)| to.0 <= from.0 && from.1 <= to.1);
        // Sizes and counters of them are far from the limits of these types.
        let counts =
            form.base.is_none() && counts_sizes(self.graph.ty(from).dtype) && counts_sizes(dtype);
        is_wider || counts || self.interval(from).fits(dtype)
    }

    /// Returns the form of one element of concatenated vectors.
    fn concatenated(
        &self,
        node: &Node,
        (along, index): (usize, usize),
        rank: usize,
        terms: Terms,
    ) -> Option<Affine> {
        if axis(node.int("axis", 0), rank).ok()? != along {
            return None;
        }
        let mut before = 0;
        for part in node.inputs.iter().copied().flatten() {
            let size = usize::try_from(self.shape(part).get(along)?.as_known()?).ok()?;
            if index < before + size {
                return self.affine(part, Some((along, index - before)), terms);
            }
            before += size;
        }
        None
    }

    /// Returns the form of one element of vectors.
    fn gathered(&self, node: &Node, terms: Terms) -> Option<Affine> {
        let (vectors, index) = (node.input(0)?, self.stored(node.input(1)?)?);
        let rank = self.shape(vectors).len();
        let last = axis(node.int("axis", 0), rank).ok().filter(|axis| axis + 1 == rank)?;
        let (&[index], &[_]) = (index.to_i64s()?.as_slice(), index.shape()) else { return None };
        self.affine(vectors, Some((last, usize::try_from(index).ok()?)), terms)
    }

    /// Returns the form of the elements at one known index along an axis.
    fn taken(&self, node: &Node, terms: Terms) -> Option<Affine> {
        let (x, index) = (node.input(0)?, self.stored(node.input(1)?)?);
        let along = axis(node.int("axis", 0), self.shape(x).len()).ok()?;
        let &[at] = index.to_i64s()?.as_slice() else { return None };
        let mut form = self.affine(x, None, terms)?;
        let has_axis = |base: &Base| base.axes.contains(&Some(along));
        if at < 0 || form.modulo.is_some() || form.base.as_ref().is_some_and(has_axis) {
            return None;
        }
        let Progression { first, steps } = &mut form.progression;
        *first = first.clone() + product(Dim::Known(at), steps[along])?;
        steps[along] = 0;
        let rank = steps.len();
        let kept = (0..rank).filter(|old| *old != along || !index.shape().is_empty());
        let kept: Vec<_> = kept.map(Some).collect();
        Some(form.moved(&kept))
    }

    /// Returns the divisor of a `Mod`, if it is a positive constant and remainders have its sign.
    fn modulo(&self, node: &Node) -> Option<i64> {
        let by = self.stored(node.input(1)?)?.to_i64s()?;
        let (&[by], 0) = (by.as_slice(), node.int("fmod", 0)) else { return None };
        (by > 0).then_some(by)
    }

    /// Returns the form of the result of a `Slice` that reverses whole axes.
    fn reversed(
        &self,
        node: &Node,
        form: Affine,
        selection: Selection,
        shape: &[Dim],
    ) -> Option<Affine> {
        let (_, axes) = reversal(self.graph, node)?;
        if selection.is_some() || form.base.is_some() || form.modulo.is_some() {
            return None;
        }
        let Progression { mut first, mut steps } = form.progression;
        for along in axes {
            first = first + product(shape[along].clone() - ONE, steps[along])?;
            steps[along] = steps[along].checked_neg()?;
        }
        Some(Affine::of(Progression { first, steps }))
    }
}

/// Returns `true` if sizes are counted in `dtype`, so that they are far from its limits.
fn counts_sizes(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// Returns the form of the selected elements of a constant.
fn stored(tensor: &Tensor, selection: Selection) -> Option<Affine> {
    let (numbers, shape) = (tensor.to_i64s()?, tensor.shape());
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    let start = selection.map_or(0, |(axis, index)| index * strides[axis]);
    let first = *numbers.get(start)?;
    let mut steps = vec![0; shape.len()];
    let mut expected = vec![(start, first)];
    for axis in 0..shape.len() {
        if shape[axis] == 1 || selection.is_some_and(|(selected, _)| selected == axis) {
            continue;
        }
        let (stride, step) =
            (strides[axis], numbers.get(start + strides[axis])?.checked_sub(first)?);
        steps[axis] = step;
        // Every number has to follow from the first steps.
        let mut all = Vec::with_capacity(expected.len() * shape[axis]);
        for (at, number) in expected {
            for i in 0..shape[axis] {
                let next = number.checked_add(step.checked_mul(i64::try_from(i).ok()?)?)?;
                if numbers.get(at + i * stride) != Some(&next) {
                    return None;
                }
                all.push((at + i * stride, next));
            }
        }
        expected = all;
    }
    Some(Affine::of(Progression { first: Dim::Known(first), steps }))
}

/// Returns the axis of `from` for each axis of `to`, if the shapes differ only in axes of size one. These have none.
pub(super) fn kept_axes(from: &[Dim], to: &[Dim]) -> Option<Vec<Option<usize>>> {
    let mut rest = from.iter().enumerate().filter(|(_, size)| **size != ONE);
    let kept = |size: &Dim| match *size == ONE {
        true => Some(None),
        false => rest.next().filter(|(_, other)| *other == size).map(|(axis, _)| Some(axis)),
    };
    let axes = to.iter().map(kept).collect::<Option<Vec<_>>>()?;
    rest.next().is_none().then_some(axes)
}

#[cfg(test)]
mod tests {
    use provenance::Origins;

    use super::*;
    use crate::text::parse;
    use crate::{Assumption, Graph};

    /// Returns the progressions of the first result of a graph, if there is one at each index.
    fn first(text: &str) -> Option<Vec<(String, Vec<i64>)>> {
        each(text).into_iter().collect()
    }

    fn each(text: &str) -> Vec<Option<(String, Vec<i64>)>> {
        let graph = parse(text, &mut Origins::default()).unwrap();
        let found = graph.facts().progressions(graph.block(Graph::MAIN).outputs()[0]).unwrap();
        let shown = |one: Progression| (one.first.to_string(), one.steps);
        found.into_iter().map(|one| one.map(shown)).collect()
    }

    const COUNTED: &str = "zero = Constant <value_int = 0> () one = Constant <value_int = 1> ()
        two = Constant <value_int = 2> () minus = Constant <value_ints = [-1]> ()
        all = Constant <value_ints = [-9223372036854775808]> () front = Constant <value_ints = [0]> ()
        axis = Constant <value_ints = [1]> ()
        size = Shape <start = 0, end = 1> (x) count = Squeeze (size, front) range = Range (zero, count, one)";

    #[test]
    fn progressions_are_found() {
        let text = format!(
            "g (float[L,4] x) => (int32[L,1] y) {{ {COUNTED}
                m = Mul (two, range) c = Cast <to = 6> (m) y = Unsqueeze (c, axis) }}"
        );
        assert_eq!(first(&text), Some(vec![("0".to_owned(), vec![2])]));
        let text = format!(
            "g (float[L,4] x) => (int64[L,1] y) {{ {COUNTED}
                last = Sub (count, one) m = Mul (range, two) d = Sub (last, m)
                r = Slice (d, minus, all, front, minus) y = Unsqueeze (r, axis) }}"
        );
        assert_eq!(first(&text), Some(vec![("-L + 1".to_owned(), vec![2])]));
    }

    #[test]
    fn computed_numbers_are_not_reversed() {
        let reversed = |element: &str| {
            let text = format!(
                "g (float[L,4] x, int64 n) => (int64[L,1] y) {{ {COUNTED} seven = Constant <value_int = 7> ()
                    d = {element} r = Slice (d, minus, all, front, minus) y = Unsqueeze (r, axis) }}"
            );
            first(&text)
        };
        assert_eq!(reversed("Add (range, seven)"), Some(vec![("L + 6".to_owned(), vec![-1])]));
        assert_eq!(reversed("Add (range, n)"), None);
        assert_eq!(reversed("Mod (range, seven)"), None);
    }

    #[test]
    fn reversals_are_computed_terms() {
        for element in ["Add (range, n)", "Mod (range, seven)", "Neg (range)"] {
            let text = format!(
                "g (float[L,4] x, int64 n) => (int64[L,1] y) {{ {COUNTED} seven = Constant <value_int = 7> ()
                    d = {element} r = Slice (d, minus, all, front, minus) y = Unsqueeze (r, axis) }}"
            );
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let y = graph.block(Graph::MAIN).outputs()[0];
            let reversed = graph.node(graph.producer(y).unwrap()).input(0).unwrap();
            let base = Some(Base { value: reversed, axes: vec![Some(0)] });
            let progression = Progression { first: Dim::Known(0), steps: vec![0, 0] };
            let expected = Affine { progression, base, modulo: None };
            assert_eq!(graph.facts().index_form(y, 0), Some(expected), "{element}");
        }
    }

    #[test]
    fn extremes_of_two_sizes_are_sizes() {
        let of = |operands: &str| {
            let text = format!(
                "g (float[L,4] x) => (int64[1] y) {{ {COUNTED} low = Constant <value_int = -7> ()
                    m = Max ({operands}) y = Unsqueeze (m, front) }}"
            );
            each(&text)
        };
        assert_eq!(of("count, low"), [Some(("L".to_owned(), vec![]))]);
        assert_eq!(of("low, count"), [Some(("L".to_owned(), vec![]))]);
        assert_eq!(of("low, low, count"), [None]);
        let unordered = "g (float[L,K] x) => (int32[1] y) {
            front = Constant <value_ints = [0]> () s = Shape <start = 0, end = 1> (x) a = Squeeze (s, front)
            t = Shape <start = 1, end = 2> (x) b = Squeeze (t, front) c = Cast <to = 6> (a)
            d = Cast <to = 6> (b) m = Max (c, d) y = Unsqueeze (m, front) }";
        assert_eq!(each(unordered), [None]);
    }

    /// Returns the index form of the result of `nodes`, an index vector of one element: the name of its base, its
    /// first number, its steps and its divisor.
    fn form(ty: &str, nodes: &str) -> (Option<String>, i64, Vec<i64>, Option<i64>) {
        let text = format!(
            "g (float[L,4] x, int64[L] i, int8[L] small, {ty}[L] z, int64[L,K] table) => ({ty}[L,1] y) {{ {COUNTED}
                zero8 = Constant <value = int8 {{0}}> () one8 = Constant <value = int8 {{1}}> ()
                three = Constant <value_int = 3> () seven = Constant <value_int = 7> ()
                {nodes} y = Unsqueeze (r, axis) }}"
        );
        let graph = parse(&text, &mut Origins::default()).unwrap();
        let found = graph.facts().index_form(graph.block(Graph::MAIN).outputs()[0], 0).unwrap();
        let Progression { first, steps } = found.progression;
        let base = found.base.map(|base| graph.value(base.value).name.clone());
        (base, first.as_known().unwrap(), steps, found.modulo)
    }

    #[test]
    fn other_arithmetic_is_a_computed_term() {
        let base = |name: &str| Some(name.to_owned());
        for (ty, nodes, expected) in [
            ("int64", "r = Add (i, three)", (base("i"), 3, vec![0, 0], None)),
            ("int64", "a = Add (i, range) r = Sub (a, three)", (base("i"), -3, vec![1, 0], None)),
            ("int64", "r = Mul (i, one)", (base("i"), 0, vec![0, 0], None)),
            ("int64", "r = Mul (i, three)", (base("r"), 0, vec![0, 0], None)),
            ("int64", "r = Mod (range, seven)", (None, 0, vec![1, 0], Some(7))),
            ("int64", "r = Mod (range, zero)", (base("r"), 0, vec![0, 0], None)),
            ("int64", "m = Mod (range, seven) r = Add (m, one)", (base("r"), 0, vec![0, 0], None)),
            ("int64", "m = Mod (range, seven) r = Add (one, m)", (base("r"), 0, vec![0, 0], None)),
            (
                "int64",
                "m = Mod (range, seven) r = Mul (m, three)",
                (base("r"), 0, vec![0, 0], None),
            ),
            ("int64", "r = Gather <axis = 1> (table, three)", (base("r"), 0, vec![0, 0], None)),
            // Integers of 8 bits wrap around.
            ("int8", "r = Sub (small, one8)", (base("r"), 0, vec![0, 0], None)),
            ("int8", "r = Mul (small, one8)", (base("r"), 0, vec![0, 0], None)),
        ] {
            assert_eq!(form(ty, nodes), expected, "{nodes}");
        }
    }

    #[test]
    fn casts_to_types_that_hold_all_numbers_are_followed() {
        let codes = [
            ("uint8", 2),
            ("int8", 3),
            ("uint16", 4),
            ("int16", 5),
            ("int32", 6),
            ("int64", 7),
            ("uint32", 12),
            ("uint64", 13),
        ];
        for (from, to, is_followed) in [
            ("int32", "int64", true),
            ("int32", "int32", true),
            ("uint8", "int32", true),
            ("uint8", "uint16", true),
            ("int64", "int32", false),
            ("int8", "uint8", false),
            ("int8", "uint16", false),
            ("uint32", "int32", false),
            ("uint64", "int64", false),
            ("int64", "uint64", false),
        ] {
            let code = codes.iter().find(|(name, _)| *name == to).unwrap().1;
            let text =
                format!("g ({from}[L,1] x) => ({to}[L,1] y) {{ y = Cast <to = {code}> (x) }}");
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let y = graph.block(Graph::MAIN).outputs()[0];
            let base = graph.facts().index_form(y, 0).unwrap().base.unwrap();
            assert_eq!(graph.value(base.value).name, if is_followed { "x" } else { "y" }, "{text}");
        }
        let clipped = "c = Clip (i, zero, three) r = Cast <to = 6> (c)";
        assert_eq!(form("int32", clipped).0.as_deref(), Some("c"));
        let counted = "r = Cast <to = 6> (range)";
        assert_eq!(form("int32", counted), (None, 0, vec![1, 0], None));
    }

    /// `m[i, j]` is `i + 5 * j`.
    fn taken(ty: &str, node: &str) -> Option<(String, Vec<i64>)> {
        let text = format!(
            "g (float[L,4] x) => ({ty} y) {{ {COUNTED}
                column = Unsqueeze (range, axis) row = Constant <value = int64[1,2] {{0, 5}}> ()
                m = Add (column, row) three = Constant <value_int = 3> () threes = Constant <value_ints = [3]> ()
                last = Constant <value_int = -1> () y = {node} }}"
        );
        let graph = parse(&text, &mut Origins::default()).unwrap();
        let found = graph.facts().progression(graph.block(Graph::MAIN).outputs()[0])?;
        Some((found.first.to_string(), found.steps))
    }

    #[test]
    fn one_index_of_an_axis_is_taken() {
        let found = |first: &str, steps: &[i64]| Some((first.to_owned(), steps.to_vec()));
        assert_eq!(taken("int64[2]", "Gather <axis = 0> (m, three)"), found("3", &[5]));
        assert_eq!(taken("int64[2]", "Gather <axis = 0> (m, zero)"), found("0", &[5]));
        assert_eq!(taken("int64[1,2]", "Gather <axis = 0> (m, threes)"), found("3", &[0, 5]));
        assert_eq!(taken("int64[L]", "Gather <axis = 1> (m, one)"), found("5", &[1]));
        assert_eq!(taken("int64[2]", "Gather <axis = 0> (m, last)"), None);
    }

    #[test]
    fn selected_elements_of_taken_ones_are_unknown() {
        let text = format!(
            "g (float[L,4] x) => (int64[1,2] y) {{ {COUNTED}
                column = Unsqueeze (range, axis) row = Constant <value = int64[1,2] {{0, 5}}> ()
                m = Add (column, row) y = Gather <axis = 0> (m, front) }}"
        );
        assert_eq!(each(&text), [None, None]);
    }

    #[test]
    fn elements_of_ranges_and_of_concatenated_columns() {
        let range = "g () => (int64[3] y) {
            two = Constant <value_int = 2> () eight = Constant <value_int = 8> () y = Range (two, eight, two) }";
        let single = |first: &str| Some((first.to_owned(), vec![]));
        assert_eq!(each(range), [single("2"), single("4"), single("6")]);
        let columns = "g () => (int64[2,4] y) {
            a = Constant <value = int64[2,2] {0, 1, 2, 3}> () b = Constant <value = int64[2,2] {5, 9, 4, 6}> ()
            y = Concat <axis = 1> (a, b) }";
        let column = |first: &str, step: i64| Some((first.to_owned(), vec![step]));
        assert_eq!(
            each(columns),
            [column("0", 2), column("1", 2), column("5", -1), column("9", -3)]
        );
    }

    #[test]
    fn long_index_vectors_are_not_read() {
        let progressions = |count: usize| {
            let text = format!("g (int64[2,{count}] x) => (int64[2,{count}] y) {{ y = Neg (x) }}");
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let y = graph.block(Graph::MAIN).outputs()[0];
            graph.facts().progressions(y).map(|found| found.len())
        };
        assert_eq!((progressions(LONGEST), progressions(LONGEST + 1)), (Some(LONGEST), None));
    }

    #[test]
    fn iotas_count_all_elements_from_zero() {
        let is_iota = |ty: &str, node: &str, size: &str| {
            let text =
                format!("g (float[L,4] x, float[L] f) => ({ty}[L] y) {{ {COUNTED} y = {node} }}");
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let y = graph.block(Graph::MAIN).outputs()[0];
            graph.facts().is_iota(y, &Dim::parse(size).unwrap())
        };
        assert!(is_iota("int64", "Range (zero, count, one)", "L"));
        assert!(is_iota("float", "Cast <to = 1> (range)", "L"));
        assert!(!is_iota("int64", "Range (zero, count, one)", "K"));
        assert!(!is_iota("int64", "Mul (range, two)", "L"));
        assert!(!is_iota("int64", "Add (range, one)", "L"));
        assert!(!is_iota("float", "Neg (f)", "L"));
    }

    #[test]
    fn index_vectors_are_concatenated_columns() {
        let parts = |ty: &str, node: &str| {
            let text = format!(
                "g (int64[2,1] a, int64[2,1] b, int64[2,2] c) => ({ty} y) {{ y = {node} }}"
            );
            let graph = parse(&text, &mut Origins::default()).unwrap();
            let y = graph.block(Graph::MAIN).outputs()[0];
            graph.facts().parts_of_vectors(y).map(|parts| parts.len())
        };
        assert_eq!(parts("int64[2,2]", "Concat <axis = -1> (a, b)"), Some(2));
        assert_eq!(parts("int64[4,1]", "Concat <axis = 0> (a, b)"), None);
        assert_eq!(parts("int64[2,3]", "Concat <axis = 1> (a, c)"), None);
        assert_eq!(parts("int64[2,1]", "Max (a, b)"), None);
    }

    #[test]
    fn masks_are_half_spaces() {
        let text = format!(
            "g (float[L,4] x) => (bool[L,L] y) {{ {COUNTED}
                column = Unsqueeze (range, axis) early = Sub (column, two)
                a = LessOrEqual (range, column) b = Greater (range, early) y = And (a, b) }}"
        );
        let graph = parse(&text, &mut Origins::default()).unwrap();
        let mask = graph.block(Graph::MAIN).outputs()[0];
        let found = graph.facts().half_spaces(mask).unwrap();
        let shown = |one: &Progression| (one.first.to_string(), one.steps.clone());
        let expected = [("0".to_owned(), vec![1, -1]), ("1".to_owned(), vec![-1, 1])];
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
    }

    /// Returns the half-spaces and the comparison of `node`, which moves the mask `range <= column`.
    fn moved_mask(ty: &str, node: &str) -> (Option<Vec<Vec<i64>>>, bool) {
        let text = format!(
            "g (float[L,4] x) => (bool[{ty}] y) {{ {COUNTED}
                column = Unsqueeze (range, axis) m = LessOrEqual (range, column) y = {node} }}"
        );
        let graph = parse(&text, &mut Origins::default()).unwrap();
        let mask = graph.block(Graph::MAIN).outputs()[0];
        let spaces = graph.facts().half_spaces(mask);
        let steps = spaces.map(|all| all.into_iter().map(|one| one.steps).collect());
        (steps, graph.facts().comparison(mask).is_some())
    }

    #[test]
    fn masks_are_followed_through_reshapes() {
        assert_eq!(moved_mask("L,L", "Identity (m)"), (None, false));
        assert_eq!(moved_mask("L,L", "Transpose <perm = [1, 0]> (m)"), (None, false));
        let inserted = moved_mask("L,1,L", "Unsqueeze (m, axis)");
        assert_eq!(inserted, (Some(vec![vec![1, 0, -1]]), true));
    }

    #[test]
    fn positions_in_a_batch_without_padding_follow_the_past() {
        let text = "g (int64[B,T] attention_mask) => (int64[B,1] y) {
            axes = Constant <value_ints = [1]> () one = Constant <value_int = 1> ()
            zero = Constant <value_int = 0> ()
            total = ReduceSum <keepdims = 1> (attention_mask, axes)
            past = Sub (total, one) y = Max (past, zero) }";
        let mut graph = parse(text, &mut Origins::default()).unwrap();
        let first = |graph: &Graph| {
            let y = graph.block(Graph::MAIN).outputs()[0];
            assert_eq!(graph.facts().progression(y), None);
            graph.facts().unpadded_progression(y).map(|found| found.first.to_string())
        };
        assert_eq!(first(&graph), None);
        graph.assumptions = std::iter::once(Assumption::PaddedPrompts).collect();
        assert_eq!(first(&graph.clone()), Some("T - 1".to_owned()));
    }

    #[test]
    fn vectors_have_a_progression_for_each_element() {
        let text = format!(
            "g (float[L,4] x) => (int64[L,3,2] y) {{ {COUNTED}
                shape = Constant <value_ints = [-1, 1, 1]> ()
                target = Constant <value_ints = [1, 3, 1]> ()
                other = Constant <value = int64[3] {{5, 4, 3}}> ()
                columns = Constant <value_ints = [3, 1]> ()
                whole = Concat <axis = 0> (size, columns)
                a = Reshape (range, shape) b = Expand (a, target)
                c = Reshape (other, columns) d = Expand (c, whole)
                y = Concat <axis = 2> (b, d) }}"
        );
        let expected = vec![("0".to_owned(), vec![1, 0]), ("5".to_owned(), vec![0, -1])];
        assert_eq!(first(&text), Some(expected));
    }

    #[test]
    fn elements_are_independent() {
        let text = |low: &str, size: &str| {
            format!(
                "g (float[{size},4] x, int64[{size},1] i) => (int64[{size},2] y) {{ {COUNTED}
                    low = Constant <value_int = {low}> ()
                    c = Less (range, low) f = Add (range, count) w = Where (c, f, range)
                    u = Unsqueeze (w, axis) y = Concat <axis = 1> (u, i) }}"
            )
        };
        assert_eq!(each(&text("0", "L")), [Some(("0".to_owned(), vec![1])), None]);
        assert_eq!(each(&text("1", "L")), [None, None]);
        let stored = "g (int64[3,1] i) => (int64[3,2] y) {
            c = Constant <value = int64[3,1] {4, 6, 8}> () y = Concat <axis = 1> (i, c) }";
        assert_eq!(each(stored), [None, Some(("4".to_owned(), vec![2]))]);
    }

    #[test]
    fn other_integers_are_no_progressions() {
        for text in [
            "g (int64[L,1] x) => (int64[L,1] y) { y = Neg (x) }",
            "g (int8[L,1] x) => (int64[3,1] y) {
                c = Constant <value = int64[3] {0, 1, 3}> () a = Constant <value_ints = [1]> ()
                y = Unsqueeze (c, a) }",
        ] {
            assert_eq!(first(text), None);
        }
    }
}
