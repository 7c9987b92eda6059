"""Which kernels ran, for how long, and on whose behalf: PyTorch's profiler, in the process that does the launching."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from verifier.candidate.channel import Message

# One recording is one cycle.
warnings.filterwarnings("ignore", message="Warning: Profiler clears events")


class Profiler:
    """Records the GPU's activity between `start` and `stop`; `label` says for whom something is launched."""

    def __init__(self) -> None:
        self.running: profile | None = None

    def warm_up(self) -> None:
        """Start and stop once: the first start takes seconds."""
        self.start()
        torch.zeros(1, device="cuda")
        self.stop()

    def start(self) -> None:
        self.running = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
        self.running.__enter__()

    @contextmanager
    def label(self, text: str) -> Iterator[None]:
        """Mark what is launched inside, while recording."""
        if self.running is None:
            yield
            return
        with record_function(f"kq {text}"):
            yield

    def stop(self) -> list[Message]:
        """Return one entry a kernel, copy or fill: name, label, microseconds, and a graph's number where there is one."""
        if self.running is None:
            return []
        torch.cuda.synchronize()
        running, self.running = self.running, None
        running.__exit__(None, None, None)
        return list_activities(running)


def list_activities(recorded: profile) -> list[Message]:
    """Return the GPU's activities, each with the label of the launch that it belongs to."""
    events = list(recorded.profiler.kineto_results.events())
    labels = sorted(
        (event.start_ns(), event.start_ns() + event.duration_ns(), event.name().removeprefix("kq "))
        for event in events
        if event.name().startswith("kq ") and event.device_type() == torch.autograd.DeviceType.CPU
    )
    launches = {
        event.correlation_id(): event.start_ns()
        for event in events
        if event.device_type() == torch.autograd.DeviceType.CPU and event.correlation_id()
    }
    activities = []
    for event in events:
        if event.device_type() != torch.autograd.DeviceType.CUDA or event.name().startswith("kq "):
            continue
        started = launches.get(event.correlation_id())
        activities.append(
            {
                "name": event.name()[:300],
                "label": find_label(labels, started),
                "microseconds": event.duration_ns() / 1e3,
            }
        )
    return activities


def find_label(labels: list[tuple[int, int, str]], started: int | None) -> str:
    """Return the label around a launch, or an empty text."""
    if started is None:
        return ""
    return next((text for begin, end, text in labels if begin <= started <= end), "")
