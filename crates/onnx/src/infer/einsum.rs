//! `Einsum`.

use smallvec::SmallVec;
use tensor::{Dim, Shape, Type};

use super::broadcast::broadcast;
use super::call::Call;
use crate::Result;
use tensor::bounds::same;

/// The labels of one operand, before and after an ellipsis, if there is one.
struct Term<'a> {
    before: &'a [u8],
    after: Option<&'a [u8]>,
}

impl<'a> Term<'a> {
    fn parse(call: &Call<'_>, text: &'a str) -> Result<Self> {
        let (before, after) = match text.split_once("...") {
            Some((before, after)) => (before.as_bytes(), Some(after.as_bytes())),
            None => (text.as_bytes(), None),
        };
        let mut labels = before.iter().chain(after.unwrap_or_default());
        match labels.find(|label| !label.is_ascii_alphabetic()) {
            Some(_) => Err(call.error(format!("`{text}` is not a list of labels"))),
            None => Ok(Self { before, after }),
        }
    }

    fn labels(&self) -> usize {
        self.before.len() + self.after.map_or(0, <[u8]>::len)
    }
}

/// The sizes of the labels.
#[derive(Default)]
struct Labels {
    sizes: SmallVec<[(u8, Dim, u32); 8]>,
    ellipsis: Shape,
}

impl Labels {
    fn bind(&mut self, call: &Call<'_>, labels: &[u8], dims: &[Dim]) -> Result<()> {
        for (&label, dim) in labels.iter().zip(dims) {
            match self.sizes.iter_mut().find(|(known, ..)| *known == label) {
                None => self.sizes.push((label, dim.clone(), 1)),
                Some((_, size, count)) if same(size, dim) => *count += 1,
                Some((_, size, _)) => {
                    let label = char::from(label);
                    return Err(call.error(format!("`{label}` is both {size} and {dim}")));
                }
            }
        }
        Ok(())
    }

    fn push(&self, call: &Call<'_>, labels: &[u8], shape: &mut Shape) -> Result<()> {
        for &label in labels {
            match self.sizes.iter().find(|(known, ..)| *known == label) {
                Some((_, size, _)) => shape.push(size.clone()),
                None => {
                    let label = char::from(label);
                    return Err(call.error(format!("no operand has the label `{label}`")));
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn einsum(call: &Call<'_>) -> Result<Vec<Type>> {
    let equation: String = call.string("equation", "")?.split_whitespace().collect();
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation.as_str(), None),
    };
    let terms = inputs.split(',').count();
    if terms != call.inputs.len() {
        let reason = format!("`{equation}` has {terms} operands, not {}", call.inputs.len());
        return Err(call.error(reason));
    }
    let mut labels = Labels::default();
    for (i, text) in inputs.split(',').enumerate() {
        call.same_dtype(0, i)?;
        let (ty, term) = (call.ty(i)?, Term::parse(call, text)?);
        let free = ty.rank().checked_sub(term.labels());
        let free = free.filter(|free| *free == 0 || term.after.is_some());
        let Some(free) = free else {
            return Err(call.error(format!("`{text}` does not fit {ty}")));
        };
        let (before, rest) = ty.shape.split_at(term.before.len());
        let (middle, after) = rest.split_at(free);
        labels.bind(call, term.before, before)?;
        labels.bind(call, term.after.unwrap_or_default(), after)?;
        labels.ellipsis = broadcast(call, &labels.ellipsis, middle)?;
    }
    let mut shape = Shape::new();
    match output {
        Some(text) => {
            let term = Term::parse(call, text)?;
            labels.push(call, term.before, &mut shape)?;
            if let Some(after) = term.after {
                shape.extend_from_slice(&labels.ellipsis);
                labels.push(call, after, &mut shape)?;
            }
        }
        // Without an explicit output, the labels that occur once are kept, in alphabetical order.
        None => {
            shape.extend_from_slice(&labels.ellipsis);
            labels.sizes.sort_by_key(|(label, ..)| *label);
            let once = labels.sizes.iter().filter(|(.., count)| *count == 1);
            shape.extend(once.map(|(_, size, _)| size.clone()));
        }
    }
    Ok(vec![Type::new(call.ty(0)?.dtype, shape)])
}
