//! `ctx.op`: emits a node from Python arguments.

use std::sync::PoisonError;

use lower::Foreign;
use onnx::{Attrs, Op, ValueId, intern, schema};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyDictMethods, PyTuple};
use tensor::{DType, Tensor, Type};

use super::context::LoweringContext;
use super::operand::{self, Operand};
use super::value::Value;
use super::wrong::Result;

/// An operand that no longer needs Python.
enum Given {
    Nothing,
    Value(ValueId),
    Constant(Tensor),
}

impl LoweringContext {
    /// Emits a node and returns its results: `outputs` of them, or one.
    pub(super) fn emit(
        &self,
        py: Python<'_>,
        (name, domain): (&str, &str),
        inputs: &Bound<'_, PyTuple>,
        outputs: Option<usize>,
        out_types: Option<&Bound<'_, PyAny>>,
        attrs: Option<&Bound<'_, PyDict>>,
    ) -> Result<Vec<Value>> {
        let op = Op { domain: intern(domain), name: intern(name) };
        if domain.is_empty() && schema::versions(&op).is_empty() {
            return Err(no_such_operator(name).into());
        }
        let inputs = self.operands(&op, inputs)?;
        let mut read = Attrs::new();
        for (name, value) in attrs.into_iter().flat_map(PyDictMethods::iter) {
            let name: String = name.extract()?;
            if !value.is_none() {
                read.push((intern(&name), operand::attribute(&op, &name, &value)?));
            }
        }
        let stated = match out_types {
            None => None,
            Some(_) if onnx::is_inferred(&op) => {
                return Err(format!("the types of `{name}` are known; omit `out_types`").into());
            }
            Some(types) => {
                let types = types.try_iter()?.map(|ty| operand::type_of(&ty?));
                Some(types.collect::<Result<Vec<Type>>>()?)
            }
        };
        let site = self.site(py)?;
        let count = outputs.or_else(|| stated.as_ref().map(Vec::len)).unwrap_or(1);
        Ok(self.with(py, |cx| {
            let inputs = inputs.into_iter().map(|given| match given {
                Given::Nothing => None,
                Given::Value(value) => Some(value),
                Given::Constant(tensor) => Some(cx.constant(tensor)),
            });
            let inputs: Vec<Option<ValueId>> = inputs.collect();
            let results = if onnx::is_inferred(&op) {
                Foreign::Inferred(count)
            } else {
                let types = match &stated {
                    Some(types) => types.clone(),
                    None => cx.result_types().cloned().collect(),
                };
                if types.len() != count || types.iter().any(|ty| ty.dtype.is_complex()) {
                    let reason = format!(
                        "the types of the {count} results of `{name}` are unknown; pass `out_types`"
                    );
                    return Err(reason.into());
                }
                Foreign::Typed(types)
            };
            let emitted = cx.emit_foreign((op, inputs, read), results, site)?;
            if stated.is_none() && !onnx::is_inferred(&op) {
                let mut assumed = self.assumed.lock().unwrap_or_else(PoisonError::into_inner);
                assumed.extend(emitted.iter().enumerate().map(|(i, v)| (*v, i, site.line())));
            }
            let values = emitted.into_iter();
            Ok(values.map(|v| Value::real_only(v, cx.ty(v).clone(), self.owner)).collect())
        })?)
    }

    fn operands(&self, op: &Op, given: &Bound<'_, PyTuple>) -> Result<Vec<Given>> {
        let given: Vec<Operand<'_>> =
            given.iter().map(|object| Operand::new(&object)).collect::<Result<_>>()?;
        let mut operands = Vec::with_capacity(given.len());
        for (i, operand) in given.iter().enumerate() {
            operands.push(match operand {
                Operand::Nothing => Given::Nothing,
                Operand::Value(value) => match self.own(value)? {
                    lower::Parts::Real(value) => Given::Value(value),
                    lower::Parts::Complex(..) => {
                        let reason =
                            "ONNX has no complex numbers; pass `.real` and `.imag` to operators";
                        return Err(reason.to_owned().into());
                    }
                },
                Operand::Array(tensor) => Given::Constant(tensor.clone()),
                Operand::Numbers(numbers) if !op.domain.is_empty() => {
                    let reason = format!("the type of {numbers} is unknown; pass an array");
                    return Err(reason.into());
                }
                Operand::Numbers(numbers) => {
                    let dtype = operand::numbers_dtype(op, &given, i);
                    let tensor = operand::tensor(numbers, dtype)?;
                    Given::Constant(match (dtype, tensor.dtype()) {
                        // As in JAX, Python numbers have 32 bits by default.
                        (None, DType::F64) => operand::tensor(numbers, Some(DType::F32))?,
                        _ => tensor,
                    })
                }
            });
        }
        Ok(operands)
    }
}

fn no_such_operator(name: &str) -> String {
    let known = schema::names().find(|known| known.eq_ignore_ascii_case(name));
    match known {
        Some(known) => format!("ONNX has no operator `{name}`; did you mean `{known}`?"),
        None => format!("ONNX has no operator `{name}`; operators of other domains need `domain`"),
    }
}
