"""The GPU as a device: kernels loaded from machine code of our own making, launches, poison, noise, and the stopwatch."""
