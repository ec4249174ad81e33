//! Weights that are already integers: `w.astype(float32) * scale` in front of a product, or
//! `(w.astype(float32) - zero_point) * scale`. The integers are unchanged, and are widened by
//! `DequantizeLinear`, which computes the same bits.

use std::sync::Arc;

use onnx::{Editor, Graph, Node, ValueId};
use tensor::{DType, DTypeKind, Dim, Tensor};

use super::readers::{Reader, readers};
use super::{Error, Stored, beside, dequantize, replace_by_widened};

/// The block size if a whole column shares a scale. Not all operators support larger blocks, and
/// smaller blocks repeat the scale more often.
const COLUMN: usize = 128;

/// Integers and the parameters that widen them.
pub(super) struct Widened {
    /// The integers as a matrix.
    values: Tensor,
    /// One scale for each block of a column.
    scales: Tensor,
    /// The numbers that are subtracted from the integers of each block.
    zero_points: Option<Tensor>,
    block: usize,
    /// The constant that currently holds the scales.
    from: ValueId,
    /// The value that products currently read.
    result: ValueId,
}

/// Returns `true` if weights of a type may already be quantised.
pub(super) fn is_integer(dtype: DType) -> bool {
    matches!(dtype, DType::I4 | DType::U4 | DType::I8 | DType::U8)
}

/// Returns the parameters that widen the integers of `value` for products, or the reason why it
/// cannot be converted.
pub(super) fn found(graph: &Graph, value: ValueId) -> Result<Widened, String> {
    let no_scale = || "it holds integers, and products do not read them times a scale".to_owned();
    let tensor = graph.tensor(value).ok_or_else(no_scale)?;
    let (mut result, mut zero) = (value, None);
    // Skips casts, and a zero point that is subtracted before or after them.
    let scale = loop {
        let node = graph.only_reader(result).ok_or_else(no_scale)?;
        let other = || match (node.input(0)?, node.input(1)?) {
            (a, b) if a == result => Some(b),
            (a, b) if b == result && node.is("Mul") => Some(a),
            _ => None,
        };
        let dtype = graph.ty(node.outputs[0]).dtype;
        match node.op.name {
            "Cast" if is_exact(tensor.dtype(), dtype) => {}
            "Sub" if zero.is_none() && is_exact(tensor.dtype(), dtype) => {
                let other = other().ok_or_else(no_scale)?;
                zero = Some(Spread::of(graph, other).ok_or("its zero points are computed")?);
            }
            "Mul" if matches!(dtype, DType::F16 | DType::F32) => {
                let other = other().ok_or_else(no_scale)?;
                result = node.outputs[0];
                break Spread::of(graph, other).ok_or("its scales are computed")?;
            }
            _ => return Err(no_scale()),
        }
        result = node.outputs[0];
    };
    if graph.ty(scale.constant).dtype != graph.ty(result).dtype {
        return Err("its scales are computed".to_owned());
    }
    if let Some(node) = graph.only_reader(result).filter(|node| node.is("Reshape")) {
        result = node.outputs[0];
    }
    if !readers(graph, result).iter().all(|reader| *reader == Reader::Product) {
        return Err("not only products read it".to_owned());
    }
    let Some(&[rows, columns]) = sizes(&graph.ty(result).shape).as_deref() else {
        return Err("products do not read it as a matrix".to_owned());
    };
    let repeats = [Some(&scale), zero.as_ref()].into_iter().flatten().find_map(|s| s.repeats);
    let block = match *tensor.shape() {
        [..] if tensor.shape() == [rows, columns] => repeats.unwrap_or(COLUMN),
        [blocks, block, last] if [blocks * block, last] == [rows, columns] => block,
        _ => return Err("its axes are not those of blocks of columns".to_owned()),
    };
    let blocks = Blocks { rows, count: rows.div_ceil(block), columns, block };
    let scales = blocks.scales(graph, &scale)?;
    let zero_points = zero.map(|zero| blocks.zero_points(graph, &zero, tensor.dtype()));
    let zero_points = zero_points.transpose()?;
    let values = tensor.reshaped(&[rows, columns]).map_err(|error| error.to_string())?;
    Ok(Widened { values, scales, zero_points, block, from: scale.constant, result })
}

/// Returns `true` if integers of type `from`, and differences of two of them, are exact in another
/// type.
fn is_exact(from: DType, to: DType) -> bool {
    match to.kind() {
        DTypeKind::Float => matches!(to, DType::F16 | DType::F32 | DType::F64),
        // Differences may be negative.
        DTypeKind::Signed => to.bits() > from.bits(),
        _ => false,
    }
}

/// Returns `true` if a cast preserves every number, or at least every 8-bit integer. Other zero
/// points are rejected when they are read.
fn keeps(from: DType, to: DType) -> bool {
    match (from.int_range(), to.int_range()) {
        (Some(from), Some(to)) if to.0 <= from.0 && from.1 <= to.1 => true,
        (Some(_), _) | (None, Some(_)) => is_exact(DType::U8, to),
        (None, None) => match from {
            DType::F16 | DType::BF16 => matches!(to, DType::F32 | DType::F64),
            _ => (from, to) == (DType::F32, DType::F64),
        },
    }
}

fn sizes(shape: &[Dim]) -> Option<Vec<usize>> {
    shape.iter().map(|dim| usize::try_from(dim.as_known()?).ok()).collect()
}

/// The numbers that scale or shift a weight.
struct Spread {
    constant: ValueId,
    /// The number of repetitions of each row.
    repeats: Option<usize>,
}

impl Spread {
    /// Returns the constant that `value` is derived from. Each row may be repeated, as by
    /// `jnp.repeat`.
    fn of(graph: &Graph, value: ValueId) -> Option<Self> {
        let (mut value, mut repeats) = (value, None);
        loop {
            if graph.tensor(value).is_some() {
                return Some(Self { constant: value, repeats });
            }
            let node = graph.node(graph.producer(value)?);
            match node.op.name {
                // Numbers must not be rounded or wrap around.
                "Cast" => {
                    let (from, to) = (node.input(0)?, graph.ty(value).dtype);
                    value = Some(from).filter(|from| keeps(graph.ty(*from).dtype, to))?;
                }
                "Reshape" if repeats.is_none() => {
                    let expand = graph.node(graph.producer(node.input(0)?)?);
                    let source = expand.input(0).filter(|_| expand.is("Expand"))?;
                    let shape = |value| sizes(&graph.ty(value).shape);
                    let (from, to) = (shape(source)?, shape(node.input(0)?)?);
                    let (&[blocks, 1, columns], &[_, block, _]) = (&*from, &*to) else {
                        return None;
                    };
                    let is_repeated = to == [blocks, block, columns]
                        && shape(value)? == [blocks * block, columns];
                    (value, repeats) = (source, Some(block).filter(|_| is_repeated));
                    repeats?;
                }
                // Unit axes, which the repetition adds.
                "Reshape" | "Unsqueeze" if is_alike(graph, node) => value = node.input(0)?,
                _ => return None,
            }
        }
    }
}

/// Returns `true` if a node only adds or removes unit axes.
fn is_alike(graph: &Graph, node: &Node) -> bool {
    let long = |value: Option<ValueId>| {
        let shape = sizes(&graph.ty(value?).shape)?.into_iter();
        Some(shape.filter(|size| *size != 1).collect::<Vec<_>>())
    };
    long(node.input(0)) == long(node.outputs.first().copied())
}

/// The blocks in the columns of a matrix.
struct Blocks {
    rows: usize,
    count: usize,
    columns: usize,
    block: usize,
}

impl Blocks {
    /// Returns the index of the number in `spread` for each block of each column.
    fn places(&self, graph: &Graph, spread: &Spread, what: &str) -> Result<Vec<usize>, String> {
        let shape = sizes(&graph.ty(spread.constant).shape).unwrap_or_default();
        let is_aligned = spread.repeats.is_none_or(|repeats| repeats == self.block)
            && self.count * self.block == self.rows;
        let (of_block, of_column) = match *shape {
            [] | [1] | [1, 1] | [1, 1, 1] => (0, 0),
            [size] | [1, size] | [1, 1, size] if size == self.columns => (0, 1),
            [count, 1, size] if [count, size] == [self.count, self.columns] && is_aligned => {
                (self.columns, 1)
            }
            [count, size]
                if [count, size] == [self.count, self.columns]
                    && spread.repeats.is_some()
                    && is_aligned =>
            {
                (self.columns, 1)
            }
            _ => return Err(format!("its {what} are not those of columns or blocks of them")),
        };
        let places = (0..self.count).flat_map(|block| {
            (0..self.columns).map(move |column| block * of_block + column * of_column)
        });
        Ok(places.collect())
    }

    fn scales(&self, graph: &Graph, spread: &Spread) -> Result<Tensor, String> {
        let places = self.places(graph, spread, "scales")?;
        let scale = graph.tensor(spread.constant).ok_or("its scales are computed")?;
        let bytes = scale.bytes().ok_or("its scales are elsewhere")?;
        let width = scale.dtype().bits() as usize / 8;
        let one = |place: usize| bytes[place * width..(place + 1) * width].iter().copied();
        let bytes: Vec<u8> = places.into_iter().flat_map(one).collect();
        Tensor::new(scale.dtype(), &[self.count, self.columns], Arc::new(bytes))
            .map_err(|error| error.to_string())
    }

    /// Returns the zero points in the type of the integers that they are subtracted from.
    fn zero_points(&self, graph: &Graph, spread: &Spread, dtype: DType) -> Result<Tensor, String> {
        let places = self.places(graph, spread, "zero points")?;
        let zeros = graph.tensor(spread.constant).and_then(integers);
        let zeros = zeros.ok_or("its zero points are elsewhere, or no integers")?;
        let range = dtype.int_range().ok_or("it holds no integers")?;
        if !zeros.iter().all(|zero| (range.0..=range.1).contains(&i128::from(*zero))) {
            return Err(format!("a zero point is no {dtype}"));
        }
        #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "the bits")]
        let bytes = places.iter().map(|place| zeros[*place] as u8);
        let bytes: Vec<u8> = match dtype.bits() {
            4 => {
                let nibbles: Vec<u8> = bytes.map(|byte| byte & 0xf).collect();
                let pair = |pair: &[u8]| pair[0] | pair.get(1).map_or(0, |high| high << 4);
                nibbles.chunks(2).map(pair).collect()
            }
            _ => bytes.collect(),
        };
        Tensor::new(dtype, &[self.count, self.columns], Arc::new(bytes))
            .map_err(|error| error.to_string())
    }
}

/// Returns the elements of a tensor of integers, or of floats with integer values.
fn integers(tensor: &Tensor) -> Option<Vec<i64>> {
    if tensor.dtype().bits() != 4 {
        #[expect(clippy::cast_possible_truncation, reason = "it is compared with what it was")]
        let exact = |number: f64| Some(number as i64).filter(|n| *n as f64 == number);
        let floats = || tensor.to_f64s()?.into_iter().map(exact).collect();
        return tensor.to_i64s().or_else(floats);
    }
    let bytes = tensor.bytes()?;
    let nibbles = bytes.iter().flat_map(|byte| [byte & 0xf, byte >> 4]).take(tensor.len());
    let is_signed = tensor.dtype() == DType::I4;
    let number = |nibble: u8| match is_signed && nibble >= 8 {
        true => i64::from(nibble) - 16,
        false => i64::from(nibble),
    };
    Some(nibbles.map(number).collect())
}

/// Replaces the arithmetic by one node that widens the integers.
pub(super) fn store(edit: &mut Editor<'_>, value: ValueId, widened: Widened) -> Result<(), Error> {
    let Widened { values, scales, zero_points, block, from, result } = widened;
    let graph = edit.graph_mut();
    let name = graph.value(value).name.clone();
    let (values, scales) = (graph.add_constant(values), graph.add_constant(scales));
    let zeros = zero_points.map(|zeros| graph.add_parameter(format!("{name}/zero_point"), zeros));
    // Emits next to the product, which may be far from the cast.
    let mut builder = beside(edit, result)?;
    let stored = Stored { values, scales, zeros };
    let dequantized = dequantize(&mut builder, stored, 0, Some(block))?;
    replace_by_widened(edit, result, dequantized, &name);
    let graph = edit.graph_mut();
    // Other weights may share the scales.
    let scale_name =
        if graph.value(from).is_used() { format!("{name}/scale") } else { graph.take_name(from) };
    graph.set_name(scales, scale_name);
    graph.move_name(value, values);
    Ok(())
}

#[cfg(test)]
mod tests {
    use tensor::DType::{BF16, F16, F32, F64, I4, I8, I16, I32, U4, U8};

    use super::*;

    #[test]
    fn casts_that_round_or_wrap_change_numbers() {
        for (from, to) in [
            (I4, I8),
            (I8, I32),
            (U4, U8),
            (U8, I16),
            (U8, F16),
            (I8, F32),
            (F16, F32),
            (BF16, F64),
            (F32, F64),
            // Zero points are 8-bit integers in any type.
            (I32, F32),
            (F32, I16),
            (I32, I16),
        ] {
            assert!(keeps(from, to), "{from} to {to}");
        }
        for (from, to) in [
            (I8, U8),
            (U8, I8),
            (I32, I8),
            (I8, BF16),
            (F32, F16),
            (F16, BF16),
            (F64, F32),
            (F32, I8),
        ] {
            assert!(!keeps(from, to), "{from} to {to}");
        }
    }

    #[test]
    fn integers_are_read_from_nibbles_and_floats() {
        let read = |dtype, bytes: &[u8], count| {
            integers(&Tensor::new(dtype, &[count], Arc::new(bytes.to_vec())).unwrap())
        };
        assert_eq!(read(I4, &[0x8f, 0x07], 3), Some(vec![-1, -8, 7]));
        assert_eq!(read(U4, &[0x8f, 0x07], 4), Some(vec![15, 8, 7, 0]));
        assert_eq!(read(I8, &[0x8f, 0x07], 2), Some(vec![-113, 7]));
        let floats: Vec<u8> = [3f32, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(read(F32, &floats, 2), Some(vec![3, -2]));
        assert_eq!(read(F32, &2.5f32.to_le_bytes(), 1), None);
    }

    #[test]
    fn differences_need_another_bit() {
        for (from, to) in [(U8, F16), (I8, F32), (I4, I8), (U8, I16)] {
            assert!(is_exact(from, to), "{from} in {to}");
        }
        for (from, to) in [(U8, BF16), (I8, I8), (U8, I8), (U4, U8)] {
            assert!(!is_exact(from, to), "{from} in {to}");
        }
    }
}
