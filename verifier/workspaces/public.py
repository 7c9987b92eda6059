"""The part of a task that an agent may see, as a task of its own: nothing hidden, and nothing certified."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from verifier.task import Task, load_task_folder

# Said where a reason would tell what the hidden inputs are like.
REASON = 'why = "as the instruction says"'
_TABLE = re.compile(r"^(?=\[)", re.MULTILINE)
_REASON = re.compile(r"^why = .*$", re.MULTILINE)
_COMMENT = re.compile(r"^#.*\n", re.MULTILINE)
_PRIVATE = ("[[shortcuts]]",)

ORACLE = '''"""The oracle of a workspace: the reference itself, in float64 where its operators allow that.

The benchmark has another one, and inputs that are not here.
"""

import importlib.util
from pathlib import Path

import torch

_models = {}


def _load_model(dims):
    key = tuple(sorted(dims.items()))
    if key not in _models:
        spec = importlib.util.spec_from_file_location("visible_reference", Path(__file__).with_name("reference.py"))
        reference = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(reference)
        with torch.random.fork_rng():
            _models[key] = reference.Model(*reference.get_init_inputs(dims)).eval()
    return _models[key]


def generate(distribution, dims, generator):
    """Raise ValueError: other inputs than the visible ones are not here."""
    raise ValueError(f"the distribution {distribution!r} is not part of a workspace")


def compute_oracle(inputs, state, dims):
    """Return the outputs of the reference with these parameters."""
    where = next(iter(inputs.values())).device
    model = _load_model(dims).to(where)
    with torch.no_grad():
        try:
            result = run(model.double(), state, inputs, torch.float64)
        except RuntimeError:
            # Some references choose the precision of their steps themselves.
            result = run(model.float(), state, inputs, None)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)


def run(model, state, inputs, dtype):
    """Run the model on inputs, all floats in one dtype, or each tensor as it is."""
    if dtype is None:
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if name in state:
                tensor.data = tensor.data.to(state[name].dtype)
        wide = inputs
    else:
        wide = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    model.load_state_dict(state, strict=False)
    return model(*wide.values())
'''
NO_SOLUTION = '"""Certified solutions are not part of a workspace."""\n'


def select_visible(text: str) -> str:
    """Return a task's file without what is hidden: distributions, known shortcuts, reasons and comments."""
    tables = _TABLE.split(_COMMENT.sub("", text))
    kept = [
        table
        for table in tables
        if not table.startswith(_PRIVATE) and not (table.startswith("[[distributions]]") and "visible = false" in table)
    ]
    return "".join(_REASON.sub(REASON, table) for table in kept)


def write_public_task(task: Task, root: Path) -> Task:
    """Write the visible part of a task below `root`, and return it. Raises TaskError when it makes no sound task."""
    folder = root / task.specification.level.lower() / task.specification.slug
    folder.mkdir(parents=True)
    text = (task.path / "task.toml").read_text(encoding="utf-8")
    (folder / "task.toml").write_text(select_visible(text), encoding="utf-8")
    for name in ("instruction.md", "reference.py"):
        shutil.copyfile(task.path / name, folder / name)
    (folder / "hidden.py").write_text(ORACLE, encoding="utf-8")
    (folder / "certified.py").write_text(NO_SOLUTION, encoding="utf-8")
    return load_task_folder(folder)
