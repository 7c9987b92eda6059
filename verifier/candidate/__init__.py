"""The fixed program inside the sandbox that loads a submission and calls it.

Everything in this package may be read by the submission, and nothing in it decides anything.
"""
