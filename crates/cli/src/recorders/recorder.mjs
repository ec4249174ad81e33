// Writes the inputs and outputs of a run to a file for `jax2onnx verify --dump`.
//
// In a browser, with onnxruntime-web:
//
//   const model = new Uint8Array(await (await fetch('model.probe.onnx')).arrayBuffer());
//   const session = await ort.InferenceSession.create(model, { executionProviders: ['webgpu'] });
//   const outputs = await session.run(feeds);
//   const bytes = await record(model, { ...feeds, ...outputs }, 'onnxruntime-web, WebGPU');
//   download(bytes, 'run.safetensors');

const types = {
  bool: 'BOOL', int8: 'I8', uint8: 'U8', int16: 'I16', uint16: 'U16', int32: 'I32', uint32: 'U32',
  int64: 'I64', uint64: 'U64', float16: 'F16', float32: 'F32', float64: 'F64',
};

// Returns the bytes of the file. `model` has the bytes of the model that ran, `tensors` the inputs
// and outputs by name, and `runtime` says where it ran.
export async function record(model, tensors, runtime) {
  const about = { format: 'jax2onnx.dump', version: '1', runtime };
  if (globalThis.crypto?.subtle) {
    const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', model));
    about.model = 'sha256:' + [...digest].map((b) => b.toString(16).padStart(2, '0')).join('');
  }
  const header = { __metadata__: about };
  const parts = [];
  let end = 0;
  for (const [name, tensor] of Object.entries(tensors)) {
    if (!types[tensor.type]) throw new Error(`${name}: cannot record ${tensor.type}`);
    const data = await tensor.getData();
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    const dtype = types[tensor.type];
    header[name] = { dtype, shape: [...tensor.dims], data_offsets: [end, end + bytes.length] };
    parts.push([end, bytes]);
    end += bytes.length;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const start = 8 + Math.ceil(text.length / 8) * 8;
  const file = new Uint8Array(start + end).fill(0x20, 8, start);
  new DataView(file.buffer).setBigUint64(0, BigInt(start - 8), true);
  file.set(text, 8);
  for (const [at, bytes] of parts) file.set(bytes, start + at);
  return file;
}

// Offers the file as a download in a browser.
export function download(bytes, name) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([bytes]));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
