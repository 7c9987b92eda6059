"""Loads a submission and calls it when the judge says so.

Run as ``python -m verifier.candidate.runner JUDGE_FD DEVICE_FD SOLUTION SETTINGS``. It answers "call k done" and
which tensors came out; it decides nothing. From the import of the submission on, nothing here is trusted.
"""

from __future__ import annotations

import importlib.util
import json
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from verifier.candidate import cuda, driver, names, tensors
from verifier.candidate.binaries import read_compiler
from verifier.candidate.channel import Channel, ChannelClosed, Message

MESSAGE_CAP = 2_000
TRACEBACK_CAP = 16_000
LONGEST_CHAIN = 8
TRITON_FOLDER = "/packages/triton/"
MAXIMUM_KINDS = 60


class NoEntryPoint(Exception):
    """The submission defines no usable ModelNew."""


class WrongState(Exception):
    """ModelNew's parameters and buffers are not those of the reference."""


class WrongOutput(Exception):
    """The forward call returned something other than tensors of the device."""


def describe_error(error: BaseException) -> Message:
    """Return what a submitter needs to find the fault: types, message, traceback without the harness."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None and len(chain) < LONGEST_CHAIN:
        chain.append(cause)
    cause = chain[-1]
    stack = traceback.extract_tb(cause.__traceback__)
    frames = [frame for frame in stack if "verifier/candidate" not in frame.filename]
    text = "".join(traceback.format_list(frames) + traceback.format_exception_only(type(cause), cause))
    kinds = [kind.__name__ for link in chain for kind in type(link).__mro__][:MAXIMUM_KINDS]
    if stack and TRITON_FOLDER in stack[-1].filename:
        kinds.append("TritonFrontEnd")
    return {"error": kinds, "message": f"{cause}"[:MESSAGE_CAP], "traceback": text[-TRACEBACK_CAP:]}


class Runner:
    """The state between the judge's requests."""

    def __init__(self, solution: Path) -> None:
        self.solution = solution
        self.entry: type[torch.nn.Module] | None = None
        self.models: dict[int, torch.nn.Module] = {}
        self.inputs: dict[int, tensors.DeviceTensor] = {}
        self.outputs: list[Any] = []

    def load(self, message: Message) -> Message:
        """Import the submission and find ModelNew."""
        spec = importlib.util.spec_from_file_location("solution", self.solution)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["solution"] = module
        # What imports the harness from now on is the submission, and the audit hook sees it.
        for name in [name for name in sys.modules if name.partition(".")[0] == "verifier"]:
            del sys.modules[name]
        spec.loader.exec_module(module)
        entry = getattr(module, "ModelNew", None)
        if not (isinstance(entry, type) and issubclass(entry, torch.nn.Module)):
            raise NoEntryPoint("the file defines no class ModelNew derived from torch.nn.Module")
        self.entry = entry
        return {}

    def construct(self, message: Message) -> Message:
        """Construct an instance, check its state against the reference's, and load the judge's values."""
        assert self.entry is not None
        model = self.entry(*message["arguments"])
        found = {
            name: [list(value.shape), str(value.dtype).removeprefix("torch.")]
            for name, value in model.state_dict().items()
        }
        wanted = {item["name"]: [item["shape"], item["dtype"]] for item in message["state"]}
        if found != wanted:
            raise WrongState(explain_difference(wanted, found))
        model = model.to(tensors.DEVICE).eval()
        values = {item["name"]: tensors.DeviceTensor({**item["tensor"], "owned": False}) for item in message["state"]}
        model.load_state_dict(values, strict=True)
        self.models[message["instance"]] = model
        # The objects themselves: state_dict gives aliases, which are gone when it is.
        base = torch.nn.Module
        held = [
            *base.named_parameters(model, remove_duplicate=False),
            *base.named_buffers(model, remove_duplicate=False),
        ]
        state = {name: value.device_handle for name, value in held if isinstance(value, tensors.DeviceTensor)}
        return {"state": state}

    def call(self, message: Message) -> Message:
        """Run one forward call and name the tensors that came out."""
        self.outputs = []
        inputs = [self.find_input(described) for described in message["inputs"]]
        self.inputs = {value.device_handle: value for value in inputs}
        result = self.models[message["instance"]](*inputs)
        self.outputs = list(result) if isinstance(result, tuple | list) else [result]
        for value in self.outputs:
            if type(value) not in (tensors.DeviceTensor, torch.nn.Parameter) or not hasattr(value, "device_handle"):
                raise WrongOutput(f"forward returned {type(value).__name__}, not a CUDA tensor")
        many = isinstance(result, tuple | list)
        return {"outputs": [value.device_handle for value in self.outputs], "many": many}

    def find_input(self, described: Message) -> tensors.DeviceTensor:
        """Return the tensor object of an input: the same object for the same tensor."""
        handle = described["handle"]
        # One that took other data in the last call is the input no longer.
        if handle not in self.inputs or self.inputs[handle].device_handle != handle:
            self.inputs[handle] = tensors.DeviceTensor({**described, "owned": False})
        return self.inputs[handle]


def explain_difference(wanted: Message, found: Message) -> str:
    """Return which parameters and buffers differ."""
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    changed = [
        f"{name} is {found[name]}, expected {wanted[name]}"
        for name in sorted(wanted.keys() & found.keys())
        if wanted[name] != found[name]
    ]
    parts = (
        [f"missing: {', '.join(missing)}"] * bool(missing) + [f"unexpected: {', '.join(extra)}"] * bool(extra) + changed
    )
    return "; ".join(parts)


def pin_settings() -> None:
    """Pin what a submission must not change."""
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")


def serve(judge: Channel, runner: Runner) -> None:
    """Answer the judge until it hangs up."""
    handlers: dict[str, Callable[[Message], Message]] = {
        "load": runner.load,
        "construct": runner.construct,
        "call": runner.call,
    }
    while True:
        message, _ = judge.receive()
        try:
            answer = handlers[message["do"]](message)
        except BaseException as error:  # noqa: BLE001 - a submission may raise anything, SystemExit included
            answer = describe_error(error)
        answer["nonce"] = message["nonce"]
        answer["flags"] = tensors.list_flags()
        judge.send(answer)


def main() -> None:
    """Connect, set the stage, and serve."""
    judge, device = (Channel(socket.socket(fileno=int(number))) for number in sys.argv[1:3])
    settings = json.loads(sys.argv[4])
    tensors.connect(device)
    cuda.install(settings["name"], settings["capability"], settings["properties"])
    cuda.guard_extensions()
    driver.install(settings["kind"], settings["capability"], settings["properties"])
    pin_settings()
    read_compiler()
    try:
        with names.DeviceNames(), tensors.DeviceMode():
            # PyTorch imports hundreds of modules when the first operator is seen by a mode.
            torch.zeros(1).add(1)
            serve(judge, Runner(Path(sys.argv[3])))
    except ChannelClosed:
        return


if __name__ == "__main__":
    main()
