"""The five networks of the paper on made-up rows: as problems, and as their twins in PyTorch."""

import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import numpy as np

import anchorwalk as aw
from anchorwalk.benchmark import TASKS, networks


@dataclass(frozen=True)
class Work:
    """One row of the table.

    Attributes:
        name: Of the network.
        task: Whose settings are used.
        shape: Of one row of inputs.
        classes: 0 for a regression.
        steps: Steps of a measured training: about a second's worth.
    """

    name: str
    task: str
    shape: tuple[int, ...]
    classes: int
    steps: int

    @property
    def batch_size(self):
        return TASKS[self.task].settings.batch_size

    @property
    def rows(self):
        return self.batch_size * (8 if self.name == "mlp" else 2)

    @property
    def epochs(self):
        return max(1, self.steps * self.batch_size // self.rows)

    def network(self, convolution="auto"):
        return {
            "mlp": lambda: aw.networks.mlp(8, (50,), 2),
            "lenet5": lambda: networks.lenet5(7, convolution=convolution),
            "alexnet": lambda: networks.alexnet(10, convolution=convolution),
            "resnet20": lambda: networks.resnet20(10, convolution=convolution),
            "cnn_lstm": lambda: networks.cnn_lstm(),
        }[self.name]()

    def data(self):
        rng = np.random.default_rng(0)
        if self.name == "cnn_lstm":
            x = rng.integers(0, 20_000, (self.rows, *self.shape)).astype(np.int32)
        else:
            x = rng.normal(size=(self.rows, *self.shape)).astype(np.float32)
        y = rng.integers(0, self.classes, self.rows) if self.classes else rng.normal(size=self.rows).astype(np.float32)
        return x, y

    def problem(self, convolution="auto"):
        network = self.network(convolution)
        likelihood = aw.Categorical() if self.classes else aw.HeteroscedasticNormal()
        scale = float(np.sqrt(TASKS[self.task].settings.prior_variance))
        return aw.Problem(network.init, network.apply, likelihood, aw.Prior(scale=scale), data=self.data())

    def training(self, epochs=None):
        return aw.Training(aw.Adam(1e-4, end_rate=1e-5), epochs or self.epochs, self.batch_size, evaluate=False)

    def flops_per_row(self):
        """Of a training step: three times the products of the forward pass, counted by XLA on its own convolutions."""
        problem = self.problem("native")
        row = jax.tree.map(lambda leaf: leaf[:1], problem.data.x)
        lowered = jax.jit(problem.apply).lower(problem.params_like, row)
        return 3 * float(lowered.compile().cost_analysis()["flops"])


WORKS = (
    Work("mlp", "uci_gap", (8,), 0, 2000),
    Work("lenet5", "dermamnist", (28, 28, 3), 7, 40),
    Work("alexnet", "cifar10c", (32, 32, 3), 10, 10),
    Work("resnet20", "cifar10", (32, 32, 3), 10, 4),
    Work("cnn_lstm", "imdb", (100,), 2, 12),
)


# PyTorch's side


def torch_step(work: Work, channels_last: bool) -> Any:
    """A function that runs one step of Adam on the anchored loss, eagerly, on a random batch."""
    import torch

    warnings.filterwarnings("ignore", message="Using padding='same'")
    torch.manual_seed(0)
    x, y = work.data()
    model = _torch_model(work)
    inputs = torch.from_numpy(x).long() if work.name == "cnn_lstm" else torch.from_numpy(x)
    if len(work.shape) == 3:
        layout = torch.channels_last if channels_last else torch.contiguous_format
        inputs = inputs.permute(0, 3, 1, 2).contiguous(memory_format=layout)
        model = model.to(memory_format=layout)
    targets = torch.from_numpy(np.asarray(y))
    params = list(model.parameters())
    anchors = [torch.randn_like(p) * 0.1 for p in params]
    optimizer = torch.optim.Adam(params, lr=1e-4, fused=True)
    pull = 1 / (TASKS[work.task].settings.prior_variance * work.rows)
    rng = np.random.default_rng(0)

    def step():
        chosen = torch.from_numpy(rng.permutation(work.rows)[: work.batch_size])
        optimizer.zero_grad()
        outputs = model(inputs[chosen])
        if work.classes:
            loss = torch.nn.functional.cross_entropy(outputs, targets[chosen])
        else:
            scale = torch.nn.functional.softplus(outputs[:, 1])
            loss = -torch.distributions.Normal(outputs[:, 0], scale).log_prob(targets[chosen]).mean()
        loss.backward()
        with torch.no_grad():  # the gradient of the anchored prior
            torch._foreach_add_([p.grad for p in params], torch._foreach_sub(params, anchors), alpha=pull)
        optimizer.step()

    step.parameters = sum(p.numel() for p in params)
    return step


def _torch_model(work):
    import torch
    from torch import nn

    if work.name == "mlp":
        return nn.Sequential(nn.Linear(8, 50), nn.ReLU(), nn.Linear(50, 2))
    if work.name == "lenet5":
        first = (nn.Conv2d(3, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2))
        second = (nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2))
        dense = (nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 7))
        return nn.Sequential(*first, *second, nn.Flatten(), *dense)
    if work.name == "alexnet":
        parts, channels = [], 3
        for i, (window, filters) in enumerate(((3, 64), (3, 128), (2, 256), (2, 128), (2, 64))):
            parts += [nn.Conv2d(channels, filters, window, padding="same"), nn.SiLU()]
            parts += [nn.MaxPool2d(2)] if i < 2 else []
            channels = filters
        dense = (nn.Linear(4096, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, 10))
        return nn.Sequential(*parts, nn.Flatten(), *dense)

    class Norm(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.gamma = nn.Parameter(torch.ones(1, channels, 1, 1))
            self.beta = nn.Parameter(torch.zeros(1, channels, 1, 1))
            self.tau = nn.Parameter(torch.zeros(1, channels, 1, 1))

        def forward(self, x):
            square = x.pow(2).mean((2, 3), keepdim=True)
            return torch.maximum(self.gamma * (x * torch.rsqrt(square + 1e-6)) + self.beta, self.tau)

    def layer(window, inputs, outputs, stride=1):
        return nn.Sequential(nn.Conv2d(inputs, outputs, window, stride, window // 2), Norm(outputs))

    class Block(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            stride = 1 if inputs == outputs else 2
            self.first, self.second = layer(3, inputs, outputs, stride), layer(3, outputs, outputs)
            self.shortcut = nn.Identity() if stride == 1 else layer(1, inputs, outputs, stride)

        def forward(self, x):
            return nn.functional.silu(self.shortcut(x) + self.second(nn.functional.silu(self.first(x))))

    class Pooled(nn.Module):
        def forward(self, x):
            return x.mean((2, 3))

    if work.name == "resnet20":
        widths = (16, 16, 16, 16, 32, 32, 32, 64, 64, 64)
        blocks = [Block(a, b) for a, b in pairwise(widths)]
        return nn.Sequential(layer(3, 3, 16), nn.SiLU(), *blocks, Pooled(), nn.Linear(64, 10))

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.conv = nn.Embedding(20_000, 128), nn.Conv1d(128, 64, 5)
            self.lstm, self.dense = nn.LSTM(64, 128, batch_first=True), nn.Linear(128, 2)

        def forward(self, x):
            x = torch.relu(self.conv(self.embedding(x).transpose(1, 2)))
            x = nn.functional.max_pool1d(x, 4).transpose(1, 2)
            return self.dense(self.lstm(x)[0][:, -1])

    return Words()
