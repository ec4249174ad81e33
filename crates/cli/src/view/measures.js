// The measure shown by colours and bars: the time of lines, modules and nodes, or their contribution
// to the error. All bars of a column share a scale.

const timed = Boolean(raw.profile);
const total = raw.profile?.total[0] ?? 0;

const percent = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(1)} %`;

// Time. The scale ends at the slowest of the outermost modules and nodes, and at the slowest line.
const timeOf = (item) => ({ median: item.median + (item.body?.median ?? 0), mean: item.mean + (item.body?.mean ?? 0) });
const longest = root.items.reduce((most, item) => Math.max(most, timeOf(item).median), 0) || 1;
const slowestLine = [...lines.values()].reduce((most, line) => Math.max(most, line.median), 0) || 1;

// Errors. Relative noise adds up, since each value was computed from correct operands.
const QUIET = 100; // the decibels at which nothing is coloured
const decibels = (noise) => -10 * Math.log10(noise);
function noiseOf([, maximum, , ratio]) {
  if (maximum === 0) return 0;
  return ratio === null ? Infinity : 10 ** (-ratio / 10);
}
const loudness = (noise) => (noise > 0 ? Math.max(0.04, Math.min(1, 1 - decibels(noise) / QUIET)) : 0);
const noiseText = (noise) => (noise === 0 ? "exact" : noise === Infinity ? "no signal" : `${decibels(noise).toFixed(1)} dB`);
function number(value) {
  if (value === null) return "not finite";
  const is = Math.abs(value);
  return is && (is < 1e-3 || is >= 1e6) ? value.toExponential(1) : Number(value.toPrecision(3)).toString();
}

const moduleErrors = new Map(); // scope → noise, including the modules inside it
for (const [scope, numbers] of raw.errors?.modules ?? []) {
  const noise = noiseOf(numbers);
  const parts = scope.split("/").filter(Boolean);
  for (let end = 0; end <= parts.length; end++) {
    const outer = parts.slice(0, end).join("/");
    moduleErrors.set(outer, (moduleErrors.get(outer) ?? 0) + noise);
  }
}
for (const [file, line, numbers] of raw.errors?.lines ?? []) {
  const [values, maximum, mean] = numbers;
  lineEntry(file, line).error = { values, maximum, mean, noise: noiseOf(numbers) };
}
function scopeOf(module) {
  const parts = [];
  let at = module;
  for (; at.parent && !at.node; at = at.parent) parts.unshift(at.label);
  return [at.base, ...parts].filter(Boolean).join("/");
}

const MEASURES = {
  time: {
    label: "Time",
    color: "--heat",
    row(item) {
      const { median, mean } = timeOf(item);
      if (!median && !mean) return null;
      const title = `median ${duration(median)}, mean ${duration(mean)}, ${percent(median, total)} of the run`;
      return { share: median / longest, text: duration(median), second: duration(mean), title };
    },
    line(entry) {
      if (!entry.median && !entry.mean) return null;
      const title = `median ${duration(entry.median)}, mean ${duration(entry.mean)}, ${percent(entry.median, total)} of the run`;
      return { share: entry.median / slowestLine, text: duration(entry.median), title };
    },
  },
  error: {
    label: "Error",
    color: "--wrong",
    row(item) {
      if (item.items === undefined) return null;
      const noise = moduleErrors.get(scopeOf(item));
      if (noise === undefined) return null;
      return { share: loudness(noise), text: noiseText(noise), second: "", title: `signal to noise: ${noiseText(noise)}` };
    },
    line({ error }) {
      if (!error) return null;
      const title = `${many(error.values, "value")}, signal to noise ${noiseText(error.noise)}, largest difference ${number(error.maximum)}, mean ${number(error.mean)}`;
      return { share: loudness(error.noise), text: noiseText(error.noise), title };
    },
  },
};
const offered = [timed && "time", raw.errors && "error"].filter(Boolean);
let measure = MEASURES[offered[0]] ?? null;
