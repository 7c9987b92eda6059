"""The device process of a dry run.

Run as ``python -m verifier.dry.service SETTINGS``: the inherited lines, the memory and the compute capability, as JSON.
"""

from __future__ import annotations

import json
import socket
import sys

import torch

from verifier.candidate.channel import Channel
from verifier.device.service import serve
from verifier.dry.device import DryDevice
from verifier.dry.shapes import ShapeSlab
from verifier.gpu.compiling import CompileLine


def main() -> None:
    """Serve on the inherited sockets: the judge's, the submission's, and that to the compile box."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    settings = json.loads(sys.argv[1])
    judge, candidate, compiler = (Channel(socket.socket(fileno=number)) for number in settings["lines"])
    device = DryDevice(CompileLine(compiler, settings["capability"]), settings["memory_bytes"])
    serve(candidate, judge, device, ShapeSlab())


if __name__ == "__main__":
    main()
