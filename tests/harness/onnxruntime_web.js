// Functions of a page with onnxruntime-web, for tests and scripts.
globalThis.web = (() => {
  let ort, provider;
  let lines = [];
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const text = (array) => {
    let found = '';
    for (const byte of new Uint8Array(array.buffer, array.byteOffset, array.byteLength)) {
      found += String.fromCharCode(byte);
    }
    return btoa(found);
  };
  const arrays = {
    float32: Float32Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array,
    uint64: BigUint64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
    uint16: Uint16Array, bool: Uint8Array, float64: Float64Array,
    float16: globalThis.Float16Array ?? Uint16Array,
  };
  return {
    async load(bundle, name) {
      ort = await import(`/${bundle}`);
      provider = name;
      ort.env.wasm.numThreads = 1;
      for (const kind of ['log', 'info', 'warn', 'error', 'debug']) {
        console[kind] = (...words) => lines.push(words.join(' '));
      }
    },

    // Returns the placement of the only node of each model: `gpu`, `cpu`, or nothing.
    async placements(models) {
      const found = [];
      ort.env.logLevel = 'verbose';
      const options = {
        executionProviders: [provider],
        graphOptimizationLevel: 'disabled',
        logSeverityLevel: 0,
      };
      for (const model of models) {
        lines = [];
        try {
          const session = await ort.InferenceSession.create(bytes(model), options);
          await session.release();
          const gpu = lines.some((line) => line.includes('placed on [WebGpuExecutionProvider]'));
          found.push(gpu ? 'gpu' : 'cpu');
        } catch {
          found.push('');
        }
      }
      return found;
    },

    // Returns the outputs of a model for the given inputs, in the order of the model: [type, sizes, bytes].
    async run(model, inputs) {
      const options = { executionProviders: [provider] };
      const session = await ort.InferenceSession.create(bytes(model), options);
      const feeds = {};
      session.inputNames.forEach((name, i) => {
        const [type, sizes, data] = inputs[i];
        const raw = bytes(data);
        feeds[name] = new ort.Tensor(type, new arrays[type](raw.buffer), sizes);
      });
      const results = await session.run(feeds);
      const found = session.outputNames.map((name) => {
        const { type, dims, data } = results[name];
        return [type, dims, text(data)];
      });
      await session.release();
      return found;
    },

    // Runs a model and returns the bytes of a dump, written by the recorder with this text.
    async record(model, inputs, recorder, runtime) {
      const source = new Blob([recorder], { type: 'text/javascript' });
      const { record } = await import(URL.createObjectURL(source));
      const session = await ort.InferenceSession.create(bytes(model), { executionProviders: [provider] });
      const feeds = {};
      session.inputNames.forEach((name, i) => {
        const [type, sizes, data] = inputs[i];
        feeds[name] = new ort.Tensor(type, new arrays[type](bytes(data).buffer), sizes);
      });
      const outputs = await session.run(feeds);
      const version = ort.env.versions.web ?? ort.env.versions.common;
      const dump = await record(bytes(model), { ...feeds, ...outputs }, `onnxruntime-web ${version}, ${runtime}`);
      await session.release();
      return text(dump);
    },
  };
})();
0;
