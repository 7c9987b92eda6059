"""Tasks as a taskset of the library `verifiers` (0.4): a model answers with a file, and `reward` scores it.

The library is no dependency of this project: `pip install verifiers==0.4.0`. Where agents work with tools, let its Harbor
taskset run what `kq export harbor` wrote; this is the short way, for models that answer at once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

from verifier.rewards import reward
from verifier.task import load_task, load_tasks

try:
    import verifiers.v1 as vf
except ImportError:
    vf = None

ENVIRONMENT = "cpu-interpreter"
_BLOCK = re.compile(r"^```(?:python)?[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
ASK = "\n\nAnswer with one Python file that defines ModelNew, in one block of code."


def extract_code(answer: str) -> str:
    """Return the last block of code of an answer, or an empty text."""
    blocks: list[str] = _BLOCK.findall(answer)
    return blocks[-1] if blocks else ""


def score_answer(task: str, answer: str) -> float:
    """Return the reward of an answer. Raises NoReward when this host failed: then the rollout is no sample."""
    return reward(task, extract_code(answer), ENVIRONMENT)


def make_prompt(task: str) -> str:
    """Return what a model is asked."""
    found = load_task(task)
    return f"{found.instruction}\n\n```python\n{found.reference_source}```{ASK}"


if vf is not None:

    class KernelTask(vf.Task[vf.TaskData]):
        """One task, whose name is its id."""

        @vf.reward(weight=1.0)
        async def verified(self, trace: vf.Trace) -> float:
            """Verify the answer beside the event loop: it takes seconds."""
            return await asyncio.to_thread(score_answer, self.data.name or "", trace.last_reply)

    class KernelTasks(vf.Taskset[KernelTask, vf.TasksetConfig]):
        """All tasks."""

        def load(self) -> Iterator[KernelTask]:
            """Yield the tasks."""
            for task in load_tasks():
                yield KernelTask(vf.TaskData(name=task.id, prompt=make_prompt(task.id)), self.config.task)
