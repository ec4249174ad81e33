"""Writes `net.onnx`: a model of another exporter, which says in its own way where nodes came from.

Run it in this folder, with torch, onnx and onnxscript installed: `python export.py`.
"""

import re
from pathlib import Path

import onnx
import torch
from layers import Net

torch.manual_seed(0)
program = torch.onnx.export(Net().eval(), (torch.ones(2, 4),), dynamo=True, optimize=True)
assert program is not None
model = program.model_proto
folder = re.escape(f"{Path.cwd()}/")
for node in model.graph.node:
    for entry in node.metadata_props:
        # Where this machine keeps its files is nobody's business.
        entry.value = re.sub(folder, "", entry.value)
        entry.value = re.sub(
            r'"[^"]*/site-packages/', '"/usr/lib/python3/site-packages/', entry.value
        )
onnx.save(model, "net.onnx")
