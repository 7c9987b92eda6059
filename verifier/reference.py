"""The trusted worker: the task's own PyTorch reference, eager and compiled, in a process of its own.

Run as ``python -m verifier.reference SETTINGS``: the inherited line and slab, and the device, as JSON. It never sees
a submission, and keeps compiled code where no submission can write.
"""

from __future__ import annotations

import ctypes
import gc
import json
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from verifier.candidate.channel import Channel, ChannelClosed, Message
from verifier.candidate.slab import Slab
from verifier.device import costs
from verifier.gpu.device import pin_settings, read_settings
from verifier.gpu.profile import Profiler
from verifier.gpu.stopwatch import Stopwatch
from verifier.modules import TaskModules, load_task_modules
from verifier.task import load_task

PR_SET_PDEATHSIG = 1
SHORTEST_HOLD = 0.05


class OperationCounter(TorchDispatchMode):
    """Counts what the reference's operators cost, by the measure that a candidate's are counted with."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.operations[costs.find_base_name(function)] += costs.count_operations(function, args, kwargs or {}, result)
        return result


class ReferenceService:
    """Answers the judge."""

    def __init__(self, slab: Slab, where: torch.device, l2_bytes: int) -> None:
        self.slab, self.where, self.l2_bytes = slab, where, l2_bytes
        self.modules: TaskModules | None = None
        self.model: torch.nn.Module | None = None
        self.sides: dict[str, Callable[..., Any]] = {}
        self.holds: dict[str, float] = {}
        self.dims: dict[str, int] = {}
        self.stopwatch: Stopwatch | None = None

    def prepare(self, message: Message) -> Message:
        """Construct the reference with seeded state and return that state."""
        self.modules = self.modules or load_task_modules(load_task(message["task"]))
        torch.manual_seed(message["seed"])
        model = self.modules.reference.Model(*self.modules.get_init_inputs(message["dims"])).to(self.where).eval()
        if message["keep"]:
            self.keep(model, message["dims"])
        return {"state": self.slab.write({name: value.detach() for name, value in model.state_dict().items()})}

    def keep(self, model: torch.nn.Module, dims: dict[str, int]) -> None:
        """Make a model the baseline; at the dims of the one before, that one takes its state, and stays compiled."""
        if self.model is not None and self.dims == dims:
            self.model.load_state_dict(model.state_dict())
        else:
            self.model, self.dims, self.sides = model, dims, {}

    def run(self, message: Message) -> Message:
        """Run the eager reference on given inputs; return its outputs and what it cost."""
        assert self.model is not None
        inputs = self.slab.read(message["inputs"], self.where)
        with OperationCounter() as counter:
            result = self.model(*inputs.values())
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        places = self.slab.write({str(index): value for index, value in enumerate(outputs)})
        return {"outputs": places, "operations": dict(counter.operations)}

    def time(self, message: Message) -> Message:
        """Time one call of a side for each seed, on inputs drawn for it."""
        call = self.find_side(message["side"], message["distribution"])
        pin_settings()
        gc.collect()
        gc.disable()
        readings = [
            self.time_call(call, message["distribution"], seed, self.holds[message["side"]], cold=message["cold"])
            for seed in message["seeds"]
        ]
        gc.enable()
        return {
            "milliseconds": [item.milliseconds for item in readings],
            "released_early": sum(item.released_early for item in readings),
            "settings": read_settings(),
        }

    def warm_up(self, message: Message) -> Message:
        """Compile and warm up both sides."""
        for side in ("eager", "compiled"):
            self.find_side(side, message["distribution"])
        return {}

    def profile(self, message: Message) -> Message:
        """Return the milliseconds of all work on the GPU in one call of a side."""
        call = self.find_side(message["side"], message["distribution"])
        inputs = self.draw(message["distribution"], message["seed"])
        torch.cuda.synchronize()
        profiler = Profiler()
        profiler.start()
        call(*inputs)
        return {"milliseconds": sum(item["microseconds"] for item in profiler.stop()) / 1e3}

    def find_side(self, side: str, distribution: str) -> Callable[..., Any]:
        """Return the eager or the compiled reference, warmed up, and learn how long its queueing takes."""
        assert self.model is not None
        if self.stopwatch is None:
            self.stopwatch = Stopwatch(self.l2_bytes)
            torch.cuda.set_stream(self.stopwatch.stream)
        if side not in self.sides:
            call = self.model if side == "eager" else torch.compile(self.model)
            for seed in (1, 2, 3):
                inputs = self.draw(distribution, seed)
                torch.cuda.synchronize()
                started = time.perf_counter()
                call(*inputs)
                self.holds[side] = max(SHORTEST_HOLD, 3 * (time.perf_counter() - started))
                torch.cuda.synchronize()
            self.sides[side] = call
        return self.sides[side]

    def draw(self, distribution: str, seed: int) -> list[torch.Tensor]:
        """Return seeded inputs, in order."""
        assert self.modules is not None
        generator = torch.Generator(self.where).manual_seed(seed)
        return list(self.modules.generate(distribution, self.dims, generator).values())

    def time_call(self, call: Callable[..., Any], distribution: str, seed: int, hold: float, *, cold: bool) -> Any:
        """Time one call on fresh inputs."""
        assert self.stopwatch is not None
        inputs = self.draw(distribution, seed)
        torch.cuda.synchronize()
        self.stopwatch.arm(cold=cold, longest_hold=hold)
        call(*inputs)
        return self.stopwatch.stop()


def main() -> None:
    """Serve until the judge hangs up, or dies while this process is still starting."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # Whoever interrupts the judge on a terminal reaches this process too; the judge ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    settings = json.loads(sys.argv[1])
    where = torch.device(settings["device"])
    pin_settings()
    channel = Channel(socket.socket(fileno=settings["line"]))
    slab = Slab(settings["slab"], pinned=where.type == "cuda")
    service = ReferenceService(slab, where, settings["l2_bytes"])
    # PyTorch imports hundreds of modules when the first operator is seen by a mode.
    with OperationCounter():
        torch.zeros(1, device=where).add(1)
    try:
        while True:
            message, _ = channel.receive()
            try:
                answer = getattr(service, message["do"])(message)
            except Exception as error:  # noqa: BLE001 - the judge is told of whatever failed
                answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
            channel.send(answer)
    except ChannelClosed:
        return


if __name__ == "__main__":
    main()
