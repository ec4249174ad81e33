//! `Attention` and `RotaryEmbedding`.

use tensor::{DType, Dim, Type};

use super::call::Call;
use crate::Result;
use tensor::bounds::same;
use tensor::division::exact_div;

/// The sizes of query, key or value: batch, heads, sequence, and features of a head.
struct Heads {
    batch: Dim,
    heads: Dim,
    length: Dim,
    size: Dim,
}

/// Returns the sizes of an operand that is already split into heads, or that the attribute `heads`
/// splits.
fn heads(call: &Call<'_>, index: usize, heads: &str) -> Result<Heads> {
    let ty = call.ty(index)?;
    match ty.shape.as_slice() {
        [batch, heads, length, size] => Ok(Heads {
            batch: batch.clone(),
            heads: heads.clone(),
            length: length.clone(),
            size: size.clone(),
        }),
        [batch, length, hidden] => {
            let count = Dim::Known(call.required_int(heads)?);
            let uneven = || call.error(format!("{hidden} features of {ty} in {count} heads"));
            let size = exact_div(hidden, &count).ok_or_else(uneven)?;
            Ok(Heads { batch: batch.clone(), heads: count, length: length.clone(), size })
        }
        _ => Err(call.error(format!("input {index} is {ty}, but its rank must be 3 or 4"))),
    }
}

pub(crate) fn attention(call: &Call<'_>) -> Result<Vec<Type>> {
    let (q_ty, k_ty, v_ty) = (call.ty(0)?, call.ty(1)?, call.ty(2)?);
    call.same_dtype(0, 1)?;
    let q = heads(call, 0, "q_num_heads")?;
    let k = heads(call, 1, "kv_num_heads")?;
    let v = heads(call, 2, "kv_num_heads")?;
    let shared = same(&q.heads, &k.heads) || exact_div(&q.heads, &k.heads).is_some();
    let fits = q_ty.rank() == k_ty.rank()
        && q_ty.rank() == v_ty.rank()
        && same(&q.batch, &k.batch)
        && same(&q.batch, &v.batch)
        && same(&k.heads, &v.heads)
        && same(&k.length, &v.length)
        && same(&q.size, &k.size)
        && shared;
    if !fits {
        return Err(call.error(format!("{q_ty}, {k_ty} and {v_ty} do not fit")));
    }
    let total = k.length.clone() + past(call, &k, &v)?;
    let shape = match q_ty.rank() {
        4 => vec![q.batch.clone(), q.heads.clone(), q.length.clone(), v.size.clone()],
        _ => vec![q.batch.clone(), q.length.clone(), q.heads.clone() * v.size.clone()],
    };
    let cache = |size: &Dim| [k.batch.clone(), k.heads.clone(), total.clone(), size.clone()];
    let types = vec![
        Type::new(q_ty.dtype, shape),
        Type::new(k_ty.dtype, cache(&k.size)),
        Type::new(v_ty.dtype, cache(&v.size)),
        Type::new(q_ty.dtype, [q.batch, q.heads, q.length, total.clone()]),
    ];
    check_mask(call, q_ty, &total)?;
    if call.optional(6).is_some() {
        call.dtype_is(6, DType::I64)?;
        let lengths = call.ranked(6, 1)?;
        if !same(&lengths.shape[0], &k.batch) || call.optional(4).is_some() {
            return Err(call.error(format!("input 6 is {lengths} for {k_ty}")));
        }
    }
    Ok(types)
}

/// Returns the length of the cached keys and values, which must be given together.
fn past(call: &Call<'_>, k: &Heads, v: &Heads) -> Result<Dim> {
    let (key, value) = match (call.optional_ty(4), call.optional_ty(5)) {
        (None, None) => return Ok(Dim::Known(0)),
        (Some(key), Some(value)) => (key, value),
        _ => return Err(call.error("inputs 4 and 5 must be given together")),
    };
    call.same_dtype(1, 4)?;
    call.same_dtype(2, 5)?;
    let fits = |shape: &[Dim], now: &Heads| match shape {
        [batch, heads, _, size] => {
            same(batch, &now.batch) && same(heads, &now.heads) && same(size, &now.size)
        }
        _ => false,
    };
    if !fits(&key.shape, k) || !fits(&value.shape, v) || !same(&key.shape[2], &value.shape[2]) {
        return Err(call.error(format!("the cache is {key} and {value}")));
    }
    Ok(key.shape[2].clone())
}

fn check_mask(call: &Call<'_>, q: &Type, total: &Dim) -> Result<()> {
    let Some(mask) = call.optional_ty(3) else { return Ok(()) };
    if mask.dtype != DType::Bool && mask.dtype != q.dtype {
        return Err(call.error(format!("the mask is {mask}, but must be bool or {}", q.dtype)));
    }
    let last = match mask.shape.as_slice() {
        [.., last] if mask.rank() <= 4 => last,
        _ => return Err(call.error(format!("the mask is {mask}, but its rank must be 1 to 4"))),
    };
    // A mask that is too short is padded. A mask that is too long is an error.
    match (last, total) {
        (Dim::Known(last), Dim::Known(total)) if last > total => {
            Err(call.error(format!("the mask is {mask} for {total} keys")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn rotary_embedding(call: &Call<'_>) -> Result<Vec<Type>> {
    let ty = call.ty(0)?;
    heads(call, 0, "num_heads")?;
    call.same_dtype(0, 1)?;
    call.same_dtype(0, 2)?;
    // Position ids index the caches. Without them, the caches have an entry per position.
    let rank = if call.optional(3).is_some() { 2 } else { 3 };
    if call.optional(3).is_some() {
        call.dtype_is(3, DType::I64)?;
        call.ranked(3, 2)?;
    }
    call.ranked(1, rank)?;
    call.ranked(2, rank)?;
    Ok(vec![ty.clone()])
}
