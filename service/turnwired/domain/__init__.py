"""The values that every other package speaks in. Imports nothing of ours."""
