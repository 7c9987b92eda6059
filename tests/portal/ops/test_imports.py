from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

IMPORT = """
import sys, django
django.setup()
import portal.urls, portal.wsgi, portal.runs.tasks, portal.ops.supervisor
print(sorted({"torch", "triton"} & set(sys.modules)))
"""


def test_no_process_of_django_loads_pytorch_or_triton(tmp_path: Path) -> None:
    """A web host has neither; a worker forks, which CUDA does not survive."""
    environment = {"PATH": os.environ["PATH"], "PORTAL_VAR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "portal.settings"}
    output = subprocess.run([sys.executable, "-c", IMPORT], env=environment, check=True, capture_output=True, text=True)
    assert output.stdout.strip() == "[]"
