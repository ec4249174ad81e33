"""Time of a decoder's steps against another: `python bench/decoders.py THEIRS OURS`.

Both are folders that onnxruntime-genai loads, with models of the same shape, such as one of its
model builder and one of `generation.save`. They run in turn on one thread of onnxruntime, with past
and present bound to the same buffers:

    python bench/decoders.py builder ours --contexts 64 512 2048 --prompts 512 2048
"""

import argparse
import json
import random
import statistics
import time
from pathlib import Path

import numpy as np
import onnxruntime

# The steps of a single token that are measured at a time.
STEPS = 8


class Decoder:
    """A model and its buffers."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "genai_config.json").read_text())["model"]
        decoder = config["decoder"]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        start = time.process_time()
        self.session = onnxruntime.InferenceSession(
            folder / decoder["filename"], options, providers=["CPUExecutionProvider"]
        )
        self.load = time.process_time() - start
        shape = [1, decoder["num_key_value_heads"], config["context_length"], decoder["head_size"]]
        rng = np.random.default_rng(0)
        self.buffers = {
            value.name.removeprefix("past_key_values"): onnxruntime.OrtValue.ortvalue_from_numpy(
                rng.standard_normal(shape, dtype=np.float32)
            )
            for value in self.session.get_inputs()
            if value.name.startswith("past_key_values")
        }

    def seconds(self, past: int, new: int) -> float:
        """Returns the CPU time of `new` tokens after `past` others."""
        binding = self.session.io_binding()
        given = {
            "input_ids": np.full((1, new), 5, np.int64),
            "attention_mask": np.ones((1, past + new), np.int64),
            "position_ids": np.arange(past, past + new)[None],
        }
        for value in self.session.get_inputs():
            if value.name in given:
                binding.bind_cpu_input(value.name, given[value.name])
            else:
                buffer = self.buffers[value.name.removeprefix("past_key_values")]
                binding.bind_ortvalue_input(value.name, buffer)
        for value in self.session.get_outputs():
            if value.name == "logits":
                binding.bind_output("logits")
            else:
                buffer = self.buffers[value.name.removeprefix("present")]
                binding.bind_ortvalue_output(value.name, buffer)
        count = STEPS if new == 1 else 1
        if new == 1:
            self.session.run_with_iobinding(binding)
        start = time.process_time()
        for _ in range(count):
            self.session.run_with_iobinding(binding)
        return (time.process_time() - start) / count


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", help="the first one is the reference")
    parser.add_argument("--contexts", type=int, nargs="*", default=[64, 512, 2048])
    parser.add_argument("--prompts", type=int, nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    decoders = {folder: Decoder(folder) for folder in given.folders}
    first = given.folders[0]
    print(f"| {'':<20} | " + " | ".join(f"{folder.name} ms, ÷ first" for folder in decoders) + " |")
    loads = " | ".join(
        f"{d.load * 1e3:.0f} {d.load / decoders[first].load:.2f}" for d in decoders.values()
    )
    print(f"| {'loading':<20} | {loads} |")
    cases = [(f"one token after {n}", n, 1) for n in given.contexts]
    cases += [(f"a prompt of {n}", 0, n) for n in given.prompts]
    for name, past, new in cases:
        found: dict[Path, list[float]] = {folder: [] for folder in decoders}
        for _ in range(given.rounds):
            for folder in random.sample(given.folders, len(given.folders)):
                found[folder].append(decoders[folder].seconds(past, new))
        cells = []
        for seconds in found.values():
            ratio = statistics.median(a / b for a, b in zip(seconds, found[first], strict=True))
            cells.append(f"{statistics.median(seconds) * 1e3:.2f} {ratio:.2f}")
        print(f"| {name:<20} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
