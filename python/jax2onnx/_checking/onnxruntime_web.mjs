// Runs a model with onnxruntime-web's WebAssembly build: a JSON object in, one out.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const { folder, model, inputs } = JSON.parse(readFileSync(0, 'utf8'));
const root = folder
  ? resolve(folder)
  : dirname(dirname(createRequire(resolve('package.json')).resolve('onnxruntime-web/wasm')));
const ort = await import(pathToFileURL(join(root, 'dist', 'ort.wasm.bundle.min.mjs')));
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';

const arrays = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array,
  int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array,
  int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};
const session = await ort.InferenceSession.create(readFileSync(model), {
  executionProviders: ['wasm'],
});
const feeds = {};
session.inputNames.forEach((name, i) => {
  const { type, dims, data } = inputs[i];
  const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
  feeds[name] = new ort.Tensor(type, new arrays[type](bytes.buffer), dims);
});
const results = await session.run(feeds);
const outputs = session.outputNames.map((name) => {
  const { type, dims, data } = results[name];
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return { type, dims, data: bytes.toString('base64') };
});
process.stdout.write(JSON.stringify(outputs));
