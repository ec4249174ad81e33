//! platform_index[platforms] → the number of the branch for CPUs, or for any platform

use std::sync::Arc;

use onnx::ValueId;
use tensor::{DType, Tensor};

use crate::{Context, Result, RuleError};

pub(crate) fn lower(cx: &mut Context<'_>, _: &[ValueId]) -> Result {
    let index = chosen(&cx.param::<Platforms>("platforms")?)?;
    let index = Tensor::int_scalar(DType::I32, index as i128);
    let index = index.ok_or_else(|| RuleError::Internal("too many branches".to_owned()))?;
    Ok(vec![cx.constant(index)])
}

/// The platforms of each branch; `None` for all others.
pub(crate) type Platforms = Vec<Option<Vec<Arc<str>>>>;

/// Returns the index of the branch that is exported from a platform-dependent computation.
pub(crate) fn chosen(platforms: &Platforms) -> Result<usize> {
    let for_cpu = |names: &Option<Vec<Arc<str>>>| {
        names.as_ref().is_some_and(|names| names.iter().any(|name| &**name == "cpu"))
    };
    let index = platforms.iter().position(for_cpu);
    let index = index.or_else(|| platforms.iter().position(Option::is_none));
    index.ok_or_else(|| RuleError::unsupported("the computation has no implementation for CPUs"))
}
