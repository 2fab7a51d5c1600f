"""Operator tools: files, HTTP and the inspector of Node processes, for those who run a deployment.

Off by default. Each reaches what the configuration names and nothing else; who may call one is decided elsewhere.
"""
