"""The submission's side of a GPU: its real program, against a device that compiles and checks but computes nothing."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from verifier.boxes import describe_device
from verifier.candidate.channel import Channel, ChannelClosed, Message
from verifier.device.device import Device, Grid, Loaded, Usage
from verifier.device.faults import CannotCompile
from verifier.device.service import CandidateService
from verifier.environment import load_environment
from verifier.gpu.compiling import CompileLine
from verifier.gpu.signature import Parameter, pack, parse_signature
from verifier.modules import load_task_modules
from verifier.task import load_task

ROOT = Path(__file__).resolve().parents[2]
HONEST = ROOT / "tests" / "honest"
ENVIRONMENT = load_environment("l40s")


class CompiledOnly:
    """A kernel that was compiled and will not run."""

    def __init__(self, text: str, compiled: Message, image: bytes) -> None:
        self.arguments: list[Parameter] = parse_signature(text)
        self.compiled, self.image = compiled, image


class IdleDevice(Device):
    """Takes every request of a GPU's candidate and leaves memory as it is."""

    where = torch.device("cpu")

    def __init__(self, line: CompileLine) -> None:
        super().__init__()
        self.line = line
        self.benched = 0

    def retain(self, tensor: torch.Tensor) -> int:
        return tensor.untyped_storage().data_ptr()

    def release(self, base: int) -> None:
        """Leave it to PyTorch."""

    def fill_with_poison(self, tensor: torch.Tensor) -> None:
        tensor.zero_()

    def reseed(self, seed: int) -> None:
        """There is no noise."""

    def prepare(self, name: str, text: str, options: dict[str, Any]) -> CompiledOnly:
        return CompiledOnly(text, *self.line.compile(text, options))

    def describe_kernel(self, loaded: Loaded) -> Message:
        return {"registers": 42, "spilled": 0, "shared": loaded.kernel.compiled["shared"]}

    def run(self, loaded: Loaded, grid: Grid, arguments: Sequence[Any], usage: Usage) -> None:
        kernel: CompiledOnly = loaded.kernel
        assert kernel.compiled["parameters"] >= len(kernel.arguments) == len(arguments)
        for parameter, value in zip(kernel.arguments, arguments, strict=True):
            pack(parameter, value)

    def begin_bench(self) -> None:
        self.benched += 1
        super().begin_bench()


class Talk:
    """The judge's talk with a candidate process whose device is idle."""

    def __init__(self, judge: Channel, device: IdleDevice) -> None:
        self.judge, self.device = judge, device
        self.judge.deadline = None

    def ask(self, **message: Any) -> Message:
        answer, _ = self.judge.ask({**message, "nonce": "n"})
        return answer

    def put(self, tensor: torch.Tensor) -> Message:
        handle = self.device.add(tensor)
        self.device.given.add(handle)
        return self.device.describe_tensor(handle)

    def run(self, task_name: str) -> Message:
        """Load, construct and call twice; return the last answer, or the first error."""
        task = load_task(task_name)
        modules, dims = load_task_modules(task), task.specification.dims.small
        model = modules.reference.Model(*modules.get_init_inputs(dims)).eval()
        state = [
            {"name": name, "tensor": self.put(value), "shape": list(value.shape), "dtype": str(value.dtype)[6:]}
            for name, value in model.state_dict().items()
        ]
        inputs = modules.generate(
            task.specification.distributions[0].name, dims, torch.Generator().manual_seed(1)
        ).values()
        placed = [self.put(value) for value in inputs]
        steps: list[Message] = [
            {"do": "load"},
            {"do": "construct", "instance": 0, "arguments": modules.get_init_inputs(dims), "state": state},
            *[{"do": "call", "instance": 0, "inputs": placed}] * 2,
        ]
        answer: Message = {}
        for step in steps:
            answer = self.ask(**step)
            if answer.get("error"):
                break
        return answer


def answer_candidate(channel: Channel, service: CandidateService) -> None:
    while True:
        try:
            channel.send(*service.answer(*channel.receive()))
        except ChannelClosed:
            return


@pytest.fixture
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Talk]:
    """A candidate process with the submission that the test names."""
    variables = {"PATH": os.defpath, "HOME": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(3)]
        (judge, judge_end), (device_line, device_end), (compile_line, compile_end) = pairs
        settings = [str(request.param), describe_device(ENVIRONMENT)]
        for module, lines, arguments in (
            ("verifier.candidate.runner", (judge_end, device_end), settings),
            ("verifier.evidence.compilation", (compile_end,), []),
        ):
            numbers = [line.fileno() for line in lines]
            command = [sys.executable, "-m", module, *map(str, numbers), *arguments]
            process = subprocess.Popen(command, pass_fds=numbers, cwd=ROOT, env=variables)
            stack.callback(process.wait)
            stack.callback(process.kill)
            for line in lines:
                line.close()
        device = IdleDevice(CompileLine(Channel(compile_line), ENVIRONMENT.device.compute_capability))
        thread = threading.Thread(
            target=answer_candidate, args=(Channel(device_line), CandidateService(device)), daemon=True
        )
        thread.start()
        yield Talk(Channel(judge), device)
        judge.close()
        thread.join(10)
        device_line.close()
        compile_line.close()


@pytest.mark.parametrize(
    "talk", [ROOT / "tasks/l1/sparsemax-rows/certified.py", HONEST / "custom_operator.py"], indirect=True
)
def test_kernels_stop_at_the_ir_and_are_compiled_where_the_device_is(talk: Talk) -> None:
    answer = talk.run("l1-09")
    assert not answer.get("error"), answer
    described = [talk.device.describe_tensor(handle) for handle in answer["outputs"]]
    assert [item["shape"] for item in described] == [[8, 256]]
    (usage,) = talk.device.record.kernels.values()
    assert usage.launches == 2
    (loaded,) = talk.device.kernels
    assert loaded.kernel.image.startswith(b"\x7fELF")


@pytest.mark.parametrize("talk", [HONEST / "autotune.py"], indirect=True)
def test_an_autotuner_lets_the_device_time_its_configurations(talk: Talk) -> None:
    answer = talk.run("l1-09")
    assert not answer.get("error"), answer
    assert talk.device.benched > 0
    assert len(talk.device.kernels) > 1


@pytest.mark.parametrize("talk", [ROOT / "tasks/l1/sparsemax-rows/certified.py"], indirect=True)
def test_what_the_compiler_refuses_reaches_the_submission(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> CompiledOnly:
        raise CannotCompile("OutOfResources: the GPU cannot load the kernel")

    monkeypatch.setattr(talk.device, "prepare", refuse)
    answer = talk.run("l1-09")
    assert "OutOfResources" in answer["error"]
