"""The KernelQuest verifier: (task, solution, environment) in, verdict out.

No Django here. `verifier.verdict`, `verifier.task`, `verifier.environment`, `verifier.reward` and
`verifier.floor` are safe to import anywhere; everything else may need torch and Triton.
"""

__version__ = "0.1.0"
