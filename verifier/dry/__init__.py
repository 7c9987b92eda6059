"""A device that keeps shapes and addresses but no values: kernels are compiled for it and never run."""
