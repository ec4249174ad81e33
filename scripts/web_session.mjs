// Lists the models that onnxruntime-web can create a session for.
//
//   node web_session.mjs FOLDER-OF-THE-PACKAGE < one base64 model per line > one word per line
import readline from 'node:readline';
import { pathToFileURL } from 'node:url';

const ort = await import(pathToFileURL(`${process.argv[2]}/dist/ort.wasm.bundle.min.mjs`));
ort.env.wasm.numThreads = 1;
ort.env.logLevel = 'fatal';
const options = {
  executionProviders: ['wasm'],
  graphOptimizationLevel: 'disabled',
  logSeverityLevel: 4,
};
for await (const line of readline.createInterface({ input: process.stdin })) {
  let found = 'cpu';
  try {
    const session = await ort.InferenceSession.create(Buffer.from(line, 'base64'), options);
    await session.release();
  } catch {
    found = '';
  }
  process.stdout.write(`${found}\n`);
}
