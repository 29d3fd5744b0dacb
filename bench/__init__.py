"""The benchmarks: `python -m bench` measures, and writes docs/benchmarks.md."""
