"""Benchmarks of the service beside the floors of its trade. See docs/performance.md; run by scripts/bench.py."""
