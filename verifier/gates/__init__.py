"""The gates. Each is one class with `gate`, `run(trial)` and the checks that it makes."""
