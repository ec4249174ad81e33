//! Programs of elementwise equations on one type, written as `result = primitive(operands) @calls`.

use provenance::{StackId, Stacks};
use tensor::{DType, Dim, Tensor, Type};

use super::*;
use crate::{Alike, Constant};

/// The calls that an equation belongs to: for each, its number and its function.
type Marks<'a> = &'a [(&'a str, &'a str)];

struct Text {
    jaxpr: Jaxpr,
    names: FxHashMap<&'static str, VarId>,
}

impl Text {
    fn new(inputs: &[&'static str]) -> Self {
        let mut text = Self { jaxpr: Jaxpr::default(), names: FxHashMap::default() };
        text.jaxpr.inputs = inputs.iter().map(|name| text.var(name)).collect();
        text
    }

    fn var(&mut self, name: &'static str) -> VarId {
        let vars = &mut self.jaxpr.vars;
        *self.names.entry(name).or_insert_with(|| {
            vars.push(Type::new(DType::F32, [Dim::Known(2)]));
            VarId(u32::try_from(vars.len() - 1).unwrap())
        })
    }

    fn eqn(
        mut self,
        result: &'static str,
        primitive: &str,
        inputs: &[&'static str],
        marks: Marks<'_>,
    ) -> Self {
        let mut scope = String::new();
        let mut functions = Vec::new();
        for (depth, (call, name)) in marks.iter().enumerate() {
            let outer = scope.len();
            scope.push_str(if depth == 0 { "m" } else { "/m" });
            let function = Function {
                name: (*name).into(),
                namespace: "custom".into(),
                unique: false,
                module: name.starts_with("Module"),
            };
            let (function, call) = (Arc::new(function), (*call).into());
            functions.push(Entered { function, call, outer, depth });
        }
        let inputs = inputs.iter().map(|name| Atom::Var(self.var(name))).collect();
        let outputs = vec![self.var(result)];
        self.jaxpr.eqns.push(Eqn {
            primitive: primitive.into(),
            inputs,
            outputs,
            params: Params::default(),
            stack: None,
            scope: scope.into(),
            external: None,
            functions: functions.into(),
        });
        self
    }

    fn outlined(mut self, results: &[&'static str]) -> Program {
        self.jaxpr.outputs = results.iter().map(|name| Atom::Var(self.var(name))).collect();
        let mut program =
            Program { jaxprs: vec![self.jaxpr], main: Some(JaxprId(0)), ..Program::default() };
        outline(&mut program, &mut |stack, _, _| stack);
        program
    }
}

/// Summarises a jaxpr: the number of inputs, primitives or names of callees, the number of results.
fn shape(program: &Program, id: u32) -> String {
    let jaxpr = program.jaxpr(JaxprId(id));
    let eqns = jaxpr.eqns.iter().map(|eqn| match eqn.params.get::<Arc<str>>("name") {
        Ok(name) => format!("{name}({})", eqn.outputs.len()),
        Err(_) => eqn.primitive.to_string(),
    });
    let eqns: Vec<String> = eqns.collect();
    format!("{} -> {} -> {}", jaxpr.inputs.len(), eqns.join(" "), jaxpr.outputs.len())
}

#[test]
fn equations_of_one_call_become_one() {
    let text = Text::new(&["x", "w"])
        .eqn("a", "sin", &["x"], &[])
        .eqn("b", "mul", &["a", "w"], &[("1", "F")])
        .eqn("c", "cos", &["b"], &[("1", "F")])
        .eqn("d", "mul", &["c", "w"], &[("2", "F")])
        .eqn("e", "cos", &["d"], &[("2", "F")])
        .eqn("f", "sin", &["e"], &[]);
    let program = text.outlined(&["f"]);
    assert_eq!(shape(&program, 0), "2 -> sin F(1) F(1) sin -> 1");
    assert_eq!([shape(&program, 1), shape(&program, 2)], ["2 -> mul cos -> 1"; 2]);
    let mut alike = Alike::default();
    assert_eq!(alike.class(&program, JaxprId(1)), alike.class(&program, JaxprId(2)));
}

#[test]
fn an_interrupted_call_is_two() {
    let text = Text::new(&["x"])
        .eqn("a", "sin", &["x"], &[("1", "F")])
        .eqn("b", "neg", &["a"], &[])
        .eqn("c", "cos", &["b"], &[("1", "F")]);
    assert_eq!(shape(&text.outlined(&["c"]), 0), "1 -> F(1) neg F(1) -> 1");
}

#[test]
fn inner_calls_are_inside_outer_ones() {
    let text = Text::new(&["x"])
        .eqn("a", "sin", &["x"], &[("1", "F")])
        .eqn("b", "cos", &["a"], &[("1", "F"), ("2", "G")])
        .eqn("c", "neg", &["b"], &[("1", "F")]);
    let program = text.outlined(&["c"]);
    assert_eq!(shape(&program, 0), "1 -> F(1) -> 1");
    assert_eq!(shape(&program, 1), "1 -> sin G(1) neg -> 1");
    let scopes = |id| program.jaxpr(JaxprId(id)).eqns.iter().map(|e| e.scope.to_string());
    assert_eq!(scopes(0).collect::<Vec<_>>(), [""]);
    assert_eq!(scopes(1).collect::<Vec<_>>(), ["m", "m", "m"]);
    assert_eq!(scopes(2).collect::<Vec<_>>(), ["m"]);
}

#[test]
fn a_module_that_covers_the_program_is_not_outlined() {
    let marks: Marks<'_> = &[("1", "Module")];
    let text = |name| Text::new(&["x"]).eqn("a", "sin", &["x"], &[("1", name)]);
    assert_eq!(shape(&text("Module").outlined(&["a"]), 0), "1 -> sin -> 1");
    assert_eq!(shape(&text("F").outlined(&["a"]), 0), "1 -> F(1) -> 1");
    let more = Text::new(&["x"]).eqn("a", "sin", &["x"], marks).eqn("b", "cos", &["a"], &[]);
    assert_eq!(shape(&more.outlined(&["b"]), 0), "1 -> Module(1) cos -> 1");
}

#[test]
fn alike_calls_return_the_union_of_their_results() {
    let text = Text::new(&["x"])
        .eqn("a", "sin", &["x"], &[("1", "F")])
        .eqn("b", "cos", &["a"], &[("1", "F")])
        .eqn("c", "add", &["a", "b"], &[])
        .eqn("d", "sin", &["c"], &[("2", "F")])
        .eqn("e", "cos", &["d"], &[("2", "F")]);
    let program = text.outlined(&["e"]);
    assert_eq!(shape(&program, 0), "1 -> F(2) add F(2) -> 1");
    let main = program.jaxpr(JaxprId(0));
    let results: Vec<usize> =
        main.eqns.iter().flat_map(|eqn| &eqn.outputs).map(|var| var.0 as usize).collect();
    assert!(results.iter().all(|var| *var < main.vars.len()), "every result has a type");
}

#[test]
fn other_calls_of_one_name_keep_their_results() {
    let text = Text::new(&["x"])
        .eqn("a", "sin", &["x"], &[("1", "F")])
        .eqn("b", "cos", &["a"], &[("1", "F")])
        .eqn("c", "add", &["a", "b"], &[])
        .eqn("d", "neg", &["c"], &[("2", "F")])
        .eqn("e", "tanh", &["d"], &[("2", "F")]);
    assert_eq!(shape(&text.outlined(&["e"]), 0), "1 -> F(2) add F(1) -> 1");
}

#[test]
fn only_functions_share_their_results() {
    let called = |results: &str| {
        format!(
            "closed_call[call_jaxpr={{ lambda ; a:f32[2]. let b:f32[2] = sin a c:f32[2] = cos b \
             in ({results}) }}] a"
        )
    };
    let text = format!(
        "{{ lambda ; a:f32[2]. let b:f32[2] c:f32[2] = {} d:f32[2] = {} in (b, c, d) }}",
        called("b, c"),
        called("c")
    );
    let mut program = crate::text::parse(&text, 0).unwrap().program;
    crate::results::share_results(&mut program);
    let main = program.jaxpr(program.main.unwrap());
    assert_eq!(main.eqns.iter().map(|eqn| eqn.outputs.len()).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn calls_without_used_results_are_not_outlined() {
    let text =
        Text::new(&["x"]).eqn("a", "sin", &["x"], &[("1", "F")]).eqn("b", "cos", &["x"], &[]);
    assert_eq!(shape(&text.outlined(&["b"]), 0), "1 -> sin cos -> 1");
}

#[test]
fn small_constants_are_code_and_parameters_are_operands() {
    let body = |length: usize, name: Option<&str>| {
        let mut text = Text::new(&[]);
        let var = text.var("w");
        let (tensor, name) = (Tensor::i64s(&vec![1; length]), name.map(Into::into));
        text.jaxpr.consts.push((var, Constant { tensor, name }));
        shape(&text.eqn("a", "sin", &["w"], &[("1", "F")]).outlined(&["a"]), 1)
    };
    assert_eq!(body(1, None), "0 -> sin -> 1");
    assert_eq!(body(1, Some("w")), "1 -> sin -> 1");
    assert_eq!(body(0, Some("w")), "0 -> sin -> 1");
    // 64 bytes are small.
    assert_eq!(body(8, None), "0 -> sin -> 1");
    assert_eq!(body(9, None), "1 -> sin -> 1");
}

#[test]
fn opaque_parameters_prevent_sharing() {
    let jaxpr = |param: Param| {
        let mut text = Text::new(&["x"]).eqn("a", "mystery", &["x"], &[]);
        text.jaxpr.eqns[0].params = Params(vec![("how".into(), param)]);
        text.jaxpr
    };
    let differ = |param: Param| {
        let program = Program {
            jaxprs: vec![jaxpr(param.clone()), jaxpr(param)],
            main: None,
            ..Program::default()
        };
        let mut alike = Alike::default();
        alike.class(&program, JaxprId(0)) != alike.class(&program, JaxprId(1))
    };
    assert!(!differ(Param::Float(0.5)));
    assert!(differ(Param::Opaque("function".into())));
}

#[test]
fn sharing_of_arrays_is_part_of_the_class() {
    let arrays = [Tensor::i64s(&[1; 20]), Tensor::i64s(&[1; 20])];
    let jaxpr = |second: usize| {
        let mut text = Text::new(&[]);
        for (name, array) in [("v", 0), ("w", second)] {
            let constant = Constant { tensor: arrays[array].clone(), name: None };
            let var = text.var(name);
            text.jaxpr.consts.push((var, constant));
        }
        text.eqn("a", "add", &["v", "w"], &[]).jaxpr
    };
    let program =
        Program { jaxprs: vec![jaxpr(0), jaxpr(1), jaxpr(1)], main: None, ..Program::default() };
    let mut alike = Alike::default();
    let classes: Vec<_> = (0..3).map(|id| alike.class(&program, JaxprId(id))).collect();
    assert_ne!(classes[0], classes[1]);
    assert_eq!(classes[1], classes[2]);
    assert_eq!(alike.operands(&program, JaxprId(0)).len(), 1);
    assert_eq!(alike.operands(&program, JaxprId(1)).len(), 2);
}

#[test]
fn stacks_are_cut_where_functions_are_called() {
    let mut stacks = Stacks::default();
    let stack: StackId = stacks.reserve();
    let mut text = Text::new(&["x"]).eqn("a", "sin", &["x"], &[("1", "F")]).eqn(
        "b",
        "cos",
        &["a"],
        &[("1", "F"), ("2", "G")],
    );
    text.jaxpr.eqns.iter_mut().for_each(|eqn| eqn.stack = Some(stack));
    text.jaxpr.outputs = vec![Atom::Var(text.names["b"])];
    let mut program =
        Program { jaxprs: vec![text.jaxpr], main: Some(JaxprId(0)), ..Program::default() };
    let mut cuts = Vec::new();
    outline(&mut program, &mut |stack, inside, outside| {
        cuts.push((inside, outside));
        stack
    });
    cuts.sort_unstable();
    let expected = [(None, Some(0)), (Some(0), None), (Some(0), Some(1)), (Some(1), None)];
    assert_eq!(cuts, expected);
}
