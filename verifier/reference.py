"""The trusted worker: the task's own PyTorch reference, in a process of its own.

Run as ``python -m verifier.reference FD``. It never sees a submission.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import sys
from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from verifier.candidate.channel import Channel, ChannelClosed, Message
from verifier.candidate.transfer import pack_tensors, unpack_tensors
from verifier.interpreter import library
from verifier.modules import TaskModules, load_task_modules
from verifier.task import load_task

PR_SET_PDEATHSIG = 1


class OperationCounter(TorchDispatchMode):
    """Counts what the reference's operators cost, by the measure that a candidate's are counted with."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        self.operations[library.find_base_name(function)] += library.count_operations(
            function, args, kwargs or {}, result
        )
        return result


class ReferenceService:
    """Answers the judge."""

    def __init__(self) -> None:
        self.modules: TaskModules | None = None
        self.model: torch.nn.Module | None = None

    def prepare(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Construct the reference with seeded state and return that state."""
        self.modules = load_task_modules(load_task(message["task"]))
        torch.manual_seed(message["seed"])
        self.model = self.modules.reference.Model(*self.modules.get_init_inputs(message["dims"])).eval()
        described, packed = pack_tensors({name: value.detach() for name, value in self.model.state_dict().items()})
        return {"state": described}, packed

    def run(self, message: Message, data: bytes) -> tuple[Message, bytes]:
        """Run the eager reference on given inputs; return its outputs and what it cost."""
        assert self.model is not None
        inputs = unpack_tensors(message["inputs"], data)
        with torch.no_grad(), OperationCounter() as counter:
            result = self.model(*inputs.values())
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        described, packed = pack_tensors({str(index): value for index, value in enumerate(outputs)})
        return {"outputs": described, "operations": dict(counter.operations)}, packed


def main() -> None:
    """Serve on the inherited socket until the judge hangs up, or dies while this process is still starting."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    torch.set_num_threads(1)
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    service = ReferenceService()
    try:
        while True:
            message, data = channel.receive()
            channel.send(*getattr(service, message["do"])(message, data))
    except ChannelClosed:
        return


if __name__ == "__main__":
    main()
