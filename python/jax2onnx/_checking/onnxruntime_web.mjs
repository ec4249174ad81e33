// Runs a model with onnxruntime-web's WebAssembly build, in Node or in a browser.
export async function run(ort, model, inputs) {
  ort.env.wasm.numThreads = 1;
  ort.env.logLevel = 'fatal';
  const arrays = {
    float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array,
    int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
    int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
    float16: globalThis.Float16Array ?? Uint16Array,
  };
  const session = await ort.InferenceSession.create(model, { executionProviders: ['wasm'] });
  const feeds = {};
  session.inputNames.forEach((name, i) => {
    const { type, dims, data } = inputs[i];
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    feeds[name] = new ort.Tensor(type, new arrays[type](bytes.buffer), dims);
  });
  const results = await session.run(feeds);
  return session.outputNames.map((name) => {
    const { type, dims, data } = results[name];
    const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    let text = '';
    for (const byte of bytes) text += String.fromCharCode(byte);
    return { type, dims, data: btoa(text) };
  });
}

// In Node, a JSON object comes in, and another one goes out.
if (!globalThis.document) {
  const { readFileSync } = await import('node:fs');
  const { pathToFileURL } = await import('node:url');
  const { bundle, model, inputs } = JSON.parse(readFileSync(0, 'utf8'));
  const ort = await import(pathToFileURL(bundle));
  process.stdout.write(JSON.stringify(await run(ort, readFileSync(model), inputs)));
}
