//! Optimises models in ONNX's text syntax: `optimize [--fuel N] [--no-fuse] < in.txt > out.txt`.
//! The input may contain several models, separated by lines of `---`. The report goes to standard
//! error.

use std::io::Read as _;

use onnx::text::{parse, print};
use optimize::{Options, optimize};
use provenance::Origins;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--fuel" => options.fuel = Some(arguments.next().unwrap_or_default().parse()?),
            "--no-fuse" => options.fuse = false,
            _ => return Err(format!("unknown argument `{argument}`").into()),
        }
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    for model in text.split("\n---\n") {
        match optimized(model, &options) {
            Ok(text) => println!("{text}---"),
            Err(error) => println!("error: {error}\n---"),
        }
    }
    Ok(())
}

fn optimized(text: &str, options: &Options) -> Result<String, Box<dyn std::error::Error>> {
    let mut origins = Origins::default();
    let mut graph = parse(text, &mut origins)?;
    let report = optimize(&mut graph, &mut origins, options)?;
    eprintln!("{:?}", report.applied);
    Ok(print(&graph))
}
