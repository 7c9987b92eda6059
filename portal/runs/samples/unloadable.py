# task: l1-09
# A file that does not load: it imports a module that does not exist where solutions run.
import torch
from sparsemax_kernels import project_rows
from torch import nn


class ModelNew(nn.Module):
    def forward(self, z):
        p = torch.empty_like(z)
        project_rows(z, p)
        return p
