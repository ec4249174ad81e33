//! rng_bit_generator[algorithm](key) → Philox or Threefry hashes of a counter, in the layout of
//! XLA's CPU backend; its default algorithm is Philox

use std::sync::Arc;

use onnx::{ValueId, attrs};
use tensor::division::product;
use tensor::{DType, Dim, DimOp};

use super::philox;
use super::threefry;
use crate::formula::{Num, formulas};
use crate::rules::bits::unsigned_words::{halves, join};
use crate::rules::indexing::indices;
use crate::{Context, Result, RuleError};

const ONE: Dim = Dim::Known(1);
const TWO: Dim = Dim::Known(2);

pub(crate) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    let algorithm: Arc<str> = cx.param("algorithm")?;
    let state = State::read(cx, x[0])?;
    let (bits, used) = match &*algorithm {
        "RNG_DEFAULT" | "RNG_PHILOX" => state.philox(cx)?,
        "RNG_THREE_FRY" => state.threefry(cx)?,
        other => {
            return Err(RuleError::unsupported(format!("the algorithm {other} is not supported")));
        }
    };
    Ok(vec![state.advanced(cx, used)?, bits])
}

/// A key and a counter, of 64 bits each.
struct State {
    dtype: DType,
    key: [ValueId; 2],
    counter: ValueId,
}

impl State {
    fn read(cx: &mut Context<'_>, state: ValueId) -> Result<Self> {
        let dtype = cx.dtype(state);
        let count: usize = if dtype == DType::U64 { 2 } else { 4 };
        let parts = cx.op_many("Split", &[state], attrs! { num_outputs: count as i64 }, count)?;
        let scalars = parts.into_iter().map(|part| cx.squeeze(part, &[0]));
        let scalars = scalars.collect::<onnx::Result<Vec<_>>>()?;
        let (key, counter) = match scalars.as_slice() {
            [key, counter] => (formulas(cx, [*key], |[key]| halves(key))?, *counter),
            [k0, k1, c0, c1] => {
                let [counter] = formulas(cx, [*c0, *c1], |counter| [join(counter)])?;
                ([*k0, *k1], counter)
            }
            _ => return Err(RuleError::Internal("a state of an unknown form".to_owned())),
        };
        Ok(Self { dtype, key, counter })
    }

    /// Returns the state after `used` steps of the counter.
    fn advanced(&self, cx: &mut Context<'_>, used: ValueId) -> Result<ValueId> {
        let ([k0, k1], counter) = (self.key, self.counter);
        let parts = match self.dtype {
            DType::U64 => formulas(cx, [k0, k1, counter, used], |[k0, k1, counter, used]| {
                let counter = counter + used;
                [join([k0, k1]), counter]
            })?
            .to_vec(),
            _ => {
                let counter = formulas(cx, [counter, used], |[x, used]| halves(x + used))?;
                [self.key, counter].concat()
            }
        };
        let parts = parts.into_iter().map(|part| cx.unsqueeze(part, &[0]));
        let parts = parts.collect::<onnx::Result<Vec<_>>>()?;
        Ok(cx.op("Concat", &parts, attrs! { axis: 0 })?)
    }

    /// Returns the numbers of the steps, in `shape`, and their count.
    fn counters(&self, cx: &mut Context<'_>, shape: &[Dim]) -> Result<(ValueId, ValueId)> {
        let count = product(shape);
        let numbers = indices::range(cx, &count)?;
        let numbers = cx.reshape(numbers, shape)?;
        let numbers = cx.cast(numbers, DType::U64)?;
        if let Some(used) = count.as_known().and_then(|n| u64::try_from(n).ok()) {
            return Ok((numbers, cx.int(DType::U64, used.into())?));
        }
        let used = cx.size(&count)?;
        Ok((numbers, cx.cast(used, DType::U64)?))
    }

    /// Generates four words with every step of a counter of 128 bits, whose high half is the key.
    fn philox(&self, cx: &mut Context<'_>) -> Result<(ValueId, ValueId)> {
        let out = cx.out(1);
        let per_step = if out.dtype == DType::U64 { 2 } else { 4 };
        let rounded_up = product(&out.shape) + Dim::Known(per_step - 1);
        let shape = [Dim::op(DimOp::FloorDiv, &rounded_up, &Dim::Known(per_step))];
        let (numbers, used) = self.counters(cx, &shape)?;
        let operands = [numbers, self.counter, self.key[0], self.key[1]];
        let counters = formulas(cx, operands, |[number, counter, k0, k1]| {
            let low = number + counter;
            let carry = carry(number, counter, low);
            let high = join([k0, k1]) + carry;
            let ([x0, x1], [x2, x3]) = (halves(low), halves(high));
            [x0, x1, x2, x3]
        })?;
        let words = philox::hash(cx, self.key, counters, &shape)?;
        let numbers = match (out.dtype, words.as_slice()) {
            (DType::U64, &[a, b, c, d]) => {
                formulas(cx, [a, b, c, d], |[a, b, c, d]| [join([a, b]), join([c, d])])?.to_vec()
            }
            _ => words,
        };
        let columns = numbers.into_iter().map(|column| cx.unsqueeze(column, &[1]));
        let columns = columns.collect::<onnx::Result<Vec<_>>>()?;
        let table = cx.op("Concat", &columns, attrs! { axis: 1 })?;
        let flat = cx.reshape(table, &[product(cx.shape(table))])?;
        let flat = cx.slice(flat, &[0], &[Dim::Known(0)], &[product(&out.shape)], &[1])?;
        let bits = cx.reshape(flat, &out.shape)?;
        Ok((cx.cast(bits, out.dtype)?, used))
    }

    /// Generates two words with every step of the counter. For 64 bits they form one number.
    /// Otherwise they are neighbours along the first even axis, or along the longest one.
    fn threefry(&self, cx: &mut Context<'_>) -> Result<(ValueId, ValueId)> {
        let out = cx.out(1);
        if out.dtype == DType::U64 {
            let (hashes, used) = self.threefry_hashes(cx, &out.shape)?;
            let [bits] = formulas(cx, hashes, |halves| [join(halves)])?;
            return Ok((bits, used));
        }
        let Some(sizes) = out.static_shape() else {
            return Err(RuleError::unsupported(
                "Threefry bits with a symbolic shape are not supported",
            ));
        };
        let Some(axis) = halved_axis(&sizes) else {
            let ([first, _], used) = self.threefry_hashes(cx, &[ONE])?;
            let bits = cx.reshape(first, &out.shape)?;
            return Ok((cx.cast(bits, out.dtype)?, used));
        };
        let mut half = out.shape.clone();
        half[axis] = Dim::Known((sizes[axis] + 1) / 2);
        let (hashes, used) = self.threefry_hashes(cx, &half)?;
        let behind = axis as i64 + 1;
        let [first, second] = hashes.map(|hash| cx.unsqueeze(hash, &[behind]));
        let pairs = cx.op("Concat", &[first?, second?], attrs! { axis: behind })?;
        half[axis] = half[axis].clone() * TWO;
        let both = cx.reshape(pairs, &half)?;
        let (first, last) = ([Dim::Known(0)], [out.shape[axis].clone()]);
        let bits = match last[0] == half[axis] {
            true => both,
            false => cx.slice(both, &[axis as i64], &first, &last, &[1])?,
        };
        Ok((cx.cast(bits, out.dtype)?, used))
    }

    fn threefry_hashes(
        &self,
        cx: &mut Context<'_>,
        shape: &[Dim],
    ) -> Result<([ValueId; 2], ValueId)> {
        let (numbers, used) = self.counters(cx, shape)?;
        let counters = formulas(cx, [numbers, self.counter], |[x, start]| halves(x + start))?;
        Ok((threefry::hash(cx, self.key, counters, shape)?, used))
    }
}

/// Returns the axis that pairs of words are adjacent along; a scalar has none.
fn halved_axis(sizes: &[i64]) -> Option<usize> {
    let even = sizes.iter().position(|size| size % 2 == 0);
    even.or_else(|| {
        let longest = sizes.iter().max()?;
        sizes.iter().position(|size| size == longest)
    })
}

/// Returns one where the sum of two 64-bit words overflows, and zero elsewhere.
fn carry<'f>(a: Num<'f>, b: Num<'f>, sum: Num<'f>) -> Num<'f> {
    let (both, either) = (a & b, a | b);
    // The bits that are set in one of the operands, but not in the sum.
    let lost = either - (either & sum);
    (both | lost) >> 63_u64
}
