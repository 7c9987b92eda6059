"""Runs a task's certified solution once, between the marks that a profiler of NVIDIA's looks for.

``python -m verifier.replay TASK``. It runs what the house wrote, in no box: never give it a submission.
"""

from __future__ import annotations

import sys

import torch

from verifier.gpu.device import pin_settings
from verifier.modules import load_module, load_task_modules
from verifier.task import load_task

WARM_UPS = 3
SEED = 1


def replay(name: str) -> None:
    """Run the certified solution of a task on a GPU at the timed dims, on its first distribution."""
    task = load_task(name)
    modules, certified = load_task_modules(task), load_module(task.path / "certified.py")
    dims, where = task.specification.dims.timed, torch.device("cuda")
    pin_settings()
    torch.manual_seed(SEED)
    arguments = modules.get_init_inputs(dims)
    state = modules.reference.Model(*arguments).to(where).state_dict()
    model = certified.ModelNew(*arguments).to(where).eval()
    model.load_state_dict(state)
    generator = torch.Generator(where).manual_seed(SEED)
    inputs = modules.generate(task.specification.distributions[0].name, dims, generator)
    with torch.no_grad():
        for _ in range(WARM_UPS):
            model(*inputs.values())
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        model(*inputs.values())
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


if __name__ == "__main__":
    replay(sys.argv[1])
