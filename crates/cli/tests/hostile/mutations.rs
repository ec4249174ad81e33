//! A bounded run of each fuzz target.

use cli::fuzz;

use crate::measure::within;
use crate::mutate::{Random, mutate};
use crate::seed;

/// The maximum memory that a target may use for one small input.
const MEMORY: usize = 64 << 20;

/// Calls `target` with the seeds and with mutations of them. Set `FUZZ_ROUNDS` in the environment
/// for more mutations.
fn run(seeds: &[Vec<u8>], target: impl Fn(&[u8])) {
    let asked = std::env::var("FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    seeds.iter().for_each(|seed| target(seed));
    for round in 0..asked.unwrap_or(2_000) {
        let mut random = Random::new(round + 1);
        let seed = &seeds[random.below(seeds.len())];
        let other = &seeds[random.below(seeds.len())];
        let bytes = mutate(&mut random, seed, other);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            within(MEMORY, || target(&bytes));
        }));
        if let Err(why) = caught {
            eprintln!("round {round}: {:?}", String::from_utf8_lossy(&bytes));
            std::panic::resume_unwind(why);
        }
    }
}

#[test]
fn models() {
    let names = ["map.onnx", "minimal.onnx", "full.onnx", "off.onnx", "optimised.onnx"];
    run(&names.map(seed), fuzz::model);
}

#[test]
fn source_maps() {
    let packed = String::from_utf8(seed("beside.onnx.map")).unwrap();
    let json = br#"{"version":1,"files":[["m.py",null,"x = 1\n"]],"functions":["f"],
        "frames":[[0,0,1,4,1,9,0]],"stacks":[[0,-1],[0,0]],"scopes":["","a/b"],
        "emitters":[["add","lower","add.rs",3]],"calls":[[1,-1,-1],[0,0,0]],
        "origins":[[0,1,0,[]],[1,0,0,[0]]],"inputs":["x"],
        "nodes":[["/Add",0,[],[]],["/Mul",1,[0],["y"]]]}"#;
    run(&[packed.into_bytes(), json.to_vec()], fuzz::source_map);
}

#[test]
fn logs() {
    let model = seed("map.onnx");
    let logs = [
        "Non-zero status code returned while running Scan node. Name:'/Scan' Status Message: \
         Non-zero status code returned while running Add node. Name:'/Add' Status Message: \
         Attempting to broadcast an axis by a dimension other than 1. 3 by 5\n",
        "Node (/MatMul) Op (MatMul) [ShapeInferenceError] Incompatible dimensions\nIn Node, \
         (\"/Add\", Add, \"\", -1) : (\"x\": tensor(float),) -> () , Error No Op registered for Add",
        "\x1b[1;31mRequired inputs (['x', 'scale']) are missing from input feed ([]).\x1b[m",
        "Could not find any implementation for node {ForeignNode[/MatMul.../Add]}.\n[ONNX Layer: \
         /Scan\u{1f}ONNX Layer: /Reshape] PWN(/Add, /x/MatMulAddFusion)",
        "While validating ONNX node '<Node(Scan): /Scan_output_1>': Check 'a' failed at b.cpp:36:\n\
         Argument shapes are inconsistent.\n\nInput shape:{1,4}, requested shape:{3}",
    ];
    let logs: Vec<Vec<u8>> = logs.iter().map(|log| log.as_bytes().to_vec()).collect();
    run(&logs, |log| fuzz::log(&model, log));
}

#[test]
fn texts() {
    let texts = [
        r#"mlp (float[B,3] x, int64["4*b + 3"] n) => (float[B,4] y)
<
  float[3,4] "blocks.0.kernel" = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1e-20, -0.0, inf}
>
{
  ["/blocks.0/MatMul"] t = MatMul (x, "blocks.0.kernel")  # float[B,4]
  v0 = Constant <value_floats: floats = [0.5, 1.5, nan, -inf]> ()
  y = Add (t, v0)
}
"#,
        r#"branches (bool c, float[2] x) => (float[2] y)
{
  v0 = Constant <value: tensor = float16[2] {1.0, 0.5}> ()
  t = Cast <to: int = 1> (v0)
  y = If (c) <then_branch: graph = then_branch () => (float[2] a) {
    a = Add (x, t)
  }, else_branch: graph = else_branch () => (float[2] b) {
    b = Neg (x)
  }>
}
"#,
        r#"calls (float[1,1,4,4] x) => (float[1,1,2,2] y)
<
  int64[2] t
>
{
  s = local.twice (x)
  t = my.domain.Rank (s)
  y = MaxPool <auto_pad: string = "NOTSET", kernel_shape: ints = [2, 2], strides: ints = [2, 2]> (s)
}

<domain: "local">
twice (float[1,1,4,4] c) => (float[1,1,4,4] e)
{
  e = Add (c, c)
}
"#,
    ];
    let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    run(&texts, fuzz::text);
}

#[test]
fn programs() {
    let texts = [
        r#"model[name="mlp" opset=None inputs=("x",)]
%0 = f32[2,2] {1.0, -0.0, nan, 0x7fc00001}
%1 = f32[4] %0
@0 = { lambda a:f32[4] = %1; b:f32[2,2]. let
    c:f32[2,2] = mul b b
  in (c,) }
{ lambda a:f32[2,2] "kernel" = %0 d:f32[64] = ...; c:f32[2,b + 1]. let
    e:f32[2,2] = jit[jaxpr=@0 name="square"] a :: "mlp/first" #0
    f:f32[2,2] = jit[jaxpr={ lambda ; a:f32[2,2]. let in (a,) } ty=bf16 mode=CLIP] e :: #1 external
    h:f32[] _:bool[2] = reduce[dims=[x=() y=(1,)] size=dim "2*b + 1" t={1, 2}:i64[2]] f 2.5:f32[]
  in (h, e) }
frames
  0 user "train.py" "main" 9:0 9:12
  1 library "model.py" "MLP" 41:8 41:30
links 0 0 1 1 from 0
stacks #0 1 #1 1
entry #0
"#,
        "{ lambda a:u8[3] = base64 \"AQID\"; . let = f[a=opaque \"x\" b=enum \"f32\"] ...:f32[9] in (a,) } // end",
        "{ lambda ; a:c64[max(b, 2)]. let b:c64[] = g a {1.0, -inf}:c64[] in (b, True:bool[]) }",
    ];
    let texts: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    run(&texts, fuzz::program);
}
