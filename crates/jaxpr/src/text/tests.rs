mod random;

use tensor::{DType, Dim};

use super::*;
use crate::{Atom, JaxprId, Param};

const LIMIT: usize = 1 << 20;

fn printed(document: &Document, weights: bool) -> String {
    let Document { header, program, stacks, entry, .. } = document;
    print(&Printed { header, program, stacks: Some(stacks), entry: *entry, weights })
}

/// Parses a text and prints it again.
fn again(text: &str) -> String {
    printed(&parse(text, LIMIT).unwrap(), true)
}

const EVERYTHING: &str = r#"model[
  name="mlp"
  opset=23
  inputs=("x", "y")
  detail=None
]
where "b >= 4"
where "mod(b, 2) == 0"
%0 = f32[2,2] {1.0, -0.0, nan, 1e-45}
%1 = f32[4] %0
@0 = { lambda a:f32[4] = %1; b:f32[2,2]. let
    c:f32[2,2] = mul b b
  in (c,) }
{ lambda a:f32[2,2] "dense.kernel" = %0 b:i32[3] = {1, -2, 3}; c:f32[2,b + 1] d:c64[]. let
    e:f32[2,2] = jit[jaxpr=@0 name="square"] a :: "mlp/first" #0
    f:f32[2,2] = jit[jaxpr=@0 name="square"] a :: #1
    g:f32[2,2] = cond[
      branches=({ lambda ; a:f32[2,2]. let
          b:f32[2,2] = neg a
        in (b,) }, { lambda ; a:f32[2,2]. let
        in (a,) })
      linear=(False, False)
    ] 1:i32[] f
    h:f32[] _:bool[2] = reduce[
      "a b"=1.5
      dims=[x=(), y=(1,) z=None]
      mode=CLIP
      kind=enum "f32"
      ty=bf16
      size=dim "2*b + 1"
      mesh=opaque "Mesh"
      low=-inf
      bits=0x7ff8000000000001
      table={1, 2}:i64[2]
      one=True:bool[]
      mask={False, True}:bool[2]
    ] g 2.5:f32[] {1.0, -2.0}:c64[] 0x7fc00001:f32[] 1.5:bf16[] {0x38, 0x7f}:f8e4m3fn[2] True:bool[]
    = debug_print[fmt="a \"quoted\"\\ line\nand another"] h :: external
    i:f32[2,2] = scatter-add e f
  in (i, d, 1:i32[]) }
frames
  0 user "train.py" "main" 9:0 9:12
  1 user "model.py" "MLP.__call__" 41:8 41:30
  2 library "flax/nnx.py" "Module.__call__" 1:2 3:4
links
  0 0
  1 1 from 0
  2 2
stacks
  #0 1
  #1 1
  #2 2
entry #2
"#;

#[test]
fn everything_is_printed_as_it_was_read() {
    let text = EVERYTHING.replace("x=(), y", "x=() y");
    assert_eq!(again(EVERYTHING), text);
    assert_eq!(again(&text), text);
    let document = parse(EVERYTHING, LIMIT).unwrap();
    assert_eq!(document.external.iter().map(|name| &**name).collect::<Vec<_>>(), ["debug_print"]);
    assert_eq!(document.header.get::<Vec<Arc<str>>>("inputs").unwrap(), ["x".into(), "y".into()]);
    let main = document.program.jaxpr(document.program.main.unwrap());
    let [first, second, .., scatter] = main.eqns.as_slice() else { unreachable!() };
    assert_ne!(first.stack, second.stack, "stacks of equal frames are two stacks");
    let lines = |stack: Option<_>| document.stacks.frames(stack.unwrap()).map(|f| f.span.line);
    assert_eq!(lines(first.stack).collect::<Vec<_>>(), [41, 9]);
    assert_eq!(&*scatter.primitive, "scatter-add");
    let longest = &main.ty(main.inputs[0]).shape[1];
    assert!(tensor::bounds::at_least(longest, 5), "constraints apply to the sizes of the text");
}

#[test]
fn one_array_stays_one_array() {
    let document = parse(EVERYTHING, LIMIT).unwrap();
    let constants = document.program.jaxprs.iter().flat_map(|jaxpr| &jaxpr.consts);
    let addresses: Vec<_> = constants.map(|(_, c)| c.tensor.address()).collect();
    let [inner, outer, other] = addresses.as_slice() else { unreachable!() };
    assert_eq!(inner, outer);
    assert_ne!(inner, other);
}

#[test]
fn elements_are_read_bit_for_bit() {
    for dtype in DType::all() {
        let mut random = random::Random::new(dtype as u64 + 1);
        let length = dtype.byte_len(64);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        if dtype == DType::Bool {
            bytes.iter_mut().for_each(|byte| *byte &= 1);
        }
        let tensor = tensor::Tensor::new(dtype, &[64], Arc::new(bytes)).unwrap();
        let text = format!("{{ lambda ; . let in ({}:{dtype}[64]) }}", array::elements(&tensor));
        let document = parse(&text, LIMIT).unwrap();
        let outputs = &document.program.jaxprs[0].outputs;
        let [Atom::Literal(read)] = outputs.as_slice() else { unreachable!() };
        assert_eq!(read, &tensor, "{text}");
        assert!(again(&text).contains("base64") == (length >= 512), "{text}");
        assert_eq!(again(&again(&text)), again(&text));
    }
}

#[test]
fn weights_are_left_out_by_default() {
    let floats = vec!["0.5"; 17].join(", ");
    let ints = vec!["3"; 17].join(", ");
    let text = format!(
        "{{ lambda a:f32[1] \"bias\" = {{0.5}} b:f32[17] = {{{floats}}} c:i32[17] = {{{ints}}} \
         d:f32[1] = {{0.5}} e:f32[1] \"scale\" = {{0.25}}; . let in (a,) }}"
    );
    let document = parse(&text, LIMIT).unwrap();
    let short = printed(&document, false);
    let first = short.lines().next().unwrap();
    assert_eq!(
        first,
        format!(
            "{{ lambda a:f32[1] \"bias\" = ... b:f32[17] = ... c:i32[17] = {{{ints}}} \
             d:f32[1] = {{0.5}} e:f32[1] \"scale\" = ...; . let"
        )
    );
    let elided = parse(&short, LIMIT).unwrap();
    let names: Vec<_> =
        elided.elided.iter().map(|(name, ty)| (name.as_deref(), ty.to_string())).collect();
    let expected = [(Some("bias"), "f32[1]"), (None, "f32[17]"), (Some("scale"), "f32[1]")];
    assert_eq!(names, expected.map(|(name, ty)| (name, ty.to_owned())));
    let consts = &elided.program.jaxprs[0].consts;
    assert_ne!(consts[0].1.tensor, consts[4].1.tensor, "no two are the same array");
    assert_eq!(printed(&elided, false), short);
    let firsts = consts.iter().filter(|(_, c)| c.tensor.dtype() == DType::F32);
    let firsts: Vec<f64> = firsts.map(|(_, c)| c.tensor.to_f64s().unwrap()[0]).collect();
    assert!(firsts.iter().all(|first| (0.0..=0.5).contains(first) && *first > 0.0), "{firsts:?}");
}

#[test]
fn errors_have_a_position_and_a_reason() {
    let cases = [
        ("", "line 1, column 1: expected `{`, found the end of the text"),
        (
            "{ lambda ; a:f32[2]. let\n  b:f32[2] = neg c\n  in (b,) }",
            "line 2, column 18: the variable `c` is not defined",
        ),
        (
            "{ lambda ; a:f32[2]. let b:f32[2] = neg b in (b,) }",
            "line 1, column 41: the variable `b` is not defined",
        ),
        ("{ lambda ; a:f32[2] a:f32[]. let in () }", "line 1, column 21: `a` is defined twice"),
        (
            "{ lambda ; a:float[2]. let in () }",
            "line 1, column 14: expected an element type, found `float`",
        ),
        (
            "{ lambda ; a:f32[2,]. let in () }",
            "line 1, column 20: cannot read the dimension ``: expected a number, a variable or `(` at column 1",
        ),
        (
            "{ lambda a:f32[2] = {1.0}; . let in () }",
            "line 1, column 21: a f32 tensor of shape [2] needs 8 bytes, but got 4",
        ),
        (
            "{ lambda a:i8[1] = {300}; . let in () }",
            "line 1, column 21: 300 is out of range for i8",
        ),
        (
            "{ lambda a:f8e4m3fn[1] = {0.5}; . let in () }",
            "line 1, column 27: elements of type f8e4m3fn are written as 0x…",
        ),
        (
            "{ lambda a:i8[1] = {0x100}; . let in () }",
            "line 1, column 21: `0x100` is not a number of type i8",
        ),
        (
            "{ lambda a:bool[1] = {1}; . let in () }",
            "line 1, column 23: a bool is True or False, not `1`",
        ),
        ("{ lambda a:f32[1] = %3; . let in () }", "line 1, column 22: `%3` is not defined"),
        (
            "{ lambda a:f32[1048576] = ...; . let in () }",
            "line 1, column 27: an array of type f32[1048576] exceeds the memory limit for arrays",
        ),
        ("{ lambda ; . let = jit[jaxpr=@1] in () }", "line 1, column 31: `@1` is not defined"),
        (
            "{ lambda ; . let = f[a=(1 2)] in () }",
            "line 1, column 27: expected `,` or `)`, found `2`",
        ),
        ("{ lambda ; . let = f[a=\"b] in () }", "line 1, column 24: the string is not closed"),
        ("{ lambda ; . let in ()", "line 1, column 23: expected `}`, found the end of the text"),
        (
            "{ lambda ; . let in () } more",
            "line 1, column 26: expected the end of the text, found `more`",
        ),
        ("{ lambda ; . let in () }\nlinks 0 7", "line 2, column 9: a frame 7 is not defined"),
        ("é", "line 1, column 1: unexpected character 'é'"),
        (
            "{ lambda ; a:f32[2",
            "line 1, column 19: expected one of [',', ']'], found the end of the text",
        ),
        ("{ lambda ; a:f32[,2]. let in () }", "line 1, column 18: expected a dimension, found `,`"),
    ];
    for (text, message) in cases {
        assert_eq!(parse(text, LIMIT).unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn limits_are_inclusive() {
    let is_read = |text: &str, limit: usize| parse(text, limit).is_ok();
    let nested = |depth: usize| {
        let (open, close) = ("(".repeat(depth), ",)".repeat(depth - 1));
        format!("{{ lambda ; . let = f[a={open}){close}] in () }}")
    };
    assert!(is_read(&nested(47), 0) && !is_read(&nested(48), 0));
    let constraint = |length: usize| {
        let blanks = " ".repeat(length - "b >= 4".len());
        format!("where \"b >= 4{blanks}\" {{ lambda ; . let in () }}")
    };
    assert!(is_read(&constraint(1024), 0) && !is_read(&constraint(1025), 0));
    let dimension =
        |blanks: usize| format!("{{ lambda ; a:f32[2{}]. let in () }}", " ".repeat(blanks));
    assert!(is_read(&dimension(1024), 0) && !is_read(&dimension(1025), 0));
    let elided = "{ lambda a:f32[2] = ...; . let in () }";
    assert!(is_read(elided, 8) && !is_read(elided, 7));
}

#[test]
fn variables_have_short_names_that_are_no_keywords() {
    let eqns: String = (0..300).map(|i| format!("v{}:f32[] = sin v{i}\n", i + 1)).collect();
    let text = again(&format!("{{ lambda ; v0:f32[]. let {eqns} in (v300,) }}"));
    assert!(text.contains("z:f32[] = sin y\n    aa:f32[] = sin z\n    ab:f32[] = sin aa"));
    assert!(text.contains("io:f32[] = sin im") && text.contains("ba:f32[] = sin az"));
    assert_eq!(again(&text), text);
}

#[test]
fn short_parameters_are_on_one_line_and_plain_names_are_not_quoted() {
    let eqn = |length: usize| {
        let text = format!("{{ lambda ; . let = f[x=\"{}\"] in () }}", "a".repeat(length));
        again(&text).lines().count()
    };
    assert_eq!((eqn(67), eqn(68)), (3, 5));
    let names = "{ lambda ; . let\n    = _f-_g[_x=1 \"1x\"=2 \"x y\"=3]\n  in () }\n";
    assert_eq!(again(names), names);
}

#[test]
fn arrays_are_written_by_their_size() {
    let line = |array: &str, length: usize, element: &str, weights: bool| {
        let elements = vec![element; length].join(", ");
        let text = format!("{{ lambda {array} = {{{elements}}}; . let in (a,) }}");
        let text = text.replace("LENGTH", &length.to_string());
        let text = printed(&parse(&text, LIMIT).unwrap(), weights);
        text.lines().next().unwrap().to_owned()
    };
    assert!(line("a:f32[LENGTH]", 127, "1.5", true).starts_with("{ lambda a:f32[127] = {1.5, "));
    assert!(line("a:f32[LENGTH]", 128, "1.5", true).starts_with("%0 = f32[128] base64 "));
    assert!(line("a:i32[LENGTH]", 1024, "3", false).contains("= {3, 3"));
    assert!(line("a:i32[LENGTH]", 1025, "3", false).contains("= ...;"));
    assert!(line("a:f32[LENGTH] \"w\"", 0, "", false).contains("= {};"));
    assert!(line("a:f32[LENGTH] \"w\"", 1, "1.5", false).contains("= ...;"));
}

#[test]
fn depth_is_bounded() {
    let deep = |n: usize| "{ lambda ; . let = jit[jaxpr=".repeat(n) + "{";
    for text in ["f[a=".repeat(10_000), "(".repeat(10_000), deep(10_000)] {
        let text =
            if text.starts_with('{') { text } else { format!("{{ lambda ; . let = f[a={text}") };
        let error = parse(&text, LIMIT).unwrap_err().to_string();
        assert!(
            error.ends_with("this is nested too deeply") || error.contains("expected"),
            "{error}"
        );
    }
    let mut chain = "@0 = { lambda ; . let in () }\n".to_owned();
    for i in 1..1000 {
        chain += &format!("@{i} = {{ lambda ; . let = jit[jaxpr=@{}] in () }}\n", i - 1);
    }
    let error = parse(&chain, LIMIT).unwrap_err();
    assert_eq!((error.line, error.reason.as_str()), (202, "calls of jaxprs are nested too deeply"));
}

#[test]
fn deep_programs_are_printed_in_pieces() {
    let mut document = Document::default();
    for i in 0..100u32 {
        let mut jaxpr = crate::Jaxpr::default();
        if let Some(inner) = i.checked_sub(1) {
            let jaxpr_param = ("jaxpr".into(), Param::Jaxpr(JaxprId(inner)));
            jaxpr.eqns.push(crate::Eqn {
                primitive: "jit".into(),
                inputs: vec![],
                outputs: vec![],
                params: Params(vec![jaxpr_param]),
                stack: None,
                scope: "".into(),
                external: None,
                functions: Arc::new([]),
            });
        }
        document.program.jaxprs.push(jaxpr);
    }
    document.program.main = Some(JaxprId(99));
    let text = printed(&document, true);
    assert_eq!(again(&text), text);
    assert_eq!(parse(&text, LIMIT).unwrap().program.jaxprs.len(), 100);
}

#[test]
fn random_programs_round_trip() {
    for seed in 0..300 {
        let document = random::document(seed);
        let text = printed(&document, true);
        let read = parse(&text, LIMIT).unwrap_or_else(|error| unreachable!("{error}\n{text}"));
        random::assert_same(&document, &read);
        assert_eq!(printed(&read, true), text);
        // Without weights, everything but the arrays is the same.
        let short = printed(&document, false);
        assert_eq!(printed(&parse(&short, LIMIT).unwrap(), false), short);
    }
}

#[test]
fn known_dimensions_are_integers() {
    let text = "{ lambda ; . let = f[a=dim \"2 + 1\" b=(dim \"n\",)] in () }";
    let document = parse(text, LIMIT).unwrap();
    let params = &document.program.jaxprs[0].eqns[0].params;
    assert_eq!(params.get::<i64>("a").unwrap(), 3);
    assert_eq!(params.get::<Vec<Dim>>("b").unwrap(), [Dim::var("n")]);
}
