//! Classes of equivalent jaxprs: equal equations on equal types, regardless of source lines, scopes
//! and the values of operand constants.

use std::hash::{Hash, Hasher};

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use tensor::Tensor;

use crate::{Atom, Constant, Eqn, JaxprId, Param, Program};

/// A class of equivalent jaxprs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassId(u32);

/// A partition of a program's jaxprs into equivalence classes.
#[derive(Debug, Default)]
pub struct Alike {
    /// Classes by an encoding of everything that distinguishes jaxprs.
    classes: FxHashMap<Vec<u8>, ClassId>,
    known: FxHashMap<JaxprId, (ClassId, Vec<Constant>)>,
    /// The number of parameters found so far that cannot be compared.
    unknown: usize,
}

impl Alike {
    /// Returns the class of a jaxpr.
    pub fn class(&mut self, program: &Program, id: JaxprId) -> ClassId {
        self.of(program, id).0
    }

    /// Returns the constants of a jaxpr and its inner jaxprs that functions take as operands,
    /// without duplicates. In jaxprs of one class, constants at the same position have the same
    /// meaning.
    pub fn operands(&mut self, program: &Program, id: JaxprId) -> Vec<Constant> {
        let mut seen = FxHashSet::default();
        let constants = self.of(program, id).1.iter();
        constants.filter(|constant| seen.insert(constant.array())).cloned().collect()
    }

    /// Returns an encoding that is equal for jaxprs with the same computation, even if their
    /// results are different parts of it.
    pub(crate) fn computation(&mut self, program: &Program, id: JaxprId) -> Vec<u8> {
        let mut text = Text::default();
        self.write(program, id, &mut text);
        text.finished().0
    }

    fn of(&mut self, program: &Program, id: JaxprId) -> &(ClassId, Vec<Constant>) {
        if !self.known.contains_key(&id) {
            let mut text = Text::default();
            self.write(program, id, &mut text);
            let outputs = &program.jaxpr(id).outputs;
            outputs.len().hash(&mut text);
            outputs.iter().for_each(|atom| write_atom(atom, &mut text));
            let (bytes, operands) = text.finished();
            let next = ClassId(u32::try_from(self.classes.len()).unwrap_or(u32::MAX));
            let class = *self.classes.entry(bytes).or_insert(next);
            self.known.insert(id, (class, operands));
        }
        &self.known[&id]
    }

    /// Encodes everything but the results.
    fn write(&mut self, program: &Program, id: JaxprId, text: &mut Text) {
        let jaxpr = program.jaxpr(id);
        jaxpr.vars.hash(text);
        jaxpr.inputs.hash(text);
        jaxpr.consts.len().hash(text);
        for (var, constant) in &jaxpr.consts {
            (var, constant.is_operand()).hash(text);
            if constant.is_operand() {
                text.operands.push(constant.clone());
            } else {
                write_tensor(&constant.tensor, text);
            }
        }
        jaxpr.eqns.len().hash(text);
        for Eqn { primitive, inputs, outputs, params, external, .. } in &jaxpr.eqns {
            // The parameters do not contain everything that an external rule reads of an equation.
            (primitive, outputs, inputs.len(), params.0.len(), external).hash(text);
            inputs.iter().for_each(|atom| write_atom(atom, text));
            for (name, param) in &params.0 {
                name.hash(text);
                self.write_param(program, param, text);
            }
        }
    }

    fn write_param(&mut self, program: &Program, param: &Param, text: &mut Text) {
        std::mem::discriminant(param).hash(text);
        match param {
            Param::None => {}
            Param::Bool(value) => value.hash(text),
            Param::Int(value) => value.hash(text),
            Param::Float(value) => value.to_bits().hash(text),
            Param::Str(value) | Param::Enum(value) => value.hash(text),
            // Opaque values cannot be compared.
            Param::Opaque(_) => {
                self.unknown += 1;
                self.unknown.hash(text);
            }
            Param::DType(value) => value.hash(text),
            Param::Dim(value) => value.hash(text),
            Param::Tensor(value) => write_tensor(value, text),
            Param::List(items) => {
                items.len().hash(text);
                items.iter().for_each(|item| self.write_param(program, item, text));
            }
            Param::Fields(fields) => {
                fields.len().hash(text);
                for (name, field) in fields {
                    name.hash(text);
                    self.write_param(program, field, text);
                }
            }
            Param::Jaxpr(id) => {
                let (class, operands) = self.of(program, *id);
                class.hash(text);
                text.operands.extend_from_slice(operands);
            }
        }
    }
}

/// A hasher that collects its input instead of a hash.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    /// The constants that this jaxpr and its inner jaxprs take as operands.
    operands: Vec<Constant>,
}

impl Text {
    /// Returns the encoding, including which of the constants share one array, and the constants.
    fn finished(mut self) -> (Vec<u8>, Vec<Constant>) {
        let mut seen = IndexSet::<_, FxBuildHasher>::default();
        let pattern = self.operands.iter().map(|c| seen.insert_full(c.array()).0);
        let pattern: Vec<usize> = pattern.collect();
        pattern.hash(&mut self);
        (self.bytes, self.operands)
    }
}

impl Hasher for Text {
    fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

fn write_atom(atom: &Atom, text: &mut Text) {
    match atom {
        Atom::Var(var) => (0u8, var).hash(text),
        Atom::Literal(tensor) => {
            1u8.hash(text);
            write_tensor(tensor, text);
        }
    }
}

fn write_tensor(tensor: &Tensor, text: &mut Text) {
    let bytes = tensor.bytes();
    let unknown = bytes.is_none().then(|| tensor.address());
    (tensor.dtype(), tensor.shape(), bytes, unknown).hash(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `true` if the two jaxprs that a program calls are of one class.
    fn are_alike(first: &str, second: &str) -> bool {
        let called = |jaxpr: &str| format!("jit[jaxpr={{ lambda ; a:f32[2]. let {jaxpr} }}]");
        let text = format!(
            "{{ lambda ; a:f32[2]. let b:f32[2] = {} a c:f32[2] = {} b in (c,) }}",
            called(first),
            called(second)
        );
        let program = crate::text::parse(&text, 1 << 20).unwrap().program;
        let main = program.jaxpr(program.main.unwrap());
        let mut alike = Alike::default();
        let classes: Vec<ClassId> = main
            .eqns
            .iter()
            .map(|eqn| match eqn.params.0.first() {
                Some((_, Param::Jaxpr(id))) => alike.class(&program, *id),
                other => unreachable!("{other:?}"),
            })
            .collect();
        classes[0] == classes[1]
    }

    #[test]
    fn equal_computations_are_alike() {
        for same in [
            "b:f32[2] = sin a in (b,)",
            "b:f32[2] = mul a 2.0:f32[] in (b,)",
            "b:f32[2] = f[x=(1, 2.5, \"s\", CLIP, f32, None, True)] a in (b,)",
            "b:f32[2] = f[x={1, 2}:i32[2] y=[z=1]] a in (b,)",
        ] {
            assert!(are_alike(same, same), "{same}");
        }
        assert!(are_alike("b:f32[2] = sin a in (b,)", "b:f32[2] = sin a :: \"scope\" in (b,)"));
    }

    #[test]
    fn different_computations_are_not_alike() {
        for (first, second) in [
            ("b:f32[2] = sin a in (b,)", "b:f32[2] = cos a in (b,)"),
            ("b:f32[2] = sin a in (b,)", "b:f32[2] = sin a in (a,)"),
            ("b:f32[2] = mul a 2.0:f32[] in (b,)", "b:f32[2] = mul a 3.0:f32[] in (b,)"),
            ("b:f32[2] = mul a 2.0:f32[] in (b,)", "b:f32[2] = mul a a in (b,)"),
            ("b:f32[2] = f[x=1] a in (b,)", "b:f32[2] = f[x=2] a in (b,)"),
            ("b:f32[2] = f[x=1] a in (b,)", "b:f32[2] = f[y=1] a in (b,)"),
            ("b:f32[2] = f[x=1] a in (b,)", "b:f32[2] = f[x=True] a in (b,)"),
            ("b:f32[2] = f[x=1.0] a in (b,)", "b:f32[2] = f[x=2.0] a in (b,)"),
            ("b:f32[2] = f[x=True] a in (b,)", "b:f32[2] = f[x=False] a in (b,)"),
            ("b:f32[2] = f[x=\"s\"] a in (b,)", "b:f32[2] = f[x=\"t\"] a in (b,)"),
            ("b:f32[2] = f[x=CLIP] a in (b,)", "b:f32[2] = f[x=FILL] a in (b,)"),
            ("b:f32[2] = f[x=f32] a in (b,)", "b:f32[2] = f[x=f16] a in (b,)"),
            ("b:f32[2] = f[x=dim \"b\"] a in (b,)", "b:f32[2] = f[x=dim \"t\"] a in (b,)"),
            ("b:f32[2] = f[x=(1, 2)] a in (b,)", "b:f32[2] = f[x=(1, 3)] a in (b,)"),
            ("b:f32[2] = f[x=(1, 2)] a in (b,)", "b:f32[2] = f[x=(1, 2, 3)] a in (b,)"),
            ("b:f32[2] = f[x=[y=1]] a in (b,)", "b:f32[2] = f[x=[y=2]] a in (b,)"),
            ("b:f32[2] = f[x={1, 2}:i32[2]] a in (b,)", "b:f32[2] = f[x={1, 3}:i32[2]] a in (b,)"),
            // Opaque values cannot be compared.
            ("b:f32[2] = f[x=opaque \"M\"] a in (b,)", "b:f32[2] = f[x=opaque \"M\"] a in (b,)"),
            (
                "b:f32[2] = jit[jaxpr={ lambda ; a:f32[2]. let c:f32[2] = sin a in (c,) }] a in (b,)",
                "b:f32[2] = jit[jaxpr={ lambda ; a:f32[2]. let c:f32[2] = cos a in (c,) }] a in (b,)",
            ),
        ] {
            assert!(!are_alike(first, second), "{first} and {second}");
        }
    }
}
