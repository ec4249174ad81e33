//! A model that covers the encoder: parameters, constants, a function, a branch and a loop.

use std::panic::Location;
use std::sync::Arc;

use onnx::{Attr, Attrs, BlockId, Function, Graph, Op, ValueId, assign_names, attrs};
use provenance::{Emitter, OriginId, Origins, Stage};
use tensor::{DType, Dim, Tensor, Type};

pub(crate) const SCALE: Op = Op { domain: "pkg.test", name: "Scale" };

pub(crate) struct Sample {
    pub(crate) graph: Graph,
    pub(crate) origins: Origins,
}

impl Sample {
    pub(crate) fn empty() -> Self {
        Self { graph: Graph::new("sample"), origins: Origins::default() }
    }

    pub(crate) fn origin(&mut self, scope: &str) -> OriginId {
        let scope = self.origins.scope(Origins::ROOT, scope);
        let emitter = Emitter { name: "test", stage: Stage::Lower, at: Location::caller().into() };
        self.origins.origin(None, scope, emitter)
    }

    /// Adds a node with results of the given types.
    pub(crate) fn node(
        &mut self,
        block: BlockId,
        (scope, op): (&str, Op),
        inputs: &[ValueId],
        attrs: Attrs,
        types: &[Type],
    ) -> Vec<ValueId> {
        let origin = self.origin(scope);
        let inputs = inputs.iter().map(|v| Some(*v)).collect();
        let node = self.graph.add_node(block, None, (op, inputs, attrs), types.to_vec(), origin);
        self.graph.node(node).outputs.clone()
    }

    /// Adds a node with one result in the root scope.
    pub(crate) fn op(
        &mut self,
        block: BlockId,
        op: &'static str,
        inputs: &[ValueId],
        ty: &Type,
    ) -> ValueId {
        self.node(block, ("", Op::onnx(op)), inputs, Attrs::new(), std::slice::from_ref(ty))[0]
    }

    pub(crate) fn scalar(&mut self, value: i64) -> ValueId {
        self.graph.intern_constant(Tensor::i64s(&[value]).reshaped(&[]).unwrap())
    }
}

pub(crate) fn floats(shape: &[usize], values: impl IntoIterator<Item = f32>) -> Tensor {
    let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
    Tensor::new(DType::F32, shape, Arc::new(bytes)).unwrap()
}

pub(crate) fn f32_type(shape: &[Dim]) -> Type {
    Type::new(DType::F32, shape)
}

/// Returns the graph of `y = loop 3 times { a += bias } from (flag ? scale(x w) + 1 : scale(x w) *
/// 2)`, where `scale(h) = h * 2 + offset`, and `z = x w`.
pub(crate) fn sample() -> Sample {
    let mut s = Sample::empty();
    let main = Graph::MAIN;
    let wide = f32_type(&[Dim::var("b"), Dim::Known(300)]);
    let x = s.graph.add_input(main, f32_type(&[Dim::var("b"), Dim::Known(4)]));
    let flag = s.graph.add_input(main, Type::new(DType::Bool, []));
    let ramp = |n: u16| (0..n).map(|i| f32::from(i) / 64.0 - 4.0);
    let two = s.graph.intern_constant(floats(&[], [2.0]));
    let one = s.graph.intern_constant(floats(&[], [1.0]));
    let kernel = s.graph.add_constant(floats(&[4, 300], ramp(1200)));
    let bias = s.graph.add_constant(floats(&[300], ramp(300)));
    let offset = s.graph.add_constant(floats(&[300], ramp(300)));
    for (value, name) in [(x, "x"), (flag, "flag"), (kernel, "dense.kernel"), (bias, "dense.bias")]
    {
        s.graph.set_name(value, name.to_owned());
    }

    let body = s.graph.add_block();
    let h = s.graph.add_input(body, wide.clone());
    let doubled = s.op(body, "Mul", &[h, two], &wide);
    let shifted = s.op(body, "Add", &[doubled, offset], &wide);
    s.graph.set_outputs(body, &[shifted]);
    s.graph.functions.push(Function { op: SCALE, body });

    let one_wide = std::slice::from_ref(&wide);
    let matmul = ("blocks.3/q", Op::onnx("MatMul"));
    let h = s.node(main, matmul, &[x, kernel], Attrs::new(), one_wide)[0];
    let scaled = s.node(main, ("blocks.3", SCALE), &[h], Attrs::new(), one_wide)[0];

    let then_branch = s.graph.add_block();
    let plus = s.op(then_branch, "Add", &[scaled, one], &wide);
    s.graph.set_outputs(then_branch, &[plus]);
    let else_branch = s.graph.add_block();
    let times = s.op(else_branch, "Mul", &[scaled, two], &wide);
    s.graph.set_outputs(else_branch, &[times]);
    let branches = attrs! { then_branch: then_branch, else_branch: else_branch };
    let chosen = s.node(main, ("", Op::onnx("If")), &[flag], branches, one_wide)[0];

    let body = s.graph.add_block();
    s.graph.add_input(body, Type::new(DType::I64, []));
    let go_on = s.graph.add_input(body, Type::new(DType::Bool, []));
    let carry = s.graph.add_input(body, wide.clone());
    let kept = s.graph.add_input(body, wide.clone());
    let sum = s.op(body, "Add", &[carry, bias], &wide);
    s.graph.set_outputs(body, &[go_on, sum, kept]);
    let trips = s.scalar(3);
    let origin = s.origin("");
    let inputs = vec![Some(trips), None, Some(chosen), Some(h)];
    let attrs = vec![("body", Attr::Graph(body))];
    let node = (Op::onnx("Loop"), inputs, attrs);
    let looped = s.graph.add_node(main, None, node, vec![wide.clone(), wide], origin);
    let results = s.graph.node(looped).outputs.clone();
    for (value, name) in results.iter().zip(["y", "z"]) {
        s.graph.set_name(*value, name.to_owned());
    }
    s.graph.set_outputs(main, &results);
    assign_names(&mut s.graph, &s.origins);
    s
}
