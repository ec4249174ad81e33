//! `convert`: conversion of recorded programs without Python.

use std::fs;

use crate::Run;
use crate::shell::{folder, output, path, run, trouble};

const PROGRAM: &str = r#"model[name="mlp" inputs=("x",) outputs=("y",) stacktrace="minimal"]
{ lambda a:f32[3,4] "kernel" = ...; b:f32[B,3]. let
    c:f32[B,4] = dot_general[
      dimension_numbers=(((1,), (0,)), ((), ()))
      precision=None
      preferred_element_type=f32
    ] b a :: "first" #0
  in (c,) }
frames 0 user "model.py" "MLP.__call__" 3:4 3:9
links 0 0
stacks #0 0
"#;

fn written(text: &str) -> (tempfile::TempDir, String, String) {
    let folder = folder();
    let (program, out) = (path(&folder, "m.jaxpr"), path(&folder, "m.onnx"));
    fs::write(&program, text).unwrap();
    (folder, program, out)
}

#[test]
fn a_program_becomes_a_model_that_knows_its_lines() {
    let (_folder, program, out) = written(PROGRAM);
    let Run { status, output: said, errors } = run(&format!("convert {program} -o {out}"));
    assert_eq!((status, said.as_str()), (0, ""));
    assert_eq!(
        errors,
        "note: the program was recorded without weights: 1 array has made-up values, so the \
         model's results are meaningless (`kernel` f32[3,4])\n"
    );
    let model = onnx_file::read(fs::read(&out).unwrap()).unwrap();
    let graph = model.graph.as_ref().unwrap();
    assert_eq!(graph.node[0].name, "/first/MatMul");
    assert_eq!(graph.initializer[0].name, "kernel");
    let prop = &graph.node[0].metadata_props[0];
    assert_eq!(prop.value, "MLP.__call__:3");
    let note = model.metadata_props.iter().find(|prop| prop.key == provenance::WEIGHTS).unwrap();
    assert_eq!(note.value, "1 array has made-up values");
}

#[test]
fn recorded_weights_are_not_remarked_on() {
    let values = ["0.5"; 12].join(", ");
    let (_folder, program, out) = written(&PROGRAM.replace("...", &format!("{{{values}}}")));
    assert_eq!(output(&format!("convert {program} -o {out}")), "");
    let model = onnx_file::read(fs::read(&out).unwrap()).unwrap();
    assert!(model.metadata_props.is_empty());
}

#[test]
fn unknown_primitives_are_reported_with_their_line() {
    let text = PROGRAM.replace("dot_general[", "no_such_primitive[");
    let (_folder, program, out) = written(&text.replace(
        "...",
        "{0.0, 1.0, 2.0, 3.0, 4.0, 5.0, \
        6.0, 7.0, 8.0, 9.0, 10.0, 11.0}",
    ));
    let Run { status, errors, .. } = run(&format!("convert {program} -o {out}"));
    assert_eq!(status, 1);
    assert!(errors.starts_with("UnsupportedError[unsupported-primitive] `no_such_primitive`"));
    assert!(errors.contains("--> model.py:3:5 in MLP.__call__ (first)"), "{errors}");
    assert!(!fs::exists(&out).unwrap());
}

#[test]
fn bad_programs_are_errors() {
    let cases = [
        (
            "{ lambda ; a:f32[]. let\n b:f32[] = neg c in (b,) }",
            "line 2, column 16: the variable `c`",
        ),
        (
            "model[names=1] { lambda ; . let in () }",
            "has no field `names`; there are: made_by, name",
        ),
        ("model[opset=\"new\"] { lambda ; . let in () }", "parameter `opset`: expected an integer"),
        ("model[stacktrace=\"all\"] { lambda ; . let in () }", "expected off, minimal, full or"),
        (
            "model[inputs=(\"x\",)] { lambda ; . let in () }",
            "the number of names is 1, but the number of inputs is 0",
        ),
        (
            "{ lambda ; a:f32[]. let b:f32[] = mine a :: external in (b,) }",
            "rules written in Python",
        ),
        ("{ lambda a:f32[99999999,99999999] = ...; . let in (a,) }", "exceeds the memory limit"),
    ];
    for (text, message) in cases {
        let (_folder, program, out) = written(text);
        let errors = trouble(&format!("convert {program} -o {out}"));
        assert!(errors.contains(message), "{errors}");
    }
    let (_folder, program, _) = written("{ lambda ; . let in () }");
    assert!(
        trouble(&format!("convert {program} -o {program}")).contains("would overwrite the program")
    );
    fs::write(&program, [0xff, 0xfe]).unwrap();
    let errors = trouble(&format!("convert {program} -o {program}.onnx"));
    assert!(errors.contains("this is not a recorded program"), "{errors}");
}

#[test]
fn equations_that_are_not_as_jax_makes_them_are_errors() {
    // Rules assume that `add` has two operands.
    let (_folder, program, out) = written("{ lambda ; a:f32[]. let b:f32[] = add in (b,) }");
    let Run { status, errors, .. } = run(&format!("convert {program} -o {out}"));
    assert!(status == 1 || status == 2, "{errors}");
    assert!(!errors.is_empty());
}

#[test]
fn deep_programs_convert() {
    let mut text = "@0 = { lambda ; a:f32[]. let b:f32[] = neg a in (b,) }\n".to_owned();
    for i in 1..200 {
        let call = format!("b:f32[] = jit[jaxpr=@{} name=\"f\"] a", i - 1);
        text += &format!("@{i} = {{ lambda ; a:f32[]. let {call} in (b,) }}\n");
    }
    text += "{ lambda ; a:f32[]. let b:f32[] = jit[jaxpr=@199 name=\"f\"] a in (b,) }";
    let (_folder, program, out) = written(&text);
    output(&format!("convert {program} -o {out}"));
}
