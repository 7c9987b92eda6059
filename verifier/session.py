"""One submission under verification: its process, its device, and the talk with both.

This module is the judge's side. It trusts the device and nothing that the submission's process says.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from verifier.boxes import Boxes
from verifier.candidate.channel import ChannelClosed, Message, ProtocolError
from verifier.candidate.slab import Slab
from verifier.faults import CandidateFault, InfrastructureFault
from verifier.limits import TimeLimits
from verifier.oracle import has_same_bits
from verifier.verdict import FailureCode

START_SECONDS = 60.0
# How long work may be held back while a call is queued; a call that takes longer waits for a result itself.
SHORTEST_HOLD = 0.25
LONGEST_HOLD = 20.0

Mode = Literal["checked", "profiled", "cold", "warm", "queued"]


class Answer(BaseModel):
    """What the submission's process may answer. Anything else is a breach of the protocol."""

    model_config = ConfigDict(extra="forbid", strict=True)

    nonce: str
    flags: list[str] = Field([], max_length=8)
    error: list[str] | None = Field(None, max_length=64)
    message: str = Field("", max_length=4_000)
    traceback: str = Field("", max_length=32_000)
    state: dict[str, int] = Field({}, max_length=20_000)
    outputs: list[int] = Field([], max_length=256)
    many: bool = False


Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True)
class DeviceInput:
    """A tensor that the judge put on the device."""

    name: str
    described: Message

    @property
    def handle(self) -> int:
        return int(self.described["handle"])


@dataclass
class CallRecord:
    """What the device saw during one call."""

    kernels: dict[str, Message] = field(default_factory=dict)
    library_calls: dict[str, int] = field(default_factory=dict)
    library_operations: dict[str, int] = field(default_factory=dict)
    narrowing: dict[str, int] = field(default_factory=dict)
    flags: dict[str, int] = field(default_factory=dict)
    uploaded: int = 0
    downloaded: int = 0
    replaced: int = 0
    events: dict[str, int] = field(default_factory=dict)
    fault: str = ""
    uninterpretable: list[str] = field(default_factory=list)
    measured: Message = field(default_factory=dict)
    outside_milliseconds: float = 0.0
    whole_milliseconds: float = 0.0


@dataclass(frozen=True)
class Ablation:
    """What a call is tried with: kernels whose writes become noise, their floats, and with `integers` these too."""

    digests: Sequence[str] = ()
    integers: bool = False
    # Kernels that get the call's inputs at other addresses than the submission knows.
    moved: Sequence[str] = ()


@dataclass
class CallResult:
    """The outputs of one call, as the device holds them, and what happened meanwhile."""

    outputs: list[torch.Tensor]
    places: list[Message]
    record: CallRecord


@dataclass(frozen=True)
class KernelText:
    """A kernel that the submission handed to the device: its Triton IR and compile options."""

    name: str
    digest: str
    options: dict[str, Any]
    text: str
    # Places of the parameters that reached words of the submission's own.
    own_words: tuple[int, ...] = ()

    @property
    def file(self) -> str:
        """The file that Triton's front end read it from."""
        match = re.search(r'^#loc\d* = loc\("([^"]*)":', self.text, re.MULTILINE)
        return match[1] if match else ""


ERROR_CODES = (
    ("NoEntryPoint", FailureCode.ART_NO_ENTRYPOINT),
    ("WrongState", FailureCode.ART_STATE_MISMATCH),
    ("WrongOutput", FailureCode.CORR_SHAPE_DTYPE),
    ("KernelDidNotEnd", FailureCode.ART_HANG),
    ("OutOfMemoryError", FailureCode.ART_OOM),
    ("MemoryError", FailureCode.ART_OOM),
    ("CompilationError", FailureCode.ART_COMPILE_ERROR),
    ("KernelRefused", FailureCode.ART_COMPILE_ERROR),
    ("CompileTimeAssertionFailure", FailureCode.ART_COMPILE_ERROR),
    ("OutOfResources", FailureCode.ART_COMPILE_ERROR),
    ("UnsupportedLanguageConstruct", FailureCode.ART_COMPILE_ERROR),
    ("TritonFrontEnd", FailureCode.ART_COMPILE_ERROR),
)
STAGE_CODES = {
    "load": FailureCode.ART_IMPORT_ERROR,
    "construct": FailureCode.ART_INIT_ERROR,
    "call": FailureCode.ART_RUNTIME_ERROR,
}


def classify_error(stage: str, kinds: list[str]) -> FailureCode:
    """Return the code of an exception raised at a stage, from the names of its type and bases."""
    if stage == "load" and "SyntaxError" in kinds:
        return FailureCode.ART_SYNTAX
    return next(
        (code for name, code in ERROR_CODES if name in kinds), STAGE_CODES.get(stage, FailureCode.ART_RUNTIME_ERROR)
    )


OutputType = tuple[list[int], str]


def check_outputs(described: list[Message], expected: list[OutputType], *, many: bool) -> None:
    """Check number, shapes and dtypes, before any value is read. Raises CandidateFault."""
    found = [(item["shape"], item["dtype"]) for item in described]
    if found != expected or many != (len(expected) > 1):
        texts = [", ".join(f"{dtype}{shape}" for shape, dtype in types[:8]) for types in (found, expected)]
        message = f"forward returned {f'({texts[0]})' if many else texts[0]}, expected {texts[1]}"
        raise CandidateFault(FailureCode.CORR_SHAPE_DTYPE, message)


class Session:
    """The talk with the candidate and device processes of one submission. Tensors pass through `slab`."""

    def __init__(self, boxes: Boxes, slab: Slab, where: torch.device, limits: TimeLimits) -> None:
        self.limits = limits
        self.candidate_process, self.candidate = boxes.candidate.process, boxes.candidate.channel
        self.device_process, self.device = boxes.device.process, boxes.device.channel
        self.slab, self.where = slab, where
        self.alive = True
        self.working = False
        self.model_state: dict[str, int] = {}
        self.flags: set[str] = set()
        self.poison = secrets.randbits(32)
        self.described: Message = {}
        self.given: dict[int, int] = {}
        self.hold = SHORTEST_HOLD
        self.waited = 0.0
        self.constructions: list[CallRecord] = []

    def ask_device(self, message: Message, seconds: float | None = None) -> tuple[Message, bytes]:
        """Ask the device. A device that does not answer is busy with the submission's work."""
        self.device.deadline = time.monotonic() + (seconds or self.limits.call)
        try:
            answer, data = self.device.ask(message)
        except TimeoutError as error:
            self.alive = False
            raise CandidateFault(
                FailureCode.ART_HANG, "the device was still busy with the submission's work"
            ) from error
        except (ChannelClosed, ProtocolError) as error:
            self.alive = False
            raise self.explain_device_end() from error
        if "error" in answer and message["do"] != "machine_code":
            raise self.explain_device_error(answer)
        return answer, data

    def explain_device_error(self, answer: Message) -> CandidateFault:
        """Return the fault of work that failed on the device: nothing can run there any more."""
        if answer["error"] == "OutOfDeviceMemory":
            return CandidateFault(FailureCode.ART_OOM, answer["message"])
        self.alive = False
        return CandidateFault(FailureCode.ART_RUNTIME_ERROR, answer["message"])

    def ask_candidate(self, message: Message, seconds: float) -> Answer:
        """Ask the submission's process. Raises CandidateFault for an error, a hang, an end, or a breach."""
        stage = str(message["do"])
        if not self.alive:
            raise CandidateFault(STAGE_CODES.get(stage, FailureCode.ART_RUNTIME_ERROR), "the process had ended before")
        nonce = secrets.token_hex(8)
        asked = time.monotonic()
        left = self.limits.whole - self.waited
        self.candidate.deadline = asked + min(seconds, left)
        try:
            raw, data = self.candidate.ask({**message, "nonce": nonce})
        except TimeoutError as error:
            self.alive = False
            limit = f"{seconds:.0f} s" if seconds <= left else f"the {self.limits.whole:.0f} s for all calls together"
            raise CandidateFault(FailureCode.ART_HANG, f"{stage} did not end within {limit}") from error
        except ProtocolError as error:
            self.alive = False
            raise CandidateFault(FailureCode.TAMPER_HARNESS, str(error)) from error
        except ChannelClosed as error:
            raise self.explain_end(stage) from error
        finally:
            self.waited += time.monotonic() - asked
        try:
            answer = Answer.model_validate(raw)
        except ValidationError as error:
            self.alive = False
            raise CandidateFault(FailureCode.TAMPER_HARNESS, "the process answered with a malformed message") from error
        if data or answer.nonce != nonce:
            self.alive = False
            raise CandidateFault(FailureCode.TAMPER_HARNESS, "the process answered a request that was not made")
        self.flags |= {flag[:60] for flag in answer.flags}
        if answer.error is not None and "ChannelClosed" in answer.error:
            self.alive = False
            raise self.explain_device_end()
        if answer.error is not None:
            raise CandidateFault(classify_error(stage, answer.error), answer.message, answer.traceback)
        return answer

    def explain_end(self, stage: str) -> CandidateFault:
        """Return the fault of a process that ended by itself or was killed."""
        self.alive = False
        status = self.candidate_process.finish(2.0)
        if self.candidate_process.reason == "out of memory":
            return CandidateFault(FailureCode.ART_OOM, "the process used more memory than the limit and was killed")
        reason = self.candidate_process.reason or f"exit status {status}"
        return CandidateFault(
            STAGE_CODES.get(stage, FailureCode.ART_RUNTIME_ERROR), f"the process ended during {stage} ({reason})"
        )

    def explain_device_end(self) -> CandidateFault | InfrastructureFault:
        """Return the fault of a device that was lost: the submission's, once it has been at work there."""
        if self.device_process.reason == "out of memory":
            return CandidateFault(FailureCode.ART_OOM, "the submission's work needed more device memory than the limit")
        if self.working:
            return CandidateFault(
                FailureCode.ART_RUNTIME_ERROR, "the device was lost while it ran the submission's work"
            )
        return InfrastructureFault(f"the device process ended: {self.device_process.output()[-500:]}")

    def wait_until_ready(self) -> None:
        """Wait for the device process to answer. Raises InfrastructureFault."""
        try:
            answer, _ = self.ask_device({"do": "mark", "poison": self.poison}, seconds=START_SECONDS)
        except CandidateFault as fault:
            raise InfrastructureFault("the device process did not start in time") from fault
        self.described = answer["device"]

    def load(self) -> None:
        """Import the submission."""
        self.working = True
        self.ask_candidate({"do": "load"}, self.limits.load)

    def construct(self, instance: int, arguments: list[Any], state: Tensors) -> list[DeviceInput]:
        """Construct an instance with the judge's state and return that state's tensors on the device."""
        placed = self.put(state)
        described = [
            {
                "name": item.name,
                "tensor": item.described,
                "shape": item.described["shape"],
                "dtype": item.described["dtype"],
            }
            for item in placed
        ]
        self.ask_device({"do": "open"})
        message = {"do": "construct", "instance": instance, "arguments": arguments, "state": described}
        self.model_state = self.ask_candidate(message, self.limits.load).state
        # What is done while constructing is judged for its precision too.
        self.constructions.append(self.end_record())
        return placed

    def list_changed_state(self, handles: dict[str, int], state: Tensors) -> list[str]:
        """Return which of the model's own parameters and buffers no longer hold `state`. One that was freed is gone."""
        answer, _ = self.ask_device({"do": "describe", "handles": list(handles.values())})
        changed = []
        for name, place in zip(handles, answer["tensors"], strict=True):
            value = state.get(name)
            if place is None or value is None:
                continue
            same_type = (place["shape"], place["dtype"]) == (list(value.shape), str(value.dtype).removeprefix("torch."))
            if not same_type or not has_same_bits(self.read([place]), [value]):
                changed.append(name)
        return changed

    def put(self, tensors: Tensors) -> list[DeviceInput]:
        """Put tensors on the device, at fresh addresses."""
        answer, _ = self.ask_device({"do": "put", "tensors": self.slab.write(tensors)})
        placed = [DeviceInput(name, item) for name, item in zip(tensors, answer["tensors"], strict=True)]
        self.given.update({item.handle: item.described["storage"] for item in placed})
        return placed

    def overwrite(self, items: list[DeviceInput], tensors: Tensors) -> None:
        """Put new values at the same addresses, unseen by the submission's process."""
        places = self.slab.write({item.name: tensors[item.name] for item in items})
        self.ask_device({"do": "overwrite", "handles": [item.handle for item in items], "tensors": places})

    def drop(self, handles: list[int]) -> None:
        """Forget tensors that the judge put on the device or held there."""
        for handle in handles:
            self.given.pop(handle, None)
        self.ask_device({"do": "drop", "handles": handles})

    def describe(self, handles: list[int]) -> list[Message]:
        """Return shapes, types and places of tensors. Raises CandidateFault when one does not exist."""
        answer, _ = self.ask_device({"do": "describe", "handles": handles})
        if None in answer["tensors"]:
            raise CandidateFault(FailureCode.TAMPER_HARNESS, "an output names a tensor that does not exist")
        return list(answer["tensors"])

    def read(self, described: list[Message]) -> list[torch.Tensor]:
        """Return the values of tensors whose sizes have been checked."""
        answer, _ = self.ask_device({"do": "read", "handles": [item["handle"] for item in described]})
        if [(item["shape"], item["dtype"]) for item in answer["tensors"]] != [
            (item["shape"], item["dtype"]) for item in described
        ]:
            raise CandidateFault(
                FailureCode.TAMPER_HARNESS, "a tensor changed its shape after the judge had looked at it"
            )
        found = self.slab.read(answer["tensors"], self.where)
        return [found[str(item["handle"])] for item in described]

    def call(  # noqa: PLR0913 - all named at the call
        self,
        instance: int,
        inputs: list[DeviceInput],
        expected: list[OutputType],
        *,
        mode: Mode = "checked",
        ablate: Ablation | None = None,
        first: bool = False,
        read: bool = True,
    ) -> CallResult:
        """Run one forward call and return what the device holds afterwards.

        `expected` are the shapes and dtypes that the outputs must have; without `read` the outputs stay on the device.
        Raises CandidateFault.
        """
        started = time.perf_counter()
        ablation = ablate or Ablation()
        noise = {"ablate": list(ablation.digests), "integers": ablation.integers, "noise": secrets.randbits(32)}
        handles = [item.handle for item in inputs]
        noise["move"] = list(ablation.moved)
        self.ask_device({"do": "begin", "mode": mode, "hold": self.hold, "inputs": handles, **noise})
        message = {"do": "call", "instance": instance, "inputs": [item.described for item in inputs]}
        try:
            asked = time.perf_counter()
            answer = self.ask_candidate(message, self.limits.first_call if first else self.limits.call)
            if mode == "checked" and not first:
                self.hold = min(LONGEST_HOLD, max(self.hold, 3 * (time.perf_counter() - asked)))
        except CandidateFault as fault:
            fault.record = self.end_failed_call(fault)
            raise
        # The device is closed before anything is looked at, so that nothing changes between one look and the next.
        record = self.end_record()
        record.whole_milliseconds = (time.perf_counter() - started) * 1e3
        try:
            places = self.keep_outputs(answer, expected)
            return CallResult(self.read(places) if read else [], places, record)
        except CandidateFault as fault:
            fault.record = record
            raise

    def keep_outputs(self, answer: Answer, expected: list[OutputType]) -> list[Message]:
        """Check what a call returned, and keep it on the device. Raises CandidateFault."""
        described = self.describe(answer.outputs)
        check_outputs(described, expected, many=answer.many)
        held, _ = self.ask_device({"do": "hold", "handles": answer.outputs})
        return [{**item, "handle": handle} for item, handle in zip(described, held["handles"], strict=True)]

    def call_queued(self, instance: int, inputs: list[DeviceInput], count: int) -> CallRecord:
        """Queue many calls on the same inputs behind one hold, and return their record. Raises CandidateFault."""
        handles = [item.handle for item in inputs]
        self.ask_device({"do": "begin", "mode": "queued", "hold": LONGEST_HOLD, "inputs": handles})
        message = {"do": "call", "instance": instance, "inputs": [item.described for item in inputs]}
        for _ in range(count):
            self.ask_candidate(message, self.limits.call)
        return self.end_record()

    def end_failed_call(self, fault: CandidateFault) -> CallRecord | None:
        """Return the record of a call that failed, when the device can still say."""
        try:
            return self.end_record() if fault.code is not FailureCode.ART_HANG else None
        except (CandidateFault, InfrastructureFault):
            return None

    def end_record(self) -> CallRecord:
        """Return what the device saw since the call began; the judge's clock times the answer."""
        asked = time.perf_counter()
        answer, _ = self.ask_device({"do": "end"})
        return CallRecord(**answer, outside_milliseconds=(time.perf_counter() - asked) * 1e3)

    def time_nothing(self, mode: Mode) -> CallRecord:
        """Time an empty call, to calibrate the judge's clock."""
        self.ask_device({"do": "begin", "mode": mode, "hold": self.hold})
        return self.end_record()

    def list_kernels(self) -> list[KernelText]:
        """Return every kernel that was handed to the device."""
        answer, data = self.ask_device({"do": "kernels"})
        kernels, offset = [], 0
        for item in answer["kernels"]:
            text = data[offset : offset + item["bytes"]].decode()
            offset += item["bytes"]
            own = tuple(item["own_words"])
            kernels.append(KernelText(item["name"], item["digest"], item["options"], text, own))
        return kernels

    def read_machine_code(self, kernels: list[KernelText]) -> list[Message]:
        """Return the machine code that a GPU loaded for kernels, with what it uses."""
        results = []
        for kernel in kernels:
            answer, text = self.ask_device({"do": "machine_code", "digest": kernel.digest})
            results.append({**answer, "sass": text.decode(errors="replace")})
        return results

    def output(self) -> str:
        """Return what the submission printed. Hostile text."""
        return self.candidate_process.output()
