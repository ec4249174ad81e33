//! Runs an ONNX model in rten: `run_in_rten MODEL FOLDER`.
//!
//! The operands are `0.in.npy`, `1.in.npy`, … in the folder; the results become `0.out.npy`, ….

use std::error::Error;
use std::fs;
use std::path::Path;

use rten::{Model, Value, ValueOrView};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, folder] = arguments.as_slice() else {
        return Err("expected the model and the folder of its operands".into());
    };
    let folder = Path::new(folder);
    let model = Model::load_file(model)?;
    let mut inputs = Vec::new();
    for (number, id) in model.input_ids().iter().enumerate() {
        let value = read(&fs::read(folder.join(format!("{number}.in.npy")))?)?;
        inputs.push((*id, ValueOrView::Value(value)));
    }
    let results = model.run(inputs, model.output_ids(), None)?;
    for (number, result) in results.iter().enumerate() {
        fs::write(folder.join(format!("{number}.out.npy")), written(result)?)?;
    }
    Ok(())
}

/// Reads an array in numpy's format, version 1, in C order.
fn read(bytes: &[u8]) -> Result<Value> {
    let length = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = std::str::from_utf8(&bytes[10..10 + length])?;
    let data = &bytes[10 + length..];
    let shape = header.split(['(', ')']).nth(1).ok_or("no shape")?;
    let shape: Vec<usize> = shape
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty())
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let dtype = header.split('\'').nth(3).ok_or("no type")?;
    let words = || data.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
    Ok(match dtype {
        "<f4" => {
            Tensor::from_data(&shape, words().map(f32::from_le_bytes).collect::<Vec<_>>()).into()
        }
        "<i4" => {
            Tensor::from_data(&shape, words().map(i32::from_le_bytes).collect::<Vec<_>>()).into()
        }
        "|i1" => Tensor::from_data(&shape, data.iter().map(|byte| *byte as i8).collect::<Vec<_>>())
            .into(),
        "|u1" => Tensor::from_data(&shape, data.to_vec()).into(),
        _ => return Err(format!("rten has no arrays of {dtype}").into()),
    })
}

/// Returns a tensor in numpy's format.
fn written(value: &Value) -> Result<Vec<u8>> {
    let (dtype, shape, data): (_, _, Vec<u8>) = match value {
        Value::FloatTensor(x) => {
            ("<f4", x.shape(), x.iter().flat_map(|x| x.to_le_bytes()).collect())
        }
        Value::Int32Tensor(x) => {
            ("<i4", x.shape(), x.iter().flat_map(|x| x.to_le_bytes()).collect())
        }
        Value::Int8Tensor(x) => ("|i1", x.shape(), x.iter().map(|x| *x as u8).collect()),
        Value::UInt8Tensor(x) => ("|u1", x.shape(), x.to_vec()),
        _ => return Err("a result is no tensor".into()),
    };
    let shape: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.bytes());
    file.extend(data);
    Ok(file)
}
