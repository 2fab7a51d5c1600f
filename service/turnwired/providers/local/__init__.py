"""The embedded model: weights in the user's cache, llama.cpp in a child process, both pinned by this release."""
