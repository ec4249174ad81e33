"""PyTorch versions of architectures in `tests/models`, for comparison with torch.onnx."""

import math


def sizes_of(name):
    """Parses the architecture and the sizes in a name such as `nnx/gpt:layers=12,width=256`."""
    architecture, _, sizes = name.partition(":")
    pairs = (size.split("=") for size in sizes.split(",") if size)
    return architecture.partition("/")[2], {key: int(value) for key, value in pairs}


def export(name, path, *, half=False):
    """Exports the model to a file, in float16 with `half`. Returns `False` if the architecture or
    torch is missing.
    """
    try:
        import torch
    except ImportError:
        return False
    architecture, sizes = sizes_of(name)
    builders = {"gpt": _gpt, "resnet50": _resnet50, "vit": _vit}
    built = builders[architecture](**sizes) if architecture in builders else None
    if built is None:
        return False
    model, inputs = built
    if half:
        model = model.half()
        inputs = tuple(x.half() if x.is_floating_point() else x for x in inputs)
    with torch.no_grad():
        torch.onnx.export(model.eval(), inputs, path, dynamo=True, external_data=False)
    return True


def _gpt(layers=2, width=32, heads=4, vocabulary=96, length=16, batch=2):
    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attn_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def heads_of(self, x):
            return x.reshape(batch, length, heads, width // heads).transpose(1, 2)

        def forward(self, x, mask):
            y = self.attn_norm(x)
            q, k, v = (self.heads_of(layer(y)) for layer in (self.q, self.k, self.v))
            scores = q @ k.transpose(-1, -2) / math.sqrt(width // heads) + mask
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
            x = x + self.out(mixed)
            return x + self.down(functional.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = (
                nn.Embedding(vocabulary, width),
                nn.Embedding(length, width),
            )
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
            mask = torch.full((length, length), float("-inf")).triu(1)
            self.register_buffer("mask", mask)

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions.weight
            for block in self.blocks:
                x = block(x, self.mask)
            return self.head(self.norm(x))

    return GPT(), (torch.zeros(batch, length, dtype=torch.int32),)


def _resnet50(batch=1, size=64, width=64, classes=1000):
    """Returns torchvision's model. It takes NCHW, which permutes the image but not the work."""
    if width != 64:
        return None
    try:
        import torch
        from torchvision.models import resnet50
    except ImportError:
        return None

    model = resnet50(num_classes=classes)
    for part in model.modules():
        # The biases of untrained batch norms are zero, so torch.onnx would drop them.
        if isinstance(part, torch.nn.BatchNorm2d):
            for parameter in (part.weight, part.bias, part.running_mean, part.running_var):
                torch.nn.init.uniform_(parameter, 0.1, 1.1)
    return _channels_last(model), (torch.zeros(batch, size, size, 3),)


def _vit(batch=2, size=16, patch=4, width=32, heads=4, layers=2, classes=10):
    """Returns torchvision's model."""
    try:
        import torch
        from torchvision.models import VisionTransformer
    except ImportError:
        return None

    model = VisionTransformer(size, patch, layers, heads, width, 4 * width, num_classes=classes)
    return _channels_last(model), (torch.zeros(batch, size, size, 3),)


def _channels_last(model):
    """Returns a model of images in NHWC."""
    import torch

    class ChannelsLast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, images):
            return self.model(images.permute(0, 3, 1, 2))

    return ChannelsLast()
